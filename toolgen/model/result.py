"""Outcome of a call. A call never raises: its outcome has one of five kinds, and the caller gets an `Envelope`."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar, TypeAlias

import msgspec

from toolgen.core.error_codes import CallStatus, ErrorCode
from toolgen.core.errors import CallError
from toolgen.model.excerpt import MAX_MESSAGE_LENGTH, bounded
from toolgen.model.schema import Json

__all__ = [
    "PIN_RULE",
    "SUCCESS_FLAGS",
    "UNTRIED",
    "Cancelled",
    "Delivery",
    "Envelope",
    "Error",
    "Failed",
    "Meta",
    "Outcome",
    "Pending",
    "Refused",
    "Result",
    "Shape",
    "Success",
    "file_bytes",
    "file_data",
    "text_in",
]

_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}/[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")
SUCCESS_FLAGS = frozenset({"success", "succeeded", "successful", "ok"})
"""Common names in payloads of the Boolean for success."""
PIN_RULE = "pin"
"""Rule of the refusal of what is not as it was pinned."""


class Shape(StrEnum):
    """Place of the system's answer in the data of a result, set by the executor. Redaction uses only this.

    - `WHOLE`: the data is the answer.
    - `FAULT`: the data replaces an answer, as problem details do.
    - `GRAPHQL`: `{"data": answer, "errors": […]}`. A success of this shape is partial: its errors are reported with the answer.
    - `EVENTS`: `{"events": [answer, …], "ended": …, "errors": […]}`.
    - `CONTENT`: `{"content": [block, …], "structuredContent": answer}`, a result of MCP; the text of a block is an answer too.
    - `PARTS`: a list of texts, files and documents, or one of them, each an answer.
    - `STORED`: a file that its executor has stored, `{"token", "media_type", "size"}`. It becomes a reference for its caller.
    """

    WHOLE = "whole"
    FAULT = "fault"
    GRAPHQL = "graphql"
    EVENTS = "events"
    CONTENT = "content"
    PARTS = "parts"
    STORED = "stored"


Outcome: TypeAlias = CallStatus


class Error(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Error as data: a stable code (docs/reference/errors.md), a message for the agent, and a suggestion."""

    code: ErrorCode
    message: str
    suggestion: str = ""
    help_url: str = ""
    retry_after_s: float | None = None
    rule: str = ""

    def __post_init__(self) -> None:
        if len(self.message) > MAX_MESSAGE_LENGTH:
            msgspec.structs.force_setattr(self, "message", bounded(self.message))


class Delivery(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about the execution of a call, besides its answer. The audit log has `sql`, `rows`, `bytes` and `attempts`.

    - `attempts`: how often it was sent, None if no attempt was made. `retried` has code and duration of every attempt but the last.
    - `unsent`: no part of it reached the system. `broken`: it was sent, and its answer did not arrive, or not completely.
    - `status`, `location`, `link`: of an answer over HTTP. `total`: the number of items in the whole list, from a header of a partial
      answer. `rates`: the remaining quota from its headers (`rate_limits.Upstreams`).
    - `lifetime_s`: for how long the answer may be cached. `cache`: the source of a cached answer, `hit`, `stale`, `shared` or
      `replayed`.
    - `session`: the session id of an MCP server.
    - `files`: the answer may hold bytes, which become references; False if its executor knows that it holds none.
    - `headers`: those of the answer that its executor asked for.
    """

    sql: str = ""
    rows: int | None = None
    bytes: int | None = None
    attempts: int | None = None
    retried: tuple[Mapping[str, str | float], ...] = ()
    unsent: bool = False
    broken: bool = False
    status: int | None = None
    location: str = ""
    link: str = ""
    rates: Mapping[str, float] | None = None
    lifetime_s: float | None = None
    total: int | None = None
    cache: str = ""
    session: str = ""
    headers: Mapping[str, str] | None = None
    files: bool = True


UNTRIED = Delivery()
"""Delivery without facts, for a call that no executor has reported about."""


class More(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rest of an answer that is given in part, and how to read it.

    `arguments` are the changed arguments for the next part. `read` items were read so far, of `total` if the system reports it;
    `matching` of them met the conditions of the caller, and `shown` are given. `possible`: it is unknown whether there is more.
    `option` is the argument of the tool that follows several pages at once. `advice` names other ways.
    """

    arguments: Mapping[str, object] | None = None
    read: int | None = None
    total: int | None = None
    matching: int | None = None
    shown: int | None = None
    possible: bool = False
    option: str = ""
    advice: str = ""


class Success(msgspec.Struct, frozen=True, kw_only=True):
    """Answer of the system to a successful call; `delivery` has the facts about its execution.

    `media` has the pictures and recordings that the data names by URI and a model gets unchanged (`file_data`). `age_s`: the age of an
    answer to an earlier, equal question. `cut_at` is the JSONPath at which the rest of a long answer begins, and `cursor_argument` the
    argument of the tool for `next_cursor` then. `row_notes` are as of `Statement`. `unread_fields` is the number of fields that a default
    answer of GraphQL omits, by type.
    """

    status: ClassVar[Outcome] = "ok"
    data: Json
    truncated: bool = False
    next_cursor: str = ""
    cut_at: str = ""
    cursor_argument: str = ""
    delivery: Delivery = UNTRIED
    age_s: float | None = None
    shape: Shape = Shape.WHOLE
    media: Mapping[str, Json] | None = None
    more: More | None = None
    row_notes: tuple[str, ...] = ()
    unread_fields: Mapping[str, int] | None = None


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """The call waits for a person's approval, a device, or an authorization."""

    status: ClassVar[Outcome] = "pending"
    error: Error


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Refusal by the gateway; nothing was sent."""

    status: ClassVar[Outcome] = "refused"
    error: Error


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """The call was permitted and did not succeed. `data` is the answer of the system, if it has useful content.

    The message of the error quotes the system after its first colon, if at all; `quotes`: the whole message is a quotation. `row_notes`
    are as of `Statement`, if the data may contain rows that inner calls read.
    """

    status: ClassVar[Outcome] = "error"
    error: Error
    data: Json = None
    delivery: Delivery = UNTRIED
    shape: Shape = Shape.FAULT
    quotes: bool = False
    row_notes: tuple[str, ...] = ()


class Cancelled(msgspec.Struct, frozen=True, kw_only=True):
    """Call that its caller cancelled, or that was not approved."""

    status: ClassVar[Outcome] = "cancelled"
    error: Error


Result: TypeAlias = Success | Pending | Refused | Failed | Cancelled


class Meta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Measurements of one call. `audit_seq` is the sequence number of its outcome entry, `age_s` the age of a stored answer.

    `partial` are the errors of a partial answer: `{"message", "path", "code", "count"}`. `dropped` has the arguments that were left out
    because the tool has none of that name: `argument`, and `nearest` if one is similar. `note` is the note of the people who agreed to the
    call. `joined`: the outcome is that of an equal call made before, and this call was not sent. `more` exists if the answer is
    incomplete. `row_notes` are as of `Statement`: the caller sees only a part of the rows of these tables. `unread_fields` are as of
    `Success`.
    """

    duration_ms: float
    truncated: bool
    next_cursor: str = ""
    cut_at: str = ""
    audit_seq: int | None = None
    age_s: float | None = None
    partial: Sequence[object] | None = None
    dropped: tuple[Mapping[str, str], ...] = ()
    note: str = ""
    joined: bool = False
    more: More | None = None
    row_notes: tuple[str, ...] = ()
    unread_fields: Mapping[str, int] | None = None


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """Answer to a call for REST, the CLI and Python callers (docs/reference/answers.md).

    `content` is a complete answer of an MCP server, block by block, for agents; programs get `data`. `parts`: the data is a list of texts,
    files and documents, or one of them, which agents get one by one. `cursor_argument` is as of `Success`, for the agent's text, and
    `empty_status` is the HTTP status of an answer without a body (204 without HTTP), 0 for others. `media` is as of `Success`. None of
    these is in the JSON form.
    """

    status: Outcome
    tool: str
    call_id: str
    data: Json
    error: Error | None
    meta: Meta
    content: Json = None
    cursor_argument: str = ""
    parts: bool = False
    empty_status: int = 0
    media: Mapping[str, Json] | None = None

    def unwrap(self) -> Json:
        """Return the data of a successful call. Raises `CallError` for any other, also for a pending one."""
        if self.status == "ok":
            return self.data
        error = self.error or Error(
            code="cancelled" if self.status == "cancelled" else "internal", message=f"the call is {self.status}"
        )
        raise CallError(
            error.message,
            status=self.status,
            code=error.code,
            tool=self.tool,
            call_id=self.call_id,
            suggestion=error.suggestion,
            retry_after_s=error.retry_after_s,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form; absent `data` and `error` are left out."""
        built: dict[str, object] = msgspec.to_builtins(self)
        for name in ("content", "cursor_argument", "parts", "empty_status", "media"):
            del built[name]
        return {key: value for key, value in built.items() if value is not None or key not in {"data", "error"}}


def text_in(body: bytes) -> str | None:
    """Return the text in bytes; None if they are not text."""
    if b"\0" in body:
        return None
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return None


def file_data(body: bytes, media_type: str) -> Json:
    """Return a file as data."""
    return {"base64": base64.b64encode(body).decode("ascii"), "media_type": media_type}


def file_bytes(data: Json) -> bytes | None:
    """Return the bytes of a file in the form of executors, `{"base64", "media_type"}`. None for all other values, also for a similar
    object of a system that cannot be decoded: that is data like any other."""
    if not isinstance(data, Mapping) or data.keys() != {"base64", "media_type"}:
        return None
    written, media_type = data["base64"], data["media_type"]
    if not isinstance(written, str) or not isinstance(media_type, str) or not _MEDIA_TYPE.match(media_type):
        return None
    try:
        return base64.b64decode(written, validate=True)
    except ValueError:
        return None
