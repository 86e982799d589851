"""Invariants of calls under faults, checked over the evidence of a run, whichever way it was made.

`INVARIANTS` has them by name. `TOOLGEN_INVARIANTS` names those that a run is held to, with a comma between, or, each with a minus sign
before it, those that it is not.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from tests.simulation.evidence import Entry, Evidence
from tests.simulation.history import CallOperation, Ending, is_linearizable

__all__ = ["INVARIANTS", "Anomaly", "check", "latest", "wanted"]

_DONE = {"ok", "error"}
_NOT_DONE = {"expired", "cancelled", "approval_denied"}
_NOT_BEGUN = {"paused", "rate_limited", "audit_unavailable", "upstream_unavailable"}
_GONE = {"kill", "stop", "restart", "cut", "delay"}
_UNSAID_S = 1.0
"""How long a worker may take to say elsewhere what it has recorded."""
_READ_S = 2.0
"""How long an answer may take from the store to the client: an ending that was replaced meanwhile may still be told."""
_SWEPT_S = 45.0
"""Time until a gateway has ended what the store lost: it notices that, waits for a lease, and sweeps."""
_NOTICED_S = 0.6
"""Time until a gateway notices that the store lost something."""
_AT_ONCE_S = 0.1
"""Time between the end of a fault and the note of what it lost by then."""
_TOKENS = 2.0
"""Tokens whose requests may reach the upstream later, or sooner, than they were taken."""


class Anomaly(Struct, frozen=True, kw_only=True, order=True):
    """A broken invariant, and the operation at which it was seen."""

    invariant: str
    operation: str
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.operation}: {self.text}"


Found = Iterator[Anomaly]


def executed_once(evidence: Evidence) -> Found:
    """Each operation is carried out at most once. A key that the store lost after it was used may be used once more for each loss, but
    never at the same gateway."""
    for name, effects in evidence.effects.items():
        if len(effects) < 2:
            continue
        homes = [one.gateway for one in effects]
        begun = [
            one.at
            for one in evidence.entries
            if one.event == "intent" and one.operation == name and one.gateway == homes[0] and one.at <= effects[0].at
        ]
        since, until = max(begun, default=effects[0].at), effects[-1].at
        again = len(effects) - 1 <= _losses(evidence, since, until) and len(set(homes)) == len(homes) and all(homes)
        if evidence.operations[name].kind == "keyed" and again:
            continue
        yield Anomaly(invariant="executed_once", operation=name, text=f"carried out {len(effects)} times, at {homes}")


def _losses(evidence: Evidence, since: float, until: float) -> int:
    """Return how often the store lost something in a time. Losses that follow each other at once are those of one fault."""
    count, end = 0, -math.inf
    for one in sorted((one for one in evidence.planted if one.kind == "loss"), key=lambda one: one.at):
        if one.at <= until and one.until >= since:
            count += one.at > end + _AT_ONCE_S
            end = max(end, one.until)
    return count


def recorded_first(evidence: Evidence) -> Found:
    """No request reaches the upstream before an intent of its operation is on record."""
    begun: dict[str, float] = {}
    for one in evidence.entries:
        if one.event == "intent":
            name = _operation(evidence, one.call_id)
            begun[name] = min(one.at, begun.get(name, math.inf))
    for received in evidence.received:
        at = begun.get(received.operation, math.inf)
        if at > received.at + evidence.apart_s:
            said = "no intent on record" if at == math.inf else f"the first intent is of {at:.2f}"
            text = f"received at {received.at:.2f}, {said}"
            yield Anomaly(invariant="recorded_first", operation=received.operation, text=text)


def recorded_once(evidence: Evidence) -> Found:
    """Each call has one intent on record. One that a person approved has another one, of the gateway that carries it out; it may be tried
    again if it was refused before it began."""
    for call_id, entries in evidence.by_call.items():
        intents = sum(one.event == "intent" for one in entries)
        approved = sum(one.verdict == "approve" for one in entries)
        refused = sum(one.event == "outcome" and one.status == "refused" for one in entries)
        most = 1 + (1 + refused if approved else 0)
        if intents > most:
            text = f"{call_id} has {intents} intents on record, {most} at most"
            yield Anomaly(invariant="recorded_once", operation=_operation(evidence, call_id), text=text)


def ended_once(evidence: Evidence) -> Found:
    """Each call has one ending on record; after `lose` that of its owner may follow, and is then the last. Another gateway may also take a
    call for lost whose own gateway has been silent for a lease, and recorded an outcome that it could not say. So may a call's own gateway
    that could not hear how another one had ended it before the store lost that."""
    for call_id, entries in evidence.by_call.items():
        endings = _endings(entries)
        if len(endings) < 2:
            continue
        first, second = endings[:2]
        homes = {one.gateway for one in entries if one.event == "intent"}
        if len(endings) == 2 and first.verdict == "lose" and second.event == "outcome" and second.gateway in homes:
            continue
        if len(endings) == 2 and first.gateway != second.gateway:
            lost = first.event == "outcome" and second.verdict == "lose"
            if lost and _was_silent(evidence, first.gateway, second.at):
                continue
            if second.verdict in {"lose", "expire"} and _was_unheard(evidence, first, second):
                continue
        text = " then ".join(_said(one) for one in endings)
        yield Anomaly(invariant="ended_once", operation=_operation(evidence, call_id), text=f"{call_id}: {text}")


def ended(evidence: Evidence) -> Found:
    """Each call that was kept has an ending on record, before its gateway is stopped at the end of the run. One whose caller waited may
    have none where its worker was killed, and one that repeats a key says that the first call with it is under way."""
    for call_id, entries in evidence.by_call.items():
        intents = [one for one in entries if one.event == "intent"]
        endings = [one for one in _endings(entries) if one.at <= evidence.over]
        if not intents or endings or _repeats(evidence, call_id, entries):
            continue
        kept = any(one.status == "pending" for one in entries) or any(
            one.status == "pending" and one.call_id == call_id for one in evidence.told
        )
        bound = latest(evidence, intents[-1].at, _own_s(evidence, call_id))
        if not kept and evidence.befell({"kill"}, intents[0].at, min(bound, evidence.over), intents[0].gateway):
            continue
        if bound > evidence.over:
            continue
        yield Anomaly(
            invariant="ended", operation=_operation(evidence, call_id), text=f"{call_id} has no ending on record"
        )


def told_as_recorded(evidence: Evidence) -> Found:
    """What a client was told of how a call ended is on record by then, or that it is unknown."""
    for told in evidence.told:
        if not told.final or not told.call_id or told.code == "outcome_unknown":
            continue
        endings = [
            one for one in evidence.by_call.get(told.call_id, ()) if one.ends and one.at <= told.at + evidence.apart_s
        ]
        read = told.at - _READ_S
        current = {(one.status, one.code) for one in endings if one.at >= read}
        current |= {(one.status, one.code) for one in [one for one in endings if one.at < read][-1:]}
        if endings and endings[-1].verdict == "lose":  # by another gateway, which its owner's word replaces
            current |= {(one.status, one.code) for one in endings if one.event == "outcome"}
        if (told.status, told.code) not in current and (endings or told.asked != "call"):
            yield Anomaly(
                invariant="told_as_recorded",
                operation=told.operation,
                text=f"{told.call_id}: told {told.status} {told.code} at {told.at:.2f}, on record {sorted(current)}",
            )


def not_called_undone(evidence: Evidence) -> Found:
    """Nobody is told that a call was not made, and may be made again, which was carried out."""
    for told in evidence.told:
        operation = evidence.operations[told.operation]
        keyed = operation.kind == "keyed"  # which is made again, with its key
        undone = told.code in _NOT_DONE or (told.status == "refused" and not keyed)
        effects = [one for one in evidence.effects.get(told.operation, ()) if not keyed or one.at <= told.at]
        if told.final and undone and effects and operation.effect == "write":
            yield Anomaly(
                invariant="not_called_undone",
                operation=told.operation,
                text=f"{told.call_id}: told {told.status} {told.code} at {told.at:.2f}, carried out at {effects[0].at:.2f}",
            )


def told_in_time(evidence: Evidence) -> Found:
    """A client that was told that its call waits is told how it ended: within the time of the call and one lease, counted anew from the end
    of each fault that comes before that."""
    for name, operation in evidence.operations.items():
        mine = evidence.told_of.get(name, [])
        waits = next((one for one in mine if one.status == "pending" and one.call_id), None)
        if waits is None:
            continue
        bound = latest(evidence, waits.at, operation.own_s)
        same = [one for one in mine if one.final and (one.call_id == waits.call_id or operation.kind == "keyed")]
        if (same and same[0].at > bound) or (not same and evidence.over > bound):
            last = mine[-1]
            text = (
                f"{waits.call_id} waits since {waits.at:.2f}, by {bound:.2f} told {last.status} {last.code} {last.text}"
            )
            yield Anomaly(invariant="told_in_time", operation=name, text=text)


def lost_with_reason(evidence: Evidence) -> Found:
    """A call is taken for lost only where its worker was gone or hung, its gateway was cut off or hardly heard, or the store lost
    something."""
    for call_id, entries in evidence.by_call.items():
        intents = [one for one in entries if one.event == "intent"]
        for one in entries:
            if one.verdict != "lose" or not intents:
                continue
            home, since = intents[-1].gateway, one.at - 2 * evidence.lease_s - evidence.slack_s
            apart = any(
                cut.kind in {"cut", "delay"} and cut.gateway == home and cut.at <= one.at and cut.until >= since
                for cut in evidence.planted
            )
            if apart or evidence.befell({"kill", "stop", "restart"}, intents[0].at, one.at, home):
                continue
            if evidence.befell({"loss"}, max(one.at - _SWEPT_S, intents[0].at - evidence.slack_s), one.at):
                continue
            text = f"{call_id} was taken for lost at {one.at:.2f} while its worker lived"
            yield Anomaly(invariant="lost_with_reason", operation=_operation(evidence, call_id), text=text)


def limits_hold(evidence: Evidence) -> Found:
    """Between any two requests of a limited tool no more passed than the bucket held and got in that time. Until gateways notice that the
    store was set back, the bucket may be as full again as the copy says, which is its burst at most."""
    losses = [one.at for one in evidence.planted if one.kind == "loss"]
    for limit in evidence.limits:
        times = sorted(one.at for one in evidence.received if one.operation.startswith(limit.prefix))
        for first, start in enumerate(times):
            for last in range(first, len(times)):
                most = limit.burst + (times[last] - start) * limit.per_second + _TOKENS
                unnoticed = [
                    sum(at <= one <= at + _NOTICED_S for one in times[first : last + 1])
                    for at in losses
                    if start - _NOTICED_S <= at <= times[last]
                ]
                most += sum(min(limit.burst, count) for count in unnoticed)
                if last - first + 1 > most:
                    text = f"{last - first + 1} requests from {start:.2f} to {times[last]:.2f}, at most {most:.1f}"
                    yield Anomaly(invariant="limits_hold", operation=limit.prefix, text=text)
                    return


def acknowledged(evidence: Evidence) -> Found:
    """Each call whose client was told that it waits or failed is on record. One whose client was told that it ended well has an intent and
    that ending on record, and its request reached the upstream."""
    for told in evidence.told:
        entries = evidence.by_call.get(told.call_id, ())
        if told.status in {"pending", "error"} and told.call_id and not any(one.event == "intent" for one in entries):
            text = f"{told.call_id}: told {told.status} {told.code} at {told.at:.2f}, and no intent is on record"
            yield Anomaly(invariant="acknowledged", operation=told.operation, text=text)
        if told.status != "ok":
            continue
        intents = sum(one.event == "intent" for one in entries)
        endings = sum(one.ends and one.status == "ok" for one in entries)
        received = evidence.received_of.get(told.operation, 0)
        if not intents or not endings or not received:
            text = (
                f"{told.call_id}: {intents} intents and {endings} such endings on record, {received} requests received"
            )
            yield Anomaly(invariant="acknowledged", operation=told.operation, text=text)


def answered(evidence: Evidence) -> Found:
    """Each request of a client is answered with what became of its call, unless a fault befell something meanwhile, or at most a lease
    before: so long gateways wait for each other after the store lost something."""
    for told in evidence.told:
        since = told.began - evidence.lease_s - evidence.slack_s
        if told.status == "fault" and not any(one.at <= told.at and one.until >= since for one in evidence.planted):
            text = f"{told.asked} from {told.began:.2f} to {told.at:.2f} has no answer: {told.text or told.code}"
            yield Anomaly(invariant="answered", operation=told.operation, text=text)


def own_answer(evidence: Evidence) -> Found:
    """No client is given the answer to another one's request."""
    for told in evidence.told:
        if told.answered and told.answered != told.operation:
            text = f"{told.call_id}: told what the upstream answered to {told.answered}"
            yield Anomaly(invariant="own_answer", operation=told.operation, text=text)


def same_answer(evidence: Evidence) -> Found:
    """Each request with a key is answered with how the first call with it ended. Not promised after the store lost something, nor for a
    call of which nobody knows how it ended."""
    for name, operation in evidence.operations.items():
        if operation.kind != "keyed":
            continue
        ends = [one for one in evidence.told_of.get(name, ()) if one.status in _DONE and one.code != "outcome_unknown"]
        if not ends or evidence.befell({"loss"}, ends[0].began - evidence.slack_s, ends[-1].at):
            continue
        found = {(one.call_id, one.status, one.code) for one in ends}
        if len(found) > 1:
            text = f"requests with one key were told {sorted(found)}"
            yield Anomaly(invariant="same_answer", operation=name, text=text)


def one_history(evidence: Evidence) -> Found:
    """What clients and people saw of a call can be put in one order, as if there were one copy of it. Not promised to those that read
    while the store loses something, or whose call was taken for lost."""
    by_call: dict[str, list[CallOperation]] = defaultdict(list)
    for told in evidence.told:
        if told.call_id and told.asked != "cancel" and evidence.operations[told.operation].kind != "keyed":
            answered = told.status not in {"fault", "gone"}
            ending = Ending(status=told.status, code=told.code) if told.final else None
            ended = told.at if answered else math.inf
            by_call[told.call_id].append(CallOperation(began=told.began, ended=ended, kind="read", ending=ending))
    for one in evidence.decided:
        by_call[one.call_id].append(
            CallOperation(
                began=one.began,
                ended=math.inf if one.accepted is None else one.at,
                kind="approve" if one.approve else "deny",
                accepted=one.accepted is not False,
            )
        )
    for call_id, operations in by_call.items():
        entries = evidence.by_call.get(call_id, [])
        name = _operation(evidence, call_id)
        known = [one.ended for one in operations if one.ended < math.inf]
        lost = {one.verdict for one in entries} | {one.ending.code for one in operations if one.ending is not None}
        if not known or lost & {"lose", "outcome_unknown"}:
            continue
        if evidence.befell({"loss"}, min(one.began for one in operations) - _SWEPT_S, max(known)):
            continue
        waits = evidence.operations[name].kind == "ask" if name in evidence.operations else True
        if not is_linearizable(operations, waits=waits):
            text = f"{call_id}: no order of {len(operations)} operations explains what they were told"
            yield Anomaly(invariant="one_history", operation=name, text=text)


INVARIANTS: Mapping[str, Callable[[Evidence], Found]] = {
    one.__name__: one
    for one in (
        executed_once,
        recorded_first,
        recorded_once,
        ended_once,
        ended,
        told_as_recorded,
        not_called_undone,
        told_in_time,
        lost_with_reason,
        limits_hold,
        acknowledged,
        answered,
        own_answer,
        same_answer,
        one_history,
    )
}


def wanted(text: str | None = None) -> tuple[str, ...]:
    """Names of the invariants that runs are held to: what `TOOLGEN_INVARIANTS` says, by default all. Raises `ValueError`."""
    said = [one.strip() for one in (os.environ.get("TOOLGEN_INVARIANTS", "") if text is None else text).split(",")]
    named = [one for one in said if one]
    if unknown := {one.removeprefix("-") for one in named} - INVARIANTS.keys():
        raise ValueError(f"no such invariants: {', '.join(sorted(unknown))}; there are {', '.join(INVARIANTS)}")
    chosen = [one for one in named if not one.startswith("-")] or list(INVARIANTS)
    return tuple(one for one in chosen if f"-{one}" not in named)


def check(evidence: Evidence, names: tuple[str, ...] | None = None) -> list[Anomaly]:
    """Every anomaly of a run."""
    return [found for name in (wanted() if names is None else names) for found in INVARIANTS[name](evidence)]


def _was_silent(evidence: Evidence, gateway: str, end: float) -> bool:
    """True if a gateway could hardly be heard for a lease until shortly before `end`, be it for several faults in turn."""
    since = until = -evidence.lease_s
    for one in sorted(evidence.planted, key=lambda one: one.at):
        if one.kind not in _GONE or one.gateway != gateway or one.at > end:
            continue
        if one.at > until + evidence.slack_s:
            since = one.at
        until = max(until, one.until)
    return until >= end - evidence.slack_s and min(until, end) - since >= evidence.lease_s - evidence.slack_s


def _was_unheard(evidence: Evidence, first: Entry, second: Entry) -> bool:
    """True if the store lost the first ending before the gateway of the second one had a moment in which to hear of it."""
    losses = [one.at for one in evidence.planted if one.kind == "loss" and first.at <= one.at <= second.at]
    moments = [first.at, *(one.until for one in evidence.planted if one.kind in _GONE and one.until >= first.at)]
    heard = [at + _UNSAID_S for at in moments if not evidence.befell(_GONE, at + 0.002, at + _UNSAID_S, second.gateway)]
    return any(at <= min(heard, default=at) for at in losses)


def latest(evidence: Evidence, start: float, own_s: float) -> float:
    """Time by which a call has ended that began at `start` and takes `own_s` at most."""
    patience = own_s + evidence.lease_s + evidence.slack_s
    bound = start + patience
    for fault in sorted(evidence.planted, key=lambda one: one.at):
        if start - evidence.lease_s <= fault.at <= bound:
            bound = max(bound, fault.until + patience)
    return bound


def _endings(entries: list[Entry]) -> list[Entry]:
    """Entries that say how a call ended. One that was approved and then refused before it began is tried again."""
    approved = any(one.verdict == "approve" for one in entries)
    return [
        one
        for one in entries
        if one.ends and not (approved and one.event == "outcome" and one.status == "refused" and one.code in _NOT_BEGUN)
    ]


def _said(entry: Entry) -> str:
    return f"{entry.verdict or entry.event} {entry.status} {entry.code} at {entry.at:.2f} by {entry.gateway}/{entry.stream}"


def _operation(evidence: Evidence, call_id: str) -> str:
    return evidence.operation_of.get(call_id, "?")


def _repeats(evidence: Evidence, call_id: str, entries: list[Entry]) -> bool:
    """True if a call was answered with how the first call with its key stands."""
    name = _operation(evidence, call_id)
    operation, last = evidence.operations.get(name), entries[-1]
    if (
        operation is None
        or operation.kind != "keyed"
        or (last.event, last.status, last.code) != ("outcome", "pending", "deferred")
    ):
        return False
    return any(
        other != call_id and _operation(evidence, other) == name and found[0].at < entries[0].at
        for other, found in evidence.by_call.items()
    )


def _own_s(evidence: Evidence, call_id: str) -> float:
    operation = evidence.operations.get(_operation(evidence, call_id))
    return 60.0 if operation is None else operation.own_s
