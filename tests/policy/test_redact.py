"""What is taken out of answers, and which arguments are never recorded plainly."""

from __future__ import annotations

from typing import Any

import pytest

from tests.catalogs import PETS
from toolgen.policy.redact import Redaction, compile_path, redactor, replace_at, sensitive_paths

TOOL = PETS.tools["pets__get_pet"]


@pytest.mark.parametrize(
    ("fields", "data", "seen"),
    [
        (["$..email"], {"email": "a@b", "n": 1}, {"email": "***", "n": 1}),
        (["$..email"], [{"user": {"email": "a@b"}}], [{"user": {"email": "***"}}]),
        (["$.a"], {"a": {"email": 1}, "b": {"a": 2}}, {"a": "***", "b": {"a": 2}}),
        (["$.items[*].card"], {"items": [{"card": 1}, {"card": 2}]}, {"items": [{"card": "***"}, {"card": "***"}]}),
        (["$"], {"a": 1}, "***"),
        (["$..email"], "text", "text"),
        (["$..email"], None, None),
        (["$..email", "$..name"], {"email": 1, "name": 2}, {"email": "***", "name": "***"}),
        (["$..a"], {"a": {"a": 1}}, {"a": "***"}),
    ],
)
def test_fields_are_replaced_wherever_they_stand(fields: list[str], data: Any, seen: Any) -> None:
    redact = redactor([Redaction(tools=("pets__*",), fields=tuple(fields), replacement="***")], TOOL)
    assert redact is not None
    assert redact(data) == seen


def test_columns_of_a_table_are_fields_too_even_when_one_stands_twice() -> None:
    redact = redactor([Redaction(tools=("*",), fields=("$..email",), replacement="***")], TOOL)
    assert redact is not None
    table = {
        "columns": [{"name": "id", "type": ""}, {"name": "email", "type": ""}, {"name": "email", "type": ""}],
        "rows": [[1, "a@b", "a@b"], [2, None, "c@d"]],
        "row_count": 2,
    }
    assert redact(table) == {**table, "rows": [[1, "***", "***"], [2, "***", "***"]]}
    empty = {"columns": [{"name": "email", "type": ""}], "rows": [], "row_count": 0}
    assert redact(empty) == empty


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


def test_schemas_say_which_arguments_are_sensitive() -> None:
    schema = {
        "properties": {
            "password": {"type": "string", "format": "password"},
            "card": {"properties": {"it's": {"writeOnly": True}, "plain": {}}},
            "list": {"type": "array", "items": {"properties": {"pin": {"writeOnly": True}}}},
            "name": {"type": "string"},
        }
    }
    arguments = {"password": "a", "card": {"it's": "b", "plain": "c"}, "list": [{"pin": "d"}], "name": "e"}
    assert replace_at(arguments, sensitive_paths(schema), lambda _: "#") == {
        "password": "#",
        "card": {"it's": "#", "plain": "c"},
        "list": [{"pin": "#"}],
        "name": "e",
    }
