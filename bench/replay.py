"""Time of `toolgen policy replay` and `suggest` for a large log. Under an unchanged policy, replay must list nothing.

`python -m bench.replay` runs it over 100,000 calls: one in ten was refused because no rule allowed it, a few by a limit or a person.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from tests.gateway.governed import project
from toolgen.audit.entry import seal, timestamp
from toolgen.audit.files import active_path
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.policies.policy_replay import replay, suggest

BUDGET_S = 20.0
Found = TypeVar("Found")
_START = 1_750_000_000.0
RULES = [
    {"id": "reads", "to": ["bot"], "tools": ["orders__*"], "effects": ["read"], "verdict": "allow"},
    {
        "id": "few",
        "to": ["bot"],
        "tools": ["orders__create_order"],
        "verdict": "allow",
        "arguments": {"properties": {"amount_cents": {"maximum": 500}}},
    },
    {"id": "asked", "to": ["bot"], "tools": ["orders__delete_order"], "verdict": "ask"},
]
_OK = {"status": "ok", "verdict": "allow"}
_REFUSED = {"status": "refused", "code": "forbidden", "verdict": "deny", "rule": "default"}


def drawn_call(chance: random.Random, number: int) -> tuple[str, Mapping[str, object], Mapping[str, str]]:
    match number % 20:
        case 0 | 1:
            return "orders__send_mail", {"to": f"agent-{chance.randrange(500)}@example.com"}, _REFUSED
        case 2:
            many = {"status": "refused", "code": "rate_limited", "verdict": "deny", "rule": "few-calls"}
            return "orders__get_health", {}, many
        case 3:
            denied = {"status": "refused", "code": "approval_denied", "verdict": "ask", "rule": "asked"}
            return "orders__delete_order", {"id": f"o{number}"}, denied
        case 4 | 5 | 6 | 7:
            order = {"tenant_id": "acme", "amount_cents": chance.randrange(500), "note": f"note {number}"}
            return "orders__create_order", order, {**_OK, "rule": "few"}
        case _:
            listed = {"tenant_id": "acme", "status": chance.choice(["open", "closed"])}
            return "orders__list_orders", listed, {**_OK, "rule": "reads"}


def lines(calls: int) -> Iterator[bytes]:
    """The lines of a stream of that many calls."""
    chance, prev, seq = random.Random(17), "", 0
    for number in range(calls):
        tool, arguments, ending = drawn_call(chance, number)
        call = {"call_id": f"call_{number:024d}", "principal": "bot", "on_behalf_of": "", "tool": tool}
        said = {"arguments": arguments, "session": f"s-{number % 1000}"}
        for fields in ({"event": "intent", **call, **said}, {"event": "outcome", **call, **ending}):
            seq += 1
            prev, line = seal(fields, seq=seq, stream="gateway-1", time=timestamp(_START + number), prev=prev)
            yield line


def _timed(work: Callable[[], Found]) -> tuple[Found, str]:
    """Return the result, and the elapsed and CPU seconds."""
    wall, processor = time.perf_counter(), time.process_time()
    found = work()
    return found, f"{time.perf_counter() - wall:.1f} s ({time.process_time() - processor:.1f} s CPU)"


def main() -> None:
    """Prints both times, and fails where replay lists anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        policy = json.loads(json.dumps({"rules": RULES, "approvals": {"approvers": ["user"]}}))
        path = project(Path(folder) / "project", "http://127.0.0.1:9", policy)
        log = active_path(path.parent / "var" / "audit", "gateway-1")
        log.parent.mkdir(parents=True)
        log.write_bytes(b"".join(lines(calls)))
        gateway = Gateway.load(path)
        parts = gateway.settings, gateway.manifest, gateway.current.compiled_policy, 0.0
        found, replayed = _timed(lambda: [*replay(*parts)])
        rules, suggested = _timed(lambda: suggest(*parts))
    differ = [one for one in found if one.differs]
    print(f"replay of {len(found):,} calls: {replayed}, {len(differ)} differ (wanted: at most {BUDGET_S:.0f} s, 0)")
    print(f"suggest over them: {suggested}, {len(rules)} rules (wanted: at most {BUDGET_S:.0f} s)")
    for one in rules:
        print(f"  {one.rule['id']}: {one.calls:,} calls; beyond: {'; '.join(one.beyond) or 'nothing'}")
    if differ:
        sys.exit(f"the first that differs: {differ[0]}")


if __name__ == "__main__":
    main()
