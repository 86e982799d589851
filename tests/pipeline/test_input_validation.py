"""What a strict format makes a model send, all the way to the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

import toolgen
from tests.catalogs import http_tool
from tests.gateway.clients import BASE, JSON, bearer
from tests.projects import KEY, PETS, POLICY, audit_entries, make_project
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.generator.emit.formats import openai_strict_tool
from toolgen.model.tool import Tool
from toolgen.pipeline.input_validation import meant, no_json


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"a": [1, 2.5, None, True, {"b": "x"}]}, None),
        ({"a": ["x", "\ud800"]}, "/a/1: contains half a surrogate pair, which is not a character"),
        ({"a": {"\ud800": 1}}, "half a surrogate pair"),
        ({"a": {"b": b"x"}}, "/a/b: "),
        ({"a": {7: "x"}}, "/a"),
        ({"ok": "x", "a": {"deep": [object()]}}, "/a/deep/0: "),
    ],
)
def test_what_is_no_json_is_told_with_its_place(arguments: dict[str, Any], fault: str | None) -> None:
    found = no_json(arguments)

    assert found == fault if fault is None else fault in (found or "")


ORDER = {
    "type": "object",
    "required": ["item"],
    "properties": {
        "item": {"type": "string"},
        "note": {"type": "string"},
        "gift": {"type": ["string", "null"]},
        "address": {"type": "object", "properties": {"street": {"type": "string"}, "floor": {"type": "integer"}}},
    },
}


def _tool(schema: dict[str, Any]) -> Tool:
    return msgspec.structs.replace(http_tool("shop__order"), input_schema=schema)


@pytest.mark.parametrize(
    ("sent", "seen", "left_out"),
    [
        ({"item": "x", "note": None}, {"item": "x"}, ("note",)),
        ({"item": "x", "gift": None}, {"item": "x", "gift": None}, ()),
        ({"item": None}, {"item": None}, ()),
        ({"item": "x", "address": None}, {"item": "x"}, ("address",)),
        (
            {"item": "x", "address": {"street": "s", "floor": None}},
            {"item": "x", "address": {"street": "s"}},
            ("address",),
        ),
        ({"item": "x", "note": "null"}, {"item": "x", "note": "null"}, ()),
        ({"item": "x", "note": ""}, {"item": "x", "note": ""}, ()),
        ({}, {}, ()),
    ],
)
def test_a_null_goes_only_where_the_schema_would_refuse_it(
    sent: dict[str, Any], seen: dict[str, Any], left_out: tuple[str, ...]
) -> None:
    found = meant(_tool(ORDER), sent)
    assert (dict(found.arguments), found.left_out) == (seen, left_out)


@pytest.mark.parametrize("sent", [{"item": [None] * 60_000}, {"item": json.loads("[" * 70 + "null" + "]" * 70)}])
def test_more_than_anybody_looks_at_is_left_as_it_is(sent: dict[str, Any]) -> None:
    found = meant(_tool(ORDER), {**sent, "note": None})
    assert (found.arguments, found.left_out) == ({**sent, "note": None}, ())


def project(root: Path) -> Path:
    """The pets, with a query parameter that may be left out, and a body with one that may be null."""
    path = make_project(
        root, policy={**POLICY, "rules": [{"id": "all", "to": ["bot"], "tools": ["*"], "verdict": "allow"}]}
    )
    operation = {
        "operationId": "createPet",
        "parameters": [{"name": "notify", "in": "query", "schema": {"type": "boolean"}}],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "required": ["name", "owner"],
                        "additionalProperties": False,
                        "properties": {
                            "name": {"type": "string"},
                            "owner": {"type": ["string", "null"]},
                            "tag": {"type": "string"},
                        },
                    }
                }
            },
        },
        "responses": {"200": {"description": "ok"}},
    }
    described = {**PETS, "paths": {**PETS["paths"], "/pets": {"post": operation}}}
    (root / "specs" / "pets.json").write_text(json.dumps(described), encoding="utf-8")
    return path


STRICT = {"name": "Rex", "owner": None, "tag": None, "notify": None}


async def test_a_strict_callers_nulls_do_not_reach_the_wire_and_a_null_that_is_meant_does(tmp_path: Path) -> None:
    gateway = Gateway.load(project(tmp_path))
    tool = gateway.manifest.tools["pets__create_pet"]
    function = openai_strict_tool(tool)["function"]
    assert isinstance(function, Mapping)
    assert function["strict"] is True
    assert sorted(function["parameters"]["required"]) == sorted(STRICT)  # type: ignore[index,call-overload,arg-type]
    sent = toolgen.preview(gateway.manifest, tool.name, STRICT)
    assert (sent["url"].rpartition("/")[2], sent["body"]) == ("pets", '{"name":"Rex","owner":null}')
    dry = await gateway.preview(tool.name, STRICT, principal="bot")
    assert isinstance(dry.data, Mapping)
    assert dry.data["body"] == '{"name":"Rex","owner":null}'
    assert str(dry.data["url"]).endswith("/pets")


async def test_over_rest_the_arguments_are_used_as_meant_and_the_record_says_so(tmp_path: Path) -> None:
    gateway = Gateway.load(make_project(tmp_path))
    transport = httpx.ASGITransport(App(gateway))
    async with gateway, httpx.AsyncClient(transport=transport, base_url=BASE, headers=bearer(KEY)) as http:
        arguments = {"sql": "select name from customers where id = 1", "parameters": None}
        body = msgspec.json.encode({"arguments": arguments})
        called = (await http.post("/v1/tools/shop__query/call", headers=JSON, content=body)).json()
        assert called["data"]["rows"] == [["Ada"]]
        calls = msgspec.json.encode([{"name": "shop__query", "args": arguments}])
        (message,) = (await http.post("/v1/tool_calls", headers=JSON, content=calls)).json()
        assert message["status"] == "success"
        needed = msgspec.json.encode({"arguments": {"sql": None}})
        refused = await http.post("/v1/tools/shop__query/call", headers=JSON, content=needed)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "validation")
        entries = audit_entries(gateway)
    intents = [entry for entry in reversed(entries) if entry["event"] == "intent"]
    assert [entry.get("repaired") for entry in intents[:2]] == [[{"argument": "parameters", "change": "left_out"}]] * 2
    assert intents[0]["arguments"] == {"sql": arguments["sql"]}


async def test_a_rule_that_asks_for_an_argument_is_not_met_by_a_null(tmp_path: Path) -> None:
    narrow = {"required": ["tag"], "properties": {"tag": {"maxLength": 5}}}
    rules = [{"id": "tagged", "to": ["bot"], "tools": ["pets__create_pet"], "arguments": narrow, "verdict": "allow"}]
    path = project(tmp_path)
    (tmp_path / "policies" / "policy.yaml").write_text(json.dumps({**POLICY, "rules": rules}), encoding="utf-8")
    gateway = Gateway.load(path)
    refused = await gateway.preview("pets__create_pet", {**STRICT, "tag": None}, principal="bot")
    assert (refused.status, refused.error and refused.error.code) == ("refused", "forbidden")
    assert (await gateway.preview("pets__create_pet", {**STRICT, "tag": "new"}, principal="bot")).status == "ok"


def test_a_tool_is_not_changed_by_what_was_meant() -> None:
    tool = http_tool("pets__list_pets", properties={"limit": {"type": "integer"}})
    before = msgspec.json.encode(tool.to_dict())
    assert meant(tool, {"limit": None}).arguments == {}
    assert msgspec.json.encode(tool.to_dict()) == before
