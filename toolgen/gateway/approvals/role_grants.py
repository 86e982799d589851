"""Temporary roles: requests and approvals, each recorded before it counts, and the given roles in every worker."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.audit.entry import timestamp
from toolgen.audit.log import AuditLog
from toolgen.core.background import Background, FaultLog, cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import StateError
from toolgen.gateway.policies.compiled_policy import CompiledPolicy, CurrentPolicy
from toolgen.model.call import Principal
from toolgen.model.reason import reason_in
from toolgen.model.result import Error
from toolgen.policy.role_grants import NOTHING_GIVEN, GivenRole, GivenRoles, RoleGrantRule
from toolgen.state.count_connection import StoreUnreachableError
from toolgen.state.grants import Grants, RoleGrant

__all__ = ["ASKED_S", "MAX_EACH", "MAX_GRANTS", "MAX_REASON_LENGTH", "RoleGrants", "RoleWish", "role_grant_json"]

MAX_EACH = 20
MAX_GRANTS = 500
MAX_REASON_LENGTH = 500
ASKED_S = 3600.0
"""Time that a request for a role that needs two people waits for the second."""
POLL_S = 0.2
"""Time between two reads of the grants by a worker."""
FRESH_S = 0.8
"""Time for which the last known roles count while grants cannot be read."""
_TRIES = 20
_logger = logging.getLogger(__name__)
_FORBIDDEN = Error(
    code="forbidden",
    message="the policy does not let this principal give this role to that principal for this duration",
    suggestion="role_grants in the policy lists who may give which role to whom",
)
_NOT_FOUND = Error(code="not_found", message="no grant with this id is in force or waiting")


class RoleWish(Struct, frozen=True, kw_only=True):
    """Request of a role for the principal `to`, for so many seconds, with the reason."""

    role: str
    to: str
    seconds: float
    reason: str


class RoleGrants:
    """Roles given for a limited time. `give` replaces the given roles in force in this process."""

    def __init__(
        self,
        store: Grants[RoleGrant],
        log: AuditLog,
        current: CurrentPolicy,
        clock: Clock,
        give: Callable[[GivenRoles], None],
        background: Background,
    ) -> None:
        self.store = store
        self._log, self._current, self._clock = log, current, clock
        self._give, self._background = give, background
        self._seen: CompiledPolicy | None = None
        self._due, self._heard = 0.0, -1e9
        self._reading = asyncio.Lock()  # so that an older state never replaces a newer one
        self._task: asyncio.Task[None] | None = None
        self.trouble = FaultLog(clock, "temporary roles cannot be read, and are not in force")

    async def start(self) -> None:
        """Read the grants, and continue to read them."""
        await self.refresh()
        self._task = self._background.start("reading which roles were given", self._poll)

    async def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            await cancel(self._task)

    async def look(self) -> None:
        """Read the grants once, for a command that opens nothing else."""
        try:
            await self.refresh()
        finally:
            await self.store.close()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            await self.refresh()

    async def refresh(self) -> None:
        """Put the current grants in force. While grants cannot be read, none are in force."""
        policy = self._current.compiled_policy.policy
        if not policy.role_grants and not policy.given:
            return
        try:
            async with self._reading:
                now = await self.store.now()
                # In this order, so that a change in between is reported the next time.
                if await self.store.changed() or now >= self._due or self._seen is not self._current.compiled_policy:
                    await self._read(now)
        except StateError as error:
            self.trouble.say(str(error), passing=isinstance(error.__cause__, StoreUnreachableError))
            self._due = 0.0
            if self._clock.monotonic() - self._heard > FRESH_S:
                self._give(NOTHING_GIVEN)
            return
        self.trouble.clear()
        self._heard = self._clock.monotonic()

    async def _read(self, now: float) -> None:
        found = await self.store.all()
        given: dict[str, tuple[GivenRole, ...]] = {}
        for grant in found:
            rule = None if grant.waits else self._standing(grant)
            if rule is not None:
                one = GivenRole(role=grant.role, to=rule.to, break_glass=grant.break_glass)
                given[grant.to] = (*given.get(grant.to, ()), one)
        self._due = min((grant.expires for grant in found), default=now + 60.0)
        self._give(given)
        self._seen = self._current.compiled_policy

    async def ask(self, grant_request: RoleWish, principal: Principal) -> RoleGrant | Error:
        """Request a role for a principal, in force at once or, if it takes two people, once another agrees. A refusal is recorded.

        Raises `AuditError` if it cannot be recorded (then it has no effect), and `StateError`.
        """
        found = self._asked(grant_request, principal)
        if isinstance(found, Error):
            return await self._refused(found, principal, {"role": grant_request.role, "to": grant_request.to})
        now = await self.store.now()
        grant = RoleGrant(
            id=f"role_{secrets.token_hex(12)}",
            group=grant_request.to,
            created=now,
            expires=now + (min(grant_request.seconds, ASKED_S) if found.break_glass else grant_request.seconds),
            role=grant_request.role,
            to=grant_request.to,
            seconds=grant_request.seconds,
            reason=grant_request.reason,
            break_glass=found.break_glass,
            asked_by=principal.id,
            asked_roles=tuple(sorted(self._own(principal.id, principal.roles))),
        )
        await self._record(grant, "role_grant", by=principal.id, status="pending" if grant.waits else "ok")
        if not await self.store.add(grant, each=MAX_EACH, total=MAX_GRANTS):
            full = Error(code="rate_limited", message="too many temporary roles are in force already")
            await self._record(grant, "role_grant_end", by="", status="refused", code=full.code)
            return full
        did = "asked for a role of" if grant.waits else "gave a role to"
        _logger.warning("%s %s %s: %s (%s)", principal.id, did, grant.to, grant.role, grant.id)
        await self.refresh()
        return grant

    def _asked(self, grant_request: RoleWish, principal: Principal) -> RoleGrantRule | Error:
        """Return the rule that permits giving a role, preferring one that needs one person; or the reason for a refusal."""
        if principal.on_behalf_of is not None:
            return _FORBIDDEN
        own, themselves = self._own(principal.id, principal.roles), self._same(principal.id, grant_request.to)
        rules = [
            rule
            for rule in self._current.compiled_policy.policy.role_grants
            if rule.role == grant_request.role and (rule.break_glass if themselves else not rule.by.isdisjoint(own))
        ]
        fitting = [
            rule for rule in rules if grant_request.seconds <= rule.max_s and self._may_have(grant_request.to, rule)
        ]
        if not fitting:
            return _FORBIDDEN
        if grant_request.seconds < 1:
            return Error(code="validation", message="the duration of a role is at least 1s")
        if not reason_in(grant_request.reason) or len(grant_request.reason) > MAX_REASON_LENGTH:
            message = f"a reason with visible characters is needed, of at most {MAX_REASON_LENGTH} characters"
            return Error(code="validation", message=message)
        entry = self._current.compiled_policy.policy.principals.get(grant_request.to)
        if entry is not None and grant_request.role in entry.roles:
            return Error(code="conflict", message="that principal has this role already")
        return min(fitting, key=lambda rule: rule.break_glass)

    async def decide(self, grant_id: str, *, approve: bool, principal: Principal) -> RoleGrant | Error:
        """Record the second person's answer to a request that needs two people. Raises as `ask`."""
        for _ in range(_TRIES):
            known = await self.store.get(grant_id)
            error = self._unanswerable(known, principal)
            if known is None or error is not None:
                return await self._refused(error or _NOT_FOUND, principal, {"id": grant_id})
            if not approve:
                if (ended := await self._end(known, by=principal.id, code="approval_denied")) is not None:
                    return ended
                continue
            now = await self.store.now()
            roles = tuple(sorted(self._own(principal.id, principal.roles)))
            agreed = msgspec.structs.replace(
                known, agreed_by=principal.id, agreed_roles=roles, created=now, expires=now + known.seconds
            )
            await self._record(agreed, "break_glass", by=principal.id, status="ok")
            if (kept := await self.store.replace(known, agreed)) is not None:
                _logger.critical(
                    "BREAK GLASS: %s has the role %s until %s, requested by %s, approved by %s (%s)",
                    kept.to, kept.role, timestamp(kept.expires), kept.asked_by, kept.agreed_by, kept.id,
                )  # fmt: skip
                await self.refresh()
                return kept
        return Error(code="conflict", message="another person is answering now")

    def _unanswerable(self, known: RoleGrant | None, principal: Principal) -> Error | None:
        """Return the reason why this principal may not be the second person, if there is one."""
        if principal.on_behalf_of is not None or known is None or known.ended:
            return _NOT_FOUND if principal.on_behalf_of is None else _FORBIDDEN
        rule = self._standing(known)
        if rule is None or rule.by.isdisjoint(self._own(principal.id, principal.roles)):
            return _FORBIDDEN
        if self._same(principal.id, known.asked_by) or self._same(principal.id, known.to):
            return Error(
                code="forbidden", message="the second person must not be the one who asked or who gets the role"
            )
        return None if known.waits else Error(code="conflict", message="this grant does not wait for an answer")

    async def end(self, grant_id: str, principal: Principal) -> RoleGrant | Error:
        """Revoke a role in every gateway, after it was recorded. Raises as `ask`."""
        for _ in range(_TRIES):
            known = await self.store.get(grant_id)
            if known is None or known.ended:
                return await self._refused(_NOT_FOUND, principal, {"id": grant_id})
            if not self._may_end(known, principal):
                return await self._refused(_FORBIDDEN, principal, {"id": grant_id})
            if (ended := await self._end(known, by=principal.id, code="cancelled")) is not None:
                return ended
        return Error(code="conflict", message="another person is changing this grant now")

    def may_give(self, principal: Principal) -> bool:
        """Return True if a principal could give any role, or approve one."""
        own = self._own(principal.id, principal.roles)
        rules = self._current.compiled_policy.policy.role_grants
        return principal.on_behalf_of is None and any(not rule.by.isdisjoint(own) for rule in rules)

    async def listed(self, principal: Principal | None) -> tuple[RoleGrant, ...]:
        """Return the valid or waiting grants that a principal may end; with None all of them."""
        found = [grant for grant in await self.store.all() if self._standing(grant) is not None]
        return tuple(grant for grant in found if principal is None or self._may_end(grant, principal))

    def _may_end(self, grant: RoleGrant, principal: Principal) -> bool:
        """Return True for people who may end a grant: those who asked, approved or have it, and those who may give it."""
        if principal.on_behalf_of is not None:
            return False
        if principal.id in {grant.to, grant.asked_by, grant.agreed_by}:
            return True
        own, rule = self._own(principal.id, principal.roles), self._standing(grant)
        return rule is not None and not rule.by.isdisjoint(own)

    def _standing(self, grant: RoleGrant) -> RoleGrantRule | None:
        """Return the rule by which the policy in force still permits these people to give a role; None if there is none."""
        for rule in self._current.compiled_policy.policy.role_grants:
            if rule.role != grant.role or rule.break_glass != grant.break_glass or grant.seconds > rule.max_s:
                continue
            asked = self._has(grant.asked_by, grant.asked_roles, rule.by)
            if not asked and not (rule.break_glass and self._same(grant.asked_by, grant.to)):
                continue
            if grant.agreed_by and not self._has(grant.agreed_by, grant.agreed_roles, rule.by):
                continue
            if self._may_have(grant.to, rule):
                return rule
        return None

    def _may_have(self, name: str, rule: RoleGrantRule) -> bool:
        """Return True if a rule lets this principal get a role. For users of an issuer the possible roles of the issuer count."""
        policy = self._current.compiled_policy.policy
        if (entry := policy.principals.get(name)) is not None:
            return not rule.to.isdisjoint(self._own(name, entry.roles))
        provider, _, subject = name.partition(":")
        issuer = policy.credentials.issuers.get(provider)
        return issuer is not None and bool(subject) and not rule.to.isdisjoint(issuer.all_roles)

    def _has(self, name: str, roles: tuple[str, ...], wanted: frozenset[str]) -> bool:
        """Return True if the giver of a role still has a required role. For users of an issuer only the roles of their token at that time
        are known."""
        policy = self._current.compiled_policy.policy
        if (entry := policy.principals.get(name)) is not None:
            return not wanted.isdisjoint(self._own(name, entry.roles))
        return name.partition(":")[0] in policy.credentials.issuers and not wanted.isdisjoint(roles)

    def _own(self, name: str, roles: frozenset[str]) -> frozenset[str]:
        """Return the roles of a principal without temporary ones, which cannot be passed on."""
        return roles - {one.role for one in self._current.compiled_policy.policy.given.get(name, ())}

    def _same(self, one: str, other: str) -> bool:
        return self._current.compiled_policy.identity.concerns(one, (other,))

    async def _end(self, known: RoleGrant, *, by: str, code: str) -> RoleGrant | None:
        await self._record(known, "role_grant_end", by=by, status="ok", code=code)
        ended = msgspec.structs.replace(known, ended=await self.store.now(), ended_by=by)
        kept = await self.store.replace(known, ended)
        if kept is not None:
            _logger.warning("%s took the role %s back from %s (%s)", by, known.role, known.to, known.id)
            await self.refresh()
        return kept

    async def _record(self, grant: RoleGrant, event: str, *, by: str, status: str, code: str = "") -> None:
        entry = {
            "event": event,
            "principal": by,
            "policy_digest": self._current.compiled_policy.policy.digest,
            "status": status,
            "code": code,
            "arguments": {"grant": role_grant_json(grant)},
        }
        await self._log.append(entry)

    async def _refused(self, error: Error, principal: Principal, given: Mapping[str, str]) -> Error:
        """Return the refusal, and record it with the request, as far as it can be written."""
        shown = {name: text.encode("ascii", "replace").decode()[:128] for name, text in given.items()}
        entry = {"event": "refusal", "status": "refused", "code": error.code, "principal": principal.id}
        await self._log.append({**entry, "arguments": shown})
        return error


def role_grant_json(grant: RoleGrant) -> dict[str, Any]:
    """Return a temporary role in its listed and recorded form. Times are RFC 3339."""
    shown: dict[str, Any] = {
        "kind": "role",
        "id": grant.id,
        "role": grant.role,
        "principal": grant.to,
        "reason": grant.reason,
        "asked_by": grant.asked_by,
        "agreed_by": grant.agreed_by,
        "break_glass": grant.break_glass,
        "status": "ended" if grant.ended else "pending" if grant.waits else "in_force",
        "created": timestamp(grant.created),
        "expires": timestamp(grant.expires),
    }
    return {name: value for name, value in shown.items() if value != ""}
