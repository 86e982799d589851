"""The recorded calls under the policy on disk: what would be decided otherwise, and what would have allowed what was refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from toolgen.audit.query import calls
from toolgen.clock import FixedClock
from toolgen.errors import ConfigError
from toolgen.gateway.governance import Governance
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Effect
from toolgen.model.verdict import Allow, Ask
from toolgen.pipeline.earlier import Earlier
from toolgen.settings import Settings
from toolgen.state.history import Histories

__all__ = ["Rehearsed", "replay", "suggest"]

_HIDDEN = "hmac-sha256:"
_BY_POLICY = frozenset({"forbidden", "unknown_tool"})
_MOST_VALUES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """A recorded call decided again. `now` is `undecidable` where the record does not hold what a rule would ask for; `why` says what."""

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
        return self.now not in {self.before, "undecidable"}

    def to_dict(self) -> dict[str, object]:
        """The JSON form, for `toolgen policy replay --json`."""
        return asdict(self)


def replay(settings: Settings, manifest: Manifest, governance: Governance, since: float) -> Iterator[Rehearsed]:
    """Every recorded call since a moment (seconds since the epoch), one after the other, each with the earlier ones behind it.

    Calls that were in flight together are taken in the order of their intents. Raises `AuditError` when there is no log.
    """
    clock = FixedClock()
    earlier = Earlier(histories=Histories(clock), clock=clock, labels=governance.policy.labels)
    for row in calls(settings.audit_dir):
        clock.seconds = _seconds(row)
        if clock.seconds >= since:
            yield _again(row, manifest, governance, earlier)


def suggest(settings: Settings, manifest: Manifest, governance: Governance, since: float) -> list[dict[str, Any]]:
    """The fewest, narrowest rules that would have allowed what no rule allowed: exact tools, one role, the arguments that were seen.

    What is destructive is asked for. What a rule denied stays denied: nobody should be told to undo that.
    """
    wanted: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in calls(settings.audit_dir):
        tool = row.get("tool", "")
        if (
            _seconds(row) < since
            or row.get("code") not in _BY_POLICY
            or row.get("rule") != "default"
            or tool not in manifest.tools
        ):
            continue
        for name in filter(None, (row.get("principal"), row.get("on_behalf_of"))):
            entry = governance.policy.principals.get(name)
            if entry is not None and entry.roles:
                party = Principal(id=name, roles=entry.roles, attributes=entry.attributes)
                arguments = row.get("arguments") or {}
                if not isinstance(governance.access.decide(party, manifest.tools[tool], arguments), (Allow, Ask)):
                    wanted.setdefault((_rarest(entry.roles, governance), tool), []).append(arguments)
    return [
        _rule(role, tool, seen, manifest) for (role, tool), seen in sorted(wanted.items(), key=lambda item: item[0])
    ]


def _again(row: Mapping[str, Any], manifest: Manifest, governance: Governance, earlier: Earlier) -> Rehearsed:
    name, who = str(row.get("tool", "")), str(row.get("principal", ""))
    code = row.get("code", "")
    before = "deny" if code in _BY_POLICY else str(row.get("verdict") or "allow")
    if row.get("status") == "refused" and code not in _BY_POLICY:
        before = "allow"  # something else refused it: a limit, the arguments, a guard

    def told(now: str, rule: str = "", why: str = "") -> Rehearsed:
        return Rehearsed(
            seq=int(row.get("seq", 0)),
            time=str(row.get("time", "")),
            principal=who,
            tool=name,
            before=before,
            now=now,
            rule=rule,
            why=why,
        )

    try:
        principal = governance.identity.named(who, row.get("on_behalf_of") or None)
    except ConfigError as error:
        return told("undecidable", why=error.message)
    arguments = _unbound(row.get("arguments") or {}, row.get("bound") or ())
    call = governance.call(name, arguments, principal, str(row.get("session", "")))
    known = manifest.tools.get(name)
    conditional = known is not None and any(
        compiled.conditional
        for party in (principal, principal.on_behalf_of)
        if party is not None
        for compiled in governance.access.considered(party, known)
    )
    if conditional and (hidden := _hidden(arguments)):
        return told("undecidable", why=f"{hidden} is recorded as a keyed digest alone, and a rule may ask for it")
    verdict = call.denied or governance.access.decide(principal, call.tool, call.arguments, earlier.circumstances(call))
    if known is not None and row.get("status") in {"ok", "error"}:
        earlier.begin(call, known, call.arguments)
        earlier.histories.end(call.id, "ok" if row["status"] == "ok" else "failed")
    match verdict:
        case Allow(rule=rule):
            return told("allow", rule)
        case Ask(rule=rule):
            return told("ask", rule)
        case _:
            return told("deny", verdict.rule, verdict.reason)


def _unbound(arguments: Mapping[str, Any], bound: Any) -> dict[str, Any]:
    """The arguments as they were sent: what the gateway had set is set again."""
    left = dict(arguments)
    for path in bound:
        first, _, rest = str(path).partition(".")
        if not rest:
            left.pop(first, None)
        elif isinstance(left.get(first), Mapping):
            left[first] = _unbound(left[first], [rest])
    return left


def _hidden(value: object, path: str = "") -> str:
    """Where a value is that the record holds as a digest alone, as a JSON pointer, or ""."""
    if isinstance(value, str):
        return path or "/" if value.startswith(_HIDDEN) else ""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    return next((found for name, item in items if (found := _hidden(item, f"{path}/{name}"))), "")


def _seconds(row: Mapping[str, Any]) -> float:
    try:
        return datetime.fromisoformat(str(row.get("time", ""))).timestamp()
    except ValueError:
        return 0.0


def _rarest(roles: frozenset[str], governance: Governance) -> str:
    """The role that the fewest principals have: a rule for it opens least."""
    held = [entry.roles for entry in governance.policy.principals.values()]
    return min(roles, key=lambda role: (sum(role in one for one in held), role))


def _rule(role: str, tool: str, seen: list[Mapping[str, Any]], manifest: Manifest) -> dict[str, Any]:
    known = manifest.tools[tool]
    destructive = known.effect is Effect.DESTRUCTIVE
    rule: dict[str, Any] = {
        "id": f"suggested-{role}-{tool}",
        "to": [role],
        "tools": [tool],
        "verdict": "ask" if destructive else "allow",
    }
    properties: dict[str, Any] = {}
    for name in known.input_schema.get("properties", {}):
        values = [arguments[name] for arguments in seen if name in arguments]
        if not values or any(_hidden(value) for value in values):
            continue
        if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
            properties[name] = {"minimum": min(values), "maximum": max(values)}
        elif all(isinstance(value, (str, bool)) for value in values) and len(set(values)) <= _MOST_VALUES:
            properties[name] = {"enum": sorted(set(values), key=str)}
    if properties:
        rule["arguments"] = {"properties": properties}
    return rule
