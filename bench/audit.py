"""Cost of the audit log: appending as a gateway does, group commit, signing, and verification compared with canonical JSON and SHA-256.

`python -m bench.audit` runs it. CPU is that of the whole process, threads and kernel included, with the stage that makes the entries and
the log that stores them, minus the same calls without both. Rounds are interleaved, medians reported. `--dir` selects the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import uvloop

from tests.catalogs import PETS
from toolgen.audit.config import AuditPlan
from toolgen.audit.entry import hashed
from toolgen.audit.keys import PRIVATE, make_key
from toolgen.audit.log import AuditLog
from toolgen.audit.reader import lines_of
from toolgen.audit.verify import verify
from toolgen.core.clock import SystemClock
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.model.call import Call, Principal
from toolgen.model.result import Delivery, Result, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.pipeline.middleware import CallContext, Next
from toolgen.pipeline.stages.record import Record, UserRecorder

CALL = Call(
    id="call_0",
    tool=PETS.tools["pets__get_pet"],
    arguments={"petId": 1, "name": "Rex"},
    principal=Principal(id="support-bot", on_behalf_of=Principal(id="ann")),
    session="s-1",
    client="client/1.0",
)
ANSWER = Success(data=1, delivery=Delivery(bytes=1024, attempts=1))
Stage = Callable[[Call, CallContext, Next], Awaitable[Result]]


class Plain:
    """Recorded arguments where nothing is sensitive."""

    def arguments(self, call: Call) -> JsonObject:
        return call.arguments

    def statement(self, call: Call, statement: Json) -> Json:
        return statement


async def answer(call: Call, call_context: CallContext) -> Result:
    """Executor that costs nothing: one turn of the event loop, as for any answer."""
    call_context.verdict, call_context.rule = "allow", "support-reads"
    await asyncio.sleep(0)
    return ANSWER


async def bare(call: Call, call_context: CallContext, proceed: Next) -> Result:
    """Pipeline without an audit log."""
    return await proceed(call, call_context)


async def run(stage: Stage, lanes: int, calls: int) -> tuple[float, float]:
    """Wall seconds and CPU seconds of so many calls, that many at a time."""
    each = calls // lanes

    async def lane(number: int) -> None:
        for turn in range(each):
            await stage(msgspec.structs.replace(CALL, id=f"call_{number}_{turn}"), CallContext(), answer)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(lane(number) for number in range(lanes)))
    return time.perf_counter() - wall, time.process_time() - cpu


async def appending(directory: Path, *, rounds: int, calls: int) -> None:
    """Prints what a call costs at 1, 16 and 64 in flight, signed and not."""
    clock = SystemClock()
    logs: dict[str, AuditLog] = {}
    for name in ("plain", "signed"):
        place = directory / name
        if name == "signed":
            make_key(place / PRIVATE, place)
        logs[name] = AuditLog(place, clock, AuditPlan(checkpoint_entries=5000, checkpoint_s=1.0))
        logs[name].open()
    await asyncio.sleep(0.2)  # until the maintenance threads have found their keys
    measured: dict[tuple[str, int], list[tuple[float, float]]] = {}
    stages: dict[str, Stage] = {}
    for name, log in logs.items():
        stages[name] = Record(
            journal=log,
            clock=clock,
            policy_digest="sha256:" + "0" * 64,
            conceal=Plain(),
            users=UserRecorder(named={"support-bot", "ann"}, conceal=dict),
            counts=Metrics(),
        )
    stages["none"] = bare
    for _ in range(rounds):
        for lanes in (1, 16, 64):
            some = calls if lanes > 1 else max(calls // 8, 100)
            for name, stage in stages.items():
                wall, cpu = await run(stage, lanes, some)
                measured.setdefault((name, lanes), []).append((wall / some, cpu / some))
    for log in logs.values():
        await log.close()
    print(
        f"a call's two entries, CPU us above the same call without a record, median of {rounds} rounds; records a second"
    )
    for name in logs:
        row = []
        for lanes in (1, 16, 64):
            extra = [
                cpu - without
                for (_, cpu), (_, without) in zip(measured[name, lanes], measured["none", lanes], strict=True)
            ]
            rate = 2 / statistics.median(wall for wall, _ in measured[name, lanes])
            row.append(f"c={lanes}: {statistics.median(extra) * 1e6:.0f} us, {rate:,.0f}/s")
        print(f"  {name:7} {'   '.join(row)}")


def verifying(directory: Path, rounds: int) -> None:
    """Prints how many entries a second are verified, what SHA-256 alone would come to, and what with the canonical form made again."""
    for name in ("plain", "signed"):
        place = directory / name
        rates, floors, limits = [], [], []
        for _ in range(rounds):
            began = time.process_time()
            report = verify(place)
            rates.append(report.entries / (time.process_time() - began))
            assert report.ok, report.faults[:3]
            data = list(lines_of(place, "gateway-1"))
            began = time.process_time()
            for line in data:
                hashlib.sha256(line).hexdigest()
            floors.append(len(data) / (time.process_time() - began))
            began = time.process_time()
            for line in data:
                entry = msgspec.json.decode(line)
                assert hashed(entry, entry["prev"]) == entry["hash"]
            limits.append(len(data) / (time.process_time() - began))
        size = sum(map(len, data)) / len(data)
        print(
            f"verify, {name}: {statistics.median(rates):,.0f} entries/s of {size:.0f} bytes on one core ({report.entries:,} entries); "
            f"already read, hashing them alone: {statistics.median(floors):,.0f}/s, "
            f"decoding, canonical form and hash: {statistics.median(limits):,.0f}/s"
        )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=8000)
    parser.add_argument("--dir", type=Path, default=None, help="where the log is written, to measure that disk")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(appending(Path(folder), rounds=options.rounds, calls=options.calls))
        verifying(Path(folder), 3)


if __name__ == "__main__":
    main()
