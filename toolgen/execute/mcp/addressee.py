"""Whose answer a message is that cannot be taken as one: told from its `id`, so that its caller need not wait for the timeout."""

from __future__ import annotations

import re

from toolgen.model.schema import Json

__all__ = ["addressed", "claimed"]

# `id` is a member of the message itself where only `jsonrpc` stands before it, or where nothing but the end of the message comes behind:
# an unescaped quotation mark before `}` at the end of a line is never inside of a string.
_NUMBER = rb'"id"\s*:\s*"?(\d{1,15})(?:\.0{1,9})?"?\s*'
_VERSION = rb'"jsonrpc"\s*:\s*"[^"\\]{0,9}"\s*'
_AT_THE_HEAD = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb",\s*)?" + _NUMBER + rb"[,}]")
_AT_THE_TAIL = re.compile(rb"[,{]\s*" + _NUMBER + rb"(?:,\s*" + _VERSION + rb")?\}\s*\Z")


def claimed(message: Json) -> tuple[int, ...]:
    """The requests that a message claims to answer, whatever is wrong with it: an id that is text or a float, or a batch of answers."""
    if isinstance(message, list):
        return tuple(number for one in message if isinstance(one, dict) for number in claimed(one))
    number = message.get("id") if isinstance(message, dict) and "method" not in message else None
    match number:
        case bool():
            return ()
        case int():
            return (number,)
        case float() if number.is_integer():
            return (int(number),)
        case str() if number.isascii() and number.isdigit() and len(number) < 16:
            return (int(number),)
        case _:
            return ()


def addressed(head: bytes, tail: bytes) -> tuple[int, ...]:
    """The request that a line answers of which nothing can be read but how it begins and how it ends."""
    found = _AT_THE_HEAD.match(head) or _AT_THE_TAIL.search(tail)
    return () if found is None else (int(found[1]),)
