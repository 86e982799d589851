"""What is paused while a call is on its way: it is held back as long as nothing of it was sent."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.commands import runner
from tests.gateway.governed import project, upstream
from tests.gateway.policies.test_policy_reloader import in_line
from tests.gateway.test_issuer_users import issuers
from tests.patient import until
from toolgen.core.clock import FixedClock
from toolgen.frontends.python.gateway import Gateway
from toolgen.state.pauses import Pause


async def test_a_call_that_waits_for_its_turn_at_a_limit_is_held_back_too(tmp_path: Path) -> None:
    policy = {
        "rules": [{"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}],
        "limits": [{"id": "turns", "per": ["principal"], "rate": "10/s", "burst": 1, "wait": "30s"}],
    }

    with upstream() as (seen, server):
        path = project(tmp_path / "p", server, policy)
        clock = FixedClock()
        loaded = Gateway.load(path)
        async with Gateway(
            settings=loaded.settings, manifest=loaded.manifest, policy=loaded.policy, clock=clock
        ) as gateway:

            async def call() -> str:
                answer = await gateway.call("orders__get_health", {}, principal="bot")
                return answer.status if answer.error is None else answer.error.code

            first = await call()
            waiting = asyncio.create_task(call())
            await until(lambda: in_line(gateway) == 1)
            gateway.pausing.local.change(lambda known: (Pause(source="orders", since=0.0),))
            clock.advance(1)
            found = [first, await waiting]
        assert found == ["ok", "paused"]
        assert len(seen.requests) == 1


def test_a_user_of_an_issuer_can_be_paused_by_its_id(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    policy = {
        "issuers": issuers(),
        "rules": [{"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}],
    }
    path = project(tmp_path / "p", "http://127.0.0.1:9", policy)
    (path.parent / "keys.json").write_text(json.dumps({"keys": []}))

    run = runner(capfdbinary)
    assert [
        run("pause", "--principal", who, "--config", str(path)).code
        for who in ("staff:ann", "stuff:ann", "staff:", "staff")
    ] == [0, 1, 1, 1]
