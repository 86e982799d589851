r"""Tokens for values in answers (`<email:1>`), and texts that only look like a token, which get a backslash (`<\email:1>`).

Within the gateway a token has another form, which no service knows and none can compose from parts:

- A mark (`<email:1~…>`) is a token in a text that the gateway is still processing. It contains a random word of this process.
- A signed token (`<email:1…>`, with 17 more digits) is the form for workflows, code and functions, in answers to their calls and in
  their arguments. The digits are a MAC over the owner of the session, the kind and the number.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

__all__ = ["KIND", "Signer", "TokenMatch", "Tokens", "blanked", "mark", "mark_spans", "unmarked"]

KIND = re.compile(r"[a-z][a-z0-9_]{0,31}\Z")
"""Pattern of the names of kinds of tokens."""
_WORD = "".join(
    secrets.choice("ghjkmnpqrstvwxyz") for _ in range(20)
)  # neither digits nor hex, so that no detector takes it for a value
_MARK = re.compile(rf"<([a-z][a-z0-9_]{{0,31}}):([1-9][0-9]{{0,8}})~{_WORD}>")
_DIGITS = 17


class TokenMatch(Struct, frozen=True):
    """Token in a text."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"<{self.kind}:{self.number}>"


def mark(token: str) -> str:
    """Return the mark for a token; a replacement that is no token (`[email]`) is not changed."""
    return f"{token[:-1]}~{_WORD}>" if token.startswith("<") else token


def mark_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each mark in a text."""
    return [one.span() for one in _MARK.finditer(text)] if _WORD in text else []


def blanked(text: str) -> str:
    """Return the text for detectors: each mark is replaced by as many line ends, so that detectors do not join a token with its
    surroundings."""
    return _MARK.sub(lambda one: "\n" * len(one[0]), text) if _WORD in text else text


def unmarked(text: str) -> str:
    """Return the text with tokens in place of marks."""
    return _MARK.sub(r"<\1:\2>", text) if _WORD in text else text


class Signer:
    """Signer of the tokens of one session of a principal and of the user it acts for."""

    def __init__(self, key: bytes, parties: Sequence[str], session: str) -> None:
        about = json.dumps(["value token", list(parties), session]).encode()
        self._key = hmac.new(key, about, hashlib.sha256).digest()

    def signed(self, kind: str, number: int | str) -> str:
        """Return the signed form of a token."""
        return f"<{kind}:{number}{self._digits(kind, str(number))}>"

    def accepts(self, kind: str, number: str, digits: str) -> bool:
        """Return True if these digits are the MAC of this token."""
        return hmac.compare_digest(digits, self._digits(kind, number))

    def _digits(self, kind: str, number: str) -> str:
        digest = hmac.new(self._key, f"{kind}:{number}".encode(), hashlib.sha256).digest()
        return f"{int.from_bytes(digest, 'big') % 10**_DIGITS:0{_DIGITS}d}"


class Tokens:
    """Tokens of some kinds. They have one notation: lower case, without spaces, and without leading zeros."""

    def __init__(self, kinds: Iterable[str]) -> None:
        self.kinds = frozenset(kinds)
        names = "|".join(sorted(self.kinds, key=lambda kind: (-len(kind), kind)))
        self._form = re.compile(rf"<(\\*)({names}):([1-9][0-9]{{0,8}})>")
        self._signed = re.compile(rf"<({names}):([1-9][0-9]{{0,8}})([0-9]{{{_DIGITS}}})>")

    def escaped(self, text: str) -> str:
        """Escape a text of foreign origin, so that no part of it is a token."""
        return self._form.sub(lambda found: f"<\\{found[1]}{found[2]}:{found[3]}>", text) if "<" in text else text

    def found(self, text: str, signer: Signer | None = None) -> list[TokenMatch]:
        """Return the tokens in a text, each as often as it occurs; with a signer only the signed ones."""
        if "<" not in text:
            return []
        if signer is not None:
            return [
                TokenMatch(one[1], int(one[2])) for one in self._signed.finditer(text) if signer.accepts(*one.groups())
            ]
        return [TokenMatch(one[2], int(one[3])) for one in self._form.finditer(text) if not one[1]]

    def replaced(self, text: str, values: Mapping[TokenMatch, str], signer: Signer | None = None) -> str:
        """Return the text with values in place of its tokens, and one backslash less before texts that are no token. Values are inserted
        unchanged.

        With a signer only signed tokens are replaced.
        """
        if "<" not in text:
            return text
        if signer is not None:
            return self._each_signed(text, signer, lambda kind, number: values[TokenMatch(kind, int(number))])

        def put(one: re.Match[str]) -> str:
            return f"<{one[1][1:]}{one[2]}:{one[3]}>" if one[1] else values[TokenMatch(one[2], int(one[3]))]

        return self._form.sub(put, text)

    def inward(self, text: str, signer: Signer) -> str:
        """Return an answer, or a caller's argument, in the form for workflows and code: tokens signed, and one backslash less before texts
        that are no token.

        Text of a service that looks like a signed token gets a backslash, so that it is none.
        """
        if "<" not in text:
            return text
        text = self._signed.sub(lambda one: f"<\\{one[0][1:]}", text)
        return self._form.sub(
            lambda one: f"<{one[1][1:]}{one[2]}:{one[3]}>" if one[1] else signer.signed(one[2], one[3]), text
        )

    def signed_source(self, text: str, signer: Signer) -> str:
        """Return the source code of a caller with its tokens signed, and without other changes: backslashes have a meaning in code."""
        return self._form.sub(lambda one: one[0] if one[1] else signer.signed(one[2], one[3]), text)

    def outward(self, text: str, signer: Signer) -> str:
        """Return the reverse of `inward`: plain tokens for the signed ones, and a backslash in texts that only look like one."""
        return unmarked(self.escaped(self.marked(text, signer))) if "<" in text else text

    def marked(self, text: str, signer: Signer) -> str:
        """Return the text with marks in place of signed tokens."""
        return self._each_signed(text, signer, lambda kind, number: mark(f"<{kind}:{number}>"))

    def plain(self, text: str, signer: Signer) -> str:
        """Return the text with signed tokens replaced by their plain form, as callers write it; they then have no special meaning."""
        return self._each_signed(text, signer, lambda kind, number: f"<{kind}:{number}>")

    def _each_signed(self, text: str, signer: Signer, change: Callable[[str, str], str]) -> str:
        if "<" not in text:
            return text
        return self._signed.sub(
            lambda one: change(one[1], one[2]) if signer.accepts(one[1], one[2], one[3]) else one[0], text
        )
