"""What a function is given besides its arguments: its caller, other tools, a folder, a log; and the errors it may raise."""

from __future__ import annotations

import json
import linecache
import logging
import sys
from pathlib import Path

import pytest

from tests.connectors.functions.projects import call, written
from tests.messages import line_names
from toolgen.audit.reader import entries
from toolgen.connectors.functions import work_folder
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.tool import FunctionBinding
from toolgen.quality.doctor.examination import examine

POLICY = """
principals:
  bot: {roles: [bot], attributes: {tenant: acme, tags: [a, b]}, acts_for: [ann]}
  ann: {roles: [person], attributes: {city: Bonn}}
rules:
  - {id: all, to: [bot, person], tools: ["*"], effects: [read, write, destructive], verdict: allow}
  - {id: never, to: [bot, person], tools: [own__secret], verdict: deny}
"""
TOOLS = '''
import asyncio, contextlib, os, pickle, sqlite3, threading
from pathlib import Path
import toolgen

LEFT = []

@toolgen.tool(effect="read")
def who(ctx: toolgen.ToolContext) -> dict[str, object]:
    """Says who calls."""
    one = ctx.principal
    with contextlib.closing(sqlite3.connect(":memory:")) as file:
        rows = file.execute("SELECT ?", (one,)).fetchone()
    one.attributes["tenant"] = "other"
    one.attributes.get("tags", []).append("mine")
    return {"text": one, "same": one == "bot", "id": one.id, "row": rows[0],
            "roles": sorted(one.roles), "kept": pickle.loads(pickle.dumps(one)),
            "user": one.on_behalf_of and [one.on_behalf_of.id, one.on_behalf_of.attributes["city"]]}

@toolgen.tool(effect="read")
def attributes(ctx: toolgen.ToolContext) -> dict[str, object]:
    """Says what the caller has."""
    return dict(ctx.principal.attributes)

@toolgen.tool
async def outer(tool: str, ctx: toolgen.ToolContext) -> dict[str, object]:
    """Calls another tool."""
    made = await ctx.call("own__" + tool, {})
    return {"status": made.status, "data": made.data, "code": made.error and made.error.code, "rule": made.error and made.error.rule}

@toolgen.tool
def outer_sync(tool: str, ctx: toolgen.ToolContext) -> dict[str, object]:
    """Calls another tool from a thread."""
    made = ctx.call_sync("own__" + tool)
    return {"status": made.status, "data": made.data, "rule": made.error and made.error.rule}

@toolgen.tool
def itself(ctx: toolgen.ToolContext) -> dict[str, object]:
    """Calls itself."""
    made = ctx.call_sync("own__itself")
    return {"status": made.status, "rule": made.error and made.error.rule}

@toolgen.tool
async def ping(ctx: toolgen.ToolContext) -> object:
    """Calls pong."""
    return (await ctx.call("own__pong", {})).data

@toolgen.tool
async def pong(ctx: toolgen.ToolContext) -> object:
    """Calls ping."""
    made = await ctx.call("own__ping", {})
    return {"status": made.status, "rule": made.error and made.error.rule}

@toolgen.tool
async def blocked(ctx: toolgen.ToolContext) -> str:
    """Would hold up its loop."""
    try:
        ctx.call_sync("own__who")
    except RuntimeError as error:
        return str(error)
    return ""

@toolgen.tool(effect="read")
def secret() -> str:
    """Nobody may."""
    return "secret"

@toolgen.tool
def late(ctx: toolgen.ToolContext) -> None:
    """Keeps its context."""
    LEFT.append(ctx)

@toolgen.tool
def use_late() -> list[str]:
    """Uses a context that is over."""
    found = []
    for use in (lambda c: c.workdir, lambda c: c.call_sync("own__who")):
        try:
            use(LEFT[-1])
        except toolgen.ToolError as error:
            found.append(str(error))
    return found

@toolgen.tool
def files(ctx: toolgen.ToolContext) -> list[str]:
    """Writes files."""
    (ctx.workdir / "a.txt").write_text("x")
    assert ctx.workdir == ctx.workdir
    return [str(ctx.workdir), oct(ctx.workdir.stat().st_mode & 0o777), *os.listdir(ctx.workdir)]

@toolgen.tool(timeout=60)
async def fills(size: int, wait: bool, ctx: toolgen.ToolContext) -> str:
    """Writes much."""
    (ctx.workdir / "large").write_bytes(bytes(size))
    if wait:
        await asyncio.Event().wait()
    return str(ctx.workdir)

@toolgen.tool
def logs(ctx: toolgen.ToolContext) -> str:
    """Logs."""
    ctx.log.warning("there are %s left", 3)
    return ctx.call_id

@toolgen.tool(error_message_limit=20)
def fails(how: str) -> None:
    """Fails."""
    if how == "retry":
        raise toolgen.Retry("give the city as well as the street, please")
    raise toolgen.ToolError("a long message about what went wrong")
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("context"), TOOLS, policy=POLICY)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(work_folder, "MAX_SIZE", 1_000_000)
    return 1_000_000


async def test_the_principal_is_its_id_and_says_more_in_copies(project: Path) -> None:
    assert (await call(project, "own__who"))["data"] == {
        "text": "bot",
        "same": True,
        "id": "bot",
        "row": "bot",
        "roles": ["bot"],
        "kept": "bot",
        "user": None,
    }
    assert (await call(project, "own__attributes"))["data"] == {"tenant": "acme", "tags": ["a", "b"]}

    async with Gateway.load(project) as gateway:
        found = await gateway.call("own__who", {}, principal=gateway.principal("bot", "ann"))
        again = await gateway.call("own__attributes", {}, principal="bot")
        (data, again) = found.data, again.data
    assert data["user"] == ["ann", "Bonn"]
    assert again == {"tenant": "acme", "tags": ["a", "b"]}


@pytest.mark.parametrize("tool", ["outer", "outer_sync"])
async def test_a_tool_that_a_function_calls_goes_through_policy_and_record_as_itself(tool: str, project: Path) -> None:
    made = await call(project, f"own__{tool}", {"tool": "attributes"})
    assert made["data"]["data"]["tenant"] == "acme"
    denied = (await call(project, f"own__{tool}", {"tool": "secret"}))["data"]
    assert (denied["status"], denied["data"]) == ("refused", None)
    recorded = [entry for entry in entries(project.parent / "audit") if entry["event"] == "intent"]
    inner = [entry for entry in recorded if entry["tool"] == "own__attributes" and entry.get("parent")]
    outers = {entry["call_id"] for entry in recorded if entry["tool"] == f"own__{tool}"}
    assert inner[-1]["parent"] in outers
    assert inner[-1]["principal"] == "bot"


async def test_a_tool_never_calls_itself_whatever_stands_between(project: Path) -> None:
    for tool in ("itself", "ping"):
        assert (await call(project, f"own__{tool}"))["data"] == {"status": "refused", "rule": "recursion"}


async def test_nothing_waits_on_an_event_loop_and_nothing_is_called_once_the_call_is_over(project: Path) -> None:
    assert "await ctx.call" in (await call(project, "own__blocked"))["data"]

    async with Gateway.load(project) as gateway:
        await gateway.call("own__late", {}, principal="bot")
        found = (await gateway.call("own__use_late", {}, principal="bot")).data
    assert len(found) == 2
    assert all("call is over" in message for message in found)


async def test_a_folder_is_the_calls_own_and_goes_with_it(project: Path) -> None:
    path, mode, name = (await call(project, "own__files"))["data"]
    assert (mode, name) == ("0o700", "a.txt")
    assert not Path(path).exists()
    assert Path(path).is_relative_to(project.parent / "var" / "state" / "calls")
    assert (await call(project, "own__files"))["data"][0] != path
    assert list((project.parent / "var" / "state" / "calls").glob("process-*")) == []


@pytest.mark.parametrize("wait", [True, False])
async def test_a_folder_that_grows_too_large_ends_the_call(wait: bool, small: int, project: Path) -> None:
    assert (await call(project, "own__fills", {"size": small // 2, "wait": False}))["status"] == "ok"
    error = (await call(project, "own__fills", {"size": small * 3, "wait": wait}))["error"]
    assert error["code"] == "handler_error"
    assert "folder" in error["message"]


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_lives_is_kept(tmp_path: Path) -> None:
    left = tmp_path / "process-dead"
    left.mkdir()
    (left / "call-1").mkdir()
    first, second = work_folder.WorkFolders(tmp_path), work_folder.WorkFolders(tmp_path)
    mine = first.make()
    other = second.make()
    assert not left.exists()
    assert mine.exists()
    assert other.parent != mine.parent
    first.close()
    second.close()
    assert not mine.exists()


async def test_a_log_line_says_which_call_it_is_about(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "toolgen.tools"):
        found = await call(project, "own__logs")
    assert [record.getMessage() for record in caplog.records if record.name == "toolgen.tools"] == [
        f"{found['data']}: there are 3 left"
    ]


async def test_an_errors_message_has_the_tools_own_limit_and_a_retry_says_so(project: Path) -> None:
    failed = (await call(project, "own__fails", {"how": "other"}))["error"]
    assert (failed["message"], "rule" in failed) == ("a long message abou…", False)
    retried = (await call(project, "own__fails", {"how": "retry"}))["error"]
    assert (retried["code"], retried["rule"], len(retried["message"])) == ("handler_error", "retry", 20)
    assert "again" in retried["suggestion"]


async def test_a_module_that_cannot_be_imported_costs_its_own_tools_only(tmp_path: Path) -> None:
    path = written(tmp_path, TOOLS)
    (tmp_path / "breaks_on_import.py").write_text(
        "import sys\npassword = 'hunter2'\nsys.exit(password)\n", encoding="utf-8"
    )
    text = path.read_text(encoding="utf-8").replace("sources: {", "sources: {bad: {python: breaks_on_import}, ")
    path.write_text(text, encoding="utf-8")
    manifest = Gateway.load(path).manifest
    (problem,) = manifest.problems
    assert (problem.source, problem.level, problem.code) == ("bad", "error", "bad_module")
    assert "SystemExit, line 3" in problem.message
    assert "hunter2" not in json.dumps(problem.message)
    assert (await call(path, "own__attributes"))["status"] == "ok"


async def test_two_functions_of_one_name_are_a_problem_that_names_both(tmp_path: Path) -> None:
    text = """
import toolgen

@toolgen.tool(name="same")
def one() -> int:
    "One."
    return 1

@toolgen.tool(name="same")
def two() -> int:
    "Two."
    return 2
"""
    path = written(tmp_path, text)
    manifest = Gateway.load(path).manifest
    (problem,) = manifest.problems
    assert problem.code == "duplicate_name"
    assert ".one already is" in problem.message
    assert (await call(path, "own__same"))["data"] == 1


async def test_doctor_says_which_functions_no_call_would_reach(tmp_path: Path) -> None:
    path = written(tmp_path, TOOLS)
    built = Gateway.load(path)
    assert (await examine(built)).uncallable == ()
    (binding,) = {
        tool.binding.module for tool in built.manifest.tools.values() if isinstance(tool.binding, FunctionBinding)
    }
    source = tmp_path / f"{binding}.py"
    source.write_text(TOOLS.replace("Says who calls", "Says who called"), encoding="utf-8")
    linecache.clearcache()
    del sys.modules[binding]
    (told,) = (await examine(built)).uncallable
    assert "run `toolgen build`: own__who" in told
    source.write_text("raise ValueError('password')", encoding="utf-8")
    del sys.modules[binding]
    (told,) = (await examine(built)).uncallable
    assert line_names(told, " own ", "cannot be called")
    assert "ValueError, line 1" in told
    assert "password" not in told
