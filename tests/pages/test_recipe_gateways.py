"""The recipes for two gateways and for high availability, done wholly: two gateways of the files on the page, with one Redis."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import patient
from tests.forked_cli import forked_cli
from tests.gateway.governed import Upstream, upstream
from tests.pages.test_policy_cookbook import run
from tests.pages.test_recipes import PROJECT, RECIPES, ROOT, title, write_files
from tests.redis_server import RedisServer
from tests.served_workers import Served, serving, until

READ, DELETE = "orders__get_order_by_id", "orders__delete_order"
RULES = """\
rules:
  - {{id: deletes, to: [support], tools: [{delete}], verdict: ask}}
approvals: {{approvers: [lead], expires: 1h}}
limits:
  - {{id: few, per: [principal], tools: [{read}], rate: 2/hour, burst: 2}}
egress: {{private_networks: allow}}
"""


def recipe(name: str) -> str:
    return next(one for one in RECIPES if title(one) == name)


@contextlib.contextmanager
def two_gateways(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Served, Served, Upstream]]:
    """Two gateways as the recipe makes them, each with its own folder, and the service behind them."""
    monkeypatch.setenv("ORDERS_KEY", "key-0123456789")
    redis = RedisServer(tmp_path)
    redis.start()
    first, second = tmp_path / "project", tmp_path / "project" / "second"
    first.mkdir()
    shutil.copytree(ROOT / "specs", first / "specs")
    write_files(PROJECT, first)
    write_files(recipe("Run two gateways"), first)
    settings = (first / "toolgen.yaml").read_text(encoding="utf-8")
    write_files(recipe(name), first)
    try:
        with upstream() as (seen, server), forked_cli() as toolgen:
            if name != "Run two gateways":  # which it builds on
                state = next(line for line in settings.splitlines() if line.startswith("state:"))
                settings = (first / "toolgen.yaml").read_text(encoding="utf-8") + state + "\n"
            settings = settings.replace("https://orders.example.com", server).replace(":6379", f":{redis.port}")
            (first / "toolgen.yaml").write_text(settings, encoding="utf-8")
            who = (first / "policies" / "who.yaml").read_text(encoding="utf-8")
            for person in ("bot", "lena"):
                key = hashlib.sha256(f"key-of-{person}".encode()).hexdigest()
                who = who.replace(f"  {person}: {{", f'  {person}: {{api_key: "sha256:{key}", ')
            (first / "policies" / "who.yaml").write_text(who, encoding="utf-8")
            (first / "policies" / "more.yaml").write_text(RULES.format(read=READ, delete=DELETE), encoding="utf-8")
            built = run(f"{toolgen}toolgen build", first)
            assert built.returncode == 0, built.stdout
            with serving(first / "toolgen.yaml") as one:
                copied = (
                    "mkdir -p second/var/audit && cp -r toolgen.yaml toolgen.lock specs policies generated second/ && "
                    "cp var/audit/seal.key second/var/audit/"
                )
                first_to_wait = call(one, DELETE, {"order_id": "o0"})  # the key is made when it is needed
                assert first_to_wait["status"] == "pending", first_to_wait
                done = run(copied, first)
                assert done.returncode == 0, done.stdout
                with serving(second / "toolgen.yaml") as two:
                    try:
                        yield one, two, seen
                    finally:
                        seen.answers.set()
    finally:
        redis.stop()


def ask(served: Served, path: str, who: str = "bot", **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer key-of-{who}"}
    if body:
        return patient.post(served.url + path, json=body, headers=headers)
    return patient.get(served.url + path, headers=headers)


def call(served: Served, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    wait = {"wait": 0} if tool == DELETE else {}  # it waits for a person
    return dict(ask(served, f"/v1/tools/{tool}/call", arguments=arguments, **wait).json())


def agreed(served: Served, call_id: str) -> None:
    """A lead agrees to a call by this gateway, which then carries it out."""
    waiting = ask(served, "/v1/approvals", "lena").json()["approvals"]
    assert call_id in [one["id"] for one in waiting]
    assert ask(served, f"/v1/approvals/{call_id}", "lena", decision="approve").status_code == 200
    until(lambda: ask(served, f"/v1/calls/{call_id}").json()["status"] != "pending")
    assert ask(served, f"/v1/calls/{call_id}").json()["status"] == "ok"


def takes_no_more(served: Served) -> bool:
    """Whether a load balancer that asks sends no more calls: it is told so, and after a while the port is closed."""
    try:
        return ask(served, "/readyz").status_code == 503
    except httpx.ConnectError:
        return True


def test_two_gateways_have_one_count_of_limits_and_one_list_of_approvals_and_of_pauses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_gateways(tmp_path, "Run two gateways", monkeypatch) as (one, two, _), forked_cli() as toolgen:
        codes = [call(served, READ, {"order_id": "o1"}) for served in (one, two, one, two)]
        assert [found["status"] for found in codes] == ["ok", "ok", "refused", "refused"], codes
        assert {found["error"]["code"] for found in codes[2:]} == {"rate_limited"}
        waiting = call(one, DELETE, {"order_id": "o2"})
        assert waiting["status"] == "pending"
        agreed(two, waiting["call_id"])
        assert ask(one, f"/v1/calls/{waiting['call_id']}").json()["status"] == "ok"
        paused = run(f'{toolgen}toolgen pause --principal bot --reason "looking into it"', one.path.parent)
        assert paused.returncode == 0, paused.stdout
        until(lambda: call(two, DELETE, {"order_id": "o3"})["error"]["code"] == "paused")
        assert "looking into it" in run(f"{toolgen}toolgen pause", two.path.parent).stdout


@pytest.mark.exhaustive
def test_calls_go_on_when_a_process_or_a_machine_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with two_gateways(tmp_path, "High availability", monkeypatch) as (one, two, seen), ThreadPoolExecutor() as threads:
        assert ask(one, "/readyz").status_code == ask(two, "/readyz").status_code == 200
        until(lambda: len(one.workers()) == 2)
        died, survivor = one.workers()
        os.kill(died, signal.SIGKILL)
        until(lambda: len(one.workers()) == 2 and died not in one.workers())
        assert survivor in one.workers()
        assert call(one, READ, {"order_id": "o1"})["status"] == "ok"
        # The machine: all processes at once.
        for number in (one.process.pid, *one.workers()):
            os.kill(number, signal.SIGKILL)
        one.process.wait(120)
        found = call(two, READ, {"order_id": "o1"})
        assert found["status"] == "ok", found
        assert call(two, READ, {"order_id": "o1"})["error"]["code"] == "rate_limited"  # the count of both
        # Told to stop, it says so to the load balancer first, and calls under way end.
        seen.answers.clear()
        before = len(seen.requests)
        flying = threads.submit(call, two, "orders__list_orders", {})
        seen.reached(before + 1)
        two.process.send_signal(signal.SIGTERM)
        until(lambda: takes_no_more(two))
        seen.answers.set()
        assert flying.result()["status"] == "ok"
        assert two.process.wait(120) == 0
