"""Format in which calls that outlive their request are stored: one flat JSON object, the same since version 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import asdict

from toolgen.state.call_states import Kind, Status
from toolgen.state.invocations import (
    AccountNeed,
    AccountState,
    ApprovalState,
    ApprovalVote,
    BackgroundState,
    DeviceState,
    Invocation,
    InvocationState,
    PrincipalRef,
    Requirement,
    TaskWish,
    WorkflowState,
)

__all__ = ["StoredInvocation", "as_json", "from_json", "from_stored"]


class StoredInvocation(msgspec.Struct, frozen=True, kw_only=True):
    """Call as it is stored: the fields of `Invocation`, of every state, and of `kind`, which says what the state is."""

    id: str
    kind: Kind = "approval"
    status: Status = "pending"
    version: int = 1
    principal: PrincipalRef
    tool: str
    effect: str
    arguments: dict[str, Any]
    bound: tuple[str, ...] = ()
    sql: str = ""
    rule: str = ""
    digest: str
    tool_digest: str
    policy_digest: str
    session: str = ""
    client: str = ""
    parent: str = ""
    ancestry: tuple[str, ...] = ()
    idempotency_key: str = ""
    equal: str = ""
    asked: float
    expires: float
    home: str = ""
    attempt: int = 0
    owner: str = ""
    lease: float = 0.0
    ended: float = 0.0
    envelope: dict[str, Any] | None = None
    request: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None
    cancel: bool = False
    progress: dict[str, Any] | None = None
    partial: int = 0
    parts: tuple[Any, ...] = ()
    resume: dict[str, Any] | None = None
    waits: tuple[str, ...] = ()
    http_status: int | None = None
    needs: tuple[Requirement, ...] = ()
    votes: tuple[ApprovalVote, ...] = ()
    restored: tuple[tuple[str, str, str], ...] = ()
    sent: dict[str, Any] = {}
    original: dict[str, Any] | None = None
    edited_by: str = ""
    asked_by: tuple[str, ...] = ()
    grant: str = ""
    closed_by: str = ""
    unanswered: bool = False
    remind_at: float = 0.0
    reminded: float = 0.0
    escalate_at: float = 0.0
    escalated: float = 0.0
    asks: dict[str, Any] = {}
    replies: dict[str, Any] = {}
    via: str = ""
    task: TaskWish | None = None
    updated: float = 0.0
    lost: bool = False
    account: AccountNeed | None = None
    answerable: tuple[str, ...] = ()


_APPROVAL, _DEVICE, _WORKFLOW = (
    tuple(name for name in state.__struct_fields__ if name != "approval")
    for state in (ApprovalState, DeviceState, WorkflowState)
)
_COMMON = tuple(name for name in Invocation.__struct_fields__ if name != "waits_for")


def as_json(invocation: Invocation) -> bytes:
    """Return a call as it is stored."""
    flat: dict[str, Any] = {name: getattr(invocation, name) for name in _COMMON}
    for state in (invocation.approval, invocation.device, invocation.workflow):
        flat |= asdict(state)
    flat.pop("approval")
    flat["account"] = invocation.account
    return msgspec.json.encode(StoredInvocation(**flat, kind=invocation.kind), enc_hook=_plain)


def from_json(body: bytes) -> Invocation:
    """Return a call as it was stored. Raises `msgspec.MsgspecError`."""
    return from_stored(msgspec.json.decode(body, type=StoredInvocation))


def from_stored(stored: StoredInvocation) -> Invocation:
    """Return the call that a stored object describes."""
    return Invocation(waits_for=_state(stored), **{name: getattr(stored, name) for name in _COMMON})


def _state(stored: StoredInvocation) -> InvocationState:
    approval = ApprovalState(**{name: getattr(stored, name) for name in _APPROVAL})
    match stored.kind:
        case "approval":
            return approval
        case "device":
            before = None if approval == ApprovalState() else approval
            return DeviceState(**{name: getattr(stored, name) for name in _DEVICE}, approval=before)
        case "workflow":
            return WorkflowState(**{name: getattr(stored, name) for name in _WORKFLOW})
        case "account":
            before = None if approval == ApprovalState() else approval
            return AccountState(account=stored.account, approval=before)
        case "call":
            return BackgroundState()


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)
