"""A project of device tools on its feet: its gateway, a real process on loopback, with fresh keys, and the page of a device."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from examples.device.server import FOLDER, DeviceServer

__all__ = ["Running", "running"]

ROOT = FOLDER.parents[1]
_PATIENCE_S = 30
SETTINGS = """\
sources:
  phone: {device: phone.tools.yaml}
policies: policies/
generated: generated/
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where the gateway and the page are, and the keys of the agent and of the user."""

    directory: Path
    gateway: str
    page: str
    bot: str
    ann: str


@contextlib.contextmanager
def running(directory: Path, *, port: int = 0) -> Generator[Running, None, None]:
    """Writes the project into a directory and runs all of it; `port` is the page's, 0 for a free one."""
    bot, ann = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    (directory / "policies").mkdir(parents=True)
    (directory / "toolgen.yaml").write_text(SETTINGS, encoding="utf-8")
    shutil.copy(FOLDER / "phone.tools.yaml", directory)
    policy = (FOLDER / "policy.yaml").read_text(encoding="utf-8")
    for word, key in (("BOT", bot), ("ANN", ann)):
        policy = policy.replace(f"sha256:{word}", f"sha256:{hashlib.sha256(key.encode()).hexdigest()}")
    (directory / "policies" / "policy.yaml").write_text(policy, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "toolgen", "serve", "--port", "0"]
    process = subprocess.Popen(command, cwd=directory, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        gateway = _listening(process)
        server = DeviceServer(gateway, ann, port)
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield Running(directory=directory, gateway=gateway, page=server.url, bot=bot, ann=ann)
        finally:
            server.shutdown()
            serving.join()
            server.server_close()
    finally:
        process.terminate()
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _listening(process: subprocess.Popen[str]) -> str:
    said: list[str] = []
    for line in process.stderr or ():
        said.append(line)
        if "listening on " in line:
            return line.rsplit(" ", 1)[1].strip()
    raise SystemExit("the gateway did not start: " + "".join(said).strip())
