"""`toolgen serve --workers N` with real processes and a real API, with Redis and without: one port, policy and count, a record each."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import patient
from tests.cli.commands import Run
from tests.gateway.governed import Upstream, project, upstream, write_policy
from tests.messages import line_names
from tests.redis_server import RedisServer
from tests.served_workers import HEALTH, ROOT, Served, serving, until
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.gateway.policies.policy_reloader import INTERVAL_S

RULES = [{"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["redis", "memory"])
def place(request: pytest.FixtureRequest) -> RedisServer | None:
    """Where all workers count: in Redis, or in the process above them."""
    return request.getfixturevalue("redis") if request.param == "redis" else None


@contextlib.contextmanager
def world(root: Path, redis: RedisServer | None, **policy: Any) -> Iterator[tuple[Served, Upstream]]:
    with upstream() as (seen, server):
        whole = {"rules": RULES, **policy}
        state = "memory" if redis is None else f"redis://127.0.0.1:{redis.port}/0"
        path = project(root / "p", server, whole, state=state, gateway={"turn_limit": 4})
        with serving(path, "--workers", "2") as served:
            yield served, seen


def test_each_worker_takes_calls_and_keeps_a_record_and_one_limit_counts_for_all(
    tmp_path: Path, place: RedisServer | None
) -> None:
    limits = [{"id": "few", "per": ["principal"], "rate": "20/h"}]
    with world(tmp_path, place, limits=limits) as (served, seen):
        answers = [served.call().status_code for _ in range(40)]
        assert (answers.count(200), answers.count(429)) == (20, 20)
        assert len(seen.requests) == 20
        assert served.end() == 0
        streams = served.streams()
        assert len(streams) == 2
        assert sum(len(outcomes) for outcomes in streams.values()) == 40
        assert verify(tmp_path / "p" / "var" / "audit").ok


def test_workers_without_redis_share_every_count_and_a_kill_neither_frees_nor_locks_one(tmp_path: Path) -> None:
    rules = [
        *RULES,
        {
            "id": "twice",
            "to": ["bot"],
            "tools": ["orders__list_orders"],
            "verdict": "deny",
            "when": "session.count('*') > 1",
        },
    ]
    limits = [
        {"id": "few", "per": ["principal"], "rate": "20/h", "cost": {"orders__get_health": 1, "*": 0}},
        {"id": "at-once", "per": ["tool"], "concurrency": 2},
    ]
    mail, listing = "/v1/tools/orders__send_mail/call", "/v1/tools/orders__list_orders/call"

    def post(path: str, arguments: dict[str, str], **headers: str) -> httpx.Response:
        who = {"authorization": "Bearer key-of-bot", **{name.replace("_", "-"): text for name, text in headers.items()}}
        return patient.post(served.url + path, json={"arguments": arguments}, headers=who)

    def begun() -> None:
        with contextlib.suppress(httpx.HTTPError):  # its worker is killed
            served.call()

    with world(tmp_path, None, rules=rules, limits=limits) as (served, seen), ThreadPoolExecutor(16) as threads:
        turns = [post(HEALTH, {}, x_conversation_id="turns").status_code for _ in range(8)]
        assert (turns.count(200), turns.count(429)) == (4, 4)
        asked = [post(listing, {"tenant_id": "t"}, x_conversation_id="calls") for _ in range(4)]
        assert [answer.status_code for answer in asked] == [200, 200, 403, 403]
        before = len(seen.requests)
        once = [threads.submit(post, mail, {"to": "x"}, idempotency_key="mail-1") for _ in range(8)]
        assert {answer.result().status_code for answer in once} <= {200, 429}
        assert len(seen.requests) == before + 1
        seen.answers.clear()
        flying = [threads.submit(begun) for _ in range(2)]
        seen.reached(before + 3)
        assert served.call().json()["error"]["rule"] == "at-once"
        old = served.workers()
        for worker in old:
            os.kill(worker, signal.SIGKILL)
        wait(flying)
        seen.answers.set()
        until(lambda: len(served.workers()) == 2 and not {*old} & {*served.workers()})
        answers = [served.call().status_code for _ in range(20)]
        assert (answers.count(200), answers.count(429)) == (14, 6)  # four turns and two in flight had taken theirs
        assert served.end() == 0
        assert verify(tmp_path / "p" / "var" / "audit").ok


@pytest.mark.exhaustive
def test_a_kill_an_edit_a_pause_and_a_revocation_hold_in_every_worker(
    tmp_path: Path, redis: RedisServer, toolgen: Run
) -> None:
    assert 3 * INTERVAL_S < 1  # seen by the next look but one, everywhere: within a second
    with world(tmp_path, redis) as (served, _):
        first = served.workers()
        assert len(first) == 2
        os.kill(first[0], signal.SIGKILL)
        until(lambda: len(served.workers()) == 2 and first[0] not in served.workers())
        assert first[1] in served.workers()
        assert served.codes() == {"ok"}  # what came meanwhile waited on the socket of the dead one
        log = (tmp_path / "p" / "serve.log").read_text(encoding="utf-8")
        assert "ended (SIGKILL); another is started" in log
        deny = {"id": "none", "to": ["bot"], "tools": ["*"], "verdict": "deny"}
        write_policy(tmp_path / "p", {"rules": [*RULES, deny]})
        until(lambda: served.codes() == {"unknown_tool"})
        write_policy(tmp_path / "p", {"rules": RULES})
        until(lambda: served.codes() == {"ok"})
        where = ["--config", str(served.path)]
        assert toolgen("pause", "--source", "orders", *where).code == 0
        until(lambda: served.codes() == {"paused"})
        assert toolgen("resume", *where).code == 0
        until(lambda: served.codes() == {"ok"})
        key = "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest()
        (tmp_path / "p" / "policies" / "keys.yaml").write_text(json.dumps({"revoked": [{"key": key}]}))
        until(served.lets_nobody_in)
        assert served.call().status_code in {401, 429}  # 429 once a worker has seen too many wrong keys
        assert served.end() == 0
        assert verify(tmp_path / "p" / "var" / "audit").ok


@pytest.mark.exhaustive
def test_sighup_reaches_every_worker(tmp_path: Path, redis: RedisServer) -> None:
    with world(tmp_path, redis) as (served, _):
        served.process.send_signal(signal.SIGHUP)
        assert served.codes() == {"ok"}
        assert len(served.workers()) == 2
        assert served.end() == 0


def test_workers_do_not_outlive_the_one_that_started_them(tmp_path: Path, redis: RedisServer) -> None:
    with world(tmp_path, redis) as (served, _):
        workers = served.workers()
        served.process.kill()
        served.process.wait()
        until(lambda: not any(Path(f"/proc/{number}").exists() for number in workers))
        with pytest.raises(httpx.ConnectError):
            served.call()


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        ({}, ["--workers", "0"], "0 workers: must be 1 to 64"),
        ({"gateway": {"workers": 65}}, [], "65 workers: must be 1 to 64"),
        (
            {"state": "redis://127.0.0.1:6379/0"},
            ["--workers", "2", "--host", "192.0.2.1"],
            "cannot listen on 192.0.2.1",
        ),
    ],
)
def test_what_several_workers_cannot_do_is_refused_at_the_start(
    tmp_path: Path, toolgen: Run, settings: dict[str, Any], options: list[str], said: str
) -> None:
    path = project(tmp_path / "p", "http://127.0.0.1:9", {"rules": RULES}, **settings)
    ended = toolgen("serve", "--port", "0", "--config", str(path), *options)
    assert (ended.code, ended.out) == (1, "")
    assert said in ended.err


def test_a_port_that_another_gateway_has_is_refused_though_it_could_be_shared(tmp_path: Path, toolgen: Run) -> None:
    path = project(tmp_path / "p", "http://127.0.0.1:9", {"rules": RULES}, state="redis://127.0.0.1:6379/0")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        options = ["--port", str(taken.getsockname()[1]), "--workers", "2", "--config", str(path)]
        ended = toolgen("serve", *options)
    assert ended.code == 1
    assert line_names(ended.err, "port", "already in use")


def test_a_project_that_no_worker_can_load_ends_with_what_each_said(tmp_path: Path, redis: RedisServer) -> None:
    """The first process reads the project too, so only what changes in between gets so far: here, the audit folder of another owner."""
    path = project(tmp_path / "p", "http://127.0.0.1:9", {"rules": RULES}, state=f"redis://127.0.0.1:{redis.port}/0")
    (tmp_path / "p" / "var").mkdir()
    (tmp_path / "p" / "var" / "audit").write_text("a file where the folder should be")
    command = [sys.executable, "-m", "toolgen", "serve", "--port", "0", "--workers", "2", "--config", str(path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 1
    assert "not every worker" in ended.stderr


@pytest.mark.exhaustive
def test_an_approved_call_is_sent_once_through_pause_reload_revocation_and_kill(
    tmp_path: Path, redis: RedisServer
) -> None:
    mail = {"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"}
    policy = {"rules": [*RULES, mail], "approvals": {"approvers": ["user"], "expires": "1h"}}
    tool = "/v1/tools/orders__send_mail/call"
    where = ["--config", str(tmp_path / "p" / "toolgen.yaml")]

    def toolgen(*arguments: str) -> None:
        subprocess.run([sys.executable, "-m", "toolgen", *arguments, *where], check=True, stdout=subprocess.DEVNULL)

    def ask(served: Served, to: str) -> str:
        answer = patient.post(
            served.url + tool,
            json={"arguments": {"to": to}, "wait": 0},
            headers={"authorization": "Bearer key-of-bot"},
        )
        assert answer.status_code == 202, answer.text
        return str(answer.json()["call_id"])

    def decide(served: Served, call_id: str) -> httpx.Response:
        return patient.post(
            f"{served.url}/v1/approvals/{call_id}",
            json={"decision": "approve"},
            headers={"authorization": "Bearer key-of-eve"},
        )

    def known(served: Served, call_id: str) -> str:
        answer = patient.get(f"{served.url}/v1/calls/{call_id}", headers={"authorization": "Bearer key-of-bot"})
        return str(answer.json().get("error", {}).get("code", answer.json()["status"]))

    with world(tmp_path, redis, **policy) as (served, seen):

        def mails() -> int:
            return sum(path == "/mail" for _, path, _ in seen.requests)

        first, left = ask(served, "x"), ask(served, "y")  # equal calls would be one
        toolgen("pause", "--source", "orders")
        until(lambda: served.codes() == {"paused"})
        assert decide(served, first).status_code == 200
        write_policy(tmp_path / "p", {**policy, "sensitive": ["$..card"]})  # an edit that does not concern it
        until(lambda: len(_reloads(tmp_path / "p")) == 2)
        assert known(served, first) == "approval_required"
        assert mails() == 0
        seen.answers.clear()
        toolgen("resume")
        until(lambda: mails() == 1)
        for number in served.workers():  # whichever carries it out
            os.kill(number, signal.SIGKILL)
        key = "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest()
        seen.answers.set()
        until(lambda: len(served.workers()) == 2)
        until(lambda: known(served, first) == "outcome_unknown")
        (tmp_path / "p" / "policies" / "keys.yaml").write_text(json.dumps({"revoked": [{"key": key}]}))
        until(served.lets_nobody_in)
        assert decide(served, left).json()["error"]["code"] == "expired"
        assert decide(served, first).json()["error"]["code"] == "conflict"
        assert mails() == 1
        assert served.end() == 0
        assert verify(tmp_path / "p" / "var" / "audit").ok


def _reloads(root: Path) -> list[str]:
    found = entries(root / "var" / "audit")
    return [str(entry["stream"]) for entry in found if entry["event"] == "policy"]
