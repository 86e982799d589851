"""The record in the console: calls by filter, and everything on record of one call."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import urlencode

from toolgen.canonical import decoded, texts
from toolgen.console.records import STATUSES, Filters, Row
from toolgen.console.rule_text import RuleText, rule_text
from toolgen.console.visit import Visit
from toolgen.gateway.http import Rejected, Response
from toolgen.pipeline.preview import preview

__all__ = ["search", "story"]

_PAGE = 50
_LONGEST_TEXT = 200
_HIDDEN = "hmac-sha256:"
_FIELDS = ("principal", "tool", "status", "rule", "text")


async def search(visit: Visit) -> Response:
    """GET /console/calls: the filters are the query, so that a search can be kept and passed on."""
    given = visit.request.parameters(*_FIELDS, "since", "until", "cursor")
    if any(len(value) > _LONGEST_TEXT for value in given.values()):
        raise Rejected(400, "validation", f"a filter has more than {_LONGEST_TEXT} characters")
    since, until = (_moment(given.get(name, ""), name) for name in ("since", "until"))
    filters = Filters(**{name: given.get(name, "").strip() for name in _FIELDS}, since=since, until=until)
    try:
        found = await visit.backstage.records.calls(filters, limit=_PAGE, cursor=given.get("cursor", ""))
    except ValueError:
        raise Rejected(400, "validation", "the address of this page is not one the console made") from None
    kept = {name: value for name, value in given.items() if value and name != "cursor"}
    older = f"/console/calls?{urlencode({**kept, 'cursor': found.cursor})}" if found.cursor else ""
    newest = f"/console/calls?{urlencode(kept)}" if given.get("cursor") else ""
    return visit.page(
        "calls.html", at="calls", rows=found.rows, older=older, newest=newest, given=given, statuses=STATUSES
    )


async def story(visit: Visit) -> Response:
    """GET /console/calls/ID"""
    visit.request.parameters()
    entries = await visit.backstage.records.story(visit.part)
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
        sent=_sent(visit, call),
        again=f"/console/calls?{urlencode({'principal': call.get('principal', ''), 'tool': call.get('tool', '')})}",
    )


def rule_of(visit: Visit, name: str) -> RuleText:
    """What the policy, or the gateway itself, says under the name of a rule."""
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
        return {"kind": "sql", "sql": call["sql"]}
    if known is None or known.digest != call.get("tool_digest") or not isinstance(arguments, Mapping):
        return {"kind": "changed" if known is not None and "tool_digest" in call else "none"}
    hidden = any(_HIDDEN in text for text in texts(arguments))
    made = preview(visit.gateway.manifest, name, {name: decoded(item) for name, item in arguments.items()})
    if made.get("status") == "refused":
        return {"kind": "hidden" if hidden else "none"}
    return {"kind": "request", "request": made, "hidden": hidden}


def _moment(text: str, name: str) -> float | None:
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Rejected(400, "validation", f"{name} is not a time like 2027-01-31T12:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
