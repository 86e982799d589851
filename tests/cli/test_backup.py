"""`toolgen backup` of a gateway that runs and is called, and `toolgen restore` to where nothing is."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import patient
from tests.cli.commands import Run
from tests.gateway.governed import project, upstream
from tests.messages import line_names
from tests.served_workers import Served, serving, until
from toolgen.audit.backup import copy_log
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.frontends.python.gateway import Gateway

RULES = [
    {"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"},
    {"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"},
]
POLICY: dict[str, Any] = {"rules": RULES, "approvals": {"approvers": ["user"], "expires": "1h"}}
SIGNED = {"segments": {"size": "64KiB"}, "checkpoints": {"entries": 20}}
MAIL = "/v1/tools/orders__send_mail/call"


@contextmanager
def called(served: Served) -> Iterator[list[int]]:
    """Calls one after the other in three threads, until the block ends; how each ended."""
    done, statuses = threading.Event(), list[int]()

    def call() -> None:
        while not done.is_set():
            statuses.append(served.call().status_code)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        done.set()
        for thread in threads:
            thread.join()


def ask(url: str, to: str = "x") -> str:
    body = {"arguments": {"to": to}, "wait": 0}
    answer = patient.post(url + MAIL, json=body, headers={"authorization": "Bearer key-of-bot"})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["call_id"])


def waits(url: str, call_id: str) -> bool:
    answer: httpx.Response = patient.get(f"{url}/v1/calls/{call_id}", headers={"authorization": "Bearer key-of-bot"})
    return bool(answer.json()["error"]["code"] == "approval_required")


async def test_what_a_program_removed_stays_removed_after_a_restore(tmp_path: Path, toolgen: Run) -> None:
    path = project(tmp_path / "p", "http://127.0.0.1:1", POLICY)
    where = ["--config", str(path)]

    async with Gateway.load(path) as gateway:
        await gateway.tools.remove("orders__get_health")
    assert toolgen("backup", str(tmp_path / "b"), *where).code == 0
    kept = json.loads((tmp_path / "b" / "backup.json").read_text(encoding="utf-8"))
    assert "state/tools.json" in kept["files"]
    old = (path.parent / "var").rename(tmp_path / "old")
    assert toolgen("restore", str(tmp_path / "b"), *where).code == 0
    for key in (old / "audit").glob("*.key"):
        shutil.copy2(key, path.parent / "var" / "audit")
    async with Gateway.load(path) as gateway:
        (removed, called) = (
            gateway.tools.removed,
            (await gateway.call("orders__get_health", {}, principal="bot")).to_dict(),
        )
    assert removed == {"orders__get_health"}
    assert called["error"]["code"] == "unknown_tool"


def by_stream(folder: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for entry in entries(folder):
        found.setdefault(str(entry["stream"]), []).append((entry["seq"], entry["hash"]))
    return {stream: sorted(all_) for stream, all_ in found.items()}


def modes(folder: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), path.stat().st_mode & 0o777) for path in [folder, *folder.rglob("*")]}


def test_a_backup_during_calls_is_restored_verified_and_served(tmp_path: Path, toolgen: Run) -> None:
    with upstream() as (_, server):
        path = project(tmp_path / "p", server, POLICY, audit=SIGNED)
        where = ["--config", str(path)]
        assert toolgen("audit", "keys", "new", *where).code == 0
        with serving(path, "--workers", "2") as served:
            waiting = ask(served.url)
            with called(served) as statuses:
                for number in range(4):
                    if number == 3:  # when the record is in several files
                        until(lambda: any((path.parent / "var" / "audit").glob("*.0*.jsonl*")))
                    taken = toolgen("backup", str(tmp_path / f"b{number}"), *where)
                    assert taken.code == 0, taken.err
            assert set(statuses) == {200}
            assert waits(served.url, waiting)
            assert "a gateway runs here" in toolgen("restore", str(tmp_path / "b3"), *where).err
            assert served.end() == 0
        var, old = path.parent / "var", tmp_path / "old"
        assert "is not empty" in toolgen("restore", str(tmp_path / "b3"), *where).err
        original = by_stream(var / "audit")
        for number in range(4):
            kept = by_stream(tmp_path / f"b{number}" / "audit")
            assert all(original[stream][: len(found)] == found for stream, found in kept.items())
            assert modes(tmp_path / f"b{number}") == {(True, 0o700), (False, 0o600)}
            assert not list((tmp_path / f"b{number}").rglob("*.key"))
        var.rename(old)
        restored = toolgen("restore", str(tmp_path / "b3"), *where)
        assert restored.code == 0, restored.err
        assert line_names(restored.err, "put this key", ".key")
        assert toolgen("audit", "verify", *where).code == 0
        assert list((var / "audit").glob("*.checkpoints"))
        assert list((var / "audit").glob("*.0*.jsonl"))
        assert by_stream(var / "audit") == by_stream(tmp_path / "b3" / "audit")
        assert modes(var / "audit") | modes(var / "state") == {(True, 0o700), (False, 0o600)}
        for key in (old / "audit").glob("*.key"):
            shutil.copy2(key, var / "audit")
        with serving(path, "--workers", "2") as served:
            assert waits(served.url, waiting)
            assert served.call().status_code == 200
            assert served.end() == 0
        assert verify(var / "audit").ok


def small(tmp_path: Path, calls: int = 1) -> tuple[Path, Path]:
    """A project that was served, and its toolgen.yaml."""
    with upstream() as (_, server):
        path = project(tmp_path / "p", server, POLICY)
        with serving(path) as served:
            for _ in range(calls):
                served.call()
            served.end()
    return path, path.parent / "var"


def approve(url: str, call_id: str) -> int:
    return patient.post(
        f"{url}/v1/approvals/{call_id}", json={"decision": "approve"}, headers={"authorization": "Bearer key-of-eve"}
    ).status_code


def told(url: str, call_id: str) -> dict[str, Any]:
    answer = patient.get(f"{url}/v1/calls/{call_id}", headers={"authorization": "Bearer key-of-bot"})
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("lost", ["the state", "the state, and the record since another backup"])
def test_a_call_that_was_carried_out_after_the_backup_never_waits_again(
    tmp_path: Path, toolgen: Run, lost: str
) -> None:
    with upstream() as (seen, server):
        path = project(tmp_path / "p", server, POLICY)
        where, var = ["--config", str(path)], path.parent / "var"
        with serving(path) as served:
            carried_out, waiting = ask(served.url), ask(served.url, "y")
            assert toolgen("backup", str(tmp_path / "b"), *where).code == 0
            assert approve(served.url, carried_out) == 200
            until(lambda: told(served.url, carried_out)["status"] == "ok")
            assert toolgen("backup", str(tmp_path / "later"), *where).code == 0
            assert served.end() == 0
        mails = len(seen.requests)
        backup = tmp_path / "b"
        if lost == "the state":
            (var / "state").rename(tmp_path / "old")
        else:  # the copy of the state is older than that of the record
            (var).rename(tmp_path / "old")
            listed = json.loads((tmp_path / "later" / "backup.json").read_text())
            listed["files"]["state/calls.db"] = json.loads((backup / "backup.json").read_text())["files"][
                "state/calls.db"
            ]
            shutil.copy2(backup / "state" / "calls.db", tmp_path / "later" / "state")
            (tmp_path / "later" / "backup.json").write_text(json.dumps(listed))
            backup = tmp_path / "later"
        restored = toolgen("restore", str(backup), *where)
        assert restored.code == 0, restored.err
        assert "1 calls that waited" in restored.out
        for key in (tmp_path / "old").glob("audit/*.key"):
            shutil.copy2(key, var / "audit")
        with serving(path) as served:
            over = told(served.url, carried_out)
            assert over["error"]["code"] == "outcome_unknown"
            assert "after the backup" in over["error"]["message"]
            assert approve(served.url, carried_out) != 200
            assert waits(served.url, waiting)
            assert approve(served.url, waiting) == 200
            until(lambda: told(served.url, waiting)["status"] == "ok")
            assert served.end() == 0
        assert len(seen.requests) == mails + 1
        report = verify(var / "audit")
        assert (report.ok, report.unfinished) == (True, ())


def test_a_record_that_does_not_go_on_from_the_backup_is_not_kept(tmp_path: Path, toolgen: Run) -> None:
    path, var = small(tmp_path / "one")
    other, _ = small(tmp_path / "two")
    assert toolgen("backup", str(tmp_path / "b"), "--config", str(other)).code == 0
    (var / "state").rename(tmp_path / "old")

    ended = toolgen("restore", str(tmp_path / "b"), "--config", str(path))

    assert (ended.code, "is not empty" in ended.err) == (1, True)
    assert not (var / "state").exists()


def test_what_cannot_be_restored_is_refused_and_leaves_nothing(tmp_path: Path, toolgen: Run) -> None:
    path, var = small(tmp_path)
    backup, where = tmp_path / "b", ["--config", str(path)]
    assert toolgen("backup", str(backup), *where).code == 0
    assert "is not empty" in toolgen("backup", str(backup), *where).err
    var.rename(tmp_path / "old")
    log = backup / "audit" / "gateway-1.jsonl"
    whole, listed = log.read_bytes(), json.loads((backup / "backup.json").read_text())

    def refused(said: str) -> None:
        ended = toolgen("restore", str(backup), *where)
        assert (ended.code, said in ended.err) == (1, True), ended.err
        assert not [file for file in var.rglob("*") if file.is_file() and file.suffix != ".key"]

    log.write_bytes(whole.replace(b"bot", b"not"))
    refused("is not what was backed up")
    log.unlink()
    refused("gateway-1.jsonl")
    (tmp_path / "outside").write_bytes(whole)
    log.symlink_to(tmp_path / "outside")
    refused("gateway-1.jsonl")
    log.unlink()
    log.write_bytes(whole)
    for name in ("../out", "audit/../../out", "other/x", "audit/"):
        (backup / "backup.json").write_text(json.dumps(listed | {"files": {name: "x"}}))
        refused("has a format that this version of toolgen does not support")
    (backup / "backup.json").write_text("{")
    refused("is not what `toolgen backup` writes")
    (backup / "backup.json").unlink()
    refused("contains no complete backup")
    (backup / "backup.json").write_text(json.dumps(listed))
    (var / "audit").mkdir(parents=True, exist_ok=True)
    (var / "audit" / "hmac.key").write_text("0" * 64)
    refused("is another key than the one the backup was taken with")
    shutil.copy2(tmp_path / "old" / "audit" / "hmac.key", var / "audit")
    restored = toolgen("restore", str(backup), *where)
    assert (restored.code, restored.err) == (0, "")
    assert (var / "audit" / "gateway-1.jsonl").read_bytes() == whole


def test_segments_that_close_and_vanish_meanwhile_leave_no_gap(tmp_path: Path) -> None:
    """One thread appends and closes segments as a gateway does, by another name; copies are taken all the while."""
    _, var = small(tmp_path, calls=60)
    folder, done = var / "audit", threading.Event()
    lines = (folder / "gateway-1.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "gateway-1.jsonl").write_bytes(lines[0])

    def rotate() -> None:
        for seq, line in enumerate(lines[1:], 2):
            os.rename(folder / "gateway-1.jsonl", folder / f"gateway-1.{seq - 1:012d}.jsonl")
            (folder / "gateway-1.jsonl").write_bytes(line + b"\0" * 100)
        done.set()

    writing = threading.Thread(target=rotate)
    writing.start()
    number = 0
    while not done.is_set() or not number:
        number += 1
        copy = tmp_path / f"copy{number}"
        copy.mkdir()
        copy_log(folder, copy)
        assert verify(copy).ok
    writing.join()


def test_there_is_nothing_to_back_up_without_a_record(tmp_path: Path, toolgen: Run) -> None:
    path = project(tmp_path / "p", "http://127.0.0.1:9", POLICY)
    ended = toolgen("backup", str(tmp_path / "b"), "--config", str(path))
    assert ended.code == 1
    assert "no audit log" in ended.err
