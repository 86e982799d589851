"""Calls that wait for approval: the queue, one call with exactly what an answer is bound to, and answers of approvers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.json_codec import decode_json
from toolgen.frontends.console.grants import in_force, roles
from toolgen.frontends.console.http import ActionResult, Person, Queue, Visit
from toolgen.frontends.console.story import rule_of
from toolgen.frontends.http.request import Rejected, Response
from toolgen.gateway.approvals.approvers import counted, in_words, votes_missing
from toolgen.gateway.approvals.requests import MAX_EACH, MAX_NOTE_LENGTH
from toolgen.gateway.approvals.terms import DecisionOptions, GrantRequest
from toolgen.gateway.approvals.view import recorded_rows
from toolgen.gateway.operations.call_rows import argument_rows, below_first_screen, in_schema_order, request_rows
from toolgen.gateway.protocol import Administration
from toolgen.model.call import Principal
from toolgen.model.result import Error
from toolgen.model.schema import JsonObject
from toolgen.policy.document.approvals import RememberBounds
from toolgen.state.invocations import Invocation
from toolgen.state.pauses import Pause

__all__ = ["WaitingRow", "answer", "count", "listed", "one", "open_count", "queue_of", "waiting_rows"]

_PAGE = 50
_WARNING_LINES = 3
_STATUS = {"forbidden": 403, "not_found": 404, "conflict": 409, "expired": 409}
_MAX_FILTER_LENGTH = 200
_FILTERS = ("principal", "tool", "age", "expiry", "sort", "from")
_AGES: Mapping[str, tuple[str, float]] = {
    "10m": ("10 minutes", 600.0),
    "1h": ("an hour", 3600.0),
    "6h": ("6 hours", 21_600.0),
    "1d": ("a day", 86_400.0),
}
_SORTS: Mapping[str, tuple[str, Callable[[WaitingRow], object]]] = {
    "": ("oldest first", lambda row: (row.item.asked, row.item.id)),
    "newest": ("newest first", lambda row: (-row.item.asked, row.item.id)),
    "expiry": ("next to expire first", lambda row: (row.item.expires, row.item.id)),
    "principal": ("by principal", lambda row: (row.item.principal.id, row.item.asked, row.item.id)),
    "tool": ("by tool", lambda row: (row.item.tool, row.item.asked, row.item.id)),
}


class WaitingRow(Struct, frozen=True, kw_only=True):
    """Waiting call in the queue. `state` is `open` if the person may answer now, `agreed` if they did and others are missing, and `closed`
    if others have to answer. `missing` is how many approvals are missing."""

    item: Invocation
    state: str
    missing: int
    paused: bool


async def waiting_rows(visit: Visit) -> tuple[WaitingRow, ...]:
    """Return the waiting calls that a person may see: those they may answer and, for viewers, all others."""
    found, answerable = visit.queue or await queue_of(visit.gateway, visit.person.principal)
    own = {item.id for item in answerable}
    found = found if visit.person.viewer else answerable
    pauses = visit.gateway.pausing.all()
    return tuple(_row(visit, item, own, pauses) for item in found)


async def queue_of(gateway: Administration, principal: Principal) -> Queue:
    """Return all calls that wait, and those of them that this person may answer, in one reading of the store."""
    approvals = gateway.tool_calls.approvals
    found = await approvals.waiting()
    return found, await approvals.answerable(principal, found)


def open_count(gateway: Administration, principal: Principal, queue: Queue) -> int:
    """Return how many calls wait for this person's answer: those they agreed to already are not counted."""
    return sum(not _agreed(gateway, item, principal) for item in queue[1])


def _agreed(gateway: Administration, item: Invocation, principal: Principal) -> bool:
    return any(vote.by == principal.id for vote in counted(gateway.policy, item.approval.votes))


def _row(visit: Visit, item: Invocation, own: set[str], pauses: Sequence[Pause]) -> WaitingRow:
    agreed = _agreed(visit.gateway, item, visit.person.principal)
    state = "closed" if item.id not in own else "agreed" if agreed else "open"
    return WaitingRow(
        item=item,
        state=state,
        missing=votes_missing(visit.gateway.policy, item, visit.now),
        paused=bool(pauses) and bool(pauses_of(visit, item)),
    )


def pauses_of(visit: Visit, item: Invocation) -> tuple[Pause, ...]:
    """Return the pauses that hold a waiting call back."""
    tool = visit.gateway.manifest.tools.get(item.tool)
    parties = [item.principal.id, _behalf(item)]
    source = "" if tool is None else tool.source
    return tuple(pause for pause in visit.gateway.pausing.all() if pause.covers(parties, source, item.tool))


async def listed(visit: Visit) -> Response:
    """GET /console/approvals: the queue, for those who may answer, and read-only for viewers."""
    given = visit.request.parameters(*_FILTERS, "done")
    if any(len(value) > _MAX_FILTER_LENGTH for name, value in given.items() if name != "done"):
        raise Rejected(400, "validation", f"a filter has more than {_MAX_FILTER_LENGTH} characters")
    rows = await waiting_rows(visit)
    fitting = _filtered(rows, given, visit.now)
    start = int(given["from"]) if given.get("from", "").isdecimal() and len(given["from"]) < 6 else 0
    start = min(start, max(0, len(fitting) - 1) // _PAGE * _PAGE)
    kept = {name: value for name, value in given.items() if value and name in _FILTERS[:-1]}
    most, per_principal = visit.gateway.policy.approval.max_waiting, dict[str, int]()
    for row in rows:
        per_principal[row.item.principal.id] = per_principal.get(row.item.principal.id, 0) + 1
    return visit.page(
        "approvals.html",
        at="approvals",
        notice=visit.done_notice(given.get("done", "")),
        rows=[(row, _arguments(visit, row)) for row in fitting[start : start + _PAGE]],
        mark=_mark(rows),
        total=len(rows),
        found=len(fitting),
        open=sum(row.state == "open" for row in rows),
        oldest=min((row.item.asked for row in rows), default=None),
        start=start,
        page_size=_PAGE,
        given=given,
        kept=urlencode(kept),
        filtered=any(name != "sort" for name in kept),
        ages=_AGES,
        sorts=_SORTS,
        full=len((visit.queue or await queue_of(visit.gateway, visit.person.principal))[0]) >= most,
        full_of=sorted(name for name, count in per_principal.items() if count >= MAX_EACH),
        most=most,
        grants=[
            (grant, recorded_rows(grant.get("arguments", {}), _schema(visit, str(grant["tool"])), ()))
            for grant in await in_force(visit)
        ],
        roles=await roles(visit),
    )


def _filtered(rows: Sequence[WaitingRow], given: Mapping[str, str], now: float) -> list[WaitingRow]:
    principal, tool = (given.get(name, "").strip().lower() for name in ("principal", "tool"))
    age, expiry = (_AGES.get(given.get(name, ""), ("", 0.0))[1] for name in ("age", "expiry"))
    found = [
        row
        for row in rows
        if (not principal or principal in f"{row.item.principal.id} {_behalf(row.item)}".lower())
        and (not tool or tool in row.item.tool.lower())
        and (not age or row.item.asked <= now - age)
        and (not expiry or row.item.expires <= now + expiry)
    ]
    return sorted(found, key=_SORTS.get(given.get("sort", ""), _SORTS[""])[1])  # type: ignore[arg-type]


def _behalf(item: Invocation) -> str:
    return "" if item.principal.on_behalf_of is None else item.principal.on_behalf_of.id


def _arguments(visit: Visit, row: WaitingRow) -> str:
    """Return the arguments in one line for approvers of the call, and "" for viewers, from whom the audit log may hide values too."""
    if row.state == "closed":
        return ""
    shown = argument_rows(row.item.arguments, _schema(visit, row.item.tool), row.item.bound)
    text = " · ".join(f"{value.label}: {value.text}" for value in shown[:6])
    return text + (f" · {len(shown) - 6} more" if len(shown) > 6 else "") if shown else "no arguments"


async def one(visit: Visit) -> Response:
    """GET /console/approvals/ID"""
    visit.request.parameters()
    return await _shown(visit, await _waiting(visit))


class _DecisionFault(Struct, frozen=True):
    """Reason why an answer was not accepted, and the field of the form with the fault."""

    text: str
    field: str = ""
    label: str = ""


async def answer(visit: Visit) -> Response:
    """POST /console/approvals/ID: an answer. It counts if it is the first, and only for the digest that was on the page."""
    visit.request.parameters()
    title = "Not denied" if visit.form.get("decision") == "deny" else "Not approved"
    try:
        return await _answer(visit, title)
    except Rejected as rejected:
        return visit.refusal(rejected, title=title, at="approvals")


async def _answer(visit: Visit, title: str) -> Response:
    known = await _waiting(visit)
    decision, note = visit.form.get("decision", ""), visit.form.get("note", "").strip()
    if visit.form.get("digest") != known.digest or decision not in {"approve", "edit", "deny"}:
        raise Rejected(409, "conflict", "this is not the call that was on your page", suggestion="look at it again")
    terms = _terms(visit, known, decision, note)
    if isinstance(terms, _DecisionFault):
        return await _shown(visit, known, fault=terms, title=title, note=note)
    told = await visit.gateway.tool_calls.approvals.decide(
        known.id, approve=decision != "deny", note=note, principal=visit.person.principal, terms=terms
    )
    if isinstance(told, Error):
        own = terms.arguments is not None or terms.remember is not None
        if told.code == "validation" or (told.code == "forbidden" and own):
            edits = (
                ("arguments-field", "Arguments as JSON") if terms.arguments is not None else ("minutes", "Later calls")
            )
            return await _shown(
                visit, known, fault=_DecisionFault(_sentence(told.message), *edits), title=title, note=note
            )
        raise Rejected(_STATUS.get(told.code, 409), told.code, told.message, suggestion=told.suggestion)
    answered = replace(visit, waiting=max(0, visit.waiting - 1))
    return answered.page("answered.html", at="approvals", known=told, decision=decision)


def _terms(visit: Visit, known: Invocation, decision: str, note: str) -> DecisionOptions | _DecisionFault:
    """Return the terms that the form states."""
    if len(note) > MAX_NOTE_LENGTH:
        return _DecisionFault(f"The note has more than {MAX_NOTE_LENGTH} characters.", "note", "Note")
    terms = DecisionOptions(digest=known.digest, shown=visit.form.get("shown", ""), channel="console")
    if decision == "deny":
        return terms
    if any(visit.form.get(name, "").strip() for name in _GRANT_FIELDS):
        grant_request = _grant_request(visit.form, visit.gateway.policy.approval.remember)
        if isinstance(grant_request, _DecisionFault):
            return grant_request
        terms = replace(terms, remember=grant_request)
    if decision == "edit":
        try:
            changed = decode_json(visit.form.get("arguments", "").encode())
        except ValueError:
            changed = None
        if not isinstance(changed, dict):
            return _DecisionFault(
                'The arguments are not a JSON object like {"name": 1}.', "arguments-field", "Arguments as JSON"
            )
        terms = replace(terms, arguments=changed)
    return terms


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


_GRANT_FIELDS = ("remember", "minutes", "calls", "session", "any_arguments")
_MINUTES = re.compile(r"[0-9]{1,6}(?:\.[0-9]{1,2})?\Z")


def _grant_request(form: Mapping[str, str], bounds: RememberBounds | None) -> GrantRequest | _DecisionFault:
    """Return the grant that the form asks for: an empty field stands for the bound of the policy."""
    if bounds is None:
        return _DecisionFault("The policy lets an answer count for one call only.")
    minutes, calls = (form.get(name, "").strip() for name in ("minutes", "calls"))
    most = bounds.max_s / 60
    if minutes and not (_MINUTES.match(minutes) and 1 <= 60 * float(minutes) <= bounds.max_s):
        return _DecisionFault(
            f"“For how many minutes” takes a number of at most {most:g}.", "minutes", "For how many minutes"
        )
    if calls and not (calls.isascii() and calls.isdigit() and 0 < int(calls) <= bounds.max_calls):
        text = f"“For how many calls” takes a whole number from 1 to {bounds.max_calls}."
        return _DecisionFault(text, "calls", "For how many calls")
    return GrantRequest(
        seconds=60.0 * float(minutes) if minutes else bounds.max_s,
        calls=int(calls) if calls else bounds.max_calls,
        session=form.get("session") == "yes",
        any_arguments=form.get("any_arguments") == "yes",
    )


async def _waiting(visit: Visit) -> Invocation:
    """Return the call of the path if this person may answer for it. Raises `Rejected` for all others, as for an unknown call."""
    found = await visit.gateway.tool_calls.approvals.answerable(visit.person.principal)
    known = next((item for item in found if item.id == visit.part), None)
    if known is None:
        raise Rejected(
            404,
            "not_found",
            "no call with this id waits for your answer",
            suggestion="it may already be answered, expired or withdrawn",
        )
    return known


def _schema(visit: Visit, name: str) -> JsonObject | None:
    tool = visit.gateway.current.compiled_policy.tool(name)
    return None if tool is None else tool.input_schema


async def _shown(
    visit: Visit, known: Invocation, *, fault: _DecisionFault | None = None, title: str = "", note: str = ""
) -> Response:
    view, schema = await visit.gateway.tool_calls.approvals.shown_to_approver(known), _schema(visit, known.tool)
    tool = visit.gateway.manifest.tools.get(known.tool)
    notice = (
        None if fault is None else ActionResult(title, fault.text, kind="bad", field=fault.field, label=fault.label)
    )
    agreed = _agreed(visit.gateway, known, visit.person.principal)
    taken = len(visit.warnings) + bool(visit.gateway.operations.ready()) + agreed + (fault is not None)
    return visit.page(
        "approval.html",
        at="approvals",
        status=400 if fault else 200,
        notice=notice,
        known=known,
        tool=tool,
        rule=rule_of(visit, known.rule),
        view=view,
        below=below_first_screen(view.arguments, _WARNING_LINES * taken),
        original=None if known.approval.original is None else argument_rows(known.approval.original, schema),
        statement=request_rows({"sql": known.approval.sql}) if known.approval.sql else (),
        editable=visit.form.get("arguments") or in_schema_order(known.arguments, schema),
        longest_note=MAX_NOTE_LENGTH,
        wrong=fault.field if fault else "",
        note=note,
        agreed=agreed,
        pauses=pauses_of(visit, known),
        missing=votes_missing(visit.gateway.policy, known, visit.now),
        needs=in_words(known.approval.needs),
        several=sum(need.quorum for need in known.approval.needs) > 1,
        bounds=visit.gateway.policy.approval.remember,
        given=visit.form,
    )


async def count(visit: Visit) -> Response:
    """GET /console/waiting: how many calls wait for this person, as JSON for the script of each page."""
    visit.request.parameters()
    rows = await waiting_rows(visit) if _may_see(visit.person) else ()
    return visit.json({"waiting": visit.waiting, "mark": _mark(rows)})


def _mark(rows: Sequence[WaitingRow]) -> str:
    """Return a digest of the waiting calls; it changes when the queue shows something else."""
    told = "".join(f"{row.item.id} {row.state} {row.missing}\n" for row in rows)
    return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()


def _may_see(person: Person) -> bool:
    return person.approver or person.viewer
