"""Selectors of rules, limits and toolsets: what the description says of an operation, resolved to tools when the policy is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import toolgen
from tests.cli.commands import Run, runner
from tests.messages import line_names
from toolgen.config.policies import load_policy as load
from toolgen.core.clock import SystemClock
from toolgen.core.errors import PolicyError
from toolgen.model.call import Call, Principal
from toolgen.model.manifest import Manifest
from toolgen.model.manifest import load as load_manifest
from toolgen.policy.document.policy import Policy
from toolgen.policy.limits import LimitCharge, Limits

HEAD = "principals: {bot: {roles: [bot]}}\n"
OPERATIONS = {
    "GET /v1/invoices": ("billing/list", ["billing"]),
    "POST /v1/invoices": ("billing/create", ["billing", "beta"]),
    "DELETE /v1/invoices/{id}": ("billing/delete", ["billing"]),
    "GET /v1/users": ("users/list", ["users"]),
    "GET /v1/users/{id}": ("users/get", ["users"]),
    "GET /ping": ("ping", []),
}


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    root = tmp_path_factory.mktemp("described")
    paths: dict[str, Any] = {}
    for operation, (identifier, tags) in OPERATIONS.items():
        method, _, path = operation.partition(" ")
        one: dict[str, Any] = {"operationId": identifier, "responses": {"200": {"description": "ok"}}}
        if tags:
            one["tags"] = tags
        if "{id}" in path:
            one["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]
        paths.setdefault(path, {})[method.lower()] = one
    document = {"openapi": "3.1.0", "info": {"title": "API", "version": "1"}, "paths": paths}
    (root / "api.json").write_text(json.dumps(document), encoding="utf-8")
    (root / "s.graphql").write_text("type Query { users: [String] invoice: String }", encoding="utf-8")
    sources = {
        "api": {"openapi": "api.json", "server": "http://127.0.0.1:9"},
        "g": {"graphql": "s.graphql", "endpoint": "http://127.0.0.1:9/graphql"},
    }
    return toolgen.build(sources, root=root)


def read(folder: Path, text: str, manifest: Manifest) -> Policy:
    (folder / "policies").mkdir(exist_ok=True)
    (folder / "policies" / "p.yaml").write_text(HEAD + text, encoding="utf-8")
    return load(folder / "policies", manifest)


def covered(policy: Policy, manifest: Manifest) -> set[str]:
    (rule,) = policy.rules
    return {name for name, tool in manifest.tools.items() if rule.covers(tool)}


CASES = {
    "tags: [billing]": {"api__list_billing", "api__create_billing", "api__delete_billing"},
    "tags: [beta, users]": {"api__create_billing", "api__list_users", "api__get_user"},
    'tags: ["b*"]': {"api__list_billing", "api__create_billing", "api__delete_billing"},
    "tags: [billing], methods: [get]": {"api__list_billing"},
    "methods: [DELETE, POST]": {"api__create_billing", "api__delete_billing"},
    'operations: ["*/list"]': {"api__list_billing", "api__list_users"},
    "operations: [users]": {"g__list_users"},
    'paths: ["/v1/users*"]': {"api__list_users", "api__get_user"},
    'paths: ["/v1/users/{id}"]': {"api__get_user"},
    'tools: ["api__*"], paths: ["*{id}"]': {"api__get_user", "api__delete_billing"},
    'tools: ["api__list_*"], tags: [users], operations: ["users/*"], paths: ["/v1/*"], methods: [GET]': {
        "api__list_users"
    },
    "tags: [billing], effects: [destructive]": {"api__delete_billing"},
}


@pytest.mark.parametrize("selectors", CASES)
def test_all_selectors_have_to_match(tmp_path: Path, manifest: Manifest, selectors: str) -> None:
    assert set(manifest.tools) >= set().union(*CASES.values())
    text = f"rules: [{{id: r, to: [bot], {selectors}, verdict: allow}}]"
    assert covered(read(tmp_path, text, manifest), manifest) == CASES[selectors]
    toolset = read(tmp_path, f"toolsets: {{t: {{{selectors}}}}}", manifest).toolsets["t"]
    assert toolset.tools == CASES[selectors]
    if "effects" not in selectors:
        (limit,) = read(tmp_path, f"limits: [{{id: l, {selectors}, rate: 1/min}}]", manifest).limits
        assert limit.tools == CASES[selectors]


@pytest.mark.parametrize(
    ("selectors", "message"),
    [
        ("tags: [biling]", r"p\.yaml:\d: no tool has the tag 'biling' \(did you mean 'billing'\?\)"),
        ('operations: ["user/get"]', r"no tool has the operation 'user/get' \(did you mean 'users/get'\?\)"),
        ('paths: ["/v1/user"]', r"no tool has the path '/v1/user' \(did you mean '/v1/users'\?\)"),
        ("methods: [DELET]", r"no tool has the method 'DELET' \(did you mean 'DELETE'\?\)"),
        ("tags: [users], methods: [DELETE]", r"no tool matches all selectors \(tags, methods\)"),
        ("tools: [g__list_users], tags: [users]", r"no tool matches all selectors \(tools, tags\)"),
        ('tools: ["api__lst*"], tags: [users]', r"'api__lst\*' matches no tool"),
        ("tags: []", "tags"),
        ("tag: [users]", "unknown|did you mean"),
    ],
)
@pytest.mark.parametrize(
    "section",
    [
        "rules:\n- {{id: r, to: [bot], {}, verdict: allow}}",
        "toolsets:\n  t: {{{}}}",
        "limits:\n- {{id: l, rate: 1/min, {}}}",
    ],
)
def test_a_selector_that_matches_nothing_is_an_error(
    tmp_path: Path, manifest: Manifest, section: str, selectors: str, message: str
) -> None:
    with pytest.raises(PolicyError, match=message):
        read(tmp_path, section.format(selectors), manifest)


@pytest.mark.parametrize("section", ["rules: [{id: r, to: [bot], verdict: allow}]", "toolsets: {t: {to: [bot]}}"])
def test_a_part_without_a_selector_is_an_error(tmp_path: Path, manifest: Manifest, section: str) -> None:
    with pytest.raises(PolicyError, match=r"no tool|no role or no tool"):
        read(tmp_path, section, manifest)


def test_a_limit_counts_calls_of_its_tools_alone(tmp_path: Path, manifest: Manifest) -> None:
    policy = read(tmp_path, "limits: [{id: l, tags: [users], rate: 1/min}, {id: m, concurrency: 3}]", manifest)
    limits = Limits(policy.limits, SystemClock())
    bot = Principal(id="bot", roles=frozenset({"bot"}))

    def counted(name: str) -> list[str]:
        call = Call(id="1", principal=bot, tool=manifest.tools[name], arguments={})
        charges = limits.charges(call)
        assert isinstance(charges, tuple)
        return [charge.limit.id for charge in charges if isinstance(charge, LimitCharge)]

    assert counted("api__list_users") == ["l", "m"]
    assert counted("api__list_billing") == ["m"]


def test_what_is_selected_by_is_part_of_the_digest_of_a_tool(manifest: Manifest) -> None:
    data = msgspec.json.encode(manifest.to_dict(), enc_hook=dict)
    again = load_manifest(data, where="manifest.json")
    assert again.tools["api__create_billing"].tags == ("billing", "beta")
    assert again.tools["api__create_billing"].operation == "billing/create"
    with pytest.raises(Exception, match="changed after the build"):
        load_manifest(data.replace(b'"beta"', b'"users"'), where="manifest.json")


def test_check_and_explain_go_by_selectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    call: Run = runner(capfdbinary)
    monkeypatch.chdir(tmp_path)
    paths = {"/users": {"get": {"operationId": "u", "tags": ["users"], "responses": {}}, "delete": {"responses": {}}}}
    document = {"openapi": "3.1.0", "info": {"title": "API", "version": "1"}, "paths": paths}
    Path("api.json").write_text(json.dumps(document), encoding="utf-8")
    Path("toolgen.yaml").write_text(
        'sources: {api: {openapi: api.json, server: "http://127.0.0.1:9"}}', encoding="utf-8"
    )
    Path("policies").mkdir()
    policy = (
        HEAD + "rules: [{id: by-tag, to: [bot], tags: [users], verdict: allow}]\ntoolsets: {t: {methods: [DELETE]}}\n"
    )
    policy += "egress: {private_networks: allow}\n"
    policy += "tests: [{as: bot, call: api__u, expect: allow, rule: by-tag}, {as: bot, call: api__delete_users, expect: deny}]"
    Path("policies/p.yaml").write_text(policy, encoding="utf-8")
    assert call("build").code == 0
    checked = call("policy", "check")
    assert checked.code == 0, checked.err
    assert line_names(checked.out, "rule by-tag ", " 1 tool")
    assert "toolset t covers 1 tool\n" in checked.out
    assert call("policy", "check", "--json").json()["covers"]["rules"] == {"by-tag": 1}
    assert "by-tag" in call("policy", "explain", "api__u", "--as", "bot").out
    (tool,) = call("tools", "--as", "bot", "--json").json()
    assert tool["name"] == "api__u"
