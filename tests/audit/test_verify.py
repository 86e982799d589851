"""Every way of tampering with a log is found, at the entry it was done to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.audit.logs import PLAIN, in_segments, opened, with_key
from tests.audit.logs import write as write_calls
from toolgen.audit.entry import seal
from toolgen.audit.log import AuditLog
from toolgen.audit.verify import verify
from toolgen.core.clock import FixedClock
from toolgen.core.errors import AuditError

Lines = list[bytes]


async def write(directory: Path, count: int) -> None:
    log = AuditLog(directory, FixedClock())
    log.open()
    for number in range(count):
        await log.append({"event": "intent", "call_id": f"call_{number}", "principal": "bot"})
        await log.append({"event": "outcome", "call_id": f"call_{number}", "status": "ok"})
    await log.close()


def edit(lines: Lines) -> Lines:
    return [*lines[:4], lines[4].replace(b'"bot"', b'"ops"'), *lines[5:]]


def edit_with_hash(lines: Lines) -> Lines:
    entry = msgspec.json.decode(lines[4])
    content = {name: value for name, value in entry.items() if name not in {"seq", "stream", "time", "prev", "hash"}}
    _, forged = seal(
        {**content, "principal": "ops"},
        seq=entry["seq"],
        stream=entry["stream"],
        time=entry["time"],
        prev=entry["prev"],
    )
    return [*lines[:4], forged, *lines[5:]]


def spaced(lines: Lines) -> Lines:
    return [*lines[:4], lines[4].replace(b'":', b'": ', 1), *lines[5:]]


TAMPERINGS: list[tuple[Callable[[Lines], Lines], str, int]] = [
    (edit, "edited", 5),
    (edit_with_hash, "forked", 6),
    (spaced, "unreadable", 5),
    (lambda lines: [*lines[:4], *lines[5:]], "removed", 5),
    (lambda lines: lines[1:], "removed", 1),
    (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], "removed", 5),
    (lambda lines: [*lines[:5], lines[4], *lines[5:]], "reordered", 6),
    (lambda lines: [*lines[:4], b"not json\n", *lines[5:]], "unreadable", 5),
    (lambda lines: [*lines[:4], b"[1]\n", *lines[5:]], "unreadable", 5),
]


JUNK = [
    b"\0",
    b"\0\n",
    b"junk\n",
    b"\0junk\n",
    b"\0" * 5000 + b"junk\n",
    b"\n",
    b" \n",
    b"junk",
    b"\0junk",
    b'{"a":1}\n\0',
    b"{\0{",
]


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("index", [0, 4, 9, 10])
async def test_bytes_between_entries_and_behind_the_last_are_found(tmp_path: Path, junk: bytes, index: int) -> None:
    await write(tmp_path, 5)
    path = tmp_path / "gateway-1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:index], junk, *lines[index:]]))
    zeros_behind_the_end = index == len(lines) and not junk.strip(b"\0")  # what a gateway writes ahead
    assert verify(tmp_path).ok is zeros_behind_the_end
    with path.open("ab") as file:
        file.write(bytes(10_000))
    assert verify(tmp_path).ok is zeros_behind_the_end


@pytest.mark.parametrize("junk", [b"\0", bytes(10_000), b'{"call', b"junk"])
def test_nothing_stands_behind_the_end_of_a_segment_that_was_closed(tmp_path: Path, junk: bytes) -> None:
    in_segments(tmp_path, segments=1, calls=5)
    assert verify(tmp_path).ok
    with (tmp_path / "gateway-1.000000000001.jsonl").open("ab") as file:
        file.write(junk)
    assert [fault.kind for fault in verify(tmp_path).faults] == ["unreadable"]


def test_a_log_that_is_written_while_it_is_verified_is_read_again_and_not_called_broken(tmp_path: Path) -> None:
    """Whoever reads may meet a page before it was written and the next one after: zeros, and entries behind them."""
    with_key(tmp_path)
    write_calls(tmp_path, 2, PLAIN)  # signed at entry 4, where verification tells how far it is
    (tmp_path / "checkpoint.key").unlink()
    write_calls(tmp_path, 3, PLAIN)
    path = tmp_path / "gateway-1.jsonl"
    whole = path.read_bytes()
    half = whole[:-700] + bytes(300) + whole[-400:] + bytes(1000)
    path.write_bytes(half)
    assert not verify(tmp_path).ok
    report = verify(tmp_path, progress=lambda done, total: path.write_bytes(whole + bytes(1000)) and None)
    assert (report.ok, report.entries) == (True, 10)


@pytest.mark.parametrize(("tamper", "kind", "line"), TAMPERINGS)
async def test_tampering_is_found_where_it_was_done(
    tmp_path: Path, tamper: Callable[[Lines], Lines], kind: str, line: int
) -> None:
    await write(tmp_path, 5)
    path = tmp_path / "gateway-1.jsonl"
    path.write_bytes(b"".join(tamper(path.read_bytes().splitlines(keepends=True))))
    report = verify(tmp_path)
    assert not report.ok
    assert (report.faults[0].kind, report.faults[0].line) == (kind, line)


async def test_every_single_change_of_one_byte_is_found(tmp_path: Path) -> None:
    await write(tmp_path, 1)
    path = tmp_path / "gateway-1.jsonl"
    whole = path.read_bytes()
    for index, byte in enumerate(whole[:-1]):
        changed = bytearray(whole)
        changed[index] = byte ^ 1
        path.write_bytes(changed)
        assert not verify(tmp_path).ok, index


async def test_every_removal_and_swap_is_found(tmp_path: Path) -> None:
    await write(tmp_path, 10)
    path = tmp_path / "gateway-1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for index in range(len(lines) - 1):
        path.write_bytes(b"".join(lines[:index] + lines[index + 1 :]))
        assert not verify(tmp_path).ok
        path.write_bytes(b"".join([*lines[:index], lines[index + 1], lines[index], *lines[index + 2 :]]))
        assert not verify(tmp_path).ok


async def test_a_stream_under_another_name_is_found(tmp_path: Path) -> None:
    await write(tmp_path, 1)
    (tmp_path / "gateway-1.jsonl").rename(tmp_path / "gateway-2.jsonl")
    assert {fault.kind for fault in verify(tmp_path).faults} == {"reordered"}


async def test_an_outcome_without_an_intent_is_found(tmp_path: Path) -> None:
    log = AuditLog(tmp_path, FixedClock())
    log.open()
    await log.append({"event": "outcome", "call_id": "call_1", "status": "ok"})
    await log.close()
    assert [fault.kind for fault in verify(tmp_path).faults] == ["unmatched"]


def test_no_log_is_an_error_and_not_an_intact_log(tmp_path: Path) -> None:
    with pytest.raises(AuditError):
        verify(tmp_path / "nowhere")
    with pytest.raises(AuditError):
        verify(tmp_path)


@pytest.mark.parametrize("code", ["outcome_unknown", "approval_denied"])
@pytest.mark.parametrize("elsewhere", [True, False])
async def test_a_call_that_a_decision_ended_is_not_unfinished(tmp_path: Path, code: str, elsewhere: bool) -> None:
    clock = FixedClock()
    log = opened(tmp_path, clock=clock)
    other = opened(tmp_path, clock=clock)
    decision = {"event": "decision", "call_id": "call_1", "principal": "lead", "status": "error", "code": code}
    await log.append({"event": "intent", "call_id": "call_1", "principal": "bot", "tool": "pets__get_pet"})
    await log.append({"event": "intent", "call_id": "call_2", "principal": "bot", "tool": "pets__get_pet"})
    assert verify(tmp_path).unfinished == ("call_1", "call_2")
    clock.advance(1)
    await (other if elsewhere else log).append(decision)
    await log.append({"event": "decision", "call_id": "call_2", "principal": "lead", "verdict": "approve"})

    assert verify(tmp_path).unfinished == ("call_2",)

    clock.advance(1)
    await log.append({"event": "intent", "call_id": "call_1", "principal": "bot", "tool": "pets__get_pet"})
    assert verify(tmp_path).unfinished == ("call_1", "call_2")
    await log.close()
    await other.close()
