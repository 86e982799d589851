"""Keeps failures small: in front of an executor, for each system behind it, a breaker, a number of places and a budget of retries."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.circuit_breaker import SAVED, Ending, System
from toolgen.connectors.executor import AsksForRoots, Executor, FollowsResources, ResourceNotice
from toolgen.connectors.failure_settings import ResilienceConfig
from toolgen.connectors.health import SystemHealth
from toolgen.core.background import SeldomLog
from toolgen.core.clock import Clock, SystemClock
from toolgen.model.call import Call
from toolgen.model.result import Delivery, Error, Failed, Refused, Success
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Effect, GraphQLBinding, GraphQLDocumentBinding, HttpBinding, McpBinding

__all__ = ["Chance", "ResilientExecutor", "transient"]

_FIRST_PAUSE_S = 0.1
_CROWDED_RETRY_S = 1.0
_MAX_TOOLS = 20_000
_BUSY = frozenset({429, 502, 503, 504})  # what may be otherwise in a moment
# Answers to a repetition that say nothing of the request it repeats: it may be under way, or have been carried out.
_UNDECIDED = frozenset({401, 403, 408, 409, 425, 429})
_CLOCK = SystemClock()
_logger = logging.getLogger(__name__)
_DISCONNECTED = Error(code="cancelled", message="its caller disconnected")


class Chance(Struct, frozen=True, kw_only=True):
    """Sources of jitter and of waiting, which tests replace."""

    draw: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


_CHANCE = Chance()


class _Attempt:
    """Attempt to make a call. When it ends, its concurrency slot goes to the next call, and the breaker records the result.

    `placed` is True if the attempt has a slot, and `wait` is for how many seconds the breaker lets nothing through. It is a plain context
    manager, because a coroutine would take memory for as long as the call is in flight.
    """

    __slots__ = ("_began", "_epoch", "_line", "outcome", "placed", "wait")

    def __init__(self, line: System, began: float) -> None:
        breaker = line.breaker
        self._line, self._began = line, began
        self.wait = 0.0 if breaker is None else breaker.enter()
        self._epoch = 0 if breaker is None else breaker.epoch
        self.outcome: Success | Failed | Refused | None = None
        self.placed = self.wait <= 0 and line.free > 0 and not line.waiting
        line.free -= self.placed

    @property
    def overtaken(self) -> bool:
        """True if the breaker has opened or closed since the attempt was let through."""
        return self._line.breaker is not None and self._line.breaker.epoch != self._epoch

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, *_: object) -> None:
        line, outcome = self._line, self.outcome
        if self.placed and line.waiting:
            _give_back(line)
        elif self.placed:
            line.free += 1
        if self.wait > 0:
            return
        ending = Ending.SILENT
        if outcome is not None:
            ending = Ending.ANSWERED if isinstance(outcome, Success) else _ending(outcome)
        if ending is Ending.ANSWERED:
            line.answered += 1
        elif ending is Ending.FAILED:
            line.failed += 1
        elif ending is not Ending.SILENT:
            line.unreachable += 1
        if line.breaker is not None:
            line.breaker.leave(self._epoch, ending, self._began)


class ResilientExecutor:
    """Sends calls with `inner`, as often as `resilience` allows.

    Sent again is what failed for the moment, and only where that is harmless: `repeatable` says so of a call, and anything is where
    nothing was sent. An `outcome_unknown` never is. Refused, unlike Failed, says that nothing was tried. `source` is its name in the log.
    """

    def __init__(
        self,
        inner: Executor,
        *,
        resilience: ResilienceConfig,
        repeatable: Callable[[Call], bool],
        source: str = "",
        clock: Clock = _CLOCK,
        chance: Chance = _CHANCE,
    ) -> None:
        self._inner = inner
        self._source = source
        self._resilience = resilience
        self._repeatable = repeatable
        self._clock = clock
        self._chance = chance
        self._of_tools: dict[str, System] = {}  # by digest: a tool with the same one has the same address
        self._lines: dict[str, System] = {}  # by the address as it is written; as many as the catalog has
        self._seldom = SeldomLog(_logger, clock)
        self._systems: dict[str, System] = {}

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """Execute the call with `inner`, with retries. The delivery lists every attempt but the last under `retried`."""
        line = self._of_tools.get(call.tool.digest)
        if line is None:
            address = _address(call)
            if not address:
                return await self._inner.execute(call)
            line = self._lines.get(address) or self._add(address)
            if call.tool.digest:
                if len(self._of_tools) >= _MAX_TOOLS:
                    self._of_tools.clear()
                self._of_tools[call.tool.digest] = line
        began = self._clock.monotonic()
        attempt = _Attempt(line, began)
        try:
            refused = None if attempt.placed else await self._let_on(attempt, line, call)
            attempt.outcome = outcome = refused or await self._inner.execute(call)
        finally:
            attempt.__exit__()
        line.tokens = min(SAVED, line.tokens + self._resilience.retries.budget)
        if not isinstance(outcome, Failed):
            return outcome
        if not transient(outcome):
            return _in_doubt(call, outcome, sent=_unanswered(outcome))
        return await self._again(line, call, began, outcome)

    def preview(self, call: Call) -> JsonObject:
        return self._inner.preview(call)

    async def follow(self, read: Call, listener: Callable[[ResourceNotice], None]) -> None:
        """Follow the resource of a read, if the inner executor can."""
        if isinstance(self._inner, FollowsResources):
            await self._inner.follow(read, listener)

    def roots_asked(self) -> Sequence[Call]:
        """Return the last call of each caller that the inner executor's system got the folders of."""
        return self._inner.roots_asked() if isinstance(self._inner, AsksForRoots) else ()

    async def roots_changed(self, call: Call) -> None:
        """Tell the inner executor's system that folders have changed."""
        if isinstance(self._inner, AsksForRoots):
            await self._inner.roots_changed(call)

    def health(self) -> tuple[SystemHealth, ...]:
        """State of the systems that calls went to, in the order of their names."""
        return tuple(self._systems[name].health() for name in sorted(self._systems))

    async def close(self) -> None:
        await self._inner.close()

    def _add(self, address: str) -> System:
        """The line of an address: paths of one host are one system."""
        name = _system(address)
        line = self._systems.get(name)
        if line is None:
            line = self._systems[name] = System(name, self._source, self._resilience, self._clock)
        self._lines[address] = line
        return line

    async def _again(self, line: System, call: Call, began: float, failed: Failed) -> Success | Failed:
        """The attempts after the first, for as long as there is a point to them."""
        retries = self._resilience.retries
        tried: list[Mapping[str, str | float]] = []
        outcome: Success | Failed = failed
        since, sent = began, _unanswered(failed)
        for number in range(1, retries.attempts):
            if not isinstance(outcome, Failed) or not transient(outcome) or not self._harmless(call, outcome):
                break
            pause = self._pause(number, outcome)
            ends = self._clock.monotonic() + pause - began
            if pause > retries.longest_wait_s or ends >= self._resilience.timeouts.total_s or line.tokens < 1:
                break
            if line.breaker is not None and (wait := line.breaker.retry_in_s()) > 0:
                return _in_doubt(call, _later(outcome, tried, wait), sent=sent)
            line.tokens -= 1
            line.retries += 1
            await self._chance.sleep(pause)
            if (held := _unawaited(call) or await _withheld(call)) is not None:
                outcome = _not_again(outcome, held)
                break
            entry = _entry(outcome, self._clock.monotonic() - since - pause)
            since = self._clock.monotonic()
            latest = await self._attempt(line, call, since, self._left(call, since - began))
            if isinstance(latest, Refused):  # the breaker opened meanwhile, say
                outcome = _not_again(outcome, latest.error)
                break
            tried.append(entry)
            outcome = latest
            sent = sent or _unanswered(latest)
        return _in_doubt(call, _told(outcome, tried), sent=sent)

    def _harmless(self, call: Call, failed: Failed) -> bool:
        return failed.delivery.unsent or self._repeatable(call)

    def _left(self, call: Call, spent: float) -> float | None:
        """Seconds that a further attempt may take: what is left of the whole, where breaking it off does no harm."""
        return self._resilience.timeouts.total_s - spent if self._repeatable(call) else None

    def _pause(self, number: int, failed: Failed) -> float:
        """Full jitter, on top of what the system asked for."""
        most = min(self._resilience.retries.longest_wait_s, _FIRST_PAUSE_S * 2.0 ** (number - 1))
        asked = failed.error.retry_after_s or 0.0
        pause = asked + self._chance.draw() * most
        return min(pause, max(asked, self._resilience.retries.longest_wait_s))

    async def _attempt(
        self, line: System, call: Call, began: float, seconds: float | None
    ) -> Success | Failed | Refused:
        """Make one retry, which takes no longer than `seconds`."""
        with _Attempt(line, began) as attempt:
            refused = None if attempt.placed else await self._let_on(attempt, line, call)
            attempt.outcome = outcome = refused or await (
                self._inner.execute(call) if seconds is None else self._bounded(line, call, seconds)
            )
        return outcome

    async def _let_on(self, attempt: _Attempt, line: System, call: Call) -> Refused | None:
        """Waits for a place, which the attempt has from then on; or why it is not made."""
        if attempt.wait > 0:
            line.held += 1
            return _open(line.name, attempt.wait)
        if not await self._place(line):
            line.crowded += 1
            self._seldom.say(f"{line.said} has no place left: {line.places} calls are under way, others are refused")
            return _crowded(line.name)
        attempt.placed = True
        if (held := await _withheld(call)) is not None:
            return Refused(error=held)
        if line.breaker is not None and attempt.overtaken:  # it opened while this call stood in line
            line.held += 1
            return _open(line.name, line.breaker.retry_in_s())
        return None

    async def _bounded(self, line: System, call: Call, seconds: float) -> Success | Failed | Refused:
        try:
            async with asyncio.timeout(seconds):
                return await self._inner.execute(call)
        except TimeoutError:
            error = Error(
                code="upstream_timeout",
                message=f"{line.name} did not answer in time",
                suggestion="try again later",
            )
            return Failed(error=error, delivery=Delivery(attempts=1, broken=True))

    async def _place(self, line: System) -> bool:
        """Waits in line for a place, for as long as a connection is waited for; there are as many places to wait as to be served."""
        if len(line.waiting) >= self._resilience.concurrency:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line.waiting.append(turn)
        try:
            async with asyncio.timeout(self._resilience.timeouts.connect_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                _give_back(line)  # it was this call's turn just now
            else:
                with suppress(ValueError):
                    line.waiting.remove(turn)
            if isinstance(error, TimeoutError):
                return False
            raise
        return True


def transient(failed: Failed) -> bool:
    """Return True if a failure is temporary: no connection, no complete answer, or a status such as 429 or 503.

    A call that was sent and got no answer counts as temporary, but it may have taken effect.
    """
    if failed.error.code in {"upstream_timeout", "upstream_unavailable"}:
        return failed.delivery.attempts is not None
    return failed.delivery.broken or failed.delivery.status in _BUSY


def _unanswered(outcome: Success | Failed) -> bool:
    """Return True if an attempt was sent and got no answer."""
    return isinstance(outcome, Failed) and outcome.delivery.broken


def _in_doubt(call: Call, outcome: Success | Failed, *, sent: bool) -> Success | Failed:
    """Outcome of a call of which an attempt was `sent` and not answered: whatever became of the others, that one may have taken effect.

    Where doing it again is no harm, or its caller can do so under the same key, it has just failed. Otherwise nobody knows how it ended.
    """
    if not sent or not isinstance(outcome, Failed):
        return outcome
    delivery = replace(outcome.delivery, unsent=False)
    status = delivery.status
    final = isinstance(status, int) and 400 <= status < 500 and status not in _UNDECIDED
    harmless = call.tool.idempotent or call.tool.effect is Effect.READ or bool(call.idempotency_key)
    if final or harmless:
        return replace(outcome, delivery=delivery)
    error = Error(
        code="outcome_unknown",
        message=f"it was sent, and an attempt got no answer; in the end: {outcome.error.message}",
        suggestion="find out what happened before trying again; with an idempotency key of its caller's a call may be repeated",
    )
    return replace(outcome, error=error, delivery=delivery)


def _ending(outcome: Failed | Refused) -> Ending:
    if isinstance(outcome, Refused):
        return Ending.SILENT
    delivery = outcome.delivery
    if delivery.unsent:
        return Ending.UNREACHED if outcome.error.code == "upstream_timeout" else Ending.REFUSED
    status = delivery.status
    if isinstance(status, int):
        return Ending.FAILED if status >= 500 else Ending.ANSWERED
    return Ending.FAILED if delivery.broken else Ending.SILENT


def _entry(failed: Failed, seconds: float) -> Mapping[str, str | float]:
    """Return the audit entry of an attempt that was retried."""
    return {"code": failed.error.code, "duration_ms": round(max(0.0, seconds) * 1000, 3)}


def _unawaited(call: Call) -> Error | None:
    """Why a call is not sent again that failed for the moment: its caller has disconnected, or called it off."""
    return _DISCONNECTED if call.line is not None and call.line.disconnected() else None


async def _withheld(call: Call) -> Error | None:
    """Why a call may not be sent any more: the gateway's word, which may have changed while it waited."""
    return None if call.withheld is None else await call.withheld(call)


def _not_again(failed: Failed, held: Error) -> Failed:
    """Return the failure of the last attempt, with the reason why it was not retried."""
    error = replace(
        failed.error,
        message=f"{failed.error.message}; it was not sent again: {held.message}",
        suggestion=held.suggestion or failed.error.suggestion,
        retry_after_s=held.retry_after_s,
    )
    return replace(failed, error=error)


def _told(outcome: Success | Failed, tried: list[Mapping[str, str | float]]) -> Success | Failed:
    return (
        replace(
            outcome,
            delivery=replace(outcome.delivery, attempts=len(tried) + 1, retried=tuple(tried)),
        )
        if tried
        else outcome
    )


def _later(failed: Failed, tried: list[Mapping[str, str | float]], wait: float) -> Success | Failed:
    """A failure that there is no point in trying to mend before `wait` is over."""
    wait = round(max(wait, failed.error.retry_after_s or 0.0), 3)
    return _told(replace(failed, error=replace(failed.error, retry_after_s=wait)), tried)


def _give_back(line: System) -> None:
    """A place goes to who waits longest, or is free again."""
    while line.waiting:
        turn = line.waiting.popleft()
        if not turn.done():
            turn.set_result(None)
            return
    line.free += 1


def _address(call: Call) -> str:
    """Address of a call, as its binding says; "" where nothing is sent."""
    match call.tool.binding:
        case HttpBinding(servers=servers):
            return servers[0] if servers else ""
        case McpBinding(url=url):
            return url
        case GraphQLBinding(endpoint=endpoint) | GraphQLDocumentBinding(endpoint=endpoint):
            return endpoint
        case _:
            return ""


def _system(address: str) -> str:
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return address[:100]
    default = 443 if parts.scheme == "https" else 80
    return f"{parts.hostname or ''}:{port or default}"


def _open(name: str, wait: float) -> Refused:
    return Refused(
        error=Error(
            code="upstream_unavailable",
            message=f"{name} failed too often just now; nothing was sent",
            suggestion="go on without it if you can",
            retry_after_s=round(wait, 3),
            rule="breaker",
        )
    )


def _crowded(name: str) -> Refused:
    return Refused(
        error=Error(
            code="upstream_unavailable",
            message=f"too many calls to {name} are under way; nothing was sent",
            suggestion="wait for some of them to end",
            retry_after_s=_CROWDED_RETRY_S,
            rule="concurrency",
        )
    )
