"""The REST interface against its own description: schemathesis reads /openapi.json and asks a real gateway, behind a real API."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import patient
from tests.exhaustive import size
from tests.gateway.governed import PRINCIPALS, Upstream, project, upstream

_KEY = "key-of-bot"
_POLICY: dict[str, Any] = {
    "principals": {
        **PRINCIPALS,
        "bot": {**PRINCIPALS["bot"], "roles": ["bot", "reviewer"]},
        "lead": {"roles": ["lead"], "api_key": PRINCIPALS["ann"]["api_key"]},
        "ann": {"roles": ["user"]},
    },
    "rules": [
        {"id": "reads", "to": ["bot"], "tools": ["orders__*"], "effects": ["read"], "verdict": "allow"},
        {"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow"},
        {"id": "asks", "to": ["bot"], "tools": ["orders__create_*"], "verdict": "ask"},
    ],
    "approvals": {"approvers": ["lead"]},
    "toolsets": {"quick": {"tools": ["orders__list_*"]}},
}


@contextmanager
def served(root: Path) -> Iterator[tuple[str, Upstream]]:
    """A gateway of its own process, and what its API saw."""
    with upstream() as (seen, server):
        path = project(root, server, _POLICY)
        command = [sys.executable, "-m", "toolgen", "serve", "--port", "0"]
        process = subprocess.Popen(command, cwd=path.parent, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            url = next(line.split()[-1] for line in process.stderr if "listening on" in line)
            yield url, seen
        finally:
            process.terminate()
            process.wait(120)
            process.stderr.close()  # type: ignore[union-attr]


def waiting(url: str) -> str:
    """The id of a call that waits for somebody, so that the routes about such calls have one to speak of."""
    order = {"tenant_id": "acme", "amount_cents": 5}
    answer = patient.post(
        f"{url}/v1/tools/orders__create_order/call",
        headers={"Authorization": f"Bearer {_KEY}"},
        json={"arguments": order, "wait": 0},
    )
    assert answer.status_code == 202, answer.text
    return str(answer.json()["call_id"])


def ended(url: str) -> str:
    """The id of a call whose events are over at once."""
    call_id = waiting(url)
    answer = patient.post(f"{url}/v1/calls/{call_id}/cancel", headers={"Authorization": f"Bearer {_KEY}"})
    assert answer.json()["status"] == "cancelled"
    return call_id


def narrowed(url: str, call_id: str, over: str) -> dict[str, Any]:
    """The description as it is served, with names and ids there are: it is the same for everybody, and so cannot hold any."""
    document: dict[str, Any] = patient.get(f"{url}/openapi.json", headers={"Authorization": f"Bearer {_KEY}"}).json()
    # Tools that take any object: what another takes is in its own schema, so that it may refuse what this description allows.
    tools = ["orders__get_health", "orders__check_fraud", "orders__send_mail", "nothing"]
    known: dict[str, list[object]] = {
        "name": tools,
        "id": [call_id, "nothing"],
        "seq": [0, 1, 2, 999999],
        "token": ["A" * 64],
    }
    for name, path in document["paths"].items():
        known["id"] = [over, "nothing"] if name.endswith("/events") else [call_id, "nothing"]
        for operation in path.values():
            if name == "/v1/files":  # a media type that the bytes contradict is refused, which no schema can say
                content = operation["requestBody"]["content"]
                content["application/octet-stream"] = content.pop("*/*")
            # A key in the header and another in the body are refused, which no schema can say: drawn keys come in the body alone.
            if any(one["name"] == "Idempotency-Key" for one in operation.get("parameters", ())):
                operation["parameters"] = [one for one in operation["parameters"] if one["name"] != "Idempotency-Key"]
            for parameter in operation.get("parameters", ()):
                if name == "/v1/device/requests" and parameter["name"] == "wait":
                    parameter["schema"] = {"enum": [1]}  # it waits for as long as nothing changes
                if parameter["in"] == "path" and parameter["name"] in known:
                    parameter["schema"] = {"enum": known[parameter["name"]]}
    return document


@pytest.mark.sweep
@pytest.mark.parametrize("seed", [1])
def test_schemathesis_finds_nothing(tmp_path: Path, seed: int) -> None:
    with served(tmp_path / "project") as (url, seen):
        description = tmp_path / "openapi.json"
        description.write_text(json.dumps(narrowed(url, waiting(url), ended(url))), encoding="utf-8")
        tool = Path(sys.executable).parent / "schemathesis"
        options = ["--checks", "all", "--max-examples", str(size("TOOLGEN_EXAMPLES", 1, 25)), "--seed", str(seed)]
        options += ["--header", f"Authorization: Bearer {_KEY}", "--request-timeout", "30", "--continue-on-failure"]
        quiet = ["--generation-database", "none", "--no-color"]
        done = subprocess.run(
            [tool, "run", description, "--url", url, *options, *quiet],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert seen.requests, "schemathesis never came through to a tool"
