"""Page of a call in the console: its history, step by step, with all of its recorded entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from msgspec import Struct

from toolgen.core.canonical import decoded, texts
from toolgen.core.errors import ConfigError
from toolgen.core.json_codec import decode_json
from toolgen.core.units import in_words
from toolgen.frontends.console.http import Visit
from toolgen.frontends.console.policies import RuleText, rule_text
from toolgen.frontends.console.records import Row
from toolgen.frontends.console.refusals import refusal_of
from toolgen.frontends.console.seen_calls import seen_calls
from toolgen.frontends.console.text_format import pretty, seconds_of
from toolgen.frontends.http.request import Rejected, Response
from toolgen.gateway.approvals.view import recorded_rows
from toolgen.gateway.operations.call_rows import ValueRow, escaped
from toolgen.gateway.policies.policy_replay import hidden_note

__all__ = ["StoryStep", "rule_of", "sending_of", "steps_of", "story", "waited"]

_HIDDEN = "hmac-sha256:"


async def story(visit: Visit) -> Response:
    """GET /console/calls/ID"""
    visit.request.parameters()
    entries = await visit.context.records.story(visit.part)
    if not entries:
        raise Rejected(404, "not_found", "the audit log has no such call")
    call = _told(entries)
    policy = visit.gateway.policy
    return visit.page(
        "story.html",
        at="calls",
        call=call,
        steps=steps_of(entries),
        refusal=await refusal_of(visit, call),
        would_send=_would_send(call),
        entries=entries,
        rule=rule_of(visit, str(call.get("rule", ""))),
        same_policy=call.get("policy_digest") == policy.digest,
        digest=policy.digest,
        sent=_sent(visit, call),
        sending=sending_of(call),
        asked=_asked(visit, call),
        began=next((entry.get("time", "") for entry in entries if entry.get("event") == "intent"), ""),
        seen=await seen_calls(visit, call, entries),
        hidden=_hidden_note(visit, call) if call.get("hidden") else "",
        again=f"/console/calls?{urlencode({'principal': call.get('principal', ''), 'tool': call.get('tool', '')})}",
    )


_AFTER_APPROVAL = frozenset({"approval_required", "approval_denied", "expired", "cancelled"})


def _would_send(call: Row) -> bool:
    """Return True if the request of an unsent call would have been sent after an approval."""
    return call.get("verdict") == "ask" and str(call.get("code") or "") in _AFTER_APPROVAL


def _asked(visit: Visit, call: Row) -> tuple[ValueRow, ...]:
    """Return the recorded arguments as rows."""
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


_OF_OUTCOME = frozenset({"code", "duration_ms", "attempts", "message"})


def _told(entries: tuple[Row, ...]) -> Row:
    """Return the call as one row: its last intent, and its final outcome."""
    told: dict[str, object] = {}
    for entry in entries:
        match entry.get("event"):
            case "intent":
                kept = {name: value for name, value in told.items() if name not in _OF_OUTCOME}
                told = {**kept, **entry, "status": "unfinished"}
            case "outcome":
                told |= {name: value for name, value in entry.items() if name not in {"seq", "time", "stream", "event"}}
            case "decision" if "code" in entry:
                told |= {"status": entry.get("status"), "code": entry["code"], "message": entry.get("message", "")}
            case _:
                pass
    return told or entries[0]


class StoryStep(Struct, frozen=True, kw_only=True):
    """Step in the history of a call: event, time, person and note. `kind` is a status or a verdict, for the color."""

    kind: str
    word: str
    time: str
    by: str = ""
    note: str = ""
    detail: str = ""


_VERDICTS = {"approve": "approved", "deny": "denied", "expire": "expired", "cancel": "withdrawn", "lose": "lost"}
_WAITS = frozenset({"approval_required", "deferred", "authorization_required"})


def steps_of(entries: Sequence[Row]) -> tuple[StoryStep, ...]:
    """Return the steps of a call in the order of its entries: requested, waited, escalated, answered, sent, ended."""
    found: list[StoryStep] = []
    asked, waiting, denied = "", False, False
    for entry in entries:
        event, time, status = entry.get("event"), str(entry.get("time", "")), str(entry.get("status") or "")
        code, verdict, said = str(entry.get("code") or ""), str(entry.get("verdict") or ""), entry.get("arguments")
        note = str(said.get("note", "")) if isinstance(said, Mapping) else ""
        if event == "intent":
            found.append(StoryStep(kind="sent" if asked else "asked", word="sent" if asked else "asked", time=time))
            asked, waiting = asked or time, False
        elif event == "escalation":
            to = said.get("to") if isinstance(said, Mapping) else None
            roles = ", ".join(map(str, to)) if isinstance(to, list) else ""
            found.append(StoryStep(kind="ask", word="escalated", time=time, detail=f"to {roles}" if roles else ""))
        elif event == "decision" and verdict in _VERDICTS:
            detail = "" if denied or not waiting else f"after {waited(asked, time)}"
            votes = _votes(said) if verdict == "approve" else ""
            word = "agreed" if votes else _VERDICTS[verdict]
            about = "; ".join(filter(None, (detail, votes)))
            denied = verdict != "approve"
            found.append(
                StoryStep(
                    kind=verdict, word=word, time=time, by=str(entry.get("principal") or ""), note=note, detail=about
                )
            )
        elif event == "outcome" and (status == "pending" or code in _WAITS):
            waiting = True
            found.append(
                StoryStep(
                    kind="pending", word="waited for a person" if code == "approval_required" else "waited", time=time
                )
            )
        elif event == "outcome" and not denied:
            found.append(StoryStep(kind=status, word=status, time=time, detail=code))
    return tuple(found)


def _votes(said: object) -> str:
    """Return the text for an approval that needs further approvals; "" for any other."""
    return "it takes others too" if isinstance(said, Mapping) and said.get("enough") is False else ""


def waited(since: str, until: str) -> str:
    """Return the time between two recorded times, as text."""
    start, end = seconds_of(since), seconds_of(until)
    if start is None or end is None:
        return ""
    seconds = max(0.0, end - start)
    if seconds < 60:
        return in_words(seconds)
    minutes = round(seconds / 60)
    parts = ((minutes // 1440, "d"), (minutes % 1440 // 60, "h"), (minutes % 60, "min"))
    return " ".join([f"{count} {unit}" for count, unit in parts if count][:2])


def request_text(request: Mapping[str, object]) -> str:
    """Return a request as text for people: method and address, a line for each header, and the indented body."""
    if "method" not in request:
        parts = [escaped_lines(str(request[name])) for name in ("sql", "query") if request.get(name)]
        parts += [
            f"{name}: {pretty(request[name])}"
            for name in ("operationName", "variables", "parameters")
            if request.get(name)
        ]
        return "\n\n".join(parts)
    lines = [f"{escaped(str(request['method']))} {escaped(str(request.get('url', '')))}"]
    headers = request.get("headers")
    for header in headers if isinstance(headers, list | tuple) else ():
        lines += [": ".join(escaped(str(part)) for part in header)]
    body = request.get("body", request.get("body_base64"))
    if body in (None, ""):
        return "\n".join(lines)
    return "\n".join(
        [*lines, "", pretty(_parsed(body)) if not isinstance(_parsed(body), str) else escaped_lines(str(body))]
    )


def escaped_lines(text: str) -> str:
    """Return the text with each line escaped separately."""
    return "\n".join(map(escaped, text.split("\n")))


def _parsed(body: object) -> object:
    if not isinstance(body, str) or body[:1] not in {"{", "["}:
        return body
    try:
        return decode_json(body.encode())
    except ValueError:
        return body


def _sent(visit: Visit, call: Row) -> Mapping[str, object]:
    """Return the request, made again from the recorded arguments and the tool with the recorded digest, with masked secrets.

    `changed` means that the catalog has another version of the tool now, `hidden` that sensitive values are replaced by digests.
    """
    name, arguments = str(call.get("tool", "")), call.get("arguments")
    known = visit.gateway.manifest.tools.get(name)
    if call.get("sql"):
        return {"kind": "sql", "text": escaped_lines(str(call["sql"]))}
    if known is None or known.digest != call.get("tool_digest") or not isinstance(arguments, Mapping):
        return {"kind": "changed" if known is not None and "tool_digest" in call else "none"}
    hidden = any(_HIDDEN in text for text in texts(arguments))
    from toolgen.gateway.calls.preview import preview  # noqa: PLC0415 - brings what reads SQL and GraphQL

    made = preview(visit.gateway.manifest, name, {name: decoded(item) for name, item in arguments.items()})
    if made.get("status") == "refused":
        return {"kind": "hidden" if hidden else "none"}
    return {"kind": "request", "text": request_text(made), "hidden": hidden}


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
