"""Patterns of LIKE that are prefixes: `path LIKE parent || '%'`.

An engine searches each part of a pattern between two `%` in the complete text. A pattern whose only sign is a `%` at its end is compared
from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.dialects.record import words
from toolgen.connectors.sql.guard.bounds import bare, called_name
from toolgen.connectors.sql.guard.placeholders import slot_number

__all__ = ["WILD", "beginning", "keeps_signs"]

WILD: Final = "%_\\"
"""Wildcards and escape of LIKE."""
_KEEPING: Final = words(
    """
    btrim coalesce concat concat_ws ifnull initcap lcase left lower lpad ltrim max min nullif reverse right rpad rtrim substr substring
    trim ucase upper
    """
)
"""Functions whose result has only characters of their arguments, except for case and spaces."""
_UNREADABLE: Final = (exp.HexString, exp.BitString, exp.ByteString, exp.RawString)


def keeps_signs(node: exp.Expr) -> bool:
    """Return True if a value has no sign of LIKE unless its inputs have one."""
    return not isinstance(node, _UNREADABLE) and (not isinstance(node, exp.Anonymous) or called_name(node) in _KEEPING)


def beginning(node: exp.Expr) -> Sequence[exp.Column]:
    """Return the columns of a pattern of columns, texts without signs and a `%` at the end; () for any other."""
    if not isinstance(node, (exp.Like, exp.ILike)):
        return ()
    *parts, last = _parts(node.expression)
    if not (isinstance(last, exp.Literal) and last.is_string and last.name.endswith("%") and parts):
        return ()
    columns = [part for part in parts if isinstance(part, exp.Column) and slot_number(part) is None]
    texts = [part.name for part in parts if isinstance(part, exp.Literal)]
    signs = any(sign in text for text in (*texts, last.name.rstrip("%")) for sign in WILD)
    return () if signs or len(columns) + len(texts) < len(parts) else columns


def _parts(node: exp.Expr | None) -> list[exp.Expr]:
    inner = bare(node)
    match inner:
        case exp.DPipe():
            return [*_parts(inner.this), *_parts(inner.expression)]
        case exp.Anonymous() if called_name(inner) == "concat":
            return [part for argument in inner.expressions for part in _parts(argument)]
    return [inner] if inner is not None else []
