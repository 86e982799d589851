"""Romanization of names: providers and MCP accept only ASCII, and descriptions have names in every script."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from toolgen.model.excerpt import bounded

__all__ = ["romanized", "with_original"]

_JUNCTION = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MARKS = re.compile(r"['`\"]")
_MAX_LENGTH = 200


@lru_cache(maxsize=4_096)
def romanized(text: str) -> str:
    """Return the text in ASCII: accents and diacritics are removed, other scripts are transliterated, and other characters become spaces.

    Words of scripts without upper and lower case are joined by underscores, because their transliteration has no spaces.
    """
    if text.isascii():
        return text
    from anyascii import anyascii  # noqa: PLC0415 - tables of all scripts, which few descriptions need

    return "".join(_part(part, anyascii(part)) for part in re.split(r"([\x00-\x7f]+)", text))


def _part(own: str, latin: str) -> str:
    if own.isascii():
        return own
    latin = _MARKS.sub("", latin)
    if own.upper() == own.lower():  # a script without case: `氏名` becomes ShiMing
        return _JUNCTION.sub("_", latin).lower()
    return latin


def with_original(schema: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the schema of an argument, with its name in the described system in its description."""
    said = f'The name in the API is "{bounded(name, _MAX_LENGTH)}".'
    text = str(schema.get("description", "")).strip()
    if "$ref" in schema:
        return {"allOf": [dict(schema)], "description": said}
    return {**schema, "description": f"{text} {said}" if text else said}
