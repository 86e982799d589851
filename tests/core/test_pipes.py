"""Pipes that threads read and write: with real child processes, as on a system whose event loop waits for no pipe."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from typing import IO

from toolgen.core.pipe_buffer import PipeBuffer
from toolgen.core.pipes import ReadingThread, WritingThread

ECHO = "import shutil,sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"
LARGE = bytes(range(256)) * 16_384  # 4 MiB: more than pipes and buffers hold


class Seen(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


def child(code: str) -> tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]:
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, bufsize=0)
    assert process.stdin is not None
    assert process.stdout is not None
    return process, process.stdin, process.stdout


async def test_what_is_written_comes_back_whole_and_the_ends_are_told() -> None:
    process, stdin, stdout = child(ECHO)
    seen, sent, loop = Seen(), Seen(), asyncio.get_running_loop()
    ReadingThread(loop, stdout, seen)
    writer = WritingThread(loop, stdin, sent)
    for start in range(0, len(LARGE), 1 << 16):
        writer.write(LARGE[start : start + (1 << 16)])
    writer.close()
    writer.write(b"too late")
    await asyncio.gather(seen.ended.wait(), sent.ended.wait())
    assert bytes(seen.data) == LARGE
    assert writer.get_write_buffer_size() == 0
    assert process.wait() == 0


async def test_a_child_that_reads_no_more_is_noticed() -> None:
    process, stdin, stdout = child("")
    sent = Seen()
    writer = WritingThread(asyncio.get_running_loop(), stdin, sent)
    process.wait()
    writer.write(b"x")
    await sent.ended.wait()
    assert writer.is_closing()
    stdout.close()


async def test_a_closed_reader_gives_its_protocol_nothing_and_the_child_ends() -> None:
    process, stdin, stdout = child(ECHO)
    seen = Seen()
    reader = ReadingThread(asyncio.get_running_loop(), stdout, seen)
    reader.close()
    assert reader.is_closing()
    writer = WritingThread(asyncio.get_running_loop(), stdin, Seen())
    writer.write(LARGE)
    writer.close()
    assert await asyncio.to_thread(process.wait) == 0
    await seen.ended.wait()
    assert seen.data == b""


def test_a_buffer_is_waited_for_and_tells_a_listener() -> None:
    process, stdin, stdout = child("import os\nwhile data := os.read(0, 9): os.write(1, data)")
    ended, told = threading.Event(), threading.Event()
    buffer = PipeBuffer(stdout, at_end=ended.set)
    assert not buffer.wait(0)
    assert buffer.take() is None
    assert not buffer.listen(told.set)
    stdin.write(b"one")
    assert told.wait(600)
    assert buffer.listen(None)
    assert buffer.take() == b"one"
    stdin.close()
    assert ended.wait(600)
    assert buffer.wait(0)
    assert buffer.take() == b""
    process.wait()
