"""Decisions as a table, and what must hold of any policy: nothing that takes away adds, and no order matters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import toolgen
from tests.gateway.governed import API
from toolgen.clock import FixedClock
from toolgen.gateway.identity import Identity, KeySets
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Effect, absent
from toolgen.model.verdict import Allow, Ask, Deny, Verdict
from toolgen.policy.access import Access
from toolgen.policy.cel import compile_expression
from toolgen.policy.cel_names import Scope
from toolgen.policy.document import load
from toolgen.policy.rules import Rule
from toolgen.policy.toolsets import Toolset

TABLE: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "decisions.yaml").read_text())


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    path = tmp_path_factory.mktemp("specs") / "orders.json"
    path.write_text(json.dumps(API))
    return toolgen.build(str(path))


@pytest.fixture(scope="module")
def table(manifest: Manifest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Access, Identity]:
    directory = tmp_path_factory.mktemp("p") / "policies"
    directory.mkdir()
    (directory / "p.yaml").write_text(json.dumps({key: TABLE[key] for key in ("principals", "rules")}))
    policy = load(directory, manifest)
    clock = FixedClock()

    async def nothing(location: str, largest: int) -> bytes:
        raise FileNotFoundError(location)

    return Access(policy.rules, manifest.tools), Identity(policy.credentials, clock, KeySets(nothing, clock))


def cases() -> Iterator[tuple[str, str, dict[str, Any], str]]:
    for line in TABLE["calls"]:
        for caller, expected in zip(TABLE["callers"], line["expect"].split(), strict=True):
            yield caller, f"orders__{line['call']}", line.get("arguments", {}), expected


def letter(verdict: Verdict) -> str:
    match verdict:
        case Allow():
            return "a"
        case Ask():
            return "k"
        case Deny(code=code):
            return {"forbidden": "f", "unknown_tool": "u"}[code]


def test_there_are_enough_of_them() -> None:
    assert len([*cases()]) >= 150


@pytest.mark.parametrize(("caller", "tool", "arguments", "expected"), [*cases()])
def test_each_is_decided_as_the_table_says(
    manifest: Manifest, table: tuple[Access, Identity], caller: str, tool: str, arguments: dict[str, Any], expected: str
) -> None:
    access, identity = table
    who, _, user = caller.partition(" for ")
    principal = identity.named(who, user or None)
    found = manifest.tools.get(tool) or absent(tool)
    assert letter(access.decide(principal, found, arguments)) == expected
    assert access.visible(principal, found) == (expected != "u")
    if expected != "u":
        bound = access.bind(principal, found, arguments)
        assert (bound.names, bound.denied) == ((), None)


ROLES = ("bot", "user")
CONDITIONS = (
    None,
    "true",
    "false",
    "principal.attributes.tenant == 'acme'",
    "user == null",
    "args.amount_cents > 5",
    "1 / args.amount_cents > 0",
    "'bot' in principal.roles",
)
NARROWINGS = (None, {"required": ["amount_cents"]}, {"properties": {"amount_cents": {"maximum": 5}}})
TOOLS = ("orders__*", "orders__create_order", "orders__delete_order", "orders__list_orders", "orders__send_mail")
ARGUMENTS: tuple[dict[str, Any], ...] = (
    {},
    {"amount_cents": 0},
    {"amount_cents": 5},
    {"amount_cents": 9},
    {"amount_cents": "x"},
)


@st.composite
def drawn_rules(draw: st.DrawFn) -> list[Rule]:
    manifest = _manifest()
    scope = Scope(
        tools=manifest.tools,
        catalog=manifest.tools,
        attributes={"tenant": frozenset({"string"})},
        roles=frozenset(ROLES),
    )
    rules = []
    for number in range(draw(st.integers(0, 7))):
        effects = draw(
            st.sampled_from(
                [frozenset(Effect), frozenset({Effect.DESTRUCTIVE}), frozenset({Effect.READ, Effect.WRITE})]
            )
        )
        condition = draw(st.sampled_from(CONDITIONS))
        rules.append(
            Rule(
                id=f"r{number}",
                roles=frozenset(draw(st.lists(st.sampled_from(ROLES), min_size=1))),
                tools=(draw(st.sampled_from(TOOLS)),),
                effects=effects,
                names_destructive=effects == {Effect.DESTRUCTIVE},
                arguments=draw(st.sampled_from(NARROWINGS)),
                verdict=draw(st.sampled_from(["allow", "allow", "ask", "deny"])),
                where="p.yaml:1",
                when=None if condition is None else compile_expression(condition, scope, where="p.yaml:1"),
            )
        )
    return rules


_BUILT: list[Manifest] = []


def _manifest() -> Manifest:
    if not _BUILT:
        import tempfile  # noqa: PLC0415 - hypothesis draws before any fixture is there

        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "orders.json"
            path.write_text(json.dumps(API))
            _BUILT.append(toolgen.build(str(path)))
    return _BUILT[0]


def people() -> list[Principal]:
    attributes = {"tenant": "acme"}
    user = Principal(id="ann", roles=frozenset({"user"}))
    bot = Principal(id="bot", roles=frozenset({"bot"}), attributes=attributes)
    return [
        bot,
        user,
        Principal(id="both", roles=frozenset(ROLES), attributes=attributes),
        Principal(id="none"),
        replace(bot, on_behalf_of=user),
    ]


def outcomes(rules: list[Rule], toolsets: dict[str, Toolset] | None = None, narrowed: str = "") -> list[int]:
    """How far each of a few hundred calls gets: 0 refused, 1 asked, 2 allowed."""
    access = Access(rules, _manifest().tools, toolsets or {})
    ranks = {"a": 2, "k": 1, "f": 0, "u": 0}
    return [
        ranks[letter(access.decide(replace(who, toolsets=frozenset({narrowed} - {""})), tool, arguments))]
        for who in people()
        for tool in _manifest().tools.values()
        for arguments in ARGUMENTS
    ]


def never_more(after: list[int], before: list[int]) -> bool:
    return all(one <= other for one, other in zip(after, before, strict=True))


@settings(max_examples=40, deadline=None)
@given(drawn_rules(), drawn_rules())
def test_adding_denials_never_allows_more(rules: list[Rule], more: list[Rule]) -> None:
    denials = [replace(rule, id=f"d-{rule.id}", verdict="deny") for rule in more]
    assert never_more(outcomes([*rules, *denials]), outcomes(rules))


@settings(max_examples=40, deadline=None)
@given(drawn_rules(), st.data())
def test_removing_what_allows_never_allows_more(rules: list[Rule], data: st.DataObject) -> None:
    allowing = [rule for rule in rules if rule.verdict == "allow"]
    gone = data.draw(st.sampled_from(allowing)) if allowing else None
    assert never_more(outcomes([rule for rule in rules if rule is not gone]), outcomes(rules))


@settings(max_examples=40, deadline=None)
@given(drawn_rules(), st.randoms(use_true_random=False))
def test_the_order_of_rules_never_matters(rules: list[Rule], random: Any) -> None:
    shuffled = [*rules]
    random.shuffle(shuffled)
    assert outcomes(shuffled) == outcomes(rules)


@settings(max_examples=40, deadline=None)
@given(drawn_rules(), drawn_rules())
def test_shadow_rules_change_nothing(rules: list[Rule], more: list[Rule]) -> None:
    shadows = [replace(rule, id=f"s-{rule.id}", shadow=True) for rule in more]
    assert outcomes([*rules, *shadows]) == outcomes(rules)


@settings(max_examples=40, deadline=None)
@given(drawn_rules(), st.sets(st.sampled_from(ROLES)), st.sampled_from(["", "some", "none"]))
def test_toolsets_never_add(rules: list[Rule], to: set[str], narrowed: str) -> None:
    names = frozenset({"orders__create_order", "orders__get_health"})
    toolsets = {
        "some": Toolset(tools=names, roles=frozenset(to)),
        "none": Toolset(tools=frozenset(), roles=frozenset()),
    }
    assert never_more(outcomes(rules, toolsets, narrowed), outcomes(rules))


def test_the_order_of_files_never_matters(manifest: Manifest, tmp_path: Path) -> None:
    read = []
    for name, order in (("one", TABLE["rules"]), ("two", TABLE["rules"][::-1])):
        directory = tmp_path / name / "policies"
        directory.mkdir(parents=True)
        for number, rule in enumerate(order):
            (directory / f"{number:02}.yaml").write_text(json.dumps({"rules": [rule]}))
        (directory / f"{'a' if name == 'one' else 'z'}.yaml").write_text(
            json.dumps({"principals": TABLE["principals"]})
        )
        read.append(load(directory, manifest))
    assert read[0].digest == read[1].digest
    assert [rule.id for rule in read[0].rules] == [rule.id for rule in read[1].rules]
