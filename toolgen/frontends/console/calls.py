"""Calls in the console: found by filters, and exported as a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec.structs import replace

from toolgen.audit.reports import csv_line
from toolgen.core.json_codec import encode_json
from toolgen.frontends.console.http import Visit
from toolgen.frontends.console.records import MAX_COUNTED, STATUSES, Filters, Row
from toolgen.frontends.console.rendering import download
from toolgen.frontends.console.text_format import shown
from toolgen.frontends.http.request import Rejected, Response

__all__ = ["exported", "filters_of", "known_names", "search"]

_PAGE = 50
_MAX_TEXT_LENGTH = 200
_FIELDS = ("principal", "tool", "status", "rule", "text", "session")
_CHOICES = ("effect", "when", "zone")
_EFFECTS = ("read", "write", "destructive")
_WHEN = {
    "hour": "last hour",
    "today": "today",
    "yesterday": "yesterday",
    "week": "last 7 days",
    "month": "last 30 days",
}
_MAX_SHORT = 110
_MAX_EXPORTED = 10_000
_COLUMNS = (
    "time", "call_id", "principal", "on_behalf_of", "tool", "verdict", "rule", "status", "code", "duration_ms", "session", "client",
    "arguments", "tool_digest", "policy_digest", "message",
)  # fmt: skip


async def search(visit: Visit) -> Response:
    """GET /console/calls: the filters are the query, so that a search can be kept and passed on."""
    given = visit.request.parameters(*_FIELDS, *_CHOICES, "since", "until", "cursor")
    filters = _with_effect(visit, filters_of(given, visit.now), given.get("effect", ""))
    try:
        found = await visit.context.records.calls(filters, limit=_PAGE, cursor=given.get("cursor", ""), counted=True)
    except ValueError:
        raise Rejected(400, "validation", "the address of this page is not one the console made") from None
    kept = {name: value for name, value in given.items() if value and name != "cursor"}
    older = f"/console/calls?{urlencode({**kept, 'cursor': found.cursor})}" if found.cursor else ""
    newest = f"/console/calls?{urlencode(kept)}" if given.get("cursor") else ""
    return visit.page(
        "calls.html",
        at="calls",
        rows=found.rows,
        count=found.count,
        counted=MAX_COUNTED,
        effects=_EFFECTS,
        whens=_WHEN,
        known=known_names(visit),
        older=older,
        newest=newest,
        given=given,
        statuses=STATUSES,
        kept=urlencode(kept),
        filtered=any(name != "zone" for name in kept),
        most=_MAX_EXPORTED,
    )


def known_names(visit: Visit) -> Mapping[str, tuple[str, ...]]:
    """Return the names that the fields of a filter suggest while somebody types."""
    return {
        "principal": visit.gateway.callers.principals,
        "tool": tuple(sorted(visit.gateway.manifest.tools)),
        "rule": tuple(sorted(rule.id for rule in visit.gateway.policy.rules)),
    }


def _with_effect(visit: Visit, filters: Filters, effect: str) -> Filters:
    """Return the filters narrowed to the tools of the current catalog with an effect. Raises `Rejected` for an unknown effect."""
    if not effect:
        return filters
    if effect not in _EFFECTS:
        raise Rejected(400, "validation", "effect is read, write or destructive")
    tools = visit.gateway.manifest.tools.values()
    return replace(filters, tools=tuple(sorted(tool.name for tool in tools if tool.effect.value == effect)))


def _zone(name: str) -> tzinfo:
    """Return the time zone that the browser named; UTC without a name. Raises `Rejected`."""
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def _span(when: str, now: float, zone: tzinfo) -> tuple[float | None, float | None]:
    """Return start and end of a choice like `yesterday`, in a time zone. Raises `Rejected`."""
    midnight = datetime.fromtimestamp(now, zone).replace(hour=0, minute=0, second=0, microsecond=0)
    match when:
        case "":
            return None, None
        case "today":
            return midnight.timestamp(), None
        case "yesterday":
            return (midnight - timedelta(days=1)).timestamp(), midnight.timestamp()
        case "hour" | "week" | "month":
            return now - {"hour": 3600.0, "week": 7 * 86_400.0, "month": 30 * 86_400.0}[when], None
        case _:
            raise Rejected(400, "validation", f"when is one of {', '.join(_WHEN)}")


def filters_of(given: Mapping[str, str], now: float = 0.0) -> Filters:
    """Parse the fields of the filter form. Raises `Rejected`."""
    if any(len(value) > _MAX_TEXT_LENGTH for value in given.values()):
        raise Rejected(400, "validation", f"a filter has more than {_MAX_TEXT_LENGTH} characters")
    zone = _zone(given.get("zone", ""))
    since, until = (_moment(given.get(name, ""), name, zone) for name in ("since", "until"))
    if since is None and until is None:
        since, until = _span(given.get("when", ""), now, zone)
    texts: dict[str, Any] = {name: given.get(name, "").strip() for name in _FIELDS}
    return Filters(**texts, since=since, until=until)


async def exported(visit: Visit) -> Response:
    """GET /console/calls.csv, /console/calls.jsonl: what the same filters find, as a file, the newest first."""
    given = visit.request.parameters(*_FIELDS, *_CHOICES, "since", "until")
    filters = _with_effect(visit, filters_of(given, visit.now), given.get("effect", ""))
    found = await visit.context.records.calls(filters, limit=_MAX_EXPORTED)
    write, kind = _WRITERS[visit.part]
    made = datetime.fromtimestamp(visit.now, UTC).strftime("%Y%m%dT%H%M%SZ")
    return download(write(found.rows), f"calls-{made}.{visit.part}", kind)


def _csv(rows: tuple[Row, ...]) -> bytes:
    lines = [_COLUMNS, *([row.get(name) for name in _COLUMNS] for row in rows)]
    return "".join(csv_line(line, lambda value: str(shown(value))) for line in lines).encode("utf-8", "replace")


def _lines(rows: tuple[Row, ...]) -> bytes:
    return b"".join(encode_json(row) + b"\n" for row in rows)


_WRITERS: Mapping[str, tuple[Callable[[tuple[Row, ...]], bytes], bytes]] = {
    "csv": (_csv, b"text/csv; charset=utf-8"),
    "jsonl": (_lines, b"application/x-ndjson"),
}


def _moment(text: str, name: str, zone: tzinfo) -> float | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Rejected(400, "validation", f"{name} is not a time like 2027-01-31T12:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=zone)).timestamp()
