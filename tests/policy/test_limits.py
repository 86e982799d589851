"""What a call counts for: which buckets, how much, and the refusals of what cannot be counted."""

from __future__ import annotations

import hashlib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalogs import PETS, catalog, http_tool
from toolgen.config.policies import load_policy as load
from toolgen.core.clock import FixedClock
from toolgen.core.errors import PolicyError
from toolgen.model.call import Call, Principal
from toolgen.model.tool import Effect, absent
from toolgen.model.verdict import Deny
from toolgen.policy.cel.expression import compile_expression
from toolgen.policy.cel.names import CelScope
from toolgen.policy.limits import Limit, LimitCharge, Limits, merged, parse_rate

PAY = catalog(
    http_tool(
        "pay__refund", Effect.WRITE, {"amount_cents": {"type": "integer"}, "lines": {"type": "array"}, "note": {}}
    ),
    http_tool("pay__list", properties={"limit": {"type": "integer"}}),
)
AMOUNT = compile_expression(
    "args.amount_cents",
    CelScope(tools={"pay__refund": PAY.tools["pay__refund"]}, catalog=PAY.tools, attributes={}),
    where="",
)
POLICY = """\
principals:
  bot: {{api_key: "sha256:{hash}", roles: [bot], attributes: {{tenant: acme}}}}
  other: {{roles: [bot], attributes: {{tenant: 7, tier: gold}}}}
rules: [{{id: all, to: [bot], tools: ["pay__*"], verdict: allow}}]
limits:
  - {limit}
"""


def limits_of(folder: Path, *limits: str) -> Limits:
    policies = folder / "policies"
    policies.mkdir()
    text = POLICY.format(hash=hashlib.sha256(b"key").hexdigest(), limit="\n  - ".join(limits))
    (policies / "pay.yaml").write_text(text, encoding="utf-8")
    return Limits(load(policies, PAY).limits, FixedClock())


def call(name: str = "pay__refund", principal: Principal | None = None, **arguments: Any) -> Call:
    who = principal or Principal(id="bot", attributes={"tenant": "acme"})
    return Call(id="c", tool=PAY.tools.get(name) or absent(name), arguments=arguments, principal=who)


def test_rates_are_read_as_written() -> None:
    assert parse_rate("60/min") == (60, 1.0)
    assert parse_rate("2/s") == (2, 2.0)
    assert parse_rate("36/hour") == (36, 0.01)
    assert parse_rate("1/day") == (1, 1 / 86400)
    assert [parse_rate(text) for text in ("0/s", "1", "-1/s", "1.5/s", "1/week", "", "1/s ")] == [None] * 7


def test_each_limit_charges_its_own_bucket_of_the_call() -> None:
    limits = Limits(
        [
            Limit(id="one", per=("principal", "tool"), per_second=1, burst=9),
            Limit(id="two", per=("source",), per_second=1, burst=9, cost=(("pets__get_*", 5), ("pets__*", 2))),
            Limit(id="all", per_second=1, burst=9),
        ],
        FixedClock(),
    )
    asked = Call(id="c", tool=PETS.tools["pets__get_pet"], arguments={}, principal=Principal(id="bot"))
    charges = limits.charges(asked)
    assert not isinstance(charges, Deny)
    assert [(item.key, item.cost) for item in charges] == [
        (("one", "bot", "pets__get_pet"), 1),
        (("two", "pets"), 5),
        (("all",), 1),
    ]


def test_an_attribute_is_a_dimension_and_values_of_other_types_are_other_tenants(tmp_path: Path) -> None:
    limits = limits_of(tmp_path, "{id: tenant, per: ['attribute:tenant'], rate: 5/s}")
    values: list[Any] = ["acme", 1, "1", True, 1.5, None, [1], {"a": 1}, '"1']
    keys = set()
    for value in values:
        charges = limits.charges(call(principal=Principal(id="x", attributes={"tenant": value})))
        assert not isinstance(charges, Deny)
        keys.add(charges[0].key)
    assert len(keys) == len(values)
    without = limits.charges(call(principal=Principal(id="x")))
    assert not isinstance(without, Deny)
    assert without[0].key not in keys


def test_a_cost_may_be_computed_from_the_arguments(tmp_path: Path) -> None:
    limits = limits_of(
        tmp_path, "{id: money, per: [principal], rate: 1000/h, cost: {pay__refund: args.amount_cents, 'pay__*': 2}}"
    )

    def cost(asked: Call) -> float:
        charges = limits.charges(asked)
        assert not isinstance(charges, Deny)
        return charges[0].cost

    assert cost(call(amount_cents=250)) == 250
    assert cost(call(amount_cents=1)) == 2  # the more expensive pattern counts
    assert cost(call("pay__list")) == 2


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        ("{pay__refund: args.amount_cents, '*': 0}", 0),
        ("{pay__refund: 100, '*': 0}", 0),
        ("{pay__refund: 100, 'pay__*': 7}", 1),  # a price by name would tell which names there are
        ("{pay__refund: 0}", 1),
        ("{'*': 3}", 3),
        ("{'**': 3, '*': 2}", 3),
        ("{'*': '4 + 1'}", 5),
        ("{'*': 'principal.attributes.tenant == \"acme\" ? 2 : 3'}", 2),
        ("{pay__refund: args.amount_cents, '*': 'size(tool.name) > 3 ? 0 : 1'}", 0),
    ],
)
@pytest.mark.parametrize("name", ["pay__refund", "pay__refun", "other"])
def test_a_name_that_no_tool_has_costs_what_is_said_of_every_name(
    tmp_path: Path, cost: str, expected: float, name: str
) -> None:
    """So does one that the caller may not see: `absent` stands in for both."""
    limits = limits_of(tmp_path, f"{{id: money, per: [principal], rate: 1000/h, cost: {cost}}}")
    hidden = Call(id="c", tool=absent(name), arguments={"amount_cents": 900}, principal=call().principal)
    charges = limits.charges(hidden)
    assert not isinstance(charges, Deny)
    assert [(one.key, one.cost) for one in charges] == [(("money", "bot"), expected)]


_PATTERNS = st.sampled_from(["*", "**", "pay__*", "pay__refund", "*refund", "pay__[l]*", "pay__list", "?*"])


@given(
    costs=st.dictionaries(_PATTERNS, st.one_of(st.integers(0, 50), st.just("args.amount_cents"))),
    name=st.sampled_from(["pay__refund", "pay__list", "pay__nothing", "x", "*"]),
    cents=st.integers(0, 60),
    seen=st.booleans(),
)
def test_no_call_draws_more_than_the_policy_says(
    costs: dict[str, int | str], name: str, cents: int, seen: bool
) -> None:
    compiled = tuple((pattern, cost if isinstance(cost, int) else AMOUNT) for pattern, cost in costs.items())
    limits = Limits([Limit(id="money", per_second=1, burst=100, cost=compiled)], FixedClock())
    tool = PAY.tools.get(name) if seen else None
    charges = limits.charges(
        Call(id="c", tool=tool or absent(name), arguments={"amount_cents": cents}, principal=Principal(id="bot"))
    )
    assert not isinstance(charges, Deny)
    about = [
        cost for pattern, cost in costs.items() if (fnmatchcase(name, pattern) if tool else not pattern.strip("*"))
    ]
    priced = [
        cents if tool is not None else 1 if cost == "args.amount_cents" else 0
        for cost in about
        if isinstance(cost, str)
    ]
    assert charges[0].cost == max([*(cost for cost in about if isinstance(cost, int)), *priced], default=1)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ({}, "validation", "cannot be computed"),
        ({"amount_cents": "250"}, "validation", "cannot be computed"),
        ({"amount_cents": None}, "validation", "cannot be computed"),
        ({"amount_cents": [1]}, "validation", "cannot be computed"),
        ({"amount_cents": True}, "validation", "cannot be computed"),
        ({"amount_cents": float("nan")}, "validation", "cannot be computed"),
        ({"amount_cents": float("inf")}, "validation", "cannot be computed"),
        ({"amount_cents": 10**30}, "validation", "cannot be computed"),
        ({"amount_cents": -1}, "validation", "has a negative cost"),
        ({"amount_cents": -0.001}, "validation", "has a negative cost"),
        ({"amount_cents": 1001}, "forbidden", "the limit money never allows more than 1000 at once"),
    ],
)
def test_what_cannot_be_counted_is_refused_with_the_limits_id(
    tmp_path: Path, arguments: dict[str, Any], code: str, said: str
) -> None:
    limits = limits_of(tmp_path, "{id: money, rate: 1000/h, cost: {pay__refund: args.amount_cents}}")
    denied = limits.charges(call(**arguments))
    assert isinstance(denied, Deny)
    assert (denied.rule, denied.code) == ("money", code)
    assert said in denied.reason
    assert "250" not in denied.reason


def test_hidden_names_and_names_nobody_has_share_one_bucket(tmp_path: Path) -> None:
    limits = limits_of(
        tmp_path, "{id: money, per: [principal, tool, source], rate: 1000/h, cost: {pay__refund: args.amount_cents}}"
    )
    who = Principal(id="bot")
    hidden = Call(id="c", tool=absent("pay__refund"), arguments={}, principal=who)
    assert limits.charges(hidden) == limits.charges(call("pay__nothing", who))


REFUSED = [
    ("{id: a, per: [principle], rate: 5/s}", "pay.yaml:6: limits are not per 'principle' (did you mean 'principal'?)"),
    ("{id: a, per: [attribute], rate: 5/s}", "pay.yaml:6: limits are not per 'attribute'"),
    (
        "{id: a, per: ['attribute:tenent'], rate: 5/s}",
        "no principal has the attribute 'tenent' (did you mean 'tenant'?)",
    ),
    ("{id: a, per: ['attribute:'], rate: 5/s}", "no principal has the attribute ''"),
    ("{id: a}", "limit a has neither a rate nor a concurrency"),
    ("{id: a, concurrency: 2, burst: 5}", "burst: needs rate:"),
    ("{id: a, concurrency: 2, cost: {pay__list: 5}}", "cost: needs rate:"),
    ("{id: a, concurrency: 0}", "expected `int` >= 1"),
    ("{id: a, rate: 5/s, wait: 2}", "expected `str | null`"),
    ("{id: a, rate: 5/s, wait: 1h}", "wait: '1h' is not like 2s or 500ms, and at most 30s"),
    ("{id: a, rate: 5/s, wait: 0s}", "wait: '0s' is not like"),
    ("{id: a, rate: 5/s, on_failure: open}", "invalid enum value 'open'"),
    ("{id: a, rate: 5/s, cost: {pay__lst: 2}}", "pay.yaml:6: 'pay__lst' matches no tool (did you mean 'pay__list'?)"),
    ("{id: a, rate: 5/s, cost: {pay__list: 6}}", "cost of pay__list is more than the burst, 5"),
    ("{id: a, rate: 5/s, cost: {pay__list: -1}}", "expected `int` >= 0"),
    ("{id: a, rate: 5/s, cost: {pay__list: true}}", "got `bool`"),
    ("{id: a, rate: 5/s, cost: {pay__refund: args.amount_cent}}", "(did you mean 'amount_cents'?)"),
    ("{id: a, rate: 5/s, cost: {pay__list: args.amount_cents}}", "none of its tools has an argument 'amount_cents'"),
    ("{id: a, rate: 5/s, cost: {pay__list: \"'x'\"}}", "is string, not number"),
    ("{id: a, rate: 5/s, cost: {pay__list: 'args.limit +'}}", "pay.yaml:6:"),
    ("{id: a, rate: 5/s, cost: {pay__list: \"session.count('pay__*')\"}}", "cannot use earlier calls"),
    ("{id: '', rate: 5/s}", "limits.0.id"),
]


@pytest.mark.parametrize(("limit", "said"), REFUSED)
def test_a_limit_that_means_nothing_is_an_error_with_its_line(tmp_path: Path, limit: str, said: str) -> None:
    with pytest.raises(PolicyError) as raised:
        limits_of(tmp_path, limit)
    assert said in str(raised.value)
    assert "pay.yaml:6" in str(raised.value)


def test_two_limits_of_one_name_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="'a'"):
        limits_of(tmp_path, "{id: a, rate: 5/s}", "{id: a, rate: 6/s}")


def test_several_calls_in_one_pay_once_for_each_and_hold_one_place() -> None:
    each = Limit(id="each", per_second=1, burst=10, concurrency=1)
    mine = Limit(id="mine", per_second=1, burst=10)
    paid = (LimitCharge(each, ("each",), 1), LimitCharge(mine, ("mine", "run"), 1))
    roots = [LimitCharge(each, ("each",), 1), LimitCharge(mine, ("mine", "a"), 2)] * 3
    found = merged(roots, paid)
    assert not isinstance(found, Deny)
    assert [(item.key, item.cost, item.limit.concurrency) for item in found] == [
        (("each",), 2, 0),
        (("mine", "a"), 6, 0),
    ]
    assert merged([LimitCharge(each, ("each",), 1)], paid) == ()
    (rest,) = merged([LimitCharge(mine, ("mine", "run"), 2)], paid)  # type: ignore[misc]
    assert rest.cost == 1
    denied = merged(roots * 4, paid)
    assert isinstance(denied, Deny)
    assert denied.rule == "each"
