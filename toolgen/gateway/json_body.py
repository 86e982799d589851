"""JSON between bytes and values, capped in size and depth: the parsing edge of every front end."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import orjson

from toolgen.json_codec import decode_json, encode_json

__all__ = ["MAX_BODY_SIZE", "MAX_DEPTH", "MAX_VALUES", "Malformed", "decode", "encode", "identifier", "shallow"]

MAX_BODY_SIZE = 1_048_576
MAX_DEPTH = 64
MAX_VALUES = 65_536

T = TypeVar("T")
# Of text that is not known to be JSON: one that never ends is taken to the end, so that nothing is read twice and nothing given back.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_PATH = re.compile(r" - at `(?:key in )?\$([^`]*)`\Z")
_STEP = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")
_UNKNOWN = re.compile(r"unknown field `([^`]*)`")
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_IDENTIFIER = re.compile(r"[\x21-\x7e]{1,128}\Z")


class Malformed(ValueError):  # noqa: N818  (what it says of the body, not of us)
    """Bytes that are not the JSON expected here. `pointer` is the JSON pointer of the part at fault, "" for the whole."""

    def __init__(self, message: str, *, pointer: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.pointer = pointer


def decode(data: bytes, kind: type[T]) -> T:
    """The JSON value in `data` as `kind`. Raises `Malformed`; its text never holds a value that was sent.

    A member that stands twice is refused (RFC 7493, section 2.3): whoever looks at a body before us may have read the other one.
    """
    openings = data.count(b"[") + data.count(b"{")
    if openings > MAX_DEPTH and _deeper_than(data, MAX_DEPTH):
        raise Malformed(f"the JSON is nested more than {MAX_DEPTH} levels deep")
    if openings + data.count(b",") >= MAX_VALUES and _values(data) > MAX_VALUES:
        raise Malformed(f"the JSON holds more than {MAX_VALUES} values")
    try:
        value = msgspec.json.decode(data, type=kind)
        if not _repeats(data):
            return value
    except msgspec.ValidationError as error:
        message, pointer = _explained(str(error))
        raise Malformed(message, pointer=pointer) from None
    except msgspec.DecodeError as error:
        raise Malformed(f"the body is not JSON: {error}") from None
    except UnicodeDecodeError:
        raise Malformed("the body is not UTF-8") from None
    except (RecursionError, ValueError):
        raise Malformed("the body is not JSON this gateway reads") from None
    raise Malformed("an object has two members of one name")


def encode(value: object) -> bytes:
    """Compact JSON of whatever was answered: what JSON has no form for is text that says so (`json_codec`)."""
    return encode_json(value, _plain)


def shallow(value: msgspec.Struct) -> dict[str, Any]:
    """A struct of plain fields as a dict, with defaults left out where the struct leaves them out."""
    built: dict[str, Any] = msgspec.to_builtins(value)
    return built


def identifier(text: str) -> bool:
    """Whether text from outside may stand as an id in a record: 1 to 128 visible ASCII characters."""
    return _IDENTIFIER.match(text) is not None


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, orjson.Fragment):
        return decode_json(orjson.dumps(value))
    raise TypeError(type(value).__name__)


def _repeats(data: bytes) -> bool:
    """Whether an object has a member twice. Each member has one colon outside of strings, and what is read has each name once.

    Strings are looked into only where they hold colons: without them this takes about a microsecond for a small body.
    """
    members, todo = 0, [msgspec.json.decode(data)]
    while todo:
        value = todo.pop()
        if type(value) is dict:
            members += len(value)
            todo += value.values()
        elif type(value) is list:
            todo += value
    return data.count(b":") != members and _STRING.sub(b"", data).count(b":") != members


def _values(data: bytes) -> int:
    """At least how many values there are: a list of two bytes becomes sixty of memory, so they are counted before there are any."""
    bare = _STRING.sub(b"", data)
    return bare.count(b",") + bare.count(b"[") + bare.count(b"{") + 1


def _deeper_than(data: bytes, limit: int) -> bool:
    """Peels the innermost brackets off, one level a round, without ever recursing: at most `limit` passes at the speed of C."""
    brackets = _STRING.sub(b"", data).translate(_TO_SQUARE, _NOT_BRACKETS)
    for _ in range(limit):
        if not brackets:
            return False
        brackets = brackets.replace(b"[]", b"")
    return bool(brackets)


def _explained(text: str) -> tuple[str, str]:
    """msgspec's message and path (`$.a[0].b`) as a message and an RFC 6901 pointer."""
    pointer = ""
    if found := _PATH.search(text):
        text = text[: found.start()]
        for name, index in _STEP.findall(found[1]):
            if index == "...":  # msgspec does not say which key of a mapping it was
                break
            pointer += "/" + (name or index).replace("~", "~0").replace("/", "~1")
    if unknown := _UNKNOWN.search(text):
        pointer += "/" + unknown[1].replace("~", "~0").replace("/", "~1")
    return text[0].lower() + text[1:], pointer
