"""Stored calls that outlive their request, and the protocol of their storage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias, assert_never

import msgspec

from toolgen.core.errors import StateError
from toolgen.model.call import CredentialProof, Origin
from toolgen.state.call_states import NEXT, CallState, Kind, Status, state_of

__all__ = [
    "AccountNeed",
    "AccountState",
    "ApprovalState",
    "ApprovalVote",
    "BackgroundState",
    "BehindError",
    "DeviceState",
    "Fate",
    "Invocation",
    "InvocationState",
    "Invocations",
    "PrincipalRef",
    "Remember",
    "Requirement",
    "ResultsFullError",
    "RetainedBytes",
    "Room",
    "TaskWish",
    "WorkflowState",
    "counted_as",
    "counted_for",
    "due_at",
    "may_follow",
    "next_steps",
    "with_approval",
    "without_arguments",
]


Fate = Literal["own", "foreign", "orphaned", "behind", "begun", "over"]
"""Knowledge of a gateway about a call besides the store's. `own`: it accepted the call. `foreign`: another gateway did, which is alive
and the only one that may give it up; `orphaned`: that gateway is gone. `behind`: this process knows a later state of the call;
`begun`: this gateway started the call, which the store has lost. `over`: the call ended here.
"""


class BehindError(StateError):
    """Store with an older version of a call than this gateway knows. `known` is that version."""

    def __init__(self, message: str, known: Invocation) -> None:
        super().__init__(message)
        self.known = known


class PrincipalRef(msgspec.Struct, frozen=True, kw_only=True):
    """Principal at the time of its call: its identity, and the origin of its roles and attributes."""

    id: str
    roles: tuple[str, ...]
    attributes: dict[str, Any]
    on_behalf_of: PrincipalRef | None = None
    toolsets: tuple[str, ...] = ()
    account: str = ""
    proof: CredentialProof | None = None
    origin: Origin | None = None


class Requirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Number of people with one of these roles who must agree. `own`: a rule requires them, not the policy for all calls."""

    roles: tuple[str, ...]
    quorum: int = 1
    own: bool = False


class Remember(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Later calls that an approval is also valid for: the time (seconds), their number, this session only, and any arguments."""

    seconds: float
    calls: int
    session: bool = False
    any_arguments: bool = False


class ApprovalVote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Approval by one person: the person, the roles of theirs that count, the time, further calls that it is valid for, and their note
    for the caller."""

    by: str
    roles: tuple[str, ...]
    at: float
    remember: Remember | None = None
    note: str = ""


class TaskWish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Task options of an MCP client for a call: how long the task is kept from then on, in seconds (0 for the default), and the token for
    its progress notifications."""

    keep_s: float = 0.0
    token: int | str | None = None


class ApprovalState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a call that waits for people, or for which they agreed.

    All of `needs` have to be met by `votes`. `original` has the arguments as requested, if an approver changed them, and `edited_by` the
    approver. `asked_by` names the rules that require approval, and `grant` the permission that the answer gave besides this call.
    `unanswered` means that the person at the caller's client was asked and gave no answer. At `remind_at` people are reminded of it and
    at `escalate_at` others may answer too, each once and 0 for never; `reminded` and `escalated` are the times when that was done.
    """

    sql: str = ""
    needs: tuple[Requirement, ...] = ()
    votes: tuple[ApprovalVote, ...] = ()
    original: dict[str, Any] | None = None
    edited_by: str = ""
    asked_by: tuple[str, ...] = ()
    grant: str = ""
    unanswered: bool = False
    remind_at: float = 0.0
    reminded: float = 0.0
    escalate_at: float = 0.0
    escalated: float = 0.0


class DeviceState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a call that waits for its caller's device: the request to it, its answer, and the approval that the call had before."""

    request: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None
    approval: ApprovalState | None = None


class WorkflowState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a call that waits for other calls that it made, `waits`. `resume` is the state from which it continues."""

    resume: dict[str, Any] | None = None
    waits: tuple[str, ...] = ()


class AccountNeed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Account that a call waits for: that of its person at the source of its tool, by name ("": the default one).

    `page` is the gateway's page for linking it. `scopes` are those that the system asked for beyond what the account has; the call
    continues once the account was linked again after `since`, which is 0 if any account will do.
    """

    name: str = ""
    page: str = ""
    scopes: tuple[str, ...] = ()
    since: float = 0.0


class AccountState(msgspec.Struct, frozen=True, kw_only=True):
    """State of a call that waits for an account of its person, with the approval that the call had before."""

    account: AccountNeed | None = None
    approval: ApprovalState | None = None


class BackgroundState(msgspec.Struct, frozen=True):
    """State of a call that runs without its caller, and waits for nobody."""


InvocationState: TypeAlias = ApprovalState | DeviceState | WorkflowState | AccountState | BackgroundState
"""State of a call by what it waits for."""
_KINDS: Mapping[type, Kind] = MappingProxyType(
    {
        ApprovalState: "approval",
        DeviceState: "device",
        WorkflowState: "workflow",
        AccountState: "account",
        BackgroundState: "call",
    }
)
_NO_APPROVAL, _NO_DEVICE, _NO_WORKFLOW = ApprovalState(), DeviceState(), WorkflowState()


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """A stored call: it waits for an answer (`pending`), may be executed (`approved`), is executed (`running`) or has `ended`.

    `waits_for` is the state of what it waits for: people, its caller's device, an account, or calls that it made; a call that runs
    without its caller waits for nobody. `digest` is what an answer is bound to. `home` is the machine that accepted the call, which alone
    executes it; `attempt` counts how often it was released again before it had an effect. Times are seconds since the epoch. Until
    `lease`, only `owner` changes its status; the lease of an owner that dies expires. `arguments` are exact, and so may be sensitive;
    `bound` names those that the policy set. `restored` are the values in them that replaced tokens, `sent` the arguments with those
    tokens. `envelope` is the JSON for the caller after it has ended, and `closed_by` the person who denied or withdrew it.

    `cancel` is set if the caller wants to end a call that runs in any worker. `equal` is the key that it shares with calls that join it.
    `progress` is its last reported progress, `partial` the number of parts of its answer so far, and `parts` the last of them.
    `asks` are the questions of a running call to its caller, by their keys, and `replies` the answers that it has not taken yet. `via` is
    the tool that its caller named, if that is another (`run_tool`), and `task` the caller's task options. `updated` is the time of its last
    message.

    `answerable` are the kinds of requests of a server that its caller's client answers after the call waited for people.

    `ancestry` are the tools of the calls that it is nested in. `http_status` is that of its answer. `lost`: it ended without a message of
    its owner, whose own outcome may still come and replaces this one.
    """

    id: str
    waits_for: InvocationState
    status: Status = "pending"
    version: int = 1
    principal: PrincipalRef
    tool: str
    effect: str
    arguments: dict[str, Any]
    bound: tuple[str, ...] = ()
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
    cancel: bool = False
    progress: dict[str, Any] | None = None
    partial: int = 0
    parts: tuple[Any, ...] = ()
    http_status: int | None = None
    restored: tuple[tuple[str, str, str], ...] = ()
    sent: dict[str, Any] = {}
    closed_by: str = ""
    asks: dict[str, Any] = {}
    replies: dict[str, Any] = {}
    via: str = ""
    task: TaskWish | None = None
    updated: float = 0.0
    lost: bool = False
    answerable: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        """Kind of what the call waits for."""
        return _KINDS[type(self.waits_for)]

    @property
    def approval(self) -> ApprovalState:
        """The approval of the call, also if it waits for a device or an account by now; an empty one if nobody was asked."""
        state = self.waits_for
        if isinstance(state, DeviceState | AccountState):
            return state.approval or _NO_APPROVAL
        return state if isinstance(state, ApprovalState) else _NO_APPROVAL

    @property
    def device(self) -> DeviceState:
        """The request to a device and its answer; an empty one if none is asked."""
        return self.waits_for if isinstance(self.waits_for, DeviceState) else _NO_DEVICE

    @property
    def workflow(self) -> WorkflowState:
        """The calls that the call waits for; an empty one if there are none."""
        return self.waits_for if isinstance(self.waits_for, WorkflowState) else _NO_WORKFLOW

    @property
    def account(self) -> AccountNeed | None:
        """Account that the call waits for, or waited for; None without one."""
        return self.waits_for.account if isinstance(self.waits_for, AccountState) else None

    @property
    def questions(self) -> Mapping[str, Any]:
        """Questions of a running call to its caller that have no answer yet, by their keys."""
        if self.status != "running":
            return {}
        return {key: question for key, question in self.asks.items() if key not in self.replies}

    @property
    def final(self) -> bool:
        """True if the call ended and nothing replaces its outcome any more."""
        return self.status == "ended" and not self.lost

    @property
    def state(self) -> CallState:
        """State of the call, as reported to clients and people."""
        if self.questions:
            return CallState.INPUT_REQUIRED
        if self.status == "approved" and self.kind == "account":
            return CallState.INPUT_REQUIRED
        return state_of(self.status, self.envelope)


def may_follow(known: Invocation, changed: Invocation) -> bool:
    """True if a call may change so: it stays the same call, and its status follows the one before. An owner's own outcome may replace
    the one that others gave the call when they took it for lost."""
    if known.id != changed.id:
        return False
    replaces = known.lost and changed.final and known.owner in {"", changed.owner} and changed.owner != ""
    return replaces or changed.status in NEXT[known.status]


def counted_as(invocation: Invocation) -> str:
    """Return the group in which a call is counted: the number of calls of one kind and status is bounded."""
    if invocation.status == "ended" or invocation.kind == "approval":
        return invocation.status
    return f"{invocation.kind} {invocation.status}"


def counted_for(invocation: Invocation) -> str:
    """Return the principal that a call is counted for: the owner of the device it waits for, or else its caller."""
    party = invocation.principal
    return (party.on_behalf_of or party).id if invocation.kind == "device" else party.id


def next_steps(invocation: Invocation) -> Mapping[Literal["reminded", "escalated"], float]:
    """Return the times of the steps that are still due for a call that waits for a person; infinity for never."""
    approval, waits = invocation.approval, invocation.kind == "approval"
    remind, escalate = approval.remind_at, approval.escalate_at
    return {
        "reminded": remind if waits and remind and not approval.reminded else math.inf,
        "escalated": escalate if waits and escalate and not approval.escalated else math.inf,
    }


def due_at(invocation: Invocation) -> float:
    """Return the time at which a call needs attention: no answer by then, or its owner's lease expired. For an ended call, the time of
    its end.
    """
    if invocation.status == "ended":
        return invocation.ended
    if invocation.status == "pending":
        return max(invocation.lease, min(invocation.expires, *next_steps(invocation).values()))
    return 0.0 if invocation.cancel else invocation.lease  # its worker must end it now


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the bytes of ended calls, for one principal and for all of them."""

    each: int
    total: int


class RetainedBytes(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of ended calls, for a principal and in total, and the time of the first end of each (0.0: none)."""

    own: int = 0
    all: int = 0
    own_since: float = 0.0
    all_since: float = 0.0

    def full(self, room: Room) -> float | None:
        """Return the time of the first end within the limit that is reached; None if there is room."""
        if self.own >= room.each:
            return self.own_since
        return self.all_since if self.all >= room.total else None


class ResultsFullError(Exception):
    """No room for the outcome of a call. Nothing was changed."""


class Invocations(Protocol):
    """Storage of invocations, shared by every worker. Each method raises `StateError` when they cannot be read or written."""

    @property
    def by_others(self) -> bool:
        """True if other processes may have changed a call, according to the last `changed`."""

    async def add(self, invocation: Invocation, *, each: int, total: int) -> Invocation | None:
        """Store a new call and return it; None if its principal has `each` of this kind and status, or all principals together `total`.

        A call (kind `call`) that is already stored is returned unchanged: the disconnect of a caller and the storage of the outcome may
        coincide, and both get the same call. The ids of all other kinds are unique: `StateError`.
        """

    async def get(self, call_id: str) -> Invocation | None:
        """Return the current state of a call."""

    async def unfinished(self, kind: Kind = "approval") -> tuple[Invocation, ...]:
        """Return the calls of a kind that have not ended, the oldest first."""

    async def versions(self, kind: Kind = "approval") -> tuple[tuple[str, int], ...]:
        """Return the ids and versions of the calls that `unfinished` returns, in the same order."""

    async def several(self, call_ids: Sequence[str]) -> tuple[Invocation, ...]:
        """Return the current states of those of these calls that are stored and readable, in any order."""

    async def ended_since(self, since: float) -> tuple[Invocation, ...]:
        """Return the calls of any kind that ended at `since` or later, in the order of their ends; a thousand at most."""

    async def waiting(self, kind: Kind, principals: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the ids of calls of a kind that wait for an answer, in order, for each of these principals."""

    async def owned(self, principals: Sequence[str], after: float, limit: int) -> tuple[Invocation, ...]:
        """Return the calls that count for one of these principals and were made at `after` or later, the oldest first, `limit` at most."""

    async def due(self, now: float) -> tuple[Invocation, ...]:
        """Return the calls of any kind that have not ended and need attention (`due_at`), the longest overdue first."""

    async def renew(self, call_ids: Sequence[str], until: float, *, unless_due: float = -1.0) -> None:
        """Extend the leases of these running calls, because their owner is alive. Nothing else about them changes. Calls that are due by
        `unless_due` stay due: a caller may have cancelled them.
        """

    async def replace(self, known: Invocation, changed: Invocation, *, room: Room | None = None) -> Invocation | None:
        """Replace `known` by `changed` and return the stored call, or None if that is not allowed: another writer was faster, the call has
        ended, it belongs to another machine, or `may_follow` is False. Then nothing has changed. Only one concurrent writer succeeds.

        Raises `ResultsFullError` for a call that ends and has no `room`.
        """

    async def held(self, principal: str) -> RetainedBytes:
        """Return the number of bytes of ended calls."""

    async def fate(self, known: Invocation) -> Fate:
        """Return what this gateway may do with a call in this state."""

    async def restore(self, known: Invocation, *, over: int | None = None) -> Invocation | None:
        """Replace the store's version of a call by the one that this gateway knows; with `over` only that version, 0 for none. Returns
        the stored call, or None if the store has another version, or others change it continuously.
        """

    async def restore_endings(self) -> None:
        """Restore the outcomes of the last calls that ended at this gateway, if the store has lost them."""

    async def restore_ending(self, known: Invocation) -> Invocation | None:
        """Restore the outcome of a call that ended at this gateway, in place of an older version. Returns the stored call, or None if
        this gateway does not know the outcome, or the store has another version.
        """

    async def missing(self, before: float) -> tuple[Invocation, ...]:
        """Return calls that this gateway accepted before a time, without a known end, and that are missing or unreadable in the store.
        Without arguments, and with the store's version, 0 for none.
        """

    async def still_storing(self, call_ids: Sequence[str]) -> None:
        """Record that this process still tries to store these calls: for a lease they are not `missing`."""

    async def awaited(self, call_id: str) -> Invocation | None:
        """Return a call that this gateway accepted and whose end it does not know, in its state of that time.

        If gateways share the store, the call has no arguments.
        """

    async def absent(self, calls: Mapping[str, float]) -> tuple[str, ...]:
        """Return the ids of those calls (with their times) that the store lacks and that never ended as far as this gateway knows. If
        gateways share the store, calls older than the journal's memory are left out.
        """

    async def begin_epoch(self) -> bool:
        """Record that the store lost data (`loss`): its counts are no longer trusted. Return True for the first worker."""

    @property
    def listened(self) -> bool:
        """Return True if this process could reach the store during the last lease, and the store lost no data in it."""

    @property
    def lost_at(self) -> float:
        """Return the time of the last detected loss of data, in the store's time, 0 for never: of an older call the store may have an
        older version, which cannot be distinguished.
        """

    @property
    def loss(self) -> str:
        """Return the reason why the store is known to have lost data, found by `changed` or a write; "" if it has not."""

    async def now(self) -> float:
        """Return the common time of all users of the store, in seconds since the epoch."""

    async def forget(self, before: float) -> None:
        """Remove calls that ended before a time, with their data."""

    async def changed(self) -> bool:
        """True if a call may have changed since the last call of this method."""

    async def close(self) -> None:
        """Close the storage."""


def with_approval(known: Invocation, **changes: Any) -> Invocation:
    """Return a call with a changed approval."""
    approval, state = msgspec.structs.replace(known.approval, **changes), known.waits_for
    held = isinstance(state, DeviceState | AccountState)
    changed = msgspec.structs.replace(state, approval=approval) if held else approval
    return msgspec.structs.replace(known, waits_for=changed)


def without_arguments(known: Invocation) -> Invocation:
    """Return a call without its arguments and all text that quotes them."""
    match known.waits_for:
        case ApprovalState() as state:
            known = with_approval(known, sql="") if state.sql else known
        case DeviceState() as state:
            approval = None if state.approval is None else msgspec.structs.replace(state.approval, sql="")
            state = msgspec.structs.replace(state, request=None, approval=approval)
            known = msgspec.structs.replace(known, waits_for=state)
        case WorkflowState() as state:
            known = msgspec.structs.replace(known, waits_for=msgspec.structs.replace(state, resume=None))
        case AccountState() as state:
            approval = None if state.approval is None else msgspec.structs.replace(state.approval, sql="")
            known = msgspec.structs.replace(known, waits_for=msgspec.structs.replace(state, approval=approval))
        case BackgroundState():
            pass
        case never:
            assert_never(never)
    return msgspec.structs.replace(known, arguments={}, bound=(), restored=(), parts=(), progress=None)
