"""A PostgreSQL of a test's own, reached through a socket, in bounded memory: for statements that could bring a shared one down."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

__all__ = ["postgres_server"]

_MAX_DURATION_S = 60.0
_OPTIONS = ("-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=10", "-c", "listen_addresses=")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        newest = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        if not newest:
            pytest.skip(f"{name} is not installed")
        found = str(newest[-1])
    return str(Path(found).resolve())


@contextmanager
def postgres_server(max_memory: int = 2**31) -> Iterator[str]:
    """The location of a fresh server that trusts everybody who reaches its socket, ended afterwards; skips where it is not installed.

    `max_memory` bounds the address space of each of its processes, in bytes. PostgreSQL does not run as root: there, its own user does.
    """
    account = pwd.getpwuid(os.getuid())
    if account.pw_uid == 0:
        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("this is root, whom PostgreSQL does not serve, and there is no user postgres")
    # Not pytest's folder: the path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="toolgen-pg-") as folder:
        data = Path(folder) / "data"
        os.chown(folder, account.pw_uid, account.pw_gid)
        switch: dict[str, int] = {} if os.getuid() else {"user": account.pw_uid, "group": account.pw_gid}
        made = subprocess.run(
            [_program("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"],
            capture_output=True,
            check=False,
            **switch,  # type: ignore[call-overload]
        )
        if made.returncode != 0:
            pytest.skip("initdb cannot set up a server here")
        process = subprocess.Popen(
            [
                "sh",
                "-c",
                f'ulimit -v {max_memory // 1024}; exec "$@"',
                "-",
                _program("postgres"),
                "-D",
                data,
                "-k",
                folder,
                *_OPTIONS,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **switch,  # type: ignore[call-overload]
        )
        try:
            _wait(process, folder)
            yield f"postgresql://postgres@/postgres?socket={folder}"
        finally:
            process.kill()  # its children see that, and end
            process.wait()


def _wait(process: subprocess.Popen[bytes], folder: str) -> None:
    until = time.monotonic() + _MAX_DURATION_S
    while process.poll() is None and time.monotonic() < until:
        try:
            psycopg.connect(host=folder, user="postgres", dbname="postgres").close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    pytest.skip("postgres does not start here")
