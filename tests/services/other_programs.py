"""Servers of other makers, in an environment of their own: moto and a broker of Kafka (`make destinations`)."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / ".venv-destinations"
needs_tools = pytest.mark.skipif(
    not (TOOLS / ".installed").exists(), reason="`make destinations` installs moto and a broker of Kafka"
)


def free_port() -> int:
    """A port of loopback that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def program(*command: str, port: int) -> Iterator[None]:
    """A server, from when it listens on its port."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            assert process.poll() is None
            assert time.monotonic() < deadline
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def moto() -> Iterator[str]:
    """URL of a server that answers as AWS does."""
    port = free_port()
    with program(str(TOOLS / "bin" / "moto_server"), "-H", "127.0.0.1", "-p", str(port), port=port):
        yield f"http://127.0.0.1:{port}"
