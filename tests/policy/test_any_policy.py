"""What must hold of any policy, held against policies drawn whole: files with rules, conditions, bound arguments, shadows and toolsets."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import toolgen
from tests.exhaustive import examples
from tests.gateway.governed import API, PRINCIPALS
from toolgen.config.policies import load_policy as load
from toolgen.core.clock import FixedClock
from toolgen.gateway.identity import Identity, KeySets
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest
from toolgen.model.verdict import Allow, Ask
from toolgen.policy.access import Access, EvaluationContext
from toolgen.policy.document.policy import Policy
from toolgen.state.history import Histories

Document = dict[str, Any]
PEOPLE: dict[str, Any] = {
    **PRINCIPALS,
    "both": {"roles": ["bot", "user"], "attributes": {"tenant": "acme"}},
    "none": {},
}
CALLERS = ("bot", "ann", "eve", "bare", "both", "none", "bot for ann", "bot for eve")
WHO = (
    "principal.attributes.tenant == 'acme'",
    "'user' in principal.roles",
    "user == null",
    "user != null && user.id == 'ann'",
    "1 / size(principal.roles) == 0",
    "now.getHours() < 12",
    "session.called('orders__check_fraud')",
    "session.count('orders__*') > 5",
    "history.sum('orders__create_order', 'amount_cents') >= 7.0",
    "'private' in session.labels",
    "false",
)
ABOUT: dict[str, tuple[tuple[str, ...], tuple[Any, ...], tuple[Any, ...]]] = {
    # the conditions, the narrowings and the bindings that fit each pattern of tools
    "orders__*": ((), (), ()),
    "orders__[cd]*": ((), (), ()),
    "orders__create_order": (
        ("args.amount_cents > 5", "1 / args.amount_cents > 0", "has(args.note) && args.note.matches('^a+$')"),
        ({"required": ["note"]}, {"properties": {"amount_cents": {"maximum": 5}}}, {"not": {"required": ["note"]}}),
        ({"tenant_id": "principal.attributes.tenant"}, {"note": "principal.id"}),
    ),
    "orders__create_open_order": (
        ("args.body.amount_cents > 5",),
        ({"properties": {"body": {"required": ["note"]}}},),
        ({"body.tenant_id": "principal.attributes.tenant"},),
    ),
    "orders__list_orders": (
        ("args.tenant_id == principal.attributes.tenant",),
        ({"properties": {"status": {"enum": ["open"]}}},),
        ({"tenant_id": "principal.attributes.tenant"}, {"tenant_id": "user == null ? principal.id : user.id"}),
    ),
    "orders__delete_order": (("args.id in ['a', 'b']",), ({"properties": {"id": {"maxLength": 1}}},), ()),
    "orders__get_health": ((), (), ()),
}
ORDERS: tuple[dict[str, Any], ...] = (
    {},
    {"amount_cents": 0, "tenant_id": "acme"},
    {"amount_cents": 5, "tenant_id": "globex", "note": "aaa"},
    {"amount_cents": 9, "note": "b\0"},
    {"amount_cents": "x", "tenant_id": 3},
    {"amount_cents": 9},
)
ARGUMENTS: dict[str, tuple[dict[str, Any], ...]] = {
    "orders__create_order": ORDERS,
    "orders__create_open_order": ({}, {"body": 3}, *({"body": order} for order in ORDERS)),
    "orders__list_orders": ({}, {"tenant_id": "acme"}, {"tenant_id": "bot", "status": "open"}, {"status": "closed"}),
    "orders__delete_order": ({"id": "a"}, {"id": "zz"}, {}),
}


@lru_cache
def manifest() -> Manifest:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "orders.json"
        path.write_text(json.dumps(API))
        return toolgen.build(str(path))


@st.composite
def rules(draw: st.DrawFn, prefix: str = "r", verdicts: tuple[str, ...] = ("allow", "allow", "ask", "deny")) -> Any:
    """Up to seven rules, any of which may ask, bind, narrow, or be a shadow."""
    made = []
    for number in range(draw(st.integers(0, 7))):
        pattern = draw(st.sampled_from([*ABOUT]))
        conditions, narrowings, bindings = ABOUT[pattern]
        rule: Document = {
            "id": f"{prefix}{number}",
            "to": draw(st.lists(st.sampled_from(["bot", "user"]), min_size=1, unique=True)),
            "tools": [pattern],
            "verdict": draw(st.sampled_from(verdicts)),
        }
        effects = [[], ["read", "write"], ["destructive"]] if pattern.endswith("*") else [[]]
        if chosen := draw(st.sampled_from(effects)):
            rule["effects"] = chosen
        if pattern == "orders__delete_order" and draw(st.booleans()):
            rule["effects"] = ["destructive"]
        if draw(st.booleans()):
            rule["when"] = draw(st.sampled_from([*WHO, *conditions]))
        if narrowings and draw(st.booleans()):
            rule["arguments"] = draw(st.sampled_from(narrowings))
        if draw(st.integers(0, 5)) == 0:
            rule["shadow"] = True
        elif bindings and rule["verdict"] != "deny" and draw(st.booleans()):
            rule["bind"] = draw(st.sampled_from(bindings))
        made.append(rule)
    return made


@st.composite
def toolsets(draw: st.DrawFn) -> Document:
    """Sets by any name, for any audience or none."""
    return {
        name: {
            "tools": draw(st.lists(st.sampled_from([*ABOUT]), min_size=1, max_size=3, unique=True)),
            "to": draw(st.lists(st.sampled_from(["bot", "user"]), unique=True)),
        }
        for name in draw(st.lists(st.sampled_from(["one", "two"]), unique=True))
    }


class Told(NamedTuple):
    """How far one call gets (0 refused, 1 asked, 2 allowed), by which rule, with which arguments."""

    rank: int
    rule: str
    arguments: Any
    bound: tuple[str, ...]


def policy_of(given: list[Document], sets: Document | None = None, order: Any = None) -> Policy:
    """The policy, loaded from files: one, or as many and in whatever order `order` likes."""
    head: Document = {"principals": PEOPLE, "labels": [{"tools": ["orders__check_fraud"], "add": ["private"]}]}
    rest: list[Document] = [
        *({"rules": [rule]} for rule in given),
        *({"toolsets": {name: one}} for name, one in (sets or {}).items()),
    ]
    parts: list[Document] = [head, *rest]
    if order is None:
        parts = [{**head, "rules": given, "toolsets": sets or {}}]
    else:
        order.shuffle(parts)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "policies"
        folder.mkdir()
        for number, part in enumerate(parts):
            (folder / f"{number:02}.yaml").write_text(json.dumps(part))
        return load(folder, manifest())


def callers(policy: Policy) -> Iterator[Principal]:
    clock = FixedClock()

    async def nothing(location: str, _: int) -> bytes:
        raise FileNotFoundError(location)

    identity = Identity(policy.credentials, clock, KeySets(nothing, clock))
    for caller in CALLERS:
        who, _, user = caller.partition(" for ")
        yield identity.named(who, user or None)


@lru_cache
def earlier() -> EvaluationContext:
    """A fraud check that succeeded, and an order of 7 cents, in the session."""
    clock = FixedClock()
    histories = Histories(clock)
    for number, (tool, amounts, labels) in enumerate(
        [("orders__check_fraud", {}, ("private",)), ("orders__create_order", {"amount_cents": 7}, ())]
    ):
        histories.begin(str(number), "bot", "s", tool, amounts, labels)
        histories.end(str(number), "ok")
    session, history = histories.views("bot", "s")
    return EvaluationContext(now=1_700_000_000.0, session=session, history=history)


def told(policy: Policy, narrowed: frozenset[str] = frozenset()) -> list[Told]:
    """A few hundred calls, decided as the gateway decides them."""
    access = Access(policy.rules, manifest().tools, policy.toolsets)
    found = []
    for caller in callers(policy):
        who = replace(caller, toolsets=narrowed)
        for tool in manifest().tools.values():
            for arguments in ARGUMENTS.get(tool.name, ({},)):
                if not access.visible(who, tool):
                    found.append(Told(0, "default", arguments, ()))
                    continue
                bound = access.bind(who, tool, arguments)
                verdict = bound.denied or access.judge(who, tool, bound.arguments, earlier()).verdict
                rank = 2 if isinstance(verdict, Allow) else 1 if isinstance(verdict, Ask) else 0
                found.append(Told(rank, verdict.rule, bound.arguments, bound.names))
    return found


def labels() -> tuple[list[str], list[str]]:
    """Caller and tool of each of the calls that `told` tells of."""
    each = [(caller, tool) for caller in CALLERS for tool in manifest().tools for _ in ARGUMENTS.get(tool, ({},))]
    return [caller for caller, _ in each], [tool for _, tool in each]


def never_more(after: list[Told], before: list[Told]) -> bool:
    """Nothing gets further than it did, and what gets somewhere gets there with the same arguments."""
    return all(
        one.rank <= other.rank and (not one.rank or one.arguments == other.arguments)
        for one, other in zip(after, before, strict=True)
    )


@settings(max_examples=examples(60), deadline=None)
@given(rules(), rules("d", ("deny",)), toolsets())
def test_adding_denials_never_allows_more(some: list[Document], denials: list[Document], sets: Document) -> None:
    assert never_more(told(policy_of([*some, *denials], sets)), told(policy_of(some, sets)))


@settings(max_examples=examples(60), deadline=None)
@given(rules(), rules("a", ("ask",)))
def test_adding_questions_never_allows_more_outright(some: list[Document], questions: list[Document]) -> None:
    for rule in questions:
        rule.pop("bind", None)
    before, after = told(policy_of(some)), told(policy_of([*some, *questions]))
    assert not [one for one, other in zip(after, before, strict=True) if one.rank == 2 and other.rank != 2]


@settings(max_examples=examples(60), deadline=None)
@given(rules(), toolsets(), st.data())
def test_removing_what_allows_and_binds_nothing_never_allows_more(
    some: list[Document], sets: Document, data: st.DataObject
) -> None:
    allowing = [rule for rule in some if rule["verdict"] == "allow" and "bind" not in rule]
    assume(allowing)
    gone = data.draw(st.sampled_from(allowing))
    rest = [rule for rule in some if rule is not gone]
    assert never_more(told(policy_of(rest, sets)), told(policy_of(some, sets)))


@settings(max_examples=examples(60), deadline=None)
@given(rules(), toolsets(), st.randoms(use_true_random=False))
def test_the_order_of_files_and_rules_never_matters(some: list[Document], sets: Document, random: Any) -> None:
    whole, one, other = policy_of(some, sets), policy_of(some, sets, random), policy_of(some[::-1], sets, random)
    assert one.digest == other.digest
    assert told(whole) == told(one) == told(other)


@settings(max_examples=examples(60), deadline=None)
@given(rules(), rules("s"))
def test_shadows_change_nothing(some: list[Document], more: list[Document]) -> None:
    shadows = [{**{key: value for key, value in rule.items() if key != "bind"}, "shadow": True} for rule in more]
    assert told(policy_of([*some, *shadows])) == told(policy_of(some))


@settings(max_examples=examples(60), deadline=None)
@given(rules(), toolsets())
def test_toolsets_and_narrowing_never_add(some: list[Document], sets: Document) -> None:
    plain, within = told(policy_of(some)), policy_of(some, sets)
    assert never_more(told(within), plain)
    one, two, both = (told(within, frozenset(names)) for names in (["one"], ["two"], ["one", "two"]))
    for narrowed in (one, two, both, told(within, frozenset({"none"}))):
        assert never_more(narrowed, told(within))
    assert never_more(both, one)
    assert never_more(both, two)
    for caller, tool, found in zip(*labels(), told(within), strict=True):
        roles = {role for name in caller.split(" for ") for role in PEOPLE[name].get("roles", ())}
        if " for " not in caller and (mine := [one for one in sets.values() if roles & {*one["to"]}]):
            assert not found.rank or any(fnmatchcase(tool, pattern) for one in mine for pattern in one["tools"])


@settings(max_examples=examples(60), deadline=None)
@given(rules())
def test_the_strictest_of_what_each_rule_says_alone_holds(some: list[Document]) -> None:
    """For one party, and tools for which no rule binds anything and that are not destructive."""
    for rule in some:
        rule.pop("bind", None)
    everything = {"id": "z", "to": ["bot", "user"], "tools": ["orders__*"], "verdict": "allow"}
    alone = [told(policy_of([rule, *([everything] if rule["verdict"] == "deny" else [])])) for rule in some]
    for caller, tool, whole, *each in zip(*labels(), told(policy_of(some)), *alone, strict=True):
        if " for " not in caller and tool != "orders__delete_order":
            # One that denies is heard where it takes something from everything, any other where it gives something.
            said = [
                one.rank for one, rule in zip(each, some, strict=True) if (one.rank == 0) == (rule["verdict"] == "deny")
            ]
            assert whole.rank == min(said, default=0)


@settings(max_examples=examples(60), deadline=None)
@given(rules())
def test_acting_for_a_user_never_gets_further_than_the_user(some: list[Document]) -> None:
    for rule in some:
        rule.pop("bind", None)
    found = told(policy_of(some))
    size = len(found) // len(CALLERS)
    by_caller = {caller: found[at * size : (at + 1) * size] for at, caller in enumerate(CALLERS)}
    for user in ("ann", "eve"):
        assert never_more(by_caller[f"bot for {user}"], by_caller[user])


@settings(max_examples=examples(60), deadline=None)
@given(rules())
def test_what_is_bound_is_never_what_the_agent_chose(some: list[Document]) -> None:
    tenants = {"tenant_id": "principal.attributes.tenant"}
    tools = ["orders__create_order"]
    some.append({"id": "binds", "to": ["bot"], "tools": tools, "verdict": "allow", "when": "false", "bind": tenants})
    bound = [rule for rule in some if rule.get("bind") == tenants]
    found = iter(told(policy_of(some)))
    for caller in CALLERS:
        who, _, user = caller.partition(" for ")
        parties = [PEOPLE[name] for name in (who, user) if name]
        for tool in manifest().tools:
            for sent in ARGUMENTS.get(tool, ({},)):
                one = next(found)
                for party in parties:
                    about = [
                        rule for rule in bound if tool in rule["tools"] and set(rule["to"]) & {*party.get("roles", ())}
                    ]
                    if about and one.rank:
                        assert "tenant_id" not in sent
                        assert one.arguments["tenant_id"] == party["attributes"]["tenant"]
