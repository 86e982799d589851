"""Checkpoints: signed beside the log, kept elsewhere, and what they find that a chain alone cannot see."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.audit.logs import PLAIN, add, in_segments, opened, with_key, write
from tests.exhaustive import examples
from tests.messages import line_names
from toolgen.audit.checkpoint import checkpoint_path, statements
from toolgen.audit.config import AuditPlan, CheckpointDestination
from toolgen.audit.entry import seal
from toolgen.audit.keys import PRIVATE, keep_in, make_key, public_keys, signing_key
from toolgen.audit.log import AuditLog
from toolgen.audit.maintenance import Maintenance
from toolgen.audit.merkle_tree import Tree, inclusion_proof, root_from_inclusion_proof
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.core.clock import FixedClock
from toolgen.core.errors import AuditError

ACTIVE = "gateway-1.jsonl"
OFTEN = replace(PLAIN, checkpoint_entries=1)


def sizes(directory: Path) -> list[int]:
    found = statements(checkpoint_path(directory, "gateway-1"))
    return [statement.size for _, _, statement in found if statement is not None]


def sign_often(directory: Path, calls: int) -> None:
    """A checkpoint every call."""

    async def scenario() -> None:
        log = opened(directory, PLAIN)
        for number in range(calls):
            await add(log, number, number)
            await asyncio.to_thread(log._maintenance.tick)
        await log.close()

    asyncio.run(scenario())


def kinds(directory: Path, **options: object) -> list[tuple[str, int | None]]:
    return [(fault.kind, fault.seq) for fault in verify(directory, **options).faults]


def test_a_log_is_signed_when_it_is_closed_and_at_the_end_of_every_segment(tmp_path: Path) -> None:
    with_key(tmp_path)
    in_segments(tmp_path, segments=2, calls=5)
    assert {10, 20, 30} <= set(sizes(tmp_path))
    report = verify(tmp_path)
    assert (report.ok, [checkpoint.size for checkpoint in report.signed]) == (True, [30])


async def test_it_is_signed_after_so_many_entries_without_being_asked(tmp_path: Path) -> None:
    with_key(tmp_path)

    log = opened(tmp_path, replace(PLAIN, checkpoint_entries=4))
    await add(log, 1, 1)
    async with asyncio.timeout(120):
        while not sizes(tmp_path):
            await add(log, 2, 3)
    await log.close()
    assert verify(tmp_path).ok


def test_without_a_key_nothing_is_signed_and_nobody_says_it_was(tmp_path: Path) -> None:
    write(tmp_path, 3)
    assert not checkpoint_path(tmp_path, "gateway-1").exists()
    assert verify(tmp_path).signed == ()


def test_a_statement_that_no_trusted_key_signed_is_a_fault_and_so_is_what_contradicts_it(tmp_path: Path) -> None:
    """Somebody writes the log again and takes the public key away, so that no signature can be held against it."""
    public = with_key(tmp_path)
    write(tmp_path, 5, PLAIN)
    public.unlink()
    assert [(fault.file, fault.kind) for fault in verify(tmp_path).faults] == [("gateway-1.checkpoints", "signature")]
    rewrite(tmp_path)
    assert kinds(tmp_path) == [("signature", 10), ("forked", 10)]
    assert any("no public key" in said for said in verify(tmp_path).unchecked)


def test_verification_says_what_it_could_not_check(tmp_path: Path) -> None:
    public = with_key(tmp_path)
    write(tmp_path, 5, PLAIN)
    (said,) = verify(tmp_path).unchecked
    assert "own folder" in said
    assert verify(tmp_path, keys=public_keys([public], tmp_path)).unchecked == ()
    (tmp_path / "checkpoint.key").unlink()
    write(tmp_path, 1, PLAIN)
    (said,) = verify(tmp_path, keys=public_keys([public], tmp_path)).unchecked
    assert line_names(said, "gateway-1: ", "entries 11 to 12 ")
    checkpoint_path(tmp_path, "gateway-1").unlink()
    (said,) = verify(tmp_path, keys=public_keys([public], tmp_path)).unchecked
    assert line_names(said, "gateway-1 ", "no trusted checkpoint")


def test_a_key_made_later_signs_what_was_written_before(tmp_path: Path) -> None:
    in_segments(tmp_path, segments=1, calls=5)
    with_key(tmp_path)
    write(tmp_path, 1, PLAIN)
    report = verify(tmp_path)
    assert (report.ok, report.signed[0].first, report.signed[0].size) == (True, 1, 22)


async def test_a_key_that_is_made_while_the_gateway_runs_signs_from_then_on(tmp_path: Path) -> None:
    log = opened(tmp_path, PLAIN)
    await add(log, 1, 3)
    with_key(tmp_path)
    await asyncio.to_thread(log._maintenance.tick)
    await add(log, 4, 5)
    await log.close()
    assert sizes(tmp_path) == [6, 10]
    assert verify(tmp_path).ok


def truncate(directory: Path) -> None:
    path = directory / ACTIVE
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-3]))


def truncate_all(directory: Path) -> None:
    (directory / ACTIVE).write_bytes(b"")


def remove_all(directory: Path) -> None:
    (directory / ACTIVE).unlink()
    (directory / "gateway-2.jsonl").touch()


def rewrite(directory: Path) -> None:
    """Everything from entry 3 on, by somebody who knows how hashes are made."""
    head, lines = "", []
    for entry in list(entries(directory)):
        fields = {name: value for name, value in entry.items() if name not in {"prev", "hash", "seq", "stream", "time"}}
        changed = fields | ({"principal": "eve"} if entry["seq"] >= 3 else {})
        head, line = seal(changed, seq=entry["seq"], stream="gateway-1", time=entry["time"], prev=head)
        lines.append(line)
    (directory / ACTIVE).write_bytes(b"".join(lines))


@pytest.mark.parametrize(
    ("attack", "first"),
    [
        (truncate, ("truncated", 7)),
        (truncate_all, ("truncated", 0)),
        (remove_all, ("missing", 0)),
        (rewrite, ("forked", 4)),
    ],
)
def test_what_a_chain_cannot_see_a_checkpoint_does(
    tmp_path: Path, attack: Callable[[Path], None], first: tuple[str, int]
) -> None:
    with_key(tmp_path)
    sign_often(tmp_path, 5)
    assert verify(tmp_path).ok
    attack(tmp_path)
    assert kinds(tmp_path)[0] == first
    # The checkpoints beside the log do not help where they are gone as well; those that were kept elsewhere do.
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "one.checkpoints").write_bytes(checkpoint_path(tmp_path, "gateway-1").read_bytes())
    checkpoint_path(tmp_path, "gateway-1").unlink()
    assert kinds(tmp_path, kept=[kept])[0] == first


def test_what_was_cut_off_is_not_signed_over(tmp_path: Path) -> None:
    with_key(tmp_path)
    sign_often(tmp_path, 5)
    for attack in (truncate, rewrite):
        attack(tmp_path)

        async def scenario() -> tuple[str, ...]:
            log = opened(tmp_path, PLAIN)
            await add(log, 50, 50)
            await asyncio.to_thread(log._maintenance.tick)
            warnings = log.warnings()
            await log.close()
            return warnings

        before = sizes(tmp_path)
        assert "not signed" in asyncio.run(scenario())[0]
        assert sizes(tmp_path) == before
        assert not verify(tmp_path).ok


def forge(line: bytes) -> bytes:
    return line.replace(b'"size":6', b'"size":5')


def forge_time(line: bytes) -> bytes:
    return line.replace(b'"time":"2001', b'"time":"2002')


def forge_signature(line: bytes) -> bytes:
    decoded = msgspec.json.decode(line)
    letter = "A" if decoded["signature"][0] != "A" else "B"
    return msgspec.json.encode(decoded | {"signature": letter + decoded["signature"][1:]})


def spell_signature(line: bytes) -> bytes:
    """The same signature with a character that base64 has not: a second spelling of one statement."""
    decoded = msgspec.json.decode(line)
    return msgspec.json.encode(decoded | {"signature": "*" + decoded["signature"]})


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (forge, "signature"),
        (forge_time, "signature"),
        (forge_signature, "signature"),
        (spell_signature, "unreadable"),
    ],
)
def test_a_changed_checkpoint_is_found(tmp_path: Path, change: Callable[[bytes], bytes], kind: str) -> None:
    with_key(tmp_path)
    sign_often(tmp_path, 5)
    path = checkpoint_path(tmp_path, "gateway-1")
    lines = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([*lines[:2], change(lines[2]), *lines[3:], b""]))
    report = verify(tmp_path)
    assert [(fault.kind, fault.file, fault.line) for fault in report.faults] == [(kind, path.name, 3)]


def test_a_line_that_says_nothing_is_found_and_an_unfinished_one_is_not_a_fault(tmp_path: Path) -> None:
    with_key(tmp_path)
    sign_often(tmp_path, 2)
    path = checkpoint_path(tmp_path, "gateway-1")
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"checkpoint":{"fir')
    assert verify(tmp_path).ok
    sign_often(tmp_path, 1)
    assert verify(tmp_path).ok
    assert path.read_bytes().startswith(whole)
    path.write_bytes(whole + b"{}\n")
    assert kinds(tmp_path) == [("unreadable", None)]


def test_only_keys_that_were_given_count(tmp_path: Path) -> None:
    log, elsewhere = tmp_path / "log", tmp_path / "elsewhere"
    good = with_key(log)
    sign_often(log, 2)
    bad = with_key(elsewhere)
    assert verify(log, keys=public_keys([good], log)).ok
    report = verify(log, keys=public_keys([bad], log))
    assert {fault.kind for fault in report.faults} == {"signature"}
    assert report.signed == ()


def test_a_key_is_replaced_and_both_count(tmp_path: Path) -> None:
    first = with_key(tmp_path)
    sign_often(tmp_path, 2)
    second = with_key(tmp_path)
    sign_often(tmp_path, 2)
    assert (
        len({statement.key for _, _, statement in statements(checkpoint_path(tmp_path, "gateway-1")) if statement}) == 2
    )
    assert verify(tmp_path).ok
    assert verify(tmp_path, keys=public_keys([first, second], tmp_path)).ok
    assert not verify(tmp_path, keys=public_keys([second], tmp_path)).ok


def test_private_keys_are_private(tmp_path: Path) -> None:
    make_key(tmp_path / PRIVATE, tmp_path)
    path = tmp_path / PRIVATE
    assert path.stat().st_mode & 0o777 == 0o600
    key = signing_key(path)
    assert key is not None
    assert "PRIVATE" not in repr(key)
    path.chmod(0o640)
    with pytest.raises(AuditError, match="readable only by its owner"):
        signing_key(path)
    path.chmod(0o600)
    path.write_text("-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----\n", encoding="ascii")
    with pytest.raises(AuditError, match="not a private key"):
        signing_key(path)


def test_checkpoints_are_brought_to_a_folder(tmp_path: Path) -> None:
    log, kept = tmp_path / "log", tmp_path / "kept"
    with_key(log)
    place = CheckpointDestination(name="the folder", deliver=lambda name, data: keep_in(kept, name, data))
    write(log, 3, replace(PLAIN, places=(place,)))
    write(log, 3, replace(PLAIN, places=(place,)))
    assert [path.name for path in sorted(kept.iterdir())] == [
        "gateway-1-000000000006.checkpoint",
        "gateway-1-000000000012.checkpoint",
    ]
    assert verify(log, kept=[kept]).ok
    (log / ACTIVE).write_bytes(b"")
    checkpoint_path(log, "gateway-1").unlink()
    assert kinds(log, kept=[kept]) == [("truncated", 0)]


async def test_a_place_that_fails_is_told_of_and_tried_again_and_calls_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgen.audit.checkpoint._FIRST_PAUSE_S", 0.001)
    with_key(tmp_path)
    attempts: list[str] = []
    works = False

    def deliver(name: str, data: bytes) -> None:
        attempts.append(name)
        if not works:
            raise OSError("the answer is 503")

    log = opened(tmp_path, replace(PLAIN, places=(CheckpointDestination(name="the bucket", deliver=deliver),)))
    await add(log, 1, 1)
    await asyncio.to_thread(log._maintenance.tick)
    async with asyncio.timeout(120):
        while len(attempts) < 3 or not log.warnings():
            await add(log, 2, 2)
    assert [line_names(one, "the bucket: ", "503") for one in log.warnings()] == [True]
    assert log.fault is None
    works = True
    async with asyncio.timeout(120):
        while log.warnings():
            await add(log, 3, 3)
    await log.close()
    assert len(set(attempts)) >= 2
    assert attempts == sorted(attempts)


async def test_where_it_is_required_no_call_begins_while_nothing_arrives(tmp_path: Path) -> None:
    with_key(tmp_path)

    def deliver(name: str, data: bytes) -> None:
        raise OSError("the answer is 503")

    places = (CheckpointDestination(name="the bucket", deliver=deliver),)
    log = opened(tmp_path, replace(PLAIN, places=places, required_s=1e-9))
    await asyncio.to_thread(log._maintenance.tick)
    await log.append({"event": "intent", "call_id": "call_1"})
    await asyncio.to_thread(log._maintenance.tick)
    with pytest.raises(AuditError, match="no checkpoint has reached"):
        await log.append({"event": "intent", "call_id": "call_2"})
    assert "no checkpoint" in (log.fault or "")
    await log.append({"event": "outcome", "call_id": "call_1", "status": "ok"})  # what was begun is recorded to its end
    await log.close()
    assert [entry["event"] for entry in entries(tmp_path)] == ["intent", "outcome"]


def down(name: str, data: bytes) -> None:
    raise OSError("the answer is 503")


def test_what_a_place_has_not_got_is_brought_when_the_next_process_starts(tmp_path: Path) -> None:
    log, kept = tmp_path / "log", tmp_path / "kept"
    with_key(log)
    write(log, 1, replace(PLAIN, places=(CheckpointDestination(name="the folder", deliver=down),)))
    write(log, 1, replace(PLAIN, places=(CheckpointDestination(name="the folder", deliver=down),)))
    there = CheckpointDestination(name="the folder", deliver=lambda name, data: keep_in(kept, name, data))

    async def nothing_is_called() -> None:
        await opened(log, replace(PLAIN, places=(there,))).close()

    asyncio.run(nothing_is_called())
    assert [path.name for path in kept.iterdir()] == [
        "gateway-1-000000000004.checkpoint"
    ]  # it says what the older one said
    (log / "gateway-1.delivered").write_bytes(b"no JSON")
    (kept / "gateway-1-000000000004.checkpoint").unlink()
    asyncio.run(nothing_is_called())
    assert [path.name for path in kept.iterdir()] == ["gateway-1-000000000004.checkpoint"]


def test_what_has_been_owed_for_too_long_is_owed_after_a_restart_too(tmp_path: Path) -> None:
    with_key(tmp_path)
    arrived: list[str] = []
    plans = [
        replace(PLAIN, places=(CheckpointDestination(name="the bucket", deliver=deliver),), required_s=600.0)
        for deliver in (lambda name, data: arrived.append(name), down)
    ]
    clock = FixedClock()
    write(tmp_path, 1, plans[0], clock)
    assert len(arrived) == 1
    write(tmp_path, 1, plans[1], clock)
    clock.advance(601)

    async def scenario() -> None:
        log = opened(tmp_path, plans[1], clock)
        async with asyncio.timeout(120):
            while log.fault is None:  # noqa: ASYNC110 - the attempt is another thread's
                await asyncio.sleep(0)
        with pytest.raises(AuditError, match="no checkpoint has reached"):
            await log.append({"event": "intent", "call_id": "call_9"})
        await log.close()

    asyncio.run(scenario())


async def test_calls_go_on_while_one_of_several_places_is_reached(tmp_path: Path) -> None:
    with_key(tmp_path)
    arrived: list[str] = []
    places = (
        CheckpointDestination(name="the bucket", deliver=down),
        CheckpointDestination(name="the folder", deliver=lambda name, data: arrived.append(name)),
    )

    log = opened(tmp_path, replace(PLAIN, places=places, required_s=1e-9))
    await add(log, 1, 1)
    await asyncio.to_thread(log._maintenance.tick)
    async with asyncio.timeout(120):
        while not (arrived and log.warnings()) or log.fault is not None:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
    assert [line_names(one, "the bucket: ", "503") for one in log.warnings()] == [True]
    await add(log, 2, 2)
    await log.close()


async def test_the_first_call_after_a_start_waits_for_no_round_of_whoever_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_key(tmp_path)
    go_on = threading.Event()
    tick = Maintenance.tick

    def late(self: Maintenance) -> None:
        go_on.wait(60)
        tick(self)

    monkeypatch.setattr(Maintenance, "tick", late)

    log = AuditLog(
        tmp_path,
        FixedClock(),
        replace(PLAIN, places=(CheckpointDestination(name="the bucket", deliver=down),), required_s=60.0),
    )
    log.open()
    assert log.fault is None
    await add(log, 1, 1)
    go_on.set()
    await log.close()
    assert verify(tmp_path).ok


async def test_a_plan_that_requires_checkpoints_takes_no_call_without_a_key(tmp_path: Path) -> None:
    log = opened(tmp_path, replace(PLAIN, required_s=60.0))
    await asyncio.to_thread(log._maintenance.tick)
    with pytest.raises(AuditError, match="no key to sign them"):
        await log.append({"event": "intent", "call_id": "call_1"})
    with_key(tmp_path)
    await asyncio.to_thread(log._maintenance.tick)
    await log.append({"event": "intent", "call_id": "call_1"})
    await log.close()


def test_a_log_that_lost_entries_is_signed_anew_from_where_it_goes_on(tmp_path: Path) -> None:
    in_segments(tmp_path, segments=2, calls=5)
    (tmp_path / "gateway-1.000000000001.jsonl").unlink()
    with_key(tmp_path)
    write(tmp_path, 1, PLAIN)
    report = verify(tmp_path)
    assert [(fault.kind, fault.seq) for fault in report.faults] == [("missing", 11)]
    assert [(checkpoint.first, checkpoint.size) for checkpoint in report.signed] == [(11, 32)]


leaf = st.binary(min_size=32, max_size=32)


def merkle(leaves: list[bytes]) -> bytes:
    """RFC 9162, section 2.1.1, as it is written there."""
    from hashlib import sha256  # noqa: PLC0415

    if len(leaves) == 1:
        return leaves[0]
    half = 1 << ((len(leaves) - 1).bit_length() - 1)
    return sha256(b"\1" + merkle(leaves[:half]) + merkle(leaves[half:])).digest()


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(leaf, min_size=1, max_size=300, unique=True), st.data())
def test_trees_and_proofs_are_those_of_the_rfc(leaves: list[bytes], data: st.DataObject) -> None:
    known = data.draw(st.integers(0, len(leaves) - 1))
    index = data.draw(st.integers(known, len(leaves) - 1))
    before = Tree()
    before.extend(leaves[:known])
    tree = Tree(size=known, frontier=before.frontier)
    tree.extend(leaves[known:])
    assert tree.root() == merkle(leaves)
    path = inclusion_proof(before.frontier, known, leaves[known:], index)
    assert len(path) <= 9
    assert root_from_inclusion_proof(leaves[index], index, len(leaves), path) == tree.root()
    other = data.draw(st.integers(0, len(leaves) - 1))
    assert (root_from_inclusion_proof(leaves[other], index, len(leaves), path) == tree.root()) == (other == index)
    assert root_from_inclusion_proof(leaves[index], len(leaves), len(leaves), path) is None


def test_a_clock_is_all_that_is_asked_for_the_time(tmp_path: Path) -> None:
    with_key(tmp_path)
    write(tmp_path, 1, PLAIN, FixedClock(0.0))
    assert verify(tmp_path).signed[0].time == "1970-01-01T00:00:00.000000Z"


def test_the_defaults_are_those_the_manual_gives() -> None:
    assert (
        AuditPlan().segment_bytes,
        AuditPlan().segment_s,
        AuditPlan().checkpoint_entries,
        AuditPlan().checkpoint_s,
    ) == (
        64 * 2**20,
        86_400.0,
        10_000,
        60.0,
    )
