"""What the agent must not choose: set by the gateway, in no schema, refused when sent, and recorded, at a real service."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import httpx
import pytest

import toolgen
from tests.gateway.governed import project, upstream
from tests.projects import audit_entries
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Principal
from toolgen.model.tool import Tool
from toolgen.policy.binding import Binder, bind
from toolgen.policy.cel.expression import compile_expression
from toolgen.policy.cel.names import CelScope

BIND = {"tenant_id": "principal.attributes.tenant"}
LIST = {"id": "list", "to": ["bot"], "tools": ["orders__list_orders"], "verdict": "allow", "bind": BIND}
CREATE = {"id": "create", "to": ["bot"], "tools": ["orders__create_order"], "verdict": "allow", "bind": BIND}
OPEN = {
    "id": "open",
    "to": ["bot"],
    "tools": ["orders__create_open_order"],
    "verdict": "allow",
    "bind": {"body.tenant_id": "principal.attributes.tenant"},
}
USERS = {"id": "users", "to": ["user"], "tools": ["orders__*"], "verdict": "allow"}


async def call(
    tmp_path: Path,
    rules: list[dict[str, Any]],
    tool: str,
    arguments: dict[str, Any],
    who: str = "bot",
    user: str | None = None,
) -> tuple[dict[str, Any], list[tuple[str, str, str]], list[dict[str, Any]]]:
    """The envelope, what reached the service, and the record."""

    with upstream() as (seen, server):
        path = project(tmp_path / "p", server, {"rules": rules})
        async with Gateway.load(path) as gateway:
            envelope = await gateway.call(tool, arguments, principal=gateway.principal(who, user))
            envelope, entries = json.loads(json.dumps(envelope.to_dict())), audit_entries(gateway)
        return envelope, seen.requests, entries


async def test_a_required_argument_is_set_and_recorded(tmp_path: Path) -> None:
    envelope, requests, entries = await call(tmp_path, [LIST], "orders__list_orders", {"status": "open"})
    assert envelope["status"] == "ok"
    assert requests == [("GET", "/orders?tenant_id=acme&status=open", "")]
    intent = next(entry for entry in entries if entry["event"] == "intent")
    assert intent["bound"] == ["tenant_id"]
    assert intent["arguments"] == {"status": "open", "tenant_id": "acme"}


async def test_a_property_of_a_body_is_set(tmp_path: Path) -> None:
    envelope, requests, _ = await call(tmp_path, [CREATE], "orders__create_order", {"amount_cents": 5})
    assert envelope["status"] == "ok"
    assert json.loads(requests[0][2]) == {"tenant_id": "acme", "amount_cents": 5}


async def test_a_name_of_another_case_that_no_schema_knows_is_not_sent(tmp_path: Path) -> None:
    arguments = {"amount_cents": 5, "Tenant_Id": "globex"}
    envelope, requests, _ = await call(tmp_path, [CREATE], "orders__create_order", arguments)
    assert (envelope["error"]["code"], requests) == ("validation", [])


@pytest.mark.parametrize("body", [{"amount_cents": 5}, {"amount_cents": 5, "more": [1]}])
async def test_a_property_within_an_argument_is_set(tmp_path: Path, body: dict[str, Any]) -> None:
    envelope, requests, entries = await call(tmp_path, [OPEN], "orders__create_open_order", {"body": body})
    assert envelope["status"] == "ok"
    assert json.loads(requests[0][2]) == {"tenant_id": "acme", **body}
    assert next(entry for entry in entries if entry["event"] == "intent")["bound"] == ["body.tenant_id"]


async def test_what_should_hold_it_must_be_an_object(tmp_path: Path) -> None:
    for body in ([], 5, "x"):
        root = tmp_path / str(body)
        root.mkdir()
        envelope, requests, _ = await call(root, [OPEN], "orders__create_open_order", {"body": body})
        assert envelope["error"]["code"] == "validation"
        assert requests == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("orders__list_orders", {"tenant_id": "globex"}),
        ("orders__list_orders", {"tenant_id": "acme"}),
        ("orders__list_orders", {"filter": {"tenant_id": "globex"}}),
        ("orders__list_orders", {"filter": {"Tenant_ID": "globex"}}),
        ("orders__list_orders", {"filter": '{"tenant_id": "globex"}'}),
        ("orders__create_order", {"amount_cents": 5, "tenant_id": "globex"}),
        ("orders__create_open_order", {"body": {"amount_cents": 5, "tenant_id": "globex"}}),
        ("orders__create_open_order", {"body": {"amount_cents": 5, "Tenant_Id": "globex"}}),
        ("orders__create_open_order", {"body": '{"amount_cents": 5, "tenant_id": "globex"}'}),
        ("orders__create_order", {"amount_cents": 5, "tenant_id": ""}),
    ],
)
async def test_an_agent_that_sends_it_is_refused(tmp_path: Path, tool: str, arguments: dict[str, Any]) -> None:
    envelope, requests, entries = await call(tmp_path, [LIST, CREATE, OPEN], tool, arguments)
    assert (envelope["status"], envelope["error"]["code"]) == ("refused", "forbidden")
    assert envelope["error"]["rule"] in {"list", "create", "open"}
    assert requests == []
    assert "bound" not in entries[-1]


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ([LIST, {**LIST, "id": "other", "bind": {"tenant_id": "principal.id"}}], "set 'tenant_id' differently"),
        ([LIST, {**LIST, "id": "other", "verdict": "ask", "bind": {"tenant_id": "principal.id"}}], "set 'tenant_id' differently"),
        ([LIST, {**LIST, "id": "other", "when": "false", "bind": {"tenant_id": "principal.id"}}], "set 'tenant_id' differently"),
    ],
)  # fmt: skip
async def test_two_rules_that_set_it_differently_deny(tmp_path: Path, rules: list[dict[str, Any]], why: str) -> None:
    envelope, requests, _ = await call(tmp_path, rules, "orders__list_orders", {})
    assert envelope["error"]["code"] == "forbidden"
    assert why in envelope["error"]["message"]
    assert requests == []


async def test_it_holds_whichever_rule_speaks(tmp_path: Path) -> None:
    wide = {"id": "wide", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}
    silent = {**LIST, "when": "false"}
    _, requests, _ = await call(tmp_path, [silent, wide], "orders__list_orders", {})
    assert requests == [("GET", "/orders?tenant_id=acme", "")]


async def test_it_holds_where_only_a_rule_that_asks_speaks(tmp_path: Path) -> None:
    envelope, requests, entries = await call(tmp_path, [{**LIST, "verdict": "ask"}], "orders__list_orders", {})
    assert envelope["status"] in {"cancelled", "pending"}
    assert requests == []
    assert next(entry for entry in entries if entry["event"] == "intent")["arguments"] == {"tenant_id": "acme"}


async def test_without_the_attribute_there_is_no_call(tmp_path: Path) -> None:
    envelope, requests, _ = await call(tmp_path, [LIST], "orders__list_orders", {}, who="bare")
    assert envelope["error"]["code"] == "forbidden"
    assert "'tenant_id'" in envelope["error"]["message"]
    assert requests == []


@pytest.mark.parametrize(
    ("user", "bind", "expected"),
    [
        ("ann", "user.attributes.tenant", "acme"),
        ("eve", "user.attributes.tenant", "globex"),
        ("ann", "principal.attributes.tenant", "acme"),
        (None, "user.attributes.tenant", None),
    ],
)
async def test_the_user_it_acts_for_can_say_it(
    tmp_path: Path, user: str | None, bind: str, expected: str | None
) -> None:
    rules = [{**LIST, "bind": {"tenant_id": bind}}, USERS]
    _, requests, _ = await call(tmp_path, rules, "orders__list_orders", {}, user=user)
    assert requests == ([] if expected is None else [("GET", f"/orders?tenant_id={expected}", "")])


async def test_agent_and_user_of_two_tenants_set_it_differently(tmp_path: Path) -> None:
    rules = [LIST, {**USERS, "tools": ["orders__list_orders"], "bind": BIND}]
    (tmp_path / "same").mkdir()
    _, requests, _ = await call(tmp_path / "same", rules, "orders__list_orders", {}, user="ann")
    assert requests == [("GET", "/orders?tenant_id=acme", "")]
    envelope, requests, _ = await call(tmp_path, rules, "orders__list_orders", {}, user="eve")
    assert (envelope["error"]["code"], envelope["error"]["rule"]) == ("forbidden", "users")
    assert requests == []


async def test_no_listing_shows_it(tmp_path: Path) -> None:
    forms = ("manifest", "mcp", "openai", "anthropic", "gemini", "bedrock", "langchain")

    with upstream() as (_, server):
        path = project(tmp_path / "p", server, {"rules": [LIST]})
        async with Gateway.load(path) as gateway:
            transport = httpx.ASGITransport(App(gateway))
            headers = {"authorization": "Bearer key-of-bot"}
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1:8080", headers=headers
            ) as client:
                for form in forms:
                    for query in ("", "&q=list+orders+of+a+tenant"):
                        listed = (await client.get(f"/v1/tools?format={form}{query}")).json()["tools"]
                        for tool in listed:
                            tool.pop("binding", None)  # how it is called, which only the manifest says
                        assert "list_orders" in str(listed)
                        assert "tenant" not in str(listed), form
                asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
                accept = {"accept": "application/json, text/event-stream"}
                shown = (await client.post("/mcp", json=asked, headers=accept)).text
                assert "list_orders" in shown
                assert "tenant" not in shown
            (tool,) = gateway.tool_calls.catalog(gateway.principal("bot"))
            assert tool.input_schema.get("required") is None
            assert gateway.manifest.tools[tool.name].input_schema["required"] == ["tenant_id"]


def built(document: dict[str, Any]) -> Tool:
    """The one tool of a description."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "api.json"
        path.write_text(json.dumps(document))
        (tool,) = toolgen.build(path).tools.values()
    return tool


SPELLINGS = [
    "tenant_id",
    "TENANT_ID",
    "tenantId",
    "tenant-id",
    "tenant.id",
    " tenant_id",
    "tenant_id ",
    "tenant_id[]",
    "tenant_id[0]",
    "tenant_id[a][b]",
    "tenant_id\0x",
    "tenant\uff3fid",
    "\uff54enant_id",
]


@pytest.mark.parametrize("name", SPELLINGS)
@pytest.mark.parametrize(
    ("rule", "tool", "holder"), [(LIST, "orders__list_orders", "filter"), (OPEN, "orders__create_open_order", "body")]
)
async def test_no_spelling_that_a_service_reads_as_the_bound_name_gets_past(
    tmp_path: Path, name: str, rule: dict[str, Any], tool: str, holder: str
) -> None:
    envelope, requests, _ = await call(
        tmp_path, [rule], tool, {holder: {"amount_cents": "5" if holder == "filter" else 5, name: "globex"}}
    )
    assert (envelope["status"], envelope["error"]["code"]) == ("refused", "forbidden")
    assert requests == []


@pytest.mark.parametrize("name", ["tenant", "tenant_name", "id", "[tenant", "\u00fc", "_"])
async def test_other_names_are_sent(tmp_path: Path, name: str) -> None:
    envelope, requests, _ = await call(tmp_path, [LIST], "orders__list_orders", {"filter": {name: "x"}})
    assert envelope["status"] == "ok"
    assert len(requests) == 1


def test_a_member_of_a_form_that_stands_by_itself_is_no_other_way_in() -> None:
    """The same for bodies of forms, whose objects may be sent as fields of their own."""
    properties = {
        "tenant_id": {"type": "string"},
        "more": {"type": "object", "additionalProperties": {"type": "string"}},
    }
    content = {
        "application/x-www-form-urlencoded": {
            "schema": {"type": "object", "properties": properties},
            "encoding": {"more": {"style": "form", "explode": True}},
        }
    }
    operation = {
        "operationId": "save",
        "requestBody": {"content": content},
        "responses": {"200": {"description": "ok"}},
    }
    tool = built(
        {
            "openapi": "3.1.0",
            "info": {"title": "t", "version": "1"},
            "servers": [{"url": "http://a"}],
            "paths": {"/": {"post": operation}},
        }
    )
    party = Principal(id="p", attributes={"tenant": "acme"})
    expression = compile_expression(
        "principal.attributes.tenant",
        CelScope(tools={}, catalog={}, attributes={"tenant": frozenset({"string"})}),
        where="",
    )
    binder = Binder(rule="r", argument="tenant_id", expression=expression, party=party)
    for name in SPELLINGS:
        assert bind([binder], tool, {"more": {name: "globex"}}).denied is not None, name
    assert bind([binder], tool, {"more": {"tenant": "x"}}).arguments["tenant_id"] == "acme"


async def test_each_caller_is_told_its_own_value(tmp_path: Path) -> None:
    rule = {**LIST, "to": ["user"], "tell": ["tenant_id"]}
    with upstream() as (_, server):
        path = project(tmp_path / "p", server, {"rules": [rule]})
        async with Gateway.load(path) as gateway:
            found = {}
            for who in ("ann", "eve", "ann"):
                tools = gateway.tool_calls.catalog(gateway.principal(who))
                found[who] = next(one.description for one in tools if one.name == "orders__list_orders")
            said = found
    assert said["ann"].endswith("tenant_id: set by the gateway (acme).")
    assert said["eve"].endswith("tenant_id: set by the gateway (globex).")
