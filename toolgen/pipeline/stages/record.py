"""No record, no call: the intent is durable before anything else happens, the ending before anybody is told of it.

What the claims of users made of them, for the record: nobody else could say later why a rule spoke of them.
"""

from __future__ import annotations

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from toolgen.clock import Clock
from toolgen.errors import AuditError, CanonicalError, place_of
from toolgen.model.call import Call, Principal
from toolgen.model.result import Cancelled, Delivery, Error, Failed, Pending, Refused, Result, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.pipeline.middleware import Next, Trail
from toolgen.policy.arguments import excess

__all__ = ["Conceal", "Journal", "Record", "Users"]

_MAX_COUNT = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Whoever calls and is not `named` by the policy. What is sensitive in what is said of them, `conceal` replaces."""

    named: Container[str]
    conceal: Callable[[JsonObject], JsonObject]
    _told: OrderedDict[str, Principal] = field(default_factory=OrderedDict)

    def news(self, call: Call) -> tuple[Principal, ...]:
        """The parties of a call of whom the record says something else by now, or nothing. From here on it is taken to say this."""
        user = call.principal.on_behalf_of
        if call.principal.id in self.named and (user is None or user.id in self.named):
            return ()
        return tuple(party for party in (call.principal, user) if party is not None and self._is_new(party))

    def forget(self, principal: Principal) -> None:
        """Nothing could be written of this one."""
        self._told.pop(principal.id, None)

    def entry(self, call: Call, party: Principal) -> dict[str, object]:
        """The entry that says which roles and attributes a party has, from the call with this id on."""
        said = self.conceal({"roles": sorted(party.roles), "attributes": dict(party.attributes)})
        return {"event": "identity", "call_id": call.id, "principal": party.id, "arguments": said}

    def _is_new(self, party: Principal) -> bool:
        told = self._told.get(party.id)
        if party.id in self.named or told is party:
            return False
        if told is not None and (told.roles, told.attributes) == (party.roles, party.attributes):
            return False
        self._told[party.id] = party
        if len(self._told) > _MAX_COUNT:
            self._told.popitem(last=False)
        return True


_logger = logging.getLogger(__name__)
_MAX_NAME_LENGTH = 200


class Journal(Protocol):
    """Where entries go. `append` returns stream and number once the entry is durable."""

    async def append(self, fields: Mapping[str, Any]) -> tuple[str, int]: ...


class Conceal(Protocol):
    """What the record keeps of a call's arguments, and of the statement that ran."""

    def arguments(self, call: Call) -> JsonObject: ...
    def statement(self, call: Call, statement: Json) -> Json: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The outermost stage, and the one boundary that catches everything: whatever happens inside ends as a result and is written down.

    `conceal` replaces what is sensitive in arguments and statements by keyed digests.
    """

    journal: Journal
    clock: Clock
    policy_digest: str
    conceal: Conceal
    users: Users

    async def __call__(self, call: Call, trail: Trail, proceed: Next) -> Result:
        started = self.clock.monotonic()
        who = self._who(call)
        try:
            fault = await self._append_intent(call, who)
        except AuditError:
            return Refused(error=_unavailable("the call was not made, because its record could not be written"))
        if fault is None:
            result = await self._guarded(call, trail, proceed)
        else:
            result = Refused(
                error=Error(code="validation", message=f"the arguments cannot be used: {fault}", rule="arguments")
            )
        if trail.notes:
            await self._append_notes(trail, who)
        if isinstance(result, Success | Failed) and result.delivery.retried:
            await self._append_attempts(result.delivery.retried, who)
        ending = {"event": "outcome", **who, **_ending(result, trail)}
        if call.hidden:
            ending["hidden"] = True
        if "sql" in ending:
            ending["sql"] = self.conceal.statement(call, ending["sql"])
        ending["duration_ms"] = round((self.clock.monotonic() - started) * 1000, 3)
        try:
            _, trail.outcome_seq = await self.journal.append(ending)
        except (AuditError, CanonicalError):
            _logger.critical("the outcome of call %s could not be recorded", call.id)
            return _unrecorded(result)
        return result

    async def _append_intent(self, call: Call, who: dict[str, Any]) -> str | None:
        """Records the intent, without its arguments when they cannot be recorded; then says why, and the call goes no further."""
        intent = {"event": "intent", **who, **self._intent(call)}
        fault = excess(call.arguments)
        await self._append_users(call)
        if fault is None:
            try:
                await self.journal.append({**intent, "arguments": self.conceal.arguments(call)})
            except CanonicalError as error:
                fault = error.message
            except AuditError:
                raise
            except Exception as error:  # noqa: BLE001 - what cannot be concealed is not recorded
                message = "the arguments of call %s could not be concealed: %s"
                _logger.error(message, call.id, place_of(error))  # noqa: TRY400 - its text may quote them
                fault = f"they cannot be recorded ({type(error).__name__})"
            else:
                return None
        await self.journal.append(intent)
        return fault

    async def _append_users(self, call: Call) -> None:
        """Records what the claims of this call's parties made of them, where the record does not say so yet. Raises `AuditError`."""
        for party in self.users.news(call):
            try:
                await self.journal.append({**self.users.entry(call, party), "policy_digest": self.policy_digest})
            except (AuditError, CanonicalError) as error:
                self.users.forget(party)
                raise AuditError(error.message) from error

    async def _append_notes(self, trail: Trail, who: dict[str, Any]) -> None:
        """Records what the decision left besides its verdict. What cannot be written here shows at the outcome, which follows."""
        for note in trail.notes:
            fields = {"verdict": note.verdict, "rule": note.rule, "status": note.status}
            with contextlib.suppress(AuditError):
                await self.journal.append({"event": "decision", **who, **fields})

    async def _append_attempts(self, retried: tuple[Mapping[str, str | float], ...], who: dict[str, Any]) -> None:
        """Records what every attempt but the last came to. As with notes, what cannot be written here shows at the outcome."""
        for number, attempt in enumerate(retried, 1):
            with contextlib.suppress(AuditError):
                await self.journal.append({"event": "attempt", **who, "status": "error", **attempt, "attempts": number})

    async def _guarded(self, call: Call, trail: Trail, proceed: Next) -> Result:
        """The rest of the road. This is the outermost boundary, which a call never gets past as an exception."""
        try:
            return await proceed(call, trail)
        except Exception as error:  # noqa: BLE001 - as above
            message = "call %s failed inside the gateway: %s"
            _logger.error(message, call.id, place_of(error))  # noqa: TRY400 - its text may quote anything
            return Failed(error=Error(code="internal", message=f"the gateway failed ({type(error).__name__})"))

    def _who(self, call: Call) -> dict[str, Any]:
        user = call.principal.on_behalf_of
        return {
            "call_id": call.id,
            "principal": call.principal.id,
            "on_behalf_of": "" if user is None else user.id,
            "tool": call.tool.name[:_MAX_NAME_LENGTH],
        }

    def _intent(self, call: Call) -> dict[str, Any]:
        changes: list[dict[str, str]] = []
        for change, names in (("parsed", call.repaired), ("dropped", call.dropped), ("left_out", call.left_out)):
            for name in names:
                changes.append({"argument": name[:_MAX_NAME_LENGTH], "change": change})  # noqa: PERF401 - a call less
        return {
            "tool_digest": call.tool.digest,
            "policy_digest": self.policy_digest,
            "repaired": changes,
            "bound": [*call.bound],
            "session": call.session[:_MAX_NAME_LENGTH],
            "client": call.client[:_MAX_NAME_LENGTH],
            "parent": call.parent[:_MAX_NAME_LENGTH] or ("" if call.trace is None else call.trace.recorded),
        }


def _ending(result: Result, trail: Trail) -> dict[str, Any]:
    ending: dict[str, Any] = {"verdict": trail.verdict, "rule": trail.rule}
    if trail.labels:
        ending["labels"] = trail.labels
    if trail.replays:
        ending["parent"] = trail.replays
    if not isinstance(result, Refused) and trail.sql:
        ending["sql"] = trail.sql
    match result:
        case Success(delivery=delivery):
            if delivery.cache:  # an answer that was not asked for again: how it comes that it was given
                ending["code"] = delivery.cache
            return {**ending, "status": "ok", **_recorded(delivery)}
        case Failed(error=error, delivery=delivery):
            return {**ending, "status": "error", "code": error.code, **_recorded(delivery)}
        case Refused(error=error):
            rule = error.rule or trail.rule
            return {**ending, "verdict": "deny", "rule": rule, "status": "refused", "code": error.code}
        case Pending(error=error):
            return {**ending, "status": "pending", "code": error.code}
        case Cancelled(error=error):
            return {**ending, "status": "cancelled", "code": error.code}


def _recorded(delivery: Delivery) -> dict[str, Json]:
    """Of what is known of a delivery, what an entry has a field for."""
    told: dict[str, Json] = {}
    if delivery.sql:
        told["sql"] = delivery.sql
    if delivery.rows is not None:
        told["rows"] = delivery.rows
    if delivery.bytes is not None:
        told["bytes"] = delivery.bytes
    if delivery.attempts is not None:
        told["attempts"] = delivery.attempts
    return told


def _unrecorded(result: Result) -> Result:
    """What the caller is told of a call whose ending is on no record: what was done must not be done again."""
    match result:
        case Success() | Failed() if not (isinstance(result, Failed) and result.delivery.unsent):
            message = "the call was made, but its outcome could not be recorded, so it is withheld"
            suggestion = "do not repeat this call; ask the operator of the gateway what became of it"
            return Failed(error=Error(code="outcome_unknown", message=message, suggestion=suggestion))
        case _:
            return Refused(error=_unavailable("the call was not made, because its record could not be written"))


def _unavailable(message: str) -> Error:
    return Error(code="audit_unavailable", message=message, suggestion="try again once the gateway's audit log works")
