"""A command's lines however they come, and a command that does not read what it is written, or reads no more."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeAlias

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from tests.messages import line_names
from toolgen.connectors.mcp.command import CommandSpec, LocalCommand
from toolgen.connectors.mcp.line_reader import LineReader, LongLine
from toolgen.connectors.mcp.process import CommandFault, CommandReply
from toolgen.core.clock import FixedClock
from toolgen.model.result import Failed
from toolgen.model.secret import SecretReference

Loop: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
LARGEST = 300
PIECES = st.lists(
    st.one_of(st.binary(max_size=40), st.sampled_from([b"\n", b"\n\n", b"x" * LARGEST, b"y" * 2000, b"z\n"])),
    max_size=20,
)


def cut(pieces: list[bytes]) -> tuple[list[bytes | LongLine], list[str]]:
    heard: list[bytes | LongLine] = []
    ended: list[str] = []
    lines = LineReader(LARGEST, heard.append, ended.append)
    for piece in pieces:
        lines.data_received(piece)
    lines.connection_lost(None)
    return heard, ended


@given(PIECES)
def test_lines_are_the_same_however_they_are_cut(pieces: list[bytes]) -> None:
    heard, ended = cut(pieces)
    *whole, rest = b"".join(pieces).split(b"\n")
    for line, found in zip([one + b"\n" for one in whole], heard, strict=False):
        if isinstance(found, LongLine):
            assert len(line) > LARGEST + 1
            assert line.startswith(found.head)
            assert line.endswith(found.tail)
            assert found.tail
        else:
            assert found == line
            assert len(line) <= LARGEST + 1
    assert heard[len(whole) :] == ([rest] if rest and len(rest) <= LARGEST else [])
    assert ended == [""]


def test_a_line_without_end_is_given_up() -> None:
    heard, ended = cut([b"x" * 2**24] * 17)
    assert heard == []
    assert ended == ["wrote a line without end"]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> Loop:
    """Event loops of the command line and of the server."""
    loop: Loop = request.param
    return loop


@contextlib.asynccontextmanager
async def started(server: str) -> AsyncIterator[LocalCommand]:
    """A command that runs this program, closed at the end."""
    command = LocalCommand(CommandSpec(words=(sys.executable, "-I", "-S", "-c", f"import json, os, sys\n{server}")))
    try:
        assert await command.begin({}) == 1
        yield command
    finally:
        await command.close()


async def asked(command: LocalCommand, number: int = 1) -> CommandReply:
    return await command.ask({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {}}, None)


ASKING = """
for at in range(5000):
    print(json.dumps({"jsonrpc": "2.0", "id": "p" * 200 + str(at), "method": "ping"}))
for line in sys.stdin:
    if (number := json.loads(line)["id"]) == 1:
        print(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}), flush=True)
"""
LAST_WORDS = """
number = json.loads(sys.stdin.readline())["id"]
os.close(0)
print(json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}), flush=True)
"""


@pytest.mark.usefixtures("loop_factory")
async def test_a_server_that_asks_much_before_it_reads_holds_up_nothing() -> None:
    async with started(ASKING) as command:
        assert (await asked(command)).fault is None


@pytest.mark.usefixtures("loop_factory")
async def test_what_a_server_said_last_is_read_and_it_is_begun_anew() -> None:
    async with started(LAST_WORDS) as command:
        found: list[Any] = [(await asked(command)).fault]
        while command.ready() is not None:  # noqa: ASYNC110 - until the loop heard of it
            await asyncio.sleep(0)
        found.append((await asked(command, 2)).fault)
        found.append(await command.begin({}))
        found.append((await asked(command, 3)).fault)
    assert found == [None, CommandFault.NOT_SENT, 2, None]


@pytest.mark.usefixtures("loop_factory")
async def test_a_server_that_reads_no_more_is_ended() -> None:
    """It runs on, and nobody could ever ask it."""
    deaf = "sys.stdin.readline(); os.close(0)\n" + answering("2") + "import time\ntime.sleep(3600)"
    async with started(deaf) as command:
        first, second = command.ask(request(1), None), command.ask(request(2), None)
        await second
        reply = await asked(command, 3)
        waited = (await first).fault
    assert reply.fault in {CommandFault.NOT_SENT, CommandFault.ENDED}
    assert waited is CommandFault.ENDED


@pytest.mark.usefixtures("loop_factory")
async def test_a_server_that_does_not_read_is_not_sent_more_than_it_is_given_room_for() -> None:
    async with started("import time\ntime.sleep(3600)") as command:
        text = "x" * 1_000_000
        replies = [command.ask({**request(number), "params": {"text": text}}, None) for number in range(1, 41)]
        refused = [reply for reply in replies if reply.done()]
        assert {(await reply).fault for reply in refused} == {CommandFault.UNREAD}
        assert len(replies) - len(refused) < 12


def request(number: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {}}


def answering(number: str) -> str:
    return f'print(json.dumps({{"jsonrpc": "2.0", "id": {number}, "result": {{}}}}), flush=True)\n'


async def ended(server: str, requests: int = 1, secrets: dict[str, str] | None = None) -> list[str]:
    """The reasons of requests that a command did not answer, sent together; the first is answered where the command does so."""

    words = (sys.executable, "-I", "-S", "-c", f"import json, os, sys\n{server}")
    environment = {name: SecretReference("env", name) for name in secrets or {}}
    command = LocalCommand(CommandSpec(words=words, environment=environment), clock=FixedClock())
    try:
        assert await command.begin(secrets or {}) == 1
        calls = [{**request(number), "params": {"arguments": {"pin": "pin-4711"}}} for number in range(1, requests + 1)]
        replies = await asyncio.gather(*(command.ask(one, None) for one in calls))
        again = await command.begin(secrets or {})
        return [*(one.reason for one in replies), again.error.message if isinstance(again, Failed) else ""]
    finally:
        await command.close()


DYING = "line = sys.stdin.readline(); print('key', os.environ.get('KEY'), 'for pin-4711\\nno such\\x1b table', file=sys.stderr)\n"


@pytest.mark.usefixtures("loop_factory")
async def test_a_command_that_ends_says_its_exit_status_and_last_words() -> None:
    first, again = await ended(f"{DYING}sys.exit(3)", secrets={"KEY": "secret-key-of-the-source"})
    how = "ended before it answered (exit status 3; standard error: key *** for *** | no such table)"
    assert first == how
    assert again == f"the command {how}; nothing was sent"


@pytest.mark.usefixtures("loop_factory")
async def test_a_command_that_is_killed_says_the_signal() -> None:
    first, _ = await ended("sys.stdin.readline(); os.kill(os.getpid(), 11)")
    assert first.endswith(" (signal SIGSEGV)")


@pytest.mark.usefixtures("loop_factory")
async def test_a_command_that_closes_its_output_is_ended_and_says_so() -> None:
    first, _ = await ended("sys.stdin.readline(); os.close(1); sys.stdin.read()")
    assert line_names(first, "closed its output")


@pytest.mark.usefixtures("loop_factory")
async def test_what_a_command_wrote_while_others_waited_is_not_told() -> None:
    """It may be about the call of another caller."""
    *reasons, _ = await ended(f"sys.stdin.readline(); {DYING}sys.exit(3)", 2)
    assert [one.partition("(")[2] for one in reasons] == ["exit status 3)"] * 2


@pytest.mark.usefixtures("loop_factory")
async def test_last_words_are_bounded_and_cut_at_no_secret() -> None:
    much = (
        "sys.stdin.readline(); sys.stderr.write(('x' * 997 + os.environ['KEY'] + '\\n') * 100 + os.environ['KEY'][:20])"
    )
    first, _ = await ended(much, secrets={"KEY": "secret-key-of-the-source"})
    assert len(first) < 700
    assert "secret-key" not in first


@pytest.mark.usefixtures("loop_factory")
async def test_a_program_that_is_not_there_says_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere/bin:/nowhere/sbin")

    async def said(program: str) -> str:
        begun = await LocalCommand(CommandSpec(words=(program,), folder="/nowhere")).begin({})
        assert isinstance(begun, Failed)
        return str(begun.error.message)

    assert line_names(await said("no-such-server"), "'no-such-server'", "PATH '/nowhere/bin:/nowhere/sbin'")
    assert line_names(await said("bin/server"), "no program '/nowhere/bin/server'")
