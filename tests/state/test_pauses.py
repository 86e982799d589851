"""What is paused: seen at once, written whole, and never taken for nothing when it cannot be read."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from toolgen.core.errors import StateError
from toolgen.state.pauses import Pause, Pauses

ALL = Pause(tool="*", reason="incident 7", since=1.0)


def covered(pauses: Pauses, *, principal: str = "bot", source: str = "pets", tool: str = "pets__get_pet") -> bool:
    return pauses.covering((principal,), source, tool) is not None


def test_without_a_file_nothing_is_paused(tmp_path: Path) -> None:
    pauses = Pauses(tmp_path / "state" / "pauses.json")
    assert pauses.all() == ()
    assert not covered(pauses)
    assert list(tmp_path.iterdir()) == []


def test_another_worker_sees_a_pause_and_its_end_at_its_next_call(tmp_path: Path) -> None:
    here, there = Pauses(tmp_path / "pauses.json"), Pauses(tmp_path / "pauses.json")
    assert not covered(there)
    here.change(lambda known: (*known, ALL))
    assert covered(there)
    assert there.covering(("bot",), "pets", "pets__get_pet") == ALL
    here.change(lambda known: ())
    assert not covered(there)


@pytest.mark.parametrize(
    ("pause", "principal", "source", "tool", "held"),
    [
        (Pause(tool="pets__get_*", since=0), "bot", "pets", "pets__get_pet", True),
        (Pause(tool="pets__get_*", since=0), "bot", "pets", "pets__delete_pet", False),
        (Pause(tool="PETS__*", since=0), "bot", "pets", "pets__get_pet", False),
        (Pause(source="pets", since=0), "bot", "pets", "pets__get_pet", True),
        (Pause(source="pets", since=0), "bot", "shop", "pets__get_pet", False),
        (Pause(principal="bot", since=0), "bot", "pets", "pets__get_pet", True),
        (Pause(principal="bot", since=0), "bot2", "pets", "pets__get_pet", False),
        (Pause(principal="b*", since=0), "bot", "pets", "pets__get_pet", False),
    ],
)
def test_who_and_what_a_pause_covers(
    tmp_path: Path, pause: Pause, principal: str, source: str, tool: str, held: bool
) -> None:
    pauses = Pauses(tmp_path / "pauses.json")
    pauses.change(lambda known: (pause,))
    assert covered(pauses, principal=principal, source=source, tool=tool) is held


async def test_a_turn_of_the_loop_looks_once_and_the_next_one_again(tmp_path: Path) -> None:
    mine, other = Pauses(tmp_path / "pauses.json"), Pauses(tmp_path / "pauses.json")
    pause = Pause(tool="*", since=1.0)

    seen = [mine.all()]
    other.change(lambda _: (pause,))
    await asyncio.sleep(0)
    seen.append(mine.all())
    mine.change(lambda _: ())
    assert [*seen, mine.all()] == [(), (pause,), ()]


def test_a_loop_that_was_interrupted_in_its_turn_leaves_the_next_loop_its_own(tmp_path: Path) -> None:
    mine, other = Pauses(tmp_path / "pauses.json"), Pauses(tmp_path / "pauses.json")

    async def interrupted() -> None:
        mine.all()
        raise KeyboardInterrupt

    async def changed() -> list[tuple[Pause, ...]]:
        first = mine.all()
        other.change(lambda _: (ALL,))
        return [first, mine.all()]

    loop = asyncio.new_event_loop()
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(interrupted())
    loop.close()
    assert asyncio.run(changed()) == [(), ()]


def test_whom_a_caller_acts_for_is_paused_with_it(tmp_path: Path) -> None:
    pauses = Pauses(tmp_path / "pauses.json")
    pauses.change(lambda known: (Pause(principal="ann", since=0),))
    assert pauses.covering(("bot", "ann"), "pets", "pets__get_pet") is not None
    assert pauses.covering(("bot",), "pets", "pets__get_pet") is None


@pytest.mark.parametrize("content", [b"", b"{", b"[{}]", b'[{"tool": "*", "since": 1, "more": 1}]', b"\xff", b"null"])
def test_what_cannot_be_read_pauses_everything(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "pauses.json"
    path.write_bytes(content)
    pauses = Pauses(path)
    assert covered(pauses)
    with pytest.raises(StateError, match=r"pauses\.json"):
        pauses.change(lambda known: (*known, ALL))
    path.unlink()
    assert not covered(pauses)


def test_a_folder_in_its_place_pauses_everything(tmp_path: Path) -> None:
    (tmp_path / "pauses.json").mkdir()
    assert covered(Pauses(tmp_path / "pauses.json"))


def test_changes_at_the_same_time_lose_none_and_leave_no_other_files(tmp_path: Path) -> None:
    path = tmp_path / "pauses.json"

    def add(number: int) -> None:
        Pauses(path).change(lambda known: (*known, Pause(principal=f"bot{number}", since=float(number))))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {pause.principal for pause in Pauses(path).all()} == {f"bot{number}" for number in range(16)}
    assert sorted(item.name for item in tmp_path.iterdir()) == ["pauses.json", "pauses.json.lock"]
    assert path.stat().st_mode & 0o777 == 0o600
