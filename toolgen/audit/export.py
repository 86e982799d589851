"""Calls for other programs: CSV for spreadsheets, OCSF events for what collects security events."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from toolgen.audit.index.row import micros

__all__ = ["COLUMNS", "OCSF_VERSION", "csv_line", "ocsf_event"]

OCSF_VERSION = "1.5.0"
"""Of https://schema.ocsf.io: the class API Activity, 6003, without profiles."""

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
)
"""Of the CSV."""

# What a spreadsheet takes for a formula (https://owasp.org/www-community/attacks/CSV_Injection), also behind spaces.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
# Where a spreadsheet takes semicolons for what parts cells, as those of many countries do, quotes or not.
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
)


def csv_line(cells: Sequence[object], printable: Callable[[object], str]) -> str:
    """One line, quoted as RFC 4180 has it. Texts that a spreadsheet would take for formulas begin with an apostrophe."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerow([_cell(value, printable) for value in cells])
    return buffer.getvalue()


def _cell(value: object, printable: Callable[[object], str]) -> object:
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    shown = _BEHIND.sub(r"\1'\2", printable(text))
    return f"'{shown}" if text.lstrip().startswith(_FORMULA) else shown


def ocsf_event(call: Mapping[str, Any], *, effect: str = "", version: str = "") -> dict[str, Any]:
    """A call as an event of API Activity. `effect` is its tool's, "" where that is not known; `version` is toolgen's."""
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
    """The party a call was made for, and the agent that made it; for nobody else, the agent alone."""
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
