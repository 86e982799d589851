"""JSON in and out without failing: whatever a system answers can be read, and whatever was read can be written again.

What JSON programs cannot hold becomes text that says so, where it stood: a number beyond a double, NaN, half a surrogate pair, a value
nested without end. A call that was carried out is never lost because its answer could not be written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson

__all__ = ["MAX_DEPTH", "as_text", "carried", "closed", "decode_json", "deeper_than", "encode_json", "without_half"]

MAX_DEPTH = 200
_MANY_DIGITS = b"0" * 19
_DIGITS_ALIKE = bytes(0x30 if 0x30 <= code <= 0x39 else 0x78 for code in range(256))
_MAX_DIGITS = 300  # what a double holds, as which most programs read integers; Python itself converts 4300
_SHOWN = 40
_UTF8_MARK = b"\xef\xbb\xbf"
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_CLOSING = bytes.maketrans(b"[{", b"]}")


def decode_json(body: bytes) -> Any:
    """The value of a JSON text. Raises `ValueError` for what is none, also for one nested too deeply to be read.

    Of members that stand twice the last counts. Integers are exact; a number that has no value in JSON programs is text.
    """
    body = body.removeprefix(_UTF8_MARK)
    if _MANY_DIGITS not in body.translate(_DIGITS_ALIKE):  # orjson would round an integer beyond 64 bits
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass  # a number beyond a double, half a surrogate pair, NaN; or no JSON at all
    try:
        text = body.decode(
            json.detect_encoding(body)
        )  # strictly: by itself it would let halves of surrogate pairs through
        return json.loads(text, parse_float=_float, parse_int=_int, parse_constant=as_text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def deeper_than(body: bytes, limit: int) -> bool:
    """Whether a JSON text is nested more than `limit` levels deep. Programs differ in how deep they read, and so do versions of Python.

    Peels the innermost brackets off, one level a round, without ever recursing: at most `limit` passes at the speed of C.
    """
    if body.count(b"[") + body.count(b"{") <= limit:
        return False
    brackets = _STRING.sub(b"", body).translate(_TO_SQUARE, _NOT_BRACKETS)
    for _ in range(limit):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def closed(body: bytes) -> tuple[bytes, int] | None:
    """The body up to its last comma outside of a text, its open brackets closed, and how many those were; None where there is none.

    What stands before such a comma is complete by JSON's grammar. All of it goes by at the speed of C: no body can be made to be slow.
    """
    parts = (
        body.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
    )  # every quote left is a delimiter: every other part is a text
    last = next((at for at in range((len(parts) - 1) & ~1, -1, -2) if b"," in parts[at]), None)
    if last is None:
        return None
    comma = parts[last].rfind(b",")
    end = sum(map(len, parts[:last])) + last + comma
    outside = b"".join(parts[0:last:2]) + parts[last][:comma]
    open_ = outside.translate(None, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        peeled = open_.replace(b"[]", b"").replace(b"{}", b"")
        if len(peeled) == len(open_):
            break
        open_ = peeled
    if len(open_) > MAX_DEPTH:
        return None
    return body[:end] + open_[::-1].translate(_CLOSING), len(open_)


def without_half(value: Any, open_: int) -> Any:
    """The value that was closed, without the element of its outermost list that is only half there, if another is left in it."""
    container = value
    for _ in range(open_ - 1):
        if isinstance(container, list):
            if len(container) > 1:
                del container[-1]
                break
            container = container[-1] if container else None
        elif isinstance(container, dict) and container:
            container = container[next(reversed(container))]
        else:
            break
    return value


def encode_json(value: object, default: Callable[[Any], Any] | None = None) -> bytes:
    """Compact JSON of any value that is made of what JSON has, and of what `default` makes of the rest. Raises `TypeError` for others."""
    try:
        return orjson.dumps(value, default=default)
    except (
        TypeError
    ):  # integers beyond 64 bits, halves of surrogate pairs, more levels than orjson takes; or no JSON at all
        return json.dumps(carried(value, default), separators=(",", ":"), allow_nan=False).encode("ascii")


def carried(value: object, default: Callable[[Any], Any] | None = None, depth: int = 0) -> Any:
    """A copy of a value that every JSON program can be given."""
    match value:
        case bool() | None:
            return value
        case str():
            return _whole(value)
        case int():
            return int(value) if -(10**_MAX_DIGITS) < value < 10**_MAX_DIGITS else as_text(hex(value))
        case float():
            return value if math.isfinite(value) else as_text(repr(value))
        case Mapping() | list() | tuple() if depth > MAX_DEPTH:
            return f"(nested more than {MAX_DEPTH} levels deep)"
        case Mapping():
            return {_whole(str(name)): carried(item, default, depth + 1) for name, item in value.items()}
        case list() | tuple():
            return [carried(item, default, depth + 1) for item in value]
    if default is None:
        raise TypeError(type(value).__name__)
    return carried(default(value), default, depth + 1)


def as_text(number: str) -> str:
    """A number that JSON has no form for, or no program a value, as text."""
    shown = number if len(number) <= _SHOWN else f"{number[:_SHOWN]}…, {len(number)} characters"
    return f"{shown} (a number that JSON cannot carry)"


def _float(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else as_text(text)


def _int(text: str) -> int | str:
    return int(text) if len(text) <= _MAX_DIGITS else as_text(text)


def _whole(text: str) -> str:
    """Text with halves of surrogate pairs spelled out (`\\ud800`)."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
