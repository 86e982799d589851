"""Stage of idempotency keys: a call with a key is made once, and repetitions get its outcome."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Callable, Mapping

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.background import cancel
from toolgen.core.canonical import canonical, digest, encodable
from toolgen.core.clock import Clock
from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import CanonicalError, StateError, place_of
from toolgen.core.json_codec import encode_json
from toolgen.model.call import Call, Principal, parties
from toolgen.model.result import Cancelled, Delivery, Error, Failed, Pending, Refused, Result, Shape, Success
from toolgen.model.schema import Json
from toolgen.model.tool import Tool
from toolgen.model.unavailable import fault_error
from toolgen.pipeline.call_plan import Prepared
from toolgen.pipeline.middleware import CallContext, Next
from toolgen.state.idempotency import IdempotencyStore, KeyClaim

__all__ = ["KEPT_S", "LEASE_S", "UNDONE", "LedgerStage", "key_digest"]

_logger = logging.getLogger(__name__)

KEPT_S = 86_400.0
LEASE_S = 10.0
MAX_SIZE = 262_144
MAX_EACH = 10_000
_MAX_WAIT_S = 30.0
_POLL_S = 0.2  # seconds between two checks of a claim; the store does not tell which process has it
UNDONE = frozenset(
    {"upstream_timeout", "upstream_unavailable", "secret_unavailable", "egress_refused", "validation", "rate_limited"}
)
"""Codes of calls that had no effect, or whose effect would not be repeated: their key may be used again for the same call."""
_LOST = Error(
    code="outcome_unknown",
    message="the gateway stopped while it executed the call with this key, and its outcome is unknown",
    suggestion="find out what happened before trying again; `toolgen audit reconcile` lists the call",
)


_FORGOTTEN = Error(
    code="outcome_unknown",
    message="this key was used for call {}, whose outcome was lost by the gateway's shared state; the audit log has it",
    suggestion="find out what happened before trying again with another key",
)


def key_digest(principal: Principal, tool: str, key: str) -> str:
    """Return the digest that replaces a caller's idempotency key in the gateway and in the requests that it sends.

    The digest is unique per caller, user, tool and key, and the key cannot be read from it.
    """
    said = canonical([list(parties(principal)), tool, key])
    return f"tg_{hmac.new(b'toolgen idempotency key', said, 'sha256').hexdigest()[:48]}"


class LedgerStage(Struct, frozen=True, kw_only=True):
    """Stage of idempotency keys. Calls without a key pass. Of the calls with one key, the first continues; the others get its outcome, or
    an answer that it still runs. A key belongs to one principal, one tool, and the arguments that it was first used with.

    `secret` seals outcomes on disk; `redact` applies the redaction of the policy in force to an outcome.
    """

    ledger: IdempotencyStore | None
    clock: Clock
    secret: Callable[[], bytes]
    redact: Callable[[Call, Result], Result]
    max_wait_s: float = _MAX_WAIT_S

    async def __call__(self, call: Call, call_context: CallContext, proceed: Next) -> Result:
        if not call.idempotency_key or self.ledger is None:
            return await proceed(call, call_context)
        try:
            mine = self._claim(call, await self.ledger.now())
            known = await self._settled(self.ledger, mine, approved=bool(call.approval))
            if known is not None and known.call_id == call.id and call.approval:
                # An approver may have changed the arguments: the key stays bound to those that the caller sent.
                mine = replace(mine, arguments=known.arguments)
            if known is not None and known.call_id == call.id and known.status == "waiting":
                await self.ledger.settle(mine)  # a person approved it
        except CanonicalError:
            return _refused("validation", "an idempotency key cannot be bound to these arguments")
        except StateError as error:
            message = "the idempotency key of call %s could not be stored: %s"
            _logger.error(message, call.id, place_of(error))  # noqa: TRY400 - the cause may quote values
            return Refused(error=fault_error(error, "the idempotency key cannot be stored now, so nothing was sent"))
        if known is None:
            return _refused("rate_limited", "too many idempotency keys of this caller are in use", KEPT_S)
        if known.arguments != mine.arguments:
            return _refused("validation", "this idempotency key was used with other arguments", rule="idempotency_key")
        if known.call_id != call.id:
            call_context.replays = known.call_id
        elif known.status != "ended":
            return await self._carry(self.ledger, mine, call, call_context, proceed)  # the first call with its key
        return self.redact(call, self._told(known))

    def prepared(self, _tool: Tool) -> Prepared:
        """Return None: a plan is for calls without a key."""
        return None

    def _claim(self, call: Call, now: float) -> KeyClaim:
        return KeyClaim(
            id=call.idempotency_key,
            call_id=call.id,
            holder="/".join(parties(call.principal)),
            tool=call.tool.name,
            arguments=hmac.new(self.secret(), _said(call).encode(), "sha256").hexdigest(),
            lease=now + LEASE_S,
            expires=now + KEPT_S,
        )

    async def _settled(self, ledger: IdempotencyStore, mine: KeyClaim, *, approved: bool) -> KeyClaim | None:
        """Return the claim stored for the key: this call's own claim, or that of another call once it has ended or the wait has timed out.

        An `approved` call had its key before.
        """
        until = self.clock.monotonic() + self.max_wait_s
        while True:
            now = await ledger.now()
            try:
                known = await ledger.claim(mine, now, most=MAX_EACH)
            except StateError:
                if not approved:  # the call is refused, but the claim may have been stored
                    ledger.later.add(lambda: ledger.release(mine))
                raise
            if known is None or known.call_id == mine.call_id or known.status != "running":
                return known
            if known.arguments != mine.arguments:
                return known
            if known.lease <= now and await ledger.lose(self._sealed(known, Failed(error=_LOST)), now):
                continue
            if self.clock.monotonic() >= until:
                return known
            await ledger.changed(_POLL_S)

    async def _carry(
        self, ledger: IdempotencyStore, mine: KeyClaim, call: Call, call_context: CallContext, proceed: Next
    ) -> Result:
        """Run the call while calls with the same key are told that it is running, and store its outcome before returning it."""
        renewing = asyncio.create_task(self._renew(ledger, mine))
        result: Result = Failed(error=_LOST)
        try:
            result = await proceed(call, call_context)
        finally:
            await cancel(renewing)
            awaits = call_context.awaits_account
            await self._settle(ledger, mine, result, idempotent=call.tool.idempotent, awaits_account=awaits)
        return result

    async def _renew(self, ledger: IdempotencyStore, mine: KeyClaim) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            try:
                await ledger.settle(replace(mine, lease=await ledger.now() + LEASE_S))
            except StateError:
                pass  # the next renewal may be in time
            except Exception as error:  # noqa: BLE001 - a lease that is not renewed would have its call taken for lost
                _logger.error("the lease of call %s was not renewed: %s", mine.call_id, place_of(error))  # noqa: TRY400

    async def _settle(
        self, ledger: IdempotencyStore, mine: KeyClaim, result: Result, *, idempotent: bool, awaits_account: bool
    ) -> None:
        settled: KeyClaim | None = None  # the key may be used again
        match result:
            case Pending(error=Error(code="input_required" | "authorization_required")) if not awaits_account:
                pass  # nothing was sent: it is made again, with the answer or the account
            case Pending():
                settled = replace(mine, status="waiting", lease=0.0)
            case Refused() | Cancelled():
                pass
            case Failed() if _undone(result, idempotent=idempotent):
                pass
            case _:
                settled = self._sealed(mine, result)
        try:
            await (ledger.release(mine) if settled is None else ledger.settle(settled))
        except StateError as error:
            message = "the outcome of call %s will be stored for its idempotency key later: %s"
            _logger.error(message, mine.call_id, place_of(error))  # noqa: TRY400 - as above
            ledger.later.add(lambda: ledger.release(mine) if settled is None else ledger.settle(settled))

    def _sealed(self, claim: KeyClaim, result: Result) -> KeyClaim:
        """Return the ended claim. Its outcome can be read only with the log's key, and only for this claim."""
        nonce = secrets.token_bytes(12)
        body = _written(result)
        sealed = nonce + self._cipher(claim).encrypt(nonce, body, claim.call_id.encode())
        return replace(claim, status="ended", lease=0.0, outcome=sealed)

    def _told(self, claim: KeyClaim) -> Result:
        """Return the answer for a caller that repeats a key."""
        if claim.status == "waiting":
            return Pending(
                error=Error(
                    code="approval_required", message=f"the call with this key, {claim.call_id}, waits for a person"
                )
            )
        if claim.status == "lost":
            return Failed(error=replace(_FORGOTTEN, message=_FORGOTTEN.message.format(claim.call_id)))
        if claim.status == "running":
            return Pending(
                error=Error(
                    code="deferred",
                    message=f"the call with this key, {claim.call_id}, is still running",
                    suggestion="ask again with the same key and arguments",
                )
            )
        try:
            body = self._cipher(claim).decrypt(claim.outcome[:12], claim.outcome[12:], claim.call_id.encode())
        except (InvalidTag, ValueError):
            return _refused(
                "internal", f"the outcome of call {claim.call_id} cannot be read here; the audit log has it"
            )
        return _read(body)

    def _cipher(self, claim: KeyClaim) -> AESGCM:
        return AESGCM(hmac.new(self.secret(), f"ledger:{claim.id}".encode(), "sha256").digest())


def _said(call: Call) -> str:
    """Return the text that a key is bound to: a digest of the arguments, and the account if one was chosen."""
    said, account = digest(encodable(call.arguments)), call.principal.account
    return f"{said} {account}" if account else said


def _undone(failed: Failed, *, idempotent: bool) -> bool:
    """Return True if the call may be repeated: it had no effect, or repeating it has no further effect."""
    status = failed.delivery.status
    if failed.error.code in UNDONE or failed.delivery.broken or status == 429:
        return failed.error.code != "outcome_unknown"
    return idempotent and isinstance(status, int) and status >= 500


class _Outcome(msgspec.Struct, omit_defaults=True):
    """Result in its stored form."""

    error: Error | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    truncated: bool = False
    next_cursor: str = ""
    link: str = ""
    total: int | None = None
    shape: Shape = Shape.WHOLE
    row_notes: tuple[str, ...] = ()
    unread_fields: Mapping[str, int] | None = None


def _written(result: Result) -> bytes:
    match result:
        case Success(data=data, truncated=truncated, next_cursor=cursor, delivery=delivery, shape=shape) as success:
            kept = _Outcome(
                data=msgspec.Raw(encode_json(data)),
                truncated=truncated,
                next_cursor=cursor,
                link=delivery.link,
                total=delivery.total,
                shape=shape,
                row_notes=success.row_notes,
                unread_fields=success.unread_fields,
            )
        case Failed(error=error, data=data, shape=shape, row_notes=notes):
            kept = _Outcome(error=error, data=msgspec.Raw(encode_json(data)), shape=shape, row_notes=notes)
        case Pending(error=error) | Refused(error=error) | Cancelled(error=error):
            kept = _Outcome(error=error)
    written = msgspec.json.encode(kept)
    if len(written) <= MAX_SIZE:
        return written
    error = Error(
        code="response_too_large",
        message=f"the call with this key was executed, and its answer ({len(written)} bytes) was not stored: at most {MAX_SIZE} are",
        suggestion="do not make it again; read what it changed",
    )
    return msgspec.json.encode(_Outcome(error=error))


def _read(body: bytes) -> Result:
    kept = msgspec.json.decode(body, type=_Outcome)
    data: Json = msgspec.json.decode(kept.data)
    if kept.error is not None:
        return Failed(error=kept.error, data=data, shape=kept.shape, row_notes=kept.row_notes)
    delivery = Delivery(cache="replayed", link=kept.link, total=kept.total)
    return Success(
        data=data,
        truncated=kept.truncated,
        next_cursor=kept.next_cursor,
        delivery=delivery,
        shape=kept.shape,
        row_notes=kept.row_notes,
        unread_fields=kept.unread_fields,
    )


def _refused(code: ErrorCode, message: str, retry_after_s: float | None = None, rule: str = "") -> Refused:
    return Refused(error=Error(code=code, message=message, retry_after_s=retry_after_s, rule=rule))
