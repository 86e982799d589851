"""Calls in the console: by filter, one with everything on record, the newest as they come, and those that wait for an answer.

What is shown of a waiting call is exactly what an answer is bound to.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import urlencode

from toolgen.canonical import decoded, texts
from toolgen.console.http import Visit, render
from toolgen.console.policies import RuleText, rule_text
from toolgen.console.records import STATUSES, Filters, Records, Row
from toolgen.errors import AuditError, ConfigError, StateError
from toolgen.gateway.approval_requests import request_of
from toolgen.gateway.approvals import MAX_NOTE_LENGTH
from toolgen.gateway.asgi.request import Rejected, Response, Stream
from toolgen.gateway.policy_replay import hidden_note
from toolgen.model.result import Error
from toolgen.state.invocations import Invocation

__all__ = ["Live", "answer", "listed", "newest", "one", "search", "story"]

_PAGE = 50
_MAX_TEXT_LENGTH = 200
_HIDDEN = "hmac-sha256:"
_FIELDS = ("principal", "tool", "status", "rule", "text")


async def search(visit: Visit) -> Response:
    """GET /console/calls: the filters are the query, so that a search can be kept and passed on."""
    given = visit.request.parameters(*_FIELDS, "since", "until", "cursor")
    if any(len(value) > _MAX_TEXT_LENGTH for value in given.values()):
        raise Rejected(400, "validation", f"a filter has more than {_MAX_TEXT_LENGTH} characters")
    since, until = (_moment(given.get(name, ""), name) for name in ("since", "until"))
    filters = Filters(**{name: given.get(name, "").strip() for name in _FIELDS}, since=since, until=until)
    try:
        found = await visit.context.records.calls(filters, limit=_PAGE, cursor=given.get("cursor", ""))
    except ValueError:
        raise Rejected(400, "validation", "the address of this page is not one the console made") from None
    kept = {name: value for name, value in given.items() if value and name != "cursor"}
    older = f"/console/calls?{urlencode({**kept, 'cursor': found.cursor})}" if found.cursor else ""
    newest = f"/console/calls?{urlencode(kept)}" if given.get("cursor") else ""
    return visit.page(
        "calls.html", at="calls", rows=found.rows, older=older, newest=newest, given=given, statuses=STATUSES
    )


async def story(visit: Visit) -> Response:
    """GET /console/calls/ID"""
    visit.request.parameters()
    entries = await visit.context.records.story(visit.part)
    if not entries:
        raise Rejected(404, "not_found", "there is no such call on record")
    call = _told(entries)
    policy = visit.gateway.policy
    return visit.page(
        "story.html",
        at="calls",
        call=call,
        entries=entries,
        rule=rule_of(visit, str(call.get("rule", ""))),
        same_policy=call.get("policy_digest") == policy.digest,
        sent=_sent(visit, call),
        hidden=_hidden_note(visit, call) if call.get("hidden") else "",
        again=f"/console/calls?{urlencode({'principal': call.get('principal', ''), 'tool': call.get('tool', '')})}",
    )


def _hidden_note(visit: Visit, call: Row) -> str:
    """What the record says of a tool that was hidden from its caller, as the policy in force has it now."""
    name, arguments = str(call.get("tool", "")), call.get("arguments")
    given = {key: decoded(item) for key, item in arguments.items()} if isinstance(arguments, Mapping) else {}
    try:
        who = visit.gateway.callers.named(str(call.get("principal", "")), str(call.get("on_behalf_of") or "") or None)
    except ConfigError:
        return f"{name} existed, and was hidden from its caller"
    note = hidden_note(visit.gateway.current.governance, visit.gateway.manifest, who, name, given)
    return note or f"{name} existed, and was hidden from its caller; the policy in force now shows it"


def rule_of(visit: Visit, name: str) -> RuleText:
    """What the policy, or the gateway itself, says under the name of a rule."""
    return rule_text(name, visit.gateway.policy, visit.gateway.settings.policies)


def _told(entries: tuple[Row, ...]) -> Row:
    """The call in one: what was intended, and the last word on how it ended."""
    told: dict[str, object] = {}
    for entry in entries:
        match entry.get("event"):
            case "intent":
                told = {**told, **entry, "status": "unfinished"}
            case "outcome":
                told |= {name: value for name, value in entry.items() if name not in {"seq", "time", "stream", "event"}}
            case "decision" if "code" in entry:
                told |= {"status": entry.get("status"), "code": entry["code"]}
            case _:
                pass
    return told or entries[0]


def _sent(visit: Visit, call: Row) -> Mapping[str, object]:
    """The request as it was made of what is on record, secrets masked: the arguments there and the tool of that digest say all of it.

    `changed` where the catalog has another tool by now, `hidden` where digests stand for sensitive values.
    """
    name, arguments = str(call.get("tool", "")), call.get("arguments")
    known = visit.gateway.manifest.tools.get(name)
    if call.get("sql"):
        return {"kind": "sql", "sql": call["sql"]}
    if known is None or known.digest != call.get("tool_digest") or not isinstance(arguments, Mapping):
        return {"kind": "changed" if known is not None and "tool_digest" in call else "none"}
    hidden = any(_HIDDEN in text for text in texts(arguments))
    from toolgen.wiring.preview import preview  # noqa: PLC0415 - brings what reads SQL and GraphQL

    made = preview(visit.gateway.manifest, name, {name: decoded(item) for name, item in arguments.items()})
    if made.get("status") == "refused":
        return {"kind": "hidden" if hidden else "none"}
    return {"kind": "request", "request": made, "hidden": hidden}


def _moment(text: str, name: str) -> float | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Rejected(400, "validation", f"{name} is not a time like 2027-01-31T12:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


_STATUS = {"forbidden": 403, "not_found": 404, "conflict": 409, "expired": 409}


async def listed(visit: Visit) -> Response:
    """GET /console/approvals"""
    done = visit.request.parameters("done").get("done", "")
    waiting = await visit.gateway.tool_calls.approvals.answerable(visit.person.principal)
    return visit.page(
        "approvals.html", at="approvals", waiting=waiting, done=done if done in {"approve", "deny"} else ""
    )


async def one(visit: Visit) -> Response:
    """GET /console/approvals/ID"""
    visit.request.parameters()
    return await _shown(visit, await _waiting(visit))


async def answer(visit: Visit) -> Response:
    """POST /console/approvals/ID: an answer, which counts when it is the first, and for the digest that was on the page."""
    visit.request.parameters()
    known = await _waiting(visit)
    decision, note = visit.form.get("decision", ""), visit.form.get("note", "").strip()
    if visit.form.get("digest") != known.digest or decision not in {"approve", "deny"}:
        raise Rejected(409, "conflict", "this is not the call that was on your page", suggestion="look at it again")
    if len(note) > MAX_NOTE_LENGTH:
        return await _shown(visit, known, fault=f"The note has more than {MAX_NOTE_LENGTH} characters.", note=note)
    told = await visit.gateway.tool_calls.approvals.decide(
        known.id, approve=decision == "approve", note=note, principal=visit.person.principal
    )
    if isinstance(told, Error):
        raise Rejected(_STATUS.get(told.code, 409), told.code, told.message, suggestion=told.suggestion)
    return visit.page("answered.html", at="approvals", known=known, decision=decision)


async def _waiting(visit: Visit) -> Invocation:
    """The call of the path, when this person may answer for it; otherwise the same as none at all."""
    found = await visit.gateway.tool_calls.approvals.answerable(visit.person.principal)
    known = next((item for item in found if item.id == visit.part), None)
    if known is None:
        raise Rejected(
            404,
            "not_found",
            "no call with this id waits for your answer",
            suggestion="it may be answered, expired or taken back by now",
        )
    return known


async def _shown(visit: Visit, known: Invocation, *, fault: str = "", note: str = "") -> Response:
    return visit.page(
        "approval.html",
        at="approvals",
        status=400 if fault else 200,
        known=known,
        tool=visit.gateway.manifest.tools.get(known.tool),
        rule=rule_of(visit, known.rule),
        sends=await request_of(visit.gateway.tool_calls.approvals, known, visit.gateway.current.governance),
        longest_note=MAX_NOTE_LENGTH,
        fault=fault,
        note=note,
    )


_ROWS = 50
_LOOK_S = 1.0
_QUIET_LOOKS = 10
_MAX_LOOKS = 300  # after which the browser asks again, as it does by itself
_MAX_EACH = 4
_MAX_OPEN = 64


async def newest(visit: Visit) -> Response:
    """GET /console/live"""
    visit.request.parameters()
    found = await visit.context.records.calls(Filters(), limit=_ROWS)
    return visit.page("live.html", at="live", rows=found.rows)


class Live:
    """Looks once a second for everybody who watches, while anybody does."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._open: Counter[str] = Counter()
        self._rows = b""
        self._news = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    def events(self, visit: Visit) -> Stream:
        """The rows, at once and whenever they change. Raises `Rejected` where too many watch."""
        visit.request.parameters()
        who = visit.person.principal.id
        if self._open[who] >= _MAX_EACH or self._open.total() >= _MAX_OPEN:
            raise Rejected(429, "rate_limited", "too many live pages are open", suggestion="close some of them")
        return Stream(events=self._watched(visit, who))

    def end(self) -> None:
        """Ends every stream: the gateway goes."""
        self._closed = True
        self._tell(self._rows)

    async def close(self) -> None:
        """Looks no more."""
        self.end()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait((self._looking,))

    async def _watched(self, visit: Visit, who: str) -> AsyncIterator[bytes]:
        self._open[who] += 1
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        try:
            async for event in self._events(visit):
                yield event
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    async def _events(self, visit: Visit) -> AsyncIterator[bytes]:
        """Ends within a second once the session has, or its roles open this page no more."""
        told, quiet = b"", 0
        for _ in range(_MAX_LOOKS):
            if self._closed or visit.request.presence.left() or not await _welcome(visit):
                return
            news = self._news
            if self._rows != told:
                told, quiet = self._rows, 0
                yield told
            elif (quiet := quiet + 1) % _QUIET_LOOKS == 0:
                yield b": still here\n\n"
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await news.wait()

    async def _look(self) -> None:
        while self._open and not self._closed:
            with suppress(AuditError):  # the page says by itself that nothing new comes
                found = await self._records.calls(Filters(), limit=_ROWS)
                rows = _event(render("live_rows.html", rows=found.rows))
                if rows != self._rows:
                    self._tell(rows)
            await asyncio.sleep(_LOOK_S)

    def _tell(self, rows: bytes) -> None:
        self._rows = rows
        news, self._news = self._news, asyncio.Event()
        news.set()


async def _welcome(visit: Visit) -> bool:
    try:
        person = await visit.again()
    except StateError:
        return False
    return person is not None and person.viewer


def _event(text: str) -> bytes:
    """One event, whose lines each begin as its data (WHATWG HTML, section 9.2.6)."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines() if line.strip())
    return f"event: rows\n{lines}\n".encode("utf-8", "replace")
