"""Policy scope hash: digest of the part of a policy that concerns one principal's calls to one tool. Approvals and waiting calls are bound
to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from fnmatch import fnmatchcase

from msgspec import Struct

from toolgen.core.canonical import digest, encodable
from toolgen.model.call import Principal
from toolgen.model.tool import Tool
from toolgen.policy.access import Access
from toolgen.policy.cel.expression import Expression
from toolgen.policy.document.policy import Policy
from toolgen.policy.limits import Limit
from toolgen.policy.rules import Rule, conditions_of

__all__ = ["scope_hash_of"]

_TOLD = frozenset({"remind_s", "text", "tell", "row_note", "max_waiting"})
"""Fields that only inform people, or bound a queue, and decide nothing about a call."""

_ELSEWHERE = frozenset({"where", "roles", "tools", "selected"})
"""Fields of a rule or a limit for its place in the file and for its subjects and tools. They are excluded, because it counts only if it
covers the call."""

_FIRST = frozenset(
    {
        *("when", "bind", "shadow", "selected", "roles", "elicits"),
        *("per", "per_second", "burst", "cost", "concurrency", "wait_s", "on_failure", "tools"),
        *("columns", "rows", "masks", "writes", "writable", "cascades", "samples", "unsampled"),
        *("tables", "max_rows", "max_bytes", "max_cell_bytes", "timeout_s", "functions", "max_changes", "compared"),
        *("allow", "private_networks", "sources", "same_origin"),
    }
)
"""Fields with a default that are always part of the digest, as in the first release. Any other field is part of it once its value is not
its default, so that waiting calls stay approved through an upgrade that adds a field."""


def scope_hash_of(policy: Policy, access: Access, tools: Mapping[str, Tool], principal: Principal, tool: Tool) -> str:
    """Return `sha256:…`, which changes with every edit that could change how a call of this principal to this tool is decided, counted,
    sent or answered, and with no other edit: a rule about another tool, a new principal, a test or a comment does not change it.

    Conditions on arguments or earlier calls are included as expressions. Accepted keys and tokens are not part of any digest: a caller that
    lost its access is refused when the call is made.
    """
    about = tuple(_judged(tool, tools))
    granted = [grant.said() for grant in policy.token_grants if any(grant.covers(item) for item in about)]
    conditional = any(
        getattr(rule, name) is not None
        for rule in _rules(access, principal, about)
        for name in conditions_of(type(rule)) - {"arguments"}  # conditions on arguments read no labels
    )
    return digest(
        encodable(
            {
                "rules": [[_decided(party, item, access, principal) for party in _chain(principal)] for item in about],
                "labels": _plain(policy.labels) if conditional else {},
                "limits": [_counted(limit, item) for item in about for limit in policy.limits if _counts(limit, item)],
                "redactions": [
                    _plain(redaction)
                    for redaction in policy.redactions
                    if any(redaction.covers(item) for item in about)
                ],
                "approval": _plain(policy.approval),
                "sql": _plain(policy.sql.get(tool.source)),
                "egress": _plain(policy.egress),
                **({"tokens": granted} if granted else {}),
            }
        )
    )


def _judged(tool: Tool, tools: Mapping[str, Tool]) -> Iterable[Tool]:
    """Return the tools whose rules decide about a call: its own, and for a document all tools of its source, because it may query their
    root fields."""
    yield tool
    if tool.takes_documents:
        yield from (item for name, item in sorted(tools.items()) if item.source == tool.source and item is not tool)


def _decided(party: Principal, tool: Tool, access: Access, principal: Principal) -> object:
    """Return the rules about a tool for one principal. Sets of tools count by their effect: whether the principal sees the tool."""
    rules = sorted((_plain_rule(rule) for rule in _rules(access, party, (tool,))), key=digest)
    return {"digest": tool.digest, "visible": access.visible(principal, tool), "rules": rules}


def _rules(access: Access, principal: Principal, tools: Iterable[Tool]) -> list[Rule]:
    """Return the rules that decide, without shadow rules."""
    return [
        compiled.rule
        for party in _chain(principal)
        for tool in tools
        for compiled in access.considered(party, tool)
        if not compiled.rule.shadow
    ]


def _plain_rule(rule: Rule) -> dict[str, object]:
    return {name: value for name, value in _said(rule).items() if name not in _ELSEWHERE}


def _counts(limit: Limit, tool: Tool) -> bool:
    """Return True if calls to a tool can be charged to a limit."""
    if limit.tools is not None and tool.name not in limit.tools:
        return False
    costs = [cost for pattern, cost in limit.cost if fnmatchcase(tool.name, pattern)]
    return bool(limit.concurrency) or not costs or any(cost != 0 for cost in costs)


def _counted(limit: Limit, tool: Tool) -> dict[str, object]:
    said = {name: value for name, value in _said(limit).items() if name != "tools"}
    return said | {"cost": [_plain(cost) for pattern, cost in limit.cost if fnmatchcase(tool.name, pattern)]}


def _chain(principal: Principal) -> Iterable[Principal]:
    party: Principal | None = principal
    while party is not None:
        yield party
        party = party.on_behalf_of


def _said(part: Struct) -> dict[str, object]:
    names, defaults = part.__struct_fields__, part.__struct_defaults__
    default = dict(zip(reversed(names), reversed(defaults), strict=False))
    found = {name: getattr(part, name) for name in names if name not in _TOLD}
    return {
        name: _plain(value)
        for name, value in found.items()
        if name in _FIRST or name not in default or value != _value(default[name])
    }


def _value(default: object) -> object:
    factory = getattr(default, "factory", None)  # msgspec's form of a default that is created for each object
    return default if factory is None else factory()


def _plain(value: object) -> object:
    """Return a part of a policy as JSON: sets in order, expressions as source text."""
    match value:
        case Expression():
            return value.source
        case Enum():
            return value.value
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case set() | frozenset():
            return sorted((_plain(item) for item in value), key=digest)
        case list() | tuple():
            return [_plain(item) for item in value]
        case Struct():
            return _said(value)
        case _:
            return value
