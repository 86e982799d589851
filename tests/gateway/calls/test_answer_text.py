"""The text of an answer: an error says everything once, and begins with its code; notes stand behind the data."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolgen
from toolgen.connectors.http.response import HttpResponse, result
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.gateway.calls.answer_text import data_text, error_text, without_repetition
from toolgen.gateway.calls.json_body import ended
from toolgen.model.result import Cancelled, Delivery, Envelope, Error, Failed, Meta, Pending, Refused, Success
from toolgen.pipeline.middleware import CallContext

PACKAGE = Path(toolgen.__file__).parent
WORDS = st.text("abcdefgh ", min_size=1, max_size=12)
BODIES = st.recursive(
    WORDS | st.integers(0, 10**6) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def answered(status: int, body: Any, content_type: str = "application/json", **more: Any) -> str:
    """What an agent reads of an answer of an HTTP API."""
    answer = HttpResponse(
        status=status,
        content_type=content_type,
        body=body.encode() if content_type == "text/html" else json.dumps(body).encode(),
        truncated=False,
        headers={},
        **more,
    )
    outcome = result(answer, Scrubber([]), "GET", Delivery())
    return error_text(ended("api__get", "call_1", outcome, CallContext(), 1.0))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"type": "about:blank", "title": "Not Found", "status": 404, "detail": "No pet 5."}, "Not Found: No pet 5."),
        ({"detail": "No pet 5."}, "Not Found: No pet 5."),
        ({"ok": False, "error": "no_pet"}, "Not Found: no_pet"),
        ("No pet 5.", "Not Found: No pet 5."),
        ({"title": "Gone away", "detail": "No pet 5."}, "Not Found: Gone away: No pet 5."),
    ],
)
def test_a_detail_is_said_once(body: Any, said: str) -> None:
    assert answered(404, body) == (
        f"upstream_error: the server answered 404 {said}\nWhat to do: check the identifiers in the arguments"
    )


@pytest.mark.parametrize(
    ("status", "body", "content_type", "said"),
    [
        (404, "<title>404 Not Found</title><h1>Not Found</h1>", "text/html", "404 Not Found"),
        (
            404,
            "<title>404 Not Found</title><h1>404 Not Found</h1><hr>nginx/1.26",
            "text/html",
            "404 Not Found: nginx/1.26",
        ),
        (404, "<title>No pet</title><h1>No pet</h1><p>It is gone.", "text/html", "404 Not Found: No pet It is gone."),
        (503, {"message": "Service unavailable"}, "application/json", "503 Service Unavailable"),
    ],
)
def test_a_status_is_said_once(status: int, body: Any, content_type: str, said: str) -> None:
    assert answered(status, body, content_type).splitlines()[0] == f"upstream_error: the server answered {said}"
    assert "The system answered" not in answered(status, body, content_type)


def test_what_the_message_does_not_say_is_said_with_the_rest() -> None:
    text = answered(404, {"detail": "No pet 5.", "code": "E17", "trace": "af-1"})
    assert text.splitlines()[0] == "upstream_error: the server answered 404 Not Found"
    assert text.count("No pet 5.") == 1
    assert "E17" in text
    assert "af-1" in text


@given(
    st.sampled_from([400, 404, 409, 422, 500, 503]),
    st.dictionaries(st.sampled_from(["detail", "title", "x", "y"]), BODIES, max_size=3),
)
def test_nothing_of_an_error_is_lost(status: int, body: dict[str, Any]) -> None:
    text = answered(status, body)
    for word in _texts(body):
        assert word.casefold() in " ".join(text.casefold().split()) or json.dumps(word)[1:-1] in text


def _texts(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for one in value.values():
                yield from _texts(one)
        case list():
            for one in value:
                yield from _texts(one)
        case str() if value.strip():
            yield " ".join(value.split())


@pytest.mark.parametrize("status", [429, 503])
def test_when_to_come_back_is_said_once(status: int) -> None:
    text = answered(status, {"message": "Slow down."}, retry_after_s=1.2)
    assert text.endswith("Slow down.\nTry again in 2 s.")


def envelope(outcome: Any) -> Envelope:
    return ended("t__t", "call_1", outcome, CallContext(), 1.0)


@pytest.mark.parametrize(
    "outcome",
    [
        Refused(error=Error(code="forbidden", message="no")),
        Failed(error=Error(code="upstream_error", message="no: it said so"), data={"a": [1]}),
        Pending(error=Error(code="approval_required", message="ask")),
        Cancelled(error=Error(code="cancelled", message="left")),
    ],
)
def test_an_error_begins_with_its_code(outcome: Any) -> None:
    assert error_text(envelope(outcome)).startswith(f"{outcome.error.code}: ")


def test_an_id_that_matters_is_in_the_text() -> None:
    unknown = Failed(error=Error(code="outcome_unknown", message="nobody knows"))
    waits = Pending(error=Error(code="approval_required", message="ask"))
    for outcome in (unknown, waits):
        assert "call_1" in error_text(envelope(outcome))


def test_a_message_without_a_quotation_stays_whole() -> None:
    assert without_repetition("no words here", {"a": "b"}) == ("no words here", {"a": "b"})
    assert without_repetition("ours: theirs", {"a": "b"}) == ("ours: theirs", {"a": "b"})
    assert without_repetition("ours: b", {"a": "b", "c": "d"}) == ("ours", {"a": "b", "c": "d"})
    assert without_repetition("ours", None) == ("ours", None)


def test_notes_stand_behind_the_data_but_for_arguments_that_were_left_out() -> None:
    meta = Meta(
        duration_ms=1.0, truncated=True, next_cursor="c1", cut_at="$[3]", dropped=({"argument": "x", "nearest": "y"},)
    )
    shown = data_text(Envelope(status="ok", tool="t", call_id="c", data=[1, 2], error=None, meta=meta))
    dropped, data, cut = shown.split("\n\n")
    assert data == "[1,2]"
    assert dropped == "[Left out, as the tool has no such argument: 'x' (did you mean 'y'?).]"
    assert cut.startswith("[The answer was cut short at $[3]. The rest starts at the cursor c1")
    assert data_text(envelope(Success(data="plain"))) == "plain"


def test_no_suggestion_says_again_when_to_try_again() -> None:
    """An error that says in seconds when to come back is told with that number; its suggestion has something else to say, or nothing."""
    repeated = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            said = {one.arg: one.value for one in node.keywords} if isinstance(node, ast.Call) else {}
            words = ast.unparse(said["suggestion"]) if "suggestion" in said and "retry_after_s" in said else ""
            if any(
                word in words for word in ("try again", "call again", "before calling", " s before", "before the next")
            ):
                repeated.append(f"{path.relative_to(PACKAGE)}: {words}")
    assert repeated == []
