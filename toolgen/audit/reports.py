"""Reports of calls: numbers by tool and principal, CSV for spreadsheets, and OCSF events for systems that collect security events."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.audit.durations import SortedDurations, percentile
from toolgen.audit.entry_stream import MARK_LENGTH
from toolgen.audit.index.index import Sample
from toolgen.audit.index.row import micros
from toolgen.core.json_codec import file_json

__all__ = ["COLUMNS", "OCSF_VERSION", "Group", "Stats", "csv_line", "ocsf_entry", "ocsf_event", "stats_of"]

_MANY = 100


class Group(Struct, frozen=True, kw_only=True):
    """Group of calls. Times are in milliseconds, of the calls that ended; None if none did. Percentiles are values that occurred (nearest
    rank)."""

    name: str
    calls: int
    ok: int
    refused: int
    errors: int
    p50: float | None
    p90: float | None
    p99: float | None
    slowest: float | None

    def to_dict(self) -> dict[str, object]:
        """Return the form for `--json`."""
        return {
            "name": self.name,
            "calls": self.calls,
            "ok": self.ok,
            "refused": self.refused,
            "errors": self.errors,
            "duration_ms": {"p50": self.p50, "p90": self.p90, "p99": self.p99, "max": self.slowest},
        }


class Stats(Struct, frozen=True, kw_only=True):
    """Statistics of calls. `first` and `last` are microseconds since the epoch; groups are sorted by their number of calls, at most a
    hundred."""

    total: Group
    first: int | None
    last: int | None
    statuses: dict[str, int]
    codes: dict[str, int]
    rules: dict[str, int]
    tools: tuple[Group, ...]
    principals: tuple[Group, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the form for `--json`."""
        return {
            **self.total.to_dict(),
            "statuses": self.statuses,
            "codes": self.codes,
            "rules": self.rules,
            "tools": [group.to_dict() for group in self.tools],
            "principals": [group.to_dict() for group in self.principals],
        }


class _Cell:
    """Calls of one tool by one principal."""

    __slots__ = ("durations", "statuses")

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.durations = SortedDurations()

    def add(self, sample: Sample) -> None:
        self.statuses[sample.status] += 1
        if sample.duration_ms is not None and sample.status != "pending":
            self.durations.add(sample.duration_ms)


def stats_of(samples: Iterable[Sample]) -> Stats:
    """Compute statistics in one pass. A call that waits for a person has not ended, so its duration is not counted."""
    cells: dict[tuple[str, str], _Cell] = {}
    codes: Counter[str] = Counter()
    rules: Counter[str] = Counter()
    first, last = math.inf, -math.inf
    for sample in samples:
        if (cell := cells.get((sample.tool, sample.principal))) is None:
            cell = cells[sample.tool, sample.principal] = _Cell()
        cell.add(sample)
        codes[sample.code] += 1
        rules[sample.rule] += 1
        first, last = min(first, sample.time), max(last, sample.time)
    tools: dict[str, list[_Cell]] = {}
    principals: dict[str, list[_Cell]] = {}
    for (tool, principal), cell in cells.items():
        tools.setdefault(tool, []).append(cell)
        principals.setdefault(principal, []).append(cell)
    return Stats(
        total=_group("all", cells.values()),
        first=None if first is math.inf else int(first),
        last=None if last == -math.inf else int(last),
        statuses=dict(_statuses(cells.values()).most_common()),
        codes={code: count for code, count in codes.most_common() if code},
        rules={rule: count for rule, count in rules.most_common() if rule},
        tools=_most(tools),
        principals=_most(principals),
    )


def _statuses(cells: Iterable[_Cell]) -> Counter[str]:
    found: Counter[str] = Counter()
    for cell in cells:
        found.update(cell.statuses)
    return found


def _group(name: str, cells: Collection[_Cell]) -> Group:
    statuses = _statuses(cells)
    durations = SortedDurations()
    for cell in cells:
        durations.take(cell.durations)
    parts = durations.parts()
    return Group(
        name=name,
        calls=statuses.total(),
        ok=statuses["ok"],
        refused=statuses["refused"],
        errors=statuses["error"],
        p50=percentile(parts, 50),
        p90=percentile(parts, 90),
        p99=percentile(parts, 99),
        slowest=max((part[-1] for part in parts if part), default=None),
    )


def _most(gathered: Mapping[str, Collection[_Cell]]) -> tuple[Group, ...]:
    calls = {name: sum(cell.statuses.total() for cell in cells) for name, cells in gathered.items()}
    names = sorted(gathered, key=lambda name: (-calls[name], name))
    return tuple(_group(name, gathered[name]) for name in names[:_MANY])


OCSF_VERSION = "1.5.0"
"""Version of https://schema.ocsf.io: the class API Activity, 6003, without profiles."""

COLUMNS = (
    "stream",
    "seq",
    "outcome_seq",
    "time",
    "call_id",
    "principal",
    "on_behalf_of",
    "tool",
    "verdict",
    "rule",
    "status",
    "code",
    "duration_ms",
    "session",
    "client",
    "parent",
    "rows",
    "bytes",
    "attempts",
    "sql",
    "arguments",
    "answered_by",
)
"""Columns of the CSV."""

# Beginnings that a spreadsheet treats as a formula (https://owasp.org/www-community/attacks/CSV_Injection), also after spaces.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
# Also after semicolons, because spreadsheets of many countries split cells at semicolons, even within quotes.
_BEHIND = re.compile(r"([;\t][\s\"']*)([=+\-@＝＋－＠])")
_CLASS = 6003
_CATEGORY = 6
_ACTIVITIES: Mapping[str, tuple[int, str]] = {"": (0, "Unknown"), "read": (2, "Read")}
_OTHER = 99
_STATUSES: Mapping[str, tuple[int, str]] = {
    "ok": (1, "Success"),
    "error": (2, "Failure"),
    "refused": (2, "Failure"),
    "cancelled": (2, "Failure"),
}
_SEVERITIES = {1: "Informational", 2: "Low", 3: "Medium"}
_UNMAPPED = (
    "stream",
    "seq",
    "outcome_seq",
    "verdict",
    "rule",
    "tool_digest",
    "policy_digest",
    "sql",
    "rows",
    "bytes",
    "attempts",
    "answered_by",
)


def csv_line(cells: Sequence[object], printable: Callable[[object], str]) -> str:
    """Format a line, quoted as in RFC 4180. Texts that a spreadsheet would take for formulas begin with an apostrophe."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow([_cell(value, printable) for value in cells])
    return buffer.getvalue()


def _cell(value: object, printable: Callable[[object], str]) -> object:
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else file_json(value).decode()
    shown = _BEHIND.sub(r"\1'\2", printable(text))
    return f"'{shown}" if text.lstrip().startswith(_FORMULA) else shown


def ocsf_event(call: Mapping[str, Any], *, effect: str = "", version: str = "") -> dict[str, Any]:
    """Return a call as an event of API Activity. `effect` is its tool's, "" if unknown; `version` is toolgen's."""
    activity, name = _ACTIVITIES.get(effect, (_OTHER, effect.capitalize()))
    status = str(call.get("status", ""))
    status_id, status_name = _STATUSES.get(status, (_OTHER, status))
    severity = 3 if status == "unfinished" or call.get("code") == "outcome_unknown" else 1 if status_id != 2 else 2
    begun = micros(str(call.get("time", ""))) // 1000
    event: dict[str, Any] = {
        "activity_id": activity,
        "activity_name": name,
        "category_uid": _CATEGORY,
        "category_name": "Application Activity",
        "class_uid": _CLASS,
        "class_name": "API Activity",
        "type_uid": _CLASS * 100 + activity,
        "type_name": f"API Activity: {name}",
        "severity_id": severity,
        "severity": _SEVERITIES[severity],
        "time": begun,
        "start_time": begun,
        "status_id": status_id,
        "status": status_name,
        "metadata": _metadata(call, version),
        "actor": _actor(call),
        "api": _api(call),
        "src_endpoint": {"name": str(call.get("client") or "unknown")},
        "unmapped": {key: call[key] for key in _UNMAPPED if call.get(key) not in (None, "")},
    }
    if code := call.get("code"):
        event["status_code"] = str(code)
    if rule := call.get("rule"):
        event["status_detail"] = f"{call.get('verdict', '')} by {rule}"
    duration = call.get("duration_ms")
    if isinstance(duration, int | float):
        event["duration"] = round(duration)
        event["end_time"] = begun + round(duration)
    return event


def ocsf_entry(line: bytes, *, effects: Mapping[str, str], version: str = "") -> dict[str, Any]:
    """Return a recorded entry as an event of API Activity. `effects` are those of tools by name; `raw_data` is the entry as it stands in
    the log, so that its hash can be verified. Raises `ValueError` and `TypeError` for a line that is no entry.

    Entries about something other than a call have the kind of the entry as activity and as operation.
    """
    entry = msgspec.json.decode(line)
    datetime.fromisoformat(entry["time"])  # an event without a time is none
    kind, about_call = str(entry["event"]), entry.get("event") in {"intent", "outcome"}
    effect = effects.get(str(entry.get("tool", "")), "") if about_call else kind
    event = ocsf_event(entry, effect=effect, version=version)
    if not entry.get("tool"):
        event["api"]["operation"] = kind
    if not entry.get("status"):
        event |= {"status_id": 0, "status": "Unknown"}
    uid = f"{entry['stream']}:{entry['seq']}:{str(entry.get('hash', ''))[:MARK_LENGTH]}"
    event["metadata"] |= {"uid": uid, "event_code": kind}
    if entry.get("call_id"):
        event["metadata"]["correlation_uid"] = str(entry["call_id"])
    event["unmapped"] = {"event": kind}
    event["raw_data"] = line.decode("utf-8", "replace")
    return event


def _metadata(call: Mapping[str, Any], version: str) -> dict[str, Any]:
    product = {"name": "toolgen", "vendor_name": "toolgen", **({"version": version} if version else {})}
    labels = [str(label) for label in call.get("labels", [])]
    return {
        "version": OCSF_VERSION,
        "product": product,
        "uid": str(call.get("call_id", "")),
        "log_name": str(call.get("stream", "")),
        "sequence": int(call.get("seq", 0)),
        "original_time": str(call.get("time", "")),
        **({"correlation_uid": str(call["session"])} if call.get("session") else {}),
        **({"labels": labels} if labels else {}),
    }


def _actor(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user that a call was made for, and the agent that made it; without a user, only the agent."""
    principal, user = str(call.get("principal") or "unknown"), call.get("on_behalf_of")
    session = {"session": {"uid": str(call["session"])}} if call.get("session") else {}
    if user:
        return {"user": {"uid": str(user), "name": str(user)}, "invoked_by": principal, **session}
    return {"user": {"uid": principal, "name": principal}, **session}


def _api(call: Mapping[str, Any]) -> dict[str, Any]:
    tool = str(call.get("tool", ""))
    source, _, operation = tool.partition("__")
    api: dict[str, Any] = {"operation": operation or tool, "request": {"uid": str(call.get("call_id", ""))}}
    if isinstance(call.get("arguments"), Mapping):
        api["request"]["data"] = call["arguments"]
    if operation:
        api["service"] = {"name": source}
    if code := call.get("code"):
        api["response"] = {"error": str(code)}
    return api
