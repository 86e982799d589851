"""Gateway as an ASGI application in servers that others wrote: it opens and closes with each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.faults.processes import free_port
from toolgen.audit.verify import verify

ROOT = Path(__file__).parents[3]
SERVICE = """
import pathlib
import toolgen

def convert(amount: float) -> float:
    "Converts an amount."
    return amount * 2

gateway = toolgen.Gateway.from_functions(convert, record="record")
pathlib.Path("key").write_text(gateway.key)
app = gateway.asgi()
"""
SERVERS = {
    "uvicorn": ["uvicorn", "service:app", "--host", "127.0.0.1", "--port", "{port}"],
    "hypercorn": ["hypercorn", "service:app", "--bind", "127.0.0.1:{port}"],
    "granian": ["granian", "--interface", "asgi", "--host", "127.0.0.1", "--port", "{port}", "service:app"],
}


@contextmanager
def running(server: str, folder: Path) -> Iterator[str]:
    """A server in a process of its own."""
    port = free_port()
    command = [sys.executable, "-m", *(word.format(port=port) for word in SERVERS[server])]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}"}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        url = f"http://127.0.0.1:{port}"
        transport = httpx.HTTPTransport(retries=9)  # with growing pauses, until it listens
        with httpx.Client(transport=transport, base_url=url, timeout=60) as client:
            assert client.get("/healthz").json() == {"status": "ok"}
        yield url
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, process.stderr.read() if process.stderr else b""


@pytest.mark.parametrize("server", SERVERS)
def test_a_server_opens_it_runs_it_and_closes_it(server: str, tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(SERVICE, encoding="utf-8")
    with running(server, tmp_path) as url:
        headers = {"Authorization": f"Bearer {(tmp_path / 'key').read_text()}"}
        body = {"arguments": {"amount": 2}}
        answer = httpx.post(f"{url}/v1/tools/convert/call", json=body, headers=headers, timeout=60)
        assert answer.json()["data"] == 4.0, answer.text
    assert verify(tmp_path / "record").ok
    assert (
        b"\0" not in (tmp_path / "record" / "gateway-1.jsonl").read_bytes()
    )  # one that is open has room behind its entries
