"""SIGKILL in the middle of a call: the intent is on the disk, verifies, and shows as unfinished."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests import patient
from tests.audit.drawn_logs import calls
from tests.cli.commands import served
from tests.projects import KEY, make_project
from toolgen.audit.verify import verify

HEADERS = {"authorization": f"Bearer {KEY}"}


@contextlib.contextmanager
def silent_upstream() -> Iterator[tuple[int, threading.Event]]:
    """A port that takes a request and never answers; the event is set once one has arrived."""
    arrived = threading.Event()
    held: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    held.append(connection)
                    if b"GET /pets/5" in connection.recv(4096):
                        arrived.set()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], arrived
        for connection in held:
            connection.close()


def toolgen(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toolgen", *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_killing_the_gateway_during_a_call_leaves_an_unfinished_intent(tmp_path: Path) -> None:
    with silent_upstream() as (port, arrived):
        project = make_project(tmp_path / "project", server=f"http://127.0.0.1:{port}").parent
        with served(project) as (process, url):
            done = patient.post(
                f"{url}/v1/tools/shop__query/call", json={"arguments": {"sql": "SELECT 1"}}, headers=HEADERS
            )
            assert done.json()["status"] == "ok"

            def call() -> None:
                with contextlib.suppress(httpx.HTTPError):
                    patient.post(
                        f"{url}/v1/tools/pets__get_pet/call", json={"arguments": {"petId": 5}}, headers=HEADERS
                    )

            caller = threading.Thread(target=call)
            caller.start()
            assert arrived.wait(120)
            # What the upstream has heard of is on the disk already: read it while the gateway still runs.
            assert [row["status"] for row in calls(project / "var" / "audit")] == ["ok", "unfinished"]
            process.send_signal(signal.SIGKILL)
            caller.join(20)
        verified = toolgen(project, "audit", "verify")
        assert verified.returncode == 0
        assert "3 entries in 1 stream(s): intact" in verified.stdout
        assert "unfinished: call_" in verified.stdout
        listed = json.loads(toolgen(project, "audit", "list", "--json", "--status", "unfinished").stdout)
        assert [(row["tool"], row["principal"], row["arguments"]) for row in listed] == [
            ("pets__get_pet", "bot", {"petId": 5})
        ]
        assert "unfinished" in toolgen(project, "audit", "list").stdout
        with served(project) as (_, url):
            again = patient.post(
                f"{url}/v1/tools/shop__query/call", json={"arguments": {"sql": "SELECT 1"}}, headers=HEADERS
            )
            assert again.json()["status"] == "ok"
        report = verify(project / "var" / "audit")
        assert report.ok
        assert (report.entries, report.unfinished) == (7, ())
        assert [row.get("code") for row in calls(project / "var" / "audit")] == [None, "cancelled", None]


def test_a_gateway_that_cannot_record_makes_no_call_and_recovers_by_itself(tmp_path: Path) -> None:
    with silent_upstream() as (port, arrived):
        project = make_project(tmp_path / "project", server=f"http://127.0.0.1:{port}").parent
        var, audit = project / "var", project / "var" / "audit"
        call, query = {"arguments": {"petId": 5}}, {"arguments": {"sql": "SELECT 1"}}
        with served(project) as (_, url):
            for lost in (var, audit):
                for damage in ("a dead link in its place", "a file in its place"):
                    assert patient.get(f"{url}/readyz").status_code == 200, damage
                    lost.rename(project / "away")
                    if damage == "a file in its place":
                        lost.write_text("in the way", encoding="utf-8")
                    else:
                        lost.symlink_to("/proc/self/nowhere/audit")
                    refused = patient.post(f"{url}/v1/tools/pets__get_pet/call", json=call, headers=HEADERS)
                    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "audit_unavailable"), damage
                    assert patient.get(f"{url}/readyz").status_code == 503, damage
                    assert not arrived.is_set()
                    lost.unlink()
                    (project / "away").rename(lost)
                    again = patient.post(f"{url}/v1/tools/shop__query/call", json=query, headers=HEADERS)
                    assert again.json()["status"] == "ok", damage
            assert patient.get(f"{url}/readyz").status_code == 200
        assert verify(audit).ok
