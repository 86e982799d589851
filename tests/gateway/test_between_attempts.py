"""Between two attempts of a call the world goes on: what was paused or revoked meanwhile is not sent again."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.failing import FINE, Server, saying
from tests.gateway.governed import project, write_policy
from toolgen.connectors.resilience import Chance, ResilientExecutor
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Principal
from toolgen.policy.key_list import editing
from toolgen.state.pauses import Pause

READS = {"id": "reads", "to": ["bot"], "tools": ["*"], "effects": ["read"], "verdict": "allow"}
HEALTH = "orders__get_health"
Change = Callable[[Path, Gateway], None]


class Waiting:
    """The wait before an attempt, which ends when the test says so."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.over = asyncio.Event()

    async def sleep(self, _: float) -> None:
        self.begun.set()
        await self.over.wait()


def paused(**what: str) -> Change:
    return lambda _, gateway: (gateway.pausing.local.change(lambda known: (*known, Pause(since=0.0, **what))), None)[1]


def revoked(root: Path, _: Gateway) -> None:
    with editing(root / "policies") as found:
        found.revoked.append({"key": "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest()})


def another_policy(*rules: Any) -> Change:
    return lambda root, _: write_policy(root, {"rules": list(rules)})


CHANGES: dict[str, tuple[Change, str]] = {
    "its caller is paused": (paused(principal="bot"), "are paused"),
    "its source is paused": (paused(source="orders"), "are paused"),
    "its tool is paused": (paused(tool=HEALTH), "are paused"),
    "its caller's key is revoked": (revoked, "has changed since"),
    "nothing allows it any more": (another_policy({**READS, "tools": ["orders__list_*"]}), "has changed since"),
    "a person has to approve": (another_policy(READS, {**READS, "id": "asks", "verdict": "ask"}), "has changed"),
}
HARMLESS: dict[str, Change] = {
    "nothing happens": lambda *_: None,
    "another tool is paused": paused(tool="orders__list_orders"),
    "the policy says more of others": another_policy(READS, {**READS, "id": "more", "to": ["user"]}),
}


async def tried(root: Path, change: Change, auth: Any = None) -> tuple[Any, list[bytes]]:
    """A call whose system is busy at first, with a change in the wait before its second attempt; and what was sent."""
    server = Server([saying("503 Busy", "Retry-After: 1\r\n"), FINE])
    async with server.serving() as url:
        path = project(root, url, {"rules": [READS]})
        if auth is not None:
            _with_a_key(path, auth)
        return await _tried(path, change, server)


def _with_a_key(path: Path, auth: Any) -> None:
    """Lets every operation of the API ask for a key in a header."""
    settings = json.loads(path.read_text())
    settings["sources"]["orders"]["auth"] = {"key": auth}
    path.write_text(json.dumps(settings))
    described = path.parent / "specs" / "orders.json"
    schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}
    more = {"components": {"securitySchemes": schemes}, "security": [{"key": []}]}
    described.write_text(json.dumps({**json.loads(described.read_text()), **more}))


async def _tried(path: Path, change: Change, server: Server) -> tuple[Any, list[bytes]]:
    root = path.parent
    async with Gateway.load(path) as gateway:
        waiting, executor = Waiting(), gateway._executors["orders"]
        assert isinstance(executor, ResilientExecutor)
        executor._chance = Chance(sleep=waiting.sleep)
        bot = await gateway.callers.authenticate("key-of-bot")
        assert isinstance(bot, Principal)
        calling = asyncio.ensure_future(gateway.call(HEALTH, {}, principal=bot))
        await waiting.begun.wait()
        change(root, gateway)
        await gateway.operations.reload()
        waiting.over.set()
        return await calling, server.heads


@pytest.mark.parametrize("what", CHANGES)
async def test_a_call_is_not_sent_again_once(tmp_path: Path, what: str) -> None:
    change, said = CHANGES[what]
    envelope, sent = await tried(tmp_path, change)
    assert len(sent) == 1
    assert (envelope.status, envelope.error.code) == ("error", "upstream_error")
    assert said in envelope.error.message


@pytest.mark.parametrize("what", HARMLESS)
async def test_a_call_is_sent_again_where(tmp_path: Path, what: str) -> None:
    envelope, sent = await tried(tmp_path, HARMLESS[what])
    assert (envelope.status, len(sent)) == ("ok", 2)


async def test_a_secret_that_is_replaced_between_two_attempts_is_shown_with_the_second(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("first-secret")

    def replaced(*_: Any) -> None:
        (tmp_path / "next").write_text("second-secret")
        (tmp_path / "next").replace(file)

    envelope, sent = await tried(tmp_path / "p", replaced, f"${{file:{file}}}")
    assert envelope.status == "ok"
    assert [b"first-secret" in head for head in sent] == [True, False]
    assert [b"second-secret" in head for head in sent] == [False, True]


async def test_a_secret_that_is_gone_between_two_attempts_ends_the_call(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("first-secret")
    envelope, sent = await tried(tmp_path / "p", lambda *_: file.unlink(), f"${{file:{file}}}")
    assert (envelope.error.code, len(sent)) == ("secret_unavailable", 1)


@pytest.mark.parametrize("change", [paused(source="orders"), revoked], ids=["paused", "revoked"])
async def test_a_call_that_waited_in_line_is_not_sent(tmp_path: Path, change: Change) -> None:
    held, go = asyncio.Event(), asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        held.set()
        await go.wait()
        await FINE(writer)

    server = Server([slow])
    async with server.serving() as url:
        timeouts = {"connect": "30s"}  # as long may be waited in line
        source = {"openapi": "specs/orders.json", "server": url, "concurrency": 1, "timeouts": timeouts}
        path = project(tmp_path, url, {"rules": [READS]}, sources={"orders": source})
        async with Gateway.load(path) as gateway:
            bot = await gateway.callers.authenticate("key-of-bot")
            assert isinstance(bot, Principal)
            executor = gateway._executors["orders"]
            assert isinstance(executor, ResilientExecutor)
            first = asyncio.ensure_future(gateway.call(HEALTH, {}, principal="bare"))
            await held.wait()
            second = asyncio.ensure_future(gateway.call(HEALTH, {}, principal=bot))
            (line,) = executor._systems.values()
            while not line.waiting:  # noqa: ASYNC110 - a line announces nothing
                await asyncio.sleep(0.01)
            change(tmp_path, gateway)
            await gateway.operations.reload()
            go.set()
            made, refused = await first, await second
            sent = len(server.heads)
    assert (made.status, refused.status, sent) == ("ok", "refused", 1)
    assert refused.error.code in {"paused", "expired"}
