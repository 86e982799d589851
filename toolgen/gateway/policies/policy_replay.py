"""Replay of recorded calls under the policy on disk: different decisions, and rules that would have allowed refused calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import asdict, replace

from toolgen.audit.call_window import CallWindow, seconds_of
from toolgen.config.settings import Settings
from toolgen.core.canonical import Recorded, decoded, is_digest
from toolgen.core.clock import FixedClock
from toolgen.core.errors import ConfigError
from toolgen.gateway.identity.token_exchanges import Exchanges
from toolgen.gateway.policies.compiled_policy import CompiledPolicy
from toolgen.gateway.policies.policy_questions import asks_history
from toolgen.model.call import Call, Principal
from toolgen.model.manifest import Manifest
from toolgen.model.result import Refused
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Effect
from toolgen.model.verdict import Allow, Ask, Deny
from toolgen.pipeline.middleware import CallContext
from toolgen.pipeline.stages.access import CallHistory
from toolgen.policy.document.assignments import assigned
from toolgen.policy.explain import why_hidden
from toolgen.policy.readings.call import readings_of
from toolgen.policy.rules import Rule
from toolgen.policy.suggested_schema import closed
from toolgen.state.history import Histories

__all__ = ["Replayed", "Suggested", "hidden_note", "missing_rule", "replay", "suggest"]

_BY_POLICY = frozenset({"forbidden", "unknown_tool"})
_BY_GUARD = frozenset({"sql_refused", "egress_refused"})
_BY_PERSON = frozenset({"approval_denied"})
_UNASKED = frozenset({"turn_limit", "rate_limited", "paused", "upstream_unavailable", "expired"})
"""Refusals that say nothing about the rules: most of them come before the rules are evaluated."""
_MAX_NAMED = 5
_BATCH = 500  # calls that are decided in one run of the event loop
_MAX_KNOWN = 2_000  # maximum cached decisions for equal calls
_MAX_KEY = 4_096  # maximum bytes of a call whose decision is cached


class Replayed(Struct, frozen=True, kw_only=True):
    """Recorded call, decided again. `now` is `undecidable` if the record lacks data that a rule needs; `why` has the reason.

    `before` is `unasked` if another stage refused the call, so that the record lacks the decision of the rules.
    """

    seq: int
    time: str
    principal: str
    tool: str
    before: str
    now: str
    rule: str
    why: str = ""

    @property
    def differs(self) -> bool:
        return self.before != "unasked" and self.now not in {self.before, "undecidable"}

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, for `toolgen policy replay --json`."""
        return asdict(self)


def replay(settings: Settings, manifest: Manifest, compiled_policy: CompiledPolicy, since: float) -> Iterator[Replayed]:
    """Decide every call again that was recorded since a time (seconds since the epoch), each with the earlier ones as its history.

    Concurrent calls are taken in the order of their intents. Raises `AuditError` if there is no log.
    """
    decisions = _Decisions(settings, manifest, compiled_policy)
    rows = _calls(settings, compiled_policy, since)
    with asyncio.Runner() as runner:
        while some := list(islice(rows, _BATCH)):
            yield from runner.run(decisions.of(some))


class _Decision(Struct, frozen=True, kw_only=True):
    """Decision on a recorded call. `call` is None if it could not be made again, or is refused by the rules; `counts` is False if it
    does not count as an earlier call for later ones."""

    call: Call | None
    now: str
    rule: str = ""
    why: str = ""
    counts: bool = True


class _Decisions:
    """Decides recorded calls again; equal ones (tool, parties and arguments) once, if no rule about the tool uses the time or earlier
    calls."""

    def __init__(self, settings: Settings, manifest: Manifest, compiled_policy: CompiledPolicy) -> None:
        self._manifest, self._compiled_policy = manifest, compiled_policy
        self._clock = FixedClock()
        self._earlier = CallHistory(
            histories=Histories(self._clock), clock=self._clock, labels=compiled_policy.policy.labels
        )
        self._counts = any(asks_history(rule) for rule in compiled_policy.policy.rules)
        self._exchanges = Exchanges(settings.sources, partial(assigned, compiled_policy.policy.assignments))
        varying = [one.tools for one in compiled_policy.access.rules if _varies(one.rule)]
        self._varying = frozenset[str]().union(*varying)
        self._known: dict[bytes, _Decision] = {}

    async def of(self, rows: Sequence[dict[str, Any]]) -> list[Replayed]:
        """Return the decisions on calls that follow the earlier ones."""
        made = []
        for row in rows:
            key = self._key(row)
            decision = None if key is None else self._known.get(key)
            if decision is None or (self._counts and decision.counts):
                decision = await self._decided(row, key, decision)
            made.append(self._replayed(row, decision))
        return made

    def _replayed(self, row: Mapping[str, Any], decision: _Decision) -> Replayed:
        again = Replayed(
            seq=int(row.get("seq", 0)),
            time=str(row.get("time", "")),
            principal=str(row.get("principal", "")),
            tool=str(row.get("tool", "")),
            before=_before(row, self._compiled_policy),
            now=decision.now,
            rule=decision.rule,
            why=decision.why,
        )
        if again.differs and again.now == "ask" and _for_want_of_a_token(row, decision.call, again, self._exchanges):
            again = replace(again, before="ask")
        return again

    async def _decided(self, row: Mapping[str, Any], key: bytes | None, found: _Decision | None) -> _Decision:
        """Return the decision on a call, `found` if it is known; it counts for later ones from now on."""
        self._clock.seconds = seconds_of(row)
        try:
            call = _made(row, self._compiled_policy)
        except ConfigError as error:
            return _Decision(call=None, now="undecidable", why=error.message, counts=False)
        if found is None:
            found = await self._decide_again(row, call)
            if key is not None:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                self._known[key] = found
        if found.counts:
            self._count(row, call)
        return found

    async def _decide_again(self, row: Mapping[str, Any], call: Call) -> _Decision:
        found = _again(row, call, self._manifest, self._compiled_policy, self._earlier)
        if found.call is not None and found.now in {"allow", "ask"} and row.get("code") != "validation":
            return await _inspected(found.call, found, self._compiled_policy, row)
        return found

    def _key(self, row: Mapping[str, Any]) -> bytes | None:
        """Return the data that the decision on a call depends on, encoded; None if it depends on more, or is too long."""
        tool = self._manifest.tools.get(str(row.get("tool", "")))
        if self._varying and tool is not None:
            asks_others = tool.takes_documents  # each root field is decided as a call of its tool
            if asks_others or tool.name in self._varying:
                return None
        said = [row.get(name) for name in ("tool", "principal", "on_behalf_of", "users", "arguments", "bound")]
        key = msgspec.json.encode((*said, row.get("code") == "validation"))
        return key if len(key) <= _MAX_KEY else None

    def _count(self, row: Mapping[str, Any], call: Call) -> None:
        """Add a call to the history of later ones, if rules use earlier calls."""
        known = self._manifest.tools.get(str(row.get("tool", "")))
        if self._counts and known is not None and row.get("status") in {"ok", "error"}:
            self._earlier.begin(call, known, call.arguments, readings_of(known, call.arguments))
            self._earlier.histories.end(call.id, "ok" if row["status"] == "ok" else "failed")


def _varies(rule: Rule) -> bool:
    """Return True if a rule may decide equal calls differently."""
    expressions = [one for one in (rule.when, *rule.bind.values()) if one is not None]
    return any(one.asks_history or "now" in one.variables for one in expressions)


def _calls(settings: Settings, compiled_policy: CompiledPolicy, since: float) -> Iterator[dict[str, Any]]:
    """Return the recorded calls since a moment, with the recorded data of issuers' users."""
    issuers = compiled_policy.policy.credentials.issuers
    return CallWindow(settings.audit_dir, since, has_users=lambda name: name.partition(":")[0] in issuers).rows()


class Suggested(Struct, frozen=True, kw_only=True):
    """Suggested rule, the number of refused calls that it would have allowed, and what it would allow besides, in sentences."""

    rule: dict[str, Any]
    calls: int
    beyond: tuple[str, ...]


def suggest(settings: Settings, manifest: Manifest, compiled_policy: CompiledPolicy, since: float) -> list[Suggested]:
    """Suggest the fewest, narrowest rules that would have allowed calls without a rule: exact tools, one role, the recorded arguments.

    Destructive tools get the verdict ask. Calls that a rule denied stay denied, because that denial is intended.
    """
    wanted: dict[tuple[str, str], _Wanted] = {}
    for row in _calls(settings, compiled_policy, since):
        tool = row.get("tool", "")
        if row.get("code") not in _BY_POLICY or row.get("rule") != "default" or tool not in manifest.tools:
            continue
        for name in filter(None, (row.get("principal"), row.get("on_behalf_of"))):
            try:
                party = _party(name, row, compiled_policy)
            except ConfigError:
                continue
            recorded = row.get("arguments") or {}
            decided = compiled_policy.access.decide(party, manifest.tools[tool], _read(recorded))
            if party.roles and not isinstance(decided, (Allow, Ask)):
                wanted.setdefault((_rarest(party.roles, compiled_policy), tool), _Wanted()).add(
                    name, _read(recorded, Recorded)
                )
    return [
        _suggested(role, tool, seen, manifest, compiled_policy)
        for (role, tool), seen in sorted(wanted.items(), key=lambda item: item[0])
    ]


def missing_rule(
    compiled_policy: CompiledPolicy, manifest: Manifest, principal: Principal, tool: str, arguments: JsonObject
) -> dict[str, Any] | None:
    """Return the rule that `suggest` would write for one call that no rule allows; None if a rule denies it, or its caller has no role."""
    party: Principal | None = principal
    while party is not None:
        alone = replace(party, on_behalf_of=None, toolsets=frozenset())
        if not compiled_policy.access.visible(alone, manifest.tools[tool]):
            denied = any(
                one.rule.verdict == "deny" for one in compiled_policy.access.considered(alone, manifest.tools[tool])
            )
            if denied or not party.roles:
                return None
            wanted = _Wanted()
            wanted.add(party.id, arguments)
            return _suggested(_rarest(party.roles, compiled_policy), tool, wanted, manifest, compiled_policy).rule
        party = party.on_behalf_of
    return None


def hidden_note(
    compiled_policy: CompiledPolicy, manifest: Manifest, principal: Principal, tool: str, arguments: JsonObject
) -> str:
    """Return a note for operators about a call refused as unknown: the tool exists, and which rule would open it. "" if it is not
    hidden."""
    known = manifest.tools.get(tool)
    why = "" if known is None else why_hidden(compiled_policy.access, principal, known)
    if not why:
        return ""
    told = f"{tool} exists, and {principal.id} is told that it does not: {why}"
    rule = missing_rule(compiled_policy, manifest, principal, tool, arguments)
    if rule is None:
        return told
    return f"{told}\n`toolgen policy suggest` would write:\n{yaml.safe_dump([rule], sort_keys=False, allow_unicode=True).rstrip()}"


class _Wanted(Struct):
    """Calls that one rule would have allowed, with their callers and arguments."""

    callers: set[str] = set()
    arguments: list[Mapping[str, Any]] = []

    def add(self, caller: str, arguments: Mapping[str, Any]) -> None:
        self.callers.add(caller)
        self.arguments.append(arguments)


async def _inspected(
    call: Call, again: _Decision, compiled_policy: CompiledPolicy, row: Mapping[str, Any]
) -> _Decision:
    """Return the decision after the guards of SQL, GraphQL and egress: no rule allows a call that they refuse."""
    result = await compiled_policy.inspected(call, CallContext())
    if not isinstance(result, Refused) or result.error.code == "validation":
        return again
    if hidden := _hidden(_recorded(row)):
        return replace(again, now="undecidable", rule="", why=f"{hidden} is recorded only as a keyed digest")
    return replace(again, now="deny", rule=result.error.rule or result.error.code, why=result.error.message)


def _for_want_of_a_token(row: Mapping[str, Any], call: Call | None, again: Replayed, exchanges: Exchanges) -> bool:
    """Return True if a call was refused because it would wait for a person, while its caller's token cannot be kept: the rules said "ask".
    The audit entry names the rule that asked."""
    refused = row.get("status") == "refused" and row.get("code") == "forbidden" and row.get("rule") == again.rule
    return call is not None and refused and exchanges.applies_to(call)


def _made(row: Mapping[str, Any], compiled_policy: CompiledPolicy) -> Call:
    """Return the call as it would be made again. Raises `ConfigError` if its caller is unknown."""
    principal, session = _caller(row, compiled_policy), str(row.get("session", ""))
    return compiled_policy.call(str(row.get("tool", "")), _read(_recorded(row)), principal, session)


def _again(
    row: Mapping[str, Any], call: Call, manifest: Manifest, compiled_policy: CompiledPolicy, earlier: CallHistory
) -> _Decision:
    """Return the decision of the current rules about a recorded call."""
    name, recorded, principal = str(row.get("tool", "")), _recorded(row), call.principal
    known = manifest.tools.get(name)
    conditional = known is not None and any(
        compiled.conditional
        for party in (principal, principal.on_behalf_of)
        if party is not None
        for compiled in compiled_policy.access.considered(party, known)
    )
    if conditional and (hidden := _hidden(recorded) or _hidden_of(row, principal)):
        why = f"{hidden} is recorded only as a keyed digest, and a rule may need it"
        return _Decision(call=call, now="undecidable", why=why, counts=False)
    verdict = call.denied or compiled_policy.access.decide(
        principal, call.tool, call.arguments, earlier.circumstances(call)
    )
    match verdict:
        case Allow(rule=rule):
            return _Decision(call=call, now="allow", rule=rule)
        case Ask(rule=rule):
            return _Decision(call=call, now="ask", rule=rule)
        case Deny(code="validation"):  # bound arguments conflict with the sent ones: refused then as now
            return _Decision(call=None, now="allow", rule=verdict.rule)
        case _:
            return _Decision(call=None, now="deny", rule=verdict.rule, why=verdict.reason)


def _before(row: Mapping[str, Any], compiled_policy: CompiledPolicy) -> str:
    """Return the decision of the rules and guards at that time, as far as the outcome shows it."""
    code, refused = row.get("code", ""), row.get("status") == "refused"
    verdict = str(row.get("verdict") or "allow")
    if code in _BY_PERSON:
        return "ask"
    if not refused:
        return (
            verdict  # also if an executor had no request to show, or refused to connect: that is no decision of a rule
        )
    if code in _BY_GUARD or (row.get("rule") == "graphql" and code != "validation"):
        return "deny"
    if code in _BY_POLICY and row.get("rule") != "graphql":
        return "deny"
    if code in _UNASKED or any(limit.id == row.get("rule") for limit in compiled_policy.policy.limits):
        return "unasked"
    return "allow"  # refused for its arguments


def _caller(row: Mapping[str, Any], compiled_policy: CompiledPolicy) -> Principal:
    """Return the caller of a recorded call under the policy. Raises `ConfigError` if the policy or the record lacks it."""
    caller, user = _party(str(row.get("principal", "")), row, compiled_policy), row.get("on_behalf_of")
    if not user:
        return caller
    acting = compiled_policy.identity.acting_for(caller, _party(str(user), row, compiled_policy))
    if acting is None:
        raise ConfigError(f"the policy does not let {caller.id} act for '{user}'")
    return acting


def _party(name: str, row: Mapping[str, Any], compiled_policy: CompiledPolicy) -> Principal:
    """Return a principal of the policy, or a user of an issuer with the roles and attributes that the policy of its call gave it.

    The result of the policy on disk for the same claims is unknown, because claims are not recorded, only their results.
    """
    issuer = compiled_policy.policy.credentials.issuers.get(name.partition(":")[0])
    if issuer is None:
        return compiled_policy.identity.named(name)
    said = row.get("users", {}).get(name)
    if said is None:
        raise ConfigError(f"the audit log does not have the roles of {name}")
    listed = said.get("roles", [])
    if not isinstance(listed, list):
        raise ConfigError(f"the roles of {name} are recorded only as a keyed digest")
    roles = frozenset(map(str, listed))
    if foreign := sorted(roles - issuer.all_roles):
        raise ConfigError(f"no user of {issuer.name} has the role '{foreign[0]}' any more")
    return Principal(id=name, roles=roles, attributes=_read(said.get("attributes") or {}))


def _hidden_of(row: Mapping[str, Any], principal: Principal) -> str:
    users = row.get("users", {})
    said = (users.get(party.id, {}) for party in (principal, principal.on_behalf_of) if party is not None)
    return next((found for one in said if (found := _hidden(one.get("attributes"), "/attributes"))), "")


def _recorded(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sent arguments in their recorded form."""
    return _unbound(row.get("arguments") or {}, row.get("bound") or ())


def _read(recorded: Any, digest: Callable[[str], str] = str) -> dict[str, Any]:
    """Return the values of recorded arguments, or attributes; keyed digests become the result of `digest`."""
    return {name: decoded(item, digest) for name, item in recorded.items()} if isinstance(recorded, Mapping) else {}


def _unbound(arguments: Mapping[str, Any], bound: Any) -> dict[str, Any]:
    """Return the arguments as they were sent: bound ones are set again."""
    left = dict(arguments)
    for path in bound:
        first, _, rest = str(path).partition(".")
        if not rest:
            left.pop(first, None)
        elif isinstance(left.get(first), Mapping):
            left[first] = _unbound(left[first], [rest])
    return left


def _hidden(value: object, path: str = "") -> str:
    """Return the JSON pointer of a value that is recorded only as a digest, or ""."""
    if is_digest(value):
        return path or "/"
    sent_like_one = isinstance(value, Mapping) and value.keys() == {"$text"}
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    if sent_like_one:
        return ""
    return next((found for name, item in items if (found := _hidden(item, f"{path}/{name}"))), "")


def _rarest(roles: frozenset[str], compiled_policy: CompiledPolicy) -> str:
    """Return the role with the fewest holders: a rule for it opens least. A role from claims counts as more than any list, a role of all
    users as most."""
    credentials = compiled_policy.policy.credentials
    held = [entry.roles for entry in credentials.principals.values()]

    def spread(role: str) -> tuple[int, int, int]:
        everybody = sum(role in issuer.roles for issuer in credentials.issuers.values())
        granted = sum(role in issuer.all_roles for issuer in credentials.issuers.values())
        return everybody, granted, sum(role in one for one in held)

    return min(roles, key=lambda role: (*spread(role), role))


def _suggested(role: str, tool: str, seen: _Wanted, manifest: Manifest, compiled_policy: CompiledPolicy) -> Suggested:
    arguments, beyond = closed(seen.arguments)
    rule = {
        "id": f"suggested-{role}-{tool}",
        "to": [role],
        "tools": [tool],
        "verdict": "ask" if manifest.tools[tool].effect is Effect.DESTRUCTIVE else "allow",
        "arguments": arguments,
    }
    others = [*_others(role, seen.callers, compiled_policy)]
    who = [f"{', '.join(others)}, who have the role {role} and did not call"] if others else []
    return Suggested(rule=rule, calls=len(seen.arguments), beyond=(*who, *beyond))


def _others(role: str, callers: set[str], compiled_policy: CompiledPolicy) -> Iterator[str]:
    """Return other holders of a role: principals of the policy, and a note on users of issuers, who cannot be listed."""
    credentials = compiled_policy.policy.credentials
    having = sorted(entry.id for entry in credentials.principals.values() if role in entry.roles)
    named = [name for name in having if name not in callers]
    yield from named[:_MAX_NAMED]
    if len(named) > _MAX_NAMED:
        yield f"{len(named) - _MAX_NAMED} other principals"
    yield from (
        f"all users of {issuer.name} that have it"
        for issuer in credentials.issuers.values()
        if role in issuer.all_roles
    )
