"""A policy that changes while the gateway runs: in force within a second, whole or not at all, and recorded."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.clients import BASE, bearer
from tests.gateway.governed import project as governed
from tests.gateway.governed import upstream, write_policy
from tests.patient import until
from tests.projects import KEY, POLICY, audit_entries, make_project
from toolgen.audit.reader import entries
from toolgen.core.clock import FixedClock
from toolgen.frontends.http.app import App
from toolgen.frontends.python import gateway as python_gateway
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.policies import policy_reloader
from toolgen.gateway.policies.policy_reloader import state_of
from toolgen.model.call import Principal
from toolgen.policy.document.policy_files import PolicyFiles, read_files
from toolgen.state.rate_limits import WaitingBuckets

ALL = {"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}
QUERY = {"sql": "SELECT count(*) FROM customers"}


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway in this process looks ten times as often as one that is served, where the time between looks is not what is tried."""
    monkeypatch.setattr(policy_reloader, "INTERVAL_S", policy_reloader.INTERVAL_S / 10)
    monkeypatch.setattr(policy_reloader, "SETTLED_S", policy_reloader.SETTLED_S / 10)


def changed(**sections: Any) -> str:
    return json.dumps({**copy.deepcopy(POLICY), **sections})


def write(project: Path, text: str) -> None:
    (project.parent / "policies" / "policy.yaml").write_text(text, encoding="utf-8")


def in_line(gateway: Gateway) -> int:
    """How many calls wait for their turn at a limit."""
    buckets = gateway._shared.buckets
    assert isinstance(buckets, WaitingBuckets)
    return buckets._waiting


def notes(project: Path) -> list[tuple[str, str]]:
    found = entries(project.parent / "var" / "audit")
    return [(entry["status"], entry["policy_digest"]) for entry in found if entry["event"] == "policy"]


async def test_an_edit_is_in_force_without_a_restart_and_stands_in_the_audit(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    async with Gateway.load(project) as gateway:
        before = gateway.policy.digest
        assert (await gateway.call("shop__query", QUERY, principal="bot")).status == "ok"
        write(project, changed(rules=[{"id": "none", "to": ["bot"], "tools": ["*"], "verdict": "deny"}]))
        await until(lambda: gateway.policy.digest != before)
        refused = await gateway.call("shop__query", QUERY, principal="bot")
        assert refused.error is not None
        assert refused.error.code == "unknown_tool"
        assert gateway.tool_calls.catalog(gateway.principal("bot")) == ()
        assert gateway.operations.warnings() == ()
        await until(lambda: notes(project)[-1:] == [("ok", gateway.policy.digest)])


async def test_a_key_that_is_taken_away_stops_working(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    async with Gateway.load(project) as gateway:
        assert isinstance(await gateway.callers.authenticate(KEY), Principal)
        write(project, changed(principals={**POLICY["principals"], "bot": {"roles": ["bot"], "acts_for": ["ann"]}}))
        await until(lambda: gateway.callers.recognised(KEY) is None)


@pytest.mark.parametrize(
    "broken",
    [
        "principals: {",
        changed(rules=[{"id": "r", "to": ["nobody"], "tools": ["*"], "verdict": "allow"}]),
        changed(nonsense=1),
        "",
    ],
)
async def test_a_broken_edit_changes_nothing_and_is_said_wherever_somebody_looks(
    tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    project = make_project(tmp_path)
    transport = httpx.ASGITransport(App(gateway := Gateway.load(project)))
    async with gateway, httpx.AsyncClient(transport=transport, base_url=BASE) as http:
        before = gateway.policy.digest
        write(project, broken)
        await until(lambda: gateway.operations.warnings() != () and notes(project) != [])
        assert gateway.policy.digest == before
        assert (await gateway.call("shop__query", QUERY, principal="bot")).status == "ok"
        assert notes(project) == [("error", before)]
        anybody = await http.get("/readyz")
        assert (anybody.status_code, anybody.json()) == (200, {"status": "ready"})
        (warning,) = (await http.get("/readyz", headers=bearer(KEY))).json()["warnings"]
        assert "not in force: policies/" in warning
        assert warning in caplog.text
        write(project, changed(sensitive=["$..card"]))
        await until(lambda: gateway.policy.digest != before)
        assert gateway.operations.warnings() == ()


async def test_a_directory_that_goes_away_is_a_broken_edit(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    async with Gateway.load(project) as gateway:
        (project.parent / "policies").rename(project.parent / "gone")
        await until(lambda: gateway.operations.warnings() != ())
        assert (await gateway.call("shop__query", QUERY, principal="bot")).status == "ok"


async def test_a_call_ends_under_the_policy_it_began_under(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    async with Gateway.load(project) as gateway:
        call = asyncio.ensure_future(gateway.call("shop__query", QUERY, principal="bot"))
        await asyncio.sleep(0)
        write(project, changed(sensitive=["$..card"]))
        assert await gateway.operations.reload()
        assert (await call).status == "ok"
        entry = audit_entries(gateway, limit=10)
        digests = {item["event"]: item.get("policy_digest") for item in entry}
        assert digests["intent"] != digests["policy"] == gateway.policy.digest


@pytest.mark.parametrize(
    ("edit", "code", "sent"),
    [
        ({"rules": [{"id": "none", "to": ["bot"], "tools": ["*"], "verdict": "deny"}]}, "expired", 1),
        ({"redact": [{"tools": ["orders__get_health"], "fields": ["$..ok"], "with": "-"}]}, "expired", 1),
        ({"principals": {"other": {"roles": ["bot"]}, "bot": {"roles": ["reader"]}}}, "expired", 1),
        ({"sensitive": ["$..card"]}, "ok", 2),
        ({"rules": [ALL, {"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "deny"}]}, "ok", 2),
    ],
)
async def test_what_waits_at_a_limit_is_not_sent_where_the_policy_in_force_by_then_might_decide_otherwise(
    tmp_path: Path, edit: dict[str, Any], code: str, sent: int
) -> None:
    slow = {"id": "turns", "per": ["principal"], "rate": "10/s", "burst": 1, "wait": "30s"}
    policy = {"rules": [ALL], "limits": [slow]}

    with upstream() as (seen, server):
        path = governed(tmp_path / "p", server, policy)
        clock = FixedClock()
        loaded = Gateway.load(path)
        async with Gateway(
            settings=loaded.settings, manifest=loaded.manifest, policy=loaded.policy, clock=clock
        ) as gateway:
            assert (await gateway.call("orders__get_health", {}, principal="bot")).status == "ok"
            waiting = asyncio.create_task(gateway.call("orders__get_health", {}, principal="bot"))
            await until(lambda: in_line(gateway) == 1)
            write_policy(path.parent, {**policy, **edit})
            assert await gateway.operations.reload()
            clock.advance(1)
            answer = await waiting
            found = answer.status if answer.error is None else answer.error.code
        assert found == code
        assert len(seen.requests) == sent


async def test_limits_are_not_forgiven_by_an_edit(tmp_path: Path) -> None:
    limit = {"id": "few", "per": ["principal"], "rate": "2/h"}
    project = make_project(tmp_path, policy={**POLICY, "limits": [limit]})
    async with Gateway.load(project) as gateway:
        for _ in range(2):
            assert (await gateway.call("shop__query", QUERY, principal="bot")).status == "ok"
        write(project, changed(limits=[limit], sensitive=["$..card"]))
        assert await gateway.operations.reload()
        refused = await gateway.call("shop__query", QUERY, principal="bot")
        assert refused.error is not None
        assert refused.error.code == "rate_limited"


def test_a_link_that_leads_elsewhere_is_a_change(tmp_path: Path) -> None:
    """How Kubernetes changes a mounted ConfigMap: the files stay links, and what they lead to is another file."""
    (tmp_path / "one").write_text("a")
    (tmp_path / "two").write_text("b")
    folder = tmp_path / "policies"
    folder.mkdir()
    (folder / "policy.yaml").symlink_to(tmp_path / "one")
    known = state_of(folder)
    (tmp_path / "link").symlink_to(tmp_path / "two")
    os.replace(tmp_path / "link", folder / "policy.yaml")
    assert state_of(folder) != known


async def test_files_that_never_rest_hold_back_no_change(tmp_path: Path) -> None:
    project = make_project(tmp_path)

    async def scribble() -> None:
        while True:
            (project.parent / "policies" / "more.yaml").write_text(f"sensitive: ['$..x']  # {time.monotonic_ns()}")
            await asyncio.sleep(0.01)

    async with Gateway.load(project) as gateway:
        scribbling = asyncio.create_task(scribble())
        assert isinstance(await gateway.callers.authenticate(KEY), Principal)
        revoked = {"revoked": [{"key": "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()}]}
        (project.parent / "policies" / "keys.yaml").write_text(json.dumps(revoked))
        await until(lambda: gateway.callers.recognised(KEY) is None)
        scribbling.cancel()


def test_hidden_files_and_notes_are_no_change(tmp_path: Path) -> None:
    known = state_of(tmp_path)
    (tmp_path / ".policy.yaml.swp").write_text("an editor's")
    (tmp_path / "notes.md").write_text("a person's")
    assert state_of(tmp_path) == known


async def test_an_edit_between_reading_and_starting_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = make_project(tmp_path)
    none = changed(rules=[{"id": "none", "to": ["bot"], "tools": ["*"], "verdict": "deny"}])

    def edited_behind(directory: Path) -> PolicyFiles:
        files = read_files(directory)
        write(project, none)
        return files

    with monkeypatch.context() as patch:
        patch.setattr(python_gateway, "read_files", edited_behind)
        gateway = Gateway.load(project)
    before = gateway.policy.digest
    async with gateway:
        await until(lambda: gateway.policy.digest != before)


async def test_an_edit_that_breaks_the_reader_is_said_and_does_not_end_the_watching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path)

    def breaks(*_: object) -> PolicyFiles:
        raise RecursionError("deep")

    async with Gateway.load(project) as gateway:
        before = gateway.policy.digest
        with monkeypatch.context() as patch:
            patch.setattr(policy_reloader, "read_files", breaks)
            write(project, changed(sensitive=["$..card"]))
            await until(lambda: gateway.operations.warnings() != () and notes(project) != [])
            assert notes(project) == [("error", before)]
        write(project, changed(sensitive=["$..card_number"]))
        await until(lambda: gateway.policy.digest != before)
        assert gateway.operations.warnings() == ()


def test_sighup_reads_the_policy_again(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    command = [sys.executable, "-m", "toolgen", "serve", "--port", "0"]
    environment = {**os.environ, "TEST_PETS_KEY": "canary"}
    with subprocess.Popen(command, cwd=project.parent, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert "listening on" in process.stderr.readline()
            write(project, "rules: [")
            process.send_signal(signal.SIGHUP)
            assert "not in force: policies/policy.yaml" in process.stderr.readline()
            process.terminate()
            assert process.wait(120) == 0
        finally:
            process.kill()
