"""Output schemas as they are listed over MCP: whatever an answer is, there is structured content for it that fits and says all of it."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolgen.connectors.proof.examples import Examples
from toolgen.generator.build import build
from toolgen.generator.emit.formats import mcp_tool
from toolgen.generator.emit.listed_output import lenient, listed_output
from toolgen.model.schema import Json
from toolgen.model.tool import Effect, FunctionBinding, NoBinding, OutputForm, Tool

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("abxyz", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
FORMS: tuple[OutputForm, ...] = ("lenient", "strict")


def tool(schema: Any, form: OutputForm, *, function: bool = False) -> Tool:
    binding = FunctionBinding(module="m", function="f", code="") if function else NoBinding()
    return Tool(
        name="test__answer",
        title="",
        description="",
        input_schema={"type": "object"},
        output_schema=schema,
        effect=Effect.READ,
        idempotent=True,
        source="test",
        origin="",
        binding=binding,
        listed_output=form,
    )


def node(chance: random.Random, depth: int) -> tuple[dict[str, Any], Any]:
    """A schema, and a value that fits it."""
    kind = chance.randrange(12 if depth else 6)
    match kind:
        case 0:
            return {"type": "integer", "minimum": 0}, chance.randrange(9)
        case 1:
            return {"type": "string", "minLength": 1}, chance.choice(["a", "abc"])
        case 2:
            values = chance.sample(["a", "b", 1, None], 2)
            return {"enum": values}, chance.choice(values)
        case 3:
            return {"const": "x"}, "x"
        case 4:
            return {"type": ["string", "null"]}, chance.choice(["a", None])
        case 5:
            return {"type": "boolean", "description": "Yes or no."}, chance.random() < 0.5
        case 6:
            schema, value = node(chance, depth - 1)
            return {"type": "array", "items": schema, "minItems": 1}, [value]
        case 7:
            (one, value), (other, _) = node(chance, depth - 1), node(chance, depth - 1)
            return {"anyOf": [one, other]}, value
        case 8:
            schema, value = node(chance, depth - 1)
            return {"type": "object", "additionalProperties": schema}, {"k": value}
        case 9:
            return {"$ref": "#/$defs/Node"}, {"name": "a", "below": [{"name": "b"}]}
        case _:
            return branch(chance, depth - 1)


def branch(chance: random.Random, depth: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same of an object."""
    made = {name: node(chance, depth) for name in chance.sample("abcd", chance.randrange(4))}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: one for name, (one, _) in made.items()},
        "required": chance.sample(sorted(made), chance.randrange(len(made) + 1)),
    }
    for key, value in (
        ("additionalProperties", False),
        ("minProperties", min(1, len(made))),
        ("maxProperties", len(made)),
        ("propertyNames", {"maxLength": 3}),
        ("title", "Thing"),
        ("x-own", 1),
    ):
        if chance.random() < 0.3:
            schema[key] = value
    return schema, {name: value for name, (_, value) in made.items()}


NODE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "below": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    "required": ["name"],
}


def rooted(chance: random.Random, depth: int, *, any_root: bool) -> tuple[dict[str, Any], Any]:
    schema, value = (node if any_root else branch)(chance, depth)
    return {**schema, "$defs": {"Node": NODE}}, value


def spoiled(chance: random.Random, value: Any) -> Any:
    """A value as a description forgets that it may be: with null, without members, with others."""
    match value:
        case dict():
            kept = {name: spoiled(chance, one) for name, one in value.items() if chance.random() < 0.8}
            return kept | ({"zzz": None} if chance.random() < 0.3 else {})
        case list():
            return [spoiled(chance, one) for one in value]
        case _:
            return None if chance.random() < 0.3 else value


@given(st.randoms(use_true_random=False), ANYTHING, st.sampled_from(["", "cut short"]), st.booleans())
def test_every_answer_has_structured_content_that_fits(
    chance: random.Random, data: Json, said: str, any_root: bool
) -> None:
    schema, fitting = rooted(chance, 3, any_root=any_root)
    for form in FORMS:
        output = listed_output(tool(schema, form), any_root=any_root)
        assert output is not None
        Draft202012Validator.check_schema(output.schema)
        assert mcp_tool(tool(schema, form), any_root=any_root)["outputSchema"] == output.schema
        assert any_root or output.schema["type"] == "object"
        for answer in (data, fitting, spoiled(chance, fitting)):
            whole = f"{json.dumps(answer)} {said}"
            structured = output.structured(answer, said, lambda whole=whole: whole)
            Draft202012Validator(output.schema).validate(structured)
            assert isinstance(structured, dict) or any_root
            if isinstance(structured, dict) and output.note in structured:
                assert structured == {output.note: whole} or structured == {**answer, output.note: said}
            else:
                assert (structured, said) == (answer, "")


@given(st.randoms(use_true_random=False), ANYTHING, st.booleans())
def test_strict_takes_what_the_schema_takes_and_lenient_also_what_it_forgot(
    chance: random.Random, data: Json, any_root: bool
) -> None:
    schema, fitting = rooted(chance, 3, any_root=any_root)
    assert Draft202012Validator(schema).is_valid(fitting)
    strict, open_ = (listed_output(tool(schema, form), any_root=any_root) for form in ("strict", "lenient"))
    assert strict is not None
    assert open_ is not None
    for answer in (data, fitting, spoiled(chance, fitting)):
        fits = Draft202012Validator(schema).is_valid(answer)
        assert (strict.structured(answer, "", lambda: "as text") == answer) is fits
        assert not fits or open_.structured(answer, "", lambda: "as text") == answer
    if isinstance(fitting, dict) and not any_root:
        answer = spoiled(chance, fitting)
        assert open_.structured(answer, "", lambda: "as text") == answer


@given(st.randoms(use_true_random=False))
def test_a_lenient_schema_demands_nothing_and_keeps_names_and_types(chance: random.Random) -> None:
    schema, _ = rooted(chance, 3, any_root=False)
    made = lenient(schema)
    written = json.dumps(made)
    for keyword in ("required", "enum", "const", "minimum", "minItems", "maxProperties", "propertyNames"):
        assert f'"{keyword}":' not in written
    assert '"additionalProperties": false' not in written
    assert made["properties"].keys() == schema["properties"].keys()


@pytest.mark.parametrize(
    ("form", "function", "listed"),
    [
        ("", False, False),
        ("", True, True),
        ("none", True, False),
        ("none", False, False),
        ("lenient", False, True),
        ("strict", False, True),
    ],
)
def test_functions_list_their_schema_and_others_where_their_source_says_so(
    form: OutputForm, function: bool, listed: bool
) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    assert (listed_output(tool(schema, form, function=function)) is not None) is listed
    assert listed_output(tool(None, form, function=function)) is None
    assert listed_output(tool({"type": "array"}, form, function=function)) is None
    assert (listed_output(tool({"type": "array"}, form, function=function), any_root=True) is not None) is listed


def test_the_note_has_a_name_that_the_schema_has_not() -> None:
    schema = {"type": "object", "properties": {"gateway_note": {"type": "integer"}}, "additionalProperties": False}
    output = listed_output(tool(schema, "strict"))
    assert output is not None
    assert output.structured({"gateway_note": 1}, "more", lambda: "") == {"gateway_note": 1, "gateway_note_": "more"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "unheard-of"}}},
        {"type": "object", "$ref": "https://example.com/schema.json"},
        {"type": "object", "patternProperties": {"^gateway": {"type": "integer"}}},
    ],
)
def test_a_schema_that_cannot_be_kept_is_not_listed(schema: Any) -> None:
    assert listed_output(tool(schema, "strict")) is None


CORPUS = Path(__file__).parents[3].parent / "shared" / "corpus" / "openapi"
DESCRIPTIONS = sorted(path.name for path in CORPUS.iterdir() if path.is_file()) if CORPUS.is_dir() else []
_MOST_TOOLS = 25


def changed(chance: random.Random, value: Any) -> Any:
    """An answer as the gateway may change it, and as services do: redacted, cut, null, with members that are new, or other at all."""
    if chance.random() < 0.15:
        return chance.choice(["[redacted]", None, [], {}, 7, "text"])
    if isinstance(value, dict):
        kept = {name: changed(chance, one) for name, one in value.items() if chance.random() < 0.85}
        return {**kept, "new": 1} if chance.random() < 0.2 else kept
    if isinstance(value, list):
        return [changed(chance, one) for one in value[: chance.randint(0, len(value))]]
    return value


def held(one: Tool, answers: list[Any]) -> None:
    """Holds what clients get for answers of a tool against what it is listed with over MCP, in both forms and both protocol styles."""
    for form, any_root in itertools.product(FORMS, (True, False)):
        shown = msgspec.structs.replace(one, listed_output=form)
        out = listed_output(shown, any_root=any_root)
        if out is None:
            continue
        schema: Any = out.schema
        assert any_root or schema["type"] == "object"
        listed = jsonschema_rs.validator_for(json.loads(json.dumps(schema)), offline=True)
        for answer, said in itertools.product(answers, ("", "It was cut.")):
            made = out.structured(answer, said, lambda answer=answer: json.dumps(answer))
            assert listed.is_valid(made), (one.name, form, answer)
            told = made.get(out.note, "") if isinstance(made, dict) else ""
            assert told in {"", said, json.dumps(answer)}


@pytest.mark.parametrize(
    "name", DESCRIPTIONS or [pytest.param("", marks=pytest.mark.skip(reason="the corpus is not here"))]
)
def test_what_people_describe_is_a_promise_that_is_kept(name: str) -> None:
    """For tools of a description: the schema that is listed accepts each answer, however it was changed."""
    found = [
        one for one in build({"s": {"openapi": str(CORPUS / name)}}, partial=True).tools.values() if one.output_schema
    ]
    chance = random.Random(name)
    for one in found[:: len(found) // _MOST_TOOLS + 1]:
        examples = [*Examples(one.output_schema or {}, seed=one.name).take(2)]
        held(one, [*examples, None, [], "text", *(changed(chance, one) for one in examples for _ in range(8))])


@pytest.mark.parametrize(
    "name", DESCRIPTIONS or [pytest.param("", marks=pytest.mark.skip(reason="the corpus is not here"))]
)
def test_every_declared_example_of_an_answer_fits_what_is_listed(name: str) -> None:
    document = read_document((CORPUS / name).read_text(encoding="utf-8"))
    chance = random.Random(name)
    for one in build({"s": {"openapi": str(CORPUS / name)}}, partial=True).tools.values():
        if one.output_schema and (examples := declared(document, one.origin)):
            held(one, [*examples, *(changed(chance, example) for example in examples for _ in range(4))])


def read_document(text: str) -> Any:
    return json.loads(text) if text.lstrip().startswith("{") else yaml.safe_load(text)


def declared(document: Any, origin: str) -> list[Any]:
    """The examples that an operation of a description has for its 2xx answers, up to two."""
    operation = resolved(document, {"$ref": origin})
    found: list[Any] = []
    for status, response in (operation.get("responses") or {}).items():
        if not str(status).startswith("2"):
            continue
        answer = resolved(document, response)
        found += (answer.get("examples") or {}).values() if "swagger" in document else ()
        for media in (answer.get("content") or {}).values():
            named = [resolved(document, each) for each in (media.get("examples") or {}).values()]
            found += [media[key] for key in ("example",) if key in media]
            found += [each["value"] for each in named if "value" in each]
    return found[:2]


def resolved(document: Any, value: Any) -> Any:
    """What a reference within a document leads to; {} for one that leads out of it."""
    while isinstance(value, dict) and isinstance(reference := value.get("$ref"), str):
        if not reference.startswith("#/"):
            return {}
        value = document
        for step in reference[2:].split("/"):
            value = value.get(unquote(step).replace("~1", "/").replace("~0", "~"), {})
    return value if isinstance(value, dict) else {}


def test_the_examples_of_a_description_are_found() -> None:
    media = {"example": {"a": 1}, "examples": {"b": {"$ref": "#/components/examples/B"}}}
    operation = {
        "responses": {"200": {"content": {"application/json": media}}, "404": {"content": {"x/y": {"example": 4}}}}
    }
    document = {"paths": {"/a/{b}": {"get": operation}}, "components": {"examples": {"B": {"value": 2}}}}
    assert declared(document, "#/paths/~1a~1%7Bb%7D/get") == [{"a": 1}, 2]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"properties": {"b": {}}}}},
        {"type": "object", "properties": {"a": {"items": {"type": "string"}}}},
        {"type": "object", "properties": {"a": {"additionalProperties": {"type": "integer"}}}},
        {
            "type": "object",
            "oneOf": [{"required": ["a"]}, {"properties": {"b": {"type": "string"}}, "required": ["b"]}],
        },
    ],
)
def test_an_answer_that_the_listed_form_does_not_take_is_given_as_text(schema: Any) -> None:
    """Where a part has no `type`, the listed form names the one that its keywords are about."""
    held(tool(schema, ""), [None, "text", 7, {}, {"a": None}, {"a": "text"}, {"a": 7}, {"a": {"b": 1}}, {"b": "x"}])
