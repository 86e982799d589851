"""Expressions: every mistake an author can make is found at load, every surprise of a call is no answer, and none takes long."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalogs import catalog, http_tool
from tests.exhaustive import examples
from toolgen.core.errors import PolicyError
from toolgen.model.call import Principal
from toolgen.model.tool import Effect
from toolgen.policy.cel.expression import ConditionVariables, Expression, Unevaluated, compile_expression
from toolgen.policy.cel.names import CelScope
from toolgen.policy.cel.tree import CelConstant, Comprehension, Function, Identifier, Select, read_tree, walk

REFUND = http_tool(
    "pay__refund",
    Effect.WRITE,
    {
        "amount_cents": {"type": "integer"},
        "note": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "string"}},
        "to": {"type": "object", "properties": {"iban": {"type": "string"}}, "additionalProperties": False},
        "extra": {"type": "object"},
    },
)
CHECK = http_tool("fraud__check", Effect.READ, {"order": {"type": "string"}})
TOOLS = catalog(REFUND, CHECK).tools
SCOPE = CelScope(
    tools={"pay__refund": TOOLS["pay__refund"]},
    catalog=TOOLS,
    attributes={"tenant": frozenset({"string"}), "limit": frozenset({"integer"})},
    roles=frozenset({"support", "ops"}),
    principals=frozenset({"bot", "ann"}),
    labels=frozenset({"untrusted"}),
)
ANN = Principal(id="ann", roles=frozenset({"support"}), attributes={"tenant": "acme"})
BOT = Principal(id="bot", roles=frozenset({"ops"}), attributes={"tenant": "acme", "limit": 500}, on_behalf_of=ANN)
NOON = datetime(2026, 3, 4, 12, 30, tzinfo=UTC).timestamp()  # a Wednesday


def test_facts_are_made_ready_once_for_all_expressions() -> None:
    facts = ConditionVariables(principal=BOT, tool=TOOLS["pay__refund"], arguments={"amount_cents": 5}, now=NOON)
    shared = facts.shared()

    assert shared is not None
    assert facts.shared() is shared


class Remembered:
    """A history that was given its answers."""

    def __init__(self, calls: Mapping[str, int], labels: list[str] | None = None, forgot: bool = False) -> None:
        self._calls, self._labels, self._forgot = calls, labels or [], forgot

    def labels(self) -> list[str]:
        return self._labels

    def count(self, tools: str) -> int:
        if self._forgot:
            raise LookupError
        return self._calls.get(tools, 0)

    def called(self, tools: str) -> int:
        return self.count(tools)

    def sum(self, tools: str, argument: str) -> int | float:
        return self.count(f"{tools}.{argument}")


def compiled(source: str, wants: str = "") -> Expression:
    return compile_expression(source, SCOPE, where="p.yaml:3", wants=wants)


def facts(arguments: Mapping[str, Any] | None = None, **given: Any) -> ConditionVariables:
    return ConditionVariables(
        **{"principal": BOT, "tool": TOOLS["pay__refund"], "arguments": arguments or {}, "now": NOON, **given}
    )


ANSWERS: list[tuple[str, dict[str, Any], object]] = [
    ("principal.id == 'bot'", {}, True),
    ("'ops' in principal.roles", {}, True),
    ("'support' in principal.roles", {}, False),
    ("principal.attributes.tenant == 'acme'", {}, True),
    ("principal.attributes['tenant']", {}, "acme"),
    ("user.id", {}, "ann"),
    ("user != null && user.attributes.tenant == principal.attributes.tenant", {}, True),
    ("has(user.attributes.limit)", {}, False),
    ("tool.name == 'pay__refund' && tool.effect == 'write' && tool.source == 'pay'", {}, True),
    ("args.amount_cents <= principal.attributes.limit", {"amount_cents": 500}, True),
    ("args.amount_cents <= principal.attributes.limit", {"amount_cents": 501}, False),
    ("args.amount_cents <= 9.5", {"amount_cents": 9}, True),
    ("args.amount_cents * 2", {"amount_cents": 21}, 42),
    ("!has(args.note) || args.note.startsWith('ok')", {}, True),
    ("'note' in args", {"note": None}, True),
    ("args.lines.all(line, line.matches('^[a-z]+$'))", {"lines": ["a", "b"]}, True),
    ("size(args.lines)", {"lines": ["a", "b"]}, 2),
    ("args.to.iban == 'DE1'", {"to": {"iban": "DE1"}}, True),
    ("args.extra.anything == 1", {"extra": {"anything": 1}}, True),
    ("now.getHours() >= 9 && now.getHours() < 17 && now.getDayOfWeek() in [1, 2, 3, 4, 5]", {}, True),
    ("now.getHours('Europe/Berlin')", {}, 13),
    ("now.getHours('+02:00')", {}, 14),
    ("args.note.matches(r'^\\d\\\\$')", {"note": "5\\"}, True),
    ("args.note.matches('^\\u00e9\\'+$')", {"note": "é'"}, True),
    ("now < timestamp('2027-01-31T00:00:00+01:00') + duration('1h30m')", {}, True),
    ("now < timestamp('2027-01-01T00:00:00Z')", {}, True),
    ("[args.amount_cents, 1]", {"amount_cents": 3}, [3, 1]),
    ("args.note == '\\u00e9\\U0001f600'", {"note": "é😀"}, True),
    ("true || has(args.note)", {}, True),
    ("args.amount_cents <= 9223372036854775808u", {"amount_cents": 2**63}, True),
    ("args.amount_cents <= 9223372036854775808u", {"amount_cents": 2**63 + 1}, False),
    ("args.amount_cents < 18446744073709551615u", {"amount_cents": 2**64 - 1}, False),
    ("args.amount_cents == 9007199254740993", {"amount_cents": float(2**53)}, False),
    ("args.amount_cents > 9007199254740992", {"amount_cents": 2**53 + 1}, True),
    ("args.amount_cents >= 18446744073709551615u", {"amount_cents": float(2**64)}, True),
    ("args.amount_cents in [9007199254740993, 9223372036854775809u]", {"amount_cents": float(2**63)}, False),
    ("args.note == '9007199254740993.0 \\' 9223372036854775808' // 9223372036854775808", {"note": "a"}, False),
    ("args.note == r'\\\\' || args.amount_cents == 1e15", {"note": "a", "amount_cents": 10**15}, True),
    ('args.note == r"""9223372036854775808 " 9"""', {"note": '9223372036854775808 " 9'}, True),
]


@pytest.mark.parametrize(("source", "arguments", "expected"), ANSWERS, ids=[case[0] for case in ANSWERS])
def test_expressions_are_answered(source: str, arguments: dict[str, Any], expected: object) -> None:
    answer = compiled(source).evaluate(facts(arguments))
    assert answer == expected
    assert type(answer) is type(expected)


MISTAKES = [
    ("principl.id == 'bot'", "unknown name 'principl' (did you mean 'principal'?)"),
    ("principal.idd == 'bot'", "'principal' has no 'idd' (did you mean 'id'?)"),
    ("principal['idd'] == 'bot'", "'principal' has no 'idd' (did you mean 'id'?)"),
    ("principal.attributes.tenat == 'x'", "no principal has the attribute 'tenat' (did you mean 'tenant'?)"),
    ("user.attributes.tenat == 'x'", "no principal has the attribute 'tenat' (did you mean 'tenant'?)"),
    ("has(user.attributes.tenat)", "no principal has the attribute 'tenat' (did you mean 'tenant'?)"),
    ("principal.attributes.tenant == 5", "'principal.attributes.tenant' is string, and never integer"),
    ("principal.id == 'bto'", "'principal.id' is never 'bto' (did you mean 'bot'?)"),
    ("principal.id in ['bot', 'an']", "'principal.id' is never 'an' (did you mean 'ann'?)"),
    ("'suport' in principal.roles", "no principal has the role 'suport' (did you mean 'support'?)"),
    ("principal.roles == 'support'", "'principal.roles' is array, and never string"),
    ("tool.effect == 'delete'", "'tool.effect' is never 'delete'"),
    ("tool.name == 'pay__refnd'", "'tool.name' is never 'pay__refnd' (did you mean 'pay__refund'?)"),
    ("tool.names == 'x'", "'tool' has no 'names' (did you mean 'name'?)"),
    ("args.amount < 5", "none of its tools has an argument 'amount'"),
    ("args.amount_cent < 5", "none of its tools has an argument 'amount_cent' (did you mean 'amount_cents'?)"),
    ("args['amount_cent'] < 5", "none of its tools has an argument 'amount_cent' (did you mean 'amount_cents'?)"),
    ("'amount_cent' in args", "none of its tools has an argument 'amount_cent' (did you mean 'amount_cents'?)"),
    ("args.to.ibn == 'x'", "none of its tools has an argument 'to.ibn' (did you mean 'iban'?)"),
    ("args.amount_cents == '5'", "'args.amount_cents' is integer, and never string"),
    ("'5' == args.amount_cents", "'args.amount_cents' is integer, and never string"),
    ("session.called('fraud__chek')", "'fraud__chek' matches no tool (did you mean 'fraud__check'?)"),
    ("session.sum('pay__refund', 'amount') > 1", "no tool of 'pay__refund' has an argument 'amount'"),
    ("session.sum('pay__refund', 'note') > 1", "'note' of 'pay__refund' is not a number"),
    ("session.called(args.note)", "called() takes literal names, so that they can be checked"),
    ("principal.called('fraud__check')", "called() is a function of 'session' or 'history'"),
    ("'untrustd' in session.labels", "nothing sets the label 'untrustd' (did you mean 'untrusted'?)"),
    ("session.lables == []", "'session' has no 'lables' (did you mean 'labels'?)"),
    ("args.lines.all(principal, true)", "'principal' is a reserved name"),
    ("principal[args.note] == 'x'", "'principal' has attributes or id or roles, by name"),
    ("now.getHours('Europe/Belrin') < 18", "'Europe/Belrin' is not a valid time zone"),
    ("now < timestamp('2027-01-31')", "'2027-01-31' is not a valid timestamp"),
    ("now - timestamp(args.note) < duration('1 day')", "'1 day' is not a valid duration"),
    ("args.note.matches('(')", "'(' is not a valid pattern"),
    ("matches(args.note, 'a{2000}')", "'a{2000}' is not a valid pattern"),
    ("args.lines.all(line, line.matches('[z-a]'))", "'[z-a]' is not a valid pattern"),
    ("args.amount_cents < int('5 EUR')", "'5 EUR' is not a valid int"),
    ("args.amount_cents <", "column 20: Syntax error"),
    ("", "column 1: Syntax error"),
    ("size('x')", "is int, not bool"),
    ("'a' + 1 == 'b'", "found no matching overload for '_+_' applied to '(string, int)'"),
    ("now == 5", "found no matching overload"),
    ("(" * 300 + "true" + ")" * 300, "p.yaml:3"),
    ("true || " * 600 + "true", "at most 4000 characters"),
    ("b'x' == b'x' && \0", "p.yaml:3"),
    ("args.amount_cents <= 9223372036854775808", "is beyond 9223372036854775807: write 9223372036854775808u"),
    ("args.amount_cents <= 0x8000000000000000", "is beyond 9223372036854775807: write 9223372036854775808u"),
    ("args.amount_cents <= 18446744073709551616u", "is beyond 18446744073709551615: compare it under `arguments:`"),
    ("args.amount_cents > -9223372036854775809", "is beyond 9223372036854775808: compare it under `arguments:`"),
    ("args.amount_cents <= 9007199254740993.0", "is compared inexactly with whole numbers: write 9007199254740992"),
    ("args.amount_cents > -1e18", "write -1000000000000000000"),
    ("args.amount_cents <= 1e19", "write 10000000000000000000u"),
    ("args.amount_cents <= 1e30", "compare it under `arguments:`"),
    ("args.amount_cents <= 1e400", "is larger than any number of CEL"),
    ("args.note == r'\\\\' || args.amount_cents == 9223372036854775808", "write 9223372036854775808u"),
]


@pytest.mark.parametrize(("source", "message"), MISTAKES, ids=[case[0][:60] for case in MISTAKES])
def test_mistakes_are_found_at_load(source: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        compiled(source, "bool")
    assert message in str(caught.value)
    assert "p.yaml:3" in str(caught.value)


def test_what_the_compiler_says_in_other_words_is_no_expression() -> None:
    with pytest.raises(PolicyError, match=r"is not a valid expression$"):
        compiled("(" * 60 + "]", "bool")


UNANSWERED: list[tuple[str, dict[str, Any]]] = [
    ("args.amount_cents < 5", {}),
    ("args.amount_cents < 5", {"amount_cents": "4"}),
    ("args.amount_cents < 5", {"amount_cents": None}),
    ("args.amount_cents == 5", {"amount_cents": 2**64}),
    ("args.amount_cents + 9223372036854775807 > 0", {"amount_cents": 1}),
    ("1 / args.amount_cents == 1", {"amount_cents": 0}),
    ("principal.attributes[args.note] == 'x'", {"note": "no such"}),
    ("args.note == 'admin'", {"note": "admin\0evil"}),  # the runtime would see `admin` alone
    ("args.note != 'admin'", {"note": "\ud800"}),
    ("args.extra.role == 'admin'", {"extra": {"role\0": "admin"}}),
    ("args.to.iban == 'x'", {"to": "x"}),
    ("args.note", {"note": "neither true nor false"}),
    ("args.note.matches(args.note)", {"note": "("}),
    ("args.lines.all(a, args.lines.all(b, args.lines.all(c, true)))", {"lines": ["x"] * 200}),
    ("args.lines.exists(a, args.note.contains(a))", {"lines": ["x"], "note": "a" * 20_000}),
    ("args.lines.size() > 1", {"lines": ["x"] * 20_000}),
    ("args.note.size() > 1", {"note": "a" * 2_000_000}),
    ("session.called('fraud__check')", {}),
]


@pytest.mark.parametrize(("source", "arguments"), UNANSWERED, ids=[case[0] for case in UNANSWERED])
def test_what_cannot_be_answered_is_neither_true_nor_false(source: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(Unevaluated) as caught:
        compiled(source).holds(facts(arguments))
    assert "admin\0evil" not in str(caught.value)


def test_an_error_beside_an_answer_that_decides_is_no_error() -> None:
    assert compiled("args.amount_cents < 5 || principal.id == 'bot'").holds(facts())
    assert not compiled("args.amount_cents < 5 && principal.id == 'ann'").holds(facts())


def test_nobody_it_acts_for_is_null() -> None:
    alone = facts(principal=ANN)
    assert compiled("user == null").holds(alone)
    with pytest.raises(Unevaluated):
        compiled("user.attributes.tenant == 'acme'").holds(alone)


def test_histories_are_asked_by_session_and_by_principal() -> None:
    session = Remembered({"fraud__check": 1, "pay__*": 3, "pay__refund.amount_cents": 700}, ["untrusted"])
    known = facts(session=session, history=Remembered({"pay__*": 9}))
    assert compiled("session.called('fraud__check') && !history.called('fraud__check')").holds(known)
    assert compiled("session.count('pay__*') == 3 && history.count('pay__*') == 9").holds(known)
    assert compiled("session.sum('pay__refund', 'amount_cents')").number(known) == 700
    assert compiled("'untrusted' in session.labels && !('untrusted' in history.labels)").holds(known)


def test_what_was_forgotten_is_no_answer_whatever_is_beside_it() -> None:
    forgetful = facts(session=Remembered({}, forgot=True))
    for source in ("session.called('fraud__check')", "!session.called('fraud__check')", "session.count('pay__*') < 3"):
        with pytest.raises(Unevaluated, match="no longer stored"):
            compiled(source).holds(forgetful)
    assert compiled("principal.id == 'bot'").holds(forgetful)


def test_numbers_are_numbers() -> None:
    assert compiled("args.amount_cents", "number").number(facts({"amount_cents": 3})) == 3
    for value in (float("nan"), float("inf"), True, "3", None, 2**64):
        with pytest.raises(Unevaluated):
            compiled("args.amount_cents", "number").number(facts({"amount_cents": value}))


def test_an_expression_says_whether_it_asks_for_earlier_calls() -> None:
    assert compiled("session.called('fraud__check')").asks_history
    assert compiled("'untrusted' in history.labels").asks_history
    assert not compiled("args.note == 'session'").asks_history


def test_the_tree_is_what_was_written() -> None:
    source = "has(args.note) && args.lines.exists(x, x == 'a') && -9 < args.amount_cents && args.extra.b == 2.5"
    tree = read_tree(compiled(source)._compiled.serialize())
    nodes = [*walk(tree)]
    assert Select(operand=Identifier(name="args"), field="note", tests=True) in nodes
    assert any(isinstance(node, Comprehension) and "x" in node.variables for node in nodes)
    assert CelConstant(value=-9) in nodes
    assert CelConstant(value=2.5) in nodes
    assert any(isinstance(node, Function) and node.name == "_<_" for node in nodes)
    with pytest.raises(ValueError, match="not a serialised"):
        read_tree(b"\xff\xff")


@settings(max_examples=examples(300), deadline=None)
@given(st.text(max_size=60) | st.text("()[]{}.,'\"\\&|!<>=+-*/? abx019\n", max_size=60))
def test_any_text_is_an_expression_or_a_mistake(source: str) -> None:
    try:
        expression = compiled(source)
        expression.evaluate(facts())
    except (PolicyError, Unevaluated):
        pass


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(300), deadline=None)
@given(JSON)
def test_a_value_is_compared_as_it_is_or_not_at_all(value: Any) -> None:
    """Equality with a literal never holds for anything but that literal."""
    for source, wanted in (("args.note == 'ab'", "ab"), ("args.note == ''", ""), ("args.extra == {'a': 1}", {"a": 1})):
        try:
            holds = compiled(source).holds(facts({"note": value, "extra": value}))
        except Unevaluated:
            continue
        assert holds == (value == wanted and not isinstance(value, bool))
