"""Small catalogs for tests that need tools but no description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.model.database import Column, Database, Table
from toolgen.model.manifest import Manifest, SourceInfo, assemble
from toolgen.model.tool import Effect, HttpBinding, SqlBinding, Tool, seal

SHOP = Database(
    dialect="sqlite",
    tables=(
        Table(
            name="customers",
            columns=(
                Column(name="id", type="INTEGER"),
                Column(name="name", type="TEXT"),
                Column(name="email", type="TEXT"),
                Column(name="tenant", type="TEXT"),
            ),
        ),
        Table(name="orders", columns=(Column(name="id", type="INTEGER"), Column(name="total", type="REAL"))),
    ),
)


def http_tool(
    name: str,
    effect: Effect = Effect.READ,
    properties: Mapping[str, Any] | None = None,
    **schema: Any,
) -> Tool:
    """A tool of an HTTP source; its source is what stands before the first `__`."""
    return seal(
        Tool(
            name=name,
            title=name,
            description=f"Calls {name}.",
            input_schema={"type": "object", "properties": dict(properties or {}), **schema},
            output_schema=None,
            effect=effect,
            idempotent=effect is Effect.READ,
            source=name.partition("__")[0],
            origin=f"#/paths/~1{name}/get",
            binding=HttpBinding(
                method="GET", path="/", servers=("http://127.0.0.1:9",), parameters=(), body=None, security=()
            ),
        )
    )


def sql_tool(name: str, operation: str = "query") -> Tool:
    """A tool of a SQLite source."""
    return seal(
        Tool(
            name=name,
            title=name,
            description=f"Calls {name}.",
            input_schema={
                "type": "object",
                "properties": {"sql": {"type": "string"}, "parameters": {"type": "array"}},
                "required": ["sql"],
            },
            output_schema=None,
            effect=Effect.READ,
            idempotent=True,
            source=name.partition("__")[0],
            origin="",
            binding=SqlBinding(dialect="sqlite", operation=operation),
        )
    )


def catalog(*tools: Tool) -> Manifest:
    """A manifest of tools; a source named `shop` gets the shop's tables."""
    names = {tool.source for tool in tools}
    infos = {
        name: SourceInfo(
            kind="sql" if name == "shop" else "openapi",
            digest="sha256:0",
            title=name,
            version="1",
            database=SHOP if name == "shop" else None,
        )
        for name in names
    }
    return assemble(infos, tools, ())


PETS = catalog(
    http_tool("pets__list_pets", properties={"limit": {"type": "integer"}, "tag": {"type": "string"}}),
    http_tool("pets__get_pet", properties={"petId": {"type": "integer"}}, required=["petId"]),
    http_tool("pets__create_pet", Effect.WRITE, properties={"name": {"type": "string"}}),
    http_tool("pets__delete_pet", Effect.DESTRUCTIVE, properties={"petId": {"type": "integer"}}),
    sql_tool("shop__query"),
)
