"""What every release left on disk and in Redis is read, and gone on with: record, calls that wait, idempotency keys, pauses, manifest,
tools that a program added and removed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from tests.redis_server import RedisServer
from tests.released import FUNCTIONS, NOW, SAMPLES, at_that_time, opened, replay
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
from toolgen.core.clock import FixedClock
from toolgen.frontends.python.gateway import Gateway
from toolgen.state.redis_connection import RedisLink

RELEASES = sorted(path.name for path in SAMPLES.iterdir())
SINCE_S = 60.0  # an upgrade, a minute later


@pytest.fixture(params=[(release, kind) for release in RELEASES for kind in ("files", "redis")], ids="-".join)
def sample(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a project as a release left it, and what it left in Redis in a Redis."""
    release, kind = request.param
    root = tmp_path / "project"
    shutil.copytree(SAMPLES / release / kind, root)
    (root / "kept").rename(root / "var")
    (root / "functions.txt").rename(root / FUNCTIONS)
    for path in (root / "var").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.delitem(sys.modules, "released_notes", raising=False)
    if kind == "files":
        yield root
    else:
        server = RedisServer(tmp_path)
        server.start()
        try:
            replay(Redis(port=server.port), json.loads((root / "redis.json").read_text(encoding="utf-8")))
            settings = json.loads((root / "toolgen.yaml").read_text(encoding="utf-8"))
            settings["state"] = f"redis://127.0.0.1:{server.port}"
            (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
            monkeypatch.setattr(RedisLink, "now", at_that_time)
            yield root
        finally:
            server.stop()
    sys.modules.pop("released_notes", None)


def told(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((root / "told.json").read_text(encoding="utf-8"))
    return found


def notes(root: Path) -> list[str]:
    return (root / "notes.txt").read_text(encoding="utf-8").splitlines()


def test_there_is_a_sample_of_the_first_release_and_of_what_comes_next() -> None:
    assert {"0.1.0", "next"} <= set(RELEASES)


async def test_the_record_is_whole_and_signed_and_goes_on(sample: Path) -> None:
    record = sample / "var" / "audit"
    before = list(entries(record))
    report = verify(record)
    assert report.ok, report.faults
    assert not report.torn
    assert [one.size for one in report.signed] == [len(before)]
    assert len(list(record.glob("*.jsonl.gz"))) == 2  # closed segments, and one that was being written
    assert {entry["event"] for entry in before} >= {"intent", "outcome", "decision"}

    async with opened(sample / "toolgen.yaml", FixedClock(NOW + SINCE_S)) as gateway:
        assert (await gateway.call("notes__add_note", {"text": "new"}, principal="bot")).status == "ok"
    assert verify(record).ok
    after = list(entries(record))
    assert after[: len(before)] == before
    assert len(after) > len(before)


def test_tools_are_what_they_were(sample: Path) -> None:
    written = json.loads((sample / "generated" / "manifest.json").read_text(encoding="utf-8"))
    found = opened(sample / "toolgen.yaml", FixedClock(NOW)).manifest.tools
    assert {name: tool.digest for name, tool in found.items()} == {
        tool["name"]: tool["digest"] for tool in written["tools"]
    }
    assert {tool.source for tool in found.values()} == {"notes", "pets", "shop"}


async def test_a_key_that_was_used_is_answered_as_before_and_nothing_is_done_again(sample: Path) -> None:
    before, said = notes(sample), told(sample)

    async def repeated(gateway: Gateway, tool: str, text: str, key: str) -> Any:
        return await gateway.call(tool, {"text": text}, principal="bot", idempotency_key=key)

    async with opened(sample / "toolgen.yaml", FixedClock(NOW + SINCE_S)) as gateway:
        again = await repeated(gateway, "notes__add_note", "kept", "key-1")
        assert (again.status, again.data) == ("ok", said["kept"]["data"])
        other = await repeated(gateway, "notes__add_note", "something else", "key-1")
        assert (other.status, other.error.code) == ("refused", "validation")
        waits = await repeated(gateway, "notes__send_note", "waiting with a key", "key-2")
        assert (waits.status, waits.call_id) == ("pending", said["waiting with a key"]["call_id"])
        assert (await repeated(gateway, "notes__add_note", "new", "key-3")).status == "ok"
    assert notes(sample) == [*before, "new"]


async def test_calls_that_waited_still_do_and_are_carried_out_once_somebody_agrees(sample: Path) -> None:
    before, said = notes(sample), told(sample)

    async with opened(sample / "toolgen.yaml", FixedClock(NOW + SINCE_S)) as gateway:
        ann, bot = gateway.principal("ann"), gateway.principal("bot")
        waiting = {item.id for item in await gateway.approvals.answerable(ann)}
        assert waiting == {said[name]["call_id"] for name in ("waiting", "waiting with a key")}
        kept = await gateway.approvals.calls.store.unfinished()
        assert [known.status for known in kept].count("pending") == 2
        for name in ("carried out", "denied"):
            ended = await gateway.approvals.calls.outcome(said[name]["call_id"], bot)
            assert ended is not None
            assert (ended.status, ended.data) == (said[name]["status"], said[name]["data"])
        for name, approve in (("waiting", True), ("waiting with a key", False)):
            await gateway.approvals.decide(said[name]["call_id"], approve=approve, note="", principal=ann)
            now = await gateway.approvals.calls.outcome(said[name]["call_id"], bot, 60.0)
            assert now is not None
            assert now.status == ("ok" if approve else "refused")
        assert await gateway.approvals.answerable(ann) == ()
    assert notes(sample) == [*before, "waiting"]


async def test_calls_that_waited_expire_as_they_would_have(sample: Path) -> None:
    said = told(sample)

    before = notes(sample)
    clock = FixedClock(NOW + SINCE_S)

    async def later(_: RedisLink) -> float:
        return clock.now()

    RedisLink.now = later  # type: ignore[method-assign]
    async with opened(sample / "toolgen.yaml", clock) as gateway:
        clock.advance(3600)
        ended = await gateway.approvals.calls.outcome(said["waiting"]["call_id"], gateway.principal("bot"), 60.0)
        assert ended is not None
        assert ended.error is not None
        assert ended.error.code == "expired"
    assert notes(sample) == before


async def test_what_was_paused_is_paused_until_somebody_resumes_it(sample: Path) -> None:
    async with opened(sample / "toolgen.yaml", FixedClock(NOW + SINCE_S)) as gateway:
        refused = await gateway.call("notes__count_notes", {}, principal="bot")
        assert refused.error is not None
        assert refused.error.code == "paused"
        assert "a sample" in refused.error.message


async def test_tools_that_were_added_and_removed_still_are(sample: Path) -> None:
    changed = told(sample).get("tools", {"removed": [], "added": {}})  # the first release had none
    async with opened(sample / "toolgen.yaml", FixedClock(NOW + SINCE_S)) as gateway:
        assert sorted(gateway.tools.removed) == changed["removed"]
        assert {name: gateway.manifest.tools[name].digest for name in gateway.tools.added} == changed["added"]
        for name in changed["added"]:
            assert (await gateway.call(name, {}, principal="bot")).data == notes(sample)[-1]
        for name in changed["removed"]:
            refused = await gateway.call(name, {}, principal="bot")
            assert refused.error is not None
            assert refused.error.code == "unknown_tool"
        assert gateway.operations.warnings() == ()
