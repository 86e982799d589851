"""The log on a machine that fails: killed at any moment, a full disk, a disk that turns read-only. All of it real."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests import patient
from tests.audit.logs import PLAIN, opened, with_key, write
from tests.audit.test_crash import HEADERS, silent_upstream
from tests.cli.commands import served
from tests.exhaustive import EXHAUSTIVE, size
from tests.projects import make_project
from toolgen.audit.keys import public_keys
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify

ROOT = Path(__file__).parent.parent.parent
KILLS = size("TOOLGEN_KILLS", 6, 200)

WRITER = """
import asyncio, sys
from pathlib import Path
from toolgen.audit.log import AuditLog
from toolgen.audit.config import AuditPlan
from toolgen.core.clock import SystemClock

async def main():
    log = AuditLog(Path(sys.argv[1]), SystemClock(), AuditPlan(segment_bytes=20_000, checkpoint_entries=64, checkpoint_s=0.01))
    log.open()
    async def work(lane):
        for number in range(1_000_000):
            _, seq = await log.append({"event": "intent", "call_id": f"call_{lane}_{number}", "arguments": {"text": "x" * (number % 50)}})
            sys.stdout.write(f"{seq}\\n")
            sys.stdout.flush()
    await asyncio.gather(*(work(lane) for lane in range(8)))

asyncio.run(main())
"""


@pytest.mark.sweep
def test_killed_at_any_moment_it_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """One log, killed again and again while segments are closed, packed and signed, and gone on with each time."""
    with_key(tmp_path)
    chance = random.Random(7)
    acknowledged = 0
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        last = 0
        for _ in range(chance.randrange(1, 400)):
            line = process.stdout.readline()
            assert line, "the log could not be gone on with"
            last = max(last, int(line))
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read().split("\n")[:-1]
        process.wait()
        process.stdout.close()
        acknowledged = max(acknowledged, last, *map(int, rest)) if rest else max(acknowledged, last)
    report = verify(tmp_path)
    assert report.ok, report.faults
    seqs = [entry["seq"] for entry in entries(tmp_path)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) >= acknowledged > KILLS
    assert report.signed
    assert len(list(tmp_path.glob("gateway-1.0*.gz"))) > 1
    write(tmp_path, 1, PLAIN)
    assert verify(tmp_path).ok


IN_NAMESPACE = """
import asyncio, json, subprocess, sys
from pathlib import Path
from toolgen.audit.log import AuditLog
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.core.clock import SystemClock
from toolgen.core.errors import AuditError

folder, kind = Path(sys.argv[1]), sys.argv[2]

async def main():
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=True)
    log = AuditLog(folder, SystemClock())
    log.open()
    acknowledged, refused = 0, []
    async def add(size=10):
        nonlocal acknowledged
        try:
            await log.append({"event": "intent", "call_id": f"call_{acknowledged}", "arguments": {"text": "x" * size}})
            acknowledged += 1
        except AuditError as error:
            refused.append(error.message)
    for _ in range(20):
        await add()
    before = acknowledged
    if kind == "full":
        (folder / "filler").write_bytes(bytes(2_000_000))
        for _ in range(40):
            await add(100_000)
    else:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], check=True)
        for _ in range(3):
            await asyncio.gather(*(add() for _ in range(10)))
    ready_when_broken = log.fault
    broken = acknowledged
    if kind == "full":
        (folder / "filler").unlink()
    else:
        subprocess.run(["umount", str(folder)], check=True)
    for _ in range(20):
        await add()
    ready_after = log.fault
    await log.close()
    report = verify(folder)
    written = sum(1 for entry in entries(folder) if entry["event"] == "intent")
    print(json.dumps({
        "before": before, "broken": broken, "refused": len(refused), "why": sorted(set(refused)), "fault": ready_when_broken,
        "after": acknowledged - broken, "still": ready_after, "ok": report.ok, "written": written, "acknowledged": acknowledged,
    }))

asyncio.run(main())
"""


def in_namespace(folder: Path, kind: str, scenario: str = IN_NAMESPACE) -> dict[str, object]:
    """Runs the scenario in a mount namespace of its own, where a small file system can be filled and turned read-only."""
    command = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a mount namespace")
    done = subprocess.run(
        [*command, sys.executable, "-c", scenario, str(folder), kind],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_full_disk_stops_calls_and_nothing_else_until_there_is_room(tmp_path: Path) -> None:
    found = in_namespace(tmp_path, "full")
    assert found["refused"]
    assert found["why"] == [found["fault"]]
    assert str(found["fault"]).endswith(f": {os.strerror(errno.ENOSPC)}")
    assert (found["after"], found["still"], found["ok"]) == (20, None, True)
    assert found["written"] == found["acknowledged"]


def test_a_read_only_file_system_in_its_place_stops_calls_until_it_can_be_written(tmp_path: Path) -> None:
    found = in_namespace(tmp_path, "read-only")
    assert (found["before"], found["broken"], found["refused"]) == (20, 20, 30)
    assert str(found["why"]).endswith(f": {os.strerror(errno.EROFS)}']")
    assert found["ok"] is True
    assert found["written"] == found["acknowledged"]
    assert (found["after"], found["still"]) == (20, None)


FULL_DISK = """
import asyncio, json, subprocess, sys
from pathlib import Path
from toolgen.audit.log import AuditLog
from toolgen.audit.config import AuditPlan
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.core.clock import SystemClock
from toolgen.core.errors import AuditError

folder, segment_bytes = Path(sys.argv[1]), int(sys.argv[2])
CALLS = 300

async def main():
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], check=True)
    log = AuditLog(folder, SystemClock(), AuditPlan(segment_bytes=segment_bytes, compress=False))
    log.open()

    async def add(event, number, text):
        call = {"call_id": f"call_{number}"} if number is not None else {}
        try:
            await log.append({"event": event, **call, "sql": text})
            return 1
        except AuditError as error:
            refused.append(error.message)
            return 0

    refused = []
    begun = sum([await add("intent", number, "x" * 1000) for number in range(2 * CALLS)])
    size = 1 << 20
    with (folder / "filler").open("wb", buffering=0) as filler:
        while size:
            try:
                filler.write(bytes(size))
            except OSError:
                size //= 2
    # Some begin while others end, in the same batches, until nothing is left to begin with.
    found = await asyncio.gather(*(
        add(event, number + (event == "intent") * 2 * CALLS, "x" * size)
        for number in range(CALLS) for event, size in (("outcome", 9000), ("intent", 4000))
    ))
    ended, begun_later = sum(found[::2]), sum(found[1::2])
    fault = log.fault
    # What no room was kept for takes none from the endings: neither what concerns the gateway itself nor what a call says on its way.
    news = sum([await add("state", None, "x" * 5000) for _ in range(CALLS)])
    attempts = sum(await asyncio.gather(*(add("attempt", CALLS + number, "x" * 300) for number in range(CALLS))))
    later = sum([await add("outcome", 2 * CALLS + number, "x" * 9000) for number in range(CALLS) if found[1 + 2 * number]])
    # Statements that became far longer than their calls let expect, until they fill what is left: then their digests stand for them.
    long = sum([await add("outcome", CALLS + number, "x" * 60_000) for number in range(CALLS)])
    (folder / "filler").unlink()
    after = await add("intent", 9999, "x") + await add("outcome", 9999, "x")
    healed = log.fault
    await log.close()
    report = verify(folder)
    print(json.dumps({
        "begun": begun, "ended": ended, "refused": sorted(set(refused)), "full": begun_later < CALLS, "later": later == begun_later,
        "news": news < CALLS, "attempts": attempts, "long": long,
        "shortened": any(entry.get("sql", "").startswith("hmac-sha256:") for entry in entries(folder)),
        "fault": fault, "after": after, "healed": healed, "ok": report.ok, "torn": report.torn, "unfinished": len(report.unfinished),
    }))

asyncio.run(main())
"""


@pytest.mark.parametrize("segment_bytes", [1 << 30, 400_000])
def test_what_was_begun_before_the_disk_was_full_ends_on_record(tmp_path: Path, segment_bytes: int) -> None:
    full = "the audit log cannot be written: No space left on device"
    assert in_namespace(tmp_path, str(segment_bytes), FULL_DISK) == {
        "begun": 600,
        "ended": 300,
        "refused": [full],
        "full": True,
        "later": True,
        "news": True,
        "attempts": 300,
        "long": 300,
        "shortened": True,
        "fault": full,
        "after": 2,
        "healed": None,
        "ok": True,
        "torn": [],
        "unfinished": 0,
    }


FAILED_DISK = """
import asyncio, fcntl, json, os, struct, subprocess, sys
from pathlib import Path
from toolgen.audit.log import AuditLog
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.core.clock import SystemClock
from toolgen.core.errors import AuditError

image, folder, kind = sys.argv[1], Path(sys.argv[2]), sys.argv[3]

def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(json.dumps({"skip": f"{command[0]}: {done.stderr.strip()[:200]}"}))
        sys.exit()

def shut_down():
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.ioctl(place, 0x8004587D, struct.pack("I", 2))  # EXT4_IOC_SHUTDOWN, without writing the journal
    except OSError as error:
        print(json.dumps({"skip": f"this kernel shuts no ext4 down: {error}"}))
        sys.exit()
    finally:
        os.close(place)

async def main():
    run("truncate", "-s", "16M", image)
    run("mkfs.ext4", "-q", "-F", image)
    run("mount", "-o", "loop", image, str(folder))
    log = AuditLog(folder, SystemClock())
    log.open()
    acknowledged, refused = [], []
    async def add():
        name = f"call_{len(acknowledged)}_{len(refused)}"
        try:
            await log.append({"event": "intent", "call_id": name})
            acknowledged.append(name)
        except AuditError as error:
            refused.append(error.message)
    for _ in range(20):
        await add()
    before = len(acknowledged)
    run("mount", "-o", "remount,abort", str(folder)) if kind == "read-only" else shut_down()
    for _ in range(3):
        await asyncio.gather(*(add() for _ in range(10)))
    broken, fault = len(acknowledged), log.fault
    run("umount", "--lazy", str(folder))
    run("cp", image, image + "-2")  # as one disk of a mirror takes the place of the other
    run("mount", "-o", "loop", image + "-2", str(folder))
    for _ in range(20):
        await add()
    still = log.fault
    await log.close()
    report = verify(folder)
    written = [entry["call_id"] for entry in entries(folder) if entry["event"] == "intent"]
    print(json.dumps({
        "before": before, "broken": broken, "refused": len(refused), "why": sorted(set(refused)), "fault": fault,
        "after": len(acknowledged) - broken, "still": still, "ok": report.ok, "faults": [str(it) for it in report.faults],
        "kept": written == acknowledged,
    }))
    run("umount", "--lazy", str(folder))

asyncio.run(main())
"""


@pytest.mark.parametrize(("kind", "reason"), [("read-only", "Read-only file system"), ("failed", "Input/output error")])
def test_a_disk_that_fails_under_the_open_file_stops_calls_until_another_takes_its_place(
    tmp_path: Path, kind: str, reason: str
) -> None:
    """An ext4 of its own: aborted, which is what the kernel does to one whose journal it cannot write, or shut down as a lost disk is."""
    command = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a mount namespace")
    (tmp_path / "log").mkdir()
    done = subprocess.run(
        [*command, sys.executable, "-c", FAILED_DISK, str(tmp_path / "image"), str(tmp_path / "log"), kind],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    if "skip" in found:
        pytest.skip(found["skip"])
    assert (found["before"], found["broken"], found["refused"]) == (20, 20, 30)
    (why,) = found["why"]
    assert why.endswith(f": {reason}")
    assert str(found["fault"]).endswith(reason)
    assert (found["after"], found["still"], found["ok"]) == (20, None, True), found
    assert found["kept"]


def test_a_gateway_whose_file_takes_no_more_bytes_makes_no_call_until_it_does(tmp_path: Path) -> None:
    """The kernel cuts a write short within the first entry of a group, in a file that is open, and refuses every later one."""
    with silent_upstream() as (port, arrived):
        project = make_project(tmp_path / "project", server=f"http://127.0.0.1:{port}").parent
        path = project / "var" / "audit" / "gateway-1.jsonl"
        query = {"arguments": {"sql": "SELECT 1"}}
        with served(project) as (process, url):

            def post(tool: str, body: object) -> httpx.Response:
                return patient.post(f"{url}/v1/tools/{tool}/call", json=body, headers=HEADERS)

            assert post("shop__query", query).json()["status"] == "ok"
            written = len(path.read_bytes().rstrip(b"\0"))
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (written + 100, resource.RLIM_INFINITY))
            with ThreadPoolExecutor(8) as callers:
                refused = list(callers.map(lambda _: post("pets__get_pet", {"arguments": {"petId": 5}}), range(24)))
            assert {(one.status_code, one.json()["error"]["code"]) for one in refused} == {(503, "audit_unavailable")}
            assert patient.get(f"{url}/readyz").status_code == 503
            assert not arrived.is_set()
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            assert post("shop__query", query).json()["status"] == "ok"
            assert patient.get(f"{url}/readyz").status_code == 200
        report = verify(project / "var" / "audit")
        assert report.ok
        assert {entry["event"] for entry in entries(project / "var" / "audit")} >= {"intent", "outcome"}


@pytest.mark.sweep
async def test_every_edit_swap_removal_and_truncation_of_a_thousand_entries_is_found(tmp_path: Path) -> None:
    with_key(tmp_path)

    log = opened(tmp_path, PLAIN)
    for number in range(500):
        await log.append({"event": "intent", "call_id": f"call_{number}", "principal": "bot"})
        await log.append({"event": "outcome", "call_id": f"call_{number}", "status": "ok"})
    await log.close()
    path, keys = tmp_path / "gateway-1.jsonl", public_keys((), tmp_path)
    whole = path.read_bytes().splitlines(keepends=True)
    assert len(whole) == 1000

    def first(lines: list[bytes]) -> tuple[str, int | None]:
        path.write_bytes(b"".join(lines))
        fault = verify(tmp_path, keys=keys).faults[0]
        return fault.kind, fault.seq

    for index in range(1000) if EXHAUSTIVE else (*range(0, 1000, 60), 499, 500, 998, 999):
        seq, line = index + 1, whole[index]
        edited = line.replace(b'"call_id":"call_', b'"call_id":"cal1_')
        assert first([*whole[:index], edited, *whole[index + 1 :]]) == ("edited", seq)
        cut = whole[:index] + whole[index + 1 :]
        assert first(cut) == (("removed", seq + 1) if seq < 1000 else ("truncated", 999))
        assert first(whole[:index]) == ("truncated", index)
        if seq < 1000:
            assert first([*whole[:index], whole[seq], line, *whole[seq + 1 :]]) == ("removed", seq + 1)
    path.write_bytes(b"".join(whole))
    assert verify(tmp_path, keys=keys).ok
