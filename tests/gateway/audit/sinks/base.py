"""Destinations of entries that tests serve: what they received, and how they fail. Over TLS, by an authority of the test's own."""

from __future__ import annotations

import asyncio
import ssl
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tests.authorities import Authority
from tests.stream_servers import stream_server
from toolgen.audit.entry_stream import RecordedEntry
from toolgen.audit.reader import entries

Entry = dict[str, Any]


class Sink(ABC):
    """A destination on loopback. `failing` is how it fails: not at all, `hangs`, or in a way of its kind.
    `poison` is the number of an entry that it never takes."""

    kind = ""
    has_credentials = refuses_content = True

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder, "sink-ca")
        certificate, key = self.authority.issue("sink")
        self.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.tls.load_cert_chain(certificate, key)
        self.received: list[Entry] = []
        self.identities: list[str] = []
        """Texts by which a receiver knows an entry, or a batch, that arrives twice."""
        self.requests = 0
        self.failing, self.poison = "", 0
        self.port = 0

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What stands under `audit.stream.NAME`, with a secret of `SECRET` where the kind has one."""

    @abstractmethod
    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a connection."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Sink]:
        async with stream_server(self.serve, tls=self.tls) as self.port:
            yield self

    def takes(self, lines: list[bytes]) -> bool:
        """Keeps the entries of these lines; none of them where one is poison."""
        read: list[Entry] = [msgspec.json.decode(line) for line in lines]
        if any(entry["seq"] == self.poison for entry in read):
            return False
        self.received += read
        return True

    def seqs(self) -> list[int]:
        return [entry["seq"] for entry in self.received]


class HttpSink(Sink):
    """One over HTTP. Where it fails: `401`, `400`, `busy` (503 with Retry-After)."""

    path = "/"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raw = await reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode().strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.requests += 1
        match self.failing:
            case "hangs":
                await asyncio.Event().wait()
            case "busy":
                status, answer, more = 503, b"", "Retry-After: 7\r\n"
            case "400" | "401":
                status, answer, more = int(self.failing), b"canary in an answer", ""
            case _:
                method, path, _ = first.split(" ")
                status, answer = self.answer(method, path, headers, body)
                more = ""
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(answer)}\r\n{more}Connection: close\r\n\r\n"
        writer.write(head.encode() + answer)
        await writer.drain()

    @abstractmethod
    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to a request."""


def recorded(directory: Path) -> list[Entry]:
    """The entries of a log."""
    return [dict(entry) for entry in entries(directory)]


def made_entry(seq: int, **fields: Any) -> RecordedEntry:
    """An entry as the reader of the log gives it."""
    content = {
        "seq": seq,
        "stream": "gateway-1",
        "time": "2026-01-01T00:00:00.000001Z",
        "event": "outcome",
        "hash": f"{seq:064x}",
        **fields,
    }
    return RecordedEntry(
        line=msgspec.json.encode(content),
        seq=seq,
        time=content["time"],
        event=content["event"],
        status=fields.get("status", ""),
        hash=content["hash"],
    )
