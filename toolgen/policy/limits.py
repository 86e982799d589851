"""Rate limits: token buckets and concurrency limits, several per call. They are described here and counted in `state`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.clock import Clock
from toolgen.model.call import Call, Principal
from toolgen.model.tool import NoBinding
from toolgen.model.verdict import Deny
from toolgen.policy.cel.expression import ConditionVariables, Expression, Unevaluated

__all__ = ["ATTRIBUTE", "DIMENSIONS", "Cost", "Limit", "LimitCharge", "Limits", "bucket_key", "merged", "parse_rate"]

DIMENSIONS = ("principal", "tool", "source")
ATTRIBUTE = "attribute:"
"""`attribute:tenant` is the attribute `tenant` of the principal. Those without it share one bucket."""

_RATE = re.compile(r"(\d{1,9})/(s|sec|second|m|min|minute|h|hour|d|day)\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

Cost: TypeAlias = int | Expression


class Limit(Struct, frozen=True, kw_only=True):
    """Token bucket, concurrency limit or both for each combination of `per`.

    A bucket holds `burst` tokens and gains `per_second`; a `burst` of 0 means no bucket. At most `concurrency` calls are in flight at once,
    0 for any number. A call over the limit may wait up to `wait_s`. `on_failure` decides about calls while shared counters cannot be
    reached: they are refused, or this process allows its share of them.

    Calls of tools that are not among `tools`, and of unknown names, are not counted; None counts all calls.
    """

    id: str
    per: tuple[str, ...] = ()
    per_second: float = 0.0
    burst: int = 0
    cost: tuple[tuple[str, Cost], ...] = ()
    concurrency: int = 0
    wait_s: float = 0.0
    on_failure: Literal["refuse", "share"] = "refuse"
    tools: frozenset[str] | None = None


class LimitCharge(msgspec.Struct, frozen=True, gc=False):
    """Charge of a call against a limit. `key` names the bucket: the limit's id and the call's value in each dimension."""

    limit: Limit
    key: tuple[str, ...]
    cost: float = 1


def parse_rate(text: str) -> tuple[int, float] | None:
    """Parse `60/min` into (60, 1.0 per second), or None if it is not a rate above zero."""
    found = _RATE.match(text)
    if found is None or int(found[1]) == 0:
        return None
    count = int(found[1])
    return count, count / _SECONDS[found[2][0]]


class Limits:
    """Compiled limits of one policy: the cost of a call is looked up by its tool, and computed only if it is an expression."""

    def __init__(self, limits: Sequence[Limit], clock: Clock) -> None:
        self._limits = tuple(limits)
        # Most limits count principals, so their keys need no function.
        self._keys = tuple(None if limit.per == ("principal",) else _key_of(limit) for limit in self._limits)
        self._clock = clock
        self._costs: dict[str, tuple[int | tuple[Cost, ...] | None, ...]] = {}

    def charges(self, call: Call) -> tuple[LimitCharge, ...] | Deny:
        """Return the charge of a call for each limit. The most expensive cost pattern that matches counts; without one a call costs 1.

        A name that no tool has, or that the caller may not see, costs what patterns for every name (`*`) set: any other price
        would reveal which names exist. A cost that cannot be computed, is below 0 or is more than the bucket ever holds refuses the call.
        """
        tool = call.tool
        # Unknown and hidden names count alike, all in one bucket.
        name, source = ("", "") if isinstance(tool.binding, NoBinding) else (tool.name, tool.source)
        costs = self._costs.get(name)
        if costs is None:
            costs = self._costs[name] = tuple(_costs(limit, name) for limit in self._limits)
        made = []
        for limit, key_of, cost in zip(self._limits, self._keys, costs, strict=True):
            if cost is None:
                continue
            found = self._computed(limit, cost, call) if isinstance(cost, tuple) else cost
            if isinstance(found, Deny):
                return found
            key = (limit.id, call.principal.id) if key_of is None else key_of(call.principal, name, source)
            made.append(LimitCharge(limit, key, found))
        return tuple(made)

    def fixed(self, call: Call) -> bool:
        """Return True if all calls of this principal to this tool cost the same, for any arguments and attributes."""
        costs = self._costs.get(call.tool.name, ())
        plain = all(ATTRIBUTE not in name for limit in self._limits for name in limit.per)
        return (
            plain
            and not isinstance(call.tool.binding, NoBinding)
            and not any(isinstance(cost, tuple) for cost in costs)
        )

    def _computed(self, limit: Limit, costs: Sequence[Cost], call: Call) -> float | Deny:
        unknown = isinstance(call.tool.binding, NoBinding)
        given = {} if unknown else call.arguments  # arguments of an unknown tool are not read
        facts = ConditionVariables(principal=call.principal, tool=call.tool, arguments=given, now=self._clock.now())
        most: float = 0
        for cost in costs:
            try:
                found = cost if isinstance(cost, int) else cost.number(facts)
            except Unevaluated as error:
                if unknown:
                    most = max(most, 1)
                    continue
                return Deny(
                    rule=limit.id,
                    code="validation",
                    reason=f"the cost of this call in the limit {limit.id} cannot be computed: {error}",
                    suggestion="send every argument that the limit counts, with its type from the input schema",
                )
            if found < 0:
                return Deny(
                    rule=limit.id,
                    code="validation",
                    reason=f"this call has a negative cost in the limit {limit.id}",
                    suggestion="correct the arguments and call again",
                )
            most = max(most, found)
        return too_much(limit, most) if most > limit.burst else most


def merged(charges: Sequence[LimitCharge], paid: Sequence[LimitCharge]) -> tuple[LimitCharge, ...] | Deny:
    """Merge the charges of several calls: one per bucket, without the costs that are paid already and with at most one place in
    flight."""
    before = {charge.key: charge.cost for charge in paid}
    costs: dict[tuple[str, ...], float] = {}
    limits: dict[tuple[str, ...], Limit] = {}
    for charge in charges:
        costs[charge.key] = costs.get(charge.key, 0) + charge.cost
        limits[charge.key] = charge.limit
    made = []
    for key, cost in costs.items():
        limit, left = limits[key], cost - before.get(key, 0)
        if limit.burst and cost > limit.burst:
            return too_much(limit, cost)
        if key not in before:
            made.append(LimitCharge(limit, key, cost))
        elif left > 0 and limit.burst:
            made.append(LimitCharge(replace(limit, concurrency=0), key, left))
    return tuple(made)


def too_much(limit: Limit, cost: float) -> Deny:
    """Return the refusal of a call that is too expensive for any wait."""
    asked = f"{cost:f}".rstrip("0").rstrip(".") if cost % 1 else f"{cost:.0f}"
    return Deny(
        rule=limit.id,
        reason=f"this call counts for {asked}, and the limit {limit.id} never allows more than {limit.burst} at once",
        suggestion="ask for less in one call",
    )


def _costs(limit: Limit, name: str) -> int | tuple[Cost, ...] | None:
    """Return the cost of a tool: several costs if they have to be computed first, None if the limit does not cover the tool."""
    if limit.tools is not None and name not in limit.tools:
        return None
    fitting = tuple(
        cost for pattern, cost in limit.cost if (fnmatchcase(name, pattern) if name else not pattern.strip("*"))
    )
    if any(isinstance(cost, Expression) for cost in fitting):
        return fitting
    return max((cost for cost in fitting if isinstance(cost, int)), default=1)


_KeyOf: TypeAlias = Callable[[Principal, str, str], tuple[str, ...]]


def _key_of(limit: Limit) -> _KeyOf:
    """Key of a limit's bucket, made of principal, tool and source."""
    first, per = limit.id, limit.per
    match per:
        case ():
            key = (first,)
            return lambda principal, tool, source: key
        case ("principal", "tool"):
            return lambda principal, tool, source: (first, principal.id, tool)
        case _:
            return lambda principal, tool, source: (first, *(_part(name, principal, tool, source) for name in per))


def bucket_key(limit: Limit, principal: Principal, tool: str, source: str) -> tuple[str, ...]:
    """Return the key of the bucket for calls of this principal to this tool."""
    return _key_of(limit)(principal, tool, source)


def _part(dimension: str, principal: Principal, tool: str, source: str) -> str:
    match dimension:
        case "principal":
            return principal.id
        case "tool":
            return tool
        case "source":
            return source
        case _:
            name = dimension.removeprefix(ATTRIBUTE)
            return _written(principal.attributes[name]) if name in principal.attributes else ""


def _written(value: object) -> str:
    """Return an attribute's value as a unique text: `1`, `"1"` and `true` are three tenants."""
    return f'"{value}' if isinstance(value, str) else json.dumps(value, sort_keys=True, default=dict)
