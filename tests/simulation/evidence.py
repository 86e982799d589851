"""Three logs of one run: answers that clients got, requests that the upstream received, and entries of the audit logs.

They are all that the invariants know of a run, beside the faults that were planted. A simulation and a run with real processes make the
same records.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct, field

__all__ = ["Decided", "Entry", "Evidence", "Limit", "Operation", "Planted", "Received", "Told"]


class Operation(Struct, frozen=True, kw_only=True):
    """One thing that a client wants done once. `own_s` is how long it may take in the best case, question and upstream together."""

    name: str
    kind: str  # ask | left | keyed | plain
    effect: str  # read | write
    own_s: float


class Told(Struct, frozen=True, kw_only=True):
    """An answer that a client got. `status` is that of an envelope, or `gone` for a call that the gateway says it does not know, `fault`
    for a request that was answered with an error of the gateway's own, or not at all."""

    at: float
    operation: str
    gateway: str
    status: str
    code: str = ""
    call_id: str = ""
    asked: str = "call"  # call | poll | cancel
    text: str = ""
    began: float = 0.0
    answered: str = ""
    """Operation that the upstream's answer names, "" without an answer of the upstream."""

    @property
    def final(self) -> bool:
        """True if the call has ended, as its client knows it."""
        return self.status not in {"pending", "fault", "gone"}


class Decided(Struct, frozen=True, kw_only=True):
    """A person's answer to a call, sent at `began`. `accepted` is None where the gateway did not say whether it was taken."""

    began: float
    at: float
    operation: str
    call_id: str
    approve: bool
    accepted: bool | None


class Received(Struct, frozen=True, kw_only=True):
    """A request at the upstream. `effect`: it was carried out, or may have been, also if the answer says that it failed."""

    at: float
    operation: str
    gateway: str = ""
    effect: bool = True


class Entry(Struct, frozen=True, kw_only=True):
    """An entry of an audit log that is about a call."""

    at: float
    gateway: str
    stream: str
    seq: int
    event: str
    call_id: str
    operation: str = ""
    status: str = ""
    code: str = ""
    verdict: str = ""

    @property
    def ends(self) -> bool:
        """True if the entry may say how the call ended."""
        return bool(self.status) and self.status != "pending" and self.event in {"outcome", "decision"}


class Planted(Struct, frozen=True, kw_only=True):
    """A fault as it happened. `gateway` is "" where it befell the store. `kind`: kill, stop, cut, loss, delay, poison, restart."""

    at: float
    until: float
    kind: str
    gateway: str = ""
    worker: str = ""
    text: str = ""


class Limit(Struct, frozen=True, kw_only=True):
    """Token bucket that the operations whose names begin with `prefix` draw on."""

    prefix: str
    burst: float
    per_second: float


class Evidence(Struct, kw_only=True, dict=True):
    """Everything known of one run, until it was `over`. `lease_s` is how long a worker that is gone keeps a call, `slack_s` the patience
    beyond what is promised, which a busy machine needs, `apart_s` how far the clocks and files of its processes are apart."""

    operations: dict[str, Operation]
    told: list[Told] = field(default_factory=list)
    decided: list[Decided] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    planted: list[Planted] = field(default_factory=list)
    limits: tuple[Limit, ...] = ()
    over: float = 0.0
    lease_s: float = 10.0
    slack_s: float = 3.0
    apart_s: float = 2.0

    @cached_property
    def by_call(self) -> Mapping[str, list[Entry]]:
        """Entries by call, in the order of time and then of their numbers."""
        found: dict[str, list[Entry]] = defaultdict(list)
        for entry in sorted(self.entries, key=lambda one: (one.at, one.stream, one.seq)):
            found[entry.call_id].append(entry)
        return found

    @cached_property
    def told_of(self) -> Mapping[str, list[Told]]:
        """Answers that clients got, by operation."""
        found: dict[str, list[Told]] = defaultdict(list)
        for one in self.told:
            found[one.operation].append(one)
        return found

    @cached_property
    def operation_of(self) -> Mapping[str, str]:
        """Operation of each call, as its intent says, or the client that was told its id."""
        told = {one.call_id: one.operation for one in self.told if one.call_id}
        return told | {entry.call_id: entry.operation for entry in self.entries if entry.operation}

    @cached_property
    def received_of(self) -> Mapping[str, int]:
        """Number of requests at the upstream, by operation."""
        return Counter(one.operation for one in self.received)

    @cached_property
    def effects(self) -> Mapping[str, list[Received]]:
        """Requests that were carried out, by operation."""
        found: dict[str, list[Received]] = defaultdict(list)
        for one in self.received:
            if one.effect:
                found[one.operation].append(one)
        return found

    @property
    def chances(self) -> Mapping[str, int]:
        """Number of chances that a run had to break what the invariants are about. A run without a chance proves nothing of it."""
        ended = [one for one in self.told if one.final]
        agreed = {one.operation for one in self.decided if one.approve and one.accepted}
        keys = Counter(one.operation for one in ended if self.operations[one.operation].kind == "keyed")
        return {
            "writes that were carried out": sum(map(len, self.effects.values())),
            "approved calls that were carried out": len(agreed & self.effects.keys()),
            "keys that were used again": sum(count > 1 for count in keys.values()),
            "calls that a limit refused": sum(one.code == "rate_limited" for one in ended),
            "requests that a limit let pass": sum(
                count
                for name, count in self.received_of.items()
                if name.startswith(tuple(one.prefix for one in self.limits))
            ),
            "calls that waited and ended": len(
                {one.call_id for one in ended if one.call_id}
                & {one.call_id for one in self.told if one.status == "pending"}
            ),
            "answers that name their request": sum(bool(one.answered) for one in ended),
            "calls that the upstream refused": sum(one.code == "upstream_error" for one in ended),
        }

    def befell(self, kinds: set[str], start: float, end: float, gateway: str = "") -> bool:
        """True if a fault of one of these kinds lasted at some time between the two, at this gateway or, by default, at any."""
        return any(
            one.kind in kinds and one.at <= end and one.until >= start and (not gateway or one.gateway in {gateway, ""})
            for one in self.planted
        )
