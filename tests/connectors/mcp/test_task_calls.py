"""Tools that a bridged server only runs as tasks: begun, asked after, read and cancelled, in both styles. Every server really runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.services.bridged import POLICY, call, calls, hostile, listed, over_http, tell, write_project
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

pytestmark = pytest.mark.usefixtures("in_tmp_path")

MUST = {**listed("must")[0], "execution": {"taskSupport": "required"}, "annotations": {"readOnlyHint": True}}
SHORT = {"connect": "1s", "first_byte": "3s", "total": "3s"}
Make = Callable[..., Path]


@pytest.fixture(name="made", params=["pipes", "http", "2026-07-28"])
def _made(request: pytest.FixtureRequest, tmp_path: Path, toolgen: Run) -> Any:
    """A project whose server has one tool, which it runs as a task with these statuses."""

    def build(url: str, trusted: bool, *steps: str) -> Path:
        era = {"era": "modern"} if request.param == "2026-07-28" else {}
        command = hostile(tmp_path, MUST, task=list(steps), **era)
        server: dict[str, Any] = {"url": url} if url else {"command": command}
        path = write_project(
            tmp_path, POLICY, mcp={**server, **({"annotations": "trusted"} if trusted else {})}, timeouts=SHORT
        )
        done = toolgen("build")
        assert done.code == 0, done.err
        return path

    if request.param == "pipes":
        yield lambda *steps, trusted=False: build("", trusted, *steps)
        return
    with over_http(*hostile(tmp_path, MUST)) as url:
        yield lambda *steps, trusted=False: build(url, trusted, *steps)


def error(envelope: Envelope) -> tuple[str, str]:
    assert envelope.error is not None
    return envelope.error.code, envelope.error.message


async def test_a_task_is_asked_after_until_it_ends(made: Make, tmp_path: Path) -> None:
    path = made("working", "working", "completed")
    found = await call(path, "must")
    assert (found.status, found.data["structuredContent"]) == ("ok", {"steps": 2})
    assert calls(tmp_path) == ["must", "tasks/get", "tasks/get"]


@pytest.mark.parametrize(
    ("steps", "trusted", "code", "says"),
    [
        (("working", "cancelled"), False, "outcome_unknown", "cancelled by the server: at work"),
        (("working", "cancelled"), True, "upstream_error", "cancelled by the server: at work"),
        (("input_required",), True, "upstream_error", "wants something of its caller"),
        (("input_required",), False, "outcome_unknown", "wants something of its caller"),
    ],
)
async def test_a_task_that_ends_otherwise_says_how(
    made: Make, steps: tuple[str, ...], trusted: bool, code: str, says: str
) -> None:
    found = error(await call(made(*steps, trusted=trusted), "must"))
    assert found[0] == code
    assert says in found[1]


@pytest.mark.parametrize(("trusted", "code"), [(True, "upstream_timeout"), (False, "outcome_unknown")])
async def test_a_task_that_does_not_end_is_cancelled(made: Make, tmp_path: Path, trusted: bool, code: str) -> None:
    path = made("working", trusted=trusted)

    async with Gateway.load(path) as gateway:
        found = await gateway.call("far__must", {}, principal="bot")
        await cancelled(tmp_path)
    assert error(found)[0] == code


async def test_a_task_whose_caller_leaves_is_cancelled(made: Make, tmp_path: Path) -> None:
    path = made("working", trusted=True)

    async with Gateway.load(path) as gateway:
        calling = asyncio.create_task(gateway.call("far__must", {}, principal="bot"))
        await until(lambda: "tasks/get" in calls(tmp_path))
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await cancelled(tmp_path)


async def test_a_plain_answer_of_such_a_tool_is_taken(made: Make, tmp_path: Path) -> None:
    path = made("completed")
    tell(tmp_path, task=None)
    assert (await call(path, "must")).status == "ok"


async def cancelled(root: Path) -> None:
    await until(lambda: "tasks/cancel" in calls(root))


async def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
