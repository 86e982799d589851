"""Two manifests compared: what breaks, what does not, and in which words."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.golden.small import small_manifest
from toolgen.emit.diff import Change, Difference, compare, lines
from toolgen.emit.schema_diff import schema_changes
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


def words(difference: Difference) -> list[str]:
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
    (prop("n", minimum=0), "n has the minimum 0 (before: 1)", False, False),
    (prop("n", maximum=9), "n has the maximum 9 (before: 10)", True, False),
    (prop("n", maximum=...), "n has no maximum any more (before: 10)", False, False),
    (prop("n", exclusiveMinimum=1), "n now has the exclusiveMinimum 1", True, False),
    (prop("n", multipleOf=2), "n now has the multipleOf 2", True, False),
    (prop("s", maxLength=5), "s now has the maxLength 5", True, False),
    (prop("s", pattern="^a"), 's now has the pattern "^a"', True, False),
    (prop("s", enum=["a"]), 's no longer takes "b"', True, False),
    (prop("s", enum=["a", "b", "c"]), 's also takes "c"', False, False),
    (prop("s", enum=...), 's takes more than "a", "b" now', False, False),
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
    (prop("open", allOf=[{"minimum": 1}]), "open has more conditions to meet", True, False),
    (prop("open", **{"not": {"type": "null"}}), "open has another `not`", True, True),
    (prop("open", **{"if": {}, "x-note": 1}), "open has another `if`", True, True),
    (changed(("properties",), open=False), "open has another `not`", True, True),
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
    ([{"type": "string"}, {"minimum": 1}], [{"type": "string"}, {"minimum": 2}], ["has the minimum 2 (before: 1)"]),
    ([{"type": "string"}], [], ["may now take any form"]),
    ([{"a": 1}, {"a": 2}], [{"a": 3}, {"a": 4}], ["no longer takes 2 of its 2 forms", "takes 2 more forms"]),
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
    assert [one.text for one in schema_changes(old, new)] == ["changed below the depth that is compared"]
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
    (tool(binding=http(method="POST", path="/v2/pets")), [("compatible", "binding")]),
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
    assert words(difference) == [
        "breaking pets__find_pet: was called pets__get_pet",
        "compatible pets__find_pet: its title is now “Find” (before: “Get a pet”)",
    ]
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
    assert words(compare(manifest(TOOL), new)) == [
        "breaking pets__get_pet: was removed: its schema is broken",
        "compatible pets__new: is new (write)",
    ]
    elsewhere = manifest(shop=INFO)
    assert "was removed, with its source pets" in words(compare(manifest(TOOL), elsewhere))[-1]


SOURCES = [
    (msgspec.structs.replace(INFO, version="2"), Change(
        level="compatible", code="version", message="its version is now “2” (before: “1”)")),
    (msgspec.structs.replace(INFO, kind="graphql"), Change(
        level="breaking", code="kind", message="is now graphql (before: openapi)")),
    (msgspec.structs.replace(INFO, security_schemes={}), Change(
        level="breaking", code="security", message="the security scheme key was removed")),
    (msgspec.structs.replace(INFO, security_schemes={"key": SecurityScheme(type="apiKey", in_="query", name="k")}), Change(
        level="breaking", code="security",
        message="the security scheme key is now type “apiKey”, in “query”, name “k” (before: type “apiKey”, in “header”, name “X-Key”)")),
    (msgspec.structs.replace(INFO, security_schemes={**INFO.security_schemes, "b": SecurityScheme(type="http")}), Change(
        level="compatible", code="security", message="has the new security scheme b")),
]  # fmt: skip


@pytest.mark.parametrize(("new", "change"), SOURCES)
def test_a_change_of_a_source_is_judged(new: SourceInfo, change: Change) -> None:
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
    assert words(compare(old, new)) == [
        "breaking source shop: column a.id is now TEXT (before: INTEGER)",
        "breaking source shop: column a.name was removed",
        "breaking source shop: table gone was removed",
        "compatible source shop: column a.more is new",
        "compatible source shop: table fresh is new",
    ]


def test_a_manifest_equals_itself() -> None:
    difference = compare(small_manifest(), small_manifest())
    assert (difference.breaking, difference.compatible, list(lines(difference))) == (0, 0, [])


def test_the_json_form_counts_and_lists() -> None:
    difference = compare(manifest(TOOL), manifest(tool(effect=Effect.WRITE, title="T")))
    form = json.loads(json.dumps(difference.to_dict()))
    assert (form["breaking"], form["compatible"], form["sources"]) == (1, 1, {})
    assert form["tools"] == [
        {
            "name": "pets__get_pet",
            "status": "changed",
            "changes": [
                {"level": "breaking", "code": "effect", "message": "its effect was raised from read to write"},
                {"level": "compatible", "code": "title", "message": "its title is now “T” (before: “Get a pet”)"},
            ],
        }
    ]


def test_texts_of_others_cannot_write_to_the_terminal() -> None:
    evil = tool(description="\x1b[2Jgone\nnow", input_schema={"properties": {"\x1b[2J": {}}})
    said = "\n".join(lines(compare(manifest(TOOL), manifest(evil))))
    assert "\x1b" not in said
    assert "“�[2Jgone now”" in said


WIRE = [
    ({"in_": "header", "name": "X-Id", "style": "simple", "explode": False},
     ["argument `id` is now sent as header X-Id, simple (before: query id, form, exploded)"]),
    ({"content_type": "application/json"},
     ["argument `id` is now sent as query id, application/json, exploded (before: query id, form, exploded)"]),
    ({"required": False}, []),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), WIRE)
def test_a_parameter_that_moved_on_the_wire_is_said(change: dict[str, Any], said: list[str]) -> None:
    parameters = (msgspec.structs.replace(http().parameters[0], **change),)
    difference = compare(manifest(TOOL), manifest(tool(binding=http(parameters=parameters))))
    assert [change.message for one in difference.tools for change in one.changes] == said


JSON_BODY = HttpBody(media_type="application/json", properties={"a": "a"})
BODIES = [
    (None, JSON_BODY, ["now sends a body of application/json"]),
    (JSON_BODY, None, ["no longer sends a body"]),
    (JSON_BODY, msgspec.structs.replace(JSON_BODY, media_type="text/plain"),
     ["its body is now text/plain (before: application/json)"]),
    (JSON_BODY, HttpBody(media_type="application/json", argument="body"),
     ["its body is now the argument `body` (before: made of several arguments)"]),
    (JSON_BODY, msgspec.structs.replace(JSON_BODY, properties={"a": "b"}),
     ["argument `a` is now the body's property b (before: a)"]),
    (JSON_BODY, msgspec.structs.replace(JSON_BODY, properties={"a": "a", "c": "c"}, required=True), []),
    (msgspec.structs.replace(JSON_BODY, parts={"a": HttpPart()}),
     msgspec.structs.replace(JSON_BODY, parts={"a": HttpPart(content_type="text/plain"), "c": HttpPart()}),
     ["parts of its body are written differently"]),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "said"), BODIES)
def test_a_body_that_is_sent_otherwise_is_said(old: HttpBody | None, new: HttpBody | None, said: list[str]) -> None:
    difference = compare(manifest(tool(binding=http(body=old))), manifest(tool(binding=http(body=new))))
    assert [change.message for one in difference.tools for change in one.changes] == said
    assert difference.breaking == 0
