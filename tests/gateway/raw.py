"""Bytes sent to a gateway in a process of its own, and what comes back: for tests of what no client would send."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gateway.governed import Upstream, project, upstream

CALL = "/v1/tools/orders__get_health/call"
POLICY: dict[str, Any] = {"rules": [{"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}]}
MIB = 1024 * 1024
CLOSE = "Connection: close"


@dataclass(frozen=True)
class Served:
    """A gateway, the process it is, and the API behind it."""

    port: int
    pid: int
    seen: Upstream

    def resident_kib(self) -> int:
        """The memory that the process has now, from which its peak counts again (Linux, `clear_refs`)."""
        return resident_kib(self.pid)

    def peak_kib(self) -> int:
        """The most memory the process had since then."""
        return peak_kib(self.pid)

    def connection(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)

    def exchange(self, *parts: bytes) -> bytes:
        """Everything the gateway says to these bytes until it closes the connection."""
        with self.connection() as wire:
            try:
                for part in parts:
                    wire.sendall(part)
            except OSError:  # it has closed before it had heard everything
                pass
            return rest_of(wire)

    def alive(self) -> None:
        """A good call is answered as ever."""
        answer = self.exchange(request(b"{}", CLOSE))
        assert answer.startswith(b"HTTP/1.1 200 "), answer


def resident_kib(pid: int) -> int:
    """The memory that a process of ours has now, from which its peak counts again."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
    return _status(pid, "VmRSS")


def peak_kib(pid: int) -> int:
    """The most memory it had since then."""
    return _status(pid, "VmHWM")


def _status(pid: int, name: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(re.findall(name + r":\s+(\d+) kB", status)[0])


def rest_of(wire: socket.socket) -> bytes:
    said = b""
    while True:
        try:
            more = wire.recv(65536)
        except ConnectionResetError:
            return said
        if not more:
            return said
        said += more


def request(body: bytes, *headers: str, path: str = CALL, key: str = "key-of-bot") -> bytes:
    """A request with the headers given, and a Content-Length unless they say how long it is."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {key}", *headers]
    if not any(header.lower().startswith("content-type") for header in headers):
        lines.append("Content-Type: application/json")
    if not any(header.lower().startswith(("content-length", "transfer-encoding")) for header in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def statuses(answer: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"HTTP/1\.1 (\d{3}) ", answer)]


@contextmanager
def serving(root: Path, policy: dict[str, Any] = POLICY, **settings: Any) -> Iterator[Served]:
    """The gateway of a small project, for its `bot`; what it says must hold no traceback."""
    with upstream() as (seen, server):
        path = project(root, server, policy, **settings)
        command = [sys.executable, "-m", "toolgen", "serve", "--port", "0"]
        process = subprocess.Popen(command, cwd=path.parent, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        try:
            url = next(line.split()[-1] for line in process.stderr if "listening on" in line)
            yield Served(int(url.rpartition(":")[2]), process.pid, seen)
        finally:
            os.kill(process.pid, signal.SIGTERM)
            _, said_there = process.communicate(timeout=120)
    assert "Traceback" not in said_there


def endless(pieces: int, size: int = 65_536) -> Iterator[bytes]:
    piece = b"%x\r\n%s\r\n" % (size, b"a" * size)
    for _ in range(pieces):
        yield piece
