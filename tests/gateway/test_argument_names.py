"""Arguments whose own names begin with an underscore, of every kind of source: how they are listed, called, judged, recorded and sent."""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, structs

from tests.cli.commands import runner
from tests.gateway.governed import PRINCIPALS
from tests.gateway.governed import upstream as serving
from tests.messages import line_names
from tests.services.bridged import hostile, tell
from toolgen.audit.reader import entries
from toolgen.cli import main
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import PolicyError
from toolgen.frontends.python.gateway import Gateway
from toolgen.generator.emit.diff import compare
from toolgen.generator.emit.formats import FORMATS
from toolgen.model.argument_names import own_names
from toolgen.model.tool import DeviceBinding, FunctionBinding, HttpBinding, McpBinding, Tool, seal

pytestmark = pytest.mark.usefixtures("sql_processes")
_NUMBERS = itertools.count()
_TEXT = {"type": "string"}
_QUERY = {"in": "query", "schema": _TEXT}
API: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Things", "version": "1"},
    "paths": {
        "/things/{_id}": {
            "get": {
                "operationId": "getThing",
                "parameters": [
                    {"name": "_id", "in": "path", "required": True, "schema": _TEXT},
                    {"name": "id", **_QUERY},
                    {"name": "_token", **_QUERY},
                ],
                "responses": {"200": {"description": "ok"}},
            }
        },
        "/things": {
            "post": {
                "operationId": "createThing",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["_type"],
                                "properties": {"_type": _TEXT, "name": _TEXT},
                            }
                        }
                    },
                },
                "responses": {"200": {"description": "ok"}},
            }
        },
    },
}
GRAPH = """
type Query { things(_where: Where, _first: Int, fields: Int): String, thing(_id: ID!): String }
input Where { _eq: String }
"""
STORED = "query stored($_name: ID!) { thing(_id: $_name) }"
FUNCTIONS = '''
import toolgen

@toolgen.tool(effect="read")
def keep(_note: str, more: int = 1) -> str:
    """Keeps a note."""
    return f"{_note}-{more}"
'''
PHONE = """
tools:
  ring:
    description: Rings.
    method: sound.ring
    effect: write
    arguments: {properties: {_tone: {type: string}}, required: [_tone]}
    params: {tone: $._tone}
    display: "Ring with {_tone}"
"""
FLOWS: dict[str, Any] = {
    "workflows": {
        "both": {
            "description": "Creates a thing.",
            "inputs": {"_kind": _TEXT},
            "steps": [{"id": "make", "call": "api__create_thing", "with": {"_type": "$inputs._kind"}}],
            "outputs": {"made": "$steps.make.data"},
        },
        "outer": {
            "description": "Calls the other.",
            "inputs": {"kind": _TEXT},
            "steps": [{"id": "call", "call": "flows__both", "with": {"_kind": "$inputs.kind"}}],
        },
    }
}
_NAMED = {"type": "object", "properties": {"_name": _TEXT}, "required": ["_name"]}
REQUESTS = {
    "kind": "Tool",
    "http": {"server": "http://127.0.0.1:9"},
    "exports": [
        {
            "name": "send",
            "description": "Sends.",
            "parameters": _NAMED,
            "request": {"path": "/send", "query": {"n": "{_name}"}},
        }
    ],
}
STATEMENTS = {
    "kind": "Tool",
    "sql": "sqlite:///shop.db",
    "exports": [
        {
            "name": "find",
            "description": "Finds.",
            "parameters": _NAMED,
            "statement": "SELECT id FROM customers WHERE name = :_name",
        }
    ],
}
RULE = {
    "id": "all",
    "to": ["bot"],
    "tools": ["*"],
    "effects": ["read", "write", "destructive"],
    "verdict": "allow",
}


def project(root: Path, server: str = "http://127.0.0.1:9", **policy: Any) -> Path:
    """A project with a source of every kind that may have such an argument."""
    (root / "policies").mkdir()
    module = f"underscored_{next(_NUMBERS)}"
    (root / "far").mkdir()
    written: dict[str, Any] = {
        "api.json": API,
        "flows.json": FLOWS,
        "asks.tool.yaml": REQUESTS,
        "finds.tool.yaml": STATEMENTS,
        "graph.graphql": GRAPH,
        "stored.graphql": STORED,
        "phone.tools.yaml": PHONE,
        f"{module}.py": FUNCTIONS,
        "policies/policy.yaml": {
            "principals": PRINCIPALS,
            "rules": [RULE],
            "egress": {"private_networks": "allow"},
            "sql": {"finds": {"tables": {"customers": {}}}},
            **policy,
        },
    }
    for name, text in written.items():
        (root / name).write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    with sqlite3.connect(root / "shop.db") as database:
        database.execute("CREATE TABLE customers (id INTEGER, name TEXT)")
    database.close()
    bridged = {"type": "object", "properties": {"_meta": _TEXT, "a": {"type": "integer"}}, "required": ["_meta"]}
    sources = {
        "api": {"openapi": "api.json", "server": server},
        "graph": {"graphql": "graph.graphql", "endpoint": "http://127.0.0.1:9/graphql", "queries": True},
        "some": {"graphql": "graph.graphql", "endpoint": "http://127.0.0.1:9/graphql", "operations": "stored.graphql"},
        "own": {"python": module},
        "phone": {"device": "phone.tools.yaml"},
        "flows": {"workflow": "flows.json"},
        "asks": {"resource": "asks.tool.yaml"},
        "finds": {"resource": "finds.tool.yaml"},
        "far": {"mcp": {"command": hostile(root / "far", {"name": "tell", "description": "Tells.", "inputSchema": bridged})}},
    }  # fmt: skip
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": sources, "audit": {"dir": "audit"}}), encoding="utf-8")
    return path


def preview(gateway: Gateway, name: str, arguments: dict[str, Any]) -> Any:
    envelope = asyncio.run(gateway.preview(name, arguments, principal="bot"))
    return envelope.data if envelope.status == "ok" else envelope.error


def built(root: Path, *server: str, **policy: Any) -> Path:
    """The project with what its bridged server lists pinned."""
    path = pinned(project(root, *server, **policy))
    assert path.with_name("generated").exists()
    return path


def pinned(path: Path) -> Path:
    """The same, whatever problems the build has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)
        with pytest.raises(SystemExit):
            main(["build"])
    return path


@pytest.fixture(scope="module", name="gateway")
def _gateway(tmp_path_factory: pytest.TempPathFactory) -> Gateway:
    return Gateway.load(built(tmp_path_factory.mktemp("underscores")))


def test_no_source_lists_an_argument_that_begins_with_an_underscore(gateway: Gateway) -> None:
    listed = {tool.name: tool for tool in gateway.tool_calls.catalog(gateway.principal("bot"))}
    assert {name: {*tool.input_schema["properties"]} for name, tool in listed.items() if name in LISTED} == LISTED
    for tool in (*listed.values(), *gateway.manifest.tools.values()):
        for write in FORMATS.values():
            assert not [name for name in _arguments(write(tool)) if name.startswith("_")]


def _arguments(written: Any) -> list[str]:
    """The names of the arguments in a tool as a provider takes it."""
    found: list[str] = []
    for key, part in written.items() if isinstance(written, dict) else ():
        if key != "$defs":
            found += part if key == "properties" else _arguments(part)
    return found


LISTED = {
    "api__create_thing": {"type", "name"},
    "api__get_thing": {"id", "id_", "token"},
    "asks__send": {"name"},
    "far__tell": {"meta", "a"},
    "finds__find": {"name", "answer"},
    "flows__both": {"kind"},
    "some__stored": {"name"},
    "graph__get_thing": {"id"},
    "graph__get_things": {"where", "first", "fields"},
    "own__keep": {"note", "more"},
    "phone__ring": {"tone"},
}
SENT: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "http": (
        "api__get_thing",
        {"id_": "a", "id": "b", "token": "c"},
        {"_id": "a", "id": "b", "_token": "c"},
        "/things/a?id=b&_token=c",
    ),
    "a body": ("api__create_thing", {"type": "t", "name": "n"}, {"_type": "t", "name": "n"}, r'{\"_type\":\"t\",\"name\":\"n\"}'),
    "a template": ("asks__send", {"name": "n"}, {"_name": "n"}, "/send?n=n"),
    "a field": (
        "graph__get_things",
        {"where": {"_eq": "x"}, "first": 3, "fields": 1},
        {"_where": {"_eq": "x"}, "_first": 3, "fields": 1},
        '"variables": {"_where": {"_eq": "x"}, "_first": 3, "fields": 1}',
    ),
    "an operation": ("some__stored", {"name": "n"}, {"_name": "n"}, '"variables": {"_name": "n"}'),
    "a statement": ("finds__find", {"name": "Ann"}, {"_name": "Ann"}, '"parameters": ["Ann"]'),
    "a function": ("own__keep", {"note": "x"}, {"_note": "x"}, '"arguments": {"_note": "x"}'),
    "a device": ("phone__ring", {"tone": "x"}, {"_tone": "x"}, '"params": {"tone": "x"}'),
    "a display": ("phone__ring", {"tone": "x"}, {"_tone": "x"}, "Ring with x"),
    "a workflow": ("flows__both", {"kind": "x"}, {"_kind": "x"}, '"arguments": {"type": "x"}'),
    "a workflow in one": ("flows__outer", {"kind": "x"}, {"kind": "x"}, '"arguments": {"kind": "x"}'),
    "a server": ("far__tell", {"meta": "x", "a": 1}, {"_meta": "x", "a": 1}, '"arguments": {"_meta": "x", "a": 1}'),
}  # fmt: skip


@pytest.mark.parametrize("case", SENT)
def test_both_names_of_an_argument_are_taken_and_its_own_is_sent(gateway: Gateway, case: str) -> None:
    name, listed, own, sent = SENT[case]
    for arguments in (listed, own):
        assert sent in json.dumps(preview(gateway, name, arguments))


def test_an_argument_that_is_given_by_both_names_is_told_and_never_sent_twice(gateway: Gateway) -> None:
    refused = preview(gateway, "far__tell", {"meta": "x", "_meta": "y"})
    assert (refused.code, refused.message.partition(":")[0]) == ("validation", "/_meta")
    read = asyncio.run(gateway.preview("api__get_thing", {"id_": "a", "_id": "z"}, principal="bot"))
    assert read.meta.dropped == ({"argument": "_id", "nearest": "id_"},)
    assert "/things/a" in json.dumps(read.data)


def test_the_record_has_listed_names_and_conceals_what_is_sensitive_by_either(tmp_path: Path) -> None:
    with serving() as (seen, server):
        path = built(tmp_path, server, sensitive=["$._token", "$.name"])

        async def calls() -> None:
            async with Gateway.load(path) as gateway:
                for arguments in ({"id_": "a", "token": "hidden"}, {"_id": "a", "_token": "hidden"}):
                    assert (await gateway.call("api__get_thing", arguments, principal="bot")).status == "ok"

        asyncio.run(calls())
        assert seen.requests == [("GET", "/things/a?_token=hidden", "")] * 2
    found = [entry["arguments"] for entry in entries(load_settings(path).audit_dir) if entry["event"] == "intent"]
    assert found[0] == found[1]
    assert found[0]["id_"] == "a"
    assert found[0]["token"].startswith("hmac-sha256:")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"arguments": {"properties": {"_id": {"const": "a"}}}}, "did you mean 'id_'"),
        ({"when": "args._token == 'a'"}, "did you mean 'token'"),
        ({"bind": {"_token": "principal.id"}}, "did you mean 'token'"),
    ],
)
def test_a_rule_that_names_an_argument_as_its_description_does_is_an_error_with_the_listed_name(
    tmp_path: Path, arguments: Any, message: str
) -> None:
    rule = {**RULE, "tools": ["api__get_thing"], **arguments}
    with pytest.raises(PolicyError, match=message):
        Gateway.load(built(tmp_path, rules=[rule]))


def test_a_rule_holds_for_documents_that_name_arguments_as_the_schema_does(tmp_path: Path) -> None:
    rule = {
        **RULE,
        "arguments": {"properties": {"first": {"maximum": 5}}},
        "tools": ["graph__get_things", "graph__run_query"],
    }
    gateway = Gateway.load(built(tmp_path, rules=[rule]))
    sent = preview(gateway, "graph__run_query", {"query": "{ things(_first: 5) }"})
    assert "things(_first: 5)" in sent["query"]
    refused = preview(gateway, "graph__run_query", {"query": "{ things(_first: 6) }"})
    assert refused.code == "forbidden"


def test_the_command_line_types_an_argument_by_either_name(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    built(tmp_path)
    capsysbinary.readouterr()
    monkeypatch.chdir(tmp_path)
    for name in ("first", "_first"):
        shown = runner(capsysbinary)("call", "graph__get_things", f"{name}=3", "--as", "bot", "--dry-run").json()
        assert shown["variables"] == {"_first": 3}


def test_a_manifest_from_before_differs_in_nothing_that_breaks(gateway: Gateway) -> None:
    new = gateway.manifest
    before = {tool.name: _as_before(tool) for tool in new.tools.values()}
    difference = compare(structs.replace(new, tools=before), new)
    changed = {tool.name for tool in difference.tools}
    assert changed >= {"api__get_thing", "api__create_thing", "asks__send", "far__tell", "own__keep", "phone__ring"}
    assert difference.breaking == 0
    messages = [change.message for tool in difference.tools for change in tool.changes]
    assert any(line_names(one, "`_token`", "`token`", "old name") for one in messages)


def _as_before(tool: Tool) -> Tool:
    """A tool as builds made it when arguments were listed by their own names."""
    names = own_names(tool)
    if not names or not isinstance(tool.binding, HttpBinding | McpBinding | FunctionBinding | DeviceBinding):
        return tool
    schema = dict(tool.input_schema)
    schema["properties"] = {names.get(name, name): one for name, one in schema["properties"].items()}
    if "required" in schema:
        schema["required"] = [names.get(name, name) for name in schema["required"]]
    binding: Any = structs.replace(tool.binding, arguments=UNSET if isinstance(tool.binding, HttpBinding) else {})
    if isinstance(tool.binding, HttpBinding):
        sent = (structs.replace(one, argument=names.get(one.argument, one.argument)) for one in binding.parameters)
        body = binding.body
        if body is not None:
            body = structs.replace(
                body, properties={names.get(key, key): name for key, name in body.properties.items()}
            )
        binding = structs.replace(binding, parameters=tuple(sent), body=body)
    return seal(structs.replace(tool, input_schema=schema, binding=binding))


@pytest.mark.parametrize(
    "broken", [{"required": True}, {"allOf": 5}, {"dependentRequired": []}, {"properties": {"_a": 7}}]
)
def test_a_schema_that_is_none_costs_its_own_tool_alone(tmp_path: Path, broken: dict[str, Any]) -> None:
    path = project(tmp_path)
    schema = {"type": "object", "properties": {"_a": {"type": "string"}}, **broken}
    tools = [{"name": name, "description": name, "inputSchema": one} for name, one in (("bad", schema), ("good", LONE))]
    tell(tmp_path / "far", tools=tools)
    names = Gateway.load(pinned(path)).manifest.tools
    assert "far__bad" not in names
    assert [*names["far__good"].input_schema["properties"]] == ["a"]


LONE = {"type": "object", "properties": {"_a": {"type": "string"}}}
