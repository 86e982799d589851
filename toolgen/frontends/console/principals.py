"""Page of a principal in the console: what it may do, tool by tool, and its rules, limits, keys and latest calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from msgspec import Struct

from toolgen.core.errors import ConfigError
from toolgen.frontends.console.http import Visit
from toolgen.frontends.console.keys import keys_of
from toolgen.frontends.console.records import Filters
from toolgen.frontends.http.request import Rejected, Response
from toolgen.model.call import Principal
from toolgen.model.tool import Tool
from toolgen.policy.explain import Outlook, outlook
from toolgen.policy.limits import Limit

__all__ = ["ToolOutlook", "show"]

_PAGE = 100
_CALLS = 10
_MAX_LENGTH = 200
_EFFECTS = ("destructive", "write", "read")
_VERDICTS = ("allow", "ask", "deny", "hidden")


class ToolOutlook(Struct, frozen=True, kw_only=True):
    """Tool, with the verdict of the policy on calls of it by one principal."""

    tool: Tool
    outlook: Outlook
    paused: bool


async def show(visit: Visit) -> Response:
    """GET /console/principals?name=NAME: the tools by effect, destructive first, and verdict."""
    given = visit.request.parameters("name", "verdict", "effect", "find", "from")
    name = given.get("name", "")
    if any(len(value) > _MAX_LENGTH for value in given.values()):
        raise Rejected(400, "validation", f"a name has more than {_MAX_LENGTH} characters")
    try:
        who: Principal | None = visit.gateway.callers.named(name)
    except ConfigError:
        who = None
    calls = await visit.context.records.calls(Filters(principal=name), limit=_CALLS, counted=True)
    if who is None and not calls.rows:
        raise Rejected(404, "not_found", "the policy has no such principal, and the audit log has no call of it")
    tools = () if who is None else _outlooks(visit, who)
    found = [one for one in tools if _fits(one, given)]
    start = int(given["from"]) if given.get("from", "").isdecimal() and len(given["from"]) < 8 else 0
    uses = {use.rule: use for use in await visit.context.records.rules(Filters(principal=name))}
    policy = visit.gateway.policy
    roles = frozenset() if who is None else who.roles
    await visit.gateway.monitoring.history.note()
    keys = keys_of(policy.credentials, await visit.gateway.monitoring.history.seen.uses(), visit.now)
    kept = {key: value for key, value in given.items() if value and key != "from"}
    return visit.page(
        "principal.html",
        at="policies",
        principal=name,
        who=who,
        tools=found[start : start + _PAGE],
        found=len(found),
        start=start,
        page_size=_PAGE,
        given=given,
        kept=urlencode(kept),
        matrix=Counter((one.tool.effect.value, one.outlook.verdict) for one in tools),
        effects=_EFFECTS,
        verdicts=_VERDICTS,
        rules=[(rule, uses.get(rule.id)) for rule in policy.rules if rule.roles & roles],
        other_uses=[use for id_, use in uses.items() if id_ and id_ not in {rule.id for rule in policy.rules}],
        limits=() if who is None else _limits(policy.limits, tools),
        keys=[key for key in keys if key.principal == name],
        calls=calls,
        pauses=[pause for pause in visit.gateway.pausing.all() if pause.principal == name],
    )


def _outlooks(visit: Visit, who: Principal) -> tuple[ToolOutlook, ...]:
    access, pauses = visit.gateway.current.compiled_policy.access, visit.gateway.pausing.all()
    found = [
        ToolOutlook(
            tool=tool,
            outlook=outlook(access, who, tool),
            paused=any(pause.covers((who.id,), tool.source, tool.name) for pause in pauses),
        )
        for tool in visit.gateway.manifest.tools.values()
    ]
    order: Mapping[str, int] = {word: place for place, word in enumerate((*_EFFECTS, *_VERDICTS))}
    found.sort(key=lambda one: (order[one.tool.effect.value], order[one.outlook.verdict], one.tool.name))
    return tuple(found)


def _limits(limits: Sequence[Limit], tools: Sequence[ToolOutlook]) -> tuple[Limit, ...]:
    """Return the limits that count calls of tools that a principal may call."""
    callable_ = {one.tool.name for one in tools if one.outlook.verdict in {"allow", "ask"}}
    return tuple(limit for limit in limits if limit.tools is None or not callable_.isdisjoint(limit.tools))


def _fits(one: ToolOutlook, given: Mapping[str, str]) -> bool:
    words = given.get("find", "").lower().split()
    return (
        given.get("verdict", "") in {"", one.outlook.verdict}
        and given.get("effect", "") in {"", one.tool.effect.value}
        and all(word in one.tool.name.lower() for word in words)
    )
