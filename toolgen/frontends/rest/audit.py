"""REST for reviewers: entries and calls of all streams, with filters."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from toolgen.audit.index.index import Cursor
from toolgen.audit.index.row import RecordFilter, micros
from toolgen.core.errors import AuditError, ConfigError
from toolgen.frontends.http.request import Rejected, Request, Response, json_response
from toolgen.frontends.rest.tools import whole
from toolgen.gateway.audit.reader import Review
from toolgen.gateway.protocol import Facade
from toolgen.model.call import Principal

__all__ = ["FILTERS", "MAX_ENTRIES", "RestAudit"]

MAX_ENTRIES = 500
_DEFAULT = 50
_ENTRY = re.compile(r"/v1/audit/([^/]+)\Z")
FILTERS = ("principal", "on_behalf_of", "tool", "verdict", "rule", "status", "code", "session", "call_id", "text")
_TIMES = ("since", "until")
_CURSOR = re.compile(r"\d{1,19}(?:\.\d{1,19}){0,3}\Z")
_LOGGER = logging.getLogger(__name__)

T = TypeVar("T")


class RestAudit:
    """Routes below /v1/audit, only for principals with the role of reviewers."""

    def __init__(self, gateway: Facade) -> None:
        self._gateway = gateway

    async def answer(self, request: Request, principal: Principal) -> Response | None:
        """Return the answer to a request for one of these routes; None for any other path."""
        found = _ENTRY.match(request.path)
        if found is None and request.path != "/v1/audit":
            return None
        request.take("GET")
        if not self._gateway.callers.may_review(principal):
            raise Rejected(
                403, "forbidden", "this principal may not read the audit", suggestion="ask the author of the policy"
            )
        if found is None:
            return await self._list(request, "entries", ("event", "stream", "before"))
        if found[1] == "calls":
            return await self._list(request, "calls", ())
        return await self._entry(request, found[1])

    async def _list(self, request: Request, what: str, more: tuple[str, ...]) -> Response:
        query = request.parameters("limit", "cursor", *_TIMES, *FILTERS, *more)
        limit = whole(query, "limit", default=_DEFAULT, most=MAX_ENTRIES)
        after = _cursor(query.get("cursor", ""))
        wanted = _filter(query)
        records = self._gateway.operations.records
        work = records.calls if what == "calls" else records.entries

        def ask() -> Review:
            return work(wanted, limit, after)

        try:
            review = await _read(ask)
        except ConfigError:
            raise _no_page() from None
        answer: dict[str, object] = {what: review.page.rows}
        if review.page.next is not None:
            answer["next_cursor"] = ".".join(map(str, review.page.next))
        if review.warnings:
            answer["warnings"] = list(review.warnings)
        return json_response(answer)

    async def _entry(self, request: Request, seq: str) -> Response:
        """Return an audit entry by its number, which is unique in its stream."""
        stream = request.parameters("stream").get("stream", "")
        if not seq.isascii() or not seq.isdigit() or len(seq) > 12:
            raise Rejected(404, "not_found", "there is no such audit entry")
        found = await _read(lambda: self._gateway.operations.records.find(int(seq), stream))
        if not found:
            raise Rejected(404, "not_found", "there is no such audit entry")
        if len(found) > 1:
            streams = ", ".join(sorted({str(one.entry.get("stream")) for one in found}))
            raise Rejected(
                400,
                "validation",
                f"several streams have an entry {seq}: {streams}",
                suggestion=f"name one: /v1/audit/{seq}?stream=…, or find the call's: /v1/audit?call_id=…",
            )
        return json_response(found[0].entry)


async def _read(work: Callable[[], T]) -> T:
    try:
        return await asyncio.to_thread(work)
    except AuditError as error:
        _LOGGER.warning("the audit log cannot be read: %s", error)
        told = "the audit log cannot be read, or its index not be used; run `toolgen audit verify` on the gateway"
        raise Rejected.by_fault(error, told) from None


def _filter(query: Mapping[str, str]) -> RecordFilter:
    texts: dict[str, Any] = {name: query[name] for name in (*FILTERS, "event", "stream") if name in query}
    before = whole(query, "before", default=0, most=2**40 - 1) if "before" in query else None
    try:
        return RecordFilter(before=before, since=_time(query, "since"), until=_time(query, "until"), **texts)
    except ConfigError as error:
        raise Rejected(400, "validation", f"the query parameter {error.message}") from None


def _time(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or len(text) > 40:
        raise Rejected(400, "validation", f"the query parameter {name} must be a time like 2026-01-31T12:00:00Z")
    return micros(text.upper())


def _no_page() -> Rejected:
    return Rejected(404, "not_found", "no page begins there", suggestion="request the first page, without a cursor")


def _cursor(text: str) -> Cursor | None:
    if not text:
        return None
    if not text.isascii() or not _CURSOR.match(text) or any(int(part) >= 2**63 for part in text.split(".")):
        raise _no_page()
    return tuple(map(int, text.split(".")))
