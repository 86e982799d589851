"""Tools by the ids that their operations have in their own descriptions, through a whole gateway: what is run, and what is recorded."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.governed import project, upstream
from tests.projects import audit_entries
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.catalog.operation_names import OperationNames, no_operation
from toolgen.generator.build import build
from toolgen.model.tool import Tool

POLICY = {
    "rules": [
        {
            "id": "some",
            "to": ["bot"],
            "tools": ["orders__*"],
            "effects": ["read", "write"],
            "verdict": "allow",
        }
    ]
}


@pytest.mark.parametrize("name", ["getHealth", "get_health", "get-health", "GetHealth", "orders__getHealth"])
async def test_a_tool_is_run_and_described_by_the_id_of_its_operation(tmp_path: Path, name: str) -> None:
    with upstream() as (_, url):
        path = project(tmp_path, url, POLICY, gateway={"search_above": 0})
        async with Gateway.load(path) as gateway:
            answer = await gateway.call("run_tool", {"name": name, "arguments": {}}, principal="bot")
            assert (answer.status, answer.tool) == ("ok", "orders__get_health"), answer
            shown = await gateway.call("describe_tool", {"name": name}, principal="bot")
            assert isinstance(shown.data, dict)
            assert shown.data["name"] == "orders__get_health"
            recorded = [entry["tool"] for entry in audit_entries(gateway) if entry["event"] == "intent"]
            assert recorded == ["orders__get_health"]


async def test_the_id_of_an_operation_that_is_not_open_to_the_caller_is_no_name(tmp_path: Path) -> None:
    with upstream() as (seen, url):
        path = project(tmp_path, url, POLICY, gateway={"search_above": 0})
        async with Gateway.load(path) as gateway:
            hidden = await gateway.call("run_tool", {"name": "deleteOrder", "arguments": {"id": "1"}}, principal="bot")
            free = await gateway.call("run_tool", {"name": "deleteOrdex", "arguments": {"id": "1"}}, principal="bot")
            assert hidden.error is not None
            assert hidden.error.code == "unknown_tool"
            assert free.error is not None
            assert (hidden.error.message, hidden.error.rule) == (free.error.message, free.error.rule)
        assert seen.requests == []


def test_an_id_that_several_tools_have_names_none(tmp_path: Path) -> None:
    schema = tmp_path / "s.graphql"
    schema.write_text(
        "type Query { orderOf(id: ID!): String order_of(id: ID!): String orders: String }", encoding="utf-8"
    )
    sources = {name: {"graphql": str(schema), "endpoint": "https://a.example.com/graphql"} for name in ("one", "two")}
    tools: list[Tool] = list(build(sources).tools.values())
    names = OperationNames(tools, no_operation)
    assert names.tool("orderOf") is None
    assert names.tool("orders") is None
    found = names.tool("two_orders")
    assert found is not None
    assert found.source == "two"
    assert names.tool("") is None
