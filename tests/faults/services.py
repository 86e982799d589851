"""Services of a cluster under faults: HAProxy before the gateways, a PostgreSQL for their index, and what fills it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import httpx
import psycopg

from tests.faults.processes import free_port, started, until

__all__ = ["FrontProxy", "Indexer", "Postgres", "program"]


class FrontProxy:
    """HAProxy that sends requests to gateways which say that they are ready. The header `x-gateway` of an answer names its gateway."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self, ports: Mapping[str, int]) -> None:
        """Return when it forwards to all gateways, which are given with the port of each."""
        servers = "".join(f"  server {name} 127.0.0.1:{port}\n" for name, port in ports.items())
        settings = self._folder / "haproxy.cfg"
        settings.write_text(
            "global\n  maxconn 4000\ndefaults\n  mode http\n  timeout connect 1s\n  timeout client 60s\n  timeout server 60s\n"
            "  timeout check 2s\n"  # of a busy machine; without it a check has the 200 ms between two
            "  retries 0\n"  # a request that may have been taken is not sent again
            f"listen front\n  bind 127.0.0.1:{self.port}\n  option httpchk\n"
            "  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host 127.0.0.1\n  http-reuse safe\n"
            "  http-response set-header x-gateway %s\n"
            "  default-server check inter 200ms fall 1 rise 1\n" + servers
        )
        self._process = started(["haproxy", "-f", str(settings)], self._folder / "haproxy.log")
        async with httpx.AsyncClient(timeout=2) as client:

            async def forwards() -> bool:
                seen = {(await client.get(f"{self.url}/healthz")).headers.get("x-gateway") for _ in range(8)}
                return seen == set(ports)

            await until(forwards, "HAProxy")

    def close(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


class Postgres:
    """PostgreSQL in a folder of its own, which may be killed and started again."""

    def __init__(self) -> None:
        # Not the folder of the campaign, which its own user may not enter.
        self._folder = Path(tempfile.mkdtemp(prefix="toolgen-pg-"))
        self._user = "postgres" if os.getuid() == 0 else None
        self.port = free_port()
        self.location = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Return when it answers. Its data is made the first time."""
        data = self._folder / "data"
        if not data.exists():
            if self._user is not None:
                account = pwd.getpwnam(self._user)
                os.chown(self._folder, account.pw_uid, account.pw_gid)
            command = [
                program("initdb") or "initdb",
                "-D",
                str(data),
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "-N",
            ]
            subprocess.run(command, check=True, capture_output=True, user=self._user, cwd=self._folder)
        (data / "postmaster.pid").unlink(missing_ok=True)
        self._process = started(
            [
                program("postgres") or "postgres",
                "-D",
                str(data),
                "-k",
                str(self._folder),
                "-p",
                str(self.port),
                "-h",
                "127.0.0.1",
            ],
            self._folder.with_suffix(".log"),
            user=self._user,
        )

        def answers() -> bool:
            try:
                with psycopg.connect(self.location, connect_timeout=2) as connection:
                    return connection.execute("SELECT 1").fetchone() == (1,)
            except psycopg.Error:
                return False

        await until(answers, "PostgreSQL")

    def kill(self) -> None:
        """kill -9 of all of it."""
        assert self._process is not None
        below = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text(encoding="ascii").split()
        self._process.kill()
        for pid in map(int, below):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()

    def close(self) -> None:
        """End it and remove its data."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.with_suffix(".log").unlink(missing_ok=True)


class Indexer:
    """`toolgen audit index --follow` beside a gateway."""

    def __init__(self, settings: Path) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it. It waits for the index, and for entries."""
        self._process = started(_toolgen("audit", "index", "--follow", "--config", str(self._settings)), self._log)

    @property
    def _log(self) -> Path:
        return self._settings.parent / "index.log"

    def stop(self) -> str:
        """End it. Return what is wrong with the index, or with the log: "" for nothing."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)
        for command in (("audit", "verify"), ("audit", "index"), ("audit", "index", "--check")):
            done = subprocess.run(
                _toolgen(*command, "--config", str(self._settings)), capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                return f"toolgen {' '.join(command)} ended with {done.returncode}: {(done.stdout + done.stderr)[-400:]}"
        return ""


def _toolgen(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "toolgen", *arguments]


def program(name: str) -> str | None:
    """Return the path of a program on the PATH or of PostgreSQL in Debian's folders; None if it is not installed."""
    found = shutil.which(name) or next(
        iter(sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None
    )
    return None if found is None else str(Path(found).resolve())
