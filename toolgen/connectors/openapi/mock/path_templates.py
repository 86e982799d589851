"""Path templates, matched in time linear in the path. A regular expression with several variables would backtrack without end."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

__all__ = ["PathTemplate"]

_VARIABLE = re.compile(r"\{([^{}/?#]*)\}")


class PathTemplate:
    """Path such as `/pets/{id}.{format}`. The template and the matched path are still percent-encoded."""

    def __init__(self, text: str) -> None:
        self.names: tuple[str, ...] = tuple(_VARIABLE.findall(text))
        # The odd parts are names of variables.
        self._segments = tuple(tuple(_VARIABLE.split(segment)[::2]) for segment in text.split("/"))

    def match(self, path: str) -> Mapping[str, str] | None:
        """Return the values of the path variables; None for another path. An earlier variable takes as much as it can."""
        given = path.split("/")
        if len(given) != len(self._segments):
            return None
        values: list[str] = []
        for literals, text in zip(self._segments, given, strict=True):
            found = _between(literals, text)
            if found is None:
                return None
            values += found
        return dict(zip(self.names, values, strict=True))


def _between(literals: Sequence[str], text: str) -> list[str] | None:
    """Return the texts between literals, none of them empty. Each literal is searched from the right, so none is searched twice."""
    if len(literals) == 1:
        return [] if text == literals[0] else None
    first, *inner, last = literals
    if not text.startswith(first) or not text.endswith(last):
        return None
    end, values = len(text) - len(last), []
    for literal in reversed(inner):
        at = text.rfind(literal, len(first) + 1, end - 1)
        if at < 0:
            return None
        values.append(text[at + len(literal) : end])
        end = at
    if end <= len(first):
        return None
    return [text[len(first) : end], *reversed(values)]
