"""One rule by itself: what the record is told of a condition that has no answer."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.policy.cel.test_expression import SCOPE, TOOLS
from toolgen.model.call import Principal
from toolgen.model.tool import Effect
from toolgen.policy.access import Access, Rule
from toolgen.policy.cel.expression import compile_expression

BOT = Principal(id="bot", roles=frozenset({"bot"}))


def _rule(name: str, verdict: str) -> Rule:
    return Rule(
        id=name,
        roles=frozenset({"bot"}),
        tools=("pay__refund",),
        effects=frozenset(Effect),
        names_destructive=False,
        arguments=None,
        verdict=verdict,
        where="p.yaml:1",
        when=compile_expression("args.amount_cents < 5", SCOPE, where="p.yaml:1"),
    )


ALL = replace(_rule("all", "allow"), when=None)


@pytest.mark.parametrize(("verdict", "answer"), [("allow", "Allow"), ("deny", "Deny"), ("ask", "Ask")])
def test_a_condition_without_an_answer_is_noted_once(verdict: str, answer: str) -> None:
    rules = [ALL, _rule("one", verdict), _rule("two", verdict)]
    tool = TOOLS["pay__refund"]

    judged = Access(rules, TOOLS).judge(BOT, tool, {})

    assert type(judged.verdict).__name__ == answer
    assert [(note.rule, note.verdict, note.status) for note in judged.notes] == [
        ("one", verdict, "unevaluated"),
        ("two", verdict, "unevaluated"),
    ]
