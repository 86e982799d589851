"""A revocation is written down, and holds, whatever state the rest of the policy is in."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.commands import Run
from tests.exhaustive import spread
from tests.gateway.issuer import AUDIENCE, ISSUER, provider, token
from tests.gateway.test_identity_keys import project
from tests.messages import line_names
from tests.projects import KEY, POLICY
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Principal

__all__ = ["project"]

HASH = hashlib.sha256(KEY.encode()).hexdigest()
OTHER = "reviewer-key"
WAYS = {"principal": ("--all", "bot"), "id": (HASH[:12],), "hash": (f"sha256:{HASH}",)}


def _policy(**sections: Any) -> str:
    return json.dumps({**POLICY, **sections})


def _file(name: str, content: str | bytes) -> Callable[[Path], None]:
    def write(policies: Path) -> None:
        path = policies / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)

    return write


def _swapped(policies: Path, make: Callable[[Path], object], name: str = "policy.yaml") -> None:
    (policies / name).unlink(missing_ok=True)
    make(policies / name)


def _emptied(policies: Path) -> None:
    (policies / "policy.yaml").unlink()


def _gone(policies: Path) -> None:
    shutil.rmtree(policies)


def _without_bot(policies: Path) -> None:
    people = {name: entry for name, entry in POLICY["principals"].items() if name != "bot"}
    (policies / "policy.yaml").write_text(_policy(principals=people))  # its rules name a role that is gone


BROKEN: dict[str, Callable[[Path], None]] = {
    "syntax": _file("policy.yaml", "principals: {"),
    "empty": _file("policy.yaml", ""),
    "no text": _file("policy.yaml", b"\xff\xfe\x00principals"),
    "control characters": _file("policy.yaml", "principals: \x07"),
    "a list": _file("policy.yaml", "[1, 2]"),
    "a number": _file("policy.yaml", "7"),
    "wrong types": _file("policy.yaml", _policy(principals=["bot"])),
    "wrong types below": _file("policy.yaml", _policy(principals={"bot": {"api_key": 7}})),
    "a hash that is none": _file("policy.yaml", _policy(principals={"bot": {"api_key": "sha256:abc"}})),
    "duplicate keys": _file("policy.yaml", "principals: {}\nprincipals: {}\n"),
    "unknown keys": _file("policy.yaml", _policy(nonsense=1)),
    "too deep": _file("policy.yaml", "[" * 80 + "]" * 80),
    "too large": _file("policy.yaml", "# " + "x" * (4 * 1024 * 1024)),
    "an alias": _file("policy.yaml", "rules: &a []\nlimits: *a\n"),
    "a rule about nothing": _file("policy.yaml", _policy(rules=[{"id": "r", "to": ["x"], "tools": ["x"], "verdict": "deny"}])),
    "its principal gone": _without_bot,
    "missing": _emptied,
    "a directory": lambda policies: _swapped(policies, Path.mkdir),
    "a pipe": lambda policies: _swapped(policies, os.mkfifo),
    "a link to nothing": lambda policies: _swapped(policies, lambda path: path.symlink_to("nowhere")),
    "a stranger beside it": _file("policy.txt", "rules: []"),
    "the folder gone": _gone,
    "keys.yaml: syntax": _file("keys.yaml", "keys: [{"),
    "keys.yaml: wrong types": _file("keys.yaml", "keys: 7\nrevoked: 7\n"),
    "keys.yaml: no hash": _file("keys.yaml", "keys: [{principal: bot, hash: nonsense}]\n"),
    "keys.yaml: other sections": _file("keys.yaml", "rules: 7\n"),
    "keys.yaml: duplicate keys": _file("keys.yaml", "keys: []\nkeys: []\n"),
    "keys.yaml: no text": _file("keys.yaml", b"\xff"),
    "keys.yaml: a directory": lambda policies: _swapped(policies, Path.mkdir, "keys.yaml"),
    "keys.yaml: a pipe": lambda policies: _swapped(policies, os.mkfifo, "keys.yaml"),
    "keys.yaml: a link to nothing": lambda policies: _swapped(
        policies, lambda path: path.symlink_to("/nowhere/keys.yaml"), "keys.yaml"
    ),
}  # fmt: skip


async def accepts(gateway: Gateway, credential: str) -> bool:
    return isinstance(await gateway.callers.authenticate(credential), Principal)


@pytest.mark.parametrize("way", spread(WAYS, 3))
@pytest.mark.parametrize("state", BROKEN)
async def test_a_revocation_is_written_down_whatever_state_the_policy_is_in(
    project: Path, toolgen: Run, state: str, way: str
) -> None:
    made = toolgen("keys", "new", "bot").out.strip()
    listed = hashlib.sha256(made.encode()).hexdigest()
    async with Gateway.load("toolgen.yaml") as gateway:
        BROKEN[state](project / "policies")
        await gateway.operations.reload()
        assert await accepts(gateway, KEY)
        done = toolgen("keys", "revoke", *WAYS[way])
        assert done.code == 0, done
        if way != "principal":
            done = toolgen("keys", "revoke", listed)
            assert done.code == 0, done
        await gateway.operations.reload()
        assert not await accepts(gateway, KEY)
        assert not await accepts(gateway, made)
        assert await accepts(gateway, OTHER)  # and nobody else's


def test_it_is_said_that_nothing_was_written_where_nothing_could_be(project: Path, toolgen: Run) -> None:
    shutil.rmtree(project / "policies")
    (project / "policies").write_text("")
    for arguments in (*WAYS.values(), ("--subject", "ann"), ("--certificate", "serial:1")):
        done = toolgen("keys", "revoke", *arguments)
        assert (done.code, done.out) == (1, "")
        assert "nothing was revoked" in done.err


@pytest.mark.parametrize("text", ["sources: {", "sources: {}\nnonsense: 1\n"])
async def test_a_toolgen_yaml_that_cannot_be_used_holds_no_revocation_up(
    project: Path, toolgen: Run, text: str
) -> None:
    async with Gateway.load("toolgen.yaml") as gateway:
        (project / "toolgen.yaml").write_text(text)
        done = toolgen("keys", "revoke", "--all", "bot")
        assert done.code == (1 if text == "sources: {" else 0)  # nobody can say where the policy would be
        assert "toolgen.yaml" in done.err
        await gateway.operations.reload()
        assert not await accepts(gateway, KEY)


@pytest.mark.parametrize("way", ["variable", "reference"])
async def test_a_revocation_goes_where_the_environment_has_the_policy(
    project: Path, toolgen: Run, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the rest of toolgen.yaml cannot be used."""
    (project / "policies").rename(project / "elsewhere")
    monkeypatch.setenv("TOOLGEN_POLICIES" if way == "variable" else "RULES", "elsewhere/")
    data = json.loads((project / "toolgen.yaml").read_text()) | (
        {} if way == "variable" else {"policies": "${env:RULES}"}
    )
    (project / "toolgen.yaml").write_text(json.dumps(data))
    async with Gateway.load("toolgen.yaml") as gateway:
        (project / "toolgen.yaml").write_text(json.dumps(data | {"nonsense": 1}))
        done = toolgen("keys", "revoke", "--all", "bot")
        assert done.code == 0, done.err
        await gateway.operations.reload()
        assert not await accepts(gateway, KEY)


async def test_whoever_was_revoked_whole_gets_in_again_by_what_is_newer(project: Path, toolgen: Run) -> None:
    with provider() as keys:
        rule = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": keys.url, "subject": "bot-1"}
        people = {**POLICY["principals"], "bot": {**POLICY["principals"]["bot"], "jwt": rule}}
        (project / "policies" / "policy.yaml").write_text(_policy(principals=people))

        async with Gateway.load("toolgen.yaml") as gateway:
            shown = token(sub="bot-1", jti="before")
            caller = await gateway.callers.authenticate(shown)
            assert isinstance(caller, Principal)
            assert toolgen("keys", "revoke", "--all", "bot").code == 0
            made = toolgen("keys", "new", "bot").out.strip()
            await gateway.operations.reload()
            assert not await accepts(gateway, KEY)
            assert not await accepts(gateway, shown)
            assert gateway.callers.current(caller) is None  # what it left waiting ends as well
            assert await accepts(gateway, made)
            rows = toolgen("keys", "list", "--json").json()["keys"]
            assert {row["state"] for row in rows if row["principal"] == "bot"} == {"revoked", "accepted"}


def test_revocations_alone_are_no_policy(project: Path, toolgen: Run) -> None:
    (project / "policies" / "policy.yaml").unlink()
    toolgen("keys", "revoke", "--all", "bot")
    assert line_names(toolgen("policy", "check").err, "no rules", "no principals")


_PIECES = (
    "principals:",
    " bot:",
    "\n",
    "  api_key: ",
    f"sha256:{HASH}",
    "{",
    "}",
    "[",
    "]",
    "- ",
    "&a",
    "*a",
    "\t",
    "\x00",
    ":",
)
_TEXT = st.lists(st.sampled_from((*_PIECES, "revoked:", "{principal: 7}", "{principal: bot}"))).map("".join)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.fixed_dictionaries({"policy.yaml": _TEXT, "keys.yaml": _TEXT}))
async def test_no_text_in_its_files_keeps_a_key_open(project: Path, toolgen: Run, texts: dict[str, str]) -> None:
    policies = project / "policies"
    shutil.rmtree(policies)
    policies.mkdir()
    (policies / "policy.yaml").write_text(json.dumps(POLICY))

    async with Gateway.load("toolgen.yaml") as gateway:
        for name, text in texts.items():
            (policies / name).write_text(text)
        toolgen("keys", "revoke", "--all", "bot")
        await gateway.operations.reload()
        assert not await accepts(gateway, KEY)
