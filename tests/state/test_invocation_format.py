"""Stored calls: the flat form of every version is read into the state of what the call waits for, and written back to the byte."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.state.test_invocations import invocation
from toolgen.state.invocation_format import StoredInvocation, as_json, from_json
from toolgen.state.invocations import (
    AccountNeed,
    AccountState,
    ApprovalState,
    BackgroundState,
    DeviceState,
    InvocationState,
    Requirement,
    WorkflowState,
    with_approval,
    without_arguments,
)

_NEEDS = (Requirement(roles=("lead",), quorum=2),)
_APPROVED = {"needs": [{"roles": ["lead"], "quorum": 2}], "sql": "SELECT 1", "grant": "grant_1", "remind_at": 5.0}


def stored(**changes: Any) -> dict[str, Any]:
    """A call as version 1 stored it, with every field."""
    flat: dict[str, Any] = msgspec.json.decode(as_json(invocation()))
    assert list(flat) == list(StoredInvocation.__struct_fields__)
    return flat | changes


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, ApprovalState()),
        (_APPROVED, ApprovalState(needs=_NEEDS, sql="SELECT 1", grant="grant_1", remind_at=5.0)),
        ({"kind": "device", "request": {"a": 1}}, DeviceState(request={"a": 1})),
        (
            {"kind": "device", "answer": {"b": None}, "unanswered": True},
            DeviceState(answer={"b": None}, approval=ApprovalState(unanswered=True)),
        ),
        ({"kind": "workflow", "resume": {}, "waits": ["call_1"]}, WorkflowState(resume={}, waits=("call_1",))),
        (
            {"kind": "account", "account": {"name": "work", "since": 5.0}, "sql": "SELECT 1"},
            AccountState(account=AccountNeed(name="work", since=5.0), approval=ApprovalState(sql="SELECT 1")),
        ),
        ({"kind": "call", "status": "running", "cancel": True, "partial": 3}, BackgroundState()),
    ],
)
def test_a_stored_call_is_read_and_written_back_to_the_byte(changes: dict[str, Any], state: InvocationState) -> None:
    body = msgspec.json.encode(stored(**changes))
    known = from_json(body)
    assert (known.waits_for, known.kind) == (state, changes.get("kind", "approval"))
    assert as_json(known) == body


def test_a_call_that_waits_for_a_device_keeps_its_approval() -> None:
    known = invocation(kind="device", request={"a": 1}, needs=_NEEDS)
    assert (known.approval.needs, known.device.request, known.workflow) == (_NEEDS, {"a": 1}, WorkflowState())
    changed = with_approval(known, unanswered=True)
    assert (changed.kind, changed.approval.needs, changed.approval.unanswered) == ("device", _NEEDS, True)


@pytest.mark.parametrize("kind", ["approval", "device", "workflow", "account", "call"])
def test_nothing_that_quotes_arguments_is_left(kind: str) -> None:
    secret = {"text": "canary-4711"}
    quoted = {
        "approval": {"sql": "canary-4711"},
        "device": {"request": secret, "sql": "canary-4711"},
        "workflow": {"resume": secret},
        "account": {"sql": "canary-4711"},
    }
    known = invocation(kind=kind, arguments=secret, bound=("text",), progress=secret, **quoted.get(kind, {}))
    assert b"canary" in as_json(known)
    left = without_arguments(known)
    assert left.kind == kind
    assert b"canary" not in as_json(left)
