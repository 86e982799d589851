"""Calls in the console: found by filters, exported as a file, and one with everything on record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from urllib.parse import urlencode

from toolgen.audit.reports import csv_line
from toolgen.core.canonical import decoded, texts
from toolgen.core.errors import ConfigError
from toolgen.core.json_codec import encode_json
from toolgen.frontends.console.http import Visit, download, shown
from toolgen.frontends.console.policies import RuleText, rule_text
from toolgen.frontends.console.records import STATUSES, Filters, Row
from toolgen.frontends.console.seen_calls import seen_calls
from toolgen.gateway.approvals.view import recorded_rows
from toolgen.gateway.asgi.request import Rejected, Response
from toolgen.gateway.operations.call_rows import ValueRow, request_rows
from toolgen.gateway.policy_replay import hidden_note

__all__ = ["exported", "filters_of", "rule_of", "search", "sending_of", "story"]

_PAGE = 50
_MAX_TEXT_LENGTH = 200
_HIDDEN = "hmac-sha256:"
_FIELDS = ("principal", "tool", "status", "rule", "text")
_MAX_EXPORTED = 10_000
_COLUMNS = (
    "time", "call_id", "principal", "on_behalf_of", "tool", "verdict", "rule", "status", "code", "duration_ms", "session", "client",
    "arguments", "tool_digest", "policy_digest",
)  # fmt: skip


async def search(visit: Visit) -> Response:
    """GET /console/calls: the filters are the query, so that a search can be kept and passed on."""
    given = visit.request.parameters(*_FIELDS, "since", "until", "cursor")
    filters = filters_of(given)
    try:
        found = await visit.context.records.calls(filters, limit=_PAGE, cursor=given.get("cursor", ""))
    except ValueError:
        raise Rejected(400, "validation", "the address of this page is not one the console made") from None
    kept = {name: value for name, value in given.items() if value and name != "cursor"}
    older = f"/console/calls?{urlencode({**kept, 'cursor': found.cursor})}" if found.cursor else ""
    newest = f"/console/calls?{urlencode(kept)}" if given.get("cursor") else ""
    return visit.page(
        "calls.html",
        at="calls",
        rows=found.rows,
        older=older,
        newest=newest,
        given=given,
        statuses=STATUSES,
        kept=urlencode(kept),
        filtered=bool(kept),
        most=_MAX_EXPORTED,
    )


def filters_of(given: Mapping[str, str]) -> Filters:
    """Parse the fields of the filter form. Raises `Rejected`."""
    if any(len(value) > _MAX_TEXT_LENGTH for value in given.values()):
        raise Rejected(400, "validation", f"a filter has more than {_MAX_TEXT_LENGTH} characters")
    since, until = (_moment(given.get(name, ""), name) for name in ("since", "until"))
    return Filters(**{name: given.get(name, "").strip() for name in _FIELDS}, since=since, until=until)


async def exported(visit: Visit) -> Response:
    """GET /console/calls.csv, /console/calls.jsonl: what the same filters find, as a file, the newest first."""
    filters = filters_of(visit.request.parameters(*_FIELDS, "since", "until"))
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


async def story(visit: Visit) -> Response:
    """GET /console/calls/ID"""
    visit.request.parameters()
    entries = await visit.context.records.story(visit.part)
    if not entries:
        raise Rejected(404, "not_found", "there is no such call on record")
    call = _told(entries)
    policy = visit.gateway.policy
    return visit.page(
        "story.html",
        at="calls",
        call=call,
        entries=entries,
        rule=rule_of(visit, str(call.get("rule", ""))),
        same_policy=call.get("policy_digest") == policy.digest,
        digest=policy.digest,
        sent=_sent(visit, call),
        sending=sending_of(call),
        asked=_asked(visit, call),
        seen=await seen_calls(visit, call, entries),
        hidden=_hidden_note(visit, call) if call.get("hidden") else "",
        again=f"/console/calls?{urlencode({'principal': call.get('principal', ''), 'tool': call.get('tool', '')})}",
    )


def _asked(visit: Visit, call: Row) -> tuple[ValueRow, ...]:
    """The recorded arguments as rows."""
    arguments = call.get("arguments")
    if not isinstance(arguments, Mapping):
        return ()
    tool, bound = visit.gateway.manifest.tools.get(str(call.get("tool", ""))), call.get("bound") or ()
    return recorded_rows(arguments, None if tool is None else tool.input_schema, tuple(map(str, bound)))


def _hidden_note(visit: Visit, call: Row) -> str:
    """Explain why a tool was hidden from its caller, by the policy in force now."""
    name, arguments = str(call.get("tool", "")), call.get("arguments")
    given = {key: decoded(item) for key, item in arguments.items()} if isinstance(arguments, Mapping) else {}
    try:
        who = visit.gateway.callers.named(str(call.get("principal", "")), str(call.get("on_behalf_of") or "") or None)
    except ConfigError:
        return f"{name} existed, and was hidden from its caller"
    note = hidden_note(visit.gateway.current.compiled_policy, visit.gateway.manifest, who, name, given)
    return note or f"{name} existed, and was hidden from its caller; the policy in force now shows it"


def rule_of(visit: Visit, name: str) -> RuleText:
    """Return the text of a rule, from the policy or from the gateway's built-in rules."""
    return rule_text(name, visit.gateway.policy, visit.gateway.settings.policies)


def _told(entries: tuple[Row, ...]) -> Row:
    """The call in one: what was intended, and the last word on how it ended."""
    told: dict[str, object] = {}
    for entry in entries:
        match entry.get("event"):
            case "intent":
                told = {**told, **entry, "status": "unfinished"}
            case "outcome":
                told |= {name: value for name, value in entry.items() if name not in {"seq", "time", "stream", "event"}}
            case "decision" if "code" in entry:
                told |= {"status": entry.get("status"), "code": entry["code"]}
            case _:
                pass
    return told or entries[0]


def _sent(visit: Visit, call: Row) -> Mapping[str, object]:
    """The request as it was made of what is on record, secrets masked: the arguments there and the tool of that digest say all of it.

    `changed` where the catalog has another tool by now, `hidden` where digests stand for sensitive values.
    """
    name, arguments = str(call.get("tool", "")), call.get("arguments")
    known = visit.gateway.manifest.tools.get(name)
    if call.get("sql"):
        return {"kind": "sql", "rows": request_rows({"sql": call["sql"]})}
    if known is None or known.digest != call.get("tool_digest") or not isinstance(arguments, Mapping):
        return {"kind": "changed" if known is not None and "tool_digest" in call else "none"}
    hidden = any(_HIDDEN in text for text in texts(arguments))
    from toolgen.gateway.wiring.preview import preview  # noqa: PLC0415 - brings what reads SQL and GraphQL

    made = preview(visit.gateway.manifest, name, {name: decoded(item) for name, item in arguments.items()})
    if made.get("status") == "refused":
        return {"kind": "hidden" if hidden else "none"}
    return {"kind": "request", "rows": request_rows(made), "hidden": hidden}


_STARTED = frozenset({"upstream_error", "upstream_timeout", "outcome_unknown", "response_too_large", "handler_error"})
_KEPT = frozenset({"hit", "stale", "shared", "replayed"})


def sending_of(call: Row) -> str:
    """Return whether the request was sent, according to the audit log: `sent`, `unsent`, `kept` (a cached answer was given instead),
    `unreached` (the service was unavailable), or `perhaps`, if the log has no outcome."""
    status, code = call.get("status"), str(call.get("code") or "")
    if status == "unfinished":
        return "perhaps"
    if status == "ok":
        return "kept" if code in _KEPT and not call.get("attempts") else "sent"
    if code == "upstream_unavailable":
        return "unreached"
    return "sent" if call.get("attempts") or code in _STARTED else "unsent"


def _moment(text: str, name: str) -> float | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Rejected(400, "validation", f"{name} is not a time like 2027-01-31T12:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
