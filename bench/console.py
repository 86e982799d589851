"""Latency of the console's pages with a million audit entries: the time from a request to its whole answer.

`python -m bench.console` runs it, on the log of `bench.index`. The first answer of each page is printed separately from the median of
later ones, which use cached figures. `--record DIR/ENTRIES` takes the log and the index that `bench.long_record --dir DIR --keep` left.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re
import statistics
import tempfile
import time
from pathlib import Path

import httpx

from bench.index import BEGAN, SECONDS_EACH, make_log, take_record
from tests.projects import POLICY, make_project
from toolgen.core.clock import FixedClock
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

KEY = "bench-key"
PAGES = (
    "overview?over=1h",
    "overview?over=24h",
    "overview?over=30d",
    "calls",
    "calls?principal=agent-7&status=error",
    "calls?tool=crm__update_note",
    "calls?rule=default",
    "calls?text=needle",
    "calls?when=yesterday&effect=write",
    "approvals",
    "principals?name=agent-7",
    "calls/call_000000000000000000001234",
    "live",
    "tools",
    "policies",
    "policies/history",
    "policies/explain?principal=agent-7&tool=crm__update_note",
    "sources",
    "limits",
    "keys",
    "pauses",
    "record",
)
BUDGET_MS = 150.0


async def main(entries: int, rounds: int, budget: float, record: Path | None) -> None:
    """Prints a line for each page, and fails where a median is over the budget."""
    with tempfile.TemporaryDirectory() as folder:
        policy = json.loads(json.dumps(POLICY))
        key = "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()
        policy["principals"]["rita"] = {"api_key": key, "roles": ["reviewer"]}
        path = make_project(Path(folder) / "project", policy=policy)
        if record is None:
            make_log(path.parent / "var" / "audit", entries)
        else:
            take_record(path.parent, record)
        gateway, clock = Gateway.load(path), FixedClock(BEGAN + entries * SECONDS_EACH)
        app = App(gateway)
        app.open_console(lambda authentication: console_of(gateway, authentication, clock=clock))
        transport = httpx.ASGITransport(app)
        slow = []
        async with gateway, httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=600) as http:
            form = re.search(r'name="form_token" value="([^"]+)"', (await http.get("/console/sign-in")).text)
            assert form
            signed = await http.post("/console/sign-in", data={"credential": KEY, "form_token": form[1]})
            assert signed.status_code == 200, signed.text
            for page in PAGES:
                times = []
                for _ in range(rounds + 1):
                    began = time.perf_counter()
                    answer = await http.get(f"/console/{page}")
                    times.append((time.perf_counter() - began) * 1000)
                    assert answer.status_code == 200, (page, answer.text)
                    clock.advance(1.5)
                median = statistics.median(times[1:])
                print(f"{page:<42} {median:8.1f} ms, the first {times[0]:,.1f} ms")
                slow += [page] if median > budget else []
        await app.close()
    if slow:
        raise SystemExit(f"over {budget:.0f} ms: {', '.join(slow)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--budget", type=float, default=BUDGET_MS, help="milliseconds a page may take")
    parser.add_argument("--record", type=Path, help="folder of a log and its index, of this number of entries")
    given = parser.parse_args()
    asyncio.run(main(given.entries, given.rounds, given.budget, given.record))
