"""Decisions as a table: deny by default, the strictest verdict wins, for both parties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalogs import PETS
from toolgen.model.call import Principal
from toolgen.model.tool import Effect, GraphQLSchemaBinding, absent
from toolgen.model.verdict import Allow, Ask, Deny, Verdict
from toolgen.policy.access import Access, Rule
from toolgen.policy.toolsets import Toolset


def rule(
    id: str,  # noqa: A002
    verdict: str = "allow",
    *,
    to: str = "bot",
    tools: Sequence[str] = ("pets__*",),
    effects: Sequence[Effect] = (),
    arguments: dict[str, Any] | None = None,
) -> Rule:
    return Rule(
        id=id,
        roles=frozenset({to}),
        tools=tuple(tools),
        effects=frozenset(effects) or frozenset(Effect),
        names_destructive=Effect.DESTRUCTIVE in effects,
        arguments=arguments,
        verdict=verdict,
        where="policies/p.yaml:1",
    )


BOT = Principal(id="bot", roles=frozenset({"bot"}))
USER = Principal(id="user", roles=frozenset({"user"}))
BOT_FOR_USER = Principal(id="bot", roles=frozenset({"bot"}), on_behalf_of=USER)
SMALL = {"properties": {"limit": {"type": "integer", "maximum": 100}}}
LARGE = {"properties": {"limit": {"minimum": 101}}, "required": ["limit"]}


def decide(rules: Sequence[Rule], tool: str, arguments: dict[str, Any], who: Principal = BOT) -> Verdict:
    access = Access(rules, PETS.tools)
    return access.decide(who, PETS.tools.get(tool) or absent(tool), arguments)


def word(verdict: Verdict) -> str:
    match verdict:
        case Allow():
            return "allow"
        case Ask():
            return "ask"
        case Deny(code=code):
            return code


CASES = [
    # rules, tool, arguments, verdict, rule
    ([], "pets__list_pets", {}, "unknown_tool", "default"),
    ([rule("a")], "pets__list_pets", {}, "allow", "a"),
    ([rule("a")], "pets__no_such", {}, "unknown_tool", "default"),
    ([rule("a")], "shop__query", {}, "unknown_tool", "default"),
    ([rule("a", to="other")], "pets__list_pets", {}, "unknown_tool", "default"),
    ([rule("a", tools=["pets__get_*"])], "pets__list_pets", {}, "unknown_tool", "default"),
    ([rule("a", effects=[Effect.READ])], "pets__create_pet", {}, "unknown_tool", "default"),
    ([rule("a"), rule("d", "deny")], "pets__list_pets", {}, "unknown_tool", "default"),
    ([rule("a", arguments=SMALL)], "pets__list_pets", {"limit": 100}, "allow", "a"),
    ([rule("a", arguments=SMALL)], "pets__list_pets", {}, "allow", "a"),
    ([rule("a", arguments=SMALL)], "pets__list_pets", {"limit": 101}, "forbidden", "default"),
    ([rule("a", arguments=SMALL)], "pets__list_pets", {"limit": "100"}, "forbidden", "default"),
    ([rule("a"), rule("d", "deny", arguments=LARGE)], "pets__list_pets", {"limit": 101}, "forbidden", "d"),
    ([rule("a"), rule("d", "deny", arguments=LARGE)], "pets__list_pets", {"limit": 5}, "allow", "a"),
    ([rule("a"), rule("q", "ask")], "pets__list_pets", {}, "ask", "q"),
    ([rule("q", "ask")], "pets__list_pets", {}, "ask", "q"),
    ([rule("a"), rule("q", "ask"), rule("d", "deny", arguments={})], "pets__list_pets", {}, "forbidden", "d"),
    ([rule("a")], "pets__delete_pet", {}, "ask", "a"),
    ([rule("a", effects=[Effect.DESTRUCTIVE])], "pets__delete_pet", {}, "allow", "a"),
    ([rule("a"), rule("b", effects=[Effect.DESTRUCTIVE])], "pets__delete_pet", {}, "allow", "b"),
    ([rule("q", "ask"), rule("b", effects=[Effect.DESTRUCTIVE])], "pets__delete_pet", {}, "ask", "q"),
    ([rule("a", tools=["*"])], "shop__query", {}, "allow", "a"),
]


@pytest.mark.parametrize(("rules", "tool", "arguments", "expected", "by"), CASES)
def test_decisions(rules: list[Rule], tool: str, arguments: dict[str, Any], expected: str, by: str) -> None:
    verdict = decide(rules, tool, arguments)
    assert (word(verdict), verdict.rule) == (expected, by)


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([rule("a"), rule("u", to="user")], "allow"),
        ([rule("a")], "unknown_tool"),
        ([rule("u", to="user")], "unknown_tool"),
        ([rule("a"), rule("u", "ask", to="user")], "ask"),
        ([rule("a"), rule("u", to="user", arguments=SMALL)], "forbidden"),
        ([rule("a", arguments=SMALL), rule("u", to="user")], "forbidden"),
    ],
)
def test_agent_and_user_must_both_be_allowed(rules: list[Rule], expected: str) -> None:
    assert word(decide(rules, "pets__list_pets", {"limit": 500}, BOT_FOR_USER)) == expected


def test_a_refused_argument_is_explained_with_its_rule() -> None:
    verdict = decide([rule("small", arguments=SMALL)], "pets__list_pets", {"limit": 500})
    assert isinstance(verdict, Deny)
    assert "/limit" in verdict.reason
    assert "100" in verdict.reason
    assert "small" in verdict.reason


def test_a_forbidden_and_an_unknown_tool_look_the_same() -> None:
    forbidden, unknown = decide([], "pets__list_pets", {}), decide([], "pets__no_such", {})
    assert forbidden == unknown


def test_a_tool_that_only_shares_its_name_with_one_of_the_catalog_is_unknown() -> None:
    access = Access([rule("a")], PETS.tools)
    assert not access.visible(BOT, absent("pets__list_pets"))


rules_strategy = st.lists(
    st.builds(
        rule,
        st.sampled_from("abcdefgh"),
        st.sampled_from(["allow", "deny", "ask"]),
        to=st.sampled_from(["bot", "other"]),
        tools=st.sampled_from([("pets__*",), ("*",), ("pets__get_pet", "shop__query"), ("pets__delete_*",)]),
        effects=st.sampled_from([(), (Effect.READ,), (Effect.DESTRUCTIVE,), (Effect.READ, Effect.WRITE)]),
        arguments=st.sampled_from([None, SMALL, LARGE]),
    ),
    max_size=6,
    unique_by=lambda item: item.id,
)
arguments_strategy = st.sampled_from([{}, {"limit": 5}, {"limit": 500}, {"limit": "x"}])
STRICTNESS = {"unknown_tool": 2, "forbidden": 2, "ask": 1, "allow": 0}


@given(rules_strategy, st.sampled_from(sorted(PETS.tools)), arguments_strategy, st.randoms())
def test_the_order_of_rules_never_matters(rules: list[Rule], tool: str, arguments: dict[str, Any], random: Any) -> None:
    shuffled = list(rules)
    random.shuffle(shuffled)
    assert word(decide(rules, tool, arguments)) == word(decide(shuffled, tool, arguments))


@given(rules_strategy, st.sampled_from(sorted(PETS.tools)), arguments_strategy)
def test_adding_a_deny_never_allows_more(rules: list[Rule], tool: str, arguments: dict[str, Any]) -> None:
    before = STRICTNESS[word(decide(rules, tool, arguments))]
    assert STRICTNESS[word(decide([*rules, rule("z", "deny", arguments=LARGE)], tool, arguments))] >= before


@given(rules_strategy, st.sampled_from(sorted(PETS.tools)), arguments_strategy)
def test_removing_an_allow_never_allows_more(rules: list[Rule], tool: str, arguments: dict[str, Any]) -> None:
    before = STRICTNESS[word(decide(rules, tool, arguments))]
    for index, item in enumerate(rules):
        if item.verdict == "allow":
            fewer = rules[:index] + rules[index + 1 :]
            assert STRICTNESS[word(decide(fewer, tool, arguments))] >= before


TYPES = msgspec.structs.replace(
    PETS.tools["pets__list_pets"],
    name="pets__describe_types",
    binding=GraphQLSchemaBinding(),
    input_schema={"type": "object", "properties": {}},
)
OTHER = msgspec.structs.replace(TYPES, name="other__describe_types", source="other")
WITH_TYPES = {**PETS.tools, TYPES.name: TYPES, OTHER.name: OTHER}


@pytest.mark.parametrize(
    ("rules", "who", "expected"),
    [
        ([rule("a", tools=["pets__list_pets"])], BOT, True),
        ([rule("a", "ask", tools=["pets__list_pets"])], BOT, True),
        ([rule("a", tools=["pets__list_pets"], to="user")], BOT, False),
        ([rule("a", tools=["pets__list_pets"])], BOT_FOR_USER, False),
        ([rule("a", tools=["pets__list_pets"]), rule("b", tools=["pets__list_pets"], to="user")], BOT_FOR_USER, True),
        ([rule("a", tools=["pets__list_pets"]), rule("d", "deny", tools=["pets__describe_types"])], BOT, False),
        ([rule("a", tools=["pets__list_pets"]), rule("d", "deny", tools=["pets__list_pets"])], BOT, False),
        ([rule("d", "deny")], BOT, False),
        ([], BOT, False),
    ],
)
def test_who_may_call_a_tool_of_a_source_may_read_its_types(rules: list[Rule], who: Principal, expected: bool) -> None:
    access = Access(rules, WITH_TYPES)
    assert access.visible(who, TYPES) is expected
    assert isinstance(access.decide(who, TYPES, {}), Allow) is expected
    assert not access.visible(who, OTHER)


def test_a_rule_about_the_tool_of_types_has_the_last_word() -> None:
    rules = [rule("a", tools=["pets__list_pets"]), rule("b", "ask", tools=["pets__describe_types"])]
    assert Access(rules, WITH_TYPES).decide(BOT, TYPES, {}) == Ask(
        rule="b", reason="rule b requires approval by a person"
    )


def test_a_toolset_that_leaves_the_tool_of_types_out_hides_it() -> None:
    rules = [rule("a", tools=["pets__list_pets"])]
    sets = {"some": Toolset(tools=frozenset({"pets__list_pets"}), roles=frozenset({"bot"}))}
    access = Access(rules, WITH_TYPES, sets)
    assert access.visible(BOT, PETS.tools["pets__list_pets"])
    assert not access.visible(BOT, TYPES)
