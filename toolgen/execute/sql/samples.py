"""What is shown of a table's values: their shapes, and whole values only where the policy says so and many rows share each."""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import replace
from typing import Any, Final

from toolgen.model.call import Sampling
from toolgen.model.result import Success
from toolgen.model.schema import Json

__all__ = ["shape", "with_samples"]

_LONGEST: Final = 24  # characters of a shape
_MOST_SHAPES: Final = 3
_MOST_VALUES: Final = 8
_SHARED_BY: Final = 3  # rows, at least: a value that fewer have may be about one of them
_LONGEST_VALUE: Final = 64


def with_samples(described: Success, read: Success, sampling: Sampling) -> Success:
    """The description of a table with `samples` at each column that was read and has a value."""
    table: Any = described.data
    rows: Any = read.data
    samples: dict[str, list[Json]] = {}
    for place, name in enumerate(sampling.columns):
        values = [text for row in rows["rows"] if (text := _text(row[place])) is not None]
        if values and (shown := _shown(values, sampling.shows)):
            samples[name] = [*shown]
    columns = [
        {**column, "samples": samples[column["name"]]} if column["name"] in samples else column
        for column in table["columns"]
    ]
    facts = {**described.facts, **{key: read.facts[key] for key in ("sql", "bytes") if key in read.facts}}
    return replace(described, data={**table, "columns": columns}, facts=facts)


def shape(text: str) -> str:
    """Letters as a and A, digits as 9, ASCII punctuation and spaces as they are, anything else as ?; cut at 24 characters."""
    cut = text if len(text) <= _LONGEST else text[: _LONGEST - 1]
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
    """A scalar as text. Null says nothing of a shape; a document or bytes have none."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            return None


def _shown(values: list[str], shows: str) -> list[str]:
    counted = Counter(values)
    if (
        shows == "values"
        and len(counted) <= _MOST_VALUES
        and min(counted.values()) >= _SHARED_BY
        and max(map(len, counted)) <= _LONGEST_VALUE
    ):
        return [value for value, _ in counted.most_common()]
    if counted.keys() <= {"true", "false"}:
        return []  # the length of these shapes would be their value
    return [text for text, _ in Counter(map(shape, values)).most_common(_MOST_SHAPES)]
