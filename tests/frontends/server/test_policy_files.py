"""`toolgen serve --workers 2` while the files of its policy are written, cut, removed, renamed, checked out and swapped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import patient
from tests.cli.commands import Run
from tests.gateway.governed import project, upstream
from tests.served_workers import Served, serving, until
from toolgen.gateway.policies.policy_reloader import SETTLED_S

ALLOW = {"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"}
STOP = {"id": "stop", "to": ["bot"], "tools": ["orders__get_health"], "verdict": "deny"}
WHOLE = "".join(f"- {json.dumps(rule)}\n" for rule in (ALLOW, STOP))
RULES = f"rules:\n{WHOLE}"
OPEN = f"# open\nrules:\n- {json.dumps(ALLOW)}\n"


@contextmanager
def served(tmp_path: Path) -> Iterator[tuple[Served, Path]]:
    with upstream() as (_, server):
        path = project(tmp_path / "p", server, {})
        folder = path.parent / "policies"
        (folder / "rules.yaml").write_text(RULES, encoding="utf-8")
        with serving(path, "--workers", "2") as found:
            until(lambda: len(found.workers()) == 2)
            yield found, folder


def codes_for(found: Served, seconds: float) -> set[str]:
    """How all calls end for so long."""
    codes, end = set[str](), time.monotonic() + seconds
    while time.monotonic() < end:
        codes |= found.codes(4)
    return codes


def warned(found: Served, words: str) -> bool:
    """Whether every worker says so to who may ask."""
    asked = [
        patient.get(found.url + "/readyz", headers={"authorization": "Bearer key-of-bot"}).json() for _ in range(12)
    ]
    return all(words in str(one.get("warnings", "")) for one in asked)


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(("git", *who, *words), cwd=folder, check=True, capture_output=True)


def test_a_rule_that_denies_stays_through_writes_that_break_off_until_somebody_accepts(
    tmp_path: Path, toolgen: Run
) -> None:
    with served(tmp_path) as (found, folder):
        assert found.codes() == {"unknown_tool"}
        rules = folder / "rules.yaml"
        with rules.open("r+", encoding="utf-8") as file:  # in place, and it takes its time
            file.truncate()
            for line in RULES.splitlines(keepends=True):
                file.write(line)
                file.flush()
                assert codes_for(found, SETTLED_S / 2) == {"unknown_tool"}
        rules.write_text(RULES[: RULES.index("- {", len("rules:\n- {"))], encoding="utf-8")  # the disk was full
        until(lambda: warned(found, "policies/rules.yaml was cut"))
        assert codes_for(found, SETTLED_S + 1) == {"unknown_tool"}
        old = found.workers()
        os.kill(old[0], signal.SIGKILL)
        until(lambda: len(found.workers()) == 2 and old[0] not in found.workers())
        until(lambda: warned(found, "policies/rules.yaml was cut"))
        assert found.codes() == {"unknown_tool"}
        assert toolgen("policy", "accept", "--config", str(found.path)).code == 0
        until(lambda: found.codes() == {"ok"})
        until(lambda: not warned(found, "cut"))
        rules.write_text(RULES, encoding="utf-8")
        until(lambda: found.codes() == {"unknown_tool"})
        assert found.end() == 0


@pytest.mark.exhaustive
def test_removed_renamed_checked_out_and_swapped_files_are_followed(tmp_path: Path, toolgen: Run) -> None:
    with served(tmp_path) as (found, folder):
        rules, config = folder / "rules.yaml", ("--config", str(found.path))
        # Replaced whole, by a rename.
        (folder / ".new").write_text(OPEN, encoding="utf-8")
        (folder / ".new").replace(rules)
        until(lambda: found.codes() == {"ok"})
        (folder / "stop.yaml").write_text(f"rules:\n- {json.dumps(STOP)}\n", encoding="utf-8")
        until(lambda: found.codes() == {"unknown_tool"})
        assert codes_for(found, SETTLED_S + 1) == {"unknown_tool"}
        # Another name for the same.
        (folder / "stop.yaml").rename(folder / "halt.yaml")
        assert codes_for(found, SETTLED_S + 1) == {"unknown_tool"}
        assert not warned(found, "gone")
        # Gone.
        (folder / "halt.yaml").unlink()
        until(lambda: warned(found, "policies/halt.yaml is gone"))
        assert codes_for(found, SETTLED_S + 1) == {"unknown_tool"}
        assert toolgen("policy", "accept", *config).code == 0
        until(lambda: found.codes() == {"ok"})
        # A checkout.
        git(folder, "init")
        git(folder, "add", "policy.yaml", "rules.yaml")
        git(folder, "commit", "-m", "open")
        git(folder, "checkout", "-b", "closed")
        rules.write_text(RULES, encoding="utf-8")
        git(folder, "commit", "-am", "closed")
        until(lambda: found.codes() == {"unknown_tool"})
        git(folder, "checkout", "main")
        until(lambda: found.codes() == {"ok"})
        git(folder, "checkout", "closed")
        until(lambda: found.codes() == {"unknown_tool"})
        # A mounted ConfigMap.
        (folder / "..1").mkdir()
        (folder / "..2").mkdir()
        (folder / "..1" / "rules.yaml").write_text(RULES, encoding="utf-8")
        (folder / "..2" / "rules.yaml").write_text(OPEN, encoding="utf-8")
        (folder / "..data").symlink_to("..1")
        (folder / ".link").symlink_to("..data/rules.yaml")
        (folder / ".link").replace(rules)
        assert codes_for(found, SETTLED_S + 1) == {"unknown_tool"}
        (folder / "..tmp").symlink_to("..2")
        (folder / "..tmp").replace(folder / "..data")
        until(lambda: found.codes() == {"ok"})
        (folder / "..tmp").symlink_to("..1")
        (folder / "..tmp").replace(folder / "..data")
        until(lambda: found.codes() == {"unknown_tool"})
        assert found.end() == 0
