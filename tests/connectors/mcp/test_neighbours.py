"""A bridged server that sends 100 MB, floods or never answers costs its own calls alone: memory stays bounded, and another server is called
as before. Both really run."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.services.bridged import READING, ROOT, over_http, write_project
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

pytestmark = pytest.mark.usefixtures("in_tmp_path")

SHORT = {"connect": "1s", "first_byte": "10s", "total": "10s"}
MUCH = 100_000_000
ALLOWED_GROWTH = 64 * 1024 * 1024


@pytest.fixture(name="path", params=["pipes", "http"])
def _path(request: pytest.FixtureRequest, tmp_path: Path, toolgen: Run) -> Iterator[Path]:
    """A project with the server `far`, which may do as it likes, and `near`, which does not."""

    def command(name: str) -> list[str]:
        (tmp_path / name).mkdir()
        return [
            sys.executable,
            "-B",
            str(ROOT / "tests" / "services" / "mcp_unruly.py"),
            str(tmp_path / name / "s.json"),
        ]

    def built(far: dict[str, Any]) -> Path:
        policy = {**READING, "rules": [{**one, "tools": ["far__*", "near__*"]} for one in READING["rules"]]}
        once = {"retries": {"attempts": 1}, "breaker": "never"} if "url" in far else {}
        path = write_project(tmp_path, policy, mcp={**far, "annotations": "trusted"}, timeouts=SHORT, **once)
        told = json.loads(path.read_text(encoding="utf-8"))
        told["sources"]["near"] = {"mcp": {"command": command("near"), "annotations": "trusted"}}
        path.write_text(json.dumps(told), encoding="utf-8")
        done = toolgen("build")
        assert done.code == 0, done.err
        return path

    if request.param == "pipes":
        yield built({"command": command("far")})
        return
    with over_http(*command("far")) as url:
        yield built({"url": url})


async def beside(path: Path, tool: str, **arguments: Any) -> tuple[str, int]:
    """The code of a call of the bad server, and how many calls of the other were made meanwhile, all of them fine."""

    async with Gateway.load(path) as gateway:

        async def ask(name: str, **given: Any) -> Envelope:
            return await gateway.call(name, given, principal="bot")

        assert (await ask("near__who_read")).status == "ok"
        bad, made = asyncio.create_task(ask(f"far__{tool}", **arguments)), 0
        while not bad.done() or not made:
            assert (await ask("near__who_read")).status == "ok"
            made += 1
        assert (await ask("far__fine_read")).status == "ok"
        error = (await bad).error
        ended = "" if error is None else error.code, made
    found: tuple[str, int] = ended
    return found


@pytest.mark.parametrize(
    ("tool", "arguments", "codes"),
    [
        ("long_read", {"size": MUCH}, {"response_too_large"}),
        ("long", {"size": MUCH, "tail": True}, {"response_too_large"}),
        ("flood_read", {"size": 5_000}, {""}),
        # Over pipes a server that says more than anybody asked for is ended; over HTTP the answer is too long.
        ("flood_read", {"size": 50_000}, {"upstream_error", "response_too_large"}),
        ("flood", {"size": 50_000}, {"outcome_unknown", "response_too_large"}),
        ("wait_read", {}, {"upstream_timeout"}),
    ],
)
async def test_a_bad_server_holds_up_no_other(
    path: Path, tool: str, arguments: dict[str, Any], codes: set[str]
) -> None:
    code, made = await beside(path, tool, **arguments)
    assert code in codes
    assert made >= 1


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells the most memory that was used since it was asked to")
async def test_an_answer_of_a_hundred_megabytes_is_not_held(path: Path) -> None:
    with measured() as grown:
        assert (await beside(path, "long_read", size=MUCH))[0] == "response_too_large"
    assert grown() < ALLOWED_GROWTH


class measured:
    """The growth of this process's memory within a block, at its peak."""

    def __enter__(self) -> Callable[[], int]:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        self._before = status("VmRSS")
        return lambda: self._peak - self._before

    def __exit__(self, *_: object) -> None:
        self._peak = status("VmHWM")


def status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
