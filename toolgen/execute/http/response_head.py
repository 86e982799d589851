"""The head of an answer (RFC 9112), held against the grammar: a message that two readers could frame differently is refused."""

from __future__ import annotations

import re

import msgspec

from toolgen.execute.http.reply import BrokenError

__all__ = ["Head", "could_begin", "read_head"]

_BEGINS = b"HTTP/1."
_HEAD = re.compile(
    rb"HTTP/1\.[01] [1-9][0-9][0-9](?: [\t\x20-\x7e\x80-\xff]*)?\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n"
)
_FIELD = re.compile(rb"\r\n([^:\r\n]+):[\t ]*([^\r\n]*?)[\t ]*(?=\r\n)")
_BARE_LF = re.compile(rb"(?<!\r)\n")
_LENGTH = re.compile(r"[0-9]{1,18}\Z")
_CLOSE = re.compile(r"(?:^|,)[\t ]*close[\t ]*(?:,|$)", re.IGNORECASE)
_FRAMES = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_BODILESS = frozenset({204, 304})


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a head says. Of a header that came more than once the first counts; names are in lower case. `length` is that of the body
    where it is said, `until_closed` that nothing but the end of the connection ends it, `bodiless` that there is none, and `close` that
    the server ends the connection."""

    status: int
    headers: dict[str, str]
    length: int | None
    until_closed: bool
    bodiless: bool
    close: bool


def read_head(head: bytes) -> Head | None:
    """None for an interim one (RFC 9110, section 15.2). Raises `BrokenError` for what is no head, or frames its body in more than one
    way."""
    if _HEAD.fullmatch(head) is None:
        raise BrokenError
    status = int(head[9:12])
    if status < 200:
        if status == 101:  # an upgrade nobody asked for
            raise BrokenError
        return None
    close = old = head[7:8] == b"0"
    headers: dict[str, str] = {}
    for raw, value in _FIELD.findall(head):
        name = raw.decode("ascii").lower()
        if value.isascii():
            text = value.decode("ascii")
            if name in headers:
                if name in _FRAMES:
                    raise BrokenError
            else:
                headers[name] = text
            if name == "connection" and _CLOSE.search(text):
                close = True
        elif name in _FRAMES:
            raise BrokenError
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    # RFC 9112, sections 6.1 and 6.3: chunks beside a length, or in HTTP/1.0, and any other coding, are framed by nobody alike.
    if coding is not None and (old or length is not None or coding.lower() != "chunked"):
        raise BrokenError
    if length is not None and not _LENGTH.match(length):
        raise BrokenError
    bodiless = status in _BODILESS
    return Head(
        status=status,
        headers=headers,
        length=None if length is None else int(length),
        until_closed=not bodiless and length is None and coding is None,
        bodiless=bodiless,
        close=close,
    )


def could_begin(data: bytes | bytearray, seen: int) -> bool:
    """Whether these bytes can be the beginning of a head, of which the first `seen` were looked at before."""
    return data[: len(_BEGINS)] == _BEGINS[: len(data)] and not _BARE_LF.search(data, max(0, seen - 1))
