"""Calls that are one to a service are one to the policy: equal bytes, or equal values as independent readers take them, one verdict.

TOOLGEN_READINGS=100000 python -m pytest tests/policy/test_readings.py tries so many drawn tools and policies, and a quarter as many
with each independent reader, instead of some hundred.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from graphql import GraphQLSchema, build_schema, execute_sync
from graphql import parse as parse_graphql
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.exhaustive import size
from toolgen.connectors.graphql.inputs import Inputs, Wording
from toolgen.connectors.http.parameter_styles import scalar
from toolgen.connectors.http.request_builder import UnbindableError, bind
from toolgen.connectors.openapi.proof.judge import RequestJudge
from toolgen.connectors.openapi.proof.received import receive
from toolgen.connectors.openapi.proof.spec_operation import SpecOperation
from toolgen.model.call import Principal
from toolgen.model.tool import (
    Effect,
    GraphQLBinding,
    HttpBinding,
    HttpBody,
    HttpParameter,
    HttpPart,
    NoBinding,
    SqlBinding,
    Tool,
    seal,
)
from toolgen.model.verdict import Allow, Deny
from toolgen.policy.access import NOWHERE, Access
from toolgen.policy.arguments import Validator, repair
from toolgen.policy.cel.expression import Expression, compile_expression
from toolgen.policy.cel.names import CelScope
from toolgen.policy.explain import explain, readings_shown
from toolgen.policy.readings.call import amounts, readings_of
from toolgen.policy.readings.values import text_of
from toolgen.policy.rules import Rule

CASES = size("TOOLGEN_READINGS", 200, 20_000)
BOT = Principal(id="bot", roles=frozenset({"bot"}))
SERVER = "http://127.0.0.1:9"
SCALARS: tuple[dict[str, Any], ...] = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": ["integer", "string"]},
    {"type": ["number", "null"]},
    {"type": ["boolean", "string"]},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"anyOf": [{"type": "integer", "minimum": 5}, {"enum": ["all", "7"]}]},
    {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    {"oneOf": [{"type": "string", "maxLength": 2}, {"type": "number"}]},
    {"$ref": "#/$defs/Either"},
    {},
)
COMPOUND: tuple[dict[str, Any], ...] = (
    {"type": "array"},
    {"type": "object"},
    {"type": ["object", "array"]},
    {"type": ["object", "string"]},
    {"type": "object", "additionalProperties": {"type": "string"}},
    {"type": "object", "properties": {"a": {"type": "integer"}, "x": {"type": ["integer", "string"]}}},
)
DEFINITIONS = {"Either": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]}}
STYLES: dict[str, tuple[tuple[str, bool], ...]] = {
    "query": (
        ("form", True),
        ("form", False),
        ("spaceDelimited", False),
        ("pipeDelimited", False),
        ("pipeDelimited", True),
        ("deepObject", True),
    ),
    "path": (
        ("simple", False),
        ("simple", True),
        ("label", False),
        ("label", True),
        ("matrix", False),
        ("matrix", True),
    ),
    "header": (("simple", False), ("simple", True)),
    "cookie": (("form", True), ("form", False)),
}
LEAVES: tuple[Any, ...] = (
    7, 8, 101, 0, 7.0, 7.5, 1e-7, "7", "7.0", " 7", "07", "a", "all", "", "7,8", "7|8", "x,7", True, False, "true", None, "null", "[7]",
    '{"a":7}',
)  # fmt: skip


def drawn_schema(chance: random.Random) -> dict[str, Any]:
    kind = chance.randrange(4)
    if kind == 0:
        return {"type": "array", "items": chance.choice(SCALARS)}
    return chance.choice(COMPOUND if kind == 1 else SCALARS)


def spellings(chance: random.Random, name: str, value: Any) -> Iterator[Any]:
    """The value, and others that may be written as it is: some are, some are not, and some are not even valid."""
    yield value
    yield [value]
    yield {name: value}
    yield {"a": value}
    yield {"0": value}
    yield {"": value}
    if isinstance(value, (dict, list)):
        texts = [*value] if isinstance(value, list) else [part for pair in value.items() for part in pair]
        for divider in (",", "|", " ", "."):
            yield divider.join(one if isinstance(one, str) else json.dumps(one) for one in texts)
        yield json.dumps(value, separators=(",", ":"))
        yield [one if isinstance(one, (str, list, dict)) else json.dumps(one) for one in texts]
        yield {str(index): one for index, one in enumerate(texts)}
        yield None
        if len(value) == 1:
            yield next(iter(value.values() if isinstance(value, dict) else value))
    elif isinstance(value, str):
        yield value.split(",")
        yield value.split("|")
        try:
            yield json.loads(value)
        except ValueError:
            yield chance.choice(LEAVES)
    else:
        yield json.dumps(value)
        yield [json.dumps(value)]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield float(value)


def drawn_value(chance: random.Random, name: str) -> Any:
    kind = chance.randrange(6)
    if kind == 0:
        return [chance.choice(LEAVES) for _ in range(chance.randrange(4))]
    if kind == 1:
        return {key: chance.choice(LEAVES) for key in chance.sample(["a", "x", name, "0", "1"], chance.randrange(3))}
    if kind == 2:
        return {"a": [chance.choice(LEAVES), {"x": chance.choice(LEAVES)}]}
    return chance.choice(LEAVES)


@cache
def condition(source: str) -> Expression:
    known = tool({"n": {}, "m": {}}, NoBinding())
    return compile_expression(source, CelScope(tools={known.name: known}, catalog={}), where="test", wants="bool")


def drawn_rule(chance: random.Random, number: int, names: list[str], values: list[Any]) -> Rule:
    name = chance.choice(names)
    value = chance.choice([one for one in (*values, *LEAVES) if one is not None])
    schemas: tuple[dict[str, Any], ...] = (
        {"const": value},
        {"enum": [value, "all"]},
        {"type": chance.choice(["string", "integer", "number", "array", "object", "boolean"])},
        {"maximum": chance.choice([7, 8, 100])},
        {"exclusiveMinimum": 7},
        {"type": "integer", "minimum": 8},
        {"pattern": "^[0-9]+$"},
        {"maxLength": 1},
        {"maxItems": 1},
        {"contains": {"const": value}},
        {"items": {"maximum": 7}},
        {"properties": {"a": {"const": value}}, "required": ["a"]},
        {"not": {"const": value}},
    )
    narrowing: dict[str, Any] = {"properties": {name: chance.choice(schemas)}}
    if chance.random() < 0.5:
        narrowing["required"] = [name]
    if chance.random() < 0.1:
        narrowing = {"not": narrowing}
    conditions = (
        f"args.{name} == 7",
        f"args.{name} == '7'",
        f"args.{name} != '7'",
        f"args.{name} <= 100",
        f"has(args.{name})",
        f"!has(args.{name})",
        f"size(args.{name}) > 1",
        f"string(args.{name}) == '7'",
        f"int(args.{name}) > 7",
        f"'7' in args.{name}",
        f"args.{name}.exists(one, one == 7)",
        f"args.{name}.a == '7'",
        "size(args) == 1",
    )
    when = None
    if chance.random() < 0.5:
        when = condition(chance.choice(conditions))
    return Rule(
        id=f"r{number}",
        roles=frozenset({"bot"}),
        tools=("*",),
        effects=frozenset(Effect),
        names_destructive=False,
        arguments=narrowing if when is None or chance.random() < 0.3 else None,
        verdict=chance.choice(["allow", "deny", "ask"]),
        where="test",
        when=when,
    )


def drawn_rules(chance: random.Random, names: list[str], values: list[Any]) -> list[Rule]:
    rules = [drawn_rule(chance, number, names, values) for number in range(chance.randrange(1, 4))]
    if chance.random() < 0.5 or all(rule.verdict == "deny" for rule in rules):
        everything = Rule(
            id="z", roles=frozenset({"bot"}), tools=("*",), effects=frozenset(Effect), names_destructive=False,
            arguments=None, verdict="allow", where="test",
        )  # fmt: skip
        rules.append(everything)
    return rules


def http_tool(chance: random.Random) -> Tool:
    """One tool with two drawn parameters, or a form of two drawn fields."""
    properties = {"n": drawn_schema(chance), "m": drawn_schema(chance)}
    parameters: list[HttpParameter] = []
    body = None
    path = "/p"
    if chance.random() < 0.25:
        media_type = chance.choice(["application/x-www-form-urlencoded", "multipart/form-data"])
        explode = chance.choice([None, True, False])
        parts = {"n": HttpPart(explode=explode)} if explode is not None else {}
        body = HttpBody(media_type=media_type, properties={"n": "n", "m": "m"}, parts=parts)
    else:
        for name in properties:
            place = chance.choice([*STYLES])
            style, explode = chance.choice(STYLES[place])
            parameters.append(
                HttpParameter(
                    argument=name, in_=place, name=name, style=style, explode=explode, required=place == "path"
                )
            )
            path += f"/{{{name}}}" if place == "path" else ""
    binding = HttpBinding(
        method="GET", path=path, servers=(SERVER,), parameters=tuple(parameters), body=body, security=()
    )
    return tool(properties, binding)


def tool(properties: Mapping[str, Any], binding: Any, **schema: Any) -> Tool:
    return seal(
        Tool(
            name="api__call",
            title="",
            description="",
            input_schema={"type": "object", "properties": dict(properties), "$defs": DEFINITIONS, **schema},
            output_schema=None,
            effect=Effect.READ,
            idempotent=True,
            source="api",
            origin="",
            binding=binding,
        )
    )


def drawn_calls(chance: random.Random, made: Tool) -> tuple[list[dict[str, Any]], list[Any]]:
    """Valid calls of a tool, many of which are written alike, and the values they were made of."""
    values = {name: drawn_value(chance, name) for name in ("n", "m")}
    each = {name: [*spellings(chance, name, value)] for name, value in values.items()}
    pairs = [(one, each["m"][0]) for one in each["n"]] + [(each["n"][0], one) for one in each["m"]]
    calls = [{"n": n, "m": m} for n, m in pairs] + [{"n": n} for n in each["n"]] + [{"m": m} for m in each["m"]] + [{}]
    validator = Validator(made.input_schema)
    repaired = (dict(repair(made.input_schema, one).arguments) for one in calls)
    return [one for one in repaired if validator.accepts(one)], [*values.values()]


def verdicts(access: Access, made: Tool, groups: Mapping[Any, list[dict[str, Any]]]) -> int:
    """Asserts that calls of one group are decided alike; returns how many were compared."""
    compared = 0
    for same in groups.values():
        found = [access.decide(BOT, made, arguments) for arguments in same]
        kinds = {type(verdict) for verdict in found}
        rules = [(one.rule.verdict, one.rule.arguments, one.rule.when and one.rule.when.source) for one in access.rules]
        assert len(kinds) == 1, (made.input_schema["properties"], made.binding, rules, [*zip(same, found, strict=True)])
        compared += len(same) - 1
    return compared


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(4))
def test_calls_that_are_sent_as_the_same_bytes_get_one_verdict(part: int) -> None:
    compared = 0
    for case in range(part, CASES, 4):
        chance = random.Random(f"bytes {case}")
        made = http_tool(chance)
        calls, values = drawn_calls(chance, made)
        access = Access(drawn_rules(chance, ["n", "m"], values), {made.name: made})
        groups: dict[Any, list[dict[str, Any]]] = {}
        for arguments in calls:
            try:
                request = bind(made.binding, arguments)  # type: ignore[arg-type]
            except UnbindableError:
                continue
            groups.setdefault((request.url, request.headers, request.body), []).append(arguments)
        compared += verdicts(access, made, groups)
    assert compared > CASES // 8  # the generator finds calls that are one


def described(made: Tool) -> SpecOperation:
    assert isinstance(made.binding, HttpBinding)
    written = tuple(
        {
            "name": one.name,
            "in": one.in_,
            "style": one.style,
            "explode": one.explode,
            "required": one.required,
            "schema": json.loads(
                json.dumps(made.input_schema["properties"][one.argument]).replace("#/$defs/", "#/components/schemas/")
            ),
        }
        for one in made.binding.parameters
    )
    operation = {"parameters": [*written], "responses": {"200": {"description": "ok"}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "paths": {made.binding.path: {"get": operation}},
        "components": {"schemas": DEFINITIONS},
    }
    return SpecOperation(
        origin="", version="3.1", method="GET", path=made.binding.path, parameters=written, body=None, media={}, document=document,
        operation=operation, item={}, written=written,
    )  # fmt: skip


def divided(value: Any) -> bool:
    """Whether a part of a value holds what divides parts: openapi-core decodes before it divides, servers that keep to RFC 6570 do not,
    so that it is judged as both and may be refused where its parts, sent apart, are not."""
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return any(isinstance(part, str) and any(one in part for one in ",|. =;") for part in parts)


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(4))
def test_calls_that_openapi_core_reads_alike_get_one_verdict(part: int) -> None:
    for case in range(part, CASES // 4, 4):
        chance = random.Random(f"values {case}")
        made = http_tool(chance)
        binding = made.binding
        assert isinstance(binding, HttpBinding)
        if binding.body is not None or any(one.style in {"label", "matrix"} for one in binding.parameters):
            continue  # which openapi-core cannot read
        calls, values = drawn_calls(chance, made)
        judge = RequestJudge(described(made))
        access = Access(drawn_rules(chance, ["n", "m"], values), {made.name: made})
        groups: dict[Any, list[dict[str, Any]]] = {}
        for arguments in calls:
            if any(divided(value) for value in arguments.values()):
                continue
            try:
                request = bind(binding, arguments)
                received = receive(request.url, request.headers, None, server=SERVER, path=binding.path)
            except Exception:
                continue
            judgement = judge.read(received)
            if judgement.broken or judgement.complaints:
                continue
            key = sorted((place, json.dumps(value)) for place, value in judgement.values.items())
            unread = [one.argument for one in binding.parameters if (one.in_, one.name) not in judgement.values]
            sent = (
                request.url if any(name in arguments for name in unread) else ""
            )  # what it did not read decides nothing
            groups.setdefault((str(key), sent), []).append(arguments)
        verdicts(access, made, groups)


TYPES = (
    "ID",
    "ID!",
    "[ID!]",
    "[[ID]]",
    "Int",
    "Float",
    "String",
    "Boolean",
    "Level",
    "Long",
    "Decimal",
    "By",
    "[By]",
    "Open",
)
DEFAULTS = {"ID": "7", "Int": "7", "Float": "7.0", "String": '"7"', "Level": "HIGH", "Long": "7", "By": "{id: 7}"}
VALUES: tuple[Any, ...] = (
    7, 8, 7.0, 8.0, 101, "7", "8", "101", "07", "a", 7.5, True, None, "HIGH", "LOW", ["7"], [7], [7.0, "8"], ["7", 8], [["7"], [7]], {},
    {"id": 7}, {"id": "7"}, {"id": 7.0}, {"id": 8, "n": 1.0}, {"id": "8", "n": 1}, {"level": "HIGH"}, {"level": "HIGH", "id": 7.0},
    {"by": {"id": 7}}, {"by": {"id": "7"}}, {"by": {}}, [{"id": 7}], [{"id": "7", "level": "HIGH"}], [{}],
)  # fmt: skip


def drawn_sdl(chance: random.Random) -> str:
    def member(name: str) -> str:
        type_ = chance.choice(TYPES)
        default = DEFAULTS.get(type_) if chance.random() < 0.5 else None
        return f"{name}: {type_}" + (f" = {default}" if default else "")

    return f"""
    enum Level {{ HIGH LOW }}
    scalar Long
    scalar Decimal
    scalar Open
    input By {{ id: ID level: Level = HIGH n: Float by: By x: {chance.choice(["Long", "ID", "[ID!]", "Open"])} }}
    type Query {{ call({member("n")} {member("m")}): String }}
    """


def taken(schema: GraphQLSchema, document: Any, arguments: dict[str, Any]) -> str | None:
    """What a resolver of graphql-core is given; None where it refuses the call."""
    seen: list[str] = []

    def resolve(*_: Any, **given: Any) -> str:
        seen.append(json.dumps(given, sort_keys=True))
        return ""

    assert schema.query_type is not None
    schema.query_type.fields["call"].resolve = resolve
    result = execute_sync(schema, document, variable_values=arguments)
    return seen[0] if seen and not result.errors else None


@pytest.mark.sweep
@pytest.mark.parametrize("part", range(4))
def test_calls_that_graphql_core_reads_alike_get_one_verdict(part: int) -> None:
    compared = 0
    for case in range(part, CASES // 4, 4):
        chance = random.Random(f"graphql {case}")
        schema = build_schema(drawn_sdl(chance))
        assert schema.query_type is not None
        members = schema.query_type.fields["call"].args
        types = {name: str(one.type) for name, one in members.items()}
        variables = " ".join(f"${name}: {type_}" for name, type_ in types.items())
        text = f"query Q({variables}) {{ call({' '.join(f'{name}: ${name}' for name in types)}) }}"
        binding = GraphQLBinding(
            type="query", field="call", operation=text, operation_name="Q", variables={name: name for name in types}, endpoint=SERVER
        )  # fmt: skip
        schema_of = dict(Inputs(Wording()).arguments(members))
        made = tool(schema_of.pop("properties"), binding, **schema_of)
        validator = Validator(made.input_schema)
        pool = [{}, *({name: value} for name in types for value in VALUES)]
        pool += [{"n": one, "m": other} for one, other in itertools.product(chance.sample(VALUES, 4), repeat=2)]
        repaired = (dict(repair(made.input_schema, one).arguments) for one in pool)
        calls = [one for one in repaired if validator.accepts(one)]
        access = Access(drawn_rules(chance, ["n", "m"], [chance.choice(VALUES)]), {made.name: made})
        groups: dict[Any, list[dict[str, Any]]] = {}
        document = parse_graphql(text)
        for arguments in calls:
            if (given := taken(schema, document, arguments)) is not None:
                groups.setdefault(given, []).append(arguments)
        compared += verdicts(access, made, groups)
    assert compared > CASES // 8


def rule(verdict: str, arguments: dict[str, Any] | None = None, when: str = "") -> Rule:
    return Rule(
        id=verdict, roles=frozenset({"bot"}), tools=("*",), effects=frozenset(Effect), names_destructive=False,
        arguments=arguments, verdict=verdict, where="test", when=condition(when) if when else None,
    )  # fmt: skip


def query_tool(**properties: Any) -> Tool:
    parameters = tuple(
        HttpParameter(argument=name, in_="query", name=name, style="form", explode=True) for name in properties
    )
    binding = HttpBinding(method="GET", path="/p", servers=(SERVER,), parameters=parameters, body=None, security=())
    return tool(properties, binding)


def test_a_call_that_can_mean_more_than_rules_are_asked_about_is_refused_and_says_so() -> None:
    made = query_tool(**{f"a{number}": {} for number in range(4)})
    access = Access([rule("allow", {"maxProperties": 4})], {made.name: made})
    assert access.decide(BOT, made, {"a0": 1, "a1": 1}) == Allow(rule="allow")
    refused = access.decide(BOT, made, {f"a{number}": 1 for number in range(4)})
    assert isinstance(refused, Deny)
    assert "a0, a1, a2, a3" in refused.reason
    # A rule that reads one of them is asked about the readings of that one alone.
    narrow = Access([rule("allow", {"properties": {"a0": {"maximum": 5}}})], {made.name: made})
    assert narrow.decide(BOT, made, {f"a{number}": 1 for number in range(4)}) == Allow(rule="allow")


@pytest.mark.parametrize("value", ["1," * 20_000, ["1"] * 20_000, {str(number): 1 for number in range(20_000)}])
def test_a_value_of_more_parts_than_anybody_reads_is_refused(value: Any) -> None:
    parameter = HttpParameter(argument="n", in_="query", name="n", style="form", explode=False)
    binding = HttpBinding(method="GET", path="/p", servers=(SERVER,), parameters=(parameter,), body=None, security=())
    made = tool({"n": {}}, binding)
    refused = Access([rule("allow")], {made.name: made}).decide(BOT, made, {"n": value})
    assert isinstance(refused, Deny)
    assert refused.rule == "readings"
    plain = tool({"n": {"type": "array", "items": {"type": "string"}}}, binding)
    if isinstance(value, list):
        assert Access([rule("allow")], {plain.name: plain}).decide(BOT, plain, {"n": value}) == Allow(rule="allow")


def test_a_refusal_names_what_the_argument_can_be_read_as() -> None:
    made = query_tool(n={"type": ["integer", "string"]})
    access = Access([rule("allow", {"properties": {"n": {"maximum": 5}}})], {made.name: made})
    refused = access.decide(BOT, made, {"n": "7"})
    assert isinstance(refused, Deny)
    assert "/n: " in refused.reason
    (considered,) = explain(access, BOT, made, {"n": "7"}, NOWHERE)
    assert considered.why.endswith('read as {"n":7}')
    assert readings_shown(made, {"n": "7"}) == {"n": ["7", 7]}
    assert readings_shown(made, {"n": "x"}) == {}


def test_shadow_rules_are_asked_about_every_reading() -> None:
    made = query_tool(n={"type": ["integer", "string"]})
    shadow = replace(rule("deny", {"properties": {"n": {"const": 7}}, "required": ["n"]}), id="told", shadow=True)
    notes = Access([rule("allow"), shadow], {made.name: made}).judge(BOT, made, {"n": "7"}).notes
    assert [(note.rule, note.status) for note in notes] == [("told", "shadow")]


@pytest.mark.parametrize(
    ("schema", "given", "counted"),
    [
        ({"type": "integer"}, {"n": 7}, 7),
        ({"type": ["integer", "string"]}, {"n": "500"}, 500),
        ({}, {"n": ["500"]}, 500),
        ({}, {"n": [1, 2]}, [1, 2]),  # which of the two a service takes is not known, and neither is the sum
        ({"type": ["integer", "string"]}, {"n": "x"}, "x"),
        ({"type": "integer", "default": 9}, {}, 9),
        ({"type": "array"}, {"n": []}, None),
    ],
)
def test_sums_over_earlier_calls_take_the_number_that_an_argument_can_be(
    schema: dict[str, Any], given: dict[str, Any], counted: Any
) -> None:
    assert amounts(readings_of(query_tool(n=schema), given), given).get("n") == counted


def test_what_a_named_query_or_a_function_is_not_given_is_its_default() -> None:
    made = tool({"n": {"type": "integer", "default": 7}}, SqlBinding(dialect="sqlite", operation="named"))
    access = Access([rule("allow", when="args.n == 7")], {made.name: made})
    assert access.decide(BOT, made, {}) == Allow(rule="allow")
    assert isinstance(access.decide(BOT, made, {"n": 8}), Deny)


def test_an_allow_is_not_asked_about_the_default_of_a_request_and_a_deny_is() -> None:
    made = query_tool(n={"type": "integer", "default": 7})
    narrowed = {"properties": {"n": {"const": 7}}, "required": ["n"]}
    assert isinstance(Access([rule("allow", narrowed)], {made.name: made}).decide(BOT, made, {}), Deny)
    assert isinstance(
        Access([rule("allow"), rule("deny", narrowed)], {made.name: made}).decide(BOT, made, {}),
        Deny,
    )


@pytest.mark.parametrize(
    ("given", "made"),
    [
        (7.0, 7),
        (-0.0, 0),
        (7.5, 7.5),
        (2.0**53, 2**53),
        (2.0**60, 2.0**60),
        ([1.0, {"a": 2.0}], [1, {"a": 2}]),
        ("7.0", "7.0"),
        (True, True),
    ],
)
def test_integral_numbers_are_integers_before_anything_judges_them(given: Any, made: Any) -> None:
    found = repair({"type": "object", "properties": {"x": {}}}, {"x": given}).arguments["x"]
    assert (found, repr(found)) == (made, repr(made))


_SENDABLE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(_SENDABLE)
def test_a_value_is_judged_as_the_text_that_is_sent(value: Any) -> None:
    """The two are written apart, as what is judged may hold what cannot be sent, and have to agree on all that can."""
    assert text_of(value) == scalar(value)
