"""JSON decoding and encoding without loss: every value of an answer can be read, and every value that was read can be written.

Values that JSON programs cannot represent become descriptive text: a number beyond a double, NaN, an unpaired surrogate. A value nested
more than `MAX_DEPTH` levels deep is refused with `TooDeepError`, before it reaches a decoder.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

__all__ = [
    "FRAMED_DEPTH",
    "MAX_DEPTH",
    "PART",
    "TooDeepError",
    "as_text",
    "carried",
    "closed",
    "decode_json",
    "decode_json_in_turns",
    "deeper_than",
    "encode_json",
    "file_json",
    "indented_json",
    "value_json",
    "with_integers",
    "without_half",
]

MAX_DEPTH: Final = 64
"""Maximum levels of lists and objects in any value from outside or from a tool."""
FRAMED_DEPTH: Final = MAX_DEPTH + 16
"""Maximum levels of toolgen's own message with such a value."""

PART: Final = 131_072
"""Bytes of JSON that are decoded before the event loop runs other tasks (`decode_json_in_turns`)."""

# digits of an integer: a double has that many, and most programs read integers as doubles; Python itself converts 4300
_MAX_DIGITS = 300
_MANY_DIGITS = b"0" * (_MAX_DIGITS + 1)
_DIGITS_ALIKE = bytes(0x30 if 0x30 <= code <= 0x39 else 0x78 for code in range(256))
_SHOWN = 40
_EXACT = 2**53
_UTF8_MARK = b"\xef\xbb\xbf"
_BLANK = b" \t\r\n\x00\xff\xfe"  # ASCII with the additional bytes of UTF-16 and UTF-32
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_NOT_NESTING = bytes(code for code in range(256) if code not in b'[]{}"')
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_CLOSING = bytes.maketrans(b"[{", b"]}")
_SMALL = 2048  # bytes in which two counts are faster than one translation
_PIECE = 12  # brackets that are looked up together: 4096 patterns at most
_ESCAPED = re.compile(rb'\\["\\]')
_DIGITS_AS_ZERO = bytes(0x30 if 0x30 <= code <= 0x39 else code for code in range(256))
_EXPONENT = re.compile(
    rb"0e0++(?:[,\]}]|\Z)"
)  # exponent of a number, or of a text like one, with all digits as 0; a pattern that begins with a literal is fast
_POSITIVE_EXPONENT = re.compile(rb'"(?:[^"\\]++|\\.)*+"|([0-9])e(?=[0-9])', re.DOTALL)

Turn: TypeAlias = Callable[[], Awaitable[object]]
_decode = msgspec.json.Decoder().decode
_split_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_split_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


class TooDeepError(ValueError):
    """Value nested more than `MAX_DEPTH` levels deep."""

    def __init__(self) -> None:
        super().__init__(f"nested more than {MAX_DEPTH} levels deep")


def decode_json(body: bytes, limit: int = MAX_DEPTH) -> Any:
    """Return the value of a JSON text. Raises `TooDeepError` for more than `limit` levels and `ValueError` for text that is not JSON.

    The last of several members with one name counts. Integers are exact; a number without a value in JSON programs is text.
    """
    body = body.removeprefix(_UTF8_MARK)
    if deeper_than(body, limit):
        raise _too_deep(body)
    if len(body) <= _MAX_DIGITS or _MANY_DIGITS not in body.translate(_DIGITS_ALIKE):
        try:
            return _decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # a number beyond a double, an unpaired surrogate, NaN, another encoding; or not JSON
    # Strict: `json` accepts unpaired surrogates.
    text = body.decode(json.detect_encoding(body))
    if deeper_than(text.encode(), limit):
        raise _too_deep(text.encode())
    try:
        return json.loads(text, parse_float=_float, parse_int=_int, parse_constant=as_text)
    except RecursionError as error:  # of invalid JSON: without matching quotes the count is not exact
        raise TooDeepError from error


async def decode_json_in_turns(body: bytes, turn: Turn) -> Any:
    """Decode a long text like `decode_json`, part by part. Awaits `turn`, which lets other tasks run, before each part of `PART` bytes."""
    body = body.removeprefix(_UTF8_MARK)
    if len(body) > PART and not deeper_than(body, MAX_DEPTH) and _MANY_DIGITS not in body.translate(_DIGITS_ALIKE):
        try:
            return await _decoded_in_turns(body, turn)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    return decode_json(body)


async def _decoded_in_turns(body: bytes, turn: Turn) -> Any:
    await turn()
    first = body.lstrip()[:1] if len(body) > PART else b""
    if first == b"[":
        return await _values(_split_list(body), len(body), turn)
    if first == b"{":
        members = _split_object(body)
        return dict(zip(members, await _values(list(members.values()), len(body), turn), strict=True))
    return _decode(body)


async def _values(items: list[msgspec.Raw], size: int, turn: Turn) -> list[Any]:
    """Return the values of JSON texts with this total size, decoding about `PART` bytes at a time."""
    values: list[Any] = []
    run = max(1, len(items) * PART // size)
    for at in range(0, len(items), run):
        part = items[at : at + run]
        joined = b"[%b]" % b",".join(part)
        if len(joined) <= 2 * PART:
            await turn()
            values += _decode(joined)
        else:
            values += [await _decoded_in_turns(bytes(one), turn) for one in part]
    return values


class _Pieces(dict[bytes, tuple[int, int]]):
    """Maximum and final nesting level of each piece of a text of brackets."""

    def __missing__(self, piece: bytes) -> tuple[int, int]:
        highest = level = 0
        for bracket in piece:
            level += 1 if bracket == 0x5B else -1
            highest = max(highest, level)
        self[piece] = found = (highest, level)
        return found


_PIECES = _Pieces()


def deeper_than(body: bytes, limit: int) -> bool:
    """Return True if a JSON text is nested more than `limit` levels deep, in one pass over its brackets outside of strings.

    Brackets are counted in groups too small to reach the limit from the level before them, or, near the limit, by twelve. The time is
    linear in the length of the text, whatever its content.
    """
    if len(body) <= _SMALL and body.count(b"[") + body.count(b"{") <= limit:
        return False
    brackets = _brackets(body)
    level, at, end = 0, 0, len(brackets)
    while at < end:
        room = limit - level
        if room > 2 * _PIECE:
            piece = brackets[at : at + room]
            level += 2 * piece.count(b"[") - len(piece)
            at += room
        else:
            highest, change = _PIECES[brackets[at : at + _PIECE]]
            if highest > room:
                return True
            level += change
            at += _PIECE
    return False


def _brackets(body: bytes) -> bytes:
    """Return the brackets of a JSON text outside of its strings, all converted to square ones."""
    kept = (_unescaped(body) if b"\\" in body else body).translate(_TO_SQUARE, _NOT_NESTING)
    brackets = kept.translate(None, b'"')
    if 2 * kept.count(b'""') == len(kept) - len(brackets):
        return brackets
    return b"".join(kept.replace(b'""', b"").split(b'"')[::2])  # there are brackets in strings


def _unescaped(body: bytes) -> bytes:
    """Return a JSON text without its escaped quotes and backslashes."""
    most = len(body) // 128
    body, removed = _ESCAPED.subn(b"", body, most)
    # A regular expression is faster for a few of them, and replacements of the same length for many.
    return body if removed < most else body.replace(b"\\\\", b"__").replace(b'\\"', b"__")


def closed(body: bytes) -> tuple[bytes, int] | None:
    """Return the body up to its last comma outside of a text, with its open brackets closed, and their number; None if there is none.

    The text before such a comma is complete by JSON's grammar. All steps run in C: no body can be slow.
    """
    parts = (
        body.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
    )  # every remaining quote is a delimiter: every other part is a text
    last = next((at for at in range((len(parts) - 1) & ~1, -1, -2) if b"," in parts[at]), None)
    if last is None:
        return None
    comma = parts[last].rfind(b",")
    end = sum(map(len, parts[:last])) + last + comma
    outside = b"".join(parts[0:last:2]) + parts[last][:comma]
    open_ = outside.translate(None, _NOT_BRACKETS)
    left = bytearray()
    for bracket in open_:
        if bracket in b"[{":
            left.append(bracket)
        elif left:
            left.pop()
    if len(left) > MAX_DEPTH:
        return None
    return body[:end] + left[::-1].translate(_CLOSING), len(left)


def without_half(value: Any, open_: int) -> Any:
    """Return the closed value without the incomplete last element of its outermost list, if another element is left."""
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
    """Return compact JSON of any value of JSON types, and of the results of `default` for other types.

    Raises `TypeError` for others, and `TooDeepError` for a value that is too deep for the encoder. The depth of a value from outside is
    checked at its entry (`decode_json`, `value_json`, `carried`).
    """
    try:
        written = _encode(value) if default is None else msgspec.json.encode(value, enc_hook=default)
        if len(written) <= _MAX_DIGITS or _MANY_DIGITS not in written.translate(_DIGITS_ALIKE):
            return written
    except (TypeError, ValueError, RecursionError):
        pass  # unpaired surrogates, integers of any length, names that are not text, too many levels; or not JSON
    plain = carried(value, default, FRAMED_DEPTH)
    return json.dumps(plain, separators=(",", ":"), allow_nan=False).encode("ascii")


def value_json(value: object, default: Callable[[Any], Any] | None = None) -> bytes:
    """Return `encode_json` of a value that a tool produced. Raises `TooDeepError` for more than `MAX_DEPTH` levels."""
    written = encode_json(value, default)
    if deeper_than(written, MAX_DEPTH):
        raise TooDeepError
    return written


def file_json(value: object, default: Callable[[Any], Any] | None = None, *, sort_keys: bool = False) -> bytes:
    """Return compact JSON for generated files, whose bytes stay the same between versions: exponents keep their sign (`1e+16`)."""
    written = msgspec.json.encode(value, enc_hook=default, order="sorted" if sort_keys else None)
    if _EXPONENT.search(written.translate(_DIGITS_AS_ZERO)) is None:
        return written
    return _POSITIVE_EXPONENT.sub(lambda found: found[0] if found[1] is None else found[1] + b"e+", written)


def indented_json(value: object, default: Callable[[Any], Any] | None = None, *, sort_keys: bool = False) -> bytes:
    """Return `file_json` with two spaces for each level and a newline at the end."""
    return msgspec.json.format(file_json(value, default, sort_keys=sort_keys), indent=2) + b"\n"


def carried(value: object, default: Callable[[Any], Any] | None = None, limit: int = MAX_DEPTH) -> Any:
    """Return a copy of a value that every JSON program can read. Raises `TooDeepError` for more than `limit` levels."""
    match value:
        case bool() | None:
            return value
        case str():
            return _whole(value)
        case int():
            return int(value) if -(10**_MAX_DIGITS) < value < 10**_MAX_DIGITS else as_text(hex(value))
        case float():
            return value if math.isfinite(value) else as_text(repr(value))
        case Mapping() | list() | tuple() if limit <= 0:
            raise TooDeepError
        case Mapping():
            return {_whole(str(name)): carried(item, default, limit - 1) for name, item in value.items()}
        case list() | tuple():
            return [carried(item, default, limit - 1) for item in value]
    if default is None:
        raise TypeError(type(value).__name__)
    return carried(default(value), default, limit - 1)


def as_text(number: str) -> str:
    """Return a number without a form in JSON, or without a value in programs, as text."""
    shown = number if len(number) <= _SHOWN else f"{number[:_SHOWN]}…, {len(number)} characters"
    return f"{shown} (a number that JSON cannot carry)"


def _too_deep(body: bytes) -> ValueError:
    """Return the error for a text with too many open brackets. A text with unclosed brackets is not JSON of any depth."""
    brackets = _brackets(body)
    nested = body.lstrip(_BLANK)[:1] in (b"[", b"{") and 2 * brackets.count(b"[") == len(brackets)
    return TooDeepError() if nested else ValueError("not JSON")


def _float(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else as_text(text)


def _int(text: str) -> int | str:
    return int(text) if len(text) <= _MAX_DIGITS else as_text(text)


def _whole(text: str) -> str:
    """Return text with unpaired surrogates spelled out (`\\ud800`)."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def with_integers(value: Any, depth: int = 0) -> Any:
    """Return a value with an integer for every float that is one (`7.0`): JSON and JSON Schema do not distinguish them, services do.

    The very same object is returned if nothing changes. Floats beyond 2**53, where one float stands for several integers, stay.
    """
    match value:
        case float():
            return int(value) if value.is_integer() and -_EXACT <= value <= _EXACT else value
        case str() | bool() | int() | None:
            return value
        case _ if depth > MAX_DEPTH:  # no reader goes deeper, and the audit log refuses it
            return value
        case Mapping():
            made = {key: with_integers(item, depth + 1) for key, item in value.items()}
            return made if any(made[key] is not item for key, item in value.items()) else value
        case _:
            items = [with_integers(item, depth + 1) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
