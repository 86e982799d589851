"""Rules about tools that a program is still to add: they may come before them, open nothing, and are checked when those are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.catalogs import PETS
from toolgen.config.policies import load_policy as load
from toolgen.core.errors import PolicyError
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest, SourceInfo, with_tools
from toolgen.model.tool import Effect, FunctionBinding, Tool, seal
from toolgen.policy.access import Access
from toolgen.policy.document.policy import Policy

BOT = Principal(id="bot", roles=frozenset({"bot"}))
HEAD = "principals: {bot: {roles: [bot]}}\n"
PAY = seal(
    Tool(
        name="added__pay",
        title="Pay",
        description="Pays.",
        input_schema={"type": "object", "properties": {"cents": {"type": "integer"}}},
        output_schema=None,
        effect=Effect.WRITE,
        idempotent=False,
        source="added",
        origin="pay",
        binding=FunctionBinding(module="m", function="pay", code="0"),
    )
)
SECTIONS = {
    "rule": "rules: [{id: r, to: [bot], tools: [added__pay], arguments: {properties: {cents: {maximum: 9}}}, verdict: allow}]",
    "condition": 'rules: [{id: r, to: [bot], tools: ["added__p*"], when: "args.cents < 9", verdict: allow}]',
    "deny": 'rules: [{id: r, to: [bot], tools: ["added__p*"], verdict: deny}]',
    "effects": 'rules: [{id: r, to: [bot], tools: ["added__*"], effects: [write], verdict: allow}]',
    "toolset": 'toolsets: {later: {tools: ["added__*"], to: [bot]}}',
    "labels": 'labels: [{tools: ["added__*"], add: [private]}]',
    "redact": 'redact: [{tools: ["added__*"], fields: ["$.name"], with: "-"}]',
    "plain": 'plain: [{tools: ["added__*"], fields: ["$.cents"]}]',
    "tokens": 'tokens: [{to: [bot], tools: ["added__*"], kinds: [email], arguments: [cents]}]',
}


def read(folder: Path, text: str, manifest: Manifest = PETS) -> Policy:
    (folder / "policies").mkdir(exist_ok=True)
    (folder / "policies" / "p.yaml").write_text(HEAD + text, encoding="utf-8")
    return load(folder / "policies", manifest)


def with_pay() -> Manifest:
    info = SourceInfo(kind="python", digest="", title="", version="")
    return with_tools(PETS, {**PETS.sources, "added": info}, [*PETS.tools.values(), PAY])


@pytest.mark.parametrize("section", SECTIONS)
def test_what_is_said_of_tools_to_come_opens_nothing_and_holds_once_they_are_there(
    tmp_path: Path, section: str
) -> None:
    before = read(tmp_path, SECTIONS[section])
    assert before.rules == ()
    access = Access(before.rules, PETS.tools, before.toolsets)
    assert not any(access.visible(BOT, tool) for tool in (*PETS.tools.values(), PAY))
    after = read(tmp_path, SECTIONS[section], with_pay())
    assert after.digest == before.digest
    assert len(after.rules) == ("rules" in SECTIONS[section])


def test_a_toolset_of_tools_to_come_shows_its_roles_nothing_else(tmp_path: Path) -> None:
    rule = 'rules: [{id: all, to: [bot], tools: ["*"], effects: [read, write, destructive], verdict: allow}]\n'
    for manifest, seen in ((PETS, []), (with_pay(), ["added__pay"])):
        policy = read(tmp_path, rule + SECTIONS["toolset"], manifest)
        access = Access(policy.rules, manifest.tools, policy.toolsets)
        assert [tool.name for tool in manifest.tools.values() if access.visible(BOT, tool)] == seen


@pytest.mark.parametrize(
    "text",
    [
        "rules: [{id: r, to: [bot], tools: [added__pay], arguments: {properties: {cent: {maximum: 9}}}, verdict: allow}]",
        'rules: [{id: r, to: [bot], tools: [added__pay], when: "args.cent < 9", verdict: allow}]',
        "rules: [{id: r, to: [bot], tools: [added__pays, pets__get_dog], verdict: allow}]",
    ],
)
def test_what_does_not_fit_a_tool_that_is_there_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(PolicyError):
        read(tmp_path, text, with_pay())


def test_a_rule_about_effects_waits_for_a_tool_that_has_them(tmp_path: Path) -> None:
    assert read(tmp_path, SECTIONS["effects"].replace("[write]", "[destructive]"), with_pay()).rules == ()


def test_a_source_of_the_project_with_that_name_is_as_strict_as_any(tmp_path: Path) -> None:
    built = SourceInfo(kind="python", digest="", title="", version="", settings="sha256:0")
    manifest = with_tools(PETS, {**PETS.sources, "added": built}, [*PETS.tools.values(), PAY])
    with pytest.raises(PolicyError, match=r"'added__pey'.*'added__pay'"):
        read(tmp_path, SECTIONS["deny"].replace('"added__p*"', "added__pey"), manifest)
