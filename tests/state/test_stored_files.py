"""Files that are kept: encrypted on disk, bound to their owner, within budgets, and gone where they were not written to their end."""

from __future__ import annotations

import asyncio
import errno
import functools
import hashlib
import os
import random
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from toolgen.core.clock import FixedClock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.model.files import FileBudget, FileInfo, FileTooLargeError
from toolgen.state.stored_files import CHUNK, StoredFiles


def in_a_loop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*given: object, **named: object) -> None:
        asyncio.run(test(*given, **named))

    return run


BUDGET = FileBudget(largest=1_000_000, each=1_500_000, total=2_000_000, expires_s=60.0)


def _store(folder: Path, clock: FixedClock | None = None) -> StoredFiles:
    return StoredFiles(folder / "files", clock or FixedClock(), BUDGET)


async def _put(store: StoredFiles, body: bytes, owner: str = "a") -> tuple[bytes, FileInfo]:
    key = await store.put(body, owner=owner, bound=owner.encode(), media_type="x/y")
    info = await store.describe(key, bound=owner.encode())
    assert info is not None
    return key, info


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 8 * CHUNK, 9 * CHUNK + 7])
@in_a_loop
async def test_any_part_of_a_file_is_read_as_it_was_written(tmp_path: Path, size: int) -> None:
    store, body = _store(tmp_path), random.Random(size).randbytes(size)
    key, info = await _put(store, body)
    assert info == FileInfo(size=size, media_type="x/y", sha256=hashlib.sha256(body).hexdigest())
    assert await store.whole(key, info, bound=b"a") == body
    for start, end in ((0, 1), (1, CHUNK), (CHUNK - 1, CHUNK + 1), (size // 2, None), (size, None), (CHUNK, 3 * CHUNK)):
        parts = [part async for part in store.read(key, info, bound=b"a", start=start, end=end)]
        assert b"".join(parts) == body[start:end]
    await store.close()


@in_a_loop
async def test_pieces_of_any_size_make_the_same_file(tmp_path: Path) -> None:
    draw = random.Random(7)
    body = draw.randbytes(700_000)
    store = _store(tmp_path)
    writer = store.begin(owner="a", bound=b"a")
    position = 0
    while position < len(body):
        step = draw.choice([1, 100, CHUNK, 300_000])
        await writer.write(body[position : position + step])
        position += step
    key, info = await writer.finish(media_type="x/y", filename="f")
    await writer.discard()
    assert await store.whole(key, info, bound=b"a") == body
    await store.close()


@in_a_loop
async def test_nothing_on_the_disk_tells_what_a_file_holds_and_nobody_else_reads_it(tmp_path: Path) -> None:
    store = _store(tmp_path)
    key, info = await _put(store, b"confidential" * 100)
    for path in (tmp_path / "files").iterdir():
        assert b"confidential" not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0
    assert await store.describe(key, bound=b"b") is None
    assert await store.describe(key[:16] + bytes(32), bound=b"a") is None
    assert await store.describe(bytes(48), bound=b"a") is None
    assert await store.describe(b"short", bound=b"a") is None
    path = tmp_path / "files" / key[:16].hex()
    changed = bytearray(path.read_bytes())
    changed[5] ^= 1
    path.write_bytes(changed)
    with pytest.raises(StateError):
        await store.whole(key, info, bound=b"a")
    await store.close()


@in_a_loop
async def test_a_file_ends_with_its_time(tmp_path: Path) -> None:
    clock = FixedClock()
    store = _store(tmp_path, clock)
    key, _ = await _put(store, b"x")
    clock.advance(61)
    assert await store.describe(key, bound=b"a") is None
    await _put(store, b"y")
    assert not (tmp_path / "files" / key[:16].hex()).exists()
    await store.close()


@in_a_loop
async def test_the_oldest_files_give_way_to_new_ones_of_the_same_owner_first(tmp_path: Path) -> None:
    clock = FixedClock()
    store = _store(tmp_path, clock)
    other, _ = await _put(store, b"o" * 400_000, owner="b")
    clock.advance(1)
    first, _ = await _put(store, b"1" * 800_000)
    clock.advance(1)
    second, _ = await _put(store, b"2" * 800_000)
    assert await store.describe(first, bound=b"a") is None
    assert await store.describe(second, bound=b"a") is not None
    assert await store.describe(other, bound=b"b") is not None
    clock.advance(1)
    await _put(store, b"3" * 900_000, owner="c")
    assert await store.describe(other, bound=b"b") is None
    await store.close()


@in_a_loop
async def test_a_file_that_is_too_large_or_not_finished_leaves_nothing(tmp_path: Path) -> None:
    store = _store(tmp_path)
    writer = store.begin(owner="a", bound=b"a", most=600_000)
    await writer.write(b"x" * 600_000)
    with pytest.raises(FileTooLargeError):
        await writer.write(b"x")
    await writer.discard()
    with pytest.raises(FileTooLargeError):
        await store.put(b"x" * 1_000_001, owner="a", bound=b"a", media_type="x/y")
    assert [path.name for path in (tmp_path / "files").iterdir()] == []
    await store.close()


@in_a_loop
async def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _store(tmp_path)
    real = os.write

    def full(descriptor: int, data: memoryview) -> int:
        if len(data) < CHUNK:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:CHUNK])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StateUnavailableError, match="No space left"):
        await store.put(b"x" * (CHUNK + 10), owner="a", bound=b"a", media_type="x/y")
    assert [path.name for path in (tmp_path / "files").iterdir()] == []
    await store.close()


@in_a_loop
async def test_a_file_whose_process_ended_is_removed_later(tmp_path: Path) -> None:
    clock = FixedClock()
    left, new = (tmp_path / "files" / name for name in ("ab" * 16, "cd" * 16))
    left.parent.mkdir()
    left.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(left, (clock.now() - 7200, clock.now() - 7200))
    os.utime(new, (clock.now(), clock.now()))
    store = _store(tmp_path, clock)
    await _put(store, b"x")
    assert not left.exists()
    assert new.exists()
    await store.close()


@in_a_loop
async def test_a_writer_that_is_cancelled_while_it_writes_leaves_nothing(tmp_path: Path) -> None:
    store = _store(tmp_path)

    async def write() -> None:
        writer = store.begin(owner="a", bound=b"a")
        try:
            for _ in range(50):
                await writer.write(b"x" * 10_000)
                await asyncio.sleep(0)
        finally:
            await writer.discard()

    for turns in range(0, 40, 3):
        task = asyncio.create_task(write())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [path for path in (tmp_path / "files").glob("*") if path.suffix != ".db"] == []
    await store.close()


@in_a_loop
async def test_only_so_many_files_are_written_at_once(tmp_path: Path) -> None:
    store = _store(tmp_path)
    writers = [store.begin(owner="a", bound=b"a") for _ in range(8)]
    with pytest.raises(StateUnavailableError):
        store.begin(owner="a", bound=b"a")
    writers += [store.begin(owner="b", bound=b"b") for _ in range(8)]  # one who is slow leaves room for others
    with pytest.raises(StateUnavailableError):
        store.begin(owner="c", bound=b"c")
    keys = await asyncio.gather(  # what is here already waits for nobody, and takes no place
        *(store.put(b"x", owner="a", bound=b"a", media_type="text/plain") for _ in range(40))
    )
    assert len(set(keys)) == 40
    await writers[0].discard()
    await store.begin(owner="a", bound=b"a").discard()
    for writer in writers:
        await writer.discard()
    await store.close()
