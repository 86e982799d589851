"""Cursors: how the answer to an ordered query says where the next page begins, and how that comes back.

A cursor is the number of rows that were read before it and a digest of statement and parameters, so that it is good for the same question
alone. It carries no right: the guard checks the statement again, and only adds to its OFFSET.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolgen.canonical import digest
from toolgen.model.schema import Json
from toolgen.policy.sql.refusal import refuse

__all__ = ["page_of", "skipped", "text_digest"]

_DIGITS = 16
_CURSOR = re.compile(r"[1-9][0-9]{0,11}-[0-9a-f]{16}")


def page_of(text: str, parameters: Sequence[Json]) -> str:
    """What cursors of a statement end with, of the digest of its text; a cursor is `{rows}-{page}`."""
    return digest([text, *parameters]).removeprefix("sha256:")[:_DIGITS] if parameters else text[:_DIGITS]


def text_digest(sql: str) -> str:
    """The digest of a statement's text, of which its cursors are made: kept with its plan."""
    return digest(sql).removeprefix("sha256:")


def skipped(cursor: str, sql: str, parameters: Sequence[Json]) -> int:
    """How many rows a cursor stands behind; 0 for none. Raises `Refusal` for one that is not of this statement."""
    if not cursor:
        return 0
    rows, _, page = cursor.partition("-")
    if not _CURSOR.fullmatch(cursor) or page != page_of(text_digest(sql), parameters):
        refuse(
            "cursor",
            "the cursor is not one of this statement with these parameters",
            "send statement and parameters as they were, with next_cursor of their last answer",
        )
    return int(rows)
