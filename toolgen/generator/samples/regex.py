"""Text that matches a regular expression, for the expressions in descriptions: no look-around, no back-references."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

__all__ = ["UnsupportedPatternError", "matching"]

_CLASSES = {"d": "0123456789", "w": "abcdefghijklmnopqrstuvwxyz0123456789_", "s": " "}
_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_COUNT = re.compile(r"\{(\d*)(?:(,)(\d*))?\}")
_PROPERTIES = {"L": "abcdefgh", "Ll": "abcdefgh", "Lu": "ABCDEFGH", "N": "0123456789", "Nd": "0123456789"}
_MAX_REPEATS = 10_000
_MAX_LENGTH = 1_000_000  # `((a{9999}){9999}){9999}` is a short pattern
_MAX_ATOMS = 20_000
_MAX_DEPTH = 50
_FREE_REPEATS = 3  # additional repetitions of a quantifier, if they are chosen


class UnsupportedPatternError(ValueError):
    """Unsupported expression, or one that no text can match."""


def matching(pattern: str, *, length: int = 0, choose: random.Random | None = None) -> str:
    """Return a text that most likely matches `pattern`, in ECMA 262's syntax as in JSON Schema; callers check it.

    By default the simplest one, with repetitions extended towards `length` characters if allowed; with `choose`, any one, and it chooses
    every alternative, repetition and character of a set. Raises `UnsupportedPatternError`.
    """
    extra = 0
    text = _Writer(pattern, extra, choose).write()
    for _ in range(4):
        if len(text) >= length:
            break
        extra += length - len(text)
        text = _Writer(pattern, extra, choose).write()
    return text


class _Writer:
    """Writer of a text that matches an expression. `extra` repetitions are given to the first quantifier that accepts them."""

    def __init__(self, pattern: str, extra: int, choose: random.Random | None) -> None:
        self._pattern = pattern
        self._at = 0
        self._extra = extra
        self._choose = choose
        self._atoms = 0
        self._depth = 0

    def write(self) -> str:
        text = self._alternatives()
        if self._at < len(self._pattern):
            raise UnsupportedPatternError(self._pattern)
        return text

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise UnsupportedPatternError(self._pattern)
        self._at += 1
        return character

    def _alternatives(self) -> str:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise UnsupportedPatternError(self._pattern)
        options = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            options.append(self._sequence())
        self._depth -= 1
        return options[0] if self._choose is None else self._choose.choice(options)

    def _sequence(self) -> str:
        built: list[str] = []
        size = 0
        while (character := self._peek()) and character not in "|)":
            if character in "^$":
                self._at += 1
                continue
            built.append(self._repeated())
            size += len(built[-1])
            if size > _MAX_LENGTH:
                raise UnsupportedPatternError(self._pattern)
        return "".join(built)

    def _repeated(self) -> str:
        """Return an atom as often as its quantifier requires; parsed again for each repetition with a new choice."""
        start = self._at
        atom = self._atom()
        written = self._at
        low, most = self._quantifier()
        end = self._at
        if end == written:
            return atom
        if self._choose is None:
            more = min(self._extra, most - low) if atom else 0
            self._extra -= more
            if len(atom) * (low + more) > _MAX_LENGTH:
                raise UnsupportedPatternError(self._pattern)
            return atom * (low + more)
        built: list[str] = []
        for _ in range(self._choose.randint(low, min(most, low + _FREE_REPEATS))):
            self._at = start
            built.append(self._atom())
        self._at = end
        return "".join(built)

    def _atom(self) -> str:
        self._atoms += 1
        if self._atoms > _MAX_ATOMS:
            raise UnsupportedPatternError(self._pattern)
        match self._take():
            case "(":
                return self._group()
            case "[":
                return self._set()
            case "\\":
                return self._one(self._escape())
            case ".":
                return self._one("ab1-")
            case character if character in "*+?":
                raise UnsupportedPatternError(self._pattern)
            case character:
                return character

    def _one(self, members: Sequence[str]) -> str:
        return members[0] if self._choose is None else self._choose.choice(members)

    def _group(self) -> str:
        if self._peek() == "?":
            self._at += 1
            match self._take():
                case ":":
                    pass
                case "P" | "<":
                    end = self._pattern.find(">", self._at)
                    if self._peek() in "=!" or end < 0:
                        raise UnsupportedPatternError(self._pattern)
                    self._at = end + 1
                case _:
                    raise UnsupportedPatternError(self._pattern)
        inner = self._alternatives()
        if self._take() != ")":
            raise UnsupportedPatternError(self._pattern)
        return inner

    def _escape(self) -> str:
        """Return the characters of an escape, the simplest first; none for a boundary."""
        character = self._take()
        if character in _CLASSES:
            return _CLASSES[character]
        if character.lower() in _CLASSES:
            return "".join(one for one in "-a1 " if one not in _CLASSES[character.lower()])
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character in "xu":
            return self._code(2 if character == "x" else 4)
        if character in "pP":
            return self._property(character == "P")
        if character.isalnum():
            raise UnsupportedPatternError(self._pattern)
        return character

    def _code(self, digits: int) -> str:
        if self._peek() == "{":
            end = self._pattern.find("}", self._at)
            code, self._at = self._pattern[self._at + 1 : end], end + 1
        else:
            code, self._at = self._pattern[self._at : self._at + digits], self._at + digits
        try:
            return chr(int(code, 16))
        except (ValueError, OverflowError) as error:
            raise UnsupportedPatternError(self._pattern) from error

    def _property(self, negated: bool) -> str:
        end = self._pattern.find("}", self._at)
        if self._peek() != "{" or end < 0 or negated:
            raise UnsupportedPatternError(self._pattern)
        name, self._at = self._pattern[self._at + 1 : end], end + 1
        if name not in _PROPERTIES:
            raise UnsupportedPatternError(self._pattern)
        return _PROPERTIES[name]

    def _set(self) -> str:
        negated = self._peek() == "^"
        self._at += negated
        members = ""
        while (character := self._take()) != "]":
            found = self._escape() if character == "\\" else character
            if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                last = self._take()
                last = self._escape() if last == "\\" else last
                if len(found) != 1 or len(last) != 1 or last < found:
                    raise UnsupportedPatternError(self._pattern)
                found = "".join(map(chr, range(ord(found), min(ord(last), ord(found) + 127) + 1)))
            members += found
        if negated:
            members = "".join(one for one in "a1A-_ " + _PRINTABLE if one not in members)
        if not members:
            raise UnsupportedPatternError(self._pattern)
        if self._choose is not None:
            return self._choose.choice(members)
        return next((one for one in members if one.isascii() and one.isalnum()), members[0])

    def _quantifier(self) -> tuple[int, int]:
        """Return the minimum and the maximum repetitions of the last atom; once by default."""
        low, most = 1, 1
        match self._peek():
            case "*":
                low, most = 0, _MAX_REPEATS
            case "+":
                low, most = 1, _MAX_REPEATS
            case "?":
                low, most = 0, 1
            case "{":
                counted = _COUNT.match(self._pattern, self._at)
                if counted is None or not counted[1]:
                    return 1, 1
                low = int(counted[1][:6])
                most = low if counted[2] is None else int(counted[3][:6]) if counted[3] else _MAX_REPEATS
                self._at = counted.end() - 1
            case _:
                return 1, 1
        self._at += 1
        if self._peek() in ("?", "+"):  # lazy and possessive match the same texts
            self._at += 1
        if low > _MAX_REPEATS or most < low:
            raise UnsupportedPatternError(self._pattern)
        return low, most
