"""Seeded schedules: what clients and people do, and which faults happen when. A schedule is data, so that it can be shown and shortened."""

from __future__ import annotations

from random import Random
from typing import Literal

from msgspec import Struct

__all__ = ["EXPIRES_S", "HEAL_S", "HUNG_S", "LIMITED", "Fault", "Plan", "Request", "plan_of"]

EXPIRES_S = 12.0
"""How long a question stands."""
HUNG_S = 8.0
"""How long the upstream may take before the gateway gives a call up."""
HEAL_S = 36.0
"""When every fault is over."""
LIMITED = "limited"
"""What the names of operations begin with that draw on the limit."""

Kind = Literal["ask", "left", "keyed", "plain"]
FaultKind = Literal["kill", "restart", "stop", "cut", "away", "flush", "restore", "delay", "junk", "old_call"]


class Request(Struct, frozen=True, kw_only=True):
    """An operation, and what its client and the people who answer for it do. Times are seconds: `at` since the start, others since the
    step before. `gateways` are asked in turn."""

    name: str
    kind: Kind
    at: float
    tool: str
    effect: Literal["read", "write"]
    principal: str
    wait: float | None
    gateways: tuple[int, ...]
    upstream: Literal["ok", "error", "hang"] = "ok"
    takes_s: float = 0.05
    answer: Literal["approve", "deny", "none"] = "none"
    answered_after_s: float = 0.0
    answered_at: tuple[int, ...] = ()
    cancelled_after_s: float = 0.0

    @property
    def own_s(self) -> float:
        """How long it may take in the best case."""
        return (EXPIRES_S if self.kind == "ask" else 0.0) + max(self.takes_s, HUNG_S if self.upstream == "hang" else 0)


class Fault(Struct, frozen=True, kw_only=True):
    """A fault. `gateway` is 0, 1, or -1 for both; `how` says how a link is cut, or what the store is when it is back."""

    kind: FaultKind
    at: float
    lasts_s: float = 0.0
    gateway: int = -1
    worker: int = 0
    back_s: float = 0.0
    how: Literal["refuse", "hang", "lose_answers", "same", "older", "empty"] = "refuse"


class Plan(Struct, frozen=True, kw_only=True):
    """A schedule: `workers` of each gateway, requests and faults."""

    seed: int
    workers: tuple[int, int]
    requests: tuple[Request, ...]
    faults: tuple[Fault, ...]


def plan_of(seed: int) -> Plan:
    """The schedule of a seed."""
    random = Random(f"plan {seed}")
    workers = (random.choice((1, 1, 2)), random.choice((1, 1, 2)))
    requests = [_request(random, number) for number in range(random.randint(6, 14))]
    requests += _limited(random)
    faults = [_fault(random, workers) for _ in range(random.choice((0, 1, 1, 2, 2, 3, 4)))]
    return Plan(
        seed=seed,
        workers=workers,
        requests=tuple(sorted(requests, key=lambda one: one.at)),
        faults=tuple(sorted(faults, key=lambda one: one.at)),
    )


def _request(random: Random, number: int) -> Request:
    kind: Kind = random.choices(("ask", "left", "keyed", "plain"), (9, 6, 5, 2))[0]
    effect: Literal["read", "write"] = "read" if kind in {"left", "plain"} and random.random() < 0.3 else "write"
    tool = "shop__create_refund" if kind == "ask" else "shop__get_item" if effect == "read" else "shop__create_order"
    asked = kind == "ask"
    upstream = random.choices(("ok", "error", "hang"), (16, 2, 2))[0]
    return Request(
        name=f"{kind}{number}",
        kind=kind,
        at=round(random.uniform(0.5, 26), 3),
        tool=tool,
        effect=effect,
        principal=f"bot{random.randrange(3)}",
        wait={"ask": random.choice((0.0, 0.5)), "left": random.choice((0.0, 1.0)), "keyed": None, "plain": None}[kind],
        gateways=tuple(random.randrange(2) for _ in range(4)),
        upstream=upstream,  # type: ignore[arg-type]
        takes_s=round(random.choice((random.uniform(0.01, 0.5), random.uniform(0.5, 7))), 3),
        answer=random.choices(("approve", "deny", "none"), (14, 2, 4))[0] if asked else "none",  # type: ignore[arg-type]
        answered_after_s=round(random.uniform(0.1, 9), 3),
        answered_at=tuple(random.sample((0, 1), random.choice((1, 1, 1, 2)))),
        cancelled_after_s=round(random.uniform(0.1, 8), 3)
        if kind in {"ask", "left"} and random.random() < 0.2
        else 0.0,
    )


def _limited(random: Random) -> list[Request]:
    """A client that asks for more than its limit lets through."""
    if random.random() < 0.5:
        return []
    start, every = random.uniform(0.5, 15), random.uniform(0.1, 0.8)
    return [
        Request(
            name=f"{LIMITED}{number}",
            kind="plain",
            at=round(start + number * every, 3),
            tool="shop__get_limited",
            effect="read",
            principal="bot0",
            wait=None,
            gateways=(random.randrange(2),),
        )
        for number in range(16)
    ]


def _fault(random: Random, workers: tuple[int, int]) -> Fault:
    kinds: tuple[FaultKind, ...] = (
        "kill", "restart", "stop", "cut", "away", "flush", "restore", "delay", "junk", "old_call",
    )  # fmt: skip
    kind = random.choices(kinds, (4, 1, 3, 4, 5, 2, 3, 1, 1, 2))[0]
    at, gateway = round(random.uniform(1, 26), 3), random.randrange(2)
    worker = random.randrange(-1, workers[gateway])
    long = round(random.choice((random.uniform(0.2, 3), random.uniform(3, 22))), 3)
    match kind:
        case "kill":
            return Fault(kind=kind, at=at, gateway=gateway, worker=worker, lasts_s=min(long, 8.0))
        case "restart":
            return Fault(kind=kind, at=at, gateway=gateway, worker=worker)
        case "stop":
            return Fault(kind=kind, at=at, gateway=gateway, worker=worker, lasts_s=long)
        case "cut":
            how = random.choice(("refuse", "hang", "lose_answers"))
            return Fault(kind=kind, at=at, gateway=gateway, lasts_s=long, how=how)  # type: ignore[arg-type]
        case "away":
            how, back = random.choice(("same", "same", "older", "empty")), round(random.uniform(0.1, 3), 3)
            return Fault(kind=kind, at=at, lasts_s=long, how=how, back_s=back)  # type: ignore[arg-type]
        case "restore":
            return Fault(kind=kind, at=at, back_s=round(random.uniform(0.1, 8), 3))
        case "delay":
            return Fault(kind=kind, at=at, gateway=gateway, lasts_s=long, back_s=round(random.uniform(0.05, 0.9), 3))
        case _:
            return Fault(kind=kind, at=at, back_s=round(random.uniform(0.1, 4), 3))
