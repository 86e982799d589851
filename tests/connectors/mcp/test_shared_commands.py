"""Bridged servers with several workers: one process, one session, one memory, whatever becomes of a worker or of the server."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests import patient
from tests.cli.commands import Run, runner
from tests.redis_server import RedisServer
from tests.served_workers import Served, serving, until
from tests.services.bridged import READING, ROOT, over_http, write_project
from toolgen.audit.reader import entries

KEY, OTHER = {"authorization": "Bearer key-of-bot"}, {"authorization": "Bearer key-of-other"}
LONG = 1_500_000
BOT = {"api_key": "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest(), "roles": ["bot"]}
ELSE = {"api_key": "sha256:" + hashlib.sha256(b"key-of-other").hexdigest(), "roles": ["bot"]}
POLICY = {**READING, "principals": {**READING["principals"], "bot": BOT, "other": ELSE}}


class World:
    """A gateway of two workers before an unruly server, which keeps a count and says what it heard."""

    def __init__(self, root: Path, served: Served) -> None:
        self.root, self.served = root, served
        self.ended: list[str] = []  # how calls that waited ended

    def call(self, name: str, *, by: dict[str, str] = KEY, **arguments: Any) -> dict[str, Any]:
        """One call on a connection of its own, so that any worker may get it."""
        answer = patient.post(f"{self.served.url}/v1/tools/far__{name}/call", json={"arguments": arguments}, headers=by)
        found: dict[str, Any] = answer.json()
        return found

    def code(self, name: str, **arguments: Any) -> str:
        envelope = self.call(name, **arguments)
        return str(envelope.get("error", {}).get("code", envelope["status"]))

    def counted(self, times: int = 16, by: dict[str, str] = KEY) -> list[tuple[int, int]]:
        """How often the server was called, and by which number its process goes, of so many calls."""
        found = [str(self.call("who_read", by=by)["data"]).split(" of ") for _ in range(times)]
        return [(int(count), int(process)) for count, process in found]

    def heard(self) -> list[str]:
        path = self.root / "heard"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def commands(self) -> list[int]:
        """The processes of the server."""
        mine = b"\0" + str(self.root / "state.json").encode() + b"\0"
        return [int(one) for one in os.listdir("/proc") if one.isdigit() and mine in _command_line(one)]

    def workers(self) -> list[int]:
        return [one for one in self.served.workers() if b"toolgen.frontends.server.worker" in _command_line(str(one))]

    def streams(self) -> set[str]:
        """The workers that have begun calls."""
        found = entries(self.root / "audit")
        return {str(entry["stream"]) for entry in found if entry["event"] == "intent"}

    @contextlib.contextmanager
    def waiting(self, workers: int = 2) -> Iterator[list[HTTPConnection]]:
        """Calls that wait at the server until they are called off, some by each worker; the connections that made them."""
        clients: list[HTTPConnection] = []
        threads: list[threading.Thread] = []
        before, begun = self.heard().count("waiting"), len(self.intents())
        while len({stream for stream, _ in self.intents()[begun:]}) < workers:
            clients.append(HTTPConnection(urlsplit(self.served.url).netloc, timeout=120))
            threads.append(threading.Thread(target=self._wait, args=(clients[-1],)))
            threads[-1].start()
            until(lambda: self.heard().count("waiting") - before == len(clients))
        try:
            yield clients
        finally:
            for client in clients:
                if client.sock is not None:
                    with contextlib.suppress(OSError):
                        client.sock.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()

    def intents(self) -> list[tuple[str, str]]:
        found = entries(self.root / "audit")
        return [(str(one["stream"]), str(one["call_id"])) for one in found if one["event"] == "intent"]

    def _wait(self, client: HTTPConnection) -> None:
        with contextlib.suppress(HTTPException, OSError, ValueError):
            client.request("POST", "/v1/tools/far__wait_read/call", "{}", {**KEY, "content-type": "application/json"})
            self.ended.append(str(json.loads(client.getresponse().read())["error"]["code"]))
        client.close()


def _command_line(process: str) -> bytes:
    try:
        return Path("/proc", process, "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture(name="redis")
def _redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


def served_to(root: Path, redis: RedisServer, toolgen: Run, server: dict[str, Any]) -> Iterator[World]:
    path = write_project(root, POLICY, mcp={**server, "annotations": "trusted"})
    settings = {**json.loads(path.read_bytes()), "state": f"redis://127.0.0.1:{redis.port}/0"}
    path.write_text(json.dumps(settings), encoding="utf-8")
    assert toolgen("build").code == 0
    (root / "heard").unlink()
    with serving(path, "--workers", "2") as served:
        yield World(root, served)


@pytest.fixture(name="root")
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "p"
    root.mkdir()
    monkeypatch.chdir(root)
    return root


@pytest.fixture(name="command")
def _command(root: Path) -> list[str]:
    return [sys.executable, "-B", str(ROOT / "tests" / "services" / "mcp_unruly.py"), str(root / "state.json")]


@pytest.fixture(name="world")
def _world(
    root: Path, redis: RedisServer, command: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> Iterator[World]:
    yield from served_to(root, redis, runner(capfdbinary), {"command": command})


@pytest.fixture(name="far_world")
def _far_world(
    root: Path, redis: RedisServer, command: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> Iterator[World]:
    """The server at a URL, with a memory for each of its sessions."""
    (root / "state.json").write_text(json.dumps({"own": True, "unknown": 404}), encoding="utf-8")
    with over_http(*command) as url:
        yield from served_to(root, redis, runner(capfdbinary), {"url": url})


def test_two_workers_have_one_process_and_one_memory_and_it_has_nothing_of_theirs(world: World) -> None:
    with ThreadPoolExecutor(4) as threads:
        found = [one for many in threads.map(lambda _: world.counted(8), range(4)) for one in many]
    assert len(world.streams()) == 2
    assert len({process for _, process in found}) == 1
    assert sorted(count for count, _ in found) == list(range(1, 33))
    assert world.heard().count("initialize") == 1
    assert world.heard().count("notifications/initialized") == 1
    (command,) = world.commands()
    # Neither their sockets nor their port: what it started could speak to other commands over them.
    folder = Path("/proc", str(command), "fd")
    assert not [one for one in folder.iterdir() if os.readlink(one).startswith("socket:") and int(one.name) > 2]


@pytest.mark.exhaustive
def test_a_command_that_is_killed_is_told_to_all_and_begun_once_more(world: World) -> None:
    with world.waiting() as clients:
        (before,) = world.commands()
        os.kill(before, signal.SIGKILL)
        until(lambda: len(world.ended) == len(clients))
        assert set(world.ended) == {"upstream_error"}
    with ThreadPoolExecutor(4) as threads:
        found = [one for many in threads.map(lambda _: world.counted(4), range(4)) for one in many]
    (after,) = world.commands()
    assert {process for _, process in found} == {after}
    assert after != before
    assert sorted(count for count, _ in found) == list(range(1, 17))
    assert world.heard().count("initialize") == 2


def test_a_worker_that_is_killed_takes_its_own_calls_with_it_and_no_others(world: World) -> None:
    with world.waiting() as clients:
        before, workers = world.commands(), world.workers()
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        until(lambda: "notifications/cancelled" in world.heard())
        until(lambda: len(world.workers()) == 2 and workers[0] not in world.workers())
        assert world.commands() == before
        assert not world.ended
        found = world.counted(16)
        assert {process for _, process in found} == set(before)
        assert [count for count, _ in found] == list(range(len(clients) + 1, len(clients) + 17))
        assert world.heard().count("notifications/cancelled") < len(clients)
    assert world.heard().count("initialize") == 1


@pytest.mark.exhaustive
def test_callers_that_leave_and_long_answers_in_either_worker_end_their_own_calls(world: World) -> None:
    with world.waiting() as clients:
        pass
    until(lambda: world.heard().count("notifications/cancelled") == len(clients))
    assert world.code("fine") == "ok"
    with world.waiting():
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda _: world.code("long_read", size=LONG), range(12)))
        assert set(found) == {"response_too_large"}
        assert not world.ended
        assert world.code("fine") == "ok"
    assert world.heard().count("initialize") == 1
    _the_command_ends_with(world, signal.SIGTERM)


@pytest.mark.exhaustive
def test_the_command_ends_with_a_gateway_that_is_killed(world: World) -> None:
    _the_command_ends_with(world, signal.SIGKILL)


def _the_command_ends_with(world: World, how: signal.Signals) -> None:
    assert {process for _, process in world.counted()} == set(world.commands())
    world.served.process.send_signal(how)
    assert world.served.process.wait(timeout=120) == (0 if how is signal.SIGTERM else -how)
    until(lambda: not world.commands())


def counts(world: World, times: int, by: dict[str, str] = KEY) -> list[int]:
    """What the server counted in so many calls, many of them at a time."""
    with ThreadPoolExecutor(4) as threads:
        found = [one for many in threads.map(lambda _: world.counted(times // 4, by), range(4)) for one in many]
    return sorted(count for count, _ in found)


def test_workers_share_one_session_of_each_caller_over_http(far_world: World) -> None:
    assert counts(far_world, 32) == list(range(1, 33))
    assert counts(far_world, 16, OTHER) == list(range(1, 17))
    assert len(far_world.streams()) == 2
    assert far_world.heard().count("initialize") == 2
    asked = [one for one in far_world.heard() if one.startswith("session-") and not one.endswith("told")]
    assert len(set(asked)) == len(asked)


@pytest.mark.exhaustive
def test_workers_meet_a_server_again_together_that_forgot_their_session(far_world: World) -> None:
    assert counts(far_world, 16) == list(range(1, 17))
    (far_world.root / "state.json").write_text(json.dumps({"own": True, "unknown": 404, "run": 1}), encoding="utf-8")
    assert counts(far_world, 32) == list(range(1, 33))
    assert far_world.heard().count("initialize") == 2


@pytest.mark.exhaustive
def test_a_session_outlives_the_worker_that_began_it(far_world: World) -> None:
    assert counts(far_world, 16) == list(range(1, 17))
    for worker in far_world.workers():
        before = far_world.workers()
        os.kill(worker, signal.SIGKILL)
        until(lambda before=before: len(far_world.workers()) == 2 and far_world.workers() != before)  # type: ignore[misc]
    assert counts(far_world, 16) == list(range(17, 33))
    assert far_world.heard().count("initialize") == 1
