"""Cache of answers to reads, as toolgen.yaml configures it: equal calls of the same caller under the same policy share an answer."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from toolgen.config.tools import CacheFor
from toolgen.core.canonical import canonical, encodable
from toolgen.core.clock import Clock
from toolgen.core.errors import CanonicalError
from toolgen.model.call import Call
from toolgen.model.result import UNTRIED, Cancelled, Delivery, Error, Failed, Refused, Result, Shape, Success
from toolgen.model.schema import Json
from toolgen.model.secret import Secret
from toolgen.model.tool import Effect, Tool
from toolgen.pipeline.middleware import CallerConnection
from toolgen.pipeline.stages.approve import approval_digest
from toolgen.pipeline.stages.broken_off import not_awaited
from toolgen.state.stored_answers import Flight, Results, StoredAnswer

__all__ = ["ABREAST", "Caching"]

_DOWN = frozenset({"upstream_timeout", "upstream_unavailable"})
ABREAST = 8
"""Maximum number of calls that run at a time after a shared wait gave them nothing to share."""
_MAX_WAIT_S = 30.0
_CROWDED = Error(
    code="upstream_unavailable",
    message="many equal calls came at once, each needs a separate answer, and this call was not reached in time; nothing was sent",
    retry_after_s=1.0,
    rule="concurrency",
)


class Caching:
    """Cache between the pipeline and the executors: all guards have judged the call before, and the stored answer is redacted after it.

    `tools` decides which answers may be stored. A call that a person approved is always made. A write to a source invalidates everything
    that was read from it before, as far as this process knows of the write. `sources` limits the concurrent calls of each source.
    """

    def __init__(
        self,
        *,
        tools: Mapping[str, CacheFor],
        sources: Mapping[str, int],
        results: Results,
        clock: Clock,
        max_wait_s: float = _MAX_WAIT_S,
    ) -> None:
        self._max_wait_s = max_wait_s
        self._tools = tools
        self._sources = sources
        self._results = results
        self._clock = clock

    async def __call__(
        self, call: Call, policy_digest: str, caller_connection: CallerConnection, send: Callable[[], Awaitable[Result]]
    ) -> Result:
        """Return a cached answer, or the result of `send`. For a cached answer, `cache` of its delivery is `hit`, `stale` or `shared`."""
        if call.tool.effect is not Effect.READ or (call.statement is not None and call.statement.writes):
            return await self._write(call.tool.source, send)
        rule = self._tools.get(call.tool.name)
        key = None if rule is None or call.approval else self._key(call, policy_digest)
        if rule is None or key is None:
            return await send()
        kept = self._results.get(key)
        now = self._clock.monotonic()
        if kept is not None and now < kept.fresh_until:
            return self._again(kept, "hit")
        if kept is None and self._results.apart(key):
            return await self._alone(key, rule, send)
        flight = self._results.flights.get(key)
        if flight is not None:
            found = await caller_connection.awaiting(_landed(flight))
            if caller_connection.disconnected():
                return not_awaited(call, cancel_requested=caller_connection.cancel_requested, begun=False)
            return await self._follow(flight, found, call, key, rule, send)
        return await self._fetch(key, rule, kept, call.tool.source, send)

    def idle(self, tool: Tool) -> bool:
        """Return True if no call of the tool is answered from the cache or changes it."""
        return tool.name not in self._tools if tool.effect is Effect.READ else tool.source not in self._sources

    async def _write(self, source: str, send: Callable[[], Awaitable[Result]]) -> Result:
        if source not in self._sources:
            return await send()
        self._results.wrote(source)
        try:
            return await send()
        finally:
            self._results.wrote(source)  # answers that were read during the write may be older than it

    async def _follow(
        self,
        flight: Flight,
        found: StoredAnswer | Failed | None,
        call: Call,
        key: bytes,
        rule: CacheFor,
        send: Callable[[], Awaitable[Result]],
    ) -> Result:
        """Return the shared result `found` of an equal call in flight, or make this call if there is nothing to share.

        The waiting calls would all start at once, which they would not do without the cache. So only a few of them run at a time: a burst
        would take every place of their system, and most would be refused.
        """
        match found:
            case StoredAnswer():
                return self._again(found, "shared")
            case Failed():
                return replace(found, delivery=Delivery(cache="shared"))
        try:
            async with asyncio.timeout(self._max_wait_s):
                await flight.places.acquire()
        except TimeoutError:
            return Refused(error=_CROWDED)
        try:
            kept = self._results.get(key)  # an earlier call may have got an answer that can be shared
            if kept is not None and self._clock.monotonic() < kept.fresh_until:
                return self._again(kept, "shared")
            if call.withheld is not None and (held := await call.withheld(call)) is not None:
                return Refused(error=held)
            return await self._alone(key, rule, send)
        finally:
            flight.places.release()

    async def _alone(self, key: bytes, rule: CacheFor, send: Callable[[], Awaitable[Result]]) -> Result:
        """Make the call for its caller alone; an answer that can be shared is stored for later callers."""
        result = await send()
        if isinstance(result, Success):
            self._keep(key, rule, result)
        return result

    async def _fetch(
        self, key: bytes, rule: CacheFor, kept: StoredAnswer | None, source: str, send: Callable[[], Awaitable[Result]]
    ) -> Result:
        flight = self._results.flights[key] = Flight(min(ABREAST, self._sources[source]))
        found: StoredAnswer | Failed | None = None
        try:
            result = await send()
            if isinstance(result, Success):
                found = self._keep(key, rule, result)
                if found is None:
                    self._results.set_apart(key)
                return result
            if kept is not None and _down(result):
                found = kept
                return self._again(kept, "stale", result)
            if not isinstance(result, Cancelled):
                self._results.drop(key)  # the system gave another answer, so the stored one is outdated
            found = result if isinstance(result, Failed) else None
            return result
        finally:
            del self._results.flights[key]
            flight.found.set_result(found)

    def _keep(self, key: bytes, rule: CacheFor, result: Success) -> StoredAnswer | None:
        """Store an answer and return it in the stored form, or None if it may not be cached or shared."""
        said = result.delivery.lifetime_s
        lifetime = min(rule.ttl_s, math.inf if said is None else said)
        # A partial answer may be complete a moment later, and a stored file expires.
        partial = result.shape in {Shape.GRAPHQL, Shape.STORED}
        body = _written(result.data) if lifetime > 0 and not result.truncated and not partial else None
        if body is None:
            self._results.drop(key)
            return None
        now = self._clock.monotonic()
        kept = StoredAnswer(
            body=body,
            shape=result.shape,
            next_cursor=result.next_cursor,
            link=result.delivery.link,
            total=result.delivery.total,
            rows=result.delivery.rows,
            row_notes=result.row_notes,
            unread_fields=result.unread_fields,
            made=now,
            fresh_until=now + lifetime,
            stale_until=now + lifetime + rule.stale_s,
        )
        self._results.put(key, kept)
        return kept

    def _again(self, kept: StoredAnswer, how: str, failed: Result | None = None) -> Success:
        tried = failed.delivery if isinstance(failed, Failed) else UNTRIED
        delivery = Delivery(
            cache=how,
            rows=kept.rows,
            link=kept.link,  # link to the next page
            total=kept.total,
            attempts=tried.attempts,
            retried=tried.retried,
        )
        age = max(0.0, self._clock.monotonic() - kept.made)
        return Success(
            data=msgspec.json.decode(kept.body),
            next_cursor=kept.next_cursor,
            delivery=delivery,
            age_s=round(age, 3),
            shape=kept.shape,
            row_notes=kept.row_notes,
            unread_fields=kept.unread_fields,
        )

    def _key(self, call: Call, policy_digest: str) -> bytes | None:
        """Return the cache key of a call, or None if it is not cached.

        The key covers the caller and its user, their roles and attributes, the policy, and the exact call.
        """
        if call.tool.shows_schema or call.database is not None or call.sampling is not None:
            return None
        # If callers' own tokens are exchanged, another token of the same caller may open less.
        tokens = [_mark(who.token) for who in (call.principal, call.principal.on_behalf_of) if who is not None]
        said: list[object] = [self._results.writes(call.tool.source), tokens]
        if (statement := call.statement) is not None:
            said += [statement.sql, statement.parameters, statement.max_rows, statement.page, statement.skip]
        if (document := call.document) is not None:
            said += [document.query, document.variables, document.operation_name]
        with suppress(CanonicalError):
            return hashlib.sha256(canonical(encodable([approval_digest(call, policy_digest), *said]))).digest()
        return None


async def _landed(flight: Flight) -> StoredAnswer | Failed | None:
    return await asyncio.shield(flight.found)


def _mark(token: Secret | None) -> str:
    return "" if token is None else hashlib.sha256(token.reveal().encode()).hexdigest()


def _written(data: Json) -> bytes | None:
    """Return JSON that decodes to exactly this value, None if there is none: half a surrogate pair, for example."""
    try:
        body = msgspec.json.encode(data)
        return body if msgspec.json.decode(body) == data else None
    except (TypeError, ValueError, RecursionError):
        return None


def _down(result: Result) -> bool:
    """Return True if the call failed for a reason that says nothing about the answer."""
    if not isinstance(result, Failed | Refused):
        return False
    if result.error.code in _DOWN:
        return True
    if isinstance(result, Refused):
        return False
    status = result.delivery.status
    return result.delivery.broken or (isinstance(status, int) and status >= 500)
