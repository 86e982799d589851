"""Python functions as tools: what their annotations say, and calls of them through a whole gateway."""

from __future__ import annotations

import asyncio
import itertools
import json
import linecache
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import toolgen
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.file_links import READ_FILE
from toolgen.gateway.catalog.search_tools import _FORMER, INPUTS
from toolgen.model.names import META_TOOLS
from toolgen.model.tool import FunctionBinding
from toolgen.model.waiting import GET_CALL_RESULT
from toolgen.pipeline.middleware import CallerConnection

_NUMBERS = itertools.count()
POLICY = """
principals: {bot: {roles: [bot]}}
rules: [{id: all, to: [bot], tools: ["*"], effects: [read, write, destructive], verdict: allow}]
"""
TOOLS = '''
from __future__ import annotations
import asyncio, dataclasses, datetime, threading
from typing import Annotated, Literal
import msgspec
import toolgen

RUNS = []

@dataclasses.dataclass
class Conversion:
    amount: float
    currency: str

@toolgen.tool(effect="read")
async def convert(amount: float, to: Literal["EUR", "USD"], at: datetime.date | None = None) -> Conversion:
    """Converts an amount.

    At the rate of the day.

    Args:
        amount: How much,
            in dollars.
        to (str): Into what.

    Returns:
        What it is worth.
    """
    return Conversion(amount * 2, to)

@toolgen.tool(effect="read")
def thread_name(count: Annotated[int, msgspec.Meta(ge=1)] = 1, tags: list[str] = []) -> str:
    """Says which thread this is."""
    return threading.current_thread().name

@toolgen.tool
async def fail(text: str, ctx: toolgen.ToolContext) -> None:
    """Fails."""
    await ctx.progress(1, 2)
    raise ValueError("secret " + text)

@toolgen.tool
async def explain() -> None:
    """Fails, and says why."""
    raise toolgen.ToolError("there is no such customer", suggestion="search first")

@toolgen.tool(effect="destructive", timeout=0.05)
async def sleep() -> None:
    """Sleeps."""
    await asyncio.sleep(30)

@toolgen.tool(effect="read")
async def wait() -> None:
    """Waits."""
    try:
        RUNS.append("begun")
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        RUNS.append("ended")
        raise

@toolgen.tool
async def ask(ctx: toolgen.ToolContext) -> str:
    """Asks."""
    return (await ctx.elicit("who?", {"type": "object", "properties": {}})).action

@toolgen.tool(effect="read", input_schema={"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": False})
def free(**arguments):
    """Takes what it says."""
    return arguments

@toolgen.tool
def untyped(thing):
    """Has no types."""

@toolgen.tool
def odd(thing: threading.Thread) -> None:
    """Takes what JSON has not."""

def unmarked(thing: int) -> None: ...
'''


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Path]:
    """A project whose one source is a module of these functions, under a name that no other test has imported."""

    def make(text: str = TOOLS, more: str = "") -> Path:
        module = f"functions_{next(_NUMBERS)}"
        (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
        (tmp_path / "policies").mkdir(exist_ok=True)
        (tmp_path / "policies" / "policy.yaml").write_text(POLICY, encoding="utf-8")
        path = tmp_path / "toolgen.yaml"
        path.write_text(f"sources: {{own: {{python: {module}{more}}}}}\naudit: {{dir: audit}}\n", encoding="utf-8")
        return path

    return make


async def call(path: Path, name: str, arguments: dict[str, Any]) -> Any:
    async with Gateway.load(path) as gateway:
        found = await gateway.call(name, arguments, principal="bot")
    return found.to_dict()


def test_annotations_and_docstrings_make_schemas(project: Callable[..., Path]) -> None:
    manifest = Gateway.load(project()).manifest
    made = manifest.tools["own__convert"]
    assert made.description == "Converts an amount.\n\nAt the rate of the day."
    properties = made.input_schema["properties"]
    assert properties["amount"] == {"type": "number", "description": "How much, in dollars."}
    assert properties["to"] == {"enum": ["EUR", "USD"], "description": "Into what."}
    assert made.input_schema["required"] == ["amount", "to"]
    assert made.output_schema is not None
    assert (made.output_schema["type"], made.output_schema["required"]) == ("object", ["amount", "currency"])
    assert manifest.tools["own__thread_name"].input_schema["properties"]["count"]["minimum"] == 1
    assert "ctx" not in manifest.tools["own__fail"].input_schema["properties"]
    assert manifest.tools["own__fail"].effect == "write"


def test_what_cannot_be_a_tool_is_a_problem_and_costs_nothing_else(project: Callable[..., Path]) -> None:
    manifest = Gateway.load(project()).manifest
    problems = {problem.origin.rpartition(".")[2]: problem.message for problem in manifest.problems}
    assert problems.keys() == {"untyped", "odd"}
    assert "thing " in problems["untyped"]
    assert "own__unmarked" not in manifest.tools


async def test_a_call_is_converted_both_ways(project: Callable[..., Path]) -> None:
    path = project()
    assert (await call(path, "own__convert", {"amount": 2, "to": "EUR"}))["data"] == {"amount": 4.0, "currency": "EUR"}
    assert (await call(path, "own__thread_name", {}))["data"].startswith("toolgen-function")
    assert (await call(path, "own__free", {"x": 3}))["data"] == {"x": 3}
    assert (await call(path, "own__convert", {"amount": 2, "to": "GBP"}))["error"]["code"] == "validation"


async def test_of_what_a_function_raises_type_and_place_are_in_the_log(
    project: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    path = project()
    failed = await call(path, "own__fail", {"text": "canary"})
    assert failed["error"]["code"] == "handler_error"
    assert failed["error"]["message"] == "the function failed: ValueError"
    assert "canary" not in json.dumps(failed)
    assert "canary" not in caplog.text
    assert "raised ValueError at" in caplog.text
    told = (await call(path, "own__explain", {}))["error"]
    assert (told["message"], told["suggestion"]) == ("there is no such customer", "search first")


async def test_a_write_that_takes_too_long_is_of_unknown_outcome(project: Callable[..., Path]) -> None:
    assert (await call(project(), "own__sleep", {}))["error"]["code"] == "outcome_unknown"


async def test_a_read_ends_when_nobody_waits_for_it(project: Callable[..., Path]) -> None:
    path = project()

    async with Gateway.load(path) as gateway:
        caller_connection = CallerConnection()
        task = asyncio.create_task(gateway.call("own__wait", {}, principal="bot", caller_connection=caller_connection))
        module = gateway.manifest.tools["own__wait"].binding
        assert isinstance(module, FunctionBinding)
        runs: list[str] = sys.modules[module.module].RUNS
        while not runs:  # noqa: ASYNC110 - the function is the project's, and knows no event of ours
            await asyncio.sleep(0)
        caller_connection.leave()
        envelope = await task
    assert (envelope.status, runs) == ("cancelled", ["begun", "ended"])


async def test_a_question_to_a_caller_that_cannot_be_asked_is_an_error_that_says_so(
    project: Callable[..., Path],
) -> None:
    error = (await call(project(), "own__ask", {}))["error"]
    assert error["code"] == "handler_error"
    assert "elicitation/create" in error["suggestion"]


async def test_a_function_that_changed_since_the_build_is_not_called(project: Callable[..., Path]) -> None:
    path = project()
    built = Gateway.load(path)
    binding = built.manifest.tools["own__free"].binding
    assert isinstance(binding, FunctionBinding)
    source = path.parent / f"{binding.module}.py"
    changed = TOOLS.replace("return arguments", "return {'stolen': True}")
    source.write_text(changed, encoding="utf-8")
    linecache.clearcache()
    del sys.modules[binding.module]

    async with built as gateway:
        envelope = await gateway.call("own__free", {"x": 1}, principal="bot")
    assert envelope.status == "refused"
    assert "toolgen build" in envelope.error.suggestion


async def test_a_preview_names_the_function(project: Callable[..., Path]) -> None:
    path = project()
    gateway = Gateway.load(path)
    shown = (await gateway.preview("own__free", {"x": 1}, principal="bot")).data
    assert isinstance(shown, dict)
    assert shown["function"].endswith(".free")
    assert shown["arguments"] == {"x": 1}


def test_tools_can_be_called_as_their_functions_are(project: Callable[..., Path]) -> None:
    assert "convert" in Gateway.load(project(more=", prefix: none")).manifest.tools


RESERVED = [
    "search_tools",
    "describe_tool",
    "run_tool",
    "run_read_tool",
    "call_tool",
    "call_read_tool",
    "get_call_result",
    "read_file",
]


def test_names_of_the_gateways_own_tools_are_kept_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "named_as_meta_tools"
    functions = [
        f'@toolgen.tool\ndef {name}(x: str) -> str:\n    """Takes x."""\n    return x\n' for name in (*RESERVED, "free")
    ]
    (tmp_path / f"{module}.py").write_text("import toolgen\n\n" + "\n\n".join(functions), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    bare = toolgen.build({"own": {"python": module, "prefix": "none"}}, root=tmp_path)
    assert set(bare.tools) == {"free"}
    assert {(one.code, one.level) for one in bare.problems} == {("reserved_name", "error")}
    assert sorted(one.message.partition(" ")[0] for one in bare.problems) == sorted(RESERVED)
    prefixed = toolgen.build({"own": {"python": module}}, root=tmp_path)
    assert set(prefixed.tools) == {f"own__{name}" for name in (*RESERVED, "free")}
    assert {*INPUTS, *_FORMER, GET_CALL_RESULT, READ_FILE} == META_TOOLS


@pytest.mark.parametrize("module", ["../x", "a b", "os;x", "a..b", ""])
def test_what_is_no_module_is_an_error_with_its_line(module: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        toolgen.build({"own": {"python": module}}, root=tmp_path)


def test_a_module_that_is_not_there_or_breaks_says_so_without_its_text(tmp_path: Path) -> None:
    (tmp_path / "breaks_at_once.py").write_text("x = 1\nraise ValueError('password')\n", encoding="utf-8")
    for module, says in (
        ("nowhere_at_all", "there is no module nowhere_at_all"),
        ("breaks_at_once", "ValueError, line 2"),
    ):
        manifest = toolgen.build({"own": {"python": module}}, root=tmp_path)
        (problem,) = manifest.problems
        assert (problem.level, problem.code, len(manifest.tools)) == ("error", "bad_module", 0)
        assert says in problem.message
        assert "password" not in problem.message


@pytest.mark.parametrize("said", [{"effect": "reads"}, {"timeout": 0}, {"requires": ("telepathy",)}])
def test_a_mark_that_means_nothing_is_refused_where_it_stands(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"effect|timeout|requires"):
        toolgen.tool(**said)
