"""Proxies for tests: one that says what a test tells it to, and Debian's tinyproxy and squid."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

from tests.stream_servers import stream_server

OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ScriptedProxy:
    """Answers every CONNECT with `script`. After `OPENED` it passes bytes on to a port of loopback, whatever name it was told."""

    def __init__(self, script: bytes = OPENED, *, to: int = 0) -> None:
        self._script, self._to = script, to
        self.heads: list[bytes] = []
        self.port = 0

    @asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedProxy]:
        async with stream_server(self._serve, tls=tls) as self.port:
            yield self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._script)
        await writer.drain()
        if self._script == b"" or not self._to:
            await reader.read()  # until the client gives up
            return
        inner, outer = await asyncio.open_connection("127.0.0.1", self._to)
        try:
            await asyncio.gather(_passed_on(reader, outer), _passed_on(inner, writer))
        finally:
            outer.close()


async def _passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.write_eof() if writer.can_write_eof() else writer.close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _tinyproxy(folder: Path, port: int) -> list[str]:
    (folder / "tiny.conf").write_text(
        f'Port {port}\nListen 127.0.0.1\nTimeout 60\nLogFile "{folder}/log"\nBasicAuth gateway canary-password\n'
    )
    return ["tinyproxy", "-d", "-c", f"{folder}/tiny.conf"]


def _squid(folder: Path, port: int) -> list[str]:
    helper = folder / "authenticate"
    helper.write_text(
        '#!/bin/sh\nwhile read line; do [ "$line" = "gateway canary-password" ] && echo OK || echo ERR; done\n'
    )
    helper.chmod(0o755)
    (folder / "squid.conf").write_text(
        f"http_port 127.0.0.1:{port}\npid_filename {folder}/pid\ncache deny all\naccess_log none\ncache_log {folder}/log\n"
        f"auth_param basic program {helper}\nauth_param basic children 1\nacl known proxy_auth REQUIRED\n"
        "http_access allow known\nhttp_access deny all\nshutdown_lifetime 0 seconds\n"
    )
    return ["squid", "-N", "-f", f"{folder}/squid.conf"]


PROXIES = {"tinyproxy": _tinyproxy, "squid": _squid}


@contextmanager
def real_proxy(name: str) -> Iterator[int]:
    """The port of a proxy that wants the user `gateway` with the password `canary-password`."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o777)
        process = subprocess.Popen(PROXIES[name](folder, port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while process.poll() is None:
                with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=60):
                    break
            if process.returncode is not None:
                raise AssertionError(f"{name} ended: {(folder / 'log').read_text(errors='replace')[-1000:]}")
            yield port
        finally:
            process.terminate()
            process.wait()


def installed(name: str) -> bool:
    """Whether there is such a proxy on this machine."""
    return shutil.which(name) is not None
