"""Each invariant of calls under faults finds what it is for, and nothing in what may be."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.simulation.evidence import Decided, Entry, Evidence, Limit, Operation, Planted, Received, Told
from tests.simulation.invariants import INVARIANTS, check, wanted


def evidence(kind: str = "ask", effect: str = "write", **parts: Any) -> Evidence:
    operation = Operation(name="op", kind=kind, effect=effect, own_s=5.0)
    return Evidence(operations={"op": operation}, **{"over": 100.0, **parts})


def told(status: str, code: str = "", at: float = 10.0, asked: str = "poll") -> Told:
    call_id = "" if status == "fault" else "c"
    return Told(
        began=at - 0.5, at=at, operation="op", gateway="A", status=status, code=code, call_id=call_id, asked=asked
    )


def entry(
    event: str, status: str = "", code: str = "", at: float = 5.0, verdict: str = "", gateway: str = "A"
) -> Entry:
    operation = "op" if event == "intent" else ""
    return Entry(
        at=at, gateway=gateway, stream="gateway-1", seq=int(at * 10), event=event, call_id="c", operation=operation, status=status,
        code=code, verdict=verdict,
    )  # fmt: skip


def done(at: float = 5.0, gateway: str = "A") -> Received:
    return Received(at=at, operation="op", gateway=gateway)


INTENT, OK = entry("intent", at=1.0), entry("outcome", "ok", at=6.0)
LOST = entry("decision", "error", "outcome_unknown", at=20.0, verdict="lose")
LOST_LATER = replace(LOST, at=30.0)
EXPIRED = entry("decision", "refused", "expired", at=20.0, verdict="expire")
DENIED_BY_B = entry("decision", "refused", "approval_denied", 12, "deny", "B")
ASKED = entry("outcome", "pending", "approval_required", at=1.1)
LIMITS = (Limit(prefix="op", burst=2, per_second=1.0),)
KILLED, STOPPED = (Planted(at=6.5, until=7, kind=kind, gateway="A") for kind in ("kill", "stop"))
HUNG = Planted(at=6.5, until=19, kind="stop", gateway="A")
CUT = Planted(at=3.0, until=40.0, kind="cut")
REPEATED = [  # of a key, and answered that the first call with it is under way
    replace(entry("intent", at=8.0), call_id="again"),
    replace(entry("outcome", "pending", "deferred", at=9.0), call_id="again"),
]
APPROVED = Decided(began=2.0, at=3.0, operation="op", call_id="c", approve=True, accepted=True)
DENIED_TOO = replace(APPROVED, began=4.0, at=4.5, approve=False)
FLUSHED = Planted(at=4, until=4, kind="loss")
EARLIER, FAILOVER = (Planted(at=at, until=until, kind="loss") for at, until in ((0.1, 0.4), (2.5, 6.5)))

SECOND = replace(INTENT, at=2.0)
UNAVAILABLE = entry("outcome", "refused", "upstream_unavailable", at=9.0)
LATE = entry("outcome", "error", "outcome_unknown", at=49.0)
FAULT = told("fault", asked="call")
FAILED = told("error", "upstream_error")

CASES: list[tuple[Evidence, set[str]]] = [
    (evidence(entries=[INTENT, OK], received=[done()], told=[told("ok")], decided=[APPROVED]), set()),
    (evidence("left", entries=[INTENT, OK], received=[done()], told=[told("ok")]), set()),
    (evidence("left", entries=[INTENT, OK], told=[told("ok")]), {"acknowledged"}),
    (
        evidence("left", entries=[INTENT], received=[done()], told=[told("ok")]),
        {"acknowledged", "told_as_recorded", "ended"},
    ),
    (evidence("left", entries=[OK], received=[done()], told=[told("ok")]), {"acknowledged", "recorded_first"}),
    (evidence(entries=[INTENT, OK], received=[done()], told=[told("ok")]), {"one_history"}),
    (
        evidence(entries=[INTENT, OK], received=[done()], told=[told("ok")], decided=[APPROVED, DENIED_TOO]),
        {"one_history"},
    ),
    (evidence(entries=[INTENT, OK], received=[done()], told=[told("ok")], planted=[FLUSHED]), set()),
    (
        evidence(
            entries=[INTENT, OK], received=[done()], told=[told("ok"), told("pending", at=12.0)], decided=[APPROVED]
        ),
        {"one_history"},
    ),
    (evidence(entries=[INTENT, OK], received=[done(), done(7.0)]), {"executed_once"}),
    (evidence("keyed", entries=[INTENT, OK], received=[done(3.0), done(5.0)], planted=[FLUSHED]), {"executed_once"}),
    (evidence("keyed", entries=[INTENT, OK], received=[done(3.0), done(5.0, "B")], planted=[FLUSHED]), set()),
    (evidence("keyed", entries=[INTENT, OK], received=[done(3.0), done(5.0, "B")]), {"executed_once"}),
    (evidence("keyed", entries=[INTENT, OK], received=[done(3.0), done(5.0, "B")], planted=[FAILOVER]), set()),
    (
        evidence("keyed", entries=[INTENT, OK], received=[done(3.0), done(5.0, "B")], planted=[EARLIER]),
        {"executed_once"},
    ),
    (
        evidence(
            "keyed",
            entries=[INTENT, OK],
            received=[done(3.0), done(4.0, "B"), done(5.0, "C")],
            planted=[FAILOVER, Planted(at=6.51, until=6.51, kind="loss")],
        ),
        {"executed_once"},
    ),
    (
        evidence(
            "keyed", entries=[replace(INTENT, at=4.2), OK], received=[done(4.5), done(5.0, "B")], planted=[FLUSHED]
        ),
        {"executed_once"},
    ),
    (evidence(entries=[INTENT, OK, EXPIRED]), {"ended_once"}),
    (evidence(entries=[INTENT, OK, LOST]), {"ended_once", "lost_with_reason"}),
    (evidence(entries=[INTENT, OK, LOST], planted=[KILLED]), {"ended_once"}),
    (evidence(entries=[INTENT, OK, LOST], planted=[STOPPED]), {"ended_once"}),
    (evidence(entries=[INTENT, entry("outcome", "ok", at=25), LOST], planted=[STOPPED]), set()),
    (evidence(entries=[INTENT, entry("outcome", "ok", at=25, gateway="B"), LOST], planted=[STOPPED]), {"ended_once"}),
    (
        evidence(entries=[INTENT, OK, entry("decision", "error", "outcome_unknown", 20, "lose", "B")], planted=[HUNG]),
        set(),
    ),
    (
        evidence(
            entries=[INTENT, OK, entry("decision", "error", "outcome_unknown", 30, "lose", "B")], planted=[STOPPED]
        ),
        {"ended_once"},
    ),
    (
        evidence(entries=[INTENT, OK, entry("decision", "error", "outcome_unknown", 20, "lose", "B")], planted=[CUT]),
        {"ended_once", "lost_with_reason"},
    ),
    (evidence(entries=[INTENT]), {"ended"}),
    (evidence(entries=[INTENT, entry("outcome", "cancelled", at=101.0)]), {"ended"}),  # of a gateway that stops
    (evidence(entries=[INTENT], planted=[KILLED]), set()),
    (evidence(entries=[INTENT, ASKED], planted=[KILLED]), {"ended"}),
    (evidence(entries=[INTENT, ASKED], over=10.0), set()),
    (evidence("keyed", entries=[INTENT, OK, *REPEATED]), set()),
    (evidence("keyed", entries=[INTENT, *REPEATED], planted=[KILLED]), set()),
    (evidence("keyed", entries=REPEATED), {"ended"}),
    (evidence("left", entries=[INTENT, OK, *REPEATED]), {"ended"}),
    (evidence(entries=[INTENT, OK], told=[told("cancelled", "cancelled")]), {"told_as_recorded"}),
    (evidence(entries=[INTENT, OK], told=[told("error", "outcome_unknown")]), set()),
    (
        evidence(entries=[INTENT, EXPIRED], told=[told("ok", at=21.0)]),
        {"told_as_recorded", "acknowledged", "one_history"},
    ),
    (
        evidence(
            entries=[INTENT, entry("decision", "cancelled", "cancelled", 20, "lose"), entry("outcome", "ok", at=25)],
            planted=[STOPPED],
            told=[told("cancelled", "cancelled", at=25.1)],
        ),
        set(),
    ),
    (
        evidence(
            entries=[INTENT, entry("decision", "cancelled", "cancelled", 20, "lose"), entry("outcome", "ok", at=25)],
            planted=[STOPPED],
            told=[told("cancelled", "cancelled", at=28)],
        ),
        {"told_as_recorded"},
    ),
    (
        evidence(
            entries=[INTENT, EXPIRED], received=[done()], told=[told("refused", "expired", at=21.0, asked="call")]
        ),
        {"not_called_undone"},
    ),
    (
        evidence(
            "left",
            entries=[INTENT, UNAVAILABLE],
            received=[done(20.0)],
            told=[told("refused", "upstream_unavailable", asked="call")],
        ),
        {"not_called_undone"},
    ),
    (
        evidence(
            "keyed",
            entries=[INTENT, UNAVAILABLE],
            received=[done(20.0)],
            told=[told("refused", "upstream_unavailable", asked="call")],
        ),
        set(),
    ),
    (
        evidence(
            effect="read",
            entries=[INTENT, EXPIRED],
            received=[done()],
            told=[told("refused", "expired", at=21.0, asked="call")],
        ),
        set(),
    ),
    (evidence(told=[told("pending", at=1.0), told("gone", at=30)]), {"told_in_time", "acknowledged"}),
    (
        evidence(entries=[INTENT, LATE], told=[told("pending", at=1.0), told("error", "outcome_unknown", at=50)]),
        {"told_in_time"},
    ),
    (
        evidence(
            entries=[INTENT, LATE],
            told=[told("pending", at=1.0), told("error", "outcome_unknown", at=50)],
            planted=[CUT],
        ),
        set(),
    ),
    (evidence(entries=[INTENT, LOST]), {"lost_with_reason"}),
    (evidence(entries=[INTENT, LOST], planted=[Planted(at=3, until=18, kind="cut")]), {"lost_with_reason"}),
    (evidence(entries=[INTENT, LOST], planted=[Planted(at=3, until=18, kind="cut", gateway="A")]), set()),
    (
        evidence(
            "plain", effect="read", entries=[INTENT, OK], received=[done(), done(), done(), done()], limits=LIMITS
        ),
        {"executed_once"},
    ),
    (
        evidence("plain", effect="read", entries=[INTENT, OK], received=[done()] * 5, limits=LIMITS),
        {"executed_once", "limits_hold"},
    ),
    (
        evidence(
            "plain",
            effect="read",
            entries=[INTENT, OK],
            received=[done()] * 5,
            limits=LIMITS,
            planted=[Planted(at=4.5, until=4.5, kind="loss")],
        ),
        {"executed_once"},
    ),
    (
        evidence(
            "plain",
            effect="read",
            entries=[INTENT, OK],
            received=[done()] * 9,
            limits=LIMITS,
            planted=[Planted(at=4.5, until=4.5, kind="loss")],
        ),
        {"executed_once", "limits_hold"},
    ),
    (evidence(entries=[INTENT, DENIED_BY_B, LOST], planted=[Planted(at=12.5, until=12.5, kind="loss")]), set()),
    (evidence(entries=[INTENT, DENIED_BY_B, LOST], planted=[Planted(at=14, until=14, kind="loss")]), {"ended_once"}),
    (evidence(entries=[INTENT, DENIED_BY_B, LOST], planted=[HUNG, Planted(at=14, until=14, kind="loss")]), set()),
    (evidence(entries=[INTENT, DENIED_BY_B, EXPIRED], planted=[HUNG]), {"ended_once"}),
    (
        evidence(entries=[INTENT, DENIED_BY_B, LOST_LATER], planted=[HUNG, Planted(at=19.5, until=19.5, kind="loss")]),
        set(),
    ),
    (
        evidence(entries=[INTENT, DENIED_BY_B, LOST_LATER], planted=[HUNG, Planted(at=20.5, until=20.5, kind="loss")]),
        {"ended_once"},
    ),
    (evidence(entries=[INTENT, LOST], planted=[Planted(at=0, until=0, kind="loss")]), set()),
    (
        evidence(entries=[INTENT, LOST_LATER], planted=[Planted(at=3, until=5, kind="cut", gateway="A")]),
        {"lost_with_reason"},
    ),
    (
        evidence(
            entries=[INTENT, OK, entry("decision", "error", "outcome_unknown", 20, "lose", "B")],
            planted=[HUNG],
            received=[done()],
            told=[told("ok", at=25.0)],
        ),
        set(),
    ),
    (evidence(entries=[INTENT, LOST], planted=[Planted(at=3, until=18, kind="delay", gateway="A")]), set()),
    # A request without an intent, or before it.
    (evidence("left", entries=[replace(INTENT, at=1.0), OK], received=[done(0.5)], told=[told("ok")]), set()),
    (
        evidence("left", entries=[replace(INTENT, at=5.5), OK], received=[done(2.0)], told=[told("ok")]),
        {"recorded_first"},
    ),
    (evidence("left", received=[done()], told=[FAULT], planted=[KILLED]), {"recorded_first"}),
    (evidence("left", effect="read", received=[replace(done(), effect=False)]), {"recorded_first"}),
    # A call that is recorded twice.
    (evidence("left", entries=[INTENT, SECOND, OK]), {"recorded_once"}),
    (evidence(entries=[INTENT, ASKED, entry("decision", at=3, verdict="approve"), SECOND, OK]), set()),
    (
        evidence(entries=[INTENT, ASKED, entry("decision", at=3, verdict="approve"), SECOND, SECOND, OK]),
        {"recorded_once"},
    ),
    (evidence("left", entries=[INTENT, OK, replace(OK, at=7.0)]), {"ended_once"}),
    # A call that a client knows of and the record does not.
    (evidence("left", told=[told("pending", asked="call")], over=11.0), {"acknowledged"}),
    (evidence("left", told=[told("error", "upstream_error", asked="call")]), {"acknowledged"}),
    (evidence("left", told=[told("error", "outcome_unknown", asked="call")]), {"acknowledged"}),
    (evidence("left", told=[told("refused", "audit_unavailable", asked="call")]), set()),
    # A request that nobody answers.
    (evidence("left", told=[FAULT]), {"answered"}),
    (evidence("left", told=[FAULT], planted=[KILLED]), set()),
    (evidence("left", told=[FAULT], planted=[Planted(at=60, until=70, kind="cut")]), {"answered"}),
    (evidence("left", told=[replace(FAULT, began=49.5, at=50.0)], planted=[KILLED]), {"answered"}),
    # The answer to another request.
    (evidence("left", entries=[INTENT, OK], received=[done()], told=[replace(told("ok"), answered="op")]), set()),
    (
        evidence("left", entries=[INTENT, OK], received=[done()], told=[replace(told("ok"), answered="another")]),
        {"own_answer"},
    ),
    # One key and two answers.
    (evidence("keyed", entries=[INTENT, OK], received=[done()], told=[told("ok"), told("ok", at=12.0)]), set()),
    (
        evidence(
            "keyed",
            entries=[INTENT, OK, *(replace(one, call_id="again", at=11.0) for one in (INTENT, OK))],
            received=[done()],
            told=[told("ok"), replace(told("ok", at=12.0), call_id="again")],
        ),
        {"same_answer"},
    ),
    (
        evidence("keyed", entries=[INTENT, OK], received=[done()], told=[told("ok"), replace(FAILED, at=12.0)]),
        {"same_answer", "told_as_recorded"},
    ),
    (
        evidence(
            "keyed",
            entries=[INTENT, OK, *(replace(one, call_id="again", at=11.0) for one in (INTENT, OK))],
            received=[done(), done(11.0, "B")],
            told=[told("ok"), replace(told("ok", at=12.0), call_id="again")],
            planted=[replace(FLUSHED, at=10.5, until=10.5)],
        ),
        set(),
    ),
    # More executions with one key than the store lost something.
    (
        evidence(
            "keyed",
            entries=[INTENT, replace(SECOND, gateway="B"), replace(SECOND, gateway="C", call_id="d")],
            received=[done(3.0), done(5.0, "B"), done(6.0, "C")],
            planted=[FLUSHED],
            over=10.0,
        ),
        {"executed_once", "recorded_once"},
    ),
    # An approved call that is executed twice, also by another gateway while the first one was cut off.
    (
        evidence(
            entries=[INTENT, OK],
            received=[done(), done(7.0, "B")],
            told=[told("ok")],
            decided=[APPROVED],
            planted=[replace(CUT, gateway="A")],
        ),
        {"executed_once"},
    ),
]


@pytest.mark.parametrize(
    "case", CASES, ids=[f"{number}-{'-'.join(sorted(names)) or 'fine'}" for number, (_, names) in enumerate(CASES)]
)
def test_an_invariant_finds_what_it_is_for_and_nothing_else(case: tuple[Evidence, set[str]]) -> None:
    made, names = case
    assert {one.invariant for one in check(made, tuple(INVARIANTS))} == names


def test_every_invariant_is_broken_by_a_case() -> None:
    assert set().union(*(names for _, names in CASES)) == set(INVARIANTS)


def test_chances_are_those_of_the_evidence() -> None:
    none = evidence().chances
    assert set(none.values()) == {0}
    approved = evidence(
        entries=[INTENT, OK],
        received=[done()],
        told=[told("pending", at=2.0), replace(told("ok"), answered="op"), told("refused", "rate_limited"), FAILED],
        decided=[APPROVED],
        limits=LIMITS,
    )
    again = evidence("keyed", told=[told("ok"), told("ok", at=12.0)])
    both = {name: count + again.chances[name] for name, count in approved.chances.items()}
    assert set(both.values()) == {1}


def test_invariants_are_chosen_by_name() -> None:
    assert wanted("") == tuple(INVARIANTS)
    assert wanted("ended,limits_hold") == ("ended", "limits_hold")
    assert wanted("-ended") == tuple(name for name in INVARIANTS if name != "ended")
    with pytest.raises(ValueError, match="endings"):
        wanted("endings")
