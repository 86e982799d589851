"""A manifest with one tool of every kind, a schema with a `$ref`, and a problem: what the golden files are rendered from."""

from __future__ import annotations

from toolgen.model.database import Column, Database, Table
from toolgen.model.manifest import Manifest, Problem, SecurityScheme, SourceInfo, assemble
from toolgen.model.tool import Effect, GraphQLBinding, HttpBinding, HttpBody, HttpParameter, SqlBinding, Tool


def small_manifest() -> Manifest:
    sources = {
        "petstore": SourceInfo(
            kind="openapi",
            digest="sha256:" + "0" * 64,
            title="Pet store",
            version="1.0.0",
            security_schemes={"api_key": SecurityScheme(type="apiKey", in_="header", name="X-Key")},
        ),
        "catalog": SourceInfo(kind="graphql", digest="sha256:" + "1" * 64, title="Catalog", version=""),
        "shop": SourceInfo(
            kind="sql",
            digest="sha256:" + "2" * 64,
            title="Shop",
            version="",
            database=Database(
                dialect="sqlite", tables=(Table(name="pets", columns=(Column(name="id", type="INTEGER"),)),)
            ),
        ),
    }
    problems = [
        Problem(
            level="error", source="petstore", origin="#/paths/~1pet/put", code="unresolved_ref", message="leads nowhere"
        )
    ]
    return assemble(sources, [_http(), _graphql(), _sql()], problems)


def _http() -> Tool:
    return Tool(
        name="petstore__update_pet",
        title="Update pet",
        description='Changes a pet.\n"Quotes", ünïcode and 🐕 stay as they are.',
        input_schema={
            "type": "object",
            "properties": {"petId": {"type": "integer"}, "body": {"$ref": "#/$defs/Pet"}},
            "required": ["petId"],
            "$defs": {"Pet": {"type": "object", "properties": {"parent": {"$ref": "#/$defs/Pet"}}}},
        },
        output_schema=None,
        effect=Effect.WRITE,
        idempotent=True,
        source="petstore",
        origin="#/paths/~1pet~1{petId}/put",
        binding=HttpBinding(
            method="PUT",
            path="/pet/{petId}",
            servers=("https://pets.example",),
            parameters=(
                HttpParameter(argument="petId", in_="path", name="petId", style="simple", explode=False, required=True),
            ),
            body=HttpBody(media_type="application/json", argument="body"),
            security=(("api_key",),),
        ),
    )


def _graphql() -> Tool:
    return Tool(
        name="catalog__get_product",
        title="Get product",
        description="One product.",
        input_schema={
            "type": "object",
            "properties": {"id": {"type": ["string", "integer"]}},
            "required": ["id"],
            "additionalProperties": False,
        },
        output_schema={
            "type": "object",
            "properties": {"product": {"type": ["object", "null"], "properties": {"id": {"type": "string"}}}},
            "required": ["product"],
        },
        effect=Effect.READ,
        idempotent=True,
        source="catalog",
        origin="Query.product",
        binding=GraphQLBinding(
            type="query",
            field="product",
            operation="query catalog__get_product($id: ID!) {\n  product(id: $id) {\n    id\n  }\n}",
            operation_name="catalog__get_product",
            variables={"id": "id"},
            endpoint="https://catalog.example/graphql",
        ),
        listed_output="lenient",
    )


def _sql() -> Tool:
    return Tool(
        name="shop__list_tables",
        title="List tables",
        description="The tables there are.",
        input_schema={"type": "object", "properties": {}},
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source="shop",
        origin="shop",
        binding=SqlBinding(dialect="sqlite", operation="list_tables"),
    )
