"""Streamable HTTP: every message is a POST by the HTTP executor, with its credentials, egress rules, limits and scrubbing.

Answers that are streams of events: read to the answer, and no further. What comes before may say how far the call has come. A stream that
ends before its answer is asked for again where it said from where (MCP 2025-11-25, basic/transports, Resumability and Redelivery).
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from toolgen.connectors.executor import Permit
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.credentials import Provision
from toolgen.connectors.http.executor import HttpExecutor, Reader
from toolgen.connectors.http.reply import BodyListener
from toolgen.connectors.http.response import MAX_ANSWER_SIZE, HttpResponse, result
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.http.streamed import EVENT_ENDING, MAX_EVENT_ENDING_LENGTH, events
from toolgen.connectors.mcp.challenge import with_challenge
from toolgen.connectors.mcp.messages import STATELESS, Agreed, addressed, claimed, tell_log, tell_progress
from toolgen.connectors.mcp.notices import done_page
from toolgen.connectors.mcp.stream_requests import RequestAnswers, SessionStream, SessionStreams
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.json_codec import decode_json
from toolgen.model.auth_schemes import SCHEMES, with_headers
from toolgen.model.call import Call, Principal
from toolgen.model.caller_requests import PAGE_DONE, ROOTS_CHANGED
from toolgen.model.client_channel import ClientChannel
from toolgen.model.result import Delivery, Failed, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import HttpBinding, HttpBody, HttpParameter

__all__ = ["Cursor", "EventReader", "HttpWire"]

_PAUSE_S = 0.1
_MAX_ASKING_S = 3600.0  # that the callers of one call may be asked
_MAX_DIGITS = 9


class Cursor(Struct):
    """Position at which a stream of events ended, and the time to wait before it is asked for again. `on_request` is called with each
    request of the server in the stream, and `on_open` once there is one."""

    last: str = ""
    pause_s: float = _PAUSE_S
    on_request: Callable[[Mapping[str, Any], Scrubber], None] | None = None
    on_open: Callable[[], None] | None = None
    on_notice: Callable[[Mapping[str, Any]], None] | None = None

    def hear(self, block: bytes) -> None:
        for line in block.splitlines():
            name, _, value = line.partition(b":")
            said = value.removeprefix(b" ").decode("latin-1")
            if name == b"id":
                self.last = said if _is_header(said) else ""
            elif name == b"retry" and said.isascii() and said.isdigit() and len(said) < _MAX_DIGITS:
                self.pause_s = max(_PAUSE_S, int(said) / 1000)


_CURSOR: ContextVar[Cursor | None] = ContextVar("mcp_cursor", default=None)
"""That of the request that is being made."""


class EventReader:
    """Hears the events of one answer: of the request `number`, whose caller is told of progress over `line`."""

    def __init__(
        self, number: Json, line: ClientChannel | None, scrubber: Scrubber, cursor: Cursor | None = None
    ) -> None:
        self._number = number
        self._cursor = cursor
        self._line = line
        self._scrubber = scrubber
        self._held = bytearray()

    def wants(self, headers: Mapping[str, str]) -> bool:
        """Event streams alone: another body is an answer when it ends."""
        streams = headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream"
        if streams and self._cursor is not None and self._cursor.on_open is not None:
            self._cursor.on_open()
        return streams

    def enough(self, data: bytes) -> bool:
        """Return True if the answer has arrived, even if it cannot be read."""
        looked = max(0, len(self._held) - MAX_EVENT_ENDING_LENGTH)
        self._held += data
        while ending := EVENT_ENDING.search(self._held, looked):
            block = bytes(self._held[: ending.end()])
            del self._held[: ending.end()]
            looked = 0
            if self._cursor is not None:
                self._cursor.hear(block)
            if any(self._heard(event) for event in events(block)):
                return True
        return False

    def _heard(self, event: bytes) -> bool:
        try:
            message = decode_json(event)
        except ValueError:
            return self._number in addressed(event, event)
        if not isinstance(message, Mapping):
            return isinstance(message, list)
        if message.get("method") == "notifications/progress" and self._line is not None:
            params = message.get("params")
            token = params.get("progressToken") if isinstance(params, Mapping) else None
            if type(token) is int and token == self._number:
                tell_progress(self._line, params, self._scrubber)
        elif message.get("method") == "notifications/message" and self._line is not None:
            tell_log(self._line, message.get("params"), self._scrubber)
        elif (
            "method" in message
            and "id" not in message
            and self._cursor is not None
            and self._cursor.on_notice is not None
        ):
            self._cursor.on_notice(message)
        elif (
            "method" in message and "id" in message and self._cursor is not None and self._cursor.on_request is not None
        ):
            self._cursor.on_request(message, self._scrubber)
        numbers = () if "method" in message else claimed(message)
        return "method" not in message and (not numbers or self._number in numbers)


_EVENTS = "text/event-stream"
_ACCEPT = f"application/json, {_EVENTS}"
_HEADERS = {
    "accept": "Accept",
    "version": "MCP-Protocol-Version",
    "session": "Mcp-Session-Id",
    "method": "Mcp-Method",
    "name": "Mcp-Name",
    "last": "Last-Event-ID",
}
_BODY = HttpBody(media_type="application/json", argument="message", required=True)
_SESSION = "mcp-session-id"
_CHALLENGES = frozenset({401, 403})
_MAX_HEADER_LENGTH = 1024
_TIMEOUTS = Timeouts()
_CLOCK = SystemClock()
# What may be asked twice: it changes nothing.
_HARMLESS = frozenset(
    {
        *("initialize", "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"),
        *("prompts/get", "resources/read", "completion/complete", "tasks/get", "tasks/result", "tasks/cancel"),
        *("skills/list", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen"),
        *("notifications/initialized", "notifications/cancelled", ROOTS_CHANGED),
    }
)
_NAMED_BY: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/cancel"), "taskId"),
}
"""The member of a request's params that the header `Mcp-Name` repeats (2026-07-28, basic/transports)."""
_PLAIN = re.compile(r"(?! )[\x20-\x7e]*(?<! )\Z")


class HttpWire:
    """Wire to an MCP server at a URL. `auth` are its credentials, as for a GraphQL source: every message carries all of them."""

    def __init__(  # noqa: PLR0913 - what a source may say
        self,
        url: str,
        *,
        auth: Mapping[str, object],
        secrets: SecretResolver,
        permit: Permit,
        provision: Provision | None = None,
        timeouts: Timeouts = _TIMEOUTS,
        largest: int = MAX_ANSWER_SIZE,
        clock: Clock = _CLOCK,
    ) -> None:
        schemes, auth = with_headers(SCHEMES, auth)
        self._url = url
        self._security = (tuple(sorted(auth)),) if auth else ()
        self._provision = provision
        made = partial(
            HttpExecutor,
            schemes=schemes,
            auth=auth,
            secrets=secrets,
            permit=permit,
            provision=provision,
            timeouts=timeouts,
            clock=clock,
            largest=largest,
            listen=_listener,
        )
        self._http = made(reader=partial(_read, read=result))
        waits_s = timeouts.total_s + _MAX_ASKING_S
        self._asking = made(
            reader=partial(_read, read=result),
            timeouts=msgspec.structs.replace(timeouts, first_byte_s=waits_s, total_s=waits_s),
        )
        self._lister = made(reader=partial(_read, read=_as_written))
        self._streams = SessionStreams(self)
        self._on_page: Callable[[Principal, str], None] = lambda *_: None

    def ready(self) -> int:
        """Always."""
        return 0

    def doubt(self) -> None:
        """Each message finds its own way, whatever became of the last."""

    async def begin(self) -> int:
        """There is nothing to make ready: each message finds its own way."""
        return 0

    async def ask(self, message: JsonObject, agreed: Agreed, call: Call) -> Success | Failed:
        """The answer to a request, out of the body or out of the stream of events that the body is."""
        http = self._lister if message["method"] == "tools/list" else self._http
        answers = RequestAnswers(self, agreed, call)
        if answers.can_be_asked:  # a person may take long, and the caller keeps the time
            http = self._asking
        cursor = Cursor(on_request=answers.begin, on_notice=answers.notice)
        given = _CURSOR.set(cursor)
        try:
            async with self._streams.during(answers):
                return await self._read_to_answer(http, message, answers, cursor)
        finally:
            _CURSOR.reset(given)
            answers.end()

    async def _read_to_answer(
        self, http: HttpExecutor, message: JsonObject, answers: RequestAnswers, cursor: Cursor
    ) -> Success | Failed:
        agreed, call = answers.agreed, answers.call
        first = outcome = _answer(await http.execute(self._over_http(message, agreed, call)), message["id"])
        while _is_unfinished(outcome) and cursor.last and agreed.version not in {"", STATELESS}:
            last, cursor.last = cursor.last, ""
            await asyncio.sleep(cursor.pause_s)
            found = await http.execute(self._over_http(message, agreed, call, last))
            cursor.last = cursor.last or last
            if isinstance(found, Failed) and not _is_unfinished(found):
                return first  # what this says is of the stream, and not of the request
            outcome = _answer(found, message["id"])
        return first if _is_unfinished(outcome) else outcome

    async def listen(self, answers: RequestAnswers, stream: SessionStream) -> None:
        """Read the stream of a session until it ends."""
        # Of the task that reads it alone.
        _CURSOR.set(Cursor(on_request=stream.hear, on_open=stream.opened.set, on_notice=stream.notice))
        call = msgspec.structs.replace(answers.call, line=None)
        await self._asking.execute(self._over_http({}, answers.agreed, call, listens=True))

    def watch_pages(self, listener: Callable[[Principal, str], None]) -> None:
        """Have a listener told of each web page of a caller's session that is done, by the server's id for it."""
        self._on_page = listener

    def keep_stream(self, agreed: Agreed, call: Call) -> None:
        """Listen for some minutes to what the server says in the session of a call without being asked."""
        self._streams.keep(agreed, call)

    def notice(self, message: Mapping[str, Any], call: Call) -> None:
        """Take a notification in the stream of a call, or of a session of its caller."""
        if message["method"] == PAGE_DONE and (page := done_page(message.get("params"))):
            self._on_page(call.principal, page)

    async def follow(
        self, message: JsonObject, agreed: Agreed, call: Call, opened: Callable[[], None], heard: Callable[[Json], None]
    ) -> None:
        """Read notifications until their stream ends: the answer to a request of 2026-07-28, or without a message that of the session."""
        _CURSOR.set(Cursor(on_notice=heard, on_open=opened))  # of the task that reads it alone
        await self._asking.execute(
            self._over_http(message, agreed, msgspec.structs.replace(call, line=None), listens=not message)
        )

    async def tell(self, message: JsonObject, agreed: Agreed, call: Call) -> None:
        """A notification, to which there is no answer: what became of it shows with the next request."""
        await self._http.execute(self._over_http(message, agreed, call))

    def hears_cancellation(self, agreed: Agreed) -> bool:
        """Return False for 2026-07-28: a notification would not say whose request it means (basic/patterns/cancellation)."""
        return agreed.version != STATELESS

    def stale(self) -> bool:
        """A server that is asked over HTTP has no way to say so unasked."""
        return False

    def preview(self, message: JsonObject, call: Call) -> JsonObject:
        """The request of a message, secrets masked."""
        return self._http.preview(self._over_http(message, Agreed(), call))

    async def close(self) -> None:
        """Closes every connection."""
        await self._streams.close()
        await self._http.close()
        await self._asking.close()
        await self._lister.close()

    def _over_http(
        self, message: JsonObject, agreed: Agreed, call: Call, last: str = "", *, listens: bool = False
    ) -> Call:
        """The message as a call over HTTP; with `last`, the rest of the stream that answers it. `listens`: the stream of the session."""
        method, params = str(message.get("method", "")), message.get("params")
        gets = bool(last) or listens
        accept = _EVENTS if gets else _ACCEPT
        said: dict[str, str] = {
            "accept": accept,
            "version": agreed.version,
            "session": agreed.session,
            "last": last,
        }
        if agreed.version == STATELESS:
            said["method"] = method
            name = params.get(_NAMED_BY.get(method, "name")) if isinstance(params, Mapping) else None
            said["name"] = _header_value(name) if isinstance(name, str) else ""
        said = {key: value for key, value in said.items() if value}
        parts = urlsplit(self._url)
        binding = HttpBinding(
            method="GET" if gets else "POST",
            path=f"{parts.path}?{parts.query}" if parts.query else parts.path,
            servers=(f"{parts.scheme}://{parts.netloc}",),
            parameters=tuple(
                HttpParameter(argument=key, in_="header", name=_HEADERS[key], style="simple", explode=False)
                for key in said
            ),
            body=None if gets else _BODY,
            security=self._security_of(call.principal),
        )
        tool = msgspec.structs.replace(
            call.tool,
            binding=binding,
            output_schema=None,  # that is of a result, not of the message that it comes in
            idempotent=call.tool.idempotent or method in _HARMLESS or gets or not method,
        )
        return msgspec.structs.replace(call, tool=tool, arguments={**said, "message": message})

    def _security_of(self, principal: Principal) -> tuple[tuple[str, ...], ...]:
        given = None if self._provision is None else self._provision.assigned(principal)
        return self._security if given is None else (tuple(sorted(given)),)


def _header_value(text: str) -> str:
    """A text as a header's value: in base64 where it would not arrive as it is (2026-07-28, basic/transports, Value Encoding)."""
    if _PLAIN.match(text) and not text.startswith("=?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _read(
    answer: HttpResponse, scrubber: Scrubber, method: str, delivery: Delivery, *, read: Reader
) -> Success | Failed:
    """The list of the messages in an event stream, each read as JSON is; of one message in any other body."""
    session = answer.headers.get(_SESSION, "")
    if session and _is_header(session):
        delivery = msgspec.structs.replace(delivery, session=session)
    kind = answer.content_type.partition(";")[0].strip().lower()
    if answer.status != 200 or kind != "text/event-stream" or answer.truncated:
        whole = read(answer, scrubber, method, delivery)
        if isinstance(whole, Failed) and answer.status in _CHALLENGES:
            return with_challenge(whole, answer.headers.get("www-authenticate", ""), scrubber)
        return msgspec.structs.replace(whole, data=[whole.data]) if isinstance(whole, Success) else whole
    messages: list[Json] = []
    for event in events(answer.body):
        one = msgspec.structs.replace(answer, body=event, content_type="application/json")
        found = read(one, scrubber, method, delivery)
        if isinstance(found, Failed):  # nested too deeply
            return found
        messages.append(found.data)
    return Success(data=messages, delivery=delivery)


def _as_written(answer: HttpResponse, scrubber: Scrubber, method: str, delivery: Delivery) -> Success | Failed:
    """A listing, without what was sent in confidence, but with all that nobody sees: its reader has to know that it is there."""
    if answer.status == 200 and not answer.truncated:
        with suppress(ValueError):
            return Success(data=decode_json(scrubber.raw(answer.body)), delivery=delivery)
    return result(answer, scrubber, method, delivery)


def _listener(call: Call, scrubber: Scrubber) -> BodyListener:
    message = call.arguments["message"]
    number = message.get("id") if isinstance(message, Mapping) else None
    return EventReader(number, call.line, scrubber, _CURSOR.get())


def _is_header(value: str) -> bool:
    return len(value) <= _MAX_HEADER_LENGTH and value.isascii() and value.isprintable()


def _answer(outcome: Success | Failed, number: Json) -> Success | Failed:
    """The answer among the messages; what answers another request is not given."""
    if isinstance(outcome, Failed) or outcome.truncated:
        return outcome
    messages = outcome.data if isinstance(outcome.data, list) else []
    return msgspec.structs.replace(outcome, data=next((one for one in messages if _answers(one, number)), None))


def _is_unfinished(outcome: Success | Failed) -> bool:
    """Return True if the connection ended, cleanly or not, before the answer arrived."""
    if isinstance(outcome, Failed):
        return outcome.delivery.broken
    return outcome.data is None and not outcome.truncated


def _answers(message: Json, number: Json) -> bool:
    if not isinstance(message, Mapping) or "method" in message:
        return False
    claimed = message.get("id")
    return (type(claimed) is int and claimed == number) or (claimed is None and "error" in message)
