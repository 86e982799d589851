"""How what a client gave its model is compared with what the gateway had to say."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.frameworks.evaluation import PROPERTIES, Expected, cells, data_fault, once_fault, picture_fault, words_fault
from tests.services.all_kinds import ASKED, CASES, OBJECT, PICTURE, Case

pytestmark = pytest.mark.exhaustive  # a tool of the repository, and no part of what users install

CASE = {case.name: case for case in CASES}
TEXT = json.dumps(OBJECT, ensure_ascii=False)


def told(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        json.dumps(OBJECT),
        json.dumps({"content": [{"type": "text", "text": TEXT}], "isError": False}),
        f"meta=None content=[TextContent(type='text', text={TEXT!r})]",
        str(OBJECT),
    ],
    ids=["as it is", "escaped", "in a result", "in Python's text of a result", "Python's text of it"],
)
def test_data_is_found_in_whatever_form_a_client_writes_it(text: str) -> None:
    assert data_fault(CASE["object"], told(text), ()) == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (TEXT.replace("Zoë", "Zoe"), "without"),
        (TEXT.replace("null", '""'), "without"),
        (json.dumps({"status": "ok", "call_id": "call_1", "data": OBJECT}), "the envelope is there"),
        (TEXT + json.dumps({"duration_ms": 1}), "the envelope is there"),
    ],
)
def test_data_that_is_not_whole_or_not_alone_is_a_fault(text: str, fault: str) -> None:
    assert data_fault(CASE["object"], told(text), ()).startswith(fault)


def test_what_is_told_twice_or_never_is_a_fault() -> None:
    assert once_fault(CASE["object"], told(TEXT)) == ""
    assert once_fault(CASE["object"], told(TEXT + TEXT)) == "2 times"
    assert once_fault(CASE["object"], []) == "0 times"


def test_an_error_has_its_code_and_what_to_do() -> None:
    assert words_fault(CASE["denied"], told("Error from MCP tool: forbidden: rule never forbids this call")) == ""
    assert words_fault(CASE["denied"], told("Error: Function failed.")) == "without 'forbidden: '"


def test_a_long_call_is_told_as_pending_and_its_end_is_read() -> None:
    pending = {"parts": told("deferred: this call is being executed; call id call_1"), "raised": ""}
    done = {"parts": told('{"report":"mark-late"}'), "raised": ""}
    cases = {"call_": ([pending, done], []), "id": ([pending], ["without the call id"]), "end": ([pending, pending], 1)}
    for given, expected in cases.values():
        found = cells({"given": {}, "long": given}, Expected((), (), (), {}))["long"]
        assert (len(found) if isinstance(expected, int) else found) == expected


def test_a_picture_is_a_part_of_its_own() -> None:
    picture = {"type": "image", "data": "iVBO" + "x", "media_type": "image/png"}
    assert picture_fault(CASE["picture"], [picture]) == "no picture"
    encoded = base64.b64encode(PICTURE).decode()
    assert picture_fault(CASE["picture"], [{**picture, "data": encoded}]) == ""
    assert picture_fault(CASE["picture"], told(encoded)) == "as text"
    anew = base64.b64encode(PICTURE[:24] + b"written anew").decode()
    other = base64.b64encode(PICTURE[:20] + b"\0\0\0\7" + PICTURE[24:]).decode()
    assert picture_fault(CASE["picture"], [{**picture, "data": anew}]) == ""
    assert picture_fault(CASE["picture"], [{**picture, "data": other}]) == "no picture"
    assert picture_fault(CASE["picture"], told(f"[Image: {anew}]")) == "as text"


def test_a_client_that_reports_nothing_has_no_property() -> None:
    listed = sorted({case.tool for case in (*CASES, ASKED)})
    empty: dict[str, Any] = {"given": {}}
    found = cells(empty, Expected(CASES, listed, listed, {}))
    assert [name for name in PROPERTIES if not found[name]] == []


def test_a_client_that_checks_arguments_itself_may_say_so_in_its_own_words() -> None:
    case: Case = CASE["invalid"]
    assert words_fault(case, told("answer: Input should be a valid string")) == ""
    assert words_fault(case, told("something went wrong")) != ""
