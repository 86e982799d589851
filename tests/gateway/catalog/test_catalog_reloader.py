"""A build while a gateway runs: in force whole and soon, with what differs on record, or not at all."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.functions.projects import written
from tests.patient import until
from toolgen.audit.reader import entries
from toolgen.frontends.python.gateway import Gateway
from toolgen.policy.document.policy_files import PolicyFiles, read_files

BEFORE = '''
import toolgen

@toolgen.tool(effect="read")
def version() -> int:
    """Says which."""
    return 1

@toolgen.tool(effect="read")
def gone() -> int:
    """Goes."""
    return 1

@toolgen.tool(effect="read")
async def slow() -> int:
    """Waits until it may end."""
    BEGUN.append(1)
    await MAY_END.wait()
    return 1

BEGUN = []
import asyncio
MAY_END = asyncio.Event()
'''
AFTER = BEFORE.replace("return 1\n", "return 22\n", 1).replace("def gone", "def came").replace("Goes.", "Came.")


def rebuilt(path: Path, text: str) -> None:
    """Another text of the module, built as another process would: nothing of it is imported in this one."""
    (module,) = path.parent.glob("project_functions_*.py")
    module.write_text(text, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "toolgen", "build", "--config", str(path)],
        check=True,
        capture_output=True,
        cwd=path.parent,
    )


async def test_a_build_is_in_force_and_what_differs_is_on_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, BEFORE)
    rebuilt(path, BEFORE)

    async with Gateway.load(path) as gateway:
        bot = gateway.principal("bot")
        before = gateway.manifest.digest
        first = await gateway.call("own__version", {}, principal="bot")
        changed = asyncio.create_task(gateway.tool_calls.changed())
        await asyncio.sleep(0)
        await asyncio.to_thread(rebuilt, path, AFTER)
        await until(lambda: gateway.manifest.digest != before)
        await changed
        names = [tool.name for tool in gateway.tool_calls.catalog(gateway.callers.current(bot) or bot)]
        second = await gateway.call("own__version", {}, principal="bot")
        came = await gateway.call("own__came", {}, principal="bot")
        gone = await gateway.call("own__gone", {}, principal="bot")
    assert (first.data, second.data, came.data, gone.error and gone.error.code) == (1, 22, 1, "unknown_tool")
    assert names == ["own__came", "own__slow", "own__version"]
    (entry,) = [entry for entry in entries(tmp_path / "audit") if entry["event"] == "catalog"]
    assert entry["status"] == "ok"
    told = entry["arguments"]
    assert (told["before"], told["in_force"]) == (before, gateway.manifest.digest)
    assert (told["added"], told["changed"], told["removed"]) == (["own__came"], ["own__version"], ["own__gone"])
    assert "1 added, 1 changed, 1 removed" in caplog.text
    assert "own__gone: was removed" in caplog.text


@pytest.mark.parametrize("broken", ["{", '{"format": 1}', "edited"])
async def test_a_broken_catalog_leaves_the_old_one_in_force_and_says_so(
    broken: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path, BEFORE)
    rebuilt(path, BEFORE)
    file = tmp_path / "generated" / "manifest.json"
    good = file.read_text(encoding="utf-8")

    async with Gateway.load(path) as gateway:
        file.write_text(good.replace("Goes.", "Went.") if broken == "edited" else broken, encoding="utf-8")
        await until(lambda: any("not in force" in warning for warning in gateway.operations.warnings()))
        still = await gateway.call("own__version", {}, principal="bot")
        file.write_text(good, encoding="utf-8")
        await until(lambda: not any("not in force" in warning for warning in gateway.operations.warnings()))
        assert still.data == 1
    assert "not in force" in caplog.text
    assert [entry["status"] for entry in entries(tmp_path / "audit") if entry["event"] == "catalog"] == ["error"]


async def test_a_catalog_that_the_policy_does_not_fit_waits_for_the_policy(tmp_path: Path) -> None:
    policy = """
principals: {bot: {roles: [bot]}}
rules: [{id: all, to: [bot], tools: [own__version, own__gone], verdict: allow}]
"""
    path = written(tmp_path, BEFORE, policy=policy)
    rebuilt(path, BEFORE)

    async with Gateway.load(path) as gateway:
        before = gateway.manifest.digest
        assert (await gateway.call("own__version", {}, principal="bot")).data == 1  # the module is imported by now
        await asyncio.to_thread(rebuilt, path, AFTER)
        await until(lambda: any("own__gone" in warning for warning in gateway.operations.warnings()))
        assert gateway.manifest.digest == before
        still = await gateway.call("own__gone", {}, principal="bot")
        (tmp_path / "policies" / "policy.yaml").write_text(policy.replace("own__gone", "own__came"), encoding="utf-8")
        await until(lambda: gateway.manifest.digest != before)
        came = await gateway.call("own__came", {}, principal="bot")
        assert (still.data, came.data, gateway.operations.warnings()) == (1, 1, ())


async def test_a_call_that_began_before_a_build_ends_as_it_began(tmp_path: Path) -> None:
    path = written(tmp_path, BEFORE)
    rebuilt(path, BEFORE)

    async with Gateway.load(path) as gateway:
        before = gateway.manifest.digest
        binding: Any = gateway.manifest.tools["own__slow"].binding
        call = asyncio.create_task(gateway.call("own__slow", {}, principal="bot"))
        await until(lambda: bool(getattr(sys.modules.get(binding.module), "BEGUN", [])))
        module = sys.modules[binding.module]
        await asyncio.to_thread(rebuilt, path, AFTER)
        await until(lambda: gateway.manifest.digest != before)
        assert not call.done()
        for waiter in list(module.MAY_END._waiters):
            waiter.get_loop().call_soon_threadsafe(module.MAY_END.set)
        assert (await call).data == 1


WAITING = """
principals: {bot: {roles: [bot]}}
rules: [{id: all, to: [bot], tools: ["*"], verdict: allow}]
limits: [{id: one, per: [principal], concurrency: 1, wait: 30s}]
"""


@pytest.mark.parametrize(
    ("old", "new", "ends"), [("def gone", "def came", "ok"), ("return 1\n", "return 2\n", "expired")]
)
async def test_a_call_that_waits_for_a_place_is_made_unless_its_tool_is_another_by_then(
    tmp_path: Path, old: str, new: str, ends: str
) -> None:
    path = written(tmp_path, BEFORE, policy=WAITING)
    rebuilt(path, BEFORE)

    async with Gateway.load(path) as gateway:
        before = gateway.manifest.digest
        binding: Any = gateway.manifest.tools["own__slow"].binding
        holding = asyncio.create_task(gateway.call("own__slow", {}, principal="bot"))
        await until(lambda: bool(getattr(sys.modules.get(binding.module), "BEGUN", [])))
        module = sys.modules[binding.module]
        waiting = asyncio.create_task(gateway.call("own__version", {}, principal="bot"))
        await asyncio.to_thread(rebuilt, path, BEFORE.replace(old, new, 1))
        await until(lambda: gateway.manifest.digest != before)
        assert not waiting.done()
        for waiter in list(module.MAY_END._waiters):
            waiter.get_loop().call_soon_threadsafe(module.MAY_END.set)
        assert (await holding).data == 1
        answer = await waiting
        assert answer.status if answer.error is None else answer.error.code == ends


class _Then(logging.Handler):
    """Does something once, at the moment when a text is logged: what another process may do then."""

    def __init__(self, text: str, act: Callable[[], object]) -> None:
        super().__init__()
        self._text, self._acts = text, [act]

    def emit(self, record: logging.LogRecord) -> None:
        if self._acts and self._text in record.getMessage():
            self._acts.pop()()


@pytest.mark.parametrize("edited", ["policy", "catalog"])
async def test_an_edit_while_a_catalog_is_refused_is_not_lost(edited: str, tmp_path: Path) -> None:
    policy = """
principals: {bot: {roles: [bot]}}
rules: [{id: all, to: [bot], tools: [own__version, own__gone], verdict: allow}]
"""
    path = written(tmp_path, AFTER)
    rebuilt(path, AFTER)
    files = {"catalog": tmp_path / "generated" / "manifest.json", "policy": tmp_path / "policies" / "policy.yaml"}
    after = {name: file.read_bytes() for name, file in files.items()}
    rebuilt(path, BEFORE)
    if edited == "policy":
        files["policy"].write_text(policy, encoding="utf-8")

    handler = _Then("not in force", lambda: files[edited].write_bytes(after[edited]))
    logging.getLogger("toolgen.gateway.catalog.catalog_reloader").addHandler(handler)
    try:
        async with Gateway.load(path) as gateway:
            files["catalog"].write_bytes(after["catalog"] if edited == "policy" else b"{")
            await until(lambda: "own__came" in gateway.manifest.tools)
    finally:
        logging.getLogger("toolgen.gateway.catalog.catalog_reloader").removeHandler(handler)


async def test_a_build_while_a_gateway_reads_its_files_is_in_force_soon(tmp_path: Path) -> None:
    path = written(tmp_path, BEFORE)
    rebuilt(path, BEFORE)

    def reading(directory: Path) -> PolicyFiles:
        rebuilt(path, AFTER)
        return read_files(directory)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("toolgen.frontends.python.gateway.read_files", reading)
        gateway = Gateway.load(path)
    async with gateway:
        assert "own__gone" in gateway.manifest.tools
        await until(lambda: "own__came" in gateway.manifest.tools)
