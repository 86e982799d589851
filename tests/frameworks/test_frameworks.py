"""Agent frameworks with clients of their own for MCP, each in its environment and process, at a gateway that is served on a port.

`make frameworks` builds the environments from modern.txt and langchain.txt, as what these frameworks ask for cannot be installed together.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.adapters.agents import POLICY
from tests.frameworks.part import Part, Played
from tests.gateway.governed import PRINCIPALS, Upstream, project, upstream

ROOT = Path(__file__).parents[2]
MAX_DURATION_S = 600
ENVIRONMENTS = {
    "pydantic_ai": "modern",
    "openai_agents": "modern",
    "llama_index": "modern",
    "google_adk": "modern",
    "langgraph": "langchain",
}
FRAMEWORKS = sorted(ENVIRONMENTS)
ASKING = ["google_adk", "langgraph", "pydantic_ai"]  # whose clients can put a question to a person
READ = ("orders__list_orders", {"tenant_id": "acme"})
FAILS = ("orders__get_health", {})
DENIED = ("orders__check_fraud", {"order": "x"})
INVALID = ("orders__list_orders", {"tenant_id": ["acme"]})
ASKED = ("orders__create_order", {"tenant_id": "acme", "amount_cents": 5})
SHOWN = ["orders__check_fraud", "orders__create_order", "orders__get_health", "orders__list_orders"]
RULES = [
    {"id": "reads", "to": ["bot"], "tools": ["orders__*"], "effects": ["read"], "verdict": "allow"},
    {"id": "never", "to": ["bot"], "tools": ["orders__check_fraud"], "when": "args.order == 'x'", "verdict": "deny"},
    {"id": "asks", "to": ["bot"], "tools": ["orders__create_order"], "verdict": "ask"},
]


@contextmanager
def served(root: Path) -> Iterator[tuple[str, Upstream]]:
    """A gateway in a process of its own, behind it an API that answers 500 for its health, and before it a lead who may answer."""
    with upstream() as (seen, server):
        seen.faults["/health"] = 500
        lena = {"roles": ["lead"], "api_key": PRINCIPALS["ann"]["api_key"]}
        policy: dict[str, Any] = {"principals": {"bot": PRINCIPALS["bot"], "lena": lena, "ann": {}, "eve": {}}}
        approvals = {**POLICY["approvals"], "elicitation": "allow"}
        path = project(root, server, {**policy, "rules": RULES, "approvals": approvals})
        command = [sys.executable, "-m", "toolgen", "serve", "--port", "0"]
        process = subprocess.Popen(command, cwd=path.parent, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            yield next(line.split()[-1] for line in process.stderr if "listening on" in line), seen
        finally:
            process.terminate()
            process.communicate()


def environment(framework: str) -> Path:
    """Where it is installed; the test is skipped where it is not, before anything is started for it."""
    place = ROOT / f".venv-frameworks-{ENVIRONMENTS[framework]}"
    if not (place / ".installed").exists():
        pytest.skip(f"the environment of {framework} is not installed: `make frameworks` does that")
    return place


def played(framework: str, url: str, *turns: list[Any], person: bool = True) -> Played:
    """What the framework's agent saw of its part."""
    place = environment(framework)
    part = Part(url=f"{url}/mcp", key="key-of-bot", turns=[*turns], person=person)
    done = subprocess.run(
        [place / "bin" / "python", "-m", f"tests.frameworks.with_{framework}"],
        cwd=ROOT,
        env={**os.environ, "NO_PROXY": "*"},
        input=json.dumps(asdict(part)),
        capture_output=True,
        text=True,
        check=False,
        timeout=MAX_DURATION_S,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return Played(**{**seen, "told": [tuple(told) for told in seen["told"]]})


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_model_is_shown_its_tools_and_told_how_each_call_ended(framework: str, tmp_path: Path) -> None:
    environment(framework)
    with served(tmp_path / "project") as (url, seen):
        found = played(framework, url, [READ], [FAILS], [DENIED], [INVALID], [ASKED])
        assert sorted(found.shown) == SHOWN
        assert found.said == "done"
        texts, marks = [text for text, _ in found.told], [mark for _, mark in found.told]
        assert fine(texts[0])
        # Each says what happened, and what to do: as text, or as the envelope where the framework prefers what is structured.
        words = (
            ("upstream_error", "500", "try again later"),
            ("forbidden", "rule never"),
            ("validation", "tenant_id", "correct the arguments"),
        )
        for text, said in zip(texts[1:4], words, strict=True):
            assert [word for word in said if word not in text] == []
        asked = framework in ASKING
        assert marks in ([False, True, True, True, not asked], [None] * 5, [False] * 5)
        if asked:
            (question,) = found.asked
            assert question.startswith("orders__create_order (write) is to be called with exactly these arguments:")
            assert "amount_cents = 5" in question
            assert fine(texts[4])
        else:
            assert found.asked == []
            assert made(seen) == []
            before = len(seen.requests)
            agree(url, texts[4])
            seen.reached(before + 1)
    assert made(seen) == ["/orders"]
    assert {path for _, path, _ in seen.requests} == {"/orders?tenant_id=acme", "/health", "/orders"}


@pytest.mark.parametrize("framework", ASKING)
def test_nothing_is_sent_when_the_person_at_the_client_does_not_agree(framework: str, tmp_path: Path) -> None:
    environment(framework)
    with served(tmp_path / "project") as (url, seen):
        found = played(framework, url, [ASKED], person=False)
    ((text, mark),) = found.told
    assert "approval_denied" in text
    assert "a person denied this call" in text
    assert mark is True
    assert seen.requests == []


def fine(text: str) -> bool:
    """Whether a text has what the API answers, in JSON or in text of JSON."""
    return '"ok":true' in text.replace(" ", "").replace("\\", "")


def made(seen: Upstream) -> list[str]:
    """The paths at which something was changed."""
    return [path for method, path, _ in seen.requests if method == "POST"]


def agree(url: str, told: str) -> None:
    """Lena approves the one call that waits, of which the model was told."""
    with httpx.Client(base_url=url, headers={"authorization": "Bearer key-of-ann"}, timeout=MAX_DURATION_S) as lena:
        (waiting,) = lena.get("/v1/approvals").json()["approvals"]
        assert "approval_required: " in told
        assert "Nothing has been carried out yet" in told
        assert waiting["id"] in told
        lena.post(f"/v1/approvals/{waiting['id']}", json={"decision": "approve"}).raise_for_status()
