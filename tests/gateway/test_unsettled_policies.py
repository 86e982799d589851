"""Edits of a policy whose files may still be written, or were cut: what they take away counts at once, what they give later or never."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import os
import shutil
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from tests.messages import line_names
from tests.projects import KEY, POLICY, make_project
from toolgen.core.clock import FixedClock
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.policies import policy_reloader
from toolgen.gateway.policies.policy_acceptance import accept
from toolgen.gateway.policies.policy_reloader import SETTLED_S, PolicyReloader
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest
from toolgen.model.verdict import Ask
from toolgen.policy.document.policy import Policy
from toolgen.policy.document.policy_files import PolicyFiles, read_files

QUERY = {"sql": "SELECT id, name FROM customers"}
READS = {"id": "reads", "to": ["bot"], "tools": ["shop__*"], "verdict": "allow"}
DENY = {"id": "stop", "to": ["bot"], "tools": ["shop__query"], "verdict": "deny"}
APPROVALS = {"approvals": {"approvers": ["reviewer"]}}
ASK = {"id": "asks", "to": ["bot"], "tools": ["shop__query"], "verdict": "ask"}


@pytest.fixture(autouse=True)
def _looks_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_reloader, "INTERVAL_S", 1e6)


class Edited:
    """A gateway whose policy is edited, its clock, and looks at its files."""

    def __init__(self, gateway: Gateway, clock: FixedClock, folder: Path) -> None:
        self.gateway, self.clock, self.folder = gateway, clock, folder
        self.reloader: PolicyReloader = gateway.operations.reloader

    def write(self, *, name: str = "policy.yaml", **sections: Any) -> None:
        (self.folder / name).write_text(text(**sections), encoding="utf-8")

    async def noticed(self) -> None:
        """A change has been there for two looks."""
        await self.reloader.look()
        await self.reloader.look()

    async def passed(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.reloader.look()

    async def settled(self) -> None:
        await self.noticed()
        await self.passed(SETTLED_S)

    async def asked(self, tool: str = "shop__query", arguments: Any = QUERY) -> str:
        """How a call would end: `ok` where it would be sent, `ask` where somebody would be asked."""
        preview = await self.gateway.preview(tool, arguments, principal="bot")
        if preview.error is not None:
            return preview.error.code
        who, access = self.gateway.principal("bot"), self.gateway.current.compiled_policy.access
        return "ask" if isinstance(access.decide(who, self.gateway.manifest.tools[tool], arguments), Ask) else "ok"

    @property
    def held(self) -> str:
        return self.reloader.held


def text(**sections: Any) -> str:
    """A policy with these sections, a line for each of its parts."""
    return yaml.safe_dump({**copy.deepcopy(POLICY), **APPROVALS, "rules": [READS], **sections}, sort_keys=False)


@asynccontextmanager
async def edited(root: Path, *, serving: bool = False, **sections: Any) -> AsyncIterator[Edited]:
    project = root / "toolgen.yaml" if (root / "toolgen.yaml").exists() else make_project(root)
    folder = root / "policies"
    if sections or not serving:
        (folder / "policy.yaml").write_text(text(**sections), encoding="utf-8")

    clock = FixedClock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("toolgen.frontends.python.gateway.SystemClock", lambda: clock)
        gateway = Gateway.load(project, serving=serving)
    async with gateway:
        yield Edited(gateway, clock, folder)


async def test_what_an_edit_gives_waits_until_its_files_rest_for_two_seconds(tmp_path: Path) -> None:
    async with edited(tmp_path, rules=[READS, DENY]) as at:
        at.write()
        await at.noticed()
        await at.passed(SETTLED_S - 0.1)
        assert await at.asked() == "unknown_tool"
        at.write(sensitive=["$..x"])  # it is written on: the time begins again
        await at.noticed()
        await at.passed(SETTLED_S - 0.1)
        assert await at.asked() == "unknown_tool"
        await at.passed(0.2)
        assert await at.asked() == "ok"
        assert at.gateway.policy.sensitive == ("$..x",)


_TABLE = {"shop": {"tables": {"customers": {"columns": ["id"]}}}}


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        ({}, {"rules": [READS, DENY]}, "unknown_tool"),
        ({}, {"rules": [{**READS, "tools": ["shop__list_tables"]}]}, "unknown_tool"),
        ({}, {"rules": [{**READS, "to": ["reviewer"]}]}, "unknown_tool"),
        ({}, {"rules": [{**READS, "verdict": "ask"}]}, "ask"),
        ({}, {"rules": [READS, ASK]}, "ask"),
        ({}, {"rules": [{**READS, "when": "principal.id == 'ann'"}]}, "forbidden"),
        ({}, {"rules": [{**READS, "arguments": {"properties": {"sql": {"maxLength": 3}}}}]}, "forbidden"),
        ({}, {"sql": _TABLE}, "sql_refused"),
        ({}, {"sql": {"shop": {"tables": {}}}}, "sql_refused"),
        ({}, {"toolsets": {"few": {"tools": ["shop__list_tables"], "to": ["bot"]}}}, "unknown_tool"),
        ({}, {"principals": {**POLICY["principals"], "bot": {"roles": ["user"]}, "b": {"roles": ["bot"]}}}, "unknown_tool"),
        # A role less may also be more: the rule that denies went with it.
        (
            {
                "rules": [READS, {**DENY, "to": ["reviewer"]}],
                "principals": {**POLICY["principals"], "bot": {"roles": ["bot", "reviewer"]}},
            },
            {"rules": [READS, {**DENY, "to": ["reviewer"]}]},
            "unknown_tool",
        ),
        # Of an edit that takes and gives, what it takes.
        ({"rules": [READS, DENY]}, {"rules": [READS, ASK]}, "unknown_tool"),
        ({"rules": [READS, ASK]}, {"rules": [READS, DENY]}, "unknown_tool"),
    ],
)  # fmt: skip
async def test_what_an_edit_takes_away_is_in_force_at_once_and_nothing_of_what_it_gives(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], code: str
) -> None:
    async with edited(tmp_path, **before) as at:
        assert (await at.asked() == "ok") is not bool(before)
        at.write(**after)
        await at.noticed()
        assert await at.asked() == code


async def test_a_limit_and_a_redaction_that_come_are_in_force_at_once(tmp_path: Path) -> None:
    async with edited(tmp_path) as at:
        limit = {"id": "few", "per": ["principal"], "rate": "1/h"}
        at.write(
            limits=[limit], redact=[{"tools": ["*"], "fields": ["$..name"], "with": "-"}], egress={"allow": ["a:1"]}
        )
        await at.noticed()
        policy = at.gateway.policy
        assert [one.id for one in policy.limits] == ["few"]
        assert [one.fields for one in policy.redactions] == [("$..name",)]
        answer = await at.gateway.call("shop__query", QUERY, principal="bot")
        assert {row[1] for row in answer.to_dict()["data"]["rows"]} == {"-"}
        assert (await at.gateway.call("shop__query", QUERY, principal="bot")).to_dict()["error"]["rule"] == "few"
        assert await at.asked("pets__get_pet", {"petId": 1}) == "unknown_tool"


@pytest.mark.parametrize(
    "bot",
    [
        None,
        {"roles": ["bot"]},
        {"roles": ["bot"], "api_key": {"hash": "sha256:" + hashlib.sha256(b"another").hexdigest()}},
        {"roles": ["bot"], "api_key": [{"hash": "sha256:" + hashlib.sha256(KEY.encode()).hexdigest(), "expires": "2001-01-01"}]},
    ],
)  # fmt: skip
async def test_a_key_that_goes_is_refused_at_once_and_one_that_comes_waits(
    tmp_path: Path, bot: dict[str, Any] | None
) -> None:
    async with edited(tmp_path) as at:
        callers = at.gateway.callers
        assert isinstance(await callers.authenticate(KEY), Principal)
        people = {name: entry for name, entry in POLICY["principals"].items() if name != "bot"}
        spare = {"spare": {"roles": ["bot"], "api_key": "sha256:" + hashlib.sha256(b"new").hexdigest()}}
        if bot is not None:
            bot["api_key"] = [bot["api_key"]] if isinstance(bot.get("api_key"), dict) else bot.get("api_key", [])
        at.write(principals={**people, **({} if bot is None else {"bot": bot}), **spare})
        await at.noticed()
        assert not isinstance(await callers.authenticate(KEY), Principal)
        assert not isinstance(await callers.authenticate("new"), Principal)
        await at.passed(SETTLED_S)
        assert isinstance(await callers.authenticate("new"), Principal)


async def test_a_file_that_is_half_written_takes_no_rule_that_denies_away(tmp_path: Path) -> None:
    """Written piece by piece, each piece there for longer than files have to rest: what is a part of what was in force never counts."""

    async with edited(tmp_path, rules=[READS, DENY], tests=[]) as at:
        path = at.folder / "policy.yaml"
        whole = path.read_bytes()
        for end in range(0, len(whole), 97):
            path.write_bytes(whole[:end])
            await at.settled()
            assert await at.asked() == "unknown_tool"
        path.write_bytes(whole)
        await at.settled()
        assert (await at.asked(), at.held, at.reloader.unread) == ("unknown_tool", "", "")
        assert await at.asked("shop__list_tables", {}) == "ok"


async def test_an_edit_that_breaks_off_leaves_what_it_took_away_taken(tmp_path: Path) -> None:
    async with edited(tmp_path) as at:
        at.write(rules=[READS, DENY])
        await at.noticed()
        (at.folder / "policy.yaml").write_text("rules: [", encoding="utf-8")
        await at.settled()
        assert at.reloader.unread
        assert await at.asked() == "unknown_tool"
        at.write(sensitive=["$..x"])
        await at.settled()
        assert await at.asked() == "ok"


async def _split(at: Edited) -> None:
    """The rule that denies in a file of its own."""
    (at.folder / "stop.yaml").write_text(yaml.safe_dump({"rules": [DENY]}) + "# the end\n", encoding="utf-8")
    await at.settled()
    assert await at.asked() == "unknown_tool"


async def test_a_file_that_is_gone_is_told_and_gives_nothing_before_it_is_accepted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with edited(tmp_path) as at:
        await _split(at)
        (at.folder / "stop.yaml").unlink()
        for _ in range(3):
            await at.settled()
        assert await at.asked() == "unknown_tool"
        assert "policies/stop.yaml is gone" in at.held
        assert at.held in at.gateway.operations.warnings()
        assert at.held in caplog.text
        accept(at.gateway.settings, read_files(at.folder))
        await at.passed(0)
        assert (await at.asked(), at.held) == ("ok", "")
        # Lost again, it is asked about again.
        await _split(at)
        (at.folder / "stop.yaml").unlink()
        await at.settled()
        assert await at.asked() == "unknown_tool"


async def test_what_was_accepted_are_these_files_and_no_others(tmp_path: Path) -> None:
    async with edited(tmp_path) as at:
        await _split(at)
        (at.folder / "stop.yaml").unlink()
        await at.settled()
        accept(at.gateway.settings, read_files(at.folder))
        at.write(sensitive=["$..x"])
        await at.settled()
        assert await at.asked() == "unknown_tool"


async def test_a_file_that_was_cut_gives_nothing_unless_it_is_marked_as_whole(tmp_path: Path) -> None:
    sections = {name: POLICY[name] for name in ("sql", "egress")}
    make_project(tmp_path)
    (tmp_path / "policies" / "policy.yaml").unlink()
    ordered = {"principals": POLICY["principals"], **sections, "rules": [READS, DENY]}
    (tmp_path / "policies" / "policy.yaml").write_text(yaml.safe_dump(ordered, sort_keys=False), encoding="utf-8")
    async with edited(tmp_path, serving=True) as at:
        path = at.folder / "policy.yaml"
        whole = path.read_text(encoding="utf-8")
        cut = whole[: whole.index("- id: stop")]
        path.write_text(cut, encoding="utf-8")
        await at.settled()
        assert await at.asked() == "unknown_tool"
        assert line_names(at.held, "policies/policy.yaml ", f"{len(whole)} to {len(cut)} bytes")
        path.write_text(whole, encoding="utf-8")
        await at.noticed()
        assert (await at.asked(), at.held) == ("unknown_tool", "")
        path.write_text(cut + "...\n", encoding="utf-8")
        await at.settled()
        assert (await at.asked(), at.held) == ("ok", "")
        path.write_text(cut + "sensitive: ['$..x']\n", encoding="utf-8")  # what had a marker has to have one
        await at.settled()
        assert "end marker" in at.held
        assert at.gateway.policy.sensitive == ("$..x",)  # which takes away, and so is in force


@pytest.mark.parametrize("ending", ["", "\n", "\n\n# two\n"])
async def test_comments_and_blank_lines_at_the_end_are_no_loss(tmp_path: Path, ending: str) -> None:
    async with edited(tmp_path) as at:
        path = at.folder / "policy.yaml"
        body = text(sensitive=["$..x"]).rstrip()
        path.write_text(body + "\n\n# two\n# three\n\n", encoding="utf-8")
        await at.settled()
        path.write_text(body + ending, encoding="utf-8")
        await at.settled()
        assert at.held == ""


async def test_a_file_with_another_name_is_not_gone(tmp_path: Path) -> None:
    async with edited(tmp_path) as at:
        (at.folder / "policy.yaml").rename(at.folder / "main.yml")
        await at.settled()
        assert (await at.asked(), at.held, at.reloader.unread) == ("ok", "", "")
        at.write(name="main.yml", rules=[READS, DENY])
        await at.noticed()
        assert await at.asked() == "unknown_tool"


async def test_a_config_map_that_is_swapped_is_followed(tmp_path: Path) -> None:
    """As Kubernetes mounts it: files are links into `..data`, a link that is replaced by another."""

    def swap(folder: Path, number: int, **files: str) -> None:
        made = folder / f"..{number}"
        made.mkdir()
        for name, said in files.items():
            (made / f"{name}.yaml").write_text(said, encoding="utf-8")
        (folder / "..new").symlink_to(made.name)
        os.replace(folder / "..new", folder / "..data")
        for path in folder.glob("*.yaml"):
            if path.stem not in files:
                path.unlink()
        for name in files:
            if not (folder / f"{name}.yaml").is_symlink():
                (folder / f"{name}.yaml").unlink(missing_ok=True)
                (folder / f"{name}.yaml").symlink_to(f"..data/{name}.yaml")
        shutil.rmtree(folder / f"..{number - 1}", ignore_errors=True)

    async with edited(tmp_path) as at:
        stop = yaml.safe_dump({"rules": [DENY]})
        swap(at.folder, 1, policy=text(), stop=stop)
        await at.noticed()
        assert await at.asked() == "unknown_tool"
        await at.passed(SETTLED_S)
        swap(at.folder, 2, policy=text(rules=[READS, {**DENY, "id": "other"}]), stop=stop.replace("query", "explain"))
        await at.settled()
        assert (await at.asked(), at.held) == ("unknown_tool", "")
        swap(at.folder, 3, policy=text(), stop=stop.replace("query", "explain"))
        await at.noticed()
        assert await at.asked() == "unknown_tool"
        await at.passed(SETTLED_S)
        assert await at.asked() == "ok"
        swap(at.folder, 4, policy=text())
        await at.settled()
        assert "policies/stop.yaml is gone" in at.held


async def test_a_process_that_starts_goes_on_with_what_was_in_force(tmp_path: Path) -> None:
    """As a worker does whose files were cut meanwhile, until somebody accepts that."""

    async with edited(tmp_path, serving=True, rules=[READS]) as at:
        await _split(at)
    (tmp_path / "policies" / "stop.yaml").unlink()
    async with edited(tmp_path, serving=True) as at:
        assert await at.asked() == "unknown_tool"
        await at.settled()
        assert await at.asked() == "unknown_tool"
        assert "policies/stop.yaml is gone" in at.held

    settings = Gateway.load(tmp_path / "toolgen.yaml").settings
    accept(settings, read_files(tmp_path / "policies"))
    for _ in range(2):
        async with edited(tmp_path, serving=True) as at:
            assert (await at.asked(), at.held) == ("ok", "")


async def test_files_that_change_behind_their_times_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with edited(tmp_path) as at:
        at.write(sensitive=["$..x"])
        await at.noticed()
        state = policy_reloader.state_of(at.folder)
        monkeypatch.setattr(policy_reloader, "state_of", lambda _: state)
        at.write(rules=[READS, DENY])
        for _ in range(3):
            await at.passed(SETTLED_S)
        assert await at.asked() == "unknown_tool"


async def test_a_catalog_that_comes_meanwhile_lets_nothing_of_an_edit_in(tmp_path: Path) -> None:
    async with edited(tmp_path, rules=[READS, DENY]) as at:
        at.write()
        await at.noticed()

        async def begin() -> None:
            pass

        await at.reloader.adopt(at.reloader.runtime, begin)
        await at.noticed()
        assert await at.asked() == "unknown_tool"
        await at.passed(SETTLED_S)
        assert await at.asked() == "ok"


async def test_a_call_that_waits_is_not_ended_by_an_edit_about_something_else(tmp_path: Path) -> None:
    async with edited(tmp_path) as at:
        who, tool = at.gateway.principal("bot"), at.gateway.manifest.tools["shop__query"]
        before = at.gateway.current.compiled_policy.scope_hash(who, tool)
        at.write(rules=[READS, {**DENY, "tools": ["pets__*"]}])
        await at.noticed()
        assert at.gateway.current.compiled_policy.scope_hash(who, tool) == before
        at.write(rules=[READS, ASK])
        await at.noticed()
        assert at.gateway.current.compiled_policy.scope_hash(who, tool) != before


async def test_a_revocation_waits_for_nothing_else_that_is_read(tmp_path: Path) -> None:
    seen: list[bool] = []

    async with edited(tmp_path) as at:
        assert isinstance(await at.gateway.callers.authenticate(KEY), Principal)
        read = at.reloader.runtime.read_policy

        def reading(files: PolicyFiles, known: Manifest) -> Policy:
            seen.append(at.gateway.callers.recognised(KEY) is None)
            return read(files, known)

        at.reloader.runtime = replace(at.reloader.runtime, read_policy=reading)
        revoked = {"revoked": [{"key": "sha256:" + hashlib.sha256(KEY.encode()).hexdigest()}]}
        (at.folder / "keys.yaml").write_text(yaml.safe_dump(revoked), encoding="utf-8")
        await at.noticed()
        assert seen == [True]
        await at.passed(SETTLED_S)
        assert at.gateway.callers.recognised(KEY) is None


def _revoke(at: Edited) -> None:
    sha256 = hashlib.sha256(KEY.encode()).hexdigest()
    (at.folder / "keys.yaml").write_text(f"revoked: [{{key: 'sha256:{sha256}'}}]\n", encoding="utf-8")


async def test_a_key_is_revoked_while_another_edit_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with edited(tmp_path) as at:
        goes_on, reads = threading.Event(), asyncio.Event()
        loop, runtime = asyncio.get_running_loop(), at.reloader.runtime

        def slowly(files: PolicyFiles, manifest: Manifest) -> Policy:
            loop.call_soon_threadsafe(reads.set)
            assert goes_on.wait(60)
            return runtime.read_policy(files, manifest)

        assert isinstance(await at.gateway.callers.authenticate(KEY), Principal)
        at.reloader.runtime = replace(runtime, read_policy=slowly)
        at.write(rules=[READS, DENY])
        reading = asyncio.create_task(at.noticed())
        await reads.wait()
        try:
            monkeypatch.setattr(policy_reloader, "INTERVAL_S", 0.01)
            watching = asyncio.create_task(at.reloader._look_for_revocations())
            _revoke(at)
            while isinstance(await at.gateway.callers.authenticate(KEY), Principal):
                await at.gateway.current.changed()
            assert await at.asked() == "ok"  # the edit is not read yet
        finally:
            goes_on.set()
            watching.cancel()
        await reading
        assert await at.asked() == "unknown_tool"
        assert not isinstance(await at.gateway.callers.authenticate(KEY), Principal)


async def test_a_key_revoked_while_a_catalog_comes_stays_revoked(tmp_path: Path) -> None:
    async with edited(tmp_path) as at:
        assert isinstance(await at.gateway.callers.authenticate(KEY), Principal)

        async def begin() -> None:
            _revoke(at)
            await at.reloader.revoke(policy_reloader.state_of(at.folder))
            assert not isinstance(await at.gateway.callers.authenticate(KEY), Principal)

        await at.reloader.adopt(at.reloader.runtime, begin)
        assert not isinstance(await at.gateway.callers.authenticate(KEY), Principal)
        await at.settled()
        assert not isinstance(await at.gateway.callers.authenticate(KEY), Principal)
        (at.folder / "keys.yaml").write_text("revoked: []\n", encoding="utf-8")
        await at.settled()
        assert isinstance(await at.gateway.callers.authenticate(KEY), Principal)
