"""A MariaDB of a test's own, reached through a socket: what is decided when a server is set up cannot be changed on one that others use."""

from __future__ import annotations

import getpass
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_MAX_DURATION_S = 120.0


@contextmanager
def mariadb_server(*options: str, max_memory: int = 0) -> Iterator[Path]:
    """The socket of a fresh server without databases of anybody, ended afterwards; skips where MariaDB's server is not installed.

    `max_memory` bounds its address space, in bytes.
    """
    for program in ("mariadbd", "mariadb-install-db"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    # Not pytest's folder: the path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="toolgen-db-") as folder:
        data, path = Path(folder) / "data", Path(folder) / "s"
        common = ["--no-defaults", f"--datadir={data}", f"--user={getpass.getuser()}", *options]
        made = subprocess.run(
            ["mariadb-install-db", *common, "--auth-root-authentication-method=normal", "--skip-test-db"],
            capture_output=True,
            check=False,
        )
        if made.returncode != 0:
            pytest.skip("mariadb-install-db cannot set up a server here")
        process = subprocess.Popen(
            [
                *_bounded(max_memory),
                "mariadbd",
                *common,
                "--skip-networking",
                f"--socket={path}",
                "--innodb-flush-log-at-trx-commit=0",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            _wait(process, path)
            yield path
        finally:
            process.kill()
            process.wait()


def _bounded(max_memory: int) -> list[str]:
    """What stands before a command whose address space is bounded."""
    return ["sh", "-c", f'ulimit -v {max_memory // 1024}; exec "$@"', "-"] if max_memory else []


def _wait(process: subprocess.Popen[bytes], path: Path) -> None:
    until = time.monotonic() + _MAX_DURATION_S
    while process.poll() is None and time.monotonic() < until:
        with socket.socket(socket.AF_UNIX) as probe:
            if probe.connect_ex(str(path)) == 0:
                return
        time.sleep(0.05)
    pytest.skip("mariadbd does not start here")
