"""Arguments: what the schema takes is what the service takes, no more and no less."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import GraphQLSchema, OperationDefinitionNode, parse
from graphql.execution.values import get_variable_values
from jsonschema import Draft202012Validator

from tests.connectors.graphql.reading import binding, edges
from toolgen.model.tool import Tool

NEW = {"name": "x", "when": "2024-01-01T00:00:00Z"}


@pytest.fixture(name="tools", scope="module")
def _tools() -> dict[str, Tool]:
    return edges()[0]


@pytest.fixture(name="schema", scope="module")
def _schema() -> GraphQLSchema:
    return edges()[1]


def named(tools: dict[str, Tool], field: str) -> Tool:
    return next(tool for tool in tools.values() if binding(tool).field == field)


def properties(tools: dict[str, Tool], field: str) -> Any:
    return named(tools, field).input_schema["properties"]


@pytest.mark.parametrize(
    ("field", "arguments", "accepted"),
    [
        ("posts", {}, True),
        ("posts", {"where": None}, True),
        ("posts", {"where": {}}, True),
        ("posts", {"first": None}, False),
        ("posts", {"first": 2**31 - 1}, True),
        ("posts", {"first": 2**31}, False),
        ("posts", {"first": -(2**31) - 1}, False),
        ("posts", {"first": "1"}, False),
        ("posts", {"where": {"and": [{"not": {"role": {"in": ["USER", "ADMIN"]}}}]}}, True),
        ("posts", {"where": {"and": [None]}}, False),
        ("posts", {"where": {"role": {"eq": "ROOT"}}}, False),
        ("posts", {"where": {"role": {"eq": None, "in": None}}}, True),
        ("posts", {"where": {"unknown": 1}}, False),
        ("posts", {"where": {"meta": {"any": [1, None, {}]}}}, True),
        ("user", {}, False),
        ("user", {"by": {"id": "1"}}, True),
        ("user", {"by": {"id": 1}}, True),
        ("user", {"by": {}}, False),
        ("user", {"by": {"id": None}}, False),
        ("user", {"by": {"id": "1", "email": "a"}}, False),
        ("user", {"by": {"place": {"city": "x", "zip": None}}}, True),
        ("user", {"by": {"place": {}}}, False),
        ("node", {"id": None}, False),
        ("node", {"id": 1.5}, False),
        ("grid", {"cells": [[1, 2], []]}, True),
        ("grid", {"cells": [None]}, False),
        ("grid", {"cells": [[None]]}, False),
        ("grid", {"cells": [], "at": None, "blob": None}, True),
        ("createUser", {"input": NEW}, True),
        ("createUser", {"input": NEW | {"size": None}}, False),
        ("createUser", {"input": NEW | {"tags": None}}, False),
        ("createUser", {"input": NEW | {"next": NEW | {"next": None}}}, True),
        ("createUser", {"input": {"name": "x"}}, False),
        ("createUser", {"input": NEW | {"huge": 90071992547409931, "ratio": 1}}, True),
    ],
)
def test_a_tool_takes_exactly_what_the_service_takes(
    tools: dict[str, Tool], schema: GraphQLSchema, field: str, arguments: dict[str, Any], accepted: bool
) -> None:
    tool = named(tools, field)
    [definition] = parse(binding(tool).operation).definitions
    assert isinstance(definition, OperationDefinitionNode)
    coerced = get_variable_values(schema, definition.variable_definitions, arguments)
    # `$first: Int` is null-able as a variable and refused where it is used; the schema of the argument is the stricter of the two.
    if (field, arguments) != ("posts", {"first": None}):
        assert (not isinstance(coerced, list)) is accepted
    assert Draft202012Validator(tool.input_schema).is_valid(arguments) is accepted


def test_an_argument_that_does_not_exist_is_refused(tools: dict[str, Tool]) -> None:
    assert not Draft202012Validator(named(tools, "ping").input_schema).is_valid({"x": 1})


def test_defaults_are_carried_over_as_the_json_that_means_them(tools: dict[str, Tool]) -> None:
    assert properties(tools, "posts")["where"]["default"] == {"role": {"eq": "USER"}}
    assert properties(tools, "posts")["first"]["default"] == 10
    definitions = named(tools, "createUser").input_schema["$defs"]
    defaults = {name: one.get("default") for name, one in definitions["New"]["properties"].items() if "default" in one}
    assert defaults == {"size": 3, "tags": ["x"], "ratio": 1.5, "huge": "90071992547409931"}
    where = named(tools, "posts").input_schema["$defs"]
    assert where["RoleIs"]["properties"]["in"]["default"] == ["USER"]


def test_a_default_is_valid_against_the_schema_it_stands_in(tools: dict[str, Tool]) -> None:
    for tool in tools.values():
        definitions = tool.input_schema.get("$defs", {})
        for owner in (tool.input_schema, *definitions.values()):
            for one in owner.get("properties", {}).values():
                if "default" in one:
                    Draft202012Validator({**one, "$defs": definitions}).validate(one["default"])


def test_deprecations_and_enum_notes_are_carried_over(tools: dict[str, Tool]) -> None:
    definitions = named(tools, "createUser").input_schema["$defs"]
    old = definitions["New"]["properties"]["old"]
    assert (old["deprecated"], old["description"]) == (True, "Deprecated: no more")
    role = named(tools, "posts").input_schema["$defs"]["RoleIs"]["properties"]["eq"]
    assert role["enum"] == ["USER", "ADMIN", None]
    assert role["description"] == "ADMIN: Runs the place. (deprecated: gone)"


def test_custom_scalars_say_what_they_are(tools: dict[str, Tool]) -> None:
    given = properties(tools, "grid")
    assert (given["at"]["type"], given["at"]["format"]) == (["string", "null"], "date-time")
    assert given["blob"]["type"] == ["string", "number", "boolean", "object", "array", "null"]
    assert given["blob"]["description"] == "Blob: A mystery. https://example.com/blob"


def test_only_the_definitions_an_operation_needs_come_with_it(tools: dict[str, Tool]) -> None:
    needed = {binding(tool).field: sorted(tool.input_schema.get("$defs", {})) for tool in tools.values()}
    assert needed["user"] == ["By", "Place"]
    assert needed["posts"] == ["RoleIs", "Where"]
    assert needed["createUser"] == ["New"]
    assert needed["node"] == []
