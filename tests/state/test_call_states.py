"""Calls that outlive their request: which state may follow which, as a table, in the drawing, and in both places that keep calls."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
import secrets
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, get_args

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from tests.exhaustive import examples
from tests.redis_server import RedisServer
from tests.state.test_invocations import invocation
from toolgen.core.clock import FixedClock, SystemClock
from toolgen.core.errors import StateError
from toolgen.state.call_journal import CallJournal
from toolgen.state.call_states import ENDED, FOLLOWS, NEXT, CallState, Kind, Status, state_of
from toolgen.state.encryption import Seal
from toolgen.state.invocation_format import as_json
from toolgen.state.invocations import Invocation, Invocations, due_at
from toolgen.state.invocations_redis import RedisInvocations
from toolgen.state.invocations_sqlite import SqliteInvocations
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.store_watch import StoreWatch

WATCH = StoreWatch(clock=SystemClock())
PAGE = Path(__file__).parent.parent.parent / "docs" / "explanation" / "waiting-calls.md"
STATUSES: tuple[Status, ...] = get_args(Status)
KINDS: tuple[Kind, ...] = get_args(Kind)
WORKING = {"working", "input_required"}
ENDINGS: dict[str, dict[str, Any]] = {
    "completed": {"status": "ok", "data": 1},
    "failed": {"status": "error", "error": {"code": "upstream_error", "message": "no"}},
    "cancelled": {"status": "cancelled", "error": {"code": "cancelled", "message": "no"}},
    "expired": {"status": "refused", "error": {"code": "expired", "message": "no"}},
    "outcome_unknown": {"status": "error", "error": {"code": "outcome_unknown", "message": "no"}},
}


@pytest.mark.parametrize(
    ("status", "envelope", "state"),
    [
        ("pending", None, "input_required"),
        ("approved", None, "working"),
        ("running", None, "working"),
        ("ended", None, "outcome_unknown"),
        *(("ended", envelope, state) for state, envelope in ENDINGS.items()),
        ("ended", {"status": "refused", "error": {"code": "approval_denied", "message": "no"}}, "failed"),
        ("ended", {"status": "refused"}, "failed"),
    ],
)
def test_how_a_call_is_kept_says_its_state(status: Status, envelope: dict[str, Any] | None, state: str) -> None:
    assert state_of(status, envelope) == state


@pytest.mark.parametrize(("before", "after"), list(itertools.product(CallState, CallState)))
def test_a_call_that_ended_stays_so_and_any_other_may_go_on(before: CallState, after: CallState) -> None:
    assert (after in FOLLOWS[before]) == (before in WORKING)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(STATUSES, STATUSES)))
def test_what_is_kept_changes_only_as_states_may(before: Status, after: Status) -> None:
    # The only changes between states that are none as a call is kept: nobody takes an agreement back, they withdraw the call.
    withheld = {("approved", "pending")}
    envelope = {"status": "ok"}
    may = state_of(after, envelope) in FOLLOWS[state_of(before, envelope)]
    assert (after in NEXT[before]) == (may and (before, after) not in withheld)


def test_the_page_draws_what_is_so() -> None:
    drawn = re.search(r"```mermaid\nstateDiagram-v2\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert drawn is not None
    arrows = re.findall(r"^ +(\S+) --> (\w+)", drawn[1], re.MULTILINE)
    assert len(arrows) == len(set(arrows))
    expected = {(str(before), str(after)) for before, all_after in FOLLOWS.items() for after in all_after}
    expected = {(before, after) for before, after in expected if before != after}
    assert set(arrows) == expected | {("[*]", "working"), ("[*]", "input_required")}


class Calls(RuleBasedStateMachine):
    """Two processes at one store. Whatever they try, a call is what the last change that was taken made of it."""

    opened: ClassVar[Any] = None
    calls = Bundle("calls")

    @initialize()
    def begin(self) -> None:
        self.runner = asyncio.Runner()
        self.stores: list[Invocations] = type(self).opened()
        self.model: dict[str, Invocation] = {}
        self.older: dict[str, list[Invocation]] = {}
        self.due: dict[str, float] = {}
        self.number = 0

    def teardown(self) -> None:
        if not hasattr(self, "number"):  # given up before it began
            return
        for store in self.stores:
            self.runner.run(store.close())
        self.runner.close()

    @rule(target=calls, kind=st.sampled_from(KINDS), who=st.sampled_from(["ann", "bot"]), at=st.integers(0, 1))
    def add(self, kind: Kind, who: str, at: int) -> str:
        self.number += 1
        status: Status = "running" if kind == "call" else "pending"
        made = invocation(self.number, principal=who, kind=kind, status=status, lease=10.0 * self.number)
        like = [one for one in self.model.values() if (one.kind, one.status) == (kind, status)]
        room = len([one for one in like if one.principal.id == who]) < 3 and len(like) < 5
        assert (self.runner.run(self.stores[at].add(made, each=3, total=5)) is not None) is room
        if room:
            kept = self.runner.run(self.stores[at].get(made.id))
            assert kept is not None
            assert msgspec.structs.replace(kept, home="") == made
            self.model[made.id], self.older[made.id], self.due[made.id] = kept, [], due_at(kept)
        return made.id

    @rule(
        call=calls,
        status=st.sampled_from(STATUSES),
        ending=st.sampled_from(sorted(ENDINGS)),
        kind=st.sampled_from([None, *KINDS]),
        at=st.integers(0, 1),
    )
    def move(self, call: str, status: Status, ending: str, kind: Kind | None, at: int) -> None:
        if (known := self.model.get(call)) is None:
            return
        end = {"ended": float(self.number), "envelope": ENDINGS[ending]} if status == "ended" else {}
        state = known.waits_for if kind is None else invocation(kind=kind).waits_for
        wanted = msgspec.structs.replace(known, status=status, waits_for=state, **end)
        may = wanted.state in FOLLOWS[known.state] and (known.status, status) != ("approved", "pending")
        taken = self.runner.run(self.stores[at].replace(known, wanted))
        if known.status == "approved" and status == "running" and taken is None:
            return  # in Redis an attempt begins once, whatever is kept of it there
        assert (taken is not None) is may
        if taken is not None:
            assert taken.version == known.version + 1
            self.older[call].append(known)
            self.model[call], self.due[call] = taken, due_at(taken)

    @rule(call=calls, status=st.sampled_from(STATUSES), at=st.integers(0, 1))
    def come_late(self, call: str, status: Status, at: int) -> None:
        """Whoever saw an older state changes nothing."""
        for stale in self.older.get(call, [])[-2:]:
            assert (
                self.runner.run(self.stores[at].replace(stale, msgspec.structs.replace(stale, status=status))) is None
            )

    @rule(call=calls, at=st.integers(0, 1))
    def give_out_again(self, call: str, at: int) -> None:
        """A call that is left and kept at once is one, as it was kept first; every other id is given out once. The bounds (1) do not matter
        to what is there."""
        if (known := self.model.get(call)) is None:
            return
        again = self.stores[at].add(msgspec.structs.replace(known, version=1), each=1, total=1)
        if known.kind == "call":
            assert self.runner.run(again) == known
        else:
            with pytest.raises(StateError, match="kept already"):
                self.runner.run(again)

    @rule(call=calls, until=st.integers(0, 2000), unless=st.sampled_from([-1.0, 0.0, 700.0]), at=st.integers(0, 1))
    def renew(self, call: str, until: int, unless: float, at: int) -> None:
        self.runner.run(self.stores[at].renew([call], float(until), unless_due=unless))
        if (known := self.model.get(call)) is not None and known.status != "ended" and self.due[call] > unless:
            self.due[call] = float(until)

    @rule(before=st.integers(0, 30), at=st.integers(0, 1))
    def forget(self, before: int, at: int) -> None:
        self.runner.run(self.stores[at].forget(float(before)))
        for call, known in list(self.model.items()):
            if known.status == "ended" and known.ended < before:
                del self.model[call], self.older[call]
                assert self.runner.run(self.stores[1 - at].get(call)) is None

    @invariant()
    def all_see_the_same(self) -> None:
        unfinished = {call for call, known in self.model.items() if known.status != "ended"}
        for store in getattr(self, "stores", ()):
            for call, known in self.model.items():
                if not (known.status == "pending" and known.attempt):
                    assert self.runner.run(store.get(call)) == known
            listed = [one for kind in KINDS for one in self.runner.run(store.unfinished(kind))]
            assert {one.id for one in listed} == unfinished
            assert all(self.model[one.id] == one for one in listed)
            due = self.runner.run(store.due(500.0))
            assert {one.id for one in due} == {call for call in unfinished if self.due[call] <= 500.0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


def tried(opened: Any) -> None:
    machine = type("Tried", (Calls,), {"opened": staticmethod(opened)})
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        machine, settings=settings(max_examples=examples(80), stateful_step_count=30, deadline=None)
    )


@pytest.mark.sweep
def test_whatever_is_tried_in_a_file_no_call_leaves_its_states(tmp_path: Path) -> None:
    def opened() -> list[Invocations]:
        path = Path(tempfile.mkdtemp(dir=tmp_path)) / "calls.db"
        return [SqliteInvocations(path, FixedClock()), SqliteInvocations(path, FixedClock())]

    tried(opened)


@pytest.mark.sweep
def test_whatever_is_tried_in_redis_no_call_leaves_its_states(server: RedisServer, tmp_path: Path) -> None:
    def opened() -> list[Invocations]:
        folder, prefix = Path(tempfile.mkdtemp(dir=tmp_path)), secrets.token_hex(6)

        def link() -> RedisLink:
            return RedisLink(RedisLocation(host="127.0.0.1", port=server.port, prefix=prefix), lambda: "")

        return [
            RedisInvocations(link(), lambda: Seal(b"k" * 32), CallJournal(folder / "begun.db"), WATCH) for _ in range(2)
        ]

    tried(opened)


RELEASED = {"status": "pending", "version": 3}
"""Of what a call was kept with before there were kinds: all else of that time is in `invocation()`."""


def released_body() -> bytes:
    plain = msgspec.json.decode(as_json(invocation()))
    for name in ("kind", "request", "answer", "cancel", "progress", "partial"):
        del plain[name]
    return msgspec.json.encode({**plain, **RELEASED})


async def goes_on(store: Invocations) -> None:
    (known,) = await store.unfinished()
    assert (known.kind, known.status, known.version) == ("approval", "pending", 3)
    assert await store.due(1.0) == (known,)
    assert not await store.add(invocation(2), each=1, total=9)
    approved = await store.replace(known, msgspec.structs.replace(known, status="approved"))
    assert approved is not None
    assert await store.get(known.id) == approved
    assert await store.add(invocation(2), each=1, total=9)


async def test_a_call_that_an_earlier_release_kept_in_a_file_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "calls.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE invocations (id TEXT PRIMARY KEY, version INTEGER NOT NULL, status TEXT NOT NULL, principal TEXT NOT NULL,"
            " asked REAL NOT NULL, ended REAL NOT NULL, body BLOB NOT NULL) WITHOUT ROWID"
        )
        row = (invocation().id, 3, "pending", "bot", 1.0, 0.0, released_body())
        connection.execute("INSERT INTO invocations VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    store = SqliteInvocations(path, FixedClock())
    await goes_on(store)
    await store.close()


async def test_a_call_that_an_earlier_release_kept_in_redis_goes_on(server: RedisServer, tmp_path: Path) -> None:
    seal, call = Seal(b"k" * 32), invocation().id
    location = RedisLocation(host="127.0.0.1", port=server.port, prefix="released")
    who = hashlib.sha256(b"bot").hexdigest()[:32]
    box = seal.close(released_body(), f"call {call} 3")

    redis = Redis(host="127.0.0.1", port=server.port)
    fields: dict[str, bytes | str] = {"version": "3", "status": "pending", "principal": who, "box": box}
    await redis.hset(f"released:calls:call:{call}", mapping=fields)  # type: ignore[misc,arg-type]
    await redis.zadd("released:calls:open", {call: 1.0})
    await redis.aclose()
    store = RedisInvocations(
        RedisLink(location, lambda: ""),
        lambda: seal,
        CallJournal(tmp_path / "begun.db"),
        WATCH,
    )
    await goes_on(store)
    await store.close()


def test_ended_states_are_those_that_nothing_follows() -> None:
    assert {state for state in CallState if not FOLLOWS[state]} == ENDED
