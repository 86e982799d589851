"""Delay until every worker applies an edit of the policy, a revoked key and a pause, with real processes and one Redis.

`python -m bench.effect` serves a small project with `toolgen serve --workers 2` with a separate Redis, sends requests over connections to
each worker, and prints the time from a change to the last answer without it. The exit status is 1 above a second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx

from tests.frontends.server.test_supervisor import RULES
from tests.gateway.governed import project, upstream, write_policy
from tests.redis_server import RedisServer
from tests.served_workers import Served, serving
from toolgen.config.settings import load as load_settings
from toolgen.core.clock import SystemClock
from toolgen.gateway.state.shared_state import shared_pauses
from toolgen.state.pauses import Pause, SharedPauses

BUDGET_S = 1.0
ROUNDS = 10
CONNECTIONS = 8
NONE = {"id": "none", "to": ["bot"], "tools": ["*"], "verdict": "deny"}
KEY = "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest()
OK = frozenset({"ok"})
UNACCEPTED = frozenset({"unauthenticated", "rate_limited"})  # the latter after too many of the former
Change = Callable[[], Awaitable[object]]


class Asking:
    """Calls without end over connections that stay open: when each was asked, and how it ended."""

    def __init__(self, served: Served) -> None:
        self._url = served.url
        self.answers: list[tuple[float, str]] = []

    async def lane(self) -> None:
        """Connection that stays with one worker."""
        limits = httpx.Limits(max_connections=1)
        async with httpx.AsyncClient(base_url=self._url, limits=limits, timeout=20) as http:
            while True:
                asked = time.monotonic()
                headers = {"authorization": "Bearer key-of-bot"}
                said = (await http.post("/v1/tools/orders__get_health/call", json={}, headers=headers)).json()
                self.answers.append((asked, said.get("error", {}).get("code", said.get("status", ""))))
                await asyncio.sleep(0.02)

    async def until(self, refused: frozenset[str], since: float) -> float:
        """Seconds from `since` to the last call that was not answered with one of these, once all lanes are."""
        while True:
            await asyncio.sleep(0.1)
            latest = self.answers[-10 * CONNECTIONS :]
            if len(latest) == 10 * CONNECTIONS and all(said in refused for _, said in latest):
                others = [asked for asked, said in self.answers if said not in refused and asked > since]
                self.answers.clear()
                return max(others, default=since) - since


async def measure(root: Path, served: Served, rounds: int) -> dict[str, list[float]]:
    """Seconds that each kind of change took, in each round."""
    asking, found = Asking(served), dict[str, list[float]]()
    pauses = shared_pauses(load_settings(served.path), SystemClock())
    if pauses is None:
        raise SystemExit("the project shares no state")
    lanes = [asyncio.create_task(asking.lane()) for _ in range(CONNECTIONS)]
    try:
        await asking.until(OK, 0)
        for _ in range(rounds):
            for name, refused, change, back in changes(root, pauses):
                since = time.monotonic()
                await change()
                found.setdefault(name, []).append(await asking.until(refused, since))
                await back()
                await asking.until(OK, time.monotonic())
    finally:
        for lane in lanes:
            lane.cancel()
        await asyncio.wait(lanes)
        await pauses.close()
    return found


def changes(root: Path, pauses: SharedPauses) -> list[tuple[str, frozenset[str], Change, Change]]:
    """Change, the codes of the answers after it, and its reversal."""
    keys = root / "policies" / "keys.yaml"

    async def deny() -> None:
        write_policy(root, {"rules": [*RULES, NONE]})

    async def allow() -> None:
        write_policy(root, {"rules": RULES})

    async def revoke() -> None:
        keys.write_text(json.dumps({"revoked": [{"key": KEY}]}))

    async def restore() -> None:
        keys.write_text(json.dumps({"revoked": []}))

    def pause() -> Awaitable[object]:
        return pauses.change(lambda known: (*known, Pause(source="orders", since=time.time())))

    def resume() -> Awaitable[object]:
        return pauses.change(lambda _: ())

    return [
        ("an edit", frozenset({"unknown_tool"}), deny, allow),
        ("a revocation", UNACCEPTED, revoke, restore),
        ("a pause", frozenset({"paused"}), pause, resume),
    ]


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as open_:
        redis = RedisServer(Path(folder))
        redis.start()
        open_.callback(redis.stop)
        _, server = open_.enter_context(upstream())
        root = Path(folder) / "p"
        path = project(root, server, {"rules": RULES}, state=f"redis://127.0.0.1:{redis.port}/0")
        served = open_.enter_context(serving(path, "--workers", str(given.workers)))
        found = asyncio.run(measure(root, served, given.rounds))
        served.end()
    for name, taken in found.items():
        print(f"{name:14} median {statistics.median(taken):.2f} s, longest {max(taken):.2f} s, in {len(taken)} rounds")
    sys.exit(any(max(taken) > BUDGET_S for taken in found.values()))


if __name__ == "__main__":
    main()
