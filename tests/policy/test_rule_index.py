"""Rules found by the index decide as all rules together do, by the CEL library."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.catalogs import PETS
from tests.exhaustive import size
from toolgen.model.call import Principal
from toolgen.model.tool import Effect
from toolgen.model.verdict import Allow
from toolgen.policy import rule_index
from toolgen.policy.access import Access
from toolgen.policy.cel.comparison import LiteralComparison
from toolgen.policy.cel.expression import ConditionVariables, Expression, _environment
from toolgen.policy.cel.tree import read_tree
from toolgen.policy.rules import Rule

TOOL = PETS.tools["pets__list_pets"]
ATTRIBUTES = ("tenant", "team", "level", "deep")
TEXTS = ("a", "b", "acme", "", "é", "x\\n")
LITERALS = st.sampled_from([*(f"'{text}'" for text in TEXTS), "1", "2", "-1", "1.0", "true", "null", "b'a'", "2u"])
PATHS = st.sampled_from(
    [
        *(f"principal.attributes.{name}" for name in ATTRIBUTES),
        "principal.attributes['tenant']",
        "principal.attributes.deep.tenant",
        "principal.id",
        "user.id",
        "user.attributes.tenant",
        "tool.name",
        "tool.effect",
        "args.limit",
        "args.status",
        "args['status']",
    ]
)
SIMPLE = st.one_of(
    st.tuples(PATHS, LITERALS).map(lambda made: f"{made[0]} == {made[1]}"),
    st.tuples(PATHS, LITERALS).map(lambda made: f"{made[1]} == {made[0]}"),
    st.tuples(PATHS, LITERALS).map(lambda made: f"{made[0]} != {made[1]}"),
    st.tuples(PATHS, st.lists(LITERALS, min_size=1, max_size=3)).map(
        lambda made: f"{made[0]} in [{', '.join(made[1])}]"
    ),
    st.sampled_from(
        [
            "has(args.status)",
            "size(principal.roles) > 0",
            "args.limit > 1",
            "1 / (args.limit - 1) == 1",
            "session.called('*')",
        ]
    ),
)
CONDITIONS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda made: f"({made[0]}) && ({made[1]})"),
        st.tuples(inner, inner).map(lambda made: f"({made[0]}) || ({made[1]})"),
        inner.map(lambda made: f"!({made})"),
    ),
    max_leaves=3,
)
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    ["a", "b", "acme", "", "é", "x\n", "\x00", 1, 2, -1, 1.0, 2.5, True, None, [1], {"tenant": "acme"}, 2**70]
)
PEOPLE = st.builds(
    lambda attributes, user: Principal(id="a", roles=frozenset({"bot"}), attributes=attributes, on_behalf_of=user),
    st.dictionaries(st.sampled_from(ATTRIBUTES), VALUES, max_size=4),
    st.none(),
)


def rules_of(conditions: list[tuple[str, str]]) -> list[Rule]:
    """Rules with these conditions and verdicts, whatever a policy would say of the names in them; less those that are no expression."""
    found = []
    for number, (condition, verdict) in enumerate(conditions):
        try:
            compiled = _environment().compile(condition)
        except (RuntimeError, TypeError, ValueError):
            continue
        when = Expression(condition, compiled, read_tree(compiled.serialize()))
        found.append(
            Rule(
                id=f"r{number}",
                roles=frozenset({"bot"}),
                tools=("*",),
                effects=frozenset(Effect),
                names_destructive=False,
                arguments=None,
                verdict=verdict,
                where="",
                when=when,
            )
        )
    return found


@settings(max_examples=size("TOOLGEN_RULES", 300, 30_000), deadline=None)
@given(
    st.lists(st.tuples(CONDITIONS, st.sampled_from(["allow", "allow", "deny", "ask"])), min_size=9, max_size=14),
    st.lists(st.tuples(PEOPLE, st.dictionaries(st.sampled_from(["limit", "status"]), VALUES)), min_size=3, max_size=6),
)
def test_an_index_changes_no_decision(
    conditions: list[tuple[str, str]], calls: list[tuple[Principal, dict[str, Any]]]
) -> None:
    rules = rules_of(conditions)
    tools = {TOOL.name: TOOL}
    indexed, whole = Access(rules, tools), Access(rules, tools)
    for who, arguments in calls:
        found = indexed.judge(who, TOOL, arguments)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rule_index, "_MIN_RULES", 1_000)
            expected = whole.judge(who, TOOL, arguments)
        assert found == expected
        event(type(found.verdict).__name__)


@pytest.mark.parametrize(
    ("condition", "comparison"),
    [
        (
            "principal.attributes.tenant == 'acme'",
            LiteralComparison(("principal", "attributes", "tenant"), "text", frozenset({"acme"})),
        ),
        ("5 == args.limit && has(args.status)", LiteralComparison(("args", "limit"), "integer", frozenset({5}))),
        ("has(args.a) && args['a'] in ['x', 'y']", LiteralComparison(("args", "a"), "text", frozenset({"x", "y"}))),
        ("principal.attributes.tenant != 'acme'", None),
        ("args.a == 'x' || args.b == 'y'", None),
        ("!(args.a == 'x')", None),
        ("args.a in ['x', 1]", None),
        ("args.a == true", None),
        ("args.a == 1.0", None),
        ("args.a == args.b", None),
        ("args == {}", None),
        ("session.called('x') && args.a == 'x'", None),
    ],
)
def test_the_comparison_of_a_condition(condition: str, comparison: LiteralComparison | None) -> None:
    compiled = _environment().compile(condition)
    assert Expression(condition, compiled, read_tree(compiled.serialize())).comparison == comparison


def test_of_many_rules_few_are_evaluated() -> None:
    rules = rules_of([(f"principal.attributes.tenant == 't{number}'", "allow") for number in range(1_000)])
    access = Access(rules, {TOOL.name: TOOL})
    who = Principal(id="a", roles=frozenset({"bot"}), attributes={"tenant": "t7"})
    about = access._about(who, TOOL)
    variables = ConditionVariables(principal=who, tool=TOOL, arguments={}, now=0.0, reads=about.reads)
    assert [compiled.rule.id for compiled in about.index.candidates(variables)] == ["r7"]
    assert access.judge(who, TOOL, {}).verdict == Allow(rule="r7")
