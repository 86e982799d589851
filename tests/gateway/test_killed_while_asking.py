"""A gateway that is killed after it stored a waiting call, and before it recorded that, leaves a call that waits like any other."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.gateway.governed import project, upstream
from tests.gateway.test_lost_state import accepted, approve, outcomes, told
from tests.gateway.test_shared_calls import POLICY
from tests.redis_server import RedisServer
from toolgen.audit.reader import entries
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Error

pytestmark = pytest.mark.redis_times_out

_KILLED_BEFORE_THE_ANSWER = """
import asyncio, os, signal, sys
from toolgen.audit.log import AuditLog
from toolgen.frontends.python.gateway import Gateway

append = AuditLog.append

async def killed(log, fields):
    if fields.get("status") == "pending":
        os.kill(os.getpid(), signal.SIGKILL)
    return await append(log, fields)

async def main():
    AuditLog.append = killed
    async with Gateway.load(sys.argv[1]) as gateway:
        await gateway.call("orders__send_mail", {"to": "x"}, principal="bot")

asyncio.run(main())
"""


def _signal(server: RedisServer | None, number: int) -> None:
    assert server is not None
    assert server.pid is not None
    os.kill(server.pid, number)


@pytest.mark.parametrize(("state", "silent"), [("memory", False), ("redis", False), ("redis", True)])
async def test_a_call_that_is_stored_waits_although_its_gateway_was_killed_before_that_was_recorded(
    tmp_path: Path, request: pytest.FixtureRequest, state: str, silent: bool
) -> None:
    """The record does not say that its outcome is unknown: it is executed when a person approves it, and ends once."""
    place = request.getfixturevalue("server") if state == "redis" else None
    with upstream() as (seen, url):
        path = project(tmp_path, url, POLICY, state="memory" if place is None else f"redis://127.0.0.1:{place.port}/0")
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", _KILLED_BEFORE_THE_ANSWER, str(path))
        assert await process.wait() == -signal.SIGKILL
        [intent] = [one for one in entries(tmp_path / "var" / "audit") if one["event"] == "intent"]
        call_id = intent["call_id"]
        if silent:
            _signal(place, signal.SIGSTOP)
        async with Gateway.load(path) as gateway, asyncio.timeout(120):
            if silent:
                _signal(place, signal.SIGCONT)
            assert outcomes([gateway], call_id) == []
            assert not isinstance(await accepted(approve, gateway, call_id), Error)
            assert await told(gateway, call_id) == "ok"
            assert outcomes([gateway], call_id) == ["ok"]
            waited = [one.get("code") for one in entries(gateway.settings.audit_dir) if one.get("status") == "pending"]
    assert waited == ([] if silent else ["approval_required"])
    assert [what for _, what, _ in seen.requests] == ["/mail"]
