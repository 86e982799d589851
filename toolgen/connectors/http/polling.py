"""Long-running operations: if a system answers that it is still working, the operation is polled to its end, as one call.

Every status request goes through the inner executor, with its breaker, retries, egress rules, deadlines and limits; credentials are sent
to the call's own origin only.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from functools import partial
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from toolgen.connectors.executor import Executor
from toolgen.connectors.health import Monitored, SystemHealth
from toolgen.connectors.http.oauth.account_tokens import unlinked
from toolgen.connectors.http.operations import (
    OperationRequest,
    OperationState,
    begun,
    leads,
    progress_of,
    state_of,
    value_at,
)
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.connectors.http.redirects import origin_of, resolved
from toolgen.connectors.http.request_builder import bind
from toolgen.connectors.http.response import HttpResponse, excerpt, result, retry_after
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.http.status_posts import status_body, with_body
from toolgen.connectors.poll_settings import PollConfig
from toolgen.connectors.resilience import transient
from toolgen.core.background import cancel
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.error_codes import ErrorCode
from toolgen.model.account_need import AuthorizationRequiredError
from toolgen.model.call import Call
from toolgen.model.result import Delivery, Error, Failed, Refused, Success
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Effect, HttpBinding

__all__ = ["PollingExecutor", "reader_for"]

_RETRY_AFTER = "retry-after"
_MAX_MISSES = 5
"""Maximum number of consecutive temporary failures of status requests, before polling stops."""
_CALLED_OFF_S = 3.0
_TOLD = frozenset({"egress_refused", "upstream_timeout", "paused", "expired"})
_READ_ON = "find out what became of the operation before trying again"
_CLOCK = SystemClock()
_logger = logging.getLogger(__name__)


class _HeaderReader:
    """Reader of answers that also keeps the headers that polling needs."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def __call__(self, answer: HttpResponse, scrubber: Scrubber, method: str, delivery: Delivery) -> Success | Failed:
        said = {name: scrubber.text(answer.headers[name]) for name in self._names if name in answer.headers}
        return result(answer, scrubber, method, msgspec.structs.replace(delivery, headers=said) if said else delivery)


def reader_for(polls: Collection[PollConfig]) -> _HeaderReader:
    """Return the response reader for the inner executor. It keeps the headers that polling needs."""
    places = [place for poll in polls for place in (*poll.url, poll.result_url, poll.cancel_url) if place is not None]
    return _HeaderReader({_RETRY_AFTER, *(place.header for place in places if place.header)})


class _PolledOperation(Struct):
    """Operation that is polled: the URL of its status, the first and the latest response, and the number of requests."""

    url: str
    first: Success
    latest: Success
    requests: int
    misses: int = 0
    wait_s: float = 0.0


class PollingExecutor:
    """Polls operations of one source. `polls` has the settings of toolgen.yaml by tool; one without `url` is for tools that are not
    polled although `default` is set. `hidden` are the names of credentials in queries."""

    def __init__(
        self,
        inner: Executor,
        *,
        default: PollConfig | None,
        polls: Mapping[str, PollConfig],
        hidden: Collection[str],
        clock: Clock = _CLOCK,
    ) -> None:
        self._inner, self._clock = inner, clock
        self._default = default
        self._polls = polls
        self._hidden = hidden
        self._ending: set[asyncio.Task[None]] = set()

    async def execute(self, call: Call) -> Success | Failed | Refused:
        """Execute the call with the inner executor. If the response begins a long-running operation, poll it and return its result."""
        outcome = await self._inner.execute(call)
        poll = self._polls.get(call.tool.name, self._default)
        binding = call.tool.binding
        if isinstance(outcome, Refused) or poll is None or not isinstance(binding, HttpBinding):
            return outcome if isinstance(outcome, Refused) else _bare(outcome)
        if isinstance(outcome, Failed) or not poll.url:
            return _bare(outcome)
        try:
            url = bind(binding, call.arguments, call.tool.input_schema).url
        except UnbindableError:
            return _bare(outcome)  # it was sent, so it can be bound
        server = binding.servers[0].rstrip("/")
        following = _Following(
            self._inner, call, binding, poll, OperationRequest(url=url, server=server, hidden=self._hidden), self._clock
        )
        return await following.run(outcome, self._ending)

    def preview(self, call: Call) -> JsonObject:
        """Return the inner executor's preview. Only the first request is known beforehand."""
        return self._inner.preview(call)

    def health(self) -> tuple[SystemHealth, ...]:
        """Return the health of the inner executor's systems."""
        return self._inner.health() if isinstance(self._inner, Monitored) else ()

    async def close(self) -> None:
        """Close the inner executor, without waiting for operations that are being cancelled."""
        await cancel(*self._ending)
        await self._inner.close()


class _Following:
    """Polling of one call's operation, from the first response to its end."""

    def __init__(
        self, inner: Executor, call: Call, binding: HttpBinding, poll: PollConfig, asked: OperationRequest, clock: Clock
    ) -> None:
        self._inner, self._clock = inner, clock
        self._call = call
        self._binding = binding
        self._poll = poll
        self._asked = asked

    async def run(self, first: Success, ending: set[asyncio.Task[None]]) -> Success | Failed:
        """Return the outcome of the call. If the call is cancelled, the operation is cancelled as toolgen.yaml describes."""
        found = begun(self._poll, self._asked, first)
        if found is None:
            return _bare(first)
        url, state = found
        followed = _PolledOperation(url=url, first=first, latest=first, requests=first.delivery.attempts or 1)
        self._hear(followed, first)
        if state is OperationState.RUNNING and not url:
            return self._broken(followed, "the URL of its status may not be requested")
        try:
            return await self._follow(followed, state)
        except asyncio.CancelledError:
            if self._poll.cancel and self._call.line is not None and self._call.line.disconnected():
                await self._call_off(followed, ending)
            raise

    async def _follow(self, followed: _PolledOperation, state: OperationState) -> Success | Failed:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._poll.total_s
        while state is OperationState.RUNNING:
            pause = self._pause(followed)
            if loop.time() + pause >= ends:
                return self._broken(followed, "it did not end in time", code="upstream_timeout")
            await asyncio.sleep(pause)
            found = await self._look(followed)
            if not isinstance(found, OperationState):
                return found
            state = found
        match state:
            case OperationState.DONE:
                return await self._done(followed, ends)
            case OperationState.FAILED:
                return self._failed(followed)
            case _:
                return self._broken(followed, "its status has no known state")

    async def _look(self, followed: _PolledOperation) -> OperationState | Success | Failed:
        """Return the current state of the operation, or the outcome of the call."""
        asking = self._request("GET", followed.url)
        if (post := self._poll.post) is not None:
            if (body := status_body(post, followed.first)) is None:
                return self._broken(followed, "the answer that began it lacks a value for the status request")
            asking = with_body(asking, post, body)
        answer = await self._ask(followed, asking)
        if (
            isinstance(answer, Failed) and answer.delivery.status == 303
        ):  # its result is elsewhere (RFC 9110, section 15.4.4)
            return await self._result(
                followed, resolved(followed.url, answer.delivery.location, self._asked.hidden, self._poll.origins) or ""
            )
        if not isinstance(answer, Success):
            return self._missed(followed, answer) or OperationState.RUNNING
        followed.latest, followed.misses = answer, 0
        for place in self._poll.url:
            if place.header and (url := leads(self._poll, place, self._asked, answer)) is not None:
                if not url:
                    return self._broken(followed, "its status moved to a URL that may not be requested")
                followed.url = url
                break
        state = state_of(self._poll, answer)
        if state is OperationState.RUNNING:
            self._tell(followed)
        return state

    def _missed(self, followed: _PolledOperation, answer: Failed | Refused) -> Failed | None:
        """Return the failure of a call whose status cannot be read; None if the fault may be temporary and polling continues."""
        followed.misses += 1
        for_the_moment = isinstance(answer, Refused) or transient(answer)
        if for_the_moment and followed.misses <= _MAX_MISSES:
            return None
        return self._broken(followed, f"its status cannot be read: {answer.error.message}", cause=answer.error)

    async def _done(self, followed: _PolledOperation, ends: float) -> Success | Failed:
        poll, latest = self._poll, followed.latest
        if poll.error and value_at(latest.data, poll.error) not in (None, "", {}, []):
            return self._failed(followed)
        if poll.result_url is not None:
            for answer in (latest, followed.first):
                if (url := leads(poll, poll.result_url, self._asked, answer)) is not None:
                    return await self._result(followed, url, ends)
        data = value_at(latest.data, poll.result) if poll.result else latest.data
        return msgspec.structs.replace(latest, data=data, delivery=self._delivery(followed, latest.delivery))

    async def _result(self, followed: _PolledOperation, url: str, ends: float | None = None) -> Success | Failed:
        """Read the result of a successful operation from its URL."""
        why = "its URL may not be requested"
        loop = asyncio.get_running_loop()
        for number in range(_MAX_MISSES if url else 0):
            if number:
                pause = self._pause(followed)
                if ends is not None and loop.time() + pause >= ends:
                    break
                await asyncio.sleep(pause)
            answer = await self._ask(followed, self._request("GET", url))
            if isinstance(answer, Success):
                if answer.delivery.status != 202:
                    return msgspec.structs.replace(answer, delivery=self._delivery(followed, answer.delivery))
                why = "it is not available yet"
                continue
            why = answer.error.message
            if not (isinstance(answer, Refused) or transient(answer)):
                break
        error = Error(
            code="upstream_error",
            message=f"the operation succeeded, but its result cannot be read: {why}",
            suggestion="do not begin it again; look for its result in another way",
        )
        return Failed(error=error, delivery=self._delivery(followed, Delivery()))

    def _failed(self, followed: _PolledOperation) -> Failed:
        """Return the failure of the operation with the service's reason."""
        data = value_at(followed.latest.data, self._poll.error) if self._poll.error else None
        data = followed.latest.data if data is None else data
        said = excerpt(data)
        error = Error(
            code="upstream_error",
            message=f"the operation failed{f': {said}' if said else ''}",
            suggestion="change the arguments as the service says, or try again later",
        )
        return Failed(error=error, data=data, delivery=self._delivery(followed, followed.latest.delivery))

    def _broken(
        self, followed: _PolledOperation, why: str, *, code: ErrorCode = "upstream_error", cause: Error | None = None
    ) -> Failed:
        """Return the outcome of a call whose operation has begun and whose end is unknown."""
        if self._call.tool.effect is Effect.READ:
            kept = cause.code if cause is not None and cause.code in _TOLD else code
            rule = cause.rule if cause is not None and kept == cause.code else ""
            error = Error(
                code=kept, message=f"the operation was begun, but {why}", suggestion="try again later", rule=rule
            )
            return Failed(error=error, delivery=self._delivery(followed, Delivery()))
        error = Error(
            code="outcome_unknown",
            message=f"the operation was begun, but {why}; it may or may not take effect",
            suggestion=_READ_ON,
        )
        return Failed(error=error, delivery=self._delivery(followed, Delivery(broken=True)))

    def _delivery(self, followed: _PolledOperation, last: Delivery) -> Delivery:
        """Return the delivery of the whole call: the number of requests, and the last answer."""
        first = followed.first.delivery
        return msgspec.structs.replace(
            last, attempts=followed.requests, retried=first.retried, unsent=False, headers=None, location=""
        )

    def _hear(self, followed: _PolledOperation, answer: Success | Failed | Refused) -> None:
        """Read the wait that a response asks for."""
        if isinstance(answer, Refused | Failed):
            followed.wait_s = answer.error.retry_after_s or 0.0
        else:
            asked = (answer.delivery.headers or {}).get(_RETRY_AFTER)
            followed.wait_s = (retry_after(asked, self._clock.now()) or 0.0) if asked else 0.0

    def _pause(self, followed: _PolledOperation) -> float:
        """Return the pause: at least the interval, and at most the maximum, for any wish of the service."""
        return max(self._poll.interval_s, min(followed.wait_s, self._poll.longest_interval_s))

    def _tell(self, followed: _PolledOperation) -> None:
        line = self._call.line
        if line is None:
            return
        progress = progress_of(self._poll, followed.latest)
        if progress.percent is not None:
            line.progress(progress.percent, 100, progress.message)
        elif not self._poll.percent:
            line.progress(followed.requests - 1, None, progress.message)

    async def _sent(self, asking: Call) -> Success | Failed | Refused:
        """Send a request that follows the call's own. If the person's account is gone by then, the call is not made again."""
        try:
            return await self._inner.execute(asking)
        except AuthorizationRequiredError as error:
            return unlinked(error)

    async def _ask(self, followed: _PolledOperation, asking: Call) -> Success | Failed | Refused:
        """Send one polling request, unless the policy withholds the call by now."""
        if self._call.withheld is not None and (held := await self._call.withheld(self._call)) is not None:
            return Failed(error=held)
        answer = await self._sent(asking)
        followed.requests += 1 if isinstance(answer, Refused) else answer.delivery.attempts or 1
        self._hear(followed, answer)
        if isinstance(answer, Failed) and answer.error.code == "rejected":
            # The members that look like a rejection (`ok: false`) belong to the status, which has its own settings.
            return Success(data=answer.data, delivery=answer.delivery)
        return answer

    def _request(self, method: str, url: str) -> Call:
        """Request about the operation, with the credentials of the call only if it goes to the same origin."""
        parts = urlsplit(url)
        same = origin_of(url) == origin_of(self._asked.url)
        given = self._binding.constants
        constants = tuple(one for one in given if one.parameter.in_ == "header") if given and same else msgspec.UNSET
        binding = HttpBinding(
            method=method,
            path=f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/",
            servers=(f"{parts.scheme}://{parts.netloc}",),
            parameters=(),
            body=None,
            security=self._binding.security if same else (),
            constants=constants,
        )
        tool = msgspec.structs.replace(
            self._call.tool,
            binding=binding,
            input_schema={},
            output_schema=None,
            effect=Effect.READ if method == "GET" else self._call.tool.effect,
            idempotent=method != "POST",
        )
        call = self._call
        withheld = None if call.withheld is None else partial(_withheld, call)
        return msgspec.structs.replace(call, tool=tool, arguments={}, idempotency_key="", line=None, withheld=withheld)

    async def _call_off(self, followed: _PolledOperation, ending: set[asyncio.Task[None]]) -> None:
        """Ask the service to end the operation. The call is over in any case, so the answer is awaited only for a moment."""
        place, url = self._poll.cancel_url, followed.url
        if place is not None:
            found = (leads(self._poll, place, self._asked, answer) for answer in (followed.latest, followed.first))
            url = next((one for one in found if one), "")
        if not url:
            _logger.warning("the operation of call %s cannot be cancelled: its URL may not be requested", self._call.id)
            return
        task = asyncio.create_task(self._sent_off(url))
        ending.add(task)
        task.add_done_callback(ending.discard)
        await asyncio.wait({task}, timeout=_CALLED_OFF_S)

    async def _sent_off(self, url: str) -> None:
        answer = await self._sent(self._request(self._poll.cancel, url))
        said = "was cancelled" if isinstance(answer, Success) else f"could not be cancelled: {answer.error.code}"
        _logger.info("the operation of call %s %s", self._call.id, said)


async def _withheld(call: Call, _: Call) -> Error | None:
    """Ask the policy about the call itself, not about its polling request."""
    return None if call.withheld is None else await call.withheld(call)


def _bare(outcome: Success | Failed) -> Success | Failed:
    """Return an outcome without the headers that only polling needs."""
    if outcome.delivery.headers is None:
        return outcome
    return msgspec.structs.replace(outcome, delivery=msgspec.structs.replace(outcome.delivery, headers=None))
