"""`toolgen audit reconcile` over records of real calls that broke off."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, runner
from tests.connectors.failing import FINE, Server, reset
from tests.gateway.governed import PRINCIPALS
from tests.gateway.test_idempotency_keys import again, loaded, send

_BOB = {"issuer": "https://login.example", "jwks": "https://login.example/keys", "subject": "bob"}
REVIEWER = {
    "principals": {
        **PRINCIPALS,
        "rita": {"roles": ["reviewer"]},
        "bot": {**PRINCIPALS["bot"], "roles": ["bot", "reviewer"], "jwt": {**_BOB, "audience": "bots"}},
        "bob": {"roles": ["reviewer"], "jwt": {**_BOB, "audience": "people"}},  # the same person by another name
    }
}


@pytest.fixture
def command(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """`toolgen audit reconcile` in the project of the test."""
    run = runner(capfdbinary)
    return lambda *words: run("audit", "reconcile", *words, "--config", str(tmp_path / "toolgen.yaml"))


@pytest.fixture
def broken(tmp_path: Path) -> Any:
    """A call that was sent and not answered."""

    async def scenario() -> Any:
        server = Server([reset, FINE])
        async with server.serving() as url, loaded(tmp_path, url, **REVIEWER) as gateway:
            await send(gateway, "fine", name="orders__get_health", arguments={})
            server.heads.clear()
            return await send(gateway)

    return asyncio.run(scenario())


def test_a_call_in_doubt_is_listed_with_what_finds_it_and_is_not_once_somebody_found_out(
    tmp_path: Path, command: Run, broken: Any
) -> None:
    assert broken.error.code == "outcome_unknown"
    [row] = command("--json").json()
    assert (row["call_id"], row["doubt"], row["principal"]) == (broken.call_id, "outcome_unknown", "bot")
    assert row["request"].startswith("POST http://127.0.0.1:")
    assert row["request"].endswith("/mail")
    assert row["idempotency_key"].startswith("tg_")
    assert row["arguments"] == {"to": "canary-ann"}
    assert broken.call_id in command().out
    recorded = command(broken.call_id, "--happened", "--note", "in outbox 3", "--as", "rita")
    assert (recorded.code, recorded.out) == (0, f"recorded: {broken.call_id} happened\n")
    assert broken.call_id not in command().out
    lines = "".join(path.read_text() for path in sorted((tmp_path / "var/audit").glob("*.jsonl"))).split("\n")
    [entry] = [json.loads(line.strip("\0")) for line in lines if '"reconcile"' in line]
    assert (entry["principal"], entry["status"], entry["arguments"]) == (
        "rita",
        "happened",
        {"note": "in outbox 3"},
    )
    assert command(broken.call_id, "--did-not-happen", "--as", "rita").code == 1  # the first finding stands


@pytest.mark.parametrize(("found", "status"), [("--happened", "error"), ("--did-not-happen", "ok")])
async def test_only_a_call_that_did_not_happen_gives_its_key_back(
    tmp_path: Path, command: Run, broken: Any, found: str, status: str
) -> None:
    assert command(broken.call_id, found, "--as", "rita").code == 0
    server = Server([FINE])
    async with server.serving() as url:
        settings = json.loads((tmp_path / "toolgen.yaml").read_text())
        settings["sources"]["orders"]["server"] = url
        (tmp_path / "toolgen.yaml").write_text(json.dumps(settings))
        async with again(tmp_path) as gateway:
            repeated = await send(gateway)
    assert repeated.status == status


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("call_none", "--happened", "--as", "rita"), "no call call_none has an unknown outcome"),
        (("{}", "--happened", "--as", "ann"), "does not have the role reviewer"),
        (("{}", "--happened", "--as", "bot"), "your own call"),
        (("{}", "--happened", "--as", "bob"), "your own call"),
        (("{}", "--happened", "--as", "nobody"), "nobody"),
        (("{}",), "name a call and its outcome"),
        (("--happened",), "name a call and its outcome"),
        (("{}", "--happened", "--note", "x" * 501, "--as", "rita"), "more than 500"),
    ],
)
def test_who_may_not_say_so_changes_nothing(command: Run, broken: Any, words: tuple[str, ...], said: str) -> None:
    refused = command(*(word.format(broken.call_id) for word in words))
    assert refused.code != 0
    assert said in refused.err
    assert broken.call_id in command().out
