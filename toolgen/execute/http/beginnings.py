"""JSON that broke off: what was read of it, closed where it ended, with nothing in it that is only half there."""

from __future__ import annotations

from toolgen.model.schema import Json

__all__ = ["closed", "without_half"]

_DEEPEST = 200
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_CLOSING = bytes.maketrans(b"[{", b"]}")


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
    for _ in range(_DEEPEST):
        peeled = open_.replace(b"[]", b"").replace(b"{}", b"")
        if len(peeled) == len(open_):
            break
        open_ = peeled
    if len(open_) > _DEEPEST:
        return None
    return body[:end] + open_[::-1].translate(_CLOSING), len(open_)


def without_half(value: Json, open_: int) -> Json:
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
