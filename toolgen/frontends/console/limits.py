"""Page of the policy's limits: the allowance of each, and how much of it is used now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from toolgen.core.errors import ConfigError
from toolgen.frontends.console.http import Visit
from toolgen.frontends.http.request import Response
from toolgen.model.call import Principal
from toolgen.policy.limits import ATTRIBUTE, Limit, LimitCharge, bucket_key
from toolgen.state.rate_limits import Level

__all__ = ["BucketUsage", "LimitView", "listed"]

_LOOK_BACK_S = 86_400.0
_MAX_CALLS = 500
_MAX_BUCKETS = 1000
_MAX_SHOWN = 20


class BucketUsage(Struct, frozen=True, kw_only=True):
    """Bucket of a limit of which a part is used."""

    name: str
    used: float
    in_flight: int
    share: float
    full_in_s: float


class LimitView(Struct, frozen=True, kw_only=True):
    """Limit in the words of the policy, and its buckets, the fullest first. `more` is the number of hidden buckets."""

    limit: Limit
    written: Mapping[str, Any]
    buckets: tuple[BucketUsage, ...]
    more: int


async def listed(visit: Visit) -> Response:
    """GET /console/limits: of the callers of the last day, and of all principals of the policy."""
    visit.request.parameters()
    policy = visit.gateway.policy
    charges = await _charges(visit)
    levels = await visit.gateway.monitoring.levels(charges)
    used: dict[str, list[BucketUsage]] = {}
    for charge, level in zip(charges, levels or (), strict=False):
        if (bucket := _bucket(charge, level)) is not None:
            used.setdefault(charge.limit.id, []).append(bucket)
    written = {
        str(item.get("id")): item
        for data in policy.files.values()
        for item in (data.get("limits") or () if isinstance(data, Mapping) else ())
    }
    shown = []
    for limit in policy.limits:
        found = sorted(used.get(limit.id, ()), key=lambda bucket: (-bucket.share, bucket.name))
        shown.append(
            LimitView(
                limit=limit,
                written=written.get(limit.id, {}),
                buckets=tuple(found[:_MAX_SHOWN]),
                more=max(0, len(found) - _MAX_SHOWN),
            )
        )
    return visit.page("limits.html", at="limits", limits=shown, asked=levels is not None)


async def _charges(visit: Visit) -> tuple[LimitCharge, ...]:
    """Return a charge for each bucket that calls like those of the last day use."""
    limits, gateway = visit.gateway.policy.limits, visit.gateway
    if not limits:
        return ()
    pairs = await visit.context.records.pairs(since=visit.now - _LOOK_BACK_S, most=_MAX_CALLS)
    wanted = dict.fromkeys([*pairs, *((name, "") for name in gateway.callers.principals)])
    found: dict[tuple[str, ...], LimitCharge] = {}
    for name, tool_name in wanted:
        try:
            who = gateway.callers.named(name)
        except ConfigError:  # the principal does not exist any more
            continue
        tool = gateway.manifest.tools.get(tool_name)
        for limit in _counting(limits, who, named=tool is not None):
            if limit.tools is not None and tool is not None and tool.name not in limit.tools:
                continue
            key = bucket_key(limit, who, "" if tool is None else tool.name, "" if tool is None else tool.source)
            found.setdefault(key, LimitCharge(limit, key))
    return tuple(found.values())[:_MAX_BUCKETS]


def _counting(limits: tuple[Limit, ...], who: Principal, *, named: bool) -> Iterator[Limit]:
    """Yield the limits whose bucket is known from a principal's id and, if `named`, a tool: attributes of an issuer's users are only in
    their tokens."""
    for limit in limits:
        attributes = any(dimension.startswith(ATTRIBUTE) for dimension in limit.per)
        if (named or not {"tool", "source"} & set(limit.per)) and not (attributes and ":" in who.id):
            yield limit


def _bucket(charge: LimitCharge, level: Level) -> BucketUsage | None:
    limit = charge.limit
    tokens, flying = level
    used = max(0.0, limit.burst - tokens) if limit.burst else 0.0
    if used < 0.05 and not flying:
        return None
    shares = (
        used / limit.burst if limit.burst else 0.0,
        flying / limit.concurrency if limit.concurrency else 0.0,
    )
    return BucketUsage(
        name=" · ".join(part or "–" for part in charge.key[1:]) or "everybody together",
        used=used,
        in_flight=flying,
        share=min(1.0, max(shares)),
        full_in_s=used / limit.per_second if limit.per_second else 0.0,
    )
