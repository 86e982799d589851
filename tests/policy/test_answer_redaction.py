"""Redaction by shape: where an answer stands x how it is written x kind of path, and nothing of what is hidden in what is shown."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.catalogs import PETS
from toolgen.core.json_codec import encode_json
from toolgen.model.result import Shape
from toolgen.policy.answer_redaction import WITHHELD, AnswerRedactor, redactor
from toolgen.policy.redact import DEEPER, Redaction

EMAIL = "ada.canary@example.com"
ANSWER: Any = {"viewer": {"email": EMAIL, "name": "Visible"}, "items": [{"n": 1, "email": EMAIL}]}
TEXT = f"the email is {EMAIL}"
ERROR: Any = {"message": f"cannot send to {EMAIL}", "path": ["viewer", "email"], "extensions": {"email": EMAIL}}
PLAIN_ERROR: Any = {"message": "too slow", "path": ["items", 0, "n"]}


def quoted(value: Any, layers: int) -> Any:
    for _ in range(layers):
        value = json.dumps(value)
    return value


def coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# How a system may give the same answer: as it is, inside of strings, as text, as bytes.
MEDIA: dict[str, Any] = {
    "json": ANSWER,
    "json text": quoted(ANSWER, 1),
    "json text of json text": quoted(ANSWER, 2),
    "three strings deep": quoted(ANSWER, 3),
    "four strings deep": quoted(ANSWER, 4),
    "payload": {"viewer": quoted(ANSWER["viewer"], 1), "note": quoted({"email": EMAIL}, 2)},
    "odd numbers": f'{{"viewer": {{"email": "{EMAIL}", "x": 1e999}}, "y": NaN}}',
    "escaped": json.dumps(ANSWER).replace("a", "\\u0061"),
    "text": TEXT,
    "broken json": json.dumps(ANSWER)[:-1],
    "broken json inside": {"viewer": json.dumps(ANSWER["viewer"])[:-1]},
    "bytes": {"base64": coded(TEXT), "media_type": "application/octet-stream"},
    "a list": [ANSWER["viewer"], {"viewer": ANSWER["viewer"]}],
}
BLOCKS: dict[str, Callable[[str], dict[str, Any]]] = {
    "text": lambda text: {
        "type": "text",
        "text": text,
        "_meta": {"viewer": {"email": EMAIL}},
        "annotations": {"priority": 1},
    },
    "image": lambda text: {"type": "image", "data": coded(text), "mimeType": "image/png"},
    "audio": lambda text: {"type": "audio", "data": coded(text), "mimeType": "audio/wav"},
    "document": lambda text: {"type": "resource", "resource": {"uri": f"x://{EMAIL}", "text": text}},
    "blob": lambda text: {"type": "resource", "resource": {"uri": "x://1", "blob": coded(text)}},
    "link": lambda text: {"type": "resource_link", "uri": "x://1", "name": EMAIL, "description": text},
    "unheard of": lambda text: {"type": "unheard", "text": {"deep": text}},
}
PATHS = [
    "$..email",
    "$.viewer.email",
    "$['viewer']['email']",
    "$.viewer.*",
    "$.viewer",
    "$",
    "$.*.email",
    f"$..viewer[?@ == '{EMAIL}']",
]


def content(answer: Any) -> dict[str, Any]:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return {"content": [block(text) for block in BLOCKS.values()], "structuredContent": answer}


SHAPES: dict[Shape, Callable[[Any], Any]] = {
    Shape.WHOLE: lambda answer: answer,
    Shape.FAULT: lambda answer: (
        {"detail": f"no {EMAIL}", "errors": [ERROR], "viewer": {"email": EMAIL}, "was": ANSWER}
        if answer is ANSWER
        else answer
    ),
    Shape.GRAPHQL: lambda answer: {"data": answer, "errors": [ERROR, PLAIN_ERROR]},
    Shape.EVENTS: lambda answer: {"events": [answer, answer], "ended": "events", "errors": [ERROR]},
    Shape.CONTENT: content,
    Shape.PARTS: lambda answer: [
        answer,
        {"base64": coded(TEXT), "media_type": "image/png"},
        {"uri": f"x://{EMAIL}", "media_type": "text/plain", "text": answer if isinstance(answer, str) else json.dumps(answer)},
    ],
}  # fmt: skip
COVERS_LISTS = {"$..email", "$", "$.*.email"}


def made(*paths: str) -> AnswerRedactor:
    found = redactor([Redaction(tools=("*",), fields=paths, replacement="***")], PETS.tools["pets__get_pet"])
    assert found is not None
    return found


def visible(value: Any) -> str:
    """The text in a value, whatever it is written in: JSON in strings, escapes, base64."""
    match value:
        case dict():
            return " ".join(f"{visible(name)} {visible(item)}" for name, item in value.items())
        case list():
            return " ".join(map(visible, value))
        case str():
            try:
                inner = json.loads(value)
            except ValueError:
                inner = None
            below = visible(inner) if isinstance(inner, dict | list | str) else ""
            try:
                return f"{value} {below} {base64.b64decode(value, validate=True).decode('latin-1')}"
            except ValueError:
                return f"{value} {below}"
    return str(value)


@pytest.mark.parametrize(("shape", "media", "path"), list(itertools.product(SHAPES, MEDIA, PATHS)))
def test_what_is_hidden_is_nowhere_in_what_is_shown(shape: Shape, media: str, path: str) -> None:
    if media == "a list" and path not in COVERS_LISTS and shape is not Shape.FAULT:
        return  # the paths say that the answer is an object
    data = SHAPES[shape](MEDIA[media])
    before = json.dumps(data)
    shown = made(path)(data, shape)
    assert EMAIL not in visible(json.loads(encode_json(shown))), shown
    assert json.dumps(data) == before


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_not_hidden_is_shown(shape: Shape) -> None:
    data = SHAPES[shape]({"viewer": {"email": EMAIL, "name": "Visible"}, "count": 5})
    assert "Visible" in visible(made("$.viewer.email")(data, shape))


def test_the_parts_of_each_shape_are_where_they_were() -> None:
    redact = made("$.viewer.email")
    graphql = redact({"data": ANSWER, "errors": [ERROR, PLAIN_ERROR]}, Shape.GRAPHQL)
    assert graphql == {
        "data": {"viewer": {"email": "***", "name": "Visible"}, "items": [{"n": 1, "email": "***"}]},
        "errors": [
            {"message": "[withheld: this error is about a field that the policy redacts]", "path": ["viewer", "email"]},
            PLAIN_ERROR,
        ],
    }
    blocks = [{"type": "text", "text": '{"viewer": {"email": "x@y.example"}}', "annotations": {"priority": 1}}]
    shown = redact({"content": blocks, "structuredContent": {"viewer": {"email": "x@y.example"}}}, Shape.CONTENT)
    assert shown == {
        "content": [{"type": "text", "text": '{"viewer":{"email":"***"}}', "annotations": {"priority": 1}}],
        "structuredContent": {"viewer": {"email": "***"}},
    }


@pytest.mark.parametrize("kind", ["image", "audio", "blob", "link", "unheard of"])
def test_a_block_that_no_path_leads_into_is_withheld(kind: str) -> None:
    data = {"content": [BLOCKS["text"]("{}"), BLOCKS[kind](TEXT)]}
    _, block = made("$..email")(data, Shape.CONTENT)["content"]  # type: ignore[index,call-overload]
    assert block == {"type": "text", "text": WITHHELD}


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ({"email": EMAIL, "log": f"sent to {EMAIL}."}, {"email": "***", "log": "sent to ***."}),
        ({"email": EMAIL, "next": "/u?e=ada.canary%40example.com"}, {"email": "***", "next": "/u?e=***"}),
        ({"email": EMAIL, EMAIL: 1}, {"email": "***", "***": 1}),
        ({"email": "Ada", "log": "Ada left, Adam came"}, {"email": "***", "log": "*** left, Adam came"}),
        ({"email": 918273, "log": "number 918273", "n": 918273}, {"email": "***", "log": "number ***", "n": "***"}),
        ({"email": {"a": [EMAIL]}, "log": EMAIL}, {"email": "***", "log": "***"}),
        ({"email": "no", "ok": "no"}, {"email": "***", "ok": "no"}),
        ({"email": 12, "n": 12}, {"email": "***", "n": 12}),
        ({"email": None, "n": None}, {"email": "***", "n": None}),
        ({"email": EMAIL, "raw": json.dumps([EMAIL])}, {"email": "***", "raw": '["***"]'}),
        ({"a": '{"b": 1}'}, {"a": '{"b": 1}'}),
        ({"a": "[draft] hello", "b": "{x", "c": '"quote'}, {"a": "[draft] hello", "b": "{x", "c": '"quote'}),
        ({"a": "[draft] about email"}, {"a": WITHHELD}),
    ],
)
def test_a_value_that_is_hidden_is_masked_wherever_else_it_stands(data: Any, shown: Any) -> None:
    assert made("$..email")(data) == shown


@pytest.mark.parametrize("path", ["$..email", "$..viewer.email", "$.viewer.email", "$..*"])
def test_what_is_nested_too_deeply_is_data_withheld_and_no_failure(path: str) -> None:
    deep: Any = {"email": EMAIL}
    for _ in range(5000):
        deep = {"a": deep}
    shown = made(path)(deep)
    assert EMAIL not in repr(shown)
    assert path == "$..*" or DEEPER in repr(shown)
    for _ in range(120):
        deep = deep["a"]
    below: Any = {"email": EMAIL}
    for _ in range(150):
        below = {"viewer": below}
    assert EMAIL not in repr(made("$..viewer.email")(below))


def test_many_values_that_stand_elsewhere_take_time_in_their_number() -> None:
    rows: Any = [{"email": f"user{n:06}@example.com", "log": f"to user{n:06}@example.com"} for n in range(20_000)]
    shown: Any = made("$[*].email")(rows)
    assert shown[19_999] == {"email": "***", "log": "to ***"}
