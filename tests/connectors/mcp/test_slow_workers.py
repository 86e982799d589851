"""A worker that does not read what it is answered: nobody else is held up by it, and it goes on when it reads again."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from typing import Any

import msgspec
import pytest

from toolgen.connectors.mcp import command_server
from toolgen.connectors.mcp.command import CommandSpec
from toolgen.connectors.mcp.command_client import CommandClient
from toolgen.connectors.mcp.command_frames import (
    Begin,
    Begun,
    CommandState,
    FromWorker,
    ReplyFrame,
    RequestFrame,
    ToolsChanged,
    ToWorker,
)
from toolgen.connectors.mcp.command_server import CommandServer
from toolgen.connectors.mcp.process import CommandFault, CommandReply
from toolgen.core.frames import frame

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "end":
        sys.exit()
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"text": "x" * asked["params"]["size"]}}), flush=True)
"""
LENGTH, QUESTIONS = 100_000, 40


def asked(number: int, size: int, epoch: int = 1, method: str = "tools/call") -> RequestFrame:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": {"size": size}}
    return RequestFrame(number=number, source="far", epoch=epoch, message=json.dumps(message).encode())


class Stuck:
    """A worker that reads when it is told to."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    async def send(self, said: FromWorker) -> None:
        await asyncio.get_running_loop().sock_sendall(self._link, frame(said))

    async def read(self) -> ToWorker:
        size = int.from_bytes(await self._exactly(4))
        return msgspec.msgpack.decode(await self._exactly(size), type=ToWorker)  # type: ignore[arg-type]

    async def _exactly(self, size: int) -> bytes:
        held = b""
        while len(held) < size:
            piece = await asyncio.get_running_loop().sock_recv(self._link, size - len(held))
            assert piece, "the connection was ended"
            held += piece
        return held

    async def until(self, kind: type[Any]) -> Any:
        while not isinstance(said := await self.read(), kind):
            pass
        return said


async def test_a_worker_that_does_not_read_loses_answers_and_not_its_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_server, "_MAX_UNREAD", 5 * LENGTH)
    monkeypatch.setattr(command_server, "_MUCH_UNREAD", LENGTH)
    await _stuck()


async def _stuck() -> None:
    server = CommandServer((CommandSpec(source="far", words=(sys.executable, "-I", "-S", "-c", SERVER)),))
    link = await server.connect()
    link.setblocking(False)
    stuck = Stuck(link)
    client = CommandClient((await server.connect()).detach())
    other = client.command("far")
    try:
        await stuck.send(Begin(number=1000, source="far", values={}))
        assert (await stuck.until(Begun)).epoch == 1
        for number in range(QUESTIONS):
            await stuck.send(asked(number, LENGTH))
        assert await other.begin({}) == 1
        reply = await _one(
            other, 1
        )  # the server answers one after the other, and all of the stuck one's are answered now
        assert reply.fault is None
        assert (await other.ask({"id": 2, "method": "end"}, None)).fault is CommandFault.ENDED
        assert await other.begin({}) == 2
        assert (await _one(other, 3)).fault is None

        answers: dict[int, CommandFault | None] = {}
        while len(answers) < QUESTIONS:
            if isinstance(said := await stuck.read(), ReplyFrame):
                answers[said.number] = said.fault
        assert set(answers) == set(range(QUESTIONS))
        assert set(answers.values()) == {None, CommandFault.TOO_LONG}
        assert list(answers.values()).count(None) < 20
        while not isinstance(said := await stuck.read(), CommandState) or said.epoch < 2 or not said.ready:
            pass
        assert isinstance(await stuck.until(ToolsChanged), ToolsChanged)
        await stuck.send(asked(QUESTIONS, LENGTH, epoch=2))
        found = await stuck.until(ReplyFrame)
        assert (found.number, found.fault) == (QUESTIONS, None)
        assert len(found.line) > LENGTH
    finally:
        link.close()
        await client.close()
        await server.close()


async def _one(command: Any, number: int) -> CommandReply:
    reply: CommandReply = await command.ask({"id": number, "method": "tools/call", "params": {"size": 1}}, None)
    return reply
