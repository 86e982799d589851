"""A text that a regular expression matches: enough of ECMA-262's grammar for the patterns that descriptions write."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["UnreadablePatternError", "matching"]

_MOST_REPEATS: Final = 3
_DEEPEST: Final = 20
_MOST_ATOMS: Final = 20_000  # `((a{999}){999}){999}` is a short pattern
_CLASSES: Final = {"d": "0123456789", "w": "abcXYZ019_", "s": " ", "D": "ab-", "W": "- .", "S": "ab1-"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_ANY: Final = "ab1-"
_PRINTABLE: Final = "".join(map(chr, range(32, 127)))


class UnreadablePatternError(Exception):
    """A pattern that holds what this generator does not know: a lookaround, a back reference, a Unicode property."""


def matching(pattern: str, choose: random.Random) -> str:
    """A text that the pattern most likely matches; callers check. Raises `UnreadablePatternError`."""
    reader = _Reader(pattern, choose)
    text = reader.alternatives(0)
    if reader.at < len(pattern):
        raise UnreadablePatternError(pattern)
    return text


class _Reader:
    """Reads a pattern from left to right and writes the text as it goes."""

    def __init__(self, pattern: str, choose: random.Random) -> None:
        self._pattern = pattern
        self._choose = choose
        self._atoms = 0
        self.at = 0

    def _peek(self) -> str:
        return self._pattern[self.at : self.at + 1]

    def _next(self) -> str:
        if self.at >= len(self._pattern):
            raise UnreadablePatternError(self._pattern)
        self.at += 1
        return self._pattern[self.at - 1]

    def alternatives(self, depth: int) -> str:
        if depth > _DEEPEST:
            raise UnreadablePatternError(self._pattern)
        options = [self._sequence(depth)]
        while self._peek() == "|":
            self.at += 1
            options.append(self._sequence(depth))
        return self._choose.choice(options)

    def _sequence(self, depth: int) -> str:
        written: list[str] = []
        while self._peek() not in {"", "|", ")"}:
            start = self.at
            atom = self._atom(depth)
            after = self.at
            least, most = self._quantifier()
            end = self.at
            if end == after:
                written.append(atom)
                continue
            for _ in range(self._choose.randint(least, min(most, least + _MOST_REPEATS))):
                self.at = start  # read again, so that each repetition is chosen anew
                written.append(self._atom(depth))
            self.at = end
        return "".join(written)

    def _atom(self, depth: int) -> str:
        self._atoms += 1
        if self._atoms > _MOST_ATOMS:
            raise UnreadablePatternError(self._pattern)
        match self._next():
            case "^" | "$":
                return ""
            case ".":
                return self._choose.choice(_ANY)
            case "(":
                self._group()
                text = self.alternatives(depth + 1)
                if self._next() != ")":
                    raise UnreadablePatternError(self._pattern)
                return text
            case "[":
                return self._choose.choice(self._class())
            case "\\":
                return self._choose.choice(self._escape())
            case plain:
                return plain

    def _group(self) -> None:
        if self._peek() != "?":
            return
        self.at += 1
        kind = self._next()
        if (kind == "<" and self._peek() not in {"=", "!"}) or (kind == "P" and self._peek() == "<"):
            while self._next() != ">":
                pass
        elif kind != ":":
            raise UnreadablePatternError(self._pattern)

    def _escape(self) -> str:
        """The characters an escape stands for."""
        kind = self._next()
        if kind in _CLASSES:
            return _CLASSES[kind]
        if kind in {"x", "u"}:
            length = 2 if kind == "x" else 4
            digits = self._pattern[self.at : self.at + length]
            self.at += length
            try:
                return chr(int(digits, 16))
            except ValueError as error:
                raise UnreadablePatternError(self._pattern) from error
        if kind in "bBkpPAZz" or kind in "123456789":
            raise UnreadablePatternError(self._pattern)
        return _ESCAPES.get(kind, kind)

    def _class(self) -> str:
        negated = self._peek() == "^"
        if negated:
            self.at += 1
        members: list[str] = []
        while (character := self._next()) != "]":
            options = self._escape() if character == "\\" else character
            if len(options) == 1 and self._peek() == "-" and self._pattern[self.at + 1 : self.at + 2] not in {"]", ""}:
                self.at += 1
                last = self._next()
                last = self._escape()[-1] if last == "\\" else last
                span = min(ord(last) - ord(options), 300)
                members.extend(chr(ord(options) + step) for step in range(span + 1))
            else:
                members.extend(options)
        if negated:
            members = [one for one in _PRINTABLE if one not in set(members)]
        if not members:
            raise UnreadablePatternError(self._pattern)
        return "".join(members)

    def _quantifier(self) -> tuple[int, int]:
        start = self.at
        bounds: tuple[int, int] | None = {"*": (0, 99), "+": (1, 99), "?": (0, 1)}.get(self._peek())
        if bounds is not None:
            self.at += 1
        elif self._peek() == "{":
            closing = self._pattern.find("}", self.at)
            low, comma, high = self._pattern[self.at + 1 : max(closing, self.at + 1)].partition(",")
            if low.isdigit() and (high.isdigit() or not high):
                self.at = closing + 1
                bounds = (int(low), int(high) if high else (99 if comma else int(low)))
        if bounds is None or bounds[0] > 2000:
            self.at = start
            return 1, 1
        if self._peek() in {"?", "+"}:
            self.at += 1
        return bounds
