"""Schemas nobody has seen, executed: what a tool takes arrives unchanged, what it answers with is of its output schema."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from graphql import (
    ExecutionResult,
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    execute_sync,
    get_named_type,
    is_leaf_type,
    parse,
    validate,
)
from graphql.language import FieldNode, visit
from graphql.language import Visitor as NodeVisitor
from graphql.utilities.get_default_value_ast import get_default_value_ast
from jsonschema import Draft202012Validator

import toolgen
from tests.connectors.graphql.reading import FIXTURES, binding
from tests.exhaustive import spread
from toolgen.connectors.graphql.description import load_description
from toolgen.model.manifest import Manifest
from toolgen.model.tool import GraphQLBinding, Tool

SCHEMAS = sorted((FIXTURES / "executed").glob("*.graphql"))


class _Server:
    """A service that answers anything of the right type; `seen` are the arguments its root fields were called with."""

    def __init__(self, schema: GraphQLSchema, chance: random.Random) -> None:
        self.schema, self.chance, self.seen = schema, chance, []  # type: ignore[var-annotated]
        for root in (schema.query_type, schema.mutation_type):
            for field in root.fields.values() if root is not None else ():
                field.resolve = self._root

    def _root(self, _: Any, info: Any, /, **given: Any) -> Any:
        self.seen.append(given)
        return self._value(info.return_type)

    def _field(self, _: Any, info: Any, /, **__: Any) -> Any:
        return self._value(info.return_type)

    def _value(self, type_: Any) -> Any:
        if isinstance(type_, GraphQLNonNull):
            return self._present(type_.of_type)
        return None if self.chance.random() < 0.2 else self._present(type_)

    def _present(self, type_: Any) -> Any:
        if isinstance(type_, GraphQLList):
            return [self._value(type_.of_type) for _ in range(self.chance.randint(0, 2))]
        if isinstance(type_, GraphQLEnumType):
            return next(iter(type_.values.values())).value
        known = {"Int": 7, "Float": 1.0, "String": "text", "Boolean": True, "ID": "id"}
        return known.get(type_.name, "scalar") if is_leaf_type(type_) else {}

    def _type(self, _: Any, __: Any, type_: Any) -> str | None:
        possible = self.schema.get_possible_types(type_)
        return self.chance.choice(possible).name if possible else None

    def run(self, sent: Mapping[str, Any]) -> ExecutionResult:
        return execute_sync(
            self.schema,
            parse(sent["query"]),
            variable_values=sent["variables"],
            operation_name=sent["operationName"],
            field_resolver=self._field,
            type_resolver=self._type,
        )


def _arguments(members: Mapping[str, GraphQLArgument | GraphQLInputField], chance: random.Random, depth: int) -> Any:
    given = {}
    for name, one in members.items():
        optional = not isinstance(one.type, GraphQLNonNull) or get_default_value_ast(one) is not None
        if not (optional and chance.random() < (0.4 if depth < 3 else 1)):
            given[name] = _input(one.type, chance, depth + 1)
    return given


def _input(type_: Any, chance: random.Random, depth: int) -> Any:
    if isinstance(type_, GraphQLNonNull):
        return _given(type_.of_type, chance, depth)
    return None if chance.random() < 0.25 else _given(type_, chance, depth)


def _given(type_: Any, chance: random.Random, depth: int) -> Any:
    match type_:
        case GraphQLList():
            return [_input(type_.of_type, chance, depth + 1) for _ in range(chance.randint(0, 2) if depth < 4 else 0)]
        case GraphQLEnumType():
            return chance.choice(list(type_.values))
        case GraphQLInputObjectType() if type_.is_one_of:
            simple = [name for name, one in type_.fields.items() if is_leaf_type(get_named_type(one.type))]
            name = chance.choice(simple if depth > 3 else list(type_.fields))
            return {name: _given(type_.fields[name].type, chance, depth + 1)}
        case GraphQLInputObjectType():
            return _arguments(type_.fields, chance, depth)
        case _:
            return chance.choice(_SCALARS.get(type_.name, ["2026-01-01"]))


_SCALARS: dict[str, list[Any]] = {
    "Int": [0, -1, 2**31 - 1, -(2**31)],
    "Float": [0, 1.0, -2.5, 1e300, 3, 1e-7],
    "String": ["", "null", "a\u2028\"'\\$x", "\U0001f600", "{}", "5"],
    "Boolean": [True, False],
    "ID": ["", "x", 5, "5", 0, -1],
    "JSON": [{"a": [None, {}]}, [], "x", 0, 1.5, False, {}],
    "JSONObject": [{}, {"null": None}],
    "BigInt": ["9007199254740993", 5, -1],
    "Long": ["1", 2],
    "Money": [1.5, "1.50", 2],
    "_Any": [{"__typename": "Product", "upc": "1"}],
    "Weird__Thing": [[], {}, 1, "x", True],
}


def _tools(tmp_path: Path, sdl: str) -> tuple[Manifest, GraphQLSchema]:
    (tmp_path / "schema.graphql").write_text(sdl, encoding="utf-8")
    source = {"s": {"graphql": "schema.graphql", "endpoint": "http://127.0.0.1:9/"}}
    return toolgen.build(source, root=tmp_path), load_description(str(tmp_path / "schema.graphql")).schema


def _leaves(tool: Tool) -> list[str]:
    found: list[str] = []

    class Look(NodeVisitor):
        def enter_field(self, node: FieldNode, *_: object) -> None:
            if node.selection_set is None and node.name.value != "__typename":
                found.append(node.name.value)

    visit(parse(binding(tool).operation), Look())
    return found


def _has_leaf(schema: GraphQLSchema, type_: Any, above: tuple[str, ...] = ()) -> bool:
    """Whether anything but a name of a type can be read without arguments and without what is deprecated."""
    named = get_named_type(type_)
    if is_leaf_type(named):
        return True
    if named.name in above:
        return False
    objects = [named] if isinstance(named, GraphQLObjectType) else schema.get_possible_types(named)
    fields = [field for one in objects for field in one.fields.values()]
    fields += [] if isinstance(named, GraphQLUnionType) else list(named.fields.values())
    return any(
        not field.deprecation_reason
        and all(
            not isinstance(one.type, GraphQLNonNull) or get_default_value_ast(one) is not None
            for one in field.args.values()
        )
        and _has_leaf(schema, field.type, (*above, named.name))
        for field in fields
    )


def whole(value: object) -> object:
    """The same with 1.0 as 1: an argument that may be an integer is sent as one."""
    match value:
        case float() if value.is_integer() and abs(value) <= 2**53:
            return int(value)
        case dict():
            return {name: whole(item) for name, item in value.items()}
        case list():
            return [whole(item) for item in value]
        case _:
            return value


@pytest.mark.parametrize("path", spread(SCHEMAS, 4), ids=lambda path: path.stem)
def test_what_a_tool_takes_arrives_unchanged_and_what_it_answers_is_promised(tmp_path: Path, path: Path) -> None:
    manifest, schema = _tools(tmp_path, path.read_text(encoding="utf-8"))
    chance = random.Random(path.stem)
    roots = {
        (kind, field): one
        for kind, root in (("query", schema.query_type), ("mutation", schema.mutation_type))
        for field, one in (root.fields if root is not None else {}).items()
    }
    made = [tool for tool in manifest.tools.values() if isinstance(tool.binding, GraphQLBinding)]
    tools = {(one.type, one.field): tool for tool in made if (one := binding(tool))}
    assert tools.keys() == roots.keys()
    server = _Server(schema, chance)
    for key, field in roots.items():
        tool = tools[key]
        assert validate(schema, parse(binding(tool).operation)) == []
        assert _leaves(tool) or not _has_leaf(schema, field.type), binding(tool).operation
        takes, answers = Draft202012Validator(tool.input_schema), Draft202012Validator(tool.output_schema or {})
        for _ in range(40):
            arguments = _arguments(field.args, chance, 0)
            assert list(takes.iter_errors(arguments)) == []
            sent = toolgen.preview(manifest, tool.name, arguments)
            page = {} if {"first", "last", "before"} & arguments.keys() or not binding(tool).page else {"first": 20}
            assert repr(sent.get("variables")) == repr(whole({**arguments, **page})), sent  # True is not 1
            answer = server.run(sent)
            if "lonely" not in str(key):
                assert answer.errors is None
                assert server.seen
            assert list(answers.iter_errors(answer.data)) == [], binding(tool).operation


def test_a_tool_for_every_binding_of_a_schema_with_one_type_for_all_roots(tmp_path: Path) -> None:
    manifest, _ = _tools(tmp_path, "schema { query: R mutation: R } type R { a(x: Int): Int get_a: Int }")
    bindings = [tool.binding for tool in manifest.tools.values()]
    made = {(one.type, one.field) for one in bindings if isinstance(one, GraphQLBinding)}
    assert made == {(kind, field) for kind in ("query", "mutation") for field in ("a", "get_a")}
