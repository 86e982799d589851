"""Tools that a program adds and removes while its gateway runs: governed, on record, and nothing that a build or a start undoes."""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import toolgen
from tests.connectors.functions.projects import written
from tests.gateway.catalog.test_catalog_reloader import rebuilt
from tests.patient import until
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.core.errors import ConfigError, PolicyError, StateError
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Error

MODULE = '''
import asyncio
import toolgen

@toolgen.tool(effect="read")
def version() -> int:
    """Says which version it is."""
    return 1

@toolgen.tool(effect="read")
async def slow() -> int:
    """Waits until it may end."""
    BEGUN.append(1)
    await MAY_END.wait()
    return 7

def spare(count: int = 1) -> int:
    """Spare parts that are left."""
    return count

BEGUN = []
MAY_END = asyncio.Event()
'''
PRINCIPALS = "principals: {bot: {roles: [bot]}, ann: {roles: [user]}}\n"
OWN = PRINCIPALS + 'rules: [{id: own, to: [bot], tools: ["own__*"], verdict: allow}]\n'
OPEN = PRINCIPALS + (
    'rules: [{id: own, to: [bot], tools: ["own__*"], verdict: allow}, '
    '{id: later, to: [bot], tools: ["added__*"], effects: [read, write], verdict: allow}]\n'
)


def pay(cents: int, to: str = "ann") -> int:
    """Pays an invoice."""
    return cents


def changes(folder: Path) -> list[tuple[str, str, str, str]]:
    return [
        (entry["code"], entry["tool"], entry["tool_digest"], entry["status"])
        for entry in entries(folder / "audit")
        if entry["event"] == "catalog" and "code" in entry
    ]


async def said(gateway: Gateway, name: str, arguments: Any = None) -> Any:
    """What came of a call: its data, or its error's code."""
    answer = await gateway.call(name, arguments or {}, principal="bot")
    return answer.data if answer.error is None else answer.error.code


def names(gateway: Gateway) -> list[str]:
    return [tool.name for tool in gateway.tool_calls.catalog(gateway.principal("bot"))]


async def test_a_tool_that_is_added_is_nobodys_until_the_policy_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OWN)

    async with Gateway.load(path) as gateway:
        before = await said(gateway, "added__pay", {"cents": 1})
        await gateway.tools.add(pay)
        after = await gateway.call("added__pay", {"cents": 1}, principal="bot")
        assert after.error == (await gateway.call("added__free", {"cents": 1}, principal="bot")).error
        assert "added__pay" not in names(gateway)
        (tmp_path / "policies" / "policy.yaml").write_text(OPEN, encoding="utf-8")
        await until(lambda: "added__pay" in names(gateway))
        assert (before, await said(gateway, "added__pay", {"cents": 5})) == ("unknown_tool", 5)


async def test_what_is_added_and_removed_is_told_and_on_record_with_its_digest(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)

    async with Gateway.load(path) as gateway:
        seen = []
        made: Any
        steps: list[Callable[[], Awaitable[Any]]] = [
            lambda: gateway.tools.add(pay, effect="read", title="Pay it", description="Use it for invoices."),
            lambda: gateway.tools.remove("added__pay"),
            lambda: gateway.tools.remove("own__version"),
            lambda: gateway.tools.restore("own__version"),
        ]
        for change in steps:
            changed = asyncio.create_task(gateway.tool_calls.changed())
            await asyncio.sleep(0)
            before = gateway.manifest.digest
            made = await change()
            await changed
            assert gateway.manifest.digest != before
            seen.append((made, names(gateway)))
        assert await said(gateway, "own__version") == 1
        version = gateway.manifest.tools["own__version"].digest
    added = seen[0][0]
    assert (added.name, added.title, added.description) == ("added__pay", "Pay it", "Use it for invoices.")
    assert (added.effect, added.source) == ("read", "added")
    assert [found for _, found in seen] == [
        ["added__pay", "own__slow", "own__version"],
        ["own__slow", "own__version"],
        ["own__slow"],
        ["own__slow", "own__version"],
    ]
    assert changes(tmp_path) == [
        ("tool_added", "added__pay", added.digest, "ok"),
        ("tool_removed", "added__pay", added.digest, "ok"),
        ("tool_removed", "own__version", version, "ok"),
        ("tool_restored", "own__version", version, "ok"),
    ]
    assert verify(tmp_path / "audit").ok


NARROW = OPEN.replace(
    "effects: [read, write], verdict: allow}]",
    "effects: [read, write], arguments: {properties: {cents: {maximum: 9}}}, when: \"args.to == 'ann'\", verdict: allow}]",
).replace('"added__*"', "added__pay")


async def test_a_rule_may_stand_before_its_tool_and_holds_once_that_is_there(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=NARROW)

    def charge(cents: int) -> int:
        """Charges somebody."""
        return cents

    async with Gateway.load(path) as gateway:
        with pytest.raises(PolicyError, match="'to'"):
            await gateway.tools.add(charge, name="pay")
        assert "added__pay" not in gateway.manifest.tools
        await gateway.tools.add(pay)
        asked: list[dict[str, Any]] = [{"cents": 9, "to": "ann"}, {"cents": 10, "to": "ann"}, {"cents": 9, "to": "eve"}]
        assert [await said(gateway, "added__pay", one) for one in asked] == [9, "forbidden", "forbidden"]
    assert [code for code, *_ in changes(tmp_path)] == ["tool_added"]


def test_a_name_that_means_no_tool_is_still_an_error_anywhere_else(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OPEN.replace("added__*", "add__*"))
    with pytest.raises(PolicyError, match=r"'add__\*'"):
        Gateway.load(path)


def untyped(value): ...  # type: ignore[no-untyped-def]


def rows(count: int) -> Any:
    yield count


def starred(*values: int) -> int:
    return len(values)


def odd(value: Callable[[int], int]) -> int:
    return value(1)


@pytest.mark.parametrize(
    ("function", "words", "reason"),
    [
        (untyped, {}, "untyped: value has no type"),
        (rows, {}, "rows yields"),
        (starred, {}, "values has no name"),
        (odd, {}, "odd: "),
        (print, {}, "this builtin_function_or_method is not a tool .give a function"),
        (int, {}, "the class int is not a tool"),
        ([pay], {}, "this list is not a tool .add its tools one by one, or name it"),
        (SimpleNamespace(list_tools=pay, secret="canary"), {}, "this SimpleNamespace is not a tool .add its tools"),
        (SimpleNamespace(name="pay", parameters={}), {}, "this SimpleNamespace is not a tool .give a function"),
        (pay, {"name": "search tools"}, "is not a valid tool name"),
        (pay, {"name": "x" * 60}, "is not a valid tool name"),
        (pay, {"effect": "reads"}, "'reads' is not read, write or destructive"),
        (lambda: 1, {}, "<lambda> is not a valid tool name"),
    ],
)
async def test_what_cannot_be_a_tool_is_refused_in_words(
    tmp_path: Path, function: Any, words: dict[str, str], reason: str
) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)

    async with Gateway.load(path) as gateway:
        before = gateway.manifest
        with pytest.raises(ConfigError, match=reason):
            await gateway.tools.add(function, **words)
        assert gateway.manifest is before
    assert changes(tmp_path) == []


def _of_langchain(name: str = "lookup") -> Any:
    tools = pytest.importorskip("langchain_core.tools")

    class Query(pytest.importorskip("pydantic").BaseModel):  # type: ignore[misc]
        text: str
        limit: int = 5

    def lookup(text: str, limit: int = 5) -> list[str]:
        if text == "none":
            raise tools.ToolException("no such text")
        return [text] * limit

    made = {"name": name, "description": "Looks texts up.", "args_schema": Query}
    return tools.StructuredTool.from_function(lookup, **made)


def _of_mcp(name: str = "lookup") -> Any:
    server = pytest.importorskip("mcp.server.mcpserver")

    async def lookup(text: str, limit: int = 5) -> list[str]:
        if text == "none":
            raise server.exceptions.ToolError("no such text")
        return [text] * limit

    hints = pytest.importorskip("mcp.types").ToolAnnotations(destructive_hint=False)
    return server.tools.Tool.from_function(lookup, name=name, description="Looks texts up.", annotations=hints)


@pytest.mark.parametrize("made", [_of_langchain, _of_mcp])
async def test_a_tool_of_another_framework_is_taken_as_it_is_and_governed(
    tmp_path: Path, made: Callable[..., Any]
) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)

    async with Gateway.load(path) as gateway:
        tool = await gateway.tools.add(made())
        assert (tool.name, tool.effect, tool.description) == ("added__lookup", "write", "Looks texts up.")
        assert set(tool.input_schema["properties"]) == {"text", "limit"}
        renamed = await gateway.tools.add(made(), name="find", effect="destructive", description="Finds.")
        assert (renamed.name, renamed.effect, renamed.description) == ("added__find", "destructive", "Finds.")
        assert "added__find" not in names(gateway)  # the policy has no rule for what destroys
        with pytest.raises(ConfigError, match="added__lookup"):
            await gateway.tools.add(made())
        with pytest.raises(ConfigError, match="added__a b"):
            await gateway.tools.add(made("a b") if made is _of_langchain else made(), name="a b")
        found = await said(gateway, "added__lookup", {"text": "a", "limit": 2})
        failed = await gateway.call("added__lookup", {"text": "none"}, principal="bot")
        wrong = await said(gateway, "added__lookup", {"text": 3})
        await gateway.tools.remove("added__lookup")
        gone = await said(gateway, "added__lookup", {"text": "a"})
    assert found in (["a", "a"], {"result": ["a", "a"]})
    assert failed.error is not None
    assert (failed.error.code, failed.error.message) == ("handler_error", "no such text")
    assert (wrong, gone) == ("validation", "unknown_tool")
    assert changes(tmp_path)[0][:2] == ("tool_added", "added__lookup")


async def test_names_that_are_taken_and_names_that_are_none_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)

    async with Gateway.load(path) as gateway:
        await gateway.tools.add(pay)
        with pytest.raises(ConfigError, match="added__pay"):
            await gateway.tools.add(pay)
        with pytest.raises(ConfigError, match=r"'added__pey'.*'added__pay'"):
            await gateway.tools.remove("added__pey")
        with pytest.raises(ConfigError, match="'own__version'"):
            await gateway.tools.restore("own__version")
        await gateway.tools.remove("added__pay")
        with pytest.raises(ConfigError, match="'added__pay'"):
            await gateway.tools.remove("added__pay")


async def test_a_gateway_that_is_not_open_changes_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)
    gateway = Gateway.load(path)
    for change in (gateway.tools.add(pay), gateway.tools.remove("own__version")):
        with pytest.raises(ConfigError, match="the gateway is not open"):
            await change
    assert "own__version" in gateway.manifest.tools


async def test_a_build_brings_nothing_back_and_drops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)
    rebuilt(path, MODULE)
    after = MODULE.replace("return 1\n", "return 22\n", 1).replace(
        "def spare", '@toolgen.tool(effect="read")\ndef spare'
    )

    async with Gateway.load(path) as gateway:
        await gateway.tools.add(pay)
        await gateway.tools.remove("own__version")
        await asyncio.to_thread(rebuilt, path, after)
        await until(lambda: "own__spare" in gateway.manifest.tools)
        found = names(gateway), await said(gateway, "own__version"), await said(gateway, "added__pay", {"cents": 3})
        await gateway.tools.restore("own__version")
        found, version, paid, back = *found, await said(gateway, "own__version")
    assert found == ["added__pay", "own__slow", "own__spare"]
    assert (version, paid, back) == ("unknown_tool", 3, 22)
    assert "(1 added)" in caplog.text


async def test_a_build_with_the_name_of_an_added_tool_is_not_in_force(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, "{{python: {module}, prefix: none}}", policy=OPEN.replace("own__*", "version"))
    rebuilt(path, MODULE)
    after = MODULE.replace("def spare", '@toolgen.tool(effect="read")\ndef added__pay')

    async with Gateway.load(path) as gateway:
        await gateway.tools.add(pay)
        await asyncio.to_thread(rebuilt, path, after)
        await until(lambda: any("added__pay was added at run time" in one for one in gateway.operations.warnings()))
        still = await said(gateway, "added__pay", {"cents": 3})
        await gateway.tools.remove("added__pay")
        await gateway._catalog.reload()
        assert (still, await said(gateway, "added__pay", {"count": 4})) == (3, 4)


async def test_what_was_removed_stays_removed_after_a_start_and_on_the_command_line(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)

    async with Gateway.load(path) as gateway:
        await gateway.tools.remove("own__version")
    async with Gateway.load(path) as gateway:
        assert (await said(gateway, "own__version"), names(gateway), gateway.tools.removed) == (
            "unknown_tool",
            ["own__slow"],
            {"own__version"},
        )
    async with Gateway.load(path).short_session() as gateway:
        assert await said(gateway, "own__version") == "unknown_tool"


async def test_a_function_of_the_project_is_there_again_after_a_start(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)

    async with Gateway.load(path) as gateway:
        await said(gateway, "own__version")  # imports the module
        binding: Any = gateway.manifest.tools["own__version"].binding
        added = await gateway.tools.add(sys.modules[binding.module].spare, effect="read")
    async with Gateway.load(path) as gateway:
        assert (await said(gateway, "added__spare", {"count": 6}), gateway.manifest.tools["added__spare"].digest) == (
            6,
            added.digest,
        )
    assert [code for code, *_ in changes(tmp_path)] == ["tool_added", "tool_added"]


async def test_a_function_that_is_another_by_now_is_not_there_and_that_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)
    (module,) = (file.stem for file in tmp_path.glob("project_functions_*.py"))

    async with Gateway.load(path) as gateway:
        await said(gateway, "own__version")
        await gateway.tools.add(sys.modules[module].spare)
    (tmp_path / f"{module}.py").write_text(MODULE.replace("return count", "return count + 1"), encoding="utf-8")
    sys.modules.pop(module)
    async with Gateway.load(path) as gateway:
        assert "added__spare" not in gateway.manifest.tools
        with pytest.raises(ConfigError, match="added__spare"):
            await gateway.tools.add(sys.modules[module].spare)
        warnings = gateway.operations.warnings()
        await gateway.tools.remove("added__spare")
        await gateway.tools.add(sys.modules[module].spare)
        data = await said(gateway, "added__spare")
        after = gateway.operations.warnings()
    assert any(f"{module}.spare is not" in warning for warning in warnings)
    assert (data, after) == (2, ())


@pytest.mark.parametrize(
    ("module", "function", "reason"),
    [
        ("os", "system", "is not in a package"),
        ("tests.gateway.catalog.test_runtime_tools", "pay", "is not in a package"),
        ("OWN", "tool_of_another", "has no function"),
        ("OWN", "missing", "has no function"),
        ("OWN", "BEGUN", "has no function"),
        ("OWN", "spare", "is not the function that was added"),
    ],
)
async def test_what_somebody_writes_into_the_state_makes_no_other_code_run(
    tmp_path: Path, module: str, function: str, reason: str
) -> None:
    path = written(
        tmp_path,
        MODULE + "\nfrom tests.gateway.catalog.test_runtime_tools import pay as tool_of_another\n",
        policy=OPEN,
    )
    own = next(tmp_path.glob("project_functions_*.py")).stem
    entry = {"name": "added__evil", "module": own if module == "OWN" else module, "function": function}
    state = {"added": [{**entry, "digest": "sha256:" + "0" * 64, "since": 0.0}]}

    (tmp_path / "var" / "state").mkdir(parents=True)
    async with Gateway.load(path) as gateway:
        (tmp_path / "var" / "state" / "tools.json").write_text(json.dumps(state), encoding="utf-8")
        await until(lambda: bool(gateway.operations.warnings()))
        warnings, found, ready = gateway.operations.warnings(), names(gateway), gateway.operations.ready()
    assert reason in warnings[0]
    assert found == ["own__slow", "own__version"]
    assert ready == ()


@pytest.mark.parametrize("content", ["{", "[]", '{"removed": [{"name": "own__version"}]}', '{"other": 1}'])
async def test_a_state_that_cannot_be_read_starts_nothing_and_takes_nothing_back(tmp_path: Path, content: str) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)
    file = tmp_path / "var" / "state" / "tools.json"

    async with Gateway.load(path) as gateway:
        await gateway.tools.remove("own__version")
        good = file.read_text(encoding="utf-8")
        file.write_text(content, encoding="utf-8")
        await until(lambda: bool(gateway.operations.warnings()))
        with pytest.raises(StateError):
            await gateway.tools.restore("own__version")
        (warning,), still = gateway.operations.warnings(), await said(gateway, "own__version")
        file.write_text(good, encoding="utf-8")
        await until(lambda: not gateway.operations.warnings())
        file.write_text(content, encoding="utf-8")
    assert "cannot be read" in warning
    assert still == "unknown_tool"
    with pytest.raises(StateError, match=file.name):
        async with Gateway.load(path):
            pass


async def test_another_process_of_the_project_follows(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)

    async with Gateway.load(path) as first, Gateway.load(path) as second:
        await said(first, "own__version")
        binding: Any = first.manifest.tools["own__version"].binding
        await first.tools.remove("own__version")
        await first.tools.add(pay)
        added = await first.tools.add(sys.modules[binding.module].spare)
        await until(lambda: "added__spare" in names(second))
        found = names(second), await said(second, "added__spare"), await said(second, "own__version")
        await second.tools.remove("added__spare")
        await second.tools.restore("own__version")
        await until(lambda: "own__version" in names(first))
        assert names(first) == ["added__pay", "own__slow", "own__version"]
    assert found == (["added__spare", "own__slow"], 1, "unknown_tool")
    assert changes(tmp_path).count(("tool_added", "added__spare", added.digest, "ok")) == 2
    assert changes(tmp_path).count(("tool_removed", "added__spare", added.digest, "ok")) == 2


async def test_a_call_under_way_ends_and_one_that_waits_for_a_person_never_begins(tmp_path: Path) -> None:
    asks = OPEN.replace("verdict: allow}]", "verdict: ask}]") + "approvals: {approvers: [user]}\n"
    path = written(tmp_path, MODULE, policy=asks)
    paid = []

    def transfer(cents: int) -> int:
        """Transfers money."""
        paid.append(cents)
        return cents

    async with Gateway.load(path) as gateway:
        binding: Any = gateway.manifest.tools["own__slow"].binding
        call = asyncio.create_task(gateway.call("own__slow", {}, principal="bot"))
        await until(lambda: bool(getattr(sys.modules.get(binding.module), "BEGUN", [])))
        await gateway.tools.remove("own__slow")
        await gateway.tools.add(transfer)
        waits = await gateway.call("added__transfer", {"cents": 3}, principal="bot")
        assert waits.status == "pending"
        await gateway.tools.remove("added__transfer")
        answer = await gateway.approvals.decide(
            waits.call_id, approve=True, note="", principal=gateway.principal("ann")
        )
        outcome = await gateway.approvals.calls.outcome(waits.call_id, gateway.principal("bot"), 20)
        module = sys.modules[binding.module]
        for waiter in list(module.MAY_END._waiters):
            waiter.get_loop().call_soon_threadsafe(module.MAY_END.set)
        data = (await call).data
        slow = await said(gateway, "own__slow")
    assert (data, slow) == (7, "unknown_tool")
    assert isinstance(answer, Error) or (outcome is not None and outcome.status == "refused")
    assert paid == []


async def test_search_finds_what_was_added_and_no_more_what_was_removed(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)
    text = path.read_text(encoding="utf-8")
    path.write_text(text + "gateway: {search_above: 1}\n", encoding="utf-8")

    async def search(gateway: Gateway, query: str) -> list[str]:
        answer = await gateway.call("search_tools", {"query": query}, principal="bot")
        data: Any = answer.data
        return [tool["name"] for tool in data["tools"]]

    async with Gateway.load(path) as gateway:
        before = await search(gateway, "pay an invoice"), await search(gateway, "which version is it")
        await gateway.tools.add(pay)
        await gateway.tools.remove("own__version")
        described = await said(gateway, "describe_tool", {"name": "added__pay"})
        after = await search(gateway, "pay an invoice"), await search(gateway, "which version is it")
        required = described["input_schema"]["required"]
    assert before == ([], ["own__version"])
    assert (after[0], after[1], required) == (["added__pay"], [], ["cents"])


async def test_a_broken_edit_of_the_policy_holds_up_no_removal_and_no_addition(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OPEN)

    async with Gateway.load(path) as gateway:
        (tmp_path / "policies" / "policy.yaml").write_text("rules: [", encoding="utf-8")
        await gateway.tools.remove("own__version")
        await gateway.tools.add(pay)
        assert (
            await said(gateway, "own__version"),
            await said(gateway, "added__pay", {"cents": 1}),
            names(gateway),
        ) == ("unknown_tool", 1, ["added__pay", "own__slow"])


async def test_a_project_with_a_source_of_that_name_keeps_it(tmp_path: Path) -> None:
    path = written(tmp_path, MODULE, policy=OPEN.replace("own__*", "added__*"))
    path.write_text(path.read_text(encoding="utf-8").replace("{own:", "{added:"), encoding="utf-8")

    async with Gateway.load(path) as gateway:
        with pytest.raises(ConfigError, match="reserved"):
            await gateway.tools.add(pay)
        assert await said(gateway, "added__version") == 1


class Counter:
    """An object whose method becomes a tool."""

    def __init__(self) -> None:
        self.count = 0

    async def step(self, by: int = 1) -> int:
        """Counts on."""
        self.count += by
        return self.count


def test_a_gateway_of_functions_takes_more_of_them_by_their_own_names() -> None:
    counter = Counter()

    def add(left: int, right: int = 1) -> int:
        """Adds two numbers."""
        return left + right

    @toolgen.tool(effect="destructive")
    def wipe() -> int:
        """Wipes it."""
        return 0

    with toolgen.Gateway.from_functions(add) as calls:
        assert calls.tools.add(counter.step).name == "step"
        calls.tools.add(wipe)
        assert calls.call("step", {"by": 3}).data == 3
        assert [tool.name for tool in calls.tools.list()] == ["add", "step"]
        calls.tools.remove("add")
        refused = calls.call("add", {"left": 1})
        assert refused.error is not None
        assert refused.error.code == "unknown_tool"
        calls.tools.add(pay, name="add")
        assert calls.call("add", {"cents": 8}).data == 8
        with pytest.raises(ConfigError, match="add was added meanwhile"):
            calls.tools.restore("add")
        calls.tools.remove("add")
        assert calls.tools.restore("add") is not None
        assert calls.call("add", {"left": 1}).data == 2
    assert not inspect.ismethod(add)
