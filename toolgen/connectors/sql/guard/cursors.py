"""Cursors of paginated statements, such as `100-3f2a…`: the number of rows already read, and a digest of statement and parameters.

The digest limits a cursor to its own statement. A cursor grants no access: the guard checks the statement again, and only raises its
OFFSET.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.core.canonical import digest
from toolgen.model.schema import Json

__all__ = ["page_of", "skipped", "text_digest"]

_DIGITS = 16
_CURSOR = re.compile(r"[1-9][0-9]{0,11}-[0-9a-f]{16}")


def page_of(text: str, parameters: Sequence[Json]) -> str:
    """Return the suffix of a statement's cursors, from the digest of its text; a cursor is `{rows}-{page}`."""
    return digest([text, *parameters]).removeprefix("sha256:")[:_DIGITS] if parameters else text[:_DIGITS]


def text_digest(sql: str) -> str:
    """Return the digest of a statement's text for its cursors, which is stored with its plan."""
    return digest(sql).removeprefix("sha256:")


def skipped(cursor: str, sql: str, parameters: Sequence[Json]) -> int:
    """Return the number of rows before a cursor; 0 for none. Raises `StatementRefusal` for a cursor of another statement."""
    if not cursor:
        return 0
    rows, _, page = cursor.partition("-")
    if not _CURSOR.fullmatch(cursor) or page != page_of(text_digest(sql), parameters):
        refuse(
            "cursor",
            "the cursor does not belong to this statement with these parameters",
            "send the same statement and parameters, with next_cursor of their last answer",
        )
    return int(rows)
