"""The time that a whole workflow may take: what is under way when it is over, what is begun no more, and what is taken back."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.workflows import ALLOWED, built, faults, record, served
from tests.messages import line_names
from toolgen.model.tool import WorkflowBinding

FIND = {"id": "find", "call": "notes__search_issues", "with": {"q": "x"}}
WRITE = {
    "id": "write",
    "call": "notes__create_note",
    "with": {"text": "a"},
    "undo": {"call": "notes__delete_note", "with": {"id": "$data.id"}},
}
REPORT = {"id": "report", "call": "notes__send_report", "with": {"text": "b"}}
ASKED = {"id": "asks", "to": ["bot"], "tools": ["notes__send_report"], "verdict": "ask"}


def flow(*steps: dict[str, Any], timeout: str = "400ms") -> dict[str, Any]:
    return {"fix": {"timeout": timeout, "steps": list(steps)}}


async def test_a_write_under_way_is_broken_off_and_what_was_done_is_taken_back(tmp_path: Path) -> None:
    async with served(tmp_path, flow(WRITE, REPORT, FIND)) as (gateway, service):
        held = service.held["/report"] = threading.Event()
        answer = await gateway.call("flows__fix", {}, principal="bot")
        held.set()
    entries = record(tmp_path)
    assert answer.error.code == "outcome_unknown"
    assert answer.data["failed"]["step"] == "report"
    assert [one["step"] for one in answer.data["undone"]] == ["write"]
    assert answer.data["not_done"] == ["find"]
    assert sorted(service.paths) == ["DELETE /notes/1", "POST /notes", "POST /report"]
    (sent,) = [one for one in entries if one["event"] == "outcome" and one["tool"] == "notes__send_report"]
    assert sent["code"] == "outcome_unknown"


async def test_a_read_under_way_is_broken_off_and_nothing_more_is_begun(tmp_path: Path) -> None:
    retried = {**FIND, "retry": {"attempts": 5, "wait": "1s"}}
    async with served(tmp_path, flow(retried, WRITE)) as (gateway, service):
        held = service.held["/issues"] = threading.Event()
        answer = await gateway.call("flows__fix", {}, principal="bot")
        held.set()
    entries = record(tmp_path)
    assert (answer.error.code, answer.data["failed"]["step"], answer.data["done"]) == ("step_failed", "find", [])
    assert service.notes == {}
    (read,) = [one for one in entries if one["event"] == "outcome" and one["tool"] == "notes__search_issues"]
    assert read["code"] == "cancelled"


async def test_another_attempt_that_would_be_too_late_is_not_waited_for(tmp_path: Path) -> None:
    retried = {**FIND, "retry": {"attempts": 5, "wait": "60s"}}
    async with served(tmp_path, flow(retried, timeout="30s")) as (gateway, service):
        service.fails["GET", "/issues"] = [503, 503]
        answer = await gateway.call("flows__fix", {}, principal="bot")
    assert answer.error.code == "step_failed"
    assert service.paths == ["GET /issues"]


async def test_waiting_for_a_person_counts(tmp_path: Path) -> None:
    approvals = {"approvers": ["lead"], "expires": "1h"}
    async with served(
        tmp_path, flow(WRITE, REPORT, FIND, timeout="1s"), rules=[ALLOWED, ASKED], approvals=approvals
    ) as (
        gateway,
        service,
    ):
        waiting = await gateway.call("flows__fix", {}, principal="bot")
        await asyncio.sleep(1.05)  # time itself is what is waited for
        lead = gateway.principal("lead")
        for one in await gateway.approvals.answerable(lead):
            await gateway.approvals.decide(one.id, approve=True, note="", principal=lead)
        answer = await gateway.approvals.calls.outcome(waiting.call_id, gateway.principal("bot"), wait=60.0)
    assert (answer.error.code, answer.data["failed"]["step"]) == ("step_failed", "find")
    assert [one["step"] for one in answer.data["undone"]] == ["write"]
    assert "GET /issues" not in service.paths


async def test_one_that_is_quick_enough_is_as_without_a_limit(tmp_path: Path) -> None:
    async with served(tmp_path, flow(FIND, WRITE, timeout="60s")) as (gateway, _):
        assert (await gateway.call("flows__fix", {}, principal="bot")).status == "ok"


@pytest.mark.parametrize("timeout", ["soon", "0s", "10ms", "25h"])
def test_a_time_that_is_none_is_a_fault_of_the_build(tmp_path: Path, timeout: str) -> None:
    (said,) = faults(tmp_path, flow(FIND, timeout=timeout))
    assert line_names(said, "timeout: ", "100ms to 24h")


def test_an_arazzo_document_says_it_in_an_extension(tmp_path: Path) -> None:
    text = """
arazzo: 1.0.1
info: {title: T, version: "1"}
sourceDescriptions: [{name: notes, url: notes.json, type: openapi}]
workflows:
  - workflowId: fix
    x-toolgen: {timeout: 2m}
    steps: [{stepId: find, operationId: searchIssues}]
"""
    binding = built(tmp_path, text).tools["flows__fix"].binding
    assert isinstance(binding, WorkflowBinding)
    assert binding.timeout_s == 120.0
