"""How a gateway stops: not ready first, then without its port, then without the calls that were under way, and at once when told twice."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest

from tests import patient
from tests.gateway.governed import Upstream, project, upstream
from tests.served_workers import Served, serving, until
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.frontends.server.signals import SAME_S

RULES = [{"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}]
SEVERAL_TOO = pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.exhaustive)])


@contextlib.contextmanager
def world(root: Path, workers: int, **gateway: str) -> Iterator[tuple[Served, Upstream]]:
    with upstream() as (seen, server):
        path = project(root / "p", server, {"rules": RULES}, gateway=gateway)
        with serving(path, "--workers", str(workers)) as served:
            try:
                yield served, seen
            finally:
                seen.answers.set()


def messages(served: Served) -> list[str]:
    """What was logged, without what a worker's own line may say."""
    lines = (served.path.parent / "serve.log").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["message"] for line in lines if line.startswith("{")]


def readiness(served: Served) -> httpx.Response:
    return patient.get(f"{served.url}/readyz", headers={"authorization": "Bearer key-of-bot"})


def refuses(served: Served) -> bool:
    """Whether nobody listens on the port any more."""
    try:
        patient.get(f"{served.url}/healthz")
    except httpx.ConnectError:
        return True
    except httpx.HTTPError:  # it was accepted, and is closed with the port
        return False
    return False


def told_again(served: Served, number: signal.Signals) -> int:
    """A second signal, after the time in which it would be taken for the first."""
    time.sleep(2 * SAME_S)
    served.process.send_signal(number)
    return served.process.wait(120)


@SEVERAL_TOO
def test_it_is_not_ready_first_and_takes_calls_until_the_grace_is_over(tmp_path: Path, workers: int) -> None:
    with world(tmp_path, workers, grace="50m", drain="1h") as (served, _):
        assert readiness(served).status_code == 200
        served.process.send_signal(signal.SIGTERM)
        until(lambda: {readiness(served).status_code for _ in range(8 * workers)} == {503})
        assert "stopping" in readiness(served).json()["reasons"][0]
        assert served.call().json()["status"] == "ok"
        told_again(served, signal.SIGTERM)
        assert "stopped: SIGTERM, told twice" in messages(served)[-1]


@SEVERAL_TOO
@pytest.mark.parametrize("grace", ["0s", "500ms"])
def test_after_the_grace_the_port_is_closed_and_calls_under_way_end(tmp_path: Path, workers: int, grace: str) -> None:
    with world(tmp_path, workers, grace=grace) as (served, seen), ThreadPoolExecutor() as threads:
        seen.answers.clear()
        flying = threads.submit(served.call)
        seen.reached(1)
        served.process.send_signal(signal.SIGTERM)
        until(lambda: refuses(served))
        assert served.process.poll() is None
        seen.answers.set()
        assert flying.result().json()["status"] == "ok"
        assert served.process.wait(120) == 0
        assert messages(served)[-1] == "stopped: SIGTERM"
        assert verify(served.path.parent / "var" / "audit").ok


@SEVERAL_TOO
def test_somebody_at_the_keyboard_waits_for_no_grace(tmp_path: Path, workers: int) -> None:
    with world(tmp_path, workers, grace="50m", drain="1h") as (served, _):
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(120) == 0
        assert messages(served)[-1] == "stopped: SIGINT"


@SEVERAL_TOO
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.exhaustive)])
def test_told_twice_it_ends_at_once_and_records_what_it_left(
    tmp_path: Path, workers: int, number: signal.Signals
) -> None:
    with world(tmp_path, workers, drain="1h") as (served, seen), ThreadPoolExecutor() as threads:
        seen.answers.clear()
        flying = threads.submit(answer, served)
        seen.reached(1)
        served.process.send_signal(number)
        until(lambda: refuses(served))
        assert told_again(served, number) == 0
        assert messages(served)[-1] == f"stopped: {number.name}, told twice"
        assert flying.result() in {"cancelled", "gone"}
        assert_recorded(served, ("cancelled", "cancelled"))


def test_a_call_that_outlives_the_time_to_drain_does_not_keep_the_process(tmp_path: Path) -> None:
    with world(tmp_path, 1, drain="1s") as (served, seen), ThreadPoolExecutor() as threads:
        seen.answers.clear()
        flying = threads.submit(answer, served, "send_mail", {"to": "x"})
        seen.reached(1)
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(20) == 0  # the call itself may take 30 s
        assert "stopped: SIGTERM" in messages(served)[-1]
        assert flying.result() in {"outcome_unknown", "gone"}
        assert_recorded(served, ("error", "outcome_unknown"))


def test_the_same_signal_twice_in_a_moment_counts_once(tmp_path: Path) -> None:
    """`timeout` and some shells send it to the process and to its group."""
    with world(tmp_path, 1) as (served, seen), ThreadPoolExecutor() as threads:
        seen.answers.clear()
        flying = threads.submit(served.call)
        seen.reached(1)
        os.kill(served.process.pid, signal.SIGSTOP)
        os.kill(served.process.pid, signal.SIGINT)
        os.kill(served.process.pid, signal.SIGTERM)
        os.kill(served.process.pid, signal.SIGCONT)
        until(lambda: refuses(served))
        seen.answers.set()
        assert flying.result().json()["status"] == "ok"
        assert served.process.wait(120) == 0


def answer(served: Served, tool: str = "get_health", arguments: Mapping[str, str] = MappingProxyType({})) -> str:
    """How a call ended, or that it had no answer."""
    body, who = {"arguments": dict(arguments)}, {"authorization": "Bearer key-of-bot"}
    try:
        return str(
            patient.post(f"{served.url}/v1/tools/orders__{tool}/call", json=body, headers=who).json()["error"]["code"]
        )
    except httpx.HTTPError:
        return "gone"


def assert_recorded(served: Served, outcome: tuple[str, str]) -> None:
    """The one call is on record with an ending that is honest about what is not known, and the record is whole."""
    found: list[dict[str, Any]] = [dict(entry) for entry in entries(served.path.parent / "var" / "audit")]
    outcomes = [entry for entry in found if entry["event"] == "outcome"]
    assert [(entry["status"], entry["code"]) for entry in outcomes] == [outcome], found
    assert verify(served.path.parent / "var" / "audit").ok
