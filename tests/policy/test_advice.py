"""Advice on a policy that is in order: what each kind finds, the line it names, and what it leaves alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

import toolgen
from tests.catalogs import catalog, http_tool
from tests.messages import line_names
from toolgen.config.policies import load_policy as load
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Effect, seal
from toolgen.policy.advice import Advice, advise
from toolgen.policy.document.policy import documents

INTEGER = {"type": "integer"}
LIST = http_tool(
    "pay__list",
    properties={
        "limit": INTEGER,
        "capped": {**INTEGER, "maximum": 100},
        "page": {**INTEGER, "default": 1},
        "loose": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "any": {},
        "state": {"enum": ["open", "paid"]},
        "tenant_id": {"type": "string"},
        "needed": INTEGER,
        "filter": {"$ref": "#/$defs/Filter"},
    },
    required=["needed"],
    **{"$defs": {"Filter": {"type": "object", "properties": {"tenantId": {"type": "string"}, "size": INTEGER}}}},
)
SHAPES = {
    "type": "object",
    "properties": {
        "viewer": {"anyOf": [{"type": "object", "properties": {"name": {}}}, {"type": "object", "properties": {"id": {}}}]},
        "maybe": {"anyOf": [{"type": "object", "properties": {"name": {}}}, {"type": "null"}]},
        "rows": {"type": "array", "items": {"oneOf": [{"type": "object"}, {"type": "string"}]}},
    },
}  # fmt: skip
SHOW = seal(msgspec.structs.replace(http_tool("pay__show"), output_schema=SHAPES))
PAY = catalog(LIST, SHOW, http_tool("pay__refund", Effect.WRITE, {"amount": INTEGER}))
HEAD = """\
principals: {bot: {roles: [bot], attributes: {tenant: acme}}, other: {roles: [other]}}
rules:
"""


def advice(folder: Path, text: str, manifest: Manifest = PAY) -> list[Advice]:
    policies = folder / "policies"
    policies.mkdir()
    (policies / "p.yaml").write_text(HEAD + text, encoding="utf-8")
    return [*advise(load(policies, manifest), documents(policies), manifest)]


def _rule(arguments: str, verdict: str = "allow", more: str = "") -> str:
    return (
        f"  - id: r\n    to: [bot]\n    tools: [pay__list]\n    verdict: {verdict}\n    arguments: {arguments}\n{more}"
    )


@pytest.mark.parametrize(
    ("rules", "code", "line", "said"),
    [
        (_rule("{properties: {limit: {maximum: 50}}}"), "optional_narrowing", 7, "required: [limit]"),
        (_rule("{properties: {page: {minimum: 2}}}"), "optional_narrowing", 7, "required: [page]"),
        (
            _rule("{properties: {limit: {maximum: 50}}}").replace("[pay__list]", "['pay__*']"),
            "optional_narrowing", 7, "give the tools that have it a rule of their own",
        ),
        (
            _rule("\n      properties:\n        filter:\n          properties:\n            size: {maximum: 3}\n      required: [filter]"),
            "optional_narrowing", 11, "required: [size]",
        ),
        (_rule("{properties: {loose: {maximum: 50}}, required: [loose]}"), "number_of_text", 7, "type: integer"),
        (_rule("{properties: {any: {minimum: 50}}, required: [any]}", "deny"), "number_of_text", 7, "the rule applies to any text too"),
        (_rule("{properties: {state: {const: closed}}, required: [state]}"), "never_speaks", 7, "no value of 'state'"),
        (_rule("{properties: {needed: {type: string}}}", "ask"), "never_speaks", 7, "no value of 'needed'"),
        (_rule("{properties: {needed: {type: [string, boolean]}}}", "ask"), "never_speaks", 7, "no value of 'needed'"),
        (_rule("{properties: {state: {maxLength: 3}}, required: [state]}"), "never_speaks", 7, "no value of 'state'"),
        (
            _rule("{properties: {capped: {minimum: 101}}, required: [capped]}"),
            "never_speaks", 7, "no value of 'capped'",
        ),
        (
            _rule("{properties: {capped: {minimum: 20, maximum: 9}}, required: [capped]}"),
            "never_speaks", 7, "no value of 'capped'",
        ),
        (_rule("{required: [amount]}").replace("[pay__list]", "[pay__list, pay__show]"), "", 0, ""),
        ("  - {id: r, to: [bot], tools: [pay__list], verdict: allow, when: 'false'}", "never_speaks", 3, "always false"),
        (
            "  - {id: r, to: [bot], tools: [pay__list], verdict: allow}\n"
            "  - {id: none, to: [bot, other], tools: ['pay__*'], verdict: deny}",
            "never_speaks", 3, "none (policies/p.yaml:4) denies all of it",
        ),
    ],
)  # fmt: skip
def test_what_a_rule_says_and_may_not_mean(tmp_path: Path, rules: str, code: str, line: int, said: str) -> None:
    if not code:  # the loader itself refuses what no tool has
        with pytest.raises(Exception, match="'amount'"):
            advice(tmp_path, rules)
        return
    (found,) = advice(tmp_path, rules)
    assert (found.code, found.where) == (code, f"policies/p.yaml:{line}")
    assert said in f"{found.message}; {found.suggestion}"


@pytest.mark.parametrize(
    "rules",
    [
        _rule("{properties: {limit: {maximum: 50}}, required: [limit]}"),
        _rule("{properties: {needed: {maximum: 50}}}"),
        _rule("{properties: {page: {maximum: 50}}}"),  # its default passes the rule
        _rule("{properties: {limit: {maximum: 50}}}", "deny"),
        _rule("{properties: {loose: {type: integer, maximum: 50}}, required: [loose]}"),
        _rule("{properties: {state: {enum: [open, closed]}}, required: [state]}"),
        _rule("{properties: {state: {maxLength: 4}}, required: [state]}"),
        _rule("{properties: {needed: {type: number}}}"),  # an integer is a number
        _rule("{properties: {needed: {type: integer}}}"),
        _rule("{properties: {needed: {type: [string, integer]}}}"),
        _rule("{properties: {state: {type: string}}, required: [state]}"),
        _rule("{properties: {capped: {minimum: 100}}, required: [capped]}"),
        _rule("{properties: {loose: {type: integer, minimum: 9, maximum: 8}}, required: [loose]}"),  # may be text
        "  - {id: r, to: [bot], tools: [pay__list], verdict: allow}\n"
        "  - {id: none, to: [other], tools: ['pay__*'], verdict: deny}",
        "  - {id: r, to: [bot], tools: [pay__list, pay__show], verdict: allow}\n"
        "  - {id: none, to: [bot], tools: [pay__list], verdict: deny}",
    ],
)
def test_what_is_said_well_gets_no_advice(tmp_path: Path, rules: str) -> None:
    assert advice(tmp_path, rules) == []


def test_a_part_of_a_policy_without_rules_gets_no_advice(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    policies = tmp_path / "policies"
    (policies / "p.yaml").write_text(HEAD + _rule("{properties: {limit: {maximum: 50}}}"), encoding="utf-8")
    (policies / "r.yaml").write_text("principals: {third: {roles: [bot]}}\n", encoding="utf-8")

    (found,) = advise(load(policies, PAY), documents(policies), PAY)

    assert found.where == "policies/p.yaml:7"


def test_names_beside_a_bound_one(tmp_path: Path) -> None:
    bound = (
        "  - id: r\n    to: [bot]\n    tools: [pay__list]\n    verdict: allow\n"
        "    bind:\n      tenant_id: principal.attributes.tenant\n"
    )
    (found,) = advice(tmp_path, bound)
    assert (found.code, found.where) == ("name_alike", "policies/p.yaml:8")
    assert "'filter.tenantId'" in found.message
    assert line_names(found.suggestion, "filter.tenantId: principal.attributes.tenant", "bind:")
    (tmp_path / "both").mkdir()
    assert advice(tmp_path / "both", bound + "      filter.tenantId: principal.attributes.tenant\n") == []


@pytest.mark.parametrize(
    ("field", "suggestion"),
    [
        ("$.viewer.name", "write $..name, which finds it at any depth"),
        ("$['viewer']['name']", "write $..name, which finds it at any depth"),
        ("$.rows[*].secret", "write $..secret, which finds it at any depth"),
        ("$..name", None),
        ("$.maybe.name", None),
        ("$.viewer", None),
        ("$.unknown.name", None),
    ],
)
def test_redactions_that_begin_at_the_top_and_go_through_a_union(
    tmp_path: Path, field: str, suggestion: str | None
) -> None:
    rule = "  - {id: r, to: [bot], tools: [pay__list], verdict: allow}\n"
    found = advice(tmp_path, f'{rule}redact:\n  - tools: [pay__show]\n    fields:\n      - "{field}"\n')
    assert [(one.code, one.where, one.suggestion) for one in found] == (
        [("anchored_redaction", "policies/p.yaml:7", suggestion)] if suggestion else []
    )


def _graph(tmp_path: Path, options: dict[str, Any]) -> Manifest:
    sdl = """
    type Query { orders(tenantId: ID!): [Order!]! }
    type Order { id: ID! lines(tenant_id: ID): [Line!]! }
    type Line { id: ID! }
    """
    (tmp_path / "g.graphql").write_text(sdl, encoding="utf-8")
    source = {"graphql": str(tmp_path / "g.graphql"), "endpoint": "http://127.0.0.1:9/g", **options}
    return toolgen.build({"g": source})


@pytest.mark.parametrize("options", [{}, {"queries": True}])
def test_arguments_deeper_in_a_graphql_schema_than_bind_reaches(tmp_path: Path, options: dict[str, Any]) -> None:
    manifest = _graph(tmp_path, options)
    (name,) = (name for name in manifest.tools if name.endswith("orders"))
    rule = f"  - {{id: r, to: [bot], tools: [{name}], verdict: allow, bind: {{tenantId: principal.attributes.tenant}}}}"
    (found,) = advice(tmp_path, rule, manifest)
    assert (found.code, found.where) == ("deeper_argument", "policies/p.yaml:3")
    assert "Order.lines(tenant_id:)" in found.message


def test_advice_is_data_for_programs(tmp_path: Path) -> None:
    (found,) = advice(tmp_path, _rule("{properties: {limit: {maximum: 50}}}"))
    assert found.to_dict().keys() == {"code", "where", "message", "suggestion"}


@pytest.mark.parametrize(
    ("condition", "advised"),
    [
        ("args.loose != 7", True),
        ("7.5 != args.loose", True),
        ("!(args.any == 7) && args.needed > 1", True),
        ("!(args.loose in [7, 8])", True),
        ("args.loose == 7", False),
        ("args.needed != 7", False),
        ("args.loose != 'x'", False),
        ("string(args.loose) != '7'", False),
    ],
)
def test_conditions_that_text_always_fulfils(tmp_path: Path, condition: str, advised: bool) -> None:
    rule = f'  - {{id: r, to: [bot], tools: [pay__list], verdict: VERDICT, when: "{condition}"}}\n'
    found = advice(tmp_path, rule.replace("VERDICT", "allow"))
    assert [(one.code, one.where) for one in found] == ([("number_of_text", "policies/p.yaml:3")] if advised else [])
    (tmp_path / "deny").mkdir()
    assert advice(tmp_path / "deny", rule.replace("VERDICT", "deny")) == []


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        (["bot", "agent-1", "\u0434\u043e\u043c", "staff:ann@example.com"], []),
        (["<b>eve</b>"], ["principal_markup"]),
        (["b\u043et"], ["principal_alike"]),
        (["ann", "\u0430nn"], ["principal_alike", "principal_alike"]),  # of two scripts, and like the other
        (["admin1", "adminl"], ["principal_alike"]),
        (["ops", "OPS"], ["principal_alike"]),
    ],
)
def test_names_of_principals_that_people_could_mistake(tmp_path: Path, names: list[str], codes: list[str]) -> None:
    policies = tmp_path / "policies"
    policies.mkdir()
    data = {"principals": {name: {"roles": ["bot"]} for name in names}}
    (policies / "p.yaml").write_text(json.dumps(data), encoding="utf-8")
    found = [*advise(load(policies, PAY), documents(policies), PAY)]
    assert [one.code for one in found] == codes
    assert all(one.where.startswith("policies/p.yaml:") and one.message.isascii() for one in found)
