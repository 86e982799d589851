"""Whether calls are taken is said where calls would fail, also before one does, and every change of it is logged."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.exhaustive import spread
from tests.gateway.test_shared_limits import project
from tests.messages import line_names
from tests.patient import until
from tests.projects import POLICY, make_project
from tests.redis_server import RedisServer
from toolgen.core.background import FaultLog
from toolgen.core.clock import FixedClock
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.metrics import status
from toolgen.gateway.state.shared_state import Shared
from toolgen.state.pauses import SharedPauses

UNCOUNTED = "the counter of limits (Redis, or the supervisor process) cannot be reached"
LIMIT = {"id": "few", "per": ["principal"], "rate": "1000/h"}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_LOOK_S", 0.02)


async def code_of(gateway: Gateway) -> str:
    """How a call ends: "" where it was made."""
    answer = await gateway.call("shop__list_tables", {}, principal="bot")
    return "" if answer.error is None else answer.error.code


@pytest.mark.parametrize("tolerant", [False, True])
async def test_a_gateway_is_not_ready_while_every_call_is_refused_for_want_of_its_redis(
    tmp_path: Path, tolerant: bool, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(tmp_path)
    server.start()
    limits = [{**LIMIT, "on_failure": "share"}] if tolerant else [LIMIT]

    try:
        async with Gateway.load(project(tmp_path / "p", f"redis://127.0.0.1:{server.port}", limits)) as gateway:
            assert await code_of(gateway) == ""
            await until(lambda: gateway.operations.ready() == ())
            server.stop()
            await code_of(gateway)
            if tolerant:  # calls go on by what was paused last, and by this process's share
                await until(lambda: len(gateway.operations.warnings()) >= 2)
                assert gateway.operations.ready() == ()
                assert await code_of(gateway) == ""
                assert UNCOUNTED in gateway.operations.warnings()
            else:
                await until(lambda: len(gateway.operations.ready()) == 2)
                assert await code_of(gateway) == "upstream_unavailable"
                assert UNCOUNTED in gateway.operations.ready()
                assert not set(gateway.operations.warnings()) & set(gateway.operations.ready())
                await until(lambda: "not ready, no call is accepted: what is paused cannot be read" in caplog.text)
            server.start()
            # What counts limits is found again by the next call that asks it, or by its own beat.
            await until(lambda: gateway.operations.ready() == ())
            async with asyncio.timeout(120):
                while await code_of(gateway):  # noqa: ASYNC110 - Redis tells nobody that it is back
                    await asyncio.sleep(0.05)
            await until(lambda: gateway.operations.ready() == ())
            if tolerant:
                assert "ready" not in caplog.text
            else:
                await until(lambda: "ready again" in caplog.text)
    finally:
        server.stop()


@pytest.mark.parametrize(("tolerant", "known", "refused"), [(True, True, 0), (True, False, 1), (False, True, 1)])
def test_only_a_policy_that_tolerates_it_goes_by_pauses_of_before(
    monkeypatch: pytest.MonkeyPatch, tolerant: bool, known: bool, refused: int
) -> None:
    monkeypatch.setattr(SharedPauses, "stale", True)
    monkeypatch.setattr(SharedPauses, "known", known)
    monkeypatch.setattr(SharedPauses, "all", lambda _: ())
    pauses = object.__new__(SharedPauses)
    pauses.trouble = FaultLog(FixedClock(), "what is paused")
    found = Shared.refusing(
        cast("Shared", SimpleNamespace(pauses=pauses)), tolerant=tolerant, counted=True, asks_history=False
    )
    assert len([why for why in found if why]) == refused


ASKING = {
    "history": {
        "id": "often",
        "to": ["bot"],
        "tools": ["*"],
        "verdict": "deny",
        "when": "history.count('*') > 99",
    },
    "session": {"id": "late", "to": ["bot"], "tools": ["*"], "verdict": "deny", "when": "session.count('*') > 99"},
}


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("on_failure", "asking", "paused"),
    spread(
        itertools.product(
            ["", "refuse", "share"], [(), ("history",), ("session",), ("history", "session")], [False, True]
        ),
        3,
    ),
)
async def test_a_gateway_is_not_ready_if_and_only_if_a_plain_read_is_refused(
    tmp_path: Path, on_failure: str, asking: tuple[str, ...], paused: bool
) -> None:
    """Without Redis. `paused`: another tool is."""
    server = RedisServer(tmp_path)
    server.start()
    limits = [{**LIMIT, "on_failure": on_failure}] if on_failure else []
    rules = [*POLICY["rules"], *(ASKING[name] for name in asking)]
    path = project(tmp_path / "p", f"redis://127.0.0.1:{server.port}", limits, rules=rules)
    refused = bool(asking) or on_failure != "share"

    try:
        async with Gateway.load(path) as gateway:
            if paused:
                await gateway.pausing.pause(principal="", source="", tool="pets__get_pet", reason="", by="ann")
            assert await code_of(gateway) == ""
            await until(lambda: gateway.operations.ready() == ())
            server.stop()
            if refused:
                await until(gateway.operations.ready)
            await until(lambda: len((*gateway.operations.ready(), *gateway.operations.warnings())) >= 2)
            assert await code_of(gateway) == ("upstream_unavailable" if refused else "")
            assert bool(gateway.operations.ready()) is refused
            uncounted = "earlier calls cannot be counted in Redis"
            if asking:
                await until(lambda: any(uncounted in why for why in gateway.operations.ready()))
            assert any(uncounted in why for why in gateway.operations.ready()) is bool(asking)
            server.start()
            await until(lambda: gateway.operations.ready() == ())
            async with asyncio.timeout(120):
                # An emptied Redis leaves rules about earlier calls without an answer: that is a verdict, and no outage.
                while await code_of(gateway) == "upstream_unavailable":
                    pass
    finally:
        server.stop()


async def test_a_gateway_without_limits_needs_its_redis_for_pauses_alone(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()

    try:
        async with Gateway.load(project(tmp_path / "p", f"redis://127.0.0.1:{server.port}", [])) as gateway:
            server.stop()
            await until(lambda: gateway.operations.ready() != ())
            assert await code_of(gateway) == "upstream_unavailable"
            assert all("paused" in reason for reason in gateway.operations.ready())
    finally:
        server.stop()


async def test_a_file_of_pauses_that_cannot_be_read_stops_calls_and_says_so(tmp_path: Path) -> None:
    path = make_project(tmp_path)
    async with Gateway.load(path) as gateway:
        (pauses,) = [gateway.settings.state_dir / "pauses.json"]
        pauses.parent.mkdir(parents=True, exist_ok=True)
        pauses.write_text("[{", encoding="utf-8")
        assert await code_of(gateway) == "upstream_unavailable"
        (reason,) = gateway.operations.ready()
        assert line_names(reason, "pauses", "cannot be read")
        pauses.unlink()
        assert (await code_of(gateway), gateway.operations.ready()) == ("", ())


async def test_a_record_that_cannot_be_written_any_more_is_noticed_without_a_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = make_project(tmp_path)

    with caplog.at_level(logging.WARNING, "toolgen"):
        async with Gateway.load(path) as gateway:
            record = gateway.settings.audit_dir
            record.rename(tmp_path / "elsewhere")
            record.write_text("in the way", encoding="utf-8")
            await until(lambda: gateway.operations.ready() != ())
            await until(lambda: "not ready, no call is accepted: the audit log" in caplog.text)
            assert await code_of(gateway) == "audit_unavailable"
            record.unlink()
            os.rename(tmp_path / "elsewhere", record)
            await until(lambda: gateway.operations.ready() == ())
            await until(lambda: "ready again" in caplog.text)
            assert await code_of(gateway) == ""
