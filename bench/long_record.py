"""Growth of the work on a record with its length: verification, the index, searches, and the look of retention at its segments.

`python -m bench.long_record --entries 1000000 10000000` makes a log of each length (`bench.index` says of what), with its closed segments
compressed as by a gateway. It prints CPU per entry of what reads all entries, and milliseconds of what must not grow. The exit status is 1
if the verification of an entry costs over 10 % more in the longest log than in the shortest, or its index over 10 % more than sorting
explains, which grows with the logarithm. A log of less than 128,000 entries has no closed segment.
"""

from __future__ import annotations

import argparse
import math
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.index import SEARCHES, make_log
from toolgen.audit.files import closed_segments, pack
from toolgen.audit.index.database import SqliteDatabase
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.reader import first_of
from toolgen.audit.verify import verify

MOST = 1.10
_SHOWN = ("newest", "principal, status", "tool glob, code, time", "call")


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _median_ms(work: Callable[[], object], rounds: int) -> float:
    return statistics.median(_cpu(work) for _ in range(rounds)) * 1e3


def measure(directory: Path, entries: int, rounds: int) -> tuple[float, float]:
    """Print a row. Return the CPU microseconds per entry of verification and of the index."""
    log = directory / "log"
    size = make_log(log, entries)
    for segment in closed_segments(log, "gateway-1"):
        pack(segment)

    def verified() -> None:
        report = verify(log)
        if report.faults or report.entries != entries:
            raise RuntimeError(f"the log is not whole: {report.faults[:1]}")

    checked = _cpu(verified) / entries * 1e6
    with RecordIndex(SqliteDatabase(directory / "index.db"), log) as index:
        filled = _cpu(index.fill) / entries * 1e6
        searched = {name: _median_ms(lambda name=name: index.calls(SEARCHES[name]), rounds) for name in _SHOWN}
        nothing, one = _median_ms(index.fill, rounds), _median_ms(lambda: index.find(entries // 2), rounds)
    looked = _median_ms(lambda: [first_of(one) for one in closed_segments(log, "gateway-1")], rounds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{entries:>10,} entries, {size / 2**20:5.0f} MiB: verified {checked:.1f} us, indexed {filled:.1f} us an entry; nothing new "
        f"{nothing:.1f} ms, one entry {one:.1f} ms, retention {looked:.1f} ms, searches "
        + ", ".join(f"{name} {took:.1f}" for name, took in searched.items())
        + f" ms; peak {peak:.0f} MB",
        flush=True,
    )
    return checked, filled


def main() -> int:
    """Exit status: 1 where the work for an entry grows with the length of the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, nargs="+", default=[500_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", type=Path, default=None, help="folder in which logs and indexes are written")
    parser.add_argument("--keep", action="store_true", help="keep them, each in a folder named by its entries")
    chosen = parser.parse_args()
    rows = []
    for entries in chosen.entries:
        with tempfile.TemporaryDirectory(dir=chosen.dir) as folder:
            place = Path(chosen.dir or ".", str(entries)) if chosen.keep else Path(folder)
            rows.append(measure(place, entries, chosen.rounds))
    sorting = math.log(chosen.entries[-1]) / math.log(chosen.entries[0])
    (verified, filled), (verified_last, filled_last) = rows[0], rows[-1]
    return 0 if verified_last <= MOST * verified and filled_last <= MOST * sorting * filled else 1


if __name__ == "__main__":
    sys.exit(main())
