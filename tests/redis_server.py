"""A Redis of a test's own: it may be stopped, started again, locked and filled without anybody noticing."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import weakref
from pathlib import Path

import pytest

from toolgen.core.clock import SystemClock
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.shared_buckets import SharedBuckets


class RedisServer:
    """redis-server on a port of loopback that stays its own, also while it is stopped, with its files in a folder."""

    def __init__(self, folder: Path, *options: str) -> None:
        if shutil.which("redis-server") is None:
            pytest.skip("redis-server is not installed")
        self.folder, self._options = folder, options
        # Held for as long as this is: nobody else is given the port, and redis-server, which asks to use it again, can have it.
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        self.port: int = held.getsockname()[1]
        weakref.finalize(self, os.close, held.detach())
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        port = [] if "--tls-port" in self._options else ["--port", str(self.port)]
        options = [str(self.port) if option == "PORT" else option for option in self._options]
        command = ["redis-server", *port, "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "", *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError("redis-server did not start")

    @property
    def pid(self) -> int | None:
        """Its process, while it runs."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def buckets(self, password: str = "", *, lease_s: float = 20.0, **location: object) -> SharedBuckets:
        """What one gateway process would count with."""
        where = RedisLocation(host="127.0.0.1", port=self.port, **location)  # type: ignore[arg-type]
        return SharedBuckets(RedisLink(where, lambda: password), SystemClock(), lease_s=lease_s)
