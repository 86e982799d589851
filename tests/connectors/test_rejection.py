"""Answers over HTTP whose payload says that nothing was done: believed only where the description declares that they may say so."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.connectors.http.bindings import binding, call
from tests.messages import line_names
from toolgen.connectors.rejection import rejection_in
from toolgen.model.result import Error
from toolgen.model.schema import Json

FLAG = {"type": "boolean"}
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
ANY: dict[str, Any] = {}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def told(declared: dict[str, Any] | None, answer: Json, method: str = "GET") -> Error | None:
    return rejection_in(replace(call(binding(method=method)).tool, output_schema=declared), answer)


REJECTED: list[tuple[dict[str, Any], Json, str]] = [
    (schema(ok=FLAG, error=TEXT), {"ok": False, "error": "channel_not_found"}, "channel_not_found"),
    (schema(success=FLAG, errors=TEXTS), {"success": False, "errors": ["a is taken", "b is short"]}, "a is taken; b is short"),
    (
        schema(success=FLAG, errors=ANY),
        {"success": False, "errors": [{"code": 1003, "message": "Invalid zone"}], "result": None},
        "Invalid zone (1003)",
    ),
    (
        schema(success=FLAG, error=ANY),
        {"success": False, "error": {"code": "E7", "message": "no such\n plan"}},
        "no such plan (E7)",
    ),
    (schema(success=FLAG, errors=ANY), {"success": False, "errors": {"name": ["is taken"]}}, "name: is taken"),
    (schema(success=FLAG, error_message=TEXT), {"success": False, "error_message": "closed"}, "closed"),
    (schema(success=FLAG, errorCode=TEXT, message=TEXT), {"success": False, "errorCode": "E1", "message": "closed"}, "closed (E1)"),
    # The member is there and says nothing: what stands beside it does, or the flag itself.
    (schema(success=FLAG, errors=TEXTS), {"success": False, "errors": [], "message": "closed"}, "closed"),
    (schema(success=FLAG, errors=TEXTS), {"success": False, "errors": []}, "`success` is false"),
    (schema(succeeded={"type": ["boolean", "null"]}, error=TEXT), {"succeeded": False}, "`succeeded` is false"),
    # Wherever in its composition the answer is declared.
    ({"$ref": "#/$defs/A", "$defs": {"A": schema(ok={"$ref": "#/$defs/F"}, error=TEXT), "F": FLAG}}, {"ok": False, "error": "no"}, "no"),
    ({"allOf": [schema(ok=FLAG), schema(errors=TEXTS)]}, {"ok": False, "errors": ["no"]}, "no"),
    ({"anyOf": [schema(id=TEXT), {"allOf": [schema(ok=FLAG, error=TEXT)]}]}, {"ok": False, "error": "no"}, "no"),
    # An answer that is declared to say true alone, as Slack's are: false is what the description has among its errors.
    (schema(ok={"type": "boolean", "enum": [True]}, channel=ANY), {"ok": False, "error": "channel_not_found"}, "channel_not_found"),
    (schema(ok={"const": True}, channel=ANY), {"ok": False, "error": "channel_not_found"}, "channel_not_found"),
]  # fmt: skip
OK: list[tuple[dict[str, Any] | None, Json]] = [
    (None, {"ok": False, "error": "no"}),
    (schema(name=TEXT), {"ok": False, "error": "no"}),
    (schema(ok=FLAG), {"ok": False, "error": "no"}),
    (schema(ok=FLAG, message=TEXT), {"ok": False, "message": "nothing found"}),
    (schema(ok=TEXT, error=TEXT), {"ok": "false", "error": "no"}),
    (schema(ok=FLAG, error=TEXT), {"ok": "false", "error": "no"}),
    (schema(ok={"type": "integer"}, error=TEXT), {"ok": 0, "error": "no"}),
    (schema(ok=FLAG, error=TEXT), {"ok": None, "error": "no"}),
    (schema(ok=FLAG, error=TEXT), {"ok": True, "error": "an old one"}),
    (schema(ok=FLAG, error=TEXT), {"error": "an old one"}),
    (schema(ok=FLAG, error=TEXT), [{"ok": False, "error": "no"}]),
    (schema(data=schema(ok=FLAG, error=TEXT)), {"data": {"ok": False, "error": "no"}}),
    # The success of a thing that the call reads is not that of the call.
    (schema(id=TEXT, success=FLAG, error=TEXT), {"id": "run-1", "success": False, "error": "exit 1"}),
    # Always true, and nothing that says why not.
    (schema(ok={"const": True}), {"ok": False}),
    (schema(ok={"const": True}), {"ok": False, "error": ""}),
    # What one alternative declares says nothing of another.
    ({"anyOf": [schema(ok=FLAG), schema(error=TEXT)]}, {"ok": False, "error": "no"}),
]


@pytest.mark.parametrize(("declared", "answer", "words"), REJECTED)
def test_a_declared_flag_that_is_false_is_a_rejection(declared: dict[str, Any], answer: Json, words: str) -> None:
    error = told(declared, answer)
    assert error is not None
    assert (error.code, error.message.partition(": ")[2]) == ("rejected", words)


@pytest.mark.parametrize(("declared", "answer"), OK)
def test_what_is_not_declared_so_is_an_answer(declared: dict[str, Any] | None, answer: Json) -> None:
    assert told(declared, answer) is None


def test_a_change_is_never_advised_to_be_sent_again() -> None:
    declared = schema(ok=FLAG, error=TEXT)
    read = told(declared, {"ok": False, "error": "no"})
    write = told(declared, {"ok": False, "error": "no"}, "POST")
    partly = told(declared, {"ok": False, "error": "no", "made": [{"id": 1}]}, "POST")
    assert read is not None
    assert write is not None
    assert partly is not None
    assert read.suggestion == write.suggestion
    assert "arguments" in read.suggestion
    assert line_names(partly.suggestion, "taken effect", "`data`")
    assert {one.retry_after_s for one in (read, write, partly)} == {None}


def test_a_schema_that_leads_to_itself_is_read_to_its_end() -> None:
    declared = {"$ref": "#/$defs/A", "$defs": {"A": {"allOf": [{"$ref": "#/$defs/A"}, schema(ok=FLAG, error=TEXT)]}}}
    assert told(declared, {"ok": False, "error": "no"}) is not None
    nowhere = {"$ref": "#/$defs/B", "$defs": {"B": {"$ref": "#/$defs/B"}}}
    assert told(nowhere, {"ok": False, "error": "no"}) is None
