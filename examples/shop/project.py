"""The sample project on its feet: its services and its gateway, real processes on loopback, with fresh keys, in a folder of their own."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from examples.shop import database

__all__ = ["Shop", "running"]

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Shop:
    """A running shop: where it is, what reaches its gateway, and the keys of its principals by name."""

    directory: Path
    url: str
    keys: dict[str, str]
    gateway: subprocess.Popen[str]
    environment: dict[str, str]

    def toolgen(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs the command line in the project's folder."""
        return subprocess.run(
            [sys.executable, "-m", "toolgen", *arguments],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )


@contextlib.contextmanager
def running(directory: Path, *, port: int = 0) -> Generator[Shop, None, None]:
    """Copies the sample project into a directory and runs all of it; `port` is the gateway's, 0 for a free one."""
    keys = {name: secrets.token_urlsafe(24) for name in ("support-bot", "ann", "auditor")}
    orders_port, catalog_port = _free_port(), _free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "ORDERS_KEY": secrets.token_urlsafe(24),
        "CATALOG_TOKEN": secrets.token_urlsafe(24),
    }
    _lay_out(directory, {"8801": str(orders_port), "8802": str(catalog_port)}, keys)
    with contextlib.ExitStack() as stack:
        for module, service_port in (("examples.shop.orders", orders_port), ("examples.shop.catalog", catalog_port)):
            command = [sys.executable, "-m", module, "--port", str(service_port)]
            stack.enter_context(_process(command, directory, environment))
            _wait_for(service_port)
        subprocess.run(
            [sys.executable, "-m", "toolgen", "build"],
            cwd=directory,
            env=environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        command = [sys.executable, "-m", "toolgen", "serve", "--port", str(port)]
        gateway = stack.enter_context(_process(command, directory, environment, errors=subprocess.PIPE))
        yield Shop(
            directory=directory,
            url=_ready_line(gateway),
            keys=keys,
            gateway=gateway,
            environment=environment,
        )


def _lay_out(directory: Path, ports: dict[str, str], keys: dict[str, str]) -> None:
    text = (ROOT / "toolgen.yaml").read_text(encoding="utf-8")
    for written, free in ports.items():
        text = text.replace(f":{written}", f":{free}")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "toolgen.yaml").write_text(text, encoding="utf-8")
    for name in ("specs", "policies"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("*.db"), dirs_exist_ok=True)
    database.write(directory / "specs" / "shop.db")
    policy = directory / "policies" / "shop.yaml"
    text = policy.read_text(encoding="utf-8")
    for name, key in keys.items():
        digest = hashlib.sha256(key.encode()).hexdigest()
        text = text.replace(f"  {name}:\n", f'  {name}:\n    api_key: "sha256:{digest}"\n')
    policy.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def _process(
    command: list[str], directory: Path, environment: dict[str, str], errors: int | None = None
) -> Generator[subprocess.Popen[str], None, None]:
    process = subprocess.Popen(command, cwd=directory, env=environment, stderr=errors, text=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _ready_line(gateway: subprocess.Popen[str]) -> str:
    assert gateway.stderr is not None
    said: list[str] = []
    for line in gateway.stderr:
        said.append(line)
        if "listening on " in line:
            return line.rsplit(" ", 1)[1].strip()
    raise SystemExit("the gateway did not start: " + "".join(said).strip())


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    for _ in range(_PATIENCE_S * 20):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise SystemExit(f"nothing came up on port {port}")
