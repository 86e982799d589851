"""Joining of equal calls: a call that equals a waiting one is not approved, and not made, a second time.

Equal calls are calls of the same principal to the same tool with the same arguments that change something or need approval. A call joins
another one while that waits for a person or a device, or continues without its client, and for a minute after its end, unless its outcome
has been read. Calls with an idempotency key, and calls within another call, join none.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, cast

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from toolgen.core.background import SeldomLog
from toolgen.core.canonical import canonical, encodable, flat_form
from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import CanonicalError, StateError
from toolgen.model.call import Call, CredentialProof, Principal, parties
from toolgen.model.result import Error, Pending, Result
from toolgen.model.tool import Effect, Tool
from toolgen.pipeline.call_plan import GENERAL, Prepared, PreparedStage, unasked
from toolgen.pipeline.middleware import CallContext, Next
from toolgen.pipeline.stages.broken_off import not_awaited
from toolgen.state.equal_calls import EqualCalls

__all__ = ["HELD_S", "EqualCallsStage", "StandingCalls"]

_logger = logging.getLogger(__name__)
HELD_S = 8 * 86_400.0
"""Maximum time that the name of a stored call is held: a day longer than a call may wait."""
_BEGIN_S = 60.0
"""Maximum seconds until a call is stored, from when its caller may leave or people are asked."""
_LOOK_S = 0.05
_MAX_RELEASED = 10
_WAITS = frozenset({"approval_required", "deferred"})


class StandingCalls(Protocol):
    """Calls that are stored while they wait.

    A protocol, because the gateway implements it, which the pipeline must not import.
    """

    async def joined(self, call_id: str, name: str) -> str | None:
        """Return the code of the pending answer for a call that joins a call with this name; "" if that call is over, None if it is not
        stored. Raises `StateError`."""

    def leaving(self, name: str) -> bool:
        """Return True if a call with this name is about to be stored here because its client disconnected."""

    async def is_left(self, call_id: str) -> bool:
        """Return True if a call of this worker continues without its client."""


class EqualCallsStage(Struct, frozen=True, kw_only=True):
    """Stage that joins equal calls. `secret` keys the names of calls, `scope_hash` is the digest of the policy about calls of a principal
    to a tool."""

    calls: EqualCalls | None
    standing: StandingCalls
    secret: Callable[[], bytes]
    scope_hash: Callable[[Principal, Tool], str]
    told: SeldomLog = field(default_factory=lambda: SeldomLog(_logger))

    def __call__(self, call: Call, call_context: CallContext, proceed: Next) -> Coroutine[Any, Any, Result]:
        asks = call_context.verdict == "ask"
        if self.calls is None or not (asks or call.tool.effect is not Effect.READ):
            return proceed(call, call_context)
        if call.parent or call.approval or call.idempotency_key:
            return proceed(call, call_context)
        return self._joined(self.calls, call, call_context, proceed, asks=asks)

    def prepared(self, tool: Tool) -> Prepared:
        """Return a step that passes reads that no rule asks about. Other calls may be equal to a waiting one."""
        if self.calls is None:
            return None
        return PreparedStage(unasked) if tool.effect is Effect.READ else GENERAL

    async def _joined(
        self, calls: EqualCalls, call: Call, call_context: CallContext, proceed: Next, *, asks: bool
    ) -> Result:
        """Return the pending answer of an equal call, or make the call."""
        caller_connection = call_context.caller_connection
        try:
            call = replace(call, equal=self._name(call, asks=asks))
        except CanonicalError:
            return await proceed(call, call_context)
        if caller_connection.under_way is not None and caller_connection.under_way.id == call.id:
            caller_connection.under_way = call
        # A call that may continue without its client, or wait for approval, holds its name from the start; others only after a disconnect.
        seconds = _BEGIN_S + (caller_connection.pends or 0.0) if asks or caller_connection.pends is not None else 0.0
        try:
            other, code = await self._other(calls, call, call_context, seconds)
        except StateError as error:
            self.told.say(f"equal calls cannot be found: {error}")
            return await proceed(call, call_context)
        if code == "left":
            return not_awaited(call, cancel_requested=caller_connection.cancel_requested, begun=False)
        if other:
            call_context.replays = other
            return Pending(
                error=Error(
                    code=cast(ErrorCode, code),
                    message=f"an equal call, {other}, is already waiting",
                    rule=call_context.rule,
                )
            )
        return await (self._held(calls, call, call_context, proceed) if seconds else proceed(call, call_context))

    async def _other(self, calls: EqualCalls, call: Call, call_context: CallContext, seconds: float) -> tuple[str, str]:
        """Return the id of the call that this one joins, with the code of its answer; both are empty if this call is made itself."""
        caller_connection, name, released = call_context.caller_connection, call.equal, 0
        try:
            while released < _MAX_RELEASED:
                if not self.standing.leaving(name):
                    holder = await (calls.take(name, call.id, seconds) if seconds else calls.find(name))
                    if holder is None or holder.call_id == call.id:
                        return "", ""
                    code = await self.standing.joined(holder.call_id, name)
                    if code:
                        return holder.call_id, code
                    if code == "" or holder.kept:
                        await calls.release(name, holder.call_id)
                        released += 1
                        continue
                if caller_connection.disconnected():
                    return "", "left"
                caller_connection.follows = True
                await asyncio.sleep(_LOOK_S)  # its caller waits for it, or it is stored soon
            return "", ""  # the name was held again and again by calls that cannot be joined
        finally:
            caller_connection.follows = False

    async def _held(self, calls: EqualCalls, call: Call, call_context: CallContext, proceed: Next) -> Result:
        """Make a call that holds its name: while it is stored, or until it has ended."""
        try:
            result = await proceed(call, call_context)
        except Exception:
            await self._settle(calls, call, kept=False)
            raise
        waits = isinstance(result, Pending) and (result.error.code in _WAITS or call_context.awaits_account)
        await self._settle(calls, call, kept=waits or await self.standing.is_left(call.id))
        return result

    async def _settle(self, calls: EqualCalls, call: Call, *, kept: bool) -> None:
        try:
            await (calls.hold(call.equal, call.id, HELD_S) if kept else calls.release(call.equal, call.id))
        except StateError as error:
            self.told.say(f"the call that equal calls join cannot be stored: {error}")

    def _name(self, call: Call, *, asks: bool) -> str:
        """Return the name that equal calls share, a keyed digest. A call that needs approval is equal only under the same policy for it."""
        principal, scope_hash = call.principal, self.scope_hash(call.principal, call.tool) if asks else ""
        # A waiting call ends when the key or certificate that it came with is revoked.
        proof = principal.proof or CredentialProof()
        who = [
            list(parties(principal)),
            sorted(principal.toolsets),
            proof.key,
            proof.certificate,
            to_builtins(proof.shown),
            *([principal.account] if principal.account else []),
        ]
        arguments = flat_form(call.arguments) or canonical(encodable(call.arguments))
        said = b"equal calls%b,%b]" % (canonical([who, call.tool.name, scope_hash])[:-1], arguments)
        return hmac.digest(self.secret(), said, "sha256").hex()
