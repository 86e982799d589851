"""What became of a GraphQL call: a change that took effect is never said to have failed, and what can be read of an answer is given."""

from __future__ import annotations

from typing import Any

import pytest

from tests.services.tracker import answer
from toolgen.connectors.graphql.mutation_outcome import ResponseContext
from toolgen.connectors.graphql.response import explain, read_answer
from toolgen.model.result import Delivery, Error, Failed, Shape, Success

ISSUE = "{ id title }"
CORRECT = "change the arguments as"
AS_THE_ERRORS_SAY = f"{CORRECT} the errors say"
KEPT = (("create", "userErrors"), ("createStrictly", "userErrors"), ("many", "errors"), ("again", "userErrors"))


def outcome(query: str, body: Any = None, status: int = 200) -> Success | Failed:
    asked = ResponseContext(mutation=query.startswith("mutation"), query=query, rejections=KEPT)
    data = answer(query) if body is None else body
    delivery = Delivery(status=status)
    if status < 300:
        return read_answer(Success(data=data, delivery=delivery), asked)
    error = Error(code="upstream_error", message=f"the server answered {status}", suggestion="change the arguments")
    return explain(Failed(error=error, data=data, delivery=delivery), asked)


def told(result: Success | Failed) -> str:
    return "ok" if isinstance(result, Success) else result.error.code


CREATE = 'mutation { create(title: "%s") %s }'
STRICT = 'mutation { createStrictly(title: "%s") %s }'
OUTCOMES = [
    # A field below failed and is null: the rest is there, and the change is made.
    (CREATE % ("a", "{ issue { id secret } }"), "ok"),
    ('mutation { rename(id: "1", title: "b") { id secret } }', "ok"),
    ('mutation { createAll(titles: ["a", "b"]) { id secret } }', "ok"),
    # A null went up to the root field, or beyond it.
    (CREATE % ("bubbles", "{ watchers { id } }"), "outcome_unknown"),
    (STRICT % ("bubbles", "{ watchers { id } }"), "outcome_unknown"),
    ('mutation { rename(id: "1", title: "b") { boss { id } } }', "outcome_unknown"),
    ('mutation { createAll(titles: ["a"]) { boss { id } } }', "outcome_unknown"),
    # The resolver of the root field ran, and what it returned could not be completed.
    ("mutation { nothing { ok } }", "outcome_unknown"),
    ('mutation { note(text: "a") }', "outcome_unknown"),
    # The resolver itself failed, or nothing was ever run.
    ("mutation { refuse { ok } }", "upstream_error"),
    ("mutation { unknown }", "upstream_error"),
    ("mutation { create { ok } }", "upstream_error"),
    # Several root fields: one that ran is enough.
    ('mutation { refuse { ok } rename(id: "1", title: "b") { id } }', "ok"),
    ("mutation { a: refuse { ok } b: refuse { ok } }", "upstream_error"),
    ("mutation { __typename refuse { ok } }", "upstream_error"),
    ("mutation { ...F } fragment F on Mutation { t: __typename refuse { ok } }", "upstream_error"),
    ('mutation { refuse { ok } rename(id: "1", title: "b") { boss { id } } }', "outcome_unknown"),
    ('mutation { create(title: "a") { ok } nothing { ok } }', "outcome_unknown"),
    # The service took the call and said no.
    (CREATE % ("", "{ ok userErrors { message field code } }"), "rejected"),
    (CREATE % ("half", "{ issue { id } userErrors { message } }"), "rejected"),
    (CREATE % ("half", "{ issue { id secret } userErrors { message } }"), "rejected"),
    ("mutation { many { made { id } errors } }", "rejected"),
    ('mutation { again: create(title: "") { userErrors { message } } }', "rejected"),
    (CREATE % ("a", "{ ok userErrors { message } }"), "ok"),
    # Reads.
    ("{ issue(id: 1) { id secret } }", "ok"),
    ("{ issue(id: 1) { boss { id } } viewer { id } }", "ok"),
    ("{ issue(id: 1) { boss { id } } }", "upstream_error"),
    ("{ strict { name salary } }", "upstream_error"),
    ("{ __typename issue(id: 1) { boss { id } } }", "upstream_error"),
    ("{ nope }", "upstream_error"),
]


@pytest.mark.parametrize(("query", "code"), OUTCOMES)
def test_what_became_of_a_call_follows_from_where_its_errors_stand(query: str, code: str) -> None:
    result = outcome(query)
    assert told(result) == code
    if isinstance(result, Failed) and code != "upstream_error":
        assert result.error.suggestion != AS_THE_ERRORS_SAY
    if code == "outcome_unknown":
        assert isinstance(result, Failed)
        assert "do not repeat" in result.error.suggestion
        assert result.data is not None
    if isinstance(result, Success) and result.shape is Shape.GRAPHQL:
        assert isinstance(result.data, dict)
        assert result.data["errors"]
        assert result.data["data"]


@pytest.mark.parametrize(("query", "code"), OUTCOMES)
@pytest.mark.parametrize("status", [400, 500, 502])
def test_a_change_that_took_effect_did_so_whatever_the_status(query: str, code: str, status: int) -> None:
    body = answer(query)
    result = outcome(query, body, status)
    if query.startswith("mutation") and "errors" in body:
        assert told(result) == code


def test_equal_errors_are_counted_and_shown_once() -> None:
    result = outcome("{ issues(first: 40) { nodes { id secret owner { email } } } }")
    assert isinstance(result, Success)
    assert isinstance(result.data, dict)
    message = "Resource not accessible by integration"
    assert result.data["errors"] == [
        {"message": message, "path": ["issues", "nodes", 0, "secret"], "code": "FORBIDDEN", "count": 40},
        {"message": message, "path": ["issues", "nodes", 0, "owner", "email"], "code": "FORBIDDEN", "count": 40},
    ]


def test_many_different_errors_are_counted_too() -> None:
    errors = [{"message": f"error {number}", "path": ["a", number]} for number in range(500)]
    result = outcome("{ a }", {"data": {"a": [1]}, "errors": errors})
    assert isinstance(result, Success)
    assert isinstance(result.data, dict)
    assert len(result.data["errors"]) == 21
    assert result.data["errors"][-1] == {"message": "and 480 more errors", "count": 480}


def test_a_failure_counts_equal_errors_too() -> None:
    errors = [{"message": "down", "path": ["a", number, "b"]} for number in range(500)]
    result = outcome("{ a }", {"data": None, "errors": errors})
    assert isinstance(result, Failed)
    assert result.error.message == "the service reported: down (at a.0.b, 500 times)"
    assert result.data == {"data": None, "errors": [{**errors[0], "count": 500}]}


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"userErrors": [{"message": "is blank", "field": ["input", "title"], "code": "BLANK"}]}, "input.title: is blank (BLANK)"),
        ({"userErrors": [{"message": "is blank", "field": "title"}] * 3}, "title: is blank, 3 times"),
        ({"userErrors": ["no", "never"]}, "no; never"),
        ({"userErrors": [{"__typename": "TakenError"}]}, "TakenError"),
        ({"userErrors": [{"messages": ["x"]}]}, "an error without a message"),
        ({"userErrors": [None]}, "an error without a message"),
    ],
)  # fmt: skip
def test_a_rejection_says_what_the_service_said(payload: Any, message: str) -> None:
    result = outcome("mutation { create }", {"data": {"create": payload}})
    assert isinstance(result, Failed)
    assert (result.error.code, result.shape, result.data) == ("rejected", Shape.WHOLE, {"create": payload})
    assert result.error.message.endswith(f" said no: {message}")
    assert result.error.suggestion.startswith(CORRECT)


def test_a_rejection_beside_something_made_says_to_look_first() -> None:
    result = outcome(CREATE % ("half", "{ issue { id } userErrors { message } }"))
    assert isinstance(result, Failed)
    assert "taken effect" in result.error.suggestion


def test_a_change_with_too_long_an_answer_is_not_made_again() -> None:
    cut = Success(data={}, truncated=True)
    result = read_answer(cut, ResponseContext(mutation=True, query="mutation { create { ok } }"))
    assert isinstance(result, Failed)
    assert result.error.code == "outcome_unknown"
    assert told(read_answer(cut, ResponseContext(query="{ issue }"))) == "response_too_large"


def test_a_throttled_read_is_tried_again_and_not_taken_for_an_answer() -> None:
    body = {
        "data": {"a": 1, "b": None},
        "errors": [{"message": "x", "path": ["b"], "extensions": {"code": "THROTTLED"}}],
    }
    assert told(outcome("{ a b }", body)) == "rate_limited"
    assert told(outcome("mutation { a b }", body)) == "ok"
