"""search_tools, describe_tool and run_tool over a real gateway: what they find, what they hide, and that a call stays a call."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import httpx2
import msgspec
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from msgspec.structs import replace

from tests.catalogs import PETS
from tests.gateway.clients import BASE, JSON, bearer, listening
from tests.generator.emit.providers import ACCEPTED
from tests.messages import line_names
from tests.projects import KEY, POLICY, audit_entries, make_project
from toolgen.core.clock import FixedClock
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.search_answers import FoundTool, entries
from toolgen.gateway.catalog.search_tools import DEFAULT_HITS, meta_tools
from toolgen.gateway.catalog.tool_discovery import MAX_QUERY_LENGTH, Discovery, static_cost
from toolgen.gateway.catalog.tool_lists import Listings
from toolgen.generator.build import build
from toolgen.generator.emit.formats import FORMATS
from toolgen.model.call import Principal
from toolgen.model.names import TOOL_NAME
from toolgen.model.result import Envelope, Error
from toolgen.model.tool import Tool

THREE = ["describe_tool", "run_tool", "search_tools"]
BOT_SEES = ["pets__get_pet", "shop__describe_table", "shop__explain", "shop__list_tables", "shop__query"]
CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus"


def project(root: Path, *, above: object = 0, **policy: Any) -> Path:
    """The pets and the shop, whose catalog is searched rather than listed."""
    path = make_project(root, policy={**POLICY, **policy})
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["gateway"] = {"search_above": above}
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


@contextlib.asynccontextmanager
async def http_on(gateway: Gateway) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(App(gateway)), base_url=BASE, headers=bearer(KEY)
    ) as http:
        yield http


def told(result: CallToolResult) -> Any:
    """What a result says, which is one text of JSON and nothing else."""
    (block,) = result.content
    assert block.type == "text"
    assert (result.is_error, result.structured_content) == (False, None)
    return json.loads(block.text)


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [item.name for item in tools]


@pytest.mark.parametrize(("mode", "protocol_style"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_sdk_client_searches_describes_and_calls(tmp_path: Path, mode: str, protocol_style: str) -> None:
    async with (
        Gateway.load(project(tmp_path)) as gateway,
        listening(App(gateway)) as url,
        httpx2.AsyncClient(headers=bearer(KEY)) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        assert client.protocol_version == protocol_style
        listed = {item.name: item for item in (await client.list_tools()).tools}
        assert list(listed) == THREE
        hints = {name: item.annotations.read_only_hint for name, item in listed.items() if item.annotations}
        assert hints == {
            "run_tool": True,
            "describe_tool": True,
            "search_tools": True,
        }  # this principal only reads

        assert all(item.output_schema is None for item in listed.values())

        found = told(await client.call_tool("search_tools", {"query": "run a sql query", "limit": 2}))
        first = found["tools"][0]
        assert (first["name"], first["effect"]) == ("shop__query", "read")
        assert len(found["tools"]) == 2

        shown = told(await client.call_tool("describe_tool", {"name": first["name"], "output_schema": True}))
        assert shown["input_schema"]["required"] == ["sql"]
        assert shown["output_schema"]["type"] == "object"
        assert "output_schema" not in told(await client.call_tool("describe_tool", {"name": first["name"]}))

        wanted = {"sql": "select name from customers order by id"}
        through = await client.call_tool("run_tool", {"name": "shop__query", "arguments": wanted})
        direct = await client.call_tool("shop__query", wanted)
        assert told(through) == told(direct)
        assert told(direct)["rows"] == [["Ada"], ["Ben"]]
        refused = await client.call_tool(
            "run_tool", {"name": "shop__query", "arguments": {"sql": "select email from customers"}}
        )
        assert (refused.is_error, refused.structured_content) == (True, None)
        assert refused.content[0].type == "text"
        assert refused.content[0].text.startswith("sql_refused: ")
        unknown = await client.call_tool("describe_tool", {"name": "shop__qery"})
        assert unknown.is_error is True
        assert unknown.content[0].type == "text"
        assert "shop__query" in unknown.content[0].text


async def test_every_stage_and_the_record_see_the_inner_tool(tmp_path: Path) -> None:
    limits = [{"id": "slow", "per": ["principal", "tool"], "rate": "1/h", "burst": 1, "cost": {"shop__explain": 1}}]
    rules = [
        *POLICY["rules"],
        {"id": "pets", "to": ["bot"], "tools": ["pets__delete_pet"], "verdict": "allow"},
    ]
    async with Gateway.load(project(tmp_path, limits=limits, rules=rules)) as gateway:

        async def through(name: str, **arguments: Any) -> Envelope:
            return await gateway.call(
                "run_tool", {"name": name, "arguments": arguments}, principal="bot", session="talk", client="me"
            )

        assert (await through("shop__query", sql="select 1")).status == "ok"
        again = await through("shop__query", sql="select 1")
        assert again.error is not None
        assert (again.error.code, again.error.rule) == ("rate_limited", "slow")
        assert (await gateway.call("shop__query", {"sql": "select 1"}, principal="bot")).status == "refused"
        destructive = await through("pets__delete_pet", petId=1)
        assert (destructive.status, destructive.tool) == ("cancelled", "pets__delete_pet")
        wrong = await through("pets__get_pet", petId="five")
        assert wrong.error is not None
        assert wrong.error.code == "validation"
        text = await gateway.call(
            "run_tool", {"name": "shop__explain", "arguments": '{"sql": "select 1"}'}, principal="bot"
        )
        assert text.status == "ok"  # arguments as JSON text are what was meant
        entries = audit_entries(gateway)
    intents = [entry for entry in reversed(entries) if entry["event"] == "intent"]
    assert [entry["tool"] for entry in intents] == [
        *("shop__query", "shop__query", "shop__query", "pets__delete_pet", "pets__get_pet", "shop__explain")
    ]
    assert intents[0]["tool_digest"] == gateway.manifest.tools["shop__query"].digest
    assert intents[0]["arguments"] == {"sql": "select 1"}
    assert (intents[0]["session"], intents[0]["client"]) == ("talk", "me")


async def test_a_dry_run_of_run_tool_is_one_of_the_inner_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PETS_KEY", "k" * 20)
    gateway = Gateway.load(project(tmp_path))
    wanted = {"name": "pets__get_pet", "arguments": {"petId": 7}}
    dry = await gateway.preview("run_tool", wanted, principal="bot")
    assert isinstance(dry.data, Mapping)
    assert str(dry.data["url"]).endswith("/pets/7")


async def test_searching_and_describing_leave_no_record_and_need_no_upstream(tmp_path: Path) -> None:
    async with Gateway.load(project(tmp_path)) as gateway:
        before = audit_entries(gateway)
        found = await gateway.call("search_tools", {"query": "pet"}, principal="bot")
        shown = await gateway.call("describe_tool", {"name": "pets__get_pet"}, principal="bot")
        assert (found.status, shown.status, found.call_id[:5]) == ("ok", "ok", "call_")
        assert audit_entries(gateway) == before


@pytest.mark.parametrize("name", ["run_tool", "search_tools", "describe_tool", "nothing__here", ""])
async def test_run_tool_calls_tools_of_the_catalog_and_nothing_else(tmp_path: Path, name: str) -> None:
    async with Gateway.load(project(tmp_path)) as gateway:
        arguments = {"name": name, "arguments": {"name": name, "arguments": {}, "query": "pet"}}
        answer = await gateway.call("run_tool", arguments, principal="bot")
    assert answer.error is not None
    assert answer.error.code == ("unknown_tool" if name else "validation")


QUERIES = ["pet", "delete a pet", "get a pet by id", "sql query table", "list", "customers", "explain the shop"]
NAMES = ["pets__delete_pet", "pets__get_pet", "shop__query", "shop__list_tables", "shop__nothing", "x", "__"]


async def test_what_a_principal_may_not_see_might_as_well_not_be_there(tmp_path: Path) -> None:
    """Every answer is, byte for byte, that of a gateway whose catalog never held the hidden tools: hits, order, suggestions, errors."""
    path = project(
        tmp_path, rules=[{"id": "few", "to": ["bot"], "tools": ["*list_tables", "*describe_table"], "verdict": "allow"}]
    )
    whole = Gateway.load(path)
    kept = {name: tool for name, tool in whole.manifest.tools.items() if name.endswith(("_tables", "_table"))}
    assert 0 < len(kept) < len(whole.manifest.tools)
    small = Gateway(
        settings=replace(whole.settings, audit_dir=tmp_path / "other"),
        manifest=replace(whole.manifest, tools=MappingProxyType(kept)),
        policy=whole.policy,
    )

    async def answers(gateway: Gateway) -> list[bytes]:
        bot, said = gateway.principal("bot"), []
        async with gateway:
            said.append(msgspec.json.encode([item.to_dict() for item in gateway.tool_calls.offered(bot)]))
            for query in QUERIES:
                found = await gateway.tool_calls.search(bot, query, 50)
                assert not isinstance(found, Error)
                said.append(msgspec.json.encode([item.to_dict() for item in found]))
            calls: list[tuple[str, dict[str, Any]]] = [("search_tools", {"query": query}) for query in QUERIES]
            for name in NAMES:
                calls += [("describe_tool", {"name": name}), ("run_tool", {"name": name})]
                calls += [(name, {}), (name, {"petId": 1})]
            for name, arguments in calls:
                envelope = await gateway.call(name, arguments, principal=bot)
                plain = envelope.to_dict()
                said.append(msgspec.json.encode({key: plain.get(key) for key in ("status", "tool", "data", "error")}))
        return said

    assert await answers(whole) == await answers(small)


async def test_principals_with_other_rights_get_other_answers(tmp_path: Path) -> None:
    async with Gateway.load(project(tmp_path)) as gateway:
        found = {}
        for name in ("bot", "ann", "reviewer"):
            answer = await gateway.tool_calls.search(gateway.principal(name), "query the shop or get a pet", 50)
            assert not isinstance(answer, Error)
            found[name] = sorted(names(answer))
        acting = await gateway.tool_calls.search(gateway.principal("bot", "ann"), "query the shop or get a pet", 50)
        assert not isinstance(acting, Error)
    assert found == {"bot": BOT_SEES, "ann": ["pets__get_pet"], "reviewer": []}
    assert names(acting) == ["pets__get_pet"]


@pytest.mark.parametrize(
    ("above", "three"), [(0, True), ("never", False), (20_000, False), ("cost", False), ("less", True)]
)
def test_the_three_tools_stand_in_for_a_catalog_above_the_threshold(tmp_path: Path, above: object, three: bool) -> None:
    gateway = Gateway.load(project(tmp_path))
    cost = static_cost(gateway.tool_calls.catalog(gateway.principal("bot")))
    given = {"cost": cost, "less": cost - 1}.get(str(above), above)
    gateway = Gateway.load(project(tmp_path / "again", above=given))
    bot = gateway.principal("bot")
    assert names(gateway.tool_calls.offered(bot)) == (THREE if three else BOT_SEES)
    assert gateway.tool_calls.offered(bot) is gateway.tool_calls.offered(bot)
    assert gateway.tool_calls.offered(gateway.principal("reviewer")) == ()  # nothing to search


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_former_names_are_taken_and_nowhere_listed(tmp_path: Path, mode: str) -> None:
    """By every front end; the record, errors and what is told have the name that is listed."""
    inner = {"name": "shop__query", "arguments": {"sql": "select 1"}}
    async with (
        Gateway.load(project(tmp_path)) as gateway,
        listening(App(gateway)) as url,
        httpx2.AsyncClient(headers=bearer(KEY)) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
        http_on(gateway) as rest,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == THREE
        for former, name in (("call_tool", "run_tool"), ("call_read_tool", "run_read_tool")):
            assert (await client.call_tool(former, inner)).is_error is False
            posted = (await rest.post(f"/v1/tools/{former}/call", headers=JSON, json={"arguments": inner})).json()
            assert (posted["status"], posted["tool"]) == ("ok", "shop__query")
            refused = await gateway.call(former, {"name": 5}, principal="bot")
            assert refused.tool == name
            assert former not in json.dumps(refused.to_dict())
        assert (await rest.get("/v1/tools/call_tool")).json()["name"] == "run_tool"
        intents = [entry["tool"] for entry in audit_entries(gateway) if entry["event"] == "intent"]
        assert intents == ["shop__query"] * 4


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_tools", {"query": "query", "limit": None}),
        ("describe_tool", {"name": "shop__query", "fields": None, "depth": None, "output_schema": None}),
        ("run_tool", {"name": "shop__list_tables", "arguments": None}),
        ("run_tool", {"name": "shop__list_tables", "args": None}),
        ("run_tool", {"name": "shop__query", "args": {"sql": "select 1", "parameters": None}}),
        ("run_tool", {"name": "shop__query", "sql": "select 1"}),
        ("run_tool", {"arguments": {"name": "shop__query", "arguments": '{"sql": "select 1"}'}}),
        ("run_read_tool", {"name": "shop__query", "arguments": {"name": "shop__query", "arguments": {"sql": "select 1"}}}),
    ],
)  # fmt: skip
async def test_what_clients_send_in_place_of_what_is_optional_is_taken(
    tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    async with Gateway.load(project(tmp_path)) as gateway:
        assert (await gateway.call(name, arguments, principal="bot")).status == "ok"


async def test_arguments_that_would_be_lost_are_told(tmp_path: Path) -> None:
    async with Gateway.load(project(tmp_path)) as gateway:
        found = await gateway.call("search_tools", {"query": "pet", "limits": 3}, principal="bot")
        assert found.meta.dropped == ({"argument": "limits", "nearest": "limit"},)
        beside = {"name": "shop__query", "sql": "select 1", "dry_run": True}
        refused = await gateway.call("run_tool", beside, principal="bot")
        assert refused.error is not None
        assert line_names(refused.error.message, "sql, dry_run", "shop__query", "no argument dry_run")
        assert "describe_tool" in refused.error.suggestion
        hidden = await gateway.call("run_tool", {**beside, "name": "pets__delete_pet"}, principal="bot")
        assert hidden.error is not None
        assert hidden.error.code == "unknown_tool"
        assert not [entry for entry in audit_entries(gateway) if entry.get("tool") == "shop__query"]


def test_meta_tools_list_few_optional_arguments() -> None:
    listed = {tool.name: tool.input_schema for tool in meta_tools(list(PETS.tools.values()))}
    optional = {name: {*schema["properties"]} - {*schema["required"]} for name, schema in listed.items()}
    assert optional == {
        "describe_tool": {"output_schema", "fields"},
        "run_read_tool": set(),
        "run_tool": set(),
        "search_tools": set(),
    }


async def test_where_the_catalog_is_listed_the_three_are_unknown_tools(tmp_path: Path) -> None:
    async with Gateway.load(project(tmp_path, above="never")) as gateway:
        for name, arguments in (("run_tool", {"name": "shop__query"}), ("search_tools", {"query": "x"})):
            answer = await gateway.call(name, arguments, principal="bot")
            assert answer.error is not None
            assert answer.error.code == "unknown_tool"
        entries = audit_entries(gateway)
    assert [entry["tool"] for entry in entries if entry["event"] == "intent"] == ["search_tools", "run_tool"]


async def test_whoever_had_the_three_listed_keeps_them_when_an_edit_shortens_the_catalog(tmp_path: Path) -> None:
    config = project(tmp_path, above=400)
    async with (
        Gateway.load(config) as gateway,
        listening(App(gateway)) as url,
        httpx2.AsyncClient(headers=bearer(KEY)) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode="legacy") as client,
    ):
        assert [tool.name for tool in (await client.list_tools()).tools] == THREE
        written = next(config.parent.glob("policies/*"))
        text = written.read_text(encoding="utf-8")
        policy = json.loads(text)
        policy["rules"][0]["tools"] = ["pets__*"]
        written.write_text(json.dumps(policy), encoding="utf-8")
        assert await gateway.operations.reload()
        assert names(gateway.tool_calls.offered(gateway.principal("bot"))) == ["pets__get_pet"]
        found = await client.call_tool("search_tools", {"query": "find a pet"})
        assert not found.is_error
        assert told(found)["tools"][0]["name"] == "pets__get_pet"
        described = await client.call_tool("describe_tool", {"name": "pets__get_pet"})
        assert not described.is_error
        called = await client.call_tool("run_tool", {"name": "pets__get_pet", "arguments": {"petId": 1}})
        assert "unknown_tool" not in str(called.content)


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("how do I do that", "these words do not describe a tool"),
        ("???", "these words do not describe a tool"),
        ("xylophone", "no tool has these words"),
        ("find a pet " * 1_000, "only the first 1000 characters"),
        ("find a pet", ""),
    ],
)
async def test_a_query_that_finds_little_says_why_and_a_long_one_is_cut(tmp_path: Path, query: str, note: str) -> None:
    async with Gateway.load(project(tmp_path)) as gateway, http_on(gateway) as http:
        answer = await gateway.call("search_tools", {"query": query}, principal="bot")
        assert answer.status == "ok"
        assert isinstance(answer.data, Mapping)
        assert note in str(answer.data.get("note", ""))
        assert ("note" in answer.data) is bool(note)
        if "pet" in query:
            first = answer.data["tools"][0]
            assert first["name"] == "pets__get_pet"
            assert first["input_schema"]["required"] == ["petId"]
        assert (await http.get("/v1/tools", params={"q": query})).status_code == 200
        assert len(query) < 2 * MAX_QUERY_LENGTH or note


def test_the_best_hit_and_those_that_are_as_likely_carry_their_schemas_within_a_bound() -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string", "description": "x" * 200} for n in range(60)}}
    tools = tuple(sorted(PETS.tools.values(), key=lambda tool: tool.name))
    some = tuple(replace_schema(tool, wide) if number == 1 else tool for number, tool in enumerate(tools))
    shown = entries([FoundTool(tool, 2.0) for tool in some], PETS.tools)
    assert [("input_schema" in entry) for entry in shown][:4] == [True, False, True, False]  # type: ignore[operator]
    clear = entries([FoundTool(tool, 2.0 - number * 0.1) for number, tool in enumerate(tools)], PETS.tools)
    assert [("input_schema" in entry) for entry in clear][:4] == [True, False, False, False]  # type: ignore[operator]
    assert len(entries([], {})) == 0


def replace_schema(tool: Tool, schema: dict[str, Any]) -> Tool:
    return msgspec.structs.replace(tool, input_schema=schema)


async def test_run_read_tool_reads_and_nothing_else(tmp_path: Path) -> None:
    everything, reads = list(PETS.tools.values()), [PETS.tools["pets__get_pet"]]
    assert [tool.name for tool in meta_tools(everything)] == [
        "describe_tool",
        "run_read_tool",
        "run_tool",
        "search_tools",
    ]
    assert [str(tool.effect) for tool in meta_tools(everything)] == ["read", "read", "destructive", "read"]
    assert [tool.name for tool in meta_tools(reads)] == THREE  # run_tool reads already
    rules = [
        {"id": "all", "to": ["bot"], "tools": ["pets__*"], "effects": ["read", "write", "destructive"], "verdict": "allow"}
    ]  # fmt: skip
    async with Gateway.load(project(tmp_path, rules=rules, tests=[])) as gateway:
        hinted = {tool.name: tool.effect for tool in gateway.tool_calls.offered(gateway.principal("bot"))}
        assert hinted["run_read_tool"] == "read"
        read = await gateway.call("run_read_tool", {"name": "pets__get_pet", "arguments": {}}, principal="bot")
        assert read.tool == "pets__get_pet"
        assert read.error is not None
        assert read.error.code == "validation"
        writing = next(tool for tool in gateway.tool_calls.catalog(gateway.principal("bot")) if tool.effect != "read")
        refused = await gateway.call("run_read_tool", {"name": writing.name, "arguments": {}}, principal="bot")
        assert refused.error is not None
        assert refused.error.code == "validation"
        assert "run_tool" in refused.error.suggestion
        assert [entry["tool"] for entry in audit_entries(gateway) if entry["event"] == "intent"] == ["pets__get_pet"]
        hidden = await gateway.call("run_read_tool", {"name": "shop__query"}, principal="bot")
        nobody = await gateway.call("run_read_tool", {"name": "shop__querz"}, principal="bot")
        assert hidden.error == nobody.error


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_tools", {}),
        ("search_tools", {"query": ""}),
        ("search_tools", {"query": 5}),
        ("search_tools", {"query": None}),
        ("search_tools", {"query": "x", "limit": 0}),
        ("search_tools", {"query": "x", "limit": 51}),
        ("search_tools", {"query": "x", "limit": "many"}),
        ("search_tools", {"query": ["x"] * 100_000}),
        ("describe_tool", {}),
        ("describe_tool", {"name": "x" * 129}),
        ("describe_tool", {"name": ["pets__get_pet"]}),
        ("run_tool", {}),
        ("run_tool", {"name": "x" * 129}),
        ("run_tool", {"name": "shop__query", "arguments": "select 1"}),
        ("run_tool", {"name": "shop__query", "arguments": [1]}),
    ],
)
async def test_input_beyond_its_bounds_is_refused(tmp_path: Path, name: str, arguments: dict[str, Any]) -> None:
    async with Gateway.load(project(tmp_path)) as gateway:
        answer = await gateway.call(name, arguments, principal="bot")
    assert (answer.status, answer.error and answer.error.code) == ("refused", "validation")
    assert len(msgspec.json.encode(answer.to_dict())) < 3_000


async def test_a_principal_that_searches_without_end_is_told_to_wait_and_no_other_is() -> None:
    discovery = Discovery(above=0, clock=FixedClock())
    catalog = tuple(PETS.tools.values())
    bot, other = Principal(id="bot"), Principal(id="other")
    answers = [await discovery.find(bot, catalog, "pet", 1) for _ in range(1_001)]
    assert [isinstance(answer, Error) for answer in answers] == [False] * 1_000 + [True]
    assert answers[-1].code == "rate_limited"  # type: ignore[union-attr]
    refused = await discovery.answer("describe_tool", {"name": "pets__get_pet"}, bot, catalog)
    assert refused.error.retry_after_s is not None  # type: ignore[union-attr]
    assert not isinstance(await discovery.find(other, catalog, "pet", 1), Error)


async def test_what_is_kept_of_catalogs_is_bounded_and_concurrent_searches_share_an_index() -> None:
    discovery = Discovery(above=0, clock=FixedClock())
    every = tuple(PETS.tools.values())
    for number in range(100):
        catalog = (*every[: 1 + number % len(every)],)
        found = await asyncio.gather(
            *(discovery.find(Principal(id=f"p{number}"), catalog, "pets", 5) for _ in range(4))
        )
        assert all(answer == found[0] for answer in found)
    assert len(discovery._shelves) <= 16


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_every_provider_takes_the_three_tools(name: str) -> None:
    for tool in meta_tools(list(PETS.tools.values())):
        assert TOOL_NAME.match(tool.name)
        assert "__" not in tool.name
        ACCEPTED[name](FORMATS[name](tool))


def test_run_tool_is_as_dangerous_as_what_it_may_call() -> None:
    everything, reads = list(PETS.tools.values()), [PETS.tools["pets__get_pet"]]
    found = [next(tool for tool in meta_tools(tools) if tool.name == "run_tool") for tools in (everything, reads)]
    assert [str(tool.effect) for tool in found] == ["destructive", "read"]


@pytest.mark.parametrize(
    "source",
    [
        {"openapi": "openapi/apisguru__stripe.com.json"},
        pytest.param({"graphql": "graphql/github.graphql"}, marks=pytest.mark.exhaustive),
    ],
)
def test_the_three_tools_cost_little_whatever_they_stand_for(source: dict[str, str]) -> None:
    kind, name = next(iter(source.items()))
    if not (CORPUS / name).is_file():
        pytest.skip("the corpus of descriptions is not here")
    tools = tuple(build({"api": {kind: str(CORPUS / name)}}).tools.values())
    assert static_cost(tools) > 20_000
    assert static_cost(meta_tools(tools)) <= 2_000


@pytest.mark.parametrize("form", ["manifest", *sorted(FORMATS)])
async def test_rest_lists_the_three_and_finds_the_rest_in_every_format(tmp_path: Path, form: str) -> None:
    async with Gateway.load(project(tmp_path)) as gateway, http_on(gateway) as http:
        listed = (await http.get("/v1/tools", params={"format": form})).json()
        assert [_name(item) for item in listed["tools"]] == THREE
        found = await http.get("/v1/tools", params={"format": form, "q": "run a sql query", "limit": 1})
        assert [_name(item) for item in found.json()["tools"]] == ["shop__query"]
        body = msgspec.json.encode({"arguments": {"name": "shop__query", "arguments": {"sql": "select 1"}}})
        called = await http.post("/v1/tools/run_tool/call", headers=JSON, content=body)
        assert (called.status_code, called.json()["tool"]) == (200, "shop__query")
        calls = msgspec.json.encode([{"id": "1", "name": "search_tools", "args": {"query": "sql", "limit": 1}}])
        (message,) = (await http.post("/v1/tool_calls", headers=JSON, content=calls)).json()
        assert (message["name"], message["status"]) == ("search_tools", "success")
        assert msgspec.json.decode(message["content"])["tools"][0]["name"].startswith("shop__")


def _name(item: Mapping[str, Any]) -> Any:
    return item.get("name") or item.get("function", item.get("toolSpec", {}))["name"]


async def test_a_search_over_rest_comes_in_pages_in_the_order_of_its_hits(tmp_path: Path) -> None:
    async with Gateway.load(project(tmp_path)) as gateway, http_on(gateway) as http:
        query = {"q": "describe or list a table of the shop, or query a pet"}
        whole = (await http.get("/v1/tools", params={**query, "limit": 1000})).json()["tools"]
        assert len(whole) == len(BOT_SEES)
        seen: list[Any] = []
        cursor = ""
        while True:
            page = (await http.get("/v1/tools", params={**query, "limit": 2, "cursor": cursor})).json()
            seen += page["tools"]
            cursor = page.get("next_cursor", "")
            if not cursor:
                break
        assert seen == whole
        hits = await gateway.tool_calls.search(gateway.principal("bot"), query["q"], DEFAULT_HITS)
        assert [item["name"] for item in whole] == [item.name for item in hits]  # type: ignore[union-attr]

        first = (await http.get("/v1/tools", params={"q": "sql", "limit": 1})).json()["next_cursor"]
        other = await http.get("/v1/tools", params={"q": "pet", "cursor": first})
        assert (other.status_code, other.json()["error"]["code"]) == (404, "not_found")


async def test_a_tool_too_large_to_be_listed_is_opened_by_describe_tool(tmp_path: Path) -> None:
    path = project(tmp_path / "p", above="never")
    spec = path.parent / "specs" / "pets.json"
    written = json.loads(spec.read_text(encoding="utf-8"))
    fields = {
        f"field_{index}": {"type": "string", "description": f"Words about the field {index}."} for index in range(400)
    }
    deep = {
        "type": "object",
        "properties": {"inner": {"type": "object", "properties": {**fields, "size": {"type": "integer"}}}},
    }
    operation = written["paths"]["/pets/{petId}"]["get"]
    operation["parameters"].append({"name": "filter", "in": "query", "content": {"application/json": {"schema": deep}}})
    spec.write_text(json.dumps(written), encoding="utf-8")
    async with Gateway.load(path) as gateway:
        bot = gateway.principal("bot")
        shown = Listings(gateway).of(bot).page("anthropic", cursor="", limit=50)
        by_name = {tool["name"]: tool for tool in json.loads(msgspec.json.encode(shown.tools))}
        assert set(by_name) == {*BOT_SEES, "describe_tool"}
        inner = by_name["pets__get_pet"]["input_schema"]["properties"]["filter"]["properties"]["inner"]
        assert inner == {"type": "object", "description": "(parts: describe_tool)"}
        asked = await gateway.call(
            "describe_tool", {"name": "pets__get_pet", "fields": ["filter.inner.size"]}, principal="bot"
        )
        assert asked.data["input_schema"]["properties"] == {"filter.inner.size": {"type": "integer"}}  # type: ignore[index, call-overload]
        wrong = await gateway.call("pets__get_pet", {"petId": 1, "filter": {"inner": {"size": "x"}}}, principal="bot")
        assert wrong.error
        assert (wrong.error.code, "size" in wrong.error.message) == ("validation", True)
        missing = await gateway.call(
            "describe_tool", {"name": "pets__get_pet", "fields": ["filter.nothing"]}, principal="bot"
        )
        assert missing.error
        assert missing.error.code == "validation"
        assert (await gateway.call("search_tools", {"query": "pets"}, principal="bot")).status == "refused"
