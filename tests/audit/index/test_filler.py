"""Readers of the index wait a moment for it to be filled, and are told how far it is when that is not enough."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.audit.logs import PLAIN, write
from tests.messages import line_names
from toolgen.audit.index import filler as filler_module
from toolgen.audit.index.database import SqliteDatabase
from toolgen.audit.index.filler import Filler, IndexCounts
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.index.indexer import Filled
from toolgen.core.errors import AuditError

LONG_S = 120.0


class HeldUp(RecordIndex):
    """An index that takes one entry over and then waits until it may go on."""

    go_on: threading.Event

    def fill(self, progress: Callable[[int], None] = lambda entries: None) -> Filled:
        progress(1)
        assert self.go_on.wait(LONG_S)
        return super().fill(progress)


def opened(directory: Path, kind: type[RecordIndex] = RecordIndex) -> Callable[[], RecordIndex]:
    return lambda: kind(SqliteDatabase(directory / "index.db"), directory)


def test_whoever_reads_sees_everything_that_was_on_record_when_they_asked(tmp_path: Path) -> None:
    filler = Filler(opened(tmp_path), tmp_path)
    for calls in (3, 4):
        write(tmp_path, 1 if calls == 4 else calls, PLAIN)
        assert filler.bring_up(LONG_S) == ()
        with opened(tmp_path)() as index:
            assert index.count() == (2 * calls, 3)  # the later call has the id of an earlier one


def test_a_long_filling_keeps_nobody_waiting_and_says_how_far_it_is(tmp_path: Path) -> None:
    write(tmp_path, 5, PLAIN)
    HeldUp.go_on = threading.Event()
    filler = Filler(opened(tmp_path, HeldUp), tmp_path)
    (told,) = filler.bring_up(0.05)
    while "1 entries" not in told:  # the thread may not have begun yet
        (told,) = filler.bring_up(0.05)
    assert line_names(told, "index", "(1 entries of 10): ")
    assert filler.warnings == (told,)
    counts = filler.counts()
    assert (counts.behind, counts.faults) == (9, 0)
    assert counts.filling_s > 0
    HeldUp.go_on.set()
    assert filler.bring_up(LONG_S) == ()
    assert filler.counts() == IndexCounts()


def test_nobody_waits_for_very_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filler_module, "_MANY", 9)
    write(tmp_path, 5, PLAIN)
    HeldUp.go_on = threading.Event()
    filler = Filler(opened(tmp_path, HeldUp), tmp_path)
    assert not filler.is_complete(LONG_S)  # ten entries, of which none is waited for
    HeldUp.go_on.set()
    while not filler.is_complete(LONG_S):
        pass
    with opened(tmp_path)() as index:
        assert index.count() == (10, 5)


def test_one_thread_at_a_time_fills_for_all_who_ask_at_once(tmp_path: Path) -> None:
    write(tmp_path, 5, PLAIN)
    HeldUp.go_on = threading.Event()
    filled: list[bool] = []

    class Alone(HeldUp):
        inside = threading.Lock()

        def fill(self, progress: Callable[[int], None] = lambda entries: None) -> Filled:
            filled.append(alone := self.inside.acquire(blocking=False))
            found = super().fill(progress)
            if alone:
                self.inside.release()
            return found

    filler = Filler(opened(tmp_path, Alone), tmp_path)
    filler.bring_up(0.0)
    readers = [threading.Thread(target=filler.bring_up, args=(LONG_S,)) for _ in range(20)]
    for reader in readers:
        reader.start()
    HeldUp.go_on.set()
    for reader in readers:
        reader.join(LONG_S)
    assert not any(reader.is_alive() for reader in readers)
    assert 2 <= len(filled) <= 21
    assert all(filled)


def test_what_keeps_it_from_being_filled_is_raised_where_it_was_asked_for_and_the_next_tries_again(
    tmp_path: Path,
) -> None:
    write(tmp_path, 1, PLAIN)
    works = False

    def sometimes() -> RecordIndex:
        if not works:
            raise AuditError("the index of the log cannot be used")
        return opened(tmp_path)()

    filler = Filler(sometimes, tmp_path)
    with pytest.raises(AuditError, match="cannot be used"):
        filler.bring_up(LONG_S)
    assert filler.counts() == IndexCounts(faults=1)
    works = True
    assert filler.bring_up(LONG_S) == ()
    assert filler.counts() == IndexCounts()
