"""Answers of items one after the other: JSON by lines, JSON text sequences and Server-Sent Events, whole and cut."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.connectors.http.item_lists import MAX_ITEMS
from toolgen.connectors.http.response import HttpResponse, result
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.model.result import UNTRIED, Success


def given(content_type: str, body: bytes, *, truncated: bool = False, secrets: tuple[str, ...] = ()) -> Success:
    answer = HttpResponse(status=200, content_type=content_type, body=body, truncated=truncated, headers={})
    made = result(answer, Scrubber(secrets), "GET", UNTRIED)
    assert isinstance(made, Success)
    return made


@pytest.mark.parametrize(
    "kind",
    ["application/x-ndjson", "application/ndjson; charset=utf-8", "Application/JSONL", "application/x-jsonlines"],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_lines_of_json_are_a_list(kind: str, end: str) -> None:
    body = end.join(['{"a": 1}', "[2]", '"drei"', "null"]).encode()
    for whole in (body, body + end.encode()):
        made = given(kind, whole)
        assert made.data == [{"a": 1}, [2], "drei", None]
        assert not made.truncated


def test_a_sequence_of_json_texts_is_a_list() -> None:
    assert given("application/json-seq", b'\x1e{"a": 1}\n\x1e2\n').data == [{"a": 1}, 2]


@pytest.mark.parametrize(
    ("body", "items"),
    [
        (b'data: {"a": 1}\n\ndata: {"a": 2}\n\n', [{"a": 1}, {"a": 2}]),
        (b'\xef\xbb\xbfdata: {"a": 1}\r\n\r\ndata:{"a": 2}', [{"a": 1}, {"a": 2}]),
        (b": ping\n\nevent: add\nid: 7\ndata: 1\n\ndata: 2\n\n", [{"event": "add", "data": 1}, 2]),
        (b"data: one\ndata: two\n\nretry: 5\n\ndata: three\n\n", ["one\ntwo", "three"]),
        (b"event: empty\n\ndata: x\n\n", ["x"]),
        (b"", []),
        (b": nothing\n\n", []),
    ],
)
def test_events_are_a_list(body: bytes, items: Any) -> None:
    assert given("text/event-stream", body).data == items


def test_of_a_cut_answer_the_last_item_is_left_out() -> None:
    made = given("application/x-ndjson", b'{"a": 1}\n{"a": 2}\n{"a": 3', truncated=True)
    assert (made.data, made.truncated) == ([{"a": 1}, {"a": 2}], True)
    made = given("text/event-stream", b"data: 1\n\ndata: 2\n", truncated=True)
    assert (made.data, made.truncated) == ([1], True)


def test_only_so_many_items_are_given() -> None:
    made = given("application/jsonl", b"1\n" * (MAX_ITEMS + 1))
    assert (made.data, made.truncated) == ([1] * MAX_ITEMS, True)
    assert not given("application/jsonl", b"1\n" * MAX_ITEMS).truncated


def test_what_is_not_json_is_text_and_secrets_are_masked_in_each_item() -> None:
    assert given("application/x-ndjson", b"not json\nat all\n").data == "not json\nat all\n"
    assert given("application/x-ndjson", b'{"a": 1}\nnot json\n').data == [{"a": 1}, "not json"]
    secret = "sk-1234567890abcdef"
    made = given("text/event-stream", f'event: {secret}\ndata: {{"key": "{secret}"}}\n\n'.encode(), secrets=(secret,))
    assert secret not in str(made.data)
