"""What is taken out of answers, and which arguments are never recorded plainly."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.catalogs import PETS
from toolgen.core import json_path
from toolgen.policy.answer_redaction import WITHHELD, AnswerRedactor, redactor
from toolgen.policy.redact import (
    DEEPER,
    Redaction,
    all_but,
    compile_path,
    places_of,
    replace_at,
    replace_within,
)
from toolgen.policy.sensitive_arguments import conceal, conceal_at, conceal_values, has_secrets

TOOL = PETS.tools["pets__get_pet"]


@pytest.mark.parametrize(
    ("fields", "data", "seen"),
    [
        (["$..email"], {"email": "a@b", "n": 1}, {"email": "***", "n": 1}),
        (["$..email"], [{"user": {"email": "a@b"}}], [{"user": {"email": "***"}}]),
        (["$.a"], {"a": {"email": 1}, "b": {"a": 2}}, {"a": "***", "b": {"a": 2}}),
        (["$.items[*].card"], {"items": [{"card": 1}, {"card": 2}]}, {"items": [{"card": "***"}, {"card": "***"}]}),
        (["$"], {"a": 1}, "***"),
        (["$..email"], None, None),
        (["$..email", "$..name"], {"email": 1, "name": 2}, {"email": "***", "name": "***"}),
        (["$..a"], {"a": {"a": 1}}, {"a": "***"}),
    ],
)
def test_fields_are_replaced_wherever_they_stand(fields: list[str], data: Any, seen: Any) -> None:
    redact = redactor([Redaction(tools=("pets__*",), fields=tuple(fields), replacement="***")], TOOL)
    assert redact is not None
    assert redact(data) == seen


REDACT = redactor([Redaction(tools=("*",), fields=("$..email", "$.items[*].pin"), replacement="***")], TOOL)


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        ('{"email": "a@b"}', '{"email":"***"}'),
        ("email: a@b", WITHHELD),
        ("{not json", WITHHELD),
        ('{"email": NaN}', '{"email":"***"}'),
        ({"base64": "eyJlbWFpbCI6MX0=", "media_type": "application/octet-stream"}, WITHHELD),
        ({"rows": [], "columns": [], "email": "a@b"}, {"rows": [], "columns": [], "email": "***"}),
        ({"columns": ["email"], "rows": [["a@b"]]}, {"columns": ["email"], "rows": [["a@b"]]}),
        ({"items": [{"pin": 1}, {"pin": 2}]}, {"items": [{"pin": "***"}, {"pin": "***"}]}),
        (None, None),
        (5, 5),
    ],
)
def test_an_answer_in_any_form_is_redacted_or_withheld(data: Any, seen: Any) -> None:
    assert REDACT is not None
    assert REDACT(data) == seen


def test_what_is_too_deep_to_follow_is_replaced_whole() -> None:
    deep: Any = {"email": "a@b"}
    for _ in range(5000):
        deep = [deep]
    assert "a@b" not in repr(replace_at(deep, ["$..email"], lambda _: "***"))


def test_many_matches_take_time_in_their_number_and_not_in_its_square() -> None:
    copies = 0

    def replacement(_: Any) -> str:
        nonlocal copies
        copies += 1
        return "***"

    rows: Any = [{"email": 1, "n": {"pin": 2}} for _ in range(30_000)]
    replaced: Any = replace_at(rows, ["$..email", "$[*].n.pin"], replacement)
    assert copies == 60_000
    assert replaced[-1] == {"email": "***", "n": {"pin": "***"}}


def test_the_tools_of_a_database_are_masked_in_the_statement_and_not_here() -> None:
    assert (
        redactor([Redaction(tools=("*",), fields=("$..email",), replacement="***")], PETS.tools["shop__query"]) is None
    )


def test_a_tool_no_redaction_names_has_no_redactor() -> None:
    assert redactor([Redaction(tools=("shop__*",), fields=("$..a",), replacement="x")], TOOL) is None


def test_the_original_is_left_as_it_was() -> None:
    data = {"a": [{"b": 1}]}
    assert replace_at(data, ["$..b"], lambda _: 2) == {"a": [{"b": 2}]}
    assert data == {"a": [{"b": 1}]}


@pytest.mark.parametrize("path", ["", "$[", "a..", "$.a | $.b"])
def test_what_is_no_path_is_an_error(path: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the library says
        compile_path(path)


SECRET = {"type": "string", "format": "password"}
SCHEMA: dict[str, Any] = {
    "properties": {
        "plain": SECRET,
        "it's": {"writeOnly": True},
        "ref": {"$ref": "#/$defs/Login"},
        "any": {"anyOf": [{"type": "null"}, SECRET]},
        "one": {"oneOf": [{"properties": {"a": SECRET}}, {"properties": {"b": {}}}]},
        "all": {"allOf": [{"$ref": "#/$defs/Login"}]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/Login"}},
        "pair": {"prefixItems": [{}, SECRET]},
        "map": {"additionalProperties": SECRET},
        "patterns": {"patternProperties": {"^x": SECRET}},
        "then": {"if": {}, "then": {"properties": {"c": SECRET}}},
        "open": {"properties": {"name": {"type": "string"}}},
        "either": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/Login"}]},
        "lost": {"$ref": "https://elsewhere.example/schema"},
        "slashed": {"$ref": "#/$defs/a~1b"},
    },
    "$defs": {
        "a/b": {"properties": {"password": SECRET}},
        "Login": {"properties": {"password": SECRET, "next": {"$ref": "#/$defs/Login"}}},
    },
}


@pytest.mark.parametrize(
    ("arguments", "recorded"),
    [
        ({"plain": "s"}, {"plain": "#"}),
        ({"it's": {"deep": 1}}, {"it's": "#"}),
        ({"ref": {"password": "s", "user": "u"}}, {"ref": {"password": "#", "user": "#"}}),
        ({"ref": {"next": {"next": {"password": "s"}}}}, {"ref": {"next": {"next": {"password": "#"}}}}),
        ({"any": "s"}, {"any": "#"}),
        ({"one": {"a": "s", "b": "t"}}, {"one": {"a": "#", "b": "t"}}),
        ({"all": {"password": "s"}}, {"all": {"password": "#"}}),
        ({"list": [{"password": "s"}, {"user": "u"}]}, {"list": [{"password": "#"}, {"user": "#"}]}),
        ({"pair": ["u", "s", "v"]}, {"pair": ["u", "#", "#"]}),
        ({"map": {"k": "s"}}, {"map": {"k": "#"}}),
        ({"patterns": {"y": "s"}}, {"patterns": {"y": "#"}}),
        ({"then": {"c": "s"}}, {"then": {"c": "#"}}),
        ({"open": {"name": "n", "extra": 1}, "unknown": [1]}, {"open": {"name": "n", "extra": 1}, "unknown": "#"}),
        ({"ref": "password=s"}, {"ref": "#"}),
        ({"ref": ["s"]}, {"ref": "#"}),
        ({"ref": {"pasword": {"deep": "s"}}}, {"ref": {"pasword": "#"}}),
        ({"ref": None, "list": None}, {"ref": None, "list": None}),
        ({"list": {"password": "s"}}, {"list": "#"}),
        ({"list": "s"}, {"list": "#"}),
        ({"either": "t"}, {"either": "t"}),
        ({"either": 5}, {"either": "#"}),
        ({"either": {"password": "s"}}, {"either": {"password": "#"}}),
        ({"lost": "s"}, {"lost": "#"}),
        ({"slashed": {"password": "s"}}, {"slashed": {"password": "#"}}),
    ],
)
def test_what_a_schema_calls_secret_is_concealed_wherever_it_says_so(arguments: Any, recorded: Any) -> None:
    assert has_secrets(SCHEMA)
    assert conceal(arguments, SCHEMA, lambda _: "#") == recorded


def test_a_schema_that_is_a_secret_itself_conceals_the_whole() -> None:
    assert conceal("s", SECRET, lambda _: "#") == "#"


def test_a_schema_without_secrets_is_known_as_one() -> None:
    assert not has_secrets({"properties": {"a": {"format": "date"}, "b": {"writeOnly": False}}})


def test_a_path_finds_what_it_asks_for_also_where_another_path_hides_that() -> None:
    answer = {"cards": [{"kind": "visa", "number": "4111"}]}
    for paths in (
        ["$..kind", "$.cards[?@.kind == 'visa'].number"],
        ["$.cards[*].kind", "$..[?@.kind == 'visa'].number"],
    ):
        hidden = {"cards": [{"kind": "x", "number": "x"}]}
        assert replace_at(answer, paths, lambda _: "x") == hidden
        assert replace_within(copy.deepcopy(answer), paths, lambda _: "x") == hidden


def test_a_text_that_holds_one_of_the_values_is_concealed() -> None:
    found = conceal_values(
        {"a": "say alpha", "b": "say gamma", "c": 5}, {"alpha", "beta"}, lambda value: f"digest of {value}"
    )
    assert found == {"a": "digest of say alpha", "b": "say gamma", "c": 5}


NESTED: Any = 0
for _ in range(12):
    NESTED = [NESTED, NESTED]


@pytest.mark.parametrize("path", ["$..*..*..*", "$..[?count($..*) > 0]", "$..[?@ == $]"])
def test_a_path_that_takes_too_long_hides_the_whole(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_path, "_MAX_STEPS", 20_000)
    assert places_of({"a": NESTED}, ["$.a", path]) == {()}
    assert AnswerRedactor([((path,), "-")])({"a": NESTED}) == DEEPER
    arguments = {"a": NESTED}
    assert conceal_at(arguments, (path,), lambda _: "-") == {"a": "-"}
    assert set(str(all_but(arguments, arguments, [path, "$.a"], lambda _: "-"))) <= set("{'a': [-]},")


def test_an_expression_in_a_path_cannot_take_exponential_time() -> None:
    answer = {"a": ["a" * 60 + "!", "secret"]}
    for path in ("$.a[?search(@, '^(a|a)*$')]", "$.a[?match(@, '(a*)*b')]", "$.a[?@ =~ /(a*)*b/]"):
        assert replace_at(answer, [path], lambda _: "-") == answer
    with pytest.raises(ValueError, match="expression"):
        compile_path("$.a[?search(@, '(?=s)s')]")
