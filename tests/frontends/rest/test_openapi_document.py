"""What the description of the gateway says its answers are."""

from __future__ import annotations

import json
from collections.abc import Mapping

import msgspec
import pytest
from msgspec import Struct

from toolgen.frontends.rest import approvals, context, grants, tool_call_batches, tools
from toolgen.frontends.rest.openapi_document import openapi_json
from toolgen.model.schema import Json, JsonObject

CALL = "/v1/tools/{name}/call"


def test_a_call_that_ended_well_or_waits_is_an_envelope_and_no_refusal() -> None:
    responses = json.loads(openapi_json())["paths"][CALL]["post"]["responses"]
    shown = {status: one["content"]["application/json"]["schema"] for status, one in responses.items()}
    envelope, refusal = ({"$ref": f"#/components/schemas/{name}"} for name in ("Envelope", "Refusal"))
    assert (shown["200"], shown["202"], shown["401"]) == (envelope, envelope, refusal)
    assert shown["403"] == {"anyOf": [envelope, refusal]}


_BOUNDS = frozenset({"minimum", "maximum", "minLength", "maxLength", "pattern", "enum", "additionalProperties"})


def _fields(schema: JsonObject, definitions: Mapping[str, JsonObject]) -> dict[str, tuple[bool, dict[str, Json]]]:
    """Each field of a schema, by its path: True if it is required, and its bounds. The `type` that tags a call is no field of a Struct."""
    found: dict[str, tuple[bool, dict[str, Json]]] = {}
    for name, given in schema.get("properties", {}).items():
        if "const" in given or given.get("enum") == ["tool_call"]:
            continue
        parts = [given, *given.get("anyOf", ())]
        parts = [definitions[part["$ref"].rpartition("/")[2]] if "$ref" in part else part for part in parts]
        bounds = {key: part[key] for part in parts for key in _BOUNDS & part.keys()}
        found[name] = (name in schema.get("required", ()), bounds)
        for part in parts:
            found |= {f"{name}.{below}": value for below, value in _fields(part, definitions).items()}
    return found


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("CallBody", tools._CallBody),
        ("Decision", approvals._DecisionBody),
        ("PromptBody", context._PromptBody),
        ("ResourceRead", context._ReadBody),
        ("RoleWish", grants._Wish),
        ("GrantAnswer", grants._GrantAnswer),
        ("LangChainToolCall", tool_call_batches._LangChain),
        ("ChatToolCall", tool_call_batches._Chat),
        ("ToolUse", tool_call_batches._Anthropic),
        ("FunctionCall", tool_call_batches._Response),
    ],
)
def test_the_schema_of_a_body_is_that_of_the_struct_it_is_decoded_into(name: str, body: type[Struct]) -> None:
    schemas = json.loads(openapi_json())["components"]["schemas"]
    _, definitions = msgspec.json.schema_components([body])
    made = definitions[body.__name__]
    assert _fields(schemas[name], schemas) == _fields(made, definitions)
    assert schemas[name].get("additionalProperties") == made.get("additionalProperties")
