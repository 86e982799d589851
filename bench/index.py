"""Speed of the audit index: indexing a log, and searching a million entries.

`python -m bench.index` runs it. The log is made of the lines that a gateway writes, in segments of 64 MiB as it closes them; agents, tools,
outcomes and times are random with a fixed seed. `--postgres URL` measures an index there too, in an empty database.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from toolgen.audit.entry import seal, timestamp
from toolgen.audit.files import active_path, closed_name
from toolgen.audit.index.database import IndexDatabase, SqliteDatabase
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.index.row import RecordFilter

_SEGMENT = 64 * 2**20
BEGAN, SECONDS_EACH = 1_750_000_000.0, 0.0025
"""Time of the first entry, and seconds between two."""
_DIGEST = "sha256:" + "0" * 64
_PRINCIPALS = [f"agent-{number}" for number in range(40)]
_TOOLS = [
    f"{source}__{verb}_{noun}"
    for source in ("shop", "crm", "billing")
    for verb in ("get", "list", "update", "delete")
    for noun in ("order", "customer", "invoice", "ticket", "note")
]
_ENDINGS = [("ok", "", "allow", "support-reads")] * 90 + [
    ("refused", "forbidden", "deny", "default"),
    ("refused", "rate_limited", "deny", "per-agent"),
    ("error", "upstream", "allow", "support-reads"),
    ("error", "timeout", "allow", "support-writes"),
    ("pending", "pending", "ask", "lead-approves"),
]  # fmt: skip
SEARCHES: dict[str, RecordFilter] = {
    "newest": RecordFilter(),
    "principal": RecordFilter(principal="agent-7"),
    "tool": RecordFilter(tool="crm__update_note"),
    "tool glob": RecordFilter(tool="billing__delete_*"),
    "verdict": RecordFilter(verdict="ask"),
    "rule": RecordFilter(rule="support-writes"),
    "status": RecordFilter(status="refused"),
    "code": RecordFilter(code="timeout"),
    "session": RecordFilter(session="s-1234"),
    "time": RecordFilter(since=int((BEGAN + 1000) * 1e6), until=int((BEGAN + 1010) * 1e6)),
    "principal, status": RecordFilter(principal="agent-7", status="error"),
    "tool glob, code, time": RecordFilter(tool="crm__*", code="rate_limited", since=int((BEGAN + 500) * 1e6)),
    "rule, session (none)": RecordFilter(rule="support-writes", session="s-none"),
    "call": RecordFilter(call_id="call_000000000000000000001234"),
    "text (not indexed), principal": RecordFilter(text="needle 4711", principal="agent-7"),
}


def lines(entries: int) -> Iterator[bytes]:
    """The lines of a stream of that many entries: calls whose outcomes come a little after their intents."""
    chance = random.Random(8)
    prev, seq, now = "", 0, BEGAN
    waiting: list[tuple[float, dict[str, object]]] = []

    def sealed(fields: dict[str, object], moment: float) -> bytes:
        nonlocal prev, seq
        seq += 1
        prev, line = seal(fields, seq=seq, stream="gateway-1", time=timestamp(moment), prev=prev)
        return line

    for number in range(entries // 2):
        now += 2 * SECONDS_EACH
        status, code, verdict, rule = chance.choice(_ENDINGS)
        duration = chance.lognormvariate(3.5, 0.8)
        call: dict[str, object] = {
            "call_id": f"call_{number:024d}",
            "principal": chance.choice(_PRINCIPALS),
            "on_behalf_of": "ann" if number % 10 == 0 else "",
            "tool": chance.choice(_TOOLS),
        }
        arguments = {"order_id": f"o{number}", "note": f"needle {number}" if number % 97 == 0 else "hello", "limit": 20}
        session = f"s-{chance.randrange(20_000)}"
        digests = {"tool_digest": _DIGEST, "policy_digest": _DIGEST}
        said = {"arguments": arguments, "session": session, "client": "client/1.0", **digests}
        yield sealed({"event": "intent", **call, **said}, now)
        decided = {"status": status, "code": code, "verdict": verdict, "rule": rule}
        ending = {
            "event": "outcome",
            **call,
            **decided,
            "duration_ms": round(duration, 3),
            "bytes": 1024,
            "attempts": 1,
        }
        waiting.append((now + duration / 1000, ending))
        if len(waiting) >= 16:
            waiting.sort(key=lambda item: item[0])
            moment, first = waiting.pop(0)
            yield sealed(first, max(now, moment))
    for moment, ending in waiting:
        yield sealed(ending, max(now, moment))


def take_record(project: Path, kept: Path) -> None:
    """Give a project a log and its index that `bench.long_record --keep` left on the same file system. Its calls are added to them."""
    log, index = project / "var" / "audit", project / "var" / "state" / "audit-index.db"
    for place in (log, index):
        place.parent.mkdir(parents=True, exist_ok=True)
    log.symlink_to((kept / "log").absolute())
    index.hardlink_to(kept / "index.db")  # the index is not opened through a link to its path


def make_log(directory: Path, entries: int) -> int:
    """Writes the log; returns its bytes."""
    directory.mkdir(parents=True)
    made, total, first, seq = 0, 0, 1, 0
    file = active_path(directory, "gateway-1").open("wb")
    for number, line in enumerate(lines(entries), 1):
        if made + len(line) > _SEGMENT:
            file.close()
            active_path(directory, "gateway-1").rename(directory / closed_name("gateway-1", first))
            file = active_path(directory, "gateway-1").open("wb")
            made, first = 0, seq + 1
        seq = number
        made += file.write(line)
        total += len(line)
    file.close()
    return total


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def measure(name: str, database: IndexDatabase, directory: Path, entries: int, rounds: int) -> None:
    """Fills an index and searches it."""
    with RecordIndex(database, directory) as index:
        wall, cpu = time.perf_counter(), time.process_time()
        filled = index.fill()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        assert (filled.entries, filled.faults) == (entries, []), filled
        rate = f"{entries / wall:,.0f}/s, {cpu / entries * 1e6:.0f} us CPU here an entry"
        print(f"{name}: filled with {entries:,} entries in {wall:.1f} s ({rate})")
        print(f"  nothing new: {statistics.median(timed(index.fill) for _ in range(rounds)):.1f} ms")
        for title, wanted in SEARCHES.items():
            found = len(index.calls(wanted).rows)
            took = [timed(lambda wanted=wanted: index.calls(wanted)) for _ in range(rounds)]
            entry = [timed(lambda wanted=wanted: index.entries(wanted)) for _ in range(rounds)]
            print(
                f"  {title:32} {found:3} calls: median {statistics.median(took):6.1f} ms, worst {max(took):6.1f} ms; "
                f"as entries: median {statistics.median(entry):6.1f} ms"
            )
        print(f"  one entry, held against the log: {timed(lambda: index.find(entries // 2)):.1f} ms")


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dir", type=Path, default=None, help="where log and index are written, to measure that disk")
    parser.add_argument("--postgres", metavar="URL", default="", help="an empty database, without a password")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        log = Path(folder) / "log"
        began = time.perf_counter()
        size = make_log(log, options.entries)
        print(
            f"made a log of {options.entries:,} entries, {size / 2**20:.0f} MiB, in {time.perf_counter() - began:.1f} s"
        )
        path = Path(folder) / "index.db"
        measure("SQLite", SqliteDatabase(path), log, options.entries, options.rounds)
        print(f"  its file: {path.stat().st_size / 2**20:.0f} MiB")
        if options.postgres:
            from toolgen.audit.index.postgres import PostgresDatabase  # noqa: PLC0415 - an extra
            from toolgen.connectors.sql.engines import location_of  # noqa: PLC0415 - see above
            from toolgen.model.database_url import ServerLocation  # noqa: PLC0415 - see above

            location = location_of(options.postgres)
            assert isinstance(location, ServerLocation)
            measure("PostgreSQL", PostgresDatabase(location, ""), log, options.entries, options.rounds)


if __name__ == "__main__":
    main()
