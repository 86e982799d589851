"""From a description to tools: all of them, by stable names, with every loss reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from graphql import (
    BooleanValueNode,
    EnumValueNode,
    FloatValueNode,
    IntValueNode,
    Node,
    NullValueNode,
    StringValueNode,
    Visitor,
    build_schema,
    introspection_from_schema,
    parse,
    validate,
    visit,
)
from jsonschema import Draft202012Validator

from tests.connectors.graphql.reading import FIXTURES, binding, edges, read, read_sdl, read_whole, tools_of
from toolgen.connectors.graphql import root_fields as reader
from toolgen.connectors.graphql.root_fields import mutation_effect
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.model.names import TOOL_NAME
from toolgen.model.tool import Effect

LITERALS = (IntValueNode, FloatValueNode, StringValueNode, BooleanValueNode, NullValueNode, EnumValueNode)
NAMES = [
    "s__create_user",
    "s__delete_user",
    "s__get_closed",
    "s__get_loop",
    "s__get_node",
    "s__get_old_user",
    "s__get_ping",
    "s__get_service",
    "s__get_user_query",
    "s__list_actors",
    "s__list_grid",
    "s__list_posts",
]


def nodes_of(document: Node) -> list[Node]:
    found: list[Node] = []

    class Collect(Visitor):
        def enter(self, node: Node, *_: object) -> None:
            found.append(node)

    visit(document, Collect())
    return found


def test_every_query_and_mutation_is_a_tool_whatever_the_roots_are_called() -> None:
    tools, schema = edges()
    origins = {tool.origin for tool in tools.values()}
    assert schema.query_type
    assert schema.mutation_type
    assert origins == {f"Reader.{field}" for field in schema.query_type.fields} | {
        "Writer.createUser",
        "Writer.deleteUser",
    }
    assert set(NAMES) <= set(tools)
    assert all(TOOL_NAME.match(name) for name in tools)


def test_subscriptions_are_reported_and_counted() -> None:
    reading = read(FIXTURES / "edges.graphql")
    assert [(one.level, one.code, one.origin) for one in reading.problems] == [
        ("info", "unsupported_subscription", "Watcher.userChanged"),
        ("info", "unsupported_subscription", "Watcher.ticked"),
    ]
    assert reading.operations == len(reading.tools) + 2


def test_every_operation_is_valid_and_holds_no_literal() -> None:
    tools, schema = edges()
    for tool in tools.values():
        document = parse(binding(tool).operation)
        assert validate(schema, document) == []
        assert not any(isinstance(node, LITERALS) for node in nodes_of(document))
        [definition] = document.definitions
        assert definition.name.value == binding(tool).operation_name == tool.name  # type: ignore[attr-defined]


def test_every_schema_is_a_schema_and_shares_its_arguments_with_the_operation() -> None:
    tools, _ = edges()
    for tool in tools.values():
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        assert tool.input_schema["type"] == "object"
        fields = [binding(tool).fields] if binding(tool).fields else []
        assert [*binding(tool).variables, *fields] == list(tool.input_schema["properties"])


def test_effects_follow_the_root_and_the_verb_of_a_mutation() -> None:
    tools, _ = edges()
    for tool in tools.values():
        mutation = Effect.WRITE if tool.name == "s__create_user" else Effect.DESTRUCTIVE
        expected = (Effect.READ, True) if binding(tool).type == "query" else (mutation, False)
        assert (tool.effect, tool.idempotent) == expected


@pytest.mark.parametrize(
    ("field", "effect"),
    [
        ("createOrder", "write"),
        ("insert_orders_one", "write"),
        ("orderCreate", "write"),
        ("updateOrderAddress", "write"),
        ("addToCart", "write"),
        ("deleteOrder", "destructive"),
        ("orderDelete", "destructive"),
        ("updateAndArchiveOrder", "destructive"),
        ("createOrReplaceOrder", "destructive"),
        ("archiveOrder", "destructive"),
        ("approveOrder", "destructive"),
        ("address", "destructive"),
        ("_", "destructive"),
    ],
)
def test_a_mutation_writes_only_where_its_verb_says_so_and_no_other_word_against_it(field: str, effect: str) -> None:
    assert mutation_effect(field) == effect


def test_descriptions_say_what_the_author_said_and_what_comes_back() -> None:
    tools, _ = edges()
    assert tools["s__list_posts"].description == "People, page by page.\nReturns PostConnection!."
    assert tools["s__get_old_user"].description.endswith("Deprecated: use user")
    assert tools["s__list_posts"].title == "List posts"


def test_names_do_not_depend_on_the_order_of_fields(tmp_path: Path) -> None:
    fields = ["user: Int", "getUser: Int", "users: [Int]", "user_s: Int", "aVeryLongName" + "Indeed" * 12 + ": Int"]
    forward = read_sdl(tmp_path, f"type Query {{ {' '.join(fields)} }}")
    backward = read_sdl(tmp_path, f"type Query {{ {' '.join(reversed(fields))} }}")
    assert {tool.origin: tool.name for tool in forward.tools} == {tool.origin: tool.name for tool in backward.tools}
    assert len(tools_of(forward)) == len(fields)


def test_reading_twice_gives_the_same_tools() -> None:
    assert read(FIXTURES / "edges.graphql") == read(FIXTURES / "edges.graphql")


@pytest.mark.parametrize("wrapped", ["bare", "data", "with a byte order mark"])
def test_introspection_gives_the_tools_that_sdl_gives(tmp_path: Path, wrapped: str) -> None:
    schema = build_schema((FIXTURES / "edges.graphql").read_text(encoding="utf-8"))
    result: Any = introspection_from_schema(schema, input_value_deprecation=True, one_of=True)
    text = json.dumps({"data": result} if wrapped == "data" else result)
    path = tmp_path / "schema.json"
    path.write_text(text, encoding="utf-8-sig" if "mark" in wrapped else "utf-8")
    assert [tool.to_dict() for tool in read(path).tools] == [
        tool.to_dict() for tool in read(FIXTURES / "edges.graphql").tools
    ]


def test_faults_that_services_publish_are_read_around_and_reported() -> None:
    reading = read(FIXTURES / "broken.graphql")
    tools = tools_of(reading)
    assert sorted(tools) == ["s__get_kept", "s__get_lesser_argument", "s__get_twice"]
    assert list(tools["s__get_lesser_argument"].input_schema["properties"]) == ["id"]
    assert tools["s__get_kept"].input_schema["$defs"]["Filter"]["properties"].keys() == {"name"}
    assert binding(tools["s__get_kept"]).operation.split() == (
        [
            "query",
            "s__get_kept($filter:",
            "Filter)",
            "{",
            "kept(filter:",
            "$filter)",
            "{",
            "id",
            "name",
            "other",
            "}",
            "}",
        ]
    )
    assert tools["s__get_twice"].description.endswith("Returns String.")
    found = {(one.level, one.code, one.origin) for one in reading.problems}
    assert {
        ("error", "unknown_type", "Query.lostReturn"),
        ("error", "unknown_type", "Query.lostArgument"),
        ("error", "unknown_type", "Query.inputAsOutput"),
        ("error", "unknown_type", "Query._entities"),
        ("warning", "unknown_type", "Thing.gone"),
        ("warning", "unknown_type", "Filter.odd"),
        ("warning", "unknown_type", "Filter.lost"),
        ("warning", "unknown_type", "Mixed.Missing"),
        ("warning", "unknown_type", "Mixed.Filter"),
        ("warning", "unknown_type", "Holder.Nowhere"),
        ("warning", "duplicate_field", "schema"),
        ("warning", "orphan_extension", "schema"),
    } <= found
    assert reading.operations == len(tools) + 4


def test_an_unknown_directive_is_reported_once_however_often_it_is_used() -> None:
    reading = read(FIXTURES / "broken.graphql")
    told = [one.message for one in reading.problems if one.code == "unknown_directive"]
    assert sorted(line.partition(": ")[2] for line in told) == [
        f"Unknown directive '@{name}'." for name in ("external", "key", "link", "sparkle")
    ]


@pytest.mark.parametrize(
    ("sdl", "level", "code"),
    [
        ("type Thing { id: ID }", "warning", "no_operations"),
        ("schema { query: Nothing } type Thing { id: ID }", "warning", "no_operations"),
        ("schema { query: Q mutation: Nothing } type Q { id: ID }", "warning", "unknown_type"),
    ],
)
def test_what_cannot_be_called_is_a_problem_and_no_crash(tmp_path: Path, sdl: str, level: str, code: str) -> None:
    reading = read_sdl(tmp_path, sdl)
    assert (level, code) in {(one.level, one.code) for one in reading.problems}


def test_an_operation_graphql_core_refuses_is_not_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reader, "faults_of", lambda _, operation: ["no"] if "bad" in operation else [])
    reading = read_sdl(tmp_path, "type Query { bad: Int good: Int }")
    assert [tool.name for tool in reading.tools] == ["s__get_good"]
    assert [(one.level, one.code, one.origin) for one in reading.problems] == [
        ("error", "invalid_operation", "Query.bad")
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not GraphQL: Syntax Error"),
        ("type Query {", "is not GraphQL"),
        ("<!doctype html>", "is not GraphQL"),
        ("[" * 100_000, "is not GraphQL"),
        ("type Query { a: " + "[" * 5000 + "Int" + "]" * 5000 + " }", "is not GraphQL"),
        ('{"openapi": "3.1.0"}', "has no `__schema`"),
        ('{"data": null, "errors": []}', "has no `__schema`"),
        ('{"__schema": {', "is not JSON"),
        (
            '{"__schema": {"types": [{"kind": "OBJECT"}]}}',
            "is not an introspection result: Object missing required field `name`",
        ),
        ('{"__schema": {"types": [], "description": ["x"]}}', "is not an introspection result: Expected `str | null`"),
        ('{"__schema": {"queryType": {"name": "Q"}, "types": []}}', "no schema can be built"),
        ('{"__schema": {"types": [{"kind": "UNKNOWN", "name": "A"}]}}', "no schema can be built"),
        (
            '{"__schema": {"queryType": {"name": "a { b }"}, "types": []}}',
            "is not an introspection result: .*queryType.name",
        ),
        (b"type Query { a: Int } # \xff", "is not UTF-8"),
    ],
)
def test_what_is_no_description_says_so(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "schema.graphql"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DescriptionError, match=message) as caught:
        read(path)
    assert caught.value.where.startswith(str(path))
    assert len(str(caught.value)) < 1000


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError) as caught:
        read_sdl(tmp_path, "type Query {\n  a: Int\n  b: !\n}")
    assert caught.value.where.endswith("schema.graphql:3")


def test_a_missing_file_is_a_description_error(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match="cannot be read"):
        read(tmp_path / "none.graphql")


def test_a_default_of_another_language_in_an_introspection_result_is_left_out(tmp_path: Path) -> None:
    schema = build_schema("type Query { a(x: Int = 3): Int }")
    text = json.dumps(introspection_from_schema(schema)).replace('"defaultValue": "3"', '"defaultValue": "<object>"')
    path = tmp_path / "schema.json"
    path.write_text(text)
    reading = read(path)
    assert [one.code for one in reading.problems] == ["invalid_default"]
    assert "default" not in reading.tools[0].input_schema["properties"]["x"]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"include": {"operations": ["get*", "node"]}}, {"s__get_user", "s__get_node"}),
        ({"include": {"effects": ["destructive"]}}, {"s__delete_user"}),
        ({"include": {"effects": ["write"]}}, {"s__create_user"}),
        ({"include": {"operations": ["*User"], "effects": ["read"]}}, {"s__get_user", "s__get_old_user"}),
        ({"exclude": {"effects": ["read"]}}, {"s__create_user", "s__delete_user"}),
        ({"exclude": {"effects": ["read"], "operations": ["delete*"]}}, {"s__create_user"}),
        ({"include": {"operations": ["deleteUser"]}, "exclude": {"operations": ["delete*"]}}, set()),
    ],
)
def test_include_and_exclude_choose_by_field_and_effect(options: dict[str, Any], kept: set[str]) -> None:
    reading = read(FIXTURES / "edges.graphql", **options)
    assert set(tools_of(reading)) == kept


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"effects": ["reed"]}, "'reed' is not read, write or destructive"),
        ({"operations": "get*"}, "is not a list of texts"),
        ({"operations": [1]}, "is not a list of texts"),
    ],
)
def test_a_filter_that_cannot_be_meant_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        read(FIXTURES / "edges.graphql", exclude=given)
    assert caught.value.where.startswith("sources.s.exclude.")


@pytest.mark.parametrize("option", ["include", "exclude"])
def test_a_filter_that_graphql_has_no_meaning_for_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match="`tags`"):
        read(FIXTURES / "edges.graphql", **{option: {"tags": ["pet"]}})


@pytest.mark.parametrize(
    "endpoint", ["ftp://h/graphql", "https://", "/graphql", "https://h/#x", "https://h/{a}", "http://[", "http://h:x/"]
)
def test_an_endpoint_that_cannot_be_called_is_refused(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="the endpoint is not"):
        read(FIXTURES / "edges.graphql", endpoint=endpoint)


def test_a_credential_in_the_endpoint_is_refused_and_not_repeated() -> None:
    with pytest.raises(ConfigError, match="holds a credential") as caught:
        read(FIXTURES / "edges.graphql", endpoint="https://user:canary@h/graphql")
    assert "canary" not in str(caught.value)
    with pytest.raises(ConfigError, match="holds a credential") as caught:
        read("https://user:canary@h/graphql")
    assert "canary" not in str(caught.value)


def test_without_an_endpoint_tools_are_built_with_a_warning() -> None:
    reading = read(FIXTURES / "edges.graphql", endpoint="")
    assert reading.tools
    assert ("warning", "no_endpoint") in {(one.level, one.code) for one in reading.problems}


def test_control_and_bidi_characters_do_not_reach_a_description(tmp_path: Path) -> None:
    reading = read_sdl(
        tmp_path, '"""Safe\u202e\u200b text\u0007"""\ntype Query { "a\u2066b" a("c\u202ed" x: Int): Int }'
    )
    [tool] = reading.tools
    assert tool.description.startswith("ab\n")
    assert tool.input_schema["properties"]["x"]["description"] == "cd"
    assert reading.info.title == "s"


def test_long_descriptions_are_cut(tmp_path: Path) -> None:
    [tool] = read_sdl(tmp_path, f'type Query {{ "{"x" * 50_000}" a("{"y" * 50_000}" b: Int): Int }}').tools
    assert len(tool.description) <= 1024
    assert len(tool.input_schema["properties"]["b"]["description"]) <= 1024


@pytest.mark.parametrize(
    ("sdl", "names"),
    [
        ("type Query { a: Int }", ["s__describe_types", "s__get_a"]),
        ("type Query { a: Int } type Mutation { add: Int }", ["s__add", "s__describe_types", "s__get_a"]),
        ("type Query { describeTypes: Int }", ["s__describe_schema_types", "s__describe_types_query"]),
    ],
)
def test_every_source_with_root_fields_describes_its_types(tmp_path: Path, sdl: str, names: list[str]) -> None:
    (tmp_path / "schema.graphql").write_text(sdl, encoding="utf-8")
    reading = read_whole(tmp_path / "schema.graphql")
    assert sorted(tool.name for tool in reading.tools) == names
    assert reading.info.graph is not None
    assert reading.operations == len(names)


def test_a_source_without_root_fields_describes_no_types(tmp_path: Path) -> None:
    (tmp_path / "schema.graphql").write_text("type Query { a: Int }", encoding="utf-8")
    assert read_whole(tmp_path / "schema.graphql", exclude={"operations": ["*"]}).tools == ()
