"""Two manifests compared: what breaks, what does not, and in which words."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from tests.golden.small import small_manifest
from tests.messages import line_names
from toolgen.generator.emit.diff import BindingChange, ManifestDiff, compare, lines
from toolgen.generator.emit.schema_comparison.comparison import schema_changes
from toolgen.model.database import Column, Database, Table
from toolgen.model.manifest import Manifest, Problem, SecurityScheme, SourceInfo, assemble
from toolgen.model.tool import Effect, GraphQLBinding, HttpBinding, HttpBody, HttpParameter, HttpPart, SqlBinding, Tool

TOOL = Tool(
    name="pets__get_pet",
    title="Get a pet",
    description="Gets one pet.",
    input_schema={"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    output_schema={"type": "object", "properties": {"name": {"type": "string"}}},
    effect=Effect.READ,
    idempotent=True,
    source="pets",
    origin="#/paths/~1pets/get",
    binding=HttpBinding(
        method="GET",
        path="/pets",
        servers=("https://api.example.com",),
        parameters=(HttpParameter(argument="id", in_="query", name="id", style="form", explode=True, required=True),),
        body=None,
        security=(("key",),),
    ),
)
GRAPHQL = GraphQLBinding(
    type="query", field="pet", operation="{pet}", operation_name="p", variables={}, endpoint="https://api.example.com/g"
)
SQL = SqlBinding(dialect="sqlite", operation="query")
INFO = SourceInfo(
    kind="openapi",
    digest="sha256:0",
    title="Pets",
    version="1",
    security_schemes={"key": SecurityScheme(type="apiKey", in_="header", name="X-Key")},
)


def tool(**changes: Any) -> Tool:
    return msgspec.structs.replace(TOOL, **changes)


def http(**changes: Any) -> HttpBinding:
    binding: HttpBinding = msgspec.structs.replace(TOOL.binding, **changes)
    return binding


def manifest(*tools: Tool, problems: tuple[Problem, ...] = (), **sources: SourceInfo) -> Manifest:
    return assemble(sources or {"pets": INFO}, tools, problems)


def changes(old: Tool, new: Tool) -> list[tuple[str, str]]:
    difference = compare(manifest(old), manifest(new))
    return [(change.level, change.code) for one in difference.tools for change in one.changes]


def words(difference: ManifestDiff) -> list[str]:
    return [" ".join(line.split()) for line in lines(difference)]


OLD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 10},
        "s": {"type": "string", "enum": ["a", "b"], "description": "S."},
        "list": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "open": {},
    },
    "required": ["n"],
    "$defs": {"Item": {"type": "object", "properties": {"x": {"type": "string"}, "next": {"$ref": "#/$defs/Item"}}}},
}


def changed(path: tuple[str, ...], **keywords: Any) -> dict[str, Any]:
    """OLD with keywords of the schema at a path set, or removed where they are `...`."""
    copy: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(OLD))
    node = copy
    for step in path:
        node = node[step]
    for key, value in keywords.items():
        if value is ...:
            del node[key]
        else:
            node[key] = value
    return copy


def prop(name: str, **keywords: Any) -> dict[str, Any]:
    return changed(("properties", name), **keywords)


def props(**properties: Any) -> dict[str, Any]:
    return changed(("properties",), **properties)


ITEM = ("$defs", "Item", "properties")
# The new schema; what is said; whether it breaks who writes such values, and who reads them.
SCHEMAS = [
    (props(m={"type": "string"}), "m is new", False, False),
    (changed((), properties={**OLD["properties"], "m": {}}, required=["n", "m"]), "m is new and required", True, False),
    (props(s=...), "s was removed", True, True),
    (changed((), required=["n", "s"]), "s is now required", True, False),
    (changed((), required=[]), "n is no longer required", False, True),
    (changed((), required=["n", "ghost"]), "ghost is now required", True, False),
    (prop("n", type="string"), "n is now string (before: integer)", True, True),
    (prop("n", type="number"), "n is now number (before: integer)", False, True),
    (prop("n", type=["integer", "null"]), "n is now integer or null (before: integer)", False, True),
    (prop("open", type="string"), "open is now string (before: of any type)", True, False),
    (prop("n", minimum=2), "n has the minimum 2 (before: 1)", True, False),
    (prop("n", minimum=0), "n has the minimum 0 (before: 1)", False, True),
    (prop("n", maximum=9), "n has the maximum 9 (before: 10)", True, False),
    (prop("n", maximum=...), "n no longer has the maximum (before: 10)", False, True),
    (prop("n", exclusiveMinimum=1), "n has the exclusiveMinimum 1 (before: the minimum 1)", True, False),
    (prop("n", exclusiveMinimum=0, minimum=...), "n has the exclusiveMinimum 0 (before: the minimum 1)", False, False),
    (prop("n", exclusiveMinimum=0, minimum=..., type="number"), "n has the exclusiveMinimum 0 (before: the minimum 1)", False, True),
    (prop("n", multipleOf=2), "n now has the multipleOf 2", True, False),
    (prop("s", maxLength=5), "s now has the maxLength 5", False, False),
    (prop("s", maxLength=0), "s now has the maxLength 0", True, False),
    (prop("open", maxLength=5), "open now has the maxLength 5", True, False),
    (prop("s", pattern="^a"), 's now has the pattern "^a"', True, False),
    (prop("s", enum=["a"]), 's no longer takes "b"', True, False),
    (prop("s", enum=["a", "b", "c"]), 's also takes "c"', False, True),
    (prop("s", enum=...), 's takes more than "a", "b" now', False, True),
    (prop("s", const="a", enum=...), 's no longer takes "b"', True, False),
    (prop("open", enum=["a"], type="string"), "open is now string (before: of any type)", True, False),
    (prop("s", description="Other."), "s has another description", False, False),
    (prop("s", default="a"), 's has the default "a" (before: none)', False, False),
    (prop("s", deprecated=True), "s is deprecated", False, False),
    (prop("list", uniqueItems=True), "list now has the uniqueItems true", True, False),
    (prop("list", minItems=0), "", False, False),
    (changed((), additionalProperties=False), "no longer takes other properties", True, False),
    (changed((), additionalProperties={"type": "string"}), "{} is now string (before: of any type)", True, False),
    (changed(ITEM, x={"type": "integer"}), "list.[].x is now integer (before: string)", True, True),
    (changed(ITEM, y={}), "list.[].y is new", False, False),
    (prop("open", anyOf=[{"type": "string"}, {"type": "integer"}]), "open must now be one of several forms", True, False),
    (prop("open", allOf=[{"minimum": 1}]), "open now has the minimum 1", True, False),
    (prop("open", **{"not": {"type": "null"}}), "open now has the `not`", True, False),
    (prop("open", **{"if": {}, "then": {"minimum": 1}}), "open now has the `if`", True, False),
    (prop("open", **{"if": {}, "x-note": 1}), "open has another x-note", False, False),
    (changed(("properties",), open=False), "open is now nothing (before: of any type)", True, False),
]  # fmt: skip


@pytest.mark.parametrize(("new", "text", "writer", "reader"), SCHEMAS, ids=[case[1] for case in SCHEMAS])
def test_a_change_of_a_schema_is_said_and_judged_for_both_sides(
    new: dict[str, Any], text: str, writer: bool, reader: bool
) -> None:
    found = schema_changes(OLD, new)
    said = [f"{'.'.join(one.path)} {one.text}".strip() for one in found]
    assert text in (said or [""])
    assert any(one.breaks_writer for one in found) is writer
    assert any(one.breaks_reader for one in found) is reader


def test_equal_schemas_have_no_changes_however_they_recurse() -> None:
    assert schema_changes(OLD, changed(())) == []


BRANCHES = [
    ([{"type": "string"}, {"type": "integer"}], [{"type": "integer"}, {"type": "string"}], []),
    ([{"type": "string"}, {"type": "integer"}], [{"type": "string"}], ["no longer takes 1 of its 2 forms"]),
    ([{"type": "string"}], [{"type": "string"}, {"type": "null"}], ["takes 1 more forms"]),
    ([{"type": "string"}, {"type": "integer", "minimum": 1}], [{"type": "string"}, {"type": "integer", "minimum": 2}],
     ["has the minimum 2 (before: 1)"]),
    ([{"const": 1}, {"const": 2}], [{"const": 3}, {"const": 4}], ["no longer takes 2 of its 2 forms", "takes 2 more forms"]),
]  # fmt: skip


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
@pytest.mark.parametrize(("old", "new", "said"), BRANCHES)
def test_forms_are_compared_as_a_set(keyword: str, old: list[Any], new: list[Any], said: list[str]) -> None:
    assert [one.text for one in schema_changes({keyword: old}, {keyword: new})] == said


def test_a_form_behind_a_reference_is_compared_too() -> None:
    branch = {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}
    (change,) = schema_changes(
        {**branch, "$defs": {"A": {"type": "string"}}}, {**branch, "$defs": {"A": {"type": "integer"}}}
    )
    assert change.text == "is now integer (before: string)"


def test_a_schema_that_is_very_deep_ends() -> None:
    old: dict[str, Any] = {"type": "string"}
    new: dict[str, Any] = {"type": "integer"}
    for _ in range(190):
        old, new = {"items": old}, {"items": new}
    assert ["depth" in one.text for one in schema_changes(old, new)] == [True]
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
    assert schema_changes(loop, loop) == []


TOOLS = [
    (tool(effect=Effect.WRITE), [("breaking", "effect")]),
    (tool(idempotent=False), [("breaking", "idempotent")]),
    (tool(title="Fetch"), [("compatible", "title")]),
    (tool(description="Other."), [("compatible", "description")]),
    (tool(input_schema={**TOOL.input_schema, "required": []}), [("compatible", "input.required")]),
    (tool(input_schema={"type": "object"}),
     [("breaking", "input.removed")]),
    (tool(output_schema={"type": "object"}), [("breaking", "output.removed")]),
    (tool(output_schema=None), [("breaking", "output.removed")]),
    (tool(binding=http(servers=("https://evil.example",))), [("breaking", "server")]),
    (tool(binding=http(servers=(*http().servers, "https://two.example"))), [("compatible", "server")]),
    (tool(binding=http(method="POST")), [("breaking", "binding")]),
    (tool(binding=http(path="/admin")), [("breaking", "binding")]),
    (tool(binding=http(path="/example.com/pets", servers=("https://api",))), [("breaking", "server"), ("breaking", "binding")]),
    (tool(binding=http(path="/api/pets")), [("breaking", "binding")]),
    (tool(binding=http(body=HttpBody(media_type="application/json"))), [("compatible", "binding")]),
    (tool(binding=http(security=())), [("compatible", "security")]),
    (tool(binding=http(security=(("key",), ("oauth",)))), [("compatible", "security")]),
    (tool(binding=http(security=((),))), [("compatible", "security")]),
    (tool(binding=http(security=(("oauth",),))), [("breaking", "security")]),
    (tool(binding=http(security=(("key", "oauth"),))), [("breaking", "security")]),
    (tool(binding=SQL), [("breaking", "binding")]),
    (tool(origin="#/paths/~1v2~1pets/get"), [("compatible", "origin")]),
]  # fmt: skip


@pytest.mark.parametrize(("new", "expected"), TOOLS)
def test_a_change_of_a_tool_is_judged(new: Tool, expected: list[tuple[str, str]]) -> None:
    assert changes(TOOL, new) == expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (msgspec.structs.replace(GRAPHQL, endpoint="https://evil.example"), ("breaking", "server")),
        (msgspec.structs.replace(GRAPHQL, field="pets"), ("breaking", "binding")),
        (msgspec.structs.replace(GRAPHQL, type="mutation"), ("breaking", "binding")),
        (msgspec.structs.replace(GRAPHQL, operation="{pet{name}}"), ("compatible", "binding")),
    ],
)
def test_a_graphql_binding_is_judged(new: GraphQLBinding, expected: tuple[str, str]) -> None:
    assert changes(tool(binding=GRAPHQL), tool(binding=new)) == [expected]


def test_security_that_was_not_needed_breaks() -> None:
    assert changes(tool(binding=http(security=())), TOOL) == [("breaking", "security")]
    assert changes(tool(binding=http(security=((),))), tool(binding=http(security=()))) == [("compatible", "security")]


def test_an_effect_that_was_lowered_does_not_break() -> None:
    assert changes(tool(effect=Effect.DESTRUCTIVE), TOOL) == [("compatible", "effect")]


def test_a_tool_of_the_same_origin_was_renamed() -> None:
    difference = compare(manifest(TOOL), manifest(tool(name="pets__find_pet", title="Find")))
    renamed, title = words(difference)
    assert line_names(renamed, "breaking pets__find_pet: ", "pets__get_pet")
    assert line_names(title, "compatible pets__find_pet: ", "title", "“Find”", "“Get a pet”")
    (one,) = difference.tools
    assert (one.status, one.before) == ("renamed", "pets__get_pet")


def test_names_that_changed_places_break_although_both_are_still_there() -> None:
    other = tool(name="pets__list_pets", origin="#/paths/~1all/get")
    swapped = [tool(name=other.name), tool(name=TOOL.name, origin=other.origin)]
    difference = compare(manifest(TOOL, other), manifest(*swapped))
    assert [(one.name, change.level, change.code) for one in difference.tools for change in one.changes] == [
        ("pets__get_pet", "breaking", "origin"),
        ("pets__list_pets", "breaking", "origin"),
    ]


def test_tools_that_came_and_went_are_said_and_why() -> None:
    problem = Problem(level="error", source="pets", origin=TOOL.origin, code="x", message="its schema is broken")
    new = manifest(tool(name="pets__new", origin="#/n", effect=Effect.WRITE), problems=(problem,))
    gone, added = words(compare(manifest(TOOL), new))
    assert line_names(gone, "breaking pets__get_pet: was removed: ", problem.message)
    assert added == "compatible pets__new: is new (write)"
    elsewhere = manifest(shop=INFO)
    assert line_names(words(compare(manifest(TOOL), elsewhere))[-1], "was removed", "source pets")


SOURCES = [
    (msgspec.structs.replace(INFO, version="2"), BindingChange(
        level="compatible", code="version", message="its version is now “2” (before: “1”)")),
    (msgspec.structs.replace(INFO, kind="graphql"), BindingChange(
        level="breaking", code="kind", message="is now graphql (before: openapi)")),
    (msgspec.structs.replace(INFO, security_schemes={}), BindingChange(
        level="breaking", code="security", message="the security scheme key was removed")),
    (msgspec.structs.replace(INFO, security_schemes={"key": SecurityScheme(type="apiKey", in_="query", name="k")}), BindingChange(
        level="breaking", code="security",
        message="the security scheme key is now type “apiKey”, in “query”, name “k” (before: type “apiKey”, in “header”, name “X-Key”)")),
    (msgspec.structs.replace(INFO, security_schemes={**INFO.security_schemes, "b": SecurityScheme(type="http")}), BindingChange(
        level="compatible", code="security", message="has the new security scheme b")),
]  # fmt: skip


@pytest.mark.parametrize(("new", "change"), SOURCES)
def test_a_change_of_a_source_is_judged(new: SourceInfo, change: BindingChange) -> None:
    assert compare(manifest(pets=INFO), manifest(pets=new)).sources == {"pets": (change,)}


def test_a_database_lists_what_its_tables_lost_and_gained() -> None:
    def database(*tables: Table) -> Manifest:
        return manifest(
            shop=SourceInfo(
                kind="sql", digest="", title="", version="", database=Database(dialect="sqlite", tables=tables)
            )
        )

    columns = (Column(name="id", type="INTEGER"), Column(name="name", type="TEXT"))
    old = database(Table(name="a", columns=columns), Table(name="gone", columns=()))
    new = database(
        Table(name="a", columns=(Column(name="id", type="TEXT"), Column(name="more", type=""))),
        Table(name="fresh", columns=()),
    )
    assert all(
        one.startswith(("breaking source shop: ", "compatible source shop: ")) for one in words(compare(old, new))
    )
    assert [re.split(r" source shop: | is | was ", one)[:3] for one in words(compare(old, new))] == [
        ["breaking", "column a.id", "now TEXT (before: INTEGER)"],
        ["breaking", "column a.name", "removed"],
        ["breaking", "table gone", "removed"],
        ["compatible", "column a.more", "new"],
        ["compatible", "table fresh", "new"],
    ]


def test_a_manifest_equals_itself() -> None:
    difference = compare(small_manifest(), small_manifest())
    assert (difference.breaking, difference.compatible, list(lines(difference))) == (0, 0, [])


def test_the_json_form_counts_and_lists() -> None:
    difference = compare(manifest(TOOL), manifest(tool(effect=Effect.WRITE, title="T")))
    form = json.loads(json.dumps(difference.to_dict()))
    assert (form["breaking"], form["compatible"], form["sources"]) == (1, 1, {})
    effect, title = [change["message"] for change in form["tools"][0]["changes"]]
    assert line_names(effect, "effect", "read to write")
    assert line_names(title, "title", "“T”", "“Get a pet”")
    assert form["tools"] == [
        {
            "name": "pets__get_pet",
            "status": "changed",
            "changes": [
                {"level": "breaking", "code": "effect", "message": effect},
                {"level": "compatible", "code": "title", "message": title},
            ],
        }
    ]


def test_texts_of_others_cannot_write_to_the_terminal() -> None:
    evil = tool(description="\x1b[2Jgone\nnow", input_schema={"properties": {"\x1b[2J": {}}})
    said = "\n".join(lines(compare(manifest(TOOL), manifest(evil))))
    assert "\x1b" not in said
    assert "“\\u{1b}[2Jgone now”" in said


WIRE = [
    ({"in_": "header", "name": "X-Id", "style": "simple", "explode": False},
     ["breaking: argument `id` is now the header X-Id (before: the query id), and its meaning there is unknown"]),
    ({"content_type": "application/json"},
     ["compatible: argument `id` is now sent as query id, application/json, exploded (before: query id, form, exploded)"]),
    ({"nested": ("csv",)},
     ["compatible: argument `id` is now sent as query id, form, exploded, lists within it csv (before: query id, form, exploded)"]),
    ({"required": False}, ["compatible: argument `id` need no longer be sent"]),
]  # fmt: skip


def said(old: HttpBinding, new: HttpBinding) -> list[str]:
    difference = compare(manifest(tool(binding=old)), manifest(tool(binding=new)))
    return [f"{change.level}: {change.message}" for one in difference.tools for change in one.changes]


@pytest.mark.parametrize(("change", "words"), WIRE)
def test_a_parameter_that_moved_on_the_wire_is_said(change: dict[str, Any], words: list[str]) -> None:
    assert said(http(), http(parameters=(msgspec.structs.replace(http().parameters[0], **change),))) == words


def test_arguments_that_changed_places_break() -> None:
    one, other = (
        msgspec.structs.replace(http().parameters[0], argument=argument, name=name)
        for argument, name in (("a", "x"), ("b", "y"))
    )
    swapped = (msgspec.structs.replace(one, name="y"), msgspec.structs.replace(other, name="x"))
    assert [line[:8] for line in said(http(parameters=(one, other)), http(parameters=swapped))] == ["breaking"] * 2
    (moved,) = said(http(parameters=(one, other)), http(parameters=(other, one)))
    assert line_names(moved, "compatible: ", "order")
    (lost,) = said(http(parameters=(one, other)), http(parameters=(one,)))
    assert line_names(lost, "breaking: ", "`b`", "no longer")


def test_a_path_is_told_by_the_arguments_that_fill_it() -> None:
    def at(path: str, server: str = "https://api.example.com", **named: str) -> HttpBinding:
        parameters = tuple(
            HttpParameter(argument=argument, in_="path", name=name, style="simple", explode=False, required=True)
            for argument, name in named.items()
        )
        return http(path=path, servers=(server,), parameters=parameters)

    old = at("/a/{x}/{y}", p="x", q="y")
    assert said(old, at("/a/{one}/{two}", p="one", q="two"))[0].startswith("compatible")
    assert said(old, at("/a/{y}/{x}", p="x", q="y"))[0].startswith("breaking")
    moved = said(old, at("/{x}/{y}", "https://api.example.com/a/", p="x", q="y"))
    assert [line.partition(":")[0] for line in moved] == ["compatible", "compatible"]


JSON_BODY = HttpBody(media_type="application/json", properties={"a": "a"})
BODIES = [
    (None, JSON_BODY,
     ["compatible: argument `a` is sent now, as the body's property a", "compatible: now sends a body of application/json"]),
    (JSON_BODY, None, ["breaking: argument `a` is no longer sent", "breaking: no longer sends a body"]),
    (JSON_BODY, msgspec.structs.replace(JSON_BODY, media_type="text/plain"),
     ["compatible: its body is now text/plain (before: application/json)"]),
    (JSON_BODY, HttpBody(media_type="application/json", argument="a"),
     ["breaking: argument `a` is now the body (before: the body's property a), and its meaning there is unknown",
      "breaking: its body is now the argument `a` (before: made of several arguments)"]),
    (JSON_BODY, msgspec.structs.replace(JSON_BODY, properties={"a": "b"}),
     ["breaking: argument `a` is now the body's property b (before: the body's property a), "
      "and its meaning there is unknown"]),
    (JSON_BODY, msgspec.structs.replace(JSON_BODY, required=True), ["breaking: must have a body now"]),
    (msgspec.structs.replace(JSON_BODY, required=True), JSON_BODY, ["compatible: may go without a body now"]),
    (JSON_BODY, msgspec.structs.replace(JSON_BODY, others=HttpPart()),
     ["compatible: properties of its body that nobody named are written differently"]),
    (JSON_BODY, msgspec.structs.replace(JSON_BODY, parts={"a": HttpPart()}),
     ["compatible: parts of its body are written differently: a"]),
    (msgspec.structs.replace(JSON_BODY, parts={"a": HttpPart()}),
     msgspec.structs.replace(JSON_BODY, parts={"a": HttpPart(content_type="text/plain"), "c": HttpPart()}),
     ["compatible: parts of its body are written differently: a, c"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), BODIES)
def test_a_body_that_is_sent_otherwise_is_said(old: HttpBody | None, new: HttpBody | None, words: list[str]) -> None:
    assert said(http(body=old), http(body=new)) == words


SCOPES = [
    ([{"o": ["r"]}], [{"o": ["r", "w"]}], "breaking: its credentials are now: o (r, w) (before: o (r))"),
    ([{"o": ["r", "w"]}], [{"o": ["r"]}], "compatible: its credentials are now: o (r) (before: o (r, w))"),
    ([{"o": ["r"]}], [{"o": ["w"]}, {"o": ["r"]}], "compatible: its credentials are now: o (w) or o (r) (before: o (r))"),
    ([{"o": ["w"]}, {"o": ["r"]}], [{"o": ["r"]}], "breaking: its credentials are now: o (r) (before: o (w) or o (r))"),
    (None, [{"o": ["r"]}], "breaking: its credentials are now: o (r) (before: o)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), SCOPES)
def test_a_scope_that_was_not_needed_breaks(old: Any, new: Any, words: str) -> None:
    def needing(options: Any) -> HttpBinding:
        return http(security=(("o",),), scopes=msgspec.UNSET if options is None else tuple(options))

    assert said(needing(old), needing(new)) == [words]


OPERATIONS = [
    ("query p($id: ID!) { pet(id: $id) { name } }", "query p($id: ID) { pet(id: $id) { name age } }", "compatible"),
    ("query p($id: ID!) { pet(id: $id) { name } }", "query p($id: ID!) { pet(other: $id) { name } }", "breaking"),
    ("{ orders(status: OPEN, in: {a: [1, 2]}) { id } }", "{ orders(status: ALL, in: {a: [1, 2]}) { id } }", "breaking"),
    ("{ orders(status: OPEN) { id } }", "{ orders(status: OPEN, first: 5) { id } }", "compatible"),
    ("{ orders { lines(first: 5) { id } } }", "{ orders { lines { id } } }", "breaking"),
    ("query p($n: Int = 5) { pet(n: $n) { name } }", "query p($n: Int = 6) { pet(n: $n) { name } }", "breaking"),
    ('{ pet(q: "a # ) {") { name } }', '{ pet(q: "a # ) }") { name } }', "breaking"),
    ("{ pet @include(if: true) { name } }", "{ pet { name } }", "breaking"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "level"), OPERATIONS)
def test_what_a_graphql_operation_asks_for_must_stay(old: str, new: str, level: str) -> None:
    def running(operation: str) -> Tool:
        return tool(binding=msgspec.structs.replace(GRAPHQL, operation=operation))

    assert changes(running(old), running(new)) == [(level, "binding")]


def test_a_graphql_argument_fills_the_variable_it_filled() -> None:
    old = msgspec.structs.replace(GRAPHQL, variables={"a": "x", "b": "y"})
    swapped = msgspec.structs.replace(GRAPHQL, variables={"a": "y", "b": "x"})
    assert changes(tool(binding=old), tool(binding=swapped)) == [("breaking", "binding")] * 2
    assert ("breaking", "binding") in changes(tool(binding=old), tool(binding=GRAPHQL))


def test_tables_of_one_name_in_two_schemas_are_two() -> None:
    def database(kind: str, functions: tuple[str, ...], **table: Any) -> Manifest:
        tables = (
            Table(name="t", schema="a", columns=(Column(name="id", type=kind),), **table),
            Table(name="t", schema="b", columns=(Column(name="id", type="INT", nullable=not table),)),
        )
        info = SourceInfo(
            kind="sql",
            digest="",
            title="",
            version="",
            database=Database(dialect="x", tables=tables, functions=functions),
        )
        return manifest(shop=info)

    found = words(compare(database("INT", ("old",)), database("TEXT", ("lower",), primary_key=("id",))))
    expected = [
        ("breaking", "function lower"),
        ("breaking", "column a.t.id", "TEXT (before: INT)"),
        ("compatible", "no longer", "function old"),
        ("compatible", "table a.t ", "primary key"),
        ("compatible", "column b.t.id ", "no longer", "null"),
    ]
    assert all(line_names(one, *named) for one, named in zip(found, expected, strict=True)), found


def test_a_tool_with_another_digest_always_has_a_change() -> None:
    respelled = {**TOOL.input_schema, "allOf": [{"required": ["id"]}], "$defs": {"Unused": {}}}
    (one,) = compare(manifest(TOOL), manifest(tool(input_schema=respelled))).tools
    assert [(change.level, "same meaning" in change.message) for change in one.changes] == [("compatible", True)]


@pytest.mark.parametrize("struct", [HttpBinding, HttpParameter, HttpBody, HttpPart, GraphQLBinding, SqlBinding])
def test_no_part_of_a_binding_changes_unsaid(struct: type[msgspec.Struct]) -> None:
    """A field that is added to a binding is compared from then on: at the least, it is called breaking."""
    parameter = http().parameters[0]
    full = http(parameters=(parameter,), body=msgspec.structs.replace(JSON_BODY, parts={"a": HttpPart()}))

    def with_(part: Any) -> Any:
        match part:
            case HttpParameter():
                return msgspec.structs.replace(full, parameters=(part,))
            case HttpPart():
                return msgspec.structs.replace(full, body=msgspec.structs.replace(full.body, parts={"a": part}))
            case HttpBody():
                return msgspec.structs.replace(full, body=part)
            case _:
                return part

    assert full.body is not None
    parts: list[Any] = [full, parameter, full.body, full.body.parts["a"], GRAPHQL, SQL]
    (one,) = [part for part in parts if type(part) is struct]
    for name in struct.__struct_fields__:
        other = msgspec.structs.replace(one, **{name: _another(name, getattr(one, name))})
        assert changes(tool(binding=with_(one)), tool(binding=with_(other))) != [], name


def _another(name: str, value: Any) -> Any:
    match value:
        case bool():
            return not value
        case str():
            return f"{value}x"
        case dict():
            return {**value, "more": "x"} if all(isinstance(one, str) for one in value.values()) else {}
        case tuple():
            return value[1:] if value else ("x",)
        case HttpBody():
            return None
        case _:
            return {"others": HttpPart(), "scopes": ({"o": ("r",)},)}.get(name, "x")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"tenant": "principal.attributes.tenant"}, {"tenant": "principal.id"}),
        ({"tenant": "principal.attributes.tenant"}, {}),
        ({}, {"tenant": "principal.id"}),
    ],
)
def test_what_the_gateway_sets_by_itself_is_told_also_where_the_operation_changed(
    before: dict[str, str], after: dict[str, str]
) -> None:
    old = tool(binding=msgspec.structs.replace(GRAPHQL, bound=before))
    new = tool(binding=msgspec.structs.replace(GRAPHQL, bound=after, operation="{pet{id}}"))
    [report] = compare(manifest(old), manifest(new)).tools
    assert any("$tenant" in one.message for one in report.changes if one.level == "breaking")
