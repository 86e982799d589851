"""`toolgen tools` beside a gateway that added and removed tools: it lists what that gateway would, and says what differs from the build."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, runner
from tests.connectors.functions.projects import written
from tests.gateway.catalog.test_runtime_tools import MODULE, OPEN, pay
from tests.messages import line_names
from tests.redis_server import RedisServer
from toolgen.audit.reader import entries
from toolgen.frontends.python.gateway import Gateway


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    return runner(capsysbinary)


async def changed(path: Path, *, rules: str = OPEN) -> None:
    """By a gateway that ran and ended."""

    async with Gateway.load(path) as gateway:
        await gateway.call("own__version", {}, principal="bot")
        binding: Any = gateway.manifest.tools["own__slow"].binding
        await gateway.tools.add(sys.modules[binding.module].spare, effect="read")
        await gateway.tools.add(pay)
        await gateway.tools.remove("own__version")
    (path.parent / "policies" / "policy.yaml").write_text(rules, encoding="utf-8")


SAID = "added while a gateway ran: added__spare\nremoved while a gateway ran, and not listed: own__version\n"


@pytest.mark.parametrize("state", ["files", "redis"])
@pytest.mark.parametrize("who", [(), ("--as", "bot")], ids=["everything", "as-bot"])
async def test_tools_are_listed_as_a_gateway_has_them(
    tmp_path: Path, request: pytest.FixtureRequest, run: Run, state: str, who: tuple[str, ...]
) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)
    redis = RedisServer(tmp_path) if state == "redis" else None
    if redis is not None:
        redis.start()
        request.addfinalizer(redis.stop)
        text = path.read_text(encoding="utf-8")
        path.write_text(f"{text}state: redis://127.0.0.1:{redis.port}/0\n", encoding="utf-8")
    run("build", "--config", str(path))
    await changed(path)
    before = list(entries(tmp_path / "audit"))
    listed = run("tools", "--json", "--config", str(path), *who)
    assert {one["name"] for one in listed.json()} == {"own__slow", "added__spare"}
    assert (listed.code, listed.err) == (0, SAID)
    made = run("tools", "--format", "manifest", "--config", str(path), *who).json()
    assert {one["name"] for one in made["tools"]} == {"own__slow", "added__spare"}
    found = run("tools", "--search", "spare parts", "--config", str(path), *who)
    assert "added__spare" in found.out.split("\n")[1]
    assert list(entries(tmp_path / "audit")) == before  # nothing is recorded by who only looks
    if redis is not None:
        redis.stop()
        unknown = run("tools", "--json", "--config", str(path), *who)
        assert "cannot be used" in unknown.err
        assert unknown.code == (1 if who else 0)
        if not who:
            assert {one["name"] for one in unknown.json()} == {"own__slow", "own__version"}
            assert "not shown" in unknown.err


async def test_what_cannot_be_in_force_is_said(tmp_path: Path, run: Run) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)
    run("build", "--config", str(path))
    await changed(path)
    module = next(tmp_path.glob("project_functions_*.py"))
    sys.modules.pop(module.stem)
    module.write_text(MODULE.replace("return count\n", "return 2 * count\n"), encoding="utf-8")
    listed = run("tools", "--json", "--config", str(path))
    assert [one["name"] for one in listed.json()] == ["own__slow"]
    assert line_names(listed.err, "warning: added__spare ", f"{module.stem}.spare is not")


@pytest.mark.parametrize("who", [(), ("--as", "bot")], ids=["everything", "as-bot"])
async def test_a_file_that_no_gateway_wrote_is_told(tmp_path: Path, run: Run, who: tuple[str, ...]) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)
    run("build", "--config", str(path))
    await changed(path)
    (tmp_path / "var" / "state" / "tools.json").write_text('{"added": [{"name": 1}]}', encoding="utf-8")
    listed = run("tools", "--json", "--config", str(path), *who)
    assert line_names(listed.err, "tools.json", "not written")
    assert listed.code == (1 if who else 0)
