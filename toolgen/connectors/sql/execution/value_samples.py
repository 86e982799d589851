"""Samples of a table's values: their shapes, or complete values only if the policy allows it and several rows share each value."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Any, Final

from msgspec.structs import replace

from toolgen.model.call import Sampling
from toolgen.model.result import Success
from toolgen.model.schema import Json

__all__ = ["shape", "with_samples"]

_MAX_LENGTH: Final = 24  # characters of a shape
_MAX_SHAPES: Final = 3
_MAX_VALUES: Final = 8
_SHARED_BY: Final = 3  # minimum rows of a value: a rarer value may be about one of the rows
_MAX_VALUE_LENGTH: Final = 64


def with_samples(described: Success, read: Success, sampling: Sampling) -> Success:
    """Return the description of a table with `samples` at each column that was read and has a value."""
    table: Any = described.data
    rows: Any = read.data
    samples: dict[str, list[Json]] = {}
    types = {column["name"]: "enum" if "values" in column else column["type"] for column in table["columns"]}
    for place, name in enumerate(sampling.columns):
        values = [text for row in rows["rows"] if (text := _text(row[place])) is not None]
        if values and (shown := _shown(values, sampling.shows, types.get(name, ""))):
            samples[name] = [*shown]
    columns = [
        {**column, "samples": samples[column["name"]]} if column["name"] in samples else column
        for column in table["columns"]
    ]
    delivery = replace(described.delivery, sql=read.delivery.sql, bytes=read.delivery.bytes)
    return replace(described, data={**table, "columns": columns}, delivery=delivery)


def shape(text: str) -> str:
    """Return the shape of a text: letters as a and A, digits as 9, ASCII punctuation and spaces unchanged, others as ?; cut at 24
    characters.
    """
    cut = text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1]
    return "".join(map(_kind, cut)) + ("…" if len(cut) < len(text) else "")


def _kind(character: str) -> str:
    match unicodedata.category(character)[0]:
        case "L":
            return "A" if character.isupper() else "a"
        case "N":
            return "9"
        case "P" | "S" | "Z" if character.isascii():
            return character
        case _:
            return "?"


def _text(value: Json) -> str | None:
    """Return a scalar as text, or None for null, documents and bytes, which have no shape."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            return None


_SAYS_ITSELF: Final = re.compile(
    r"(big|small|tiny|medium|u|huge)?(int|serial)|numeric|decimal|float|double|real|money|date|time|bool|uuid|enum|year",
    re.IGNORECASE,
)


def _shown(values: list[str], shows: str, kind: str) -> list[str]:
    counted = Counter(values)
    if (
        shows == "values"
        and len(counted) <= _MAX_VALUES
        and min(counted.values()) >= _SHARED_BY
        and max(map(len, counted)) <= _MAX_VALUE_LENGTH
    ):
        return [value for value, _ in counted.most_common()]
    if counted.keys() <= {"true", "false"}:
        return []  # the length of these shapes would reveal their value
    if _SAYS_ITSELF.match(kind):
        return []  # 9999-99-99 adds nothing to the type
    return [text for text, _ in Counter(map(shape, values)).most_common(_MAX_SHAPES)]
