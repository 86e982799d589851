r"""Tokens that stand in answers for values (`<email:1>`), and texts that only look like one, which get a backslash (`<\email:1>`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

__all__ = ["KIND", "Found", "Tokens"]

KIND = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
"""What a kind is called that tokens are made of."""


class Found(Struct, frozen=True):
    """A token as it stands in a text."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"<{self.kind}:{self.number}>"


class Tokens:
    """The tokens of some kinds. They are written in one way alone: in lower case, without spaces, and without zeros in front."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self.kinds = frozenset(kinds)
        names = "|".join(sorted(self.kinds, key=lambda kind: (-len(kind), kind)))
        self._form = re.compile(rf"<(\\*)({names}):([1-9][0-9]{{0,8}})>")

    def stand(self, text: str) -> bool:
        """Whether a text holds a token, or what looks like one."""
        return "<" in text and self._form.search(text) is not None

    def escaped(self, text: str) -> str:
        """What somebody else wrote, so that nothing in it is a token."""
        return self._form.sub(lambda found: f"<\\{found[1]}{found[2]}:{found[3]}>", text) if "<" in text else text

    def found(self, text: str) -> list[Found]:
        """The tokens in a text, each as often as it stands there."""
        if "<" not in text:
            return []
        return [Found(one[2], int(one[3])) for one in self._form.finditer(text) if not one[1]]

    def replaced(self, text: str, values: Mapping[Found, str]) -> str:
        """The text with values in place of its tokens, and one backslash less before what is none. Values are put in as they are."""
        if "<" not in text:
            return text

        def put(one: re.Match[str]) -> str:
            return f"<{one[1][1:]}{one[2]}:{one[3]}>" if one[1] else values[Found(one[2], int(one[3]))]

        return self._form.sub(put, text)
