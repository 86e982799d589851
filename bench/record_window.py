"""Time and peak memory of the commands that decide, or list, the calls of a window of a long record.

`python -m bench.record_window` makes records of one and of ten million entries (`--entries`), spread evenly over `--days` and closed and
compressed as a gateway does, and runs each command over the last day and over everything. `--dir` keeps the records for the next time.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from bench.replay import RULES, drawn_call
from tests.gateway.governed import project
from toolgen.audit.entry import timestamp
from toolgen.audit.files import active_path, closed_name
from toolgen.audit.verify import verify

BUDGET_S, BUDGET_MB = 2.0, 200.0
_DAY_S = 86_400
_SEGMENT = 64 * 2**20
_STREAM = b"gateway-1"
_DIGEST = b"sha256:" + b"0" * 64
_KINDS = 1000  # different calls
_UNFINISHED = 20_000  # one call of so many never ends
_EVERYTHING = "9999d"


def lines(entries: int, begin: float, end: float) -> Iterator[bytes]:
    """The lines of a stream of that many entries, in the canonical form and chained: made by hand, ten times as fast as by `seal`."""
    chance, prev, seq = random.Random(17), b"", 0

    def line(head: bytes, between: bytes, tail: bytes) -> bytes:
        nonlocal prev
        digest = sha256(b"%b%b%b%b" % (prev, head, between, tail)).hexdigest().encode()
        made = b'%b"hash":"%b",%b"prev":"%b",%b\n' % (head, digest, between, prev, tail)
        prev = digest
        return made

    kinds = [drawn_call(chance, number) for number in range(_KINDS)]
    intents = [_intent(tool, arguments) for tool, arguments, _ in kinds]
    outcomes = [_outcome(tool, ending) for tool, _, ending in kinds]
    policy, step = b'"policy_digest":"%b",' % _DIGEST, (end - begin) * 2 / entries
    for number in range(entries // 2):
        moment = timestamp(begin + step * number).encode()
        call = b"call_%024d" % number
        head, tail = intents[number % _KINDS]
        seq += 1
        yield line(head % call, policy, tail % (seq, number % 1000, moment))
        if number % _UNFINISHED:
            head, tail = outcomes[number % _KINDS]
            seq += 1
            yield line(head % call, b"", tail % (seq, moment))


def _intent(tool: str, arguments: Mapping[str, object]) -> tuple[bytes, bytes]:
    """Template of an intent, before and after its hash, with placeholders for call, number, session and time."""
    given = json.dumps(arguments, sort_keys=True, separators=(",", ":")).replace("%", "%%").encode()
    name = tool.encode()
    return (
        b'{"arguments":' + given + b',"call_id":"%b","client":"client/1.0","event":"intent",',
        b'"principal":"bot","seq":%d,"session":"s-%d","stream":"'
        + _STREAM
        + b'","time":"%b","tool":"'
        + name
        + b'","tool_digest":"'
        + _DIGEST
        + b'"}',
    )


def _outcome(tool: str, ending: Mapping[str, str]) -> tuple[bytes, bytes]:
    """Template of an outcome, with placeholders for call, number and time."""
    texts = {name: text.encode() for name, text in ending.items()}
    code = b'"code":"' + texts["code"] + b'",' if "code" in texts else b""
    return (
        b'{"attempts":1,"bytes":1024,"call_id":"%b",' + code + b'"duration_ms":12.345,"event":"outcome",',
        b'"principal":"bot","rule":"'
        + texts["rule"]
        + b'","seq":%d,"status":"'
        + texts["status"]
        + b'","stream":"'
        + _STREAM
        + b'","time":"%b","tool":"'
        + tool.encode()
        + b'","verdict":"'
        + texts["verdict"]
        + b'"}',
    )


def make_log(directory: Path, entries: int, begin: float, end: float) -> int:
    """Writes the log, in segments of 64 MiB; returns its bytes before compression."""
    directory.mkdir(parents=True)
    total, first, seq = 0, 1, 0
    held: list[bytes] = []
    size = 0
    packing: list[Future[None]] = []
    with ThreadPoolExecutor(2) as pool:
        for seq, line in enumerate(lines(entries, begin, end), 1):
            if size + len(line) > _SEGMENT:
                while len(packing) > 3:
                    packing.pop(0).result()
                packing.append(
                    pool.submit(_pack, directory / (closed_name(_STREAM.decode(), first) + ".gz"), b"".join(held))
                )
                held, size, first = [], 0, seq
            held.append(line)
            size += len(line)
            total += len(line)
        for one in packing:
            one.result()
    active_path(directory, _STREAM.decode()).write_bytes(b"".join(held))
    return total


def _pack(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data, 1, mtime=0))


_CHILD = """
import atexit, re, runpy, sys
from pathlib import Path
atexit.register(lambda: print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1], file=sys.stderr))
runpy.run_module("toolgen", run_name="__main__", alter_sys=True)
"""


def measured(arguments: list[str], path: Path) -> tuple[float, float, float, str]:
    """Seconds, those of a processor, peak MB of a command in a process of its own, and the last line that it printed."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        command = [sys.executable, "-c", _CHILD, *arguments, "--config", str(path)]
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        took = time.perf_counter() - began
        for file in (output, errors):
            file.seek(0)
        said, told = (file.read().decode().strip().splitlines() for file in (output, errors))
    if process.returncode not in {0, 1}:
        sys.exit("\n".join(told))
    return took, usage.ru_utime + usage.ru_stime, int(told[-1]) / 1024, said[-1][:60] if said else ""


def main() -> None:
    """Prints time and peak memory, and fails where a day takes more than is promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, action="append", help="1,000,000 and 10,000,000 unless said")
    parser.add_argument("--days", type=float, default=100.0)
    parser.add_argument("--dir", type=Path, help="keeps the records")
    parser.add_argument("--day-only", action="store_true", help="leaves out what reads everything")
    given = parser.parse_args()
    missed = []
    with tempfile.TemporaryDirectory() as temporary:
        for entries in given.entries or [1_000_000, 10_000_000]:
            path = _project(given.dir or Path(temporary), entries, given.days)
            for what, arguments, whole in (
                ("replay", ["policy", "replay"], ["--since", _EVERYTHING]),
                ("suggest", ["policy", "suggest"], ["--since", _EVERYTHING]),
                ("reconcile", ["audit", "reconcile"], []),
            ):
                for part, more in (("a day", ["--since", "1d"]), *([] if given.day_only else [("all", whole)])):
                    took, cpu, peak, said = measured([*arguments, *more], path)
                    print(f"  {what:10}{part:6} {took:7.1f} s ({cpu:.1f} s CPU) {peak:7.0f} MB   {said}", flush=True)
                    if part == "a day" and (took > BUDGET_S or peak > BUDGET_MB):
                        missed.append(f"{what} over a day of {entries:,} entries")
    print(f"wanted of a day: at most {BUDGET_S:.0f} s and {BUDGET_MB:.0f} MB")
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


def _project(folder: Path, entries: int, days: float) -> Path:
    """A project with such a record, made unless it is there. The record ends now, or did when it was made."""
    place = folder / f"{entries}-{days:g}"
    if not (place / "project" / "toolgen.yaml").exists():
        policy = json.loads(json.dumps({"rules": RULES, "approvals": {"approvers": ["user"]}}))
        began, now = time.perf_counter(), time.time()
        path = project(place / "project", "http://127.0.0.1:9", policy)
        size = make_log(path.parent / "var" / "audit", entries, now - days * _DAY_S, now)
        print(f"made {entries:,} entries, {size / 2**20:,.0f} MiB, in {time.perf_counter() - began:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as other:
        small = Path(other) / "log"
        make_log(small, 2_000, 1_750_000_000.0, 1_750_000_100.0)
        assert verify(small).ok, verify(small).faults[:3]
    print(f"{entries:,} entries over {days:g} days")
    return place / "project" / "toolgen.yaml"


if __name__ == "__main__":
    main()
