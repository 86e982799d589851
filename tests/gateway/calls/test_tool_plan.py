"""Ordinary arguments are what the general preparation leaves as they are."""

from __future__ import annotations

from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.catalogs import PETS
from tests.exhaustive import size
from toolgen.gateway.calls.tool_plan import BoundValues, OrdinaryArguments
from toolgen.model.call import Principal
from toolgen.model.tool import Effect, HttpBinding, HttpBody, Tool
from toolgen.pipeline.input_validation import Meant, meant, no_json
from toolgen.pipeline.responses.answer_argument import may_have_options
from toolgen.policy.access import Access
from toolgen.policy.binding import Binder, BoundArguments, bind
from toolgen.policy.cel.expression import Expression, compile_expression
from toolgen.policy.cel.names import CelScope
from toolgen.policy.rules import Rule

NAMES = ("id", "limit", "answer", "answer_options", "_answer", "_x", "ünder", "body", "requestBody", "name")
TYPES = ("string", "integer", "number", "boolean", "array", "object", "null", None)
LISTS = (["string", "null"], ["string", "integer"], ["number", "null"], ["array", "string"], ["boolean", "string"])
VALUES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["", "5", "[1]", "id title", "\ud800", '{"name": 1}', "true", " 5 ", "null", "Größe", "x\udc00"])
    | st.lists(st.integers(), max_size=2)
)


@st.composite
def declared(draw: st.DrawFn) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if (kind := draw(st.sampled_from((*TYPES, *LISTS)))) is not None:
        schema["type"] = kind
    if draw(st.integers(0, 5)) == 0:
        schema["contentMediaType"] = "application/graphql"
    if draw(st.integers(0, 5)) == 0:
        schema["minLength"] = 1
    if draw(st.integers(0, 5)) == 0:
        schema["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return schema


@st.composite
def tools(draw: st.DrawFn) -> Tool:
    properties = draw(st.dictionaries(st.sampled_from(NAMES), declared(), max_size=5))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if draw(st.booleans()):
        schema["required"] = [*properties][:1]
    if draw(st.integers(0, 3)) == 0:
        schema["additionalProperties"] = draw(st.booleans())
    tool = PETS.tools["pets__get_pet"]
    assert isinstance(tool.binding, HttpBinding)
    body = draw(
        st.sampled_from(
            [
                None,
                HttpBody(media_type="application/json", argument="body", properties={}),
                HttpBody(media_type="application/json", argument=None, properties={"name": "name", "id": "id"}),
            ]
        )
    )
    renamed = draw(st.sampled_from([None, {"name": "_x"}, {"id": "ünder"}]))
    binding = (
        replace(tool.binding, body=body) if renamed is None else replace(tool.binding, body=body, arguments=renamed)
    )
    return replace(tool, input_schema=schema, binding=binding)


def tool_with(properties: dict[str, Any]) -> Tool:
    """A tool of HTTP with these arguments."""
    return replace(PETS.tools["pets__get_pet"], input_schema={"type": "object", "properties": properties})


@settings(max_examples=size("TOOLGEN_PLANS", 500, 50_000), deadline=None)
@given(tools(), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
def test_ordinary_arguments_are_prepared_by_taking_them_as_they_are(tool: Tool, arguments: dict[str, Any]) -> None:
    if not OrdinaryArguments(tool).includes(arguments):
        return
    event("ordinary")
    assert no_json(arguments) is None
    assert not may_have_options(arguments)
    assert meant(tool, arguments) == Meant(arguments=arguments)


def test_arguments_of_most_calls_are_ordinary() -> None:
    ordinary = OrdinaryArguments(PETS.tools["pets__get_pet"])
    assert ordinary.includes({"petId": 5})
    text = OrdinaryArguments(tool_with({"q": {"type": ["string", "integer"]}, "size": {"type": "number"}}))
    assert all(map(text.includes, ({"q": "Größe"}, {"q": "5"}, {"q": 5, "size": 1.5})))
    for other in ({"q": ""}, {"q": "\ud800"}, {"size": float("inf")}, {"size": "1.5"}):
        assert not text.includes(other)
    for other in ({"petId": "5"}, {"petId": None}, {"petId": 5, "extra": 1}, [], None, {"petId": [5]}):
        assert not ordinary.includes(other)


def compiled(text: str) -> Expression:
    attributes = {"pet": frozenset({"integer"}), "none": frozenset({"string"})}
    return compile_expression(text, CelScope(tools={}, catalog={}, attributes=attributes), where="")


BOUND = ("id", "name", "body", "body.name", "limit", "new", "name.first")


@settings(max_examples=size("TOOLGEN_PLANS", 500, 50_000), deadline=None)
@given(
    tools(),
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5),
    st.dictionaries(st.sampled_from(BOUND), st.sampled_from(["principal.id", "5", "principal.attributes.none"])),
)
def test_bound_arguments_of_a_plan_are_those_of_the_general_preparation(
    tool: Tool, arguments: dict[str, Any], bound: dict[str, str]
) -> None:
    party = Principal(id="ann", roles=frozenset({"user"}))
    binders = [
        Binder(rule=f"rule-{number}", argument=path, expression=compiled(text), party=party)
        for number, (path, text) in enumerate(bound.items())
    ]
    ordinary = OrdinaryArguments(tool, frozenset(path.partition(".")[0] for path in bound))
    alone = bind(binders, tool, {})
    if alone.denied is not None or not ordinary.includes(arguments):
        return
    event("bound" if bound else "nothing bound")
    assert bind(binders, tool, arguments) == BoundArguments(
        arguments={**arguments, **alone.arguments}, names=alone.names
    )


def test_bound_values_are_those_of_the_principal_that_calls() -> None:
    rule = Rule(
        id="own", roles=frozenset({"user"}), tools=("*",), effects=frozenset({Effect.READ}), names_destructive=False,
        arguments=None, verdict="allow", where="", bind={"petId": compiled("principal.attributes.pet")},
    )  # fmt: skip
    tool = PETS.tools["pets__get_pet"]
    values = BoundValues(Access([rule], PETS.tools), tool)
    ann, ben = (
        Principal(id="staff:1", roles=frozenset({"user"}), attributes={"pet": number}) for number in (1, 2)
    )  # two tokens of one user
    assert [values.of(who).arguments for who in (ann, ben, ann)] == [{"petId": 1}, {"petId": 2}, {"petId": 1}]
    assert values.of(Principal(id="staff:1", roles=frozenset({"user"}))).denied is not None
