"""Every executor says where the answer stands in what it gives, whatever came of the call, and what keeps answers keeps that too."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.connectors.graphql.mutation_outcome import ResponseContext
from toolgen.connectors.graphql.response import explain, read_answer
from toolgen.connectors.http.response import HttpResponse, result
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.mcp.answers import answered
from toolgen.model.result import Delivery, Failed, Shape, Success
from toolgen.pipeline.stages.idempotency import _read, _written

ERRORS = {"errors": [{"message": "no", "path": ["a"]}]}


def http(
    status: int, content_type: str = "application/json", body: bytes = b'{"a": 1}', **more: Any
) -> Success | Failed:
    answer = HttpResponse(status=status, content_type=content_type, body=body, truncated=False, headers={}, **more)
    return result(answer, Scrubber(()), "GET", Delivery(status=status))


def graphql(body: Any) -> Success | Failed:
    return read_answer(Success(data=body), ResponseContext(query="{ a b }"))


def explained(status: int, body: bytes) -> Failed:
    failed = http(status, body=body)
    assert isinstance(failed, Failed)
    explained = explain(failed, ResponseContext(query="{ a }"))
    assert isinstance(explained, Failed)
    return explained


MADE: list[tuple[Success | Failed, Shape]] = [
    (http(200), Shape.WHOLE),
    (http(200, "text/plain"), Shape.WHOLE),
    (http(200, "image/png"), Shape.WHOLE),
    (http(404, "application/problem+json"), Shape.FAULT),
    (http(500, "text/plain"), Shape.FAULT),
    (http(302), Shape.FAULT),
    (graphql({"data": {"a": 1}}), Shape.WHOLE),
    (graphql({"data": {"a": None}, **ERRORS}), Shape.GRAPHQL),
    (graphql({"data": None, **ERRORS}), Shape.GRAPHQL),
    (graphql({"data": {"a": None, "b": 1}, **ERRORS}), Shape.GRAPHQL),
    (graphql(ERRORS), Shape.GRAPHQL),
    (explained(400, b'{"errors": [{"message": "no"}], "data": {"a": 1}}'), Shape.GRAPHQL),
    (explained(400, b'{"title": "no"}'), Shape.FAULT),
    (answered(Success(data={"content": [{"type": "text", "text": "a"}]})), Shape.CONTENT),
    (answered(Success(data={"structuredContent": {"a": 1}})), Shape.CONTENT),
    (answered(Success(data={"content": [{"type": "image", "data": "", "mimeType": "a/b"}], "isError": True})), Shape.CONTENT),
]  # fmt: skip


@pytest.mark.parametrize(("outcome", "shape"), MADE)
def test_where_the_answer_stands_is_said(outcome: Success | Failed, shape: Shape) -> None:
    assert outcome.shape is shape


@pytest.mark.parametrize(("outcome", "shape"), MADE)
def test_an_outcome_that_is_kept_for_an_idempotency_key_keeps_its_shape(
    outcome: Success | Failed, shape: Shape
) -> None:
    kept = _read(_written(outcome))
    assert isinstance(kept, Success | Failed)
    assert kept.shape is shape
