"""What part of a policy concerns a call: decided otherwise means another digest, and an edit elsewhere the same one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import field, structs

from tests.connectors.graphql.reading import read_sdl
from tests.exhaustive import examples
from tests.projects import POLICY, make_project
from toolgen.config.policies import load_policy as load
from toolgen.config.settings import load as load_settings
from toolgen.connectors.graphql.options import GraphOptions, QueryLimits
from toolgen.gateway.catalog.served_catalog import catalog_of
from toolgen.model.call import Principal
from toolgen.model.manifest import SourceInfo, assemble
from toolgen.policy.access import Access
from toolgen.policy.policy_fingerprint import scope_hash_of
from toolgen.policy.rules import CompiledRule, Condition, Rule

RULE = st.fixed_dictionaries(
    {
        "to": st.sets(st.sampled_from(["bot", "user"]), min_size=1).map(sorted),
        "tools": st.sets(st.sampled_from(["*", "pets__*", "pets__get_pet", "shop__query"]), min_size=1).map(sorted),
        "effects": st.sets(st.sampled_from(["read", "destructive"]), min_size=1).map(sorted),
        "verdict": st.sampled_from(["allow", "ask", "deny"]),
    }
)


def test_two_policies_that_decide_a_call_differently_never_share_its_digest(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    manifest = catalog_of(load_settings(project))
    policies = project.parent / "policies"

    def read(rules: list[dict[str, Any]]) -> tuple[list[object], list[str]]:
        named = [{"id": f"r{index}", **rule} for index, rule in enumerate(rules)]
        rules_of = [item for item in named if any(_covers(manifest, item, name) for name in manifest.tools)]
        (policies / "policy.yaml").write_text(json.dumps({**POLICY, "rules": rules_of}))
        policy = load(policies, manifest)
        access = Access(policy.rules, manifest.tools, policy.toolsets)
        who = Principal(id="bot", roles=frozenset({"bot"}), on_behalf_of=Principal(id="ann", roles=frozenset({"user"})))
        verdicts: list[object] = []
        digests = []
        for tool in manifest.tools.values():
            verdicts.append(type(access.decide(who, tool, {"petId": 1})))
            digests.append(scope_hash_of(policy, access, manifest.tools, who, tool))
        return verdicts, digests

    @settings(max_examples=examples(60), deadline=None)
    @given(st.lists(RULE, max_size=4), st.lists(RULE, max_size=4))
    def check(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> None:
        (said, digests), (says, changed) = read(one), read(other)
        assert read(one) == (said, digests)
        for before, after, digest, new in zip(said, says, digests, changed, strict=True):
            assert before == after or digest != new

    check()


def test_a_document_is_decided_by_every_field_it_may_ask_for(tmp_path: Path) -> None:
    """A call of a document that waits for a person is void when a rule about another tool of its source changes."""
    reading = read_sdl(tmp_path, "type Query { a: Int b: Int }", graph=GraphOptions(queries=QueryLimits()))
    source = SourceInfo(kind="graphql", digest="", title="", version="")
    manifest = assemble({"s": source}, reading.tools, [])
    (tmp_path / "policies").mkdir()

    def digests(verdict: str) -> dict[str, str]:
        rules = [
            {"id": "one", "to": ["bot"], "tools": ["s__run_query", "s__get_a"], "verdict": "allow"},
            {"id": "other", "to": ["bot"], "tools": ["s__get_b"], "verdict": verdict},
        ]
        text = json.dumps({"principals": {"bot": {"roles": ["bot"]}}, "rules": rules})
        (tmp_path / "policies" / "policy.yaml").write_text(text)
        policy = load(tmp_path / "policies", manifest)
        access = Access(policy.rules, manifest.tools, policy.toolsets)
        who = Principal(id="bot", roles=frozenset({"bot"}))
        return {name: scope_hash_of(policy, access, manifest.tools, who, tool) for name, tool in manifest.tools.items()}

    before, after = digests("allow"), digests("deny")
    assert {name for name in before if before[name] != after[name]} == {"s__run_query", "s__get_b"}


def test_an_edit_of_what_is_hidden_concerns_the_tools_it_covers_alone(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    manifest = catalog_of(load_settings(project))
    policies = project.parent / "policies"
    who = Principal(id="bot", roles=frozenset({"bot"}))

    def digests(fields: list[str]) -> dict[str, str]:
        redact = [{"tools": ["pets__get_pet"], "fields": fields}, {"tools": ["pets__delete_pet"], "fields": ["$..tag"]}]
        (policies / "policy.yaml").write_text(json.dumps({**POLICY, "redact": redact}))
        policy = load(policies, manifest)
        access = Access(policy.rules, manifest.tools, policy.toolsets)
        return {name: scope_hash_of(policy, access, manifest.tools, who, tool) for name, tool in manifest.tools.items()}

    before, after = digests(["$..name"]), digests(["$..name", "$..owner"])
    assert {name for name in before if before[name] != after[name]} == {"pets__get_pet"}


def test_the_length_of_the_queue_of_approvals_voids_no_approval(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    manifest = catalog_of(load_settings(project))
    who, tool = Principal(id="bot", roles=frozenset({"bot"})), manifest.tools["pets__get_pet"]

    def digest_with(approvals: dict[str, Any]) -> str:
        given = {"approvers": ["ops"], **approvals}
        principals = {**POLICY["principals"], "ops": {"api_key": "sha256:" + "0" * 64, "roles": ["ops"]}}
        text = json.dumps({**POLICY, "principals": principals, "approvals": given})
        (project.parent / "policies" / "policy.yaml").write_text(text)
        policy = load(project.parent / "policies", manifest)
        access = Access(policy.rules, manifest.tools, policy.toolsets)
        return scope_hash_of(policy, access, manifest.tools, who, tool)

    assert digest_with({}) == digest_with({"max_waiting": 3}) != digest_with({"quorum": 2})


def _covers(manifest: Any, rule: dict[str, Any], name: str) -> bool:
    tool = manifest.tools[name]
    patterns = rule["tools"]
    fits = any(pattern == name or (pattern.endswith("*") and name.startswith(pattern[:-1])) for pattern in patterns)
    return fits and tool.effect.value in rule["effects"]


class _LaterRule(Rule, frozen=True, kw_only=True):
    """A rule with a condition and a setting that no release has."""

    hours: Condition[str] = None
    notes: tuple[str, ...] = field(default_factory=lambda: ("none",))


def test_a_field_that_a_rule_gets_later_counts_once_it_is_given_and_a_condition_makes_it_conditional(
    tmp_path: Path,
) -> None:
    project = make_project(tmp_path / "p")
    manifest = catalog_of(load_settings(project))
    policy = load(project.parent / "policies", manifest)
    tool = manifest.tools["pets__get_pet"]
    who = Principal(id="bot", roles=frozenset({"bot"}))

    def digest(kind: type[Rule], **more: Any) -> str:
        rules = tuple(kind(**structs.asdict(rule), **more) for rule in policy.rules)
        changed = structs.replace(policy, rules=rules)
        return scope_hash_of(changed, Access(rules, manifest.tools, policy.toolsets), manifest.tools, who, tool)

    plain = digest(Rule)
    assert digest(_LaterRule) == plain
    found = {plain, digest(_LaterRule, hours="9-17"), digest(_LaterRule, hours="9-18"), digest(_LaterRule, notes=())}
    assert len(found) == 4

    def compiled(**more: Any) -> CompiledRule:
        some = structs.replace(policy.rules[0], arguments=None, when=None)
        return CompiledRule(_LaterRule(**structs.asdict(some), **more), manifest.tools)

    assert compiled(hours="9-17").conditional
    assert not compiled(notes=()).conditional
