"""Pieces of an answer that are kept for those who follow a call."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from toolgen.gateway.operations.call_reports import CallReports
from toolgen.pipeline.middleware import CallerConnection

CODED = base64.b64encode(b"\0" + random.Random(1).randbytes(5_000)).decode()
NOTE = "the whole answer has its URI"
PLACE = {"resource": {"media_type": "application/octet-stream", "size": 5_001, "note": NOTE}}


@pytest.mark.parametrize(
    ("piece", "kept"),
    [
        (CODED, PLACE),
        ({"n": 1, "blobs": [CODED]}, {"n": 1, "blobs": [PLACE]}),
        ({"base64": CODED, "media_type": "application/octet-stream"}, PLACE),
        (f"see {CODED}!", f"see [File (application/octet-stream, 5001 bytes): {NOTE}]!"),
        ({"text": "word " * 1_000}, {"text": "word " * 1_000}),
        ([1, None], [1, None]),
    ],
)
def test_a_piece_holds_no_file_in_base64(piece: Any, kept: Any) -> None:
    reports = CallReports(CallerConnection())
    before = json.dumps(piece)
    reports.partial(piece)
    assert (reports.count, reports.parts) == (1, [kept])
    assert json.dumps(piece) == before


def test_only_so_much_is_kept_of_pieces() -> None:
    reports = CallReports(CallerConnection())
    reports.partial("word " * 20_000)
    assert reports.count == 0
    for number in range(60):
        reports.partial(number)
    assert (reports.count, reports.parts) == (60, [*range(10, 60)])
