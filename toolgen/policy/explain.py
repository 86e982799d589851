"""Explanations of calls under a policy without making them: why each rule applies or not, and the tests in policy files."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from toolgen.model.call import Principal
from toolgen.model.caller_requests import RequestKind
from toolgen.model.context import PROMPT, RESOURCE
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool
from toolgen.model.verdict import Allow, Ask, Deny, Verdict
from toolgen.policy.access import Access, EvaluationContext
from toolgen.policy.arguments import Validator, repair
from toolgen.policy.caller_requests import Allowances, RequestAllowance
from toolgen.policy.cel.expression import ConditionVariables, Unevaluated
from toolgen.policy.readings.call import Readings, Weight, readings_of
from toolgen.policy.readings.wire import TooManyReadingsError
from toolgen.policy.rules import CompiledRule

__all__ = [
    "Considered",
    "EarlierCall",
    "ExplainedRequest",
    "Explanation",
    "Outlook",
    "SelfTest",
    "SelfTestResult",
    "explain",
    "explained_requests",
    "outlook",
    "readings_shown",
    "run",
    "why_hidden",
]


class Considered(Struct, frozen=True, kw_only=True):
    """Evaluation of a rule for one principal of a call. `applies` is True if the rule applied, `why` the reason."""

    party: str
    rule: str
    verdict: str
    where: str
    shadow: bool
    applies: bool
    why: str

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, for `toolgen policy explain --json`. Its key for `applies` is `speaks`."""
        return {"speaks" if name == "applies" else name: value for name, value in asdict(self).items()}


def explain(
    access: Access, principal: Principal, tool: Tool, arguments: JsonObject, circumstances: EvaluationContext
) -> Iterator[Considered]:
    """Return the evaluation of every rule, for the caller and then for the users it acts for, in the order of their ids."""
    for party, around in circumstances.each(principal):
        for compiled in access.rules:
            applies, why = _considered(compiled, party, tool, arguments, around)
            rule = compiled.rule
            yield Considered(
                party=party.id,
                rule=rule.id,
                verdict=rule.verdict,
                where=rule.where,
                shadow=rule.shadow,
                applies=applies,
                why=why,
            )


class ExplainedRequest(Struct, frozen=True, kw_only=True):
    """Kind of requests that the server of a tool may send to the caller of a call: its source offers all of them, and `rules` are those
    that allow it, one for each party; none if it is refused. Budgets are the smallest of these rules."""

    kind: str
    rules: tuple[str, ...] = ()
    per_call: int = 0
    max_tokens: int = 0
    hosts: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the explanation as text."""
        if not self.rules:
            return "the source offers it, and no rule that applies allows it"
        budget = [f"{self.per_call} a call"]
        budget += [f"{self.max_tokens} tokens"] if self.kind == "sampling" else []
        budget += [f"hosts {', '.join(self.hosts)}"] if self.hosts else []
        budget += [f"limited by {', '.join(self.rates)}"] if self.rates else []
        return f"the source offers it, and {' and '.join(self.rules)} allows it: {', '.join(budget)}"

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, for `toolgen policy explain --json`."""
        return {name: value for name, value in asdict(self).items() if value or name in {"kind", "rules"}}


def explained_requests(
    access: Access, principal: Principal, tool: Tool, arguments: JsonObject, circumstances: EvaluationContext
) -> tuple[ExplainedRequest, ...]:
    """Return the requests that the server of a tool may send to the caller of a call, one entry for each kind that its source offers."""
    if not tool.caller_requests:
        return ()
    judged = access.judge(principal, tool, arguments, circumstances)
    allowed: Allowances = {}
    if not isinstance(judged.verdict, Deny) and access.may_request(tool):
        allowed = access.requests(principal, tool, arguments, circumstances, judged)
    return tuple(_explained(kind, allowed.get(kind, ())) for kind in tool.caller_requests)


def _explained(kind: RequestKind, allowed: tuple[RequestAllowance, ...]) -> ExplainedRequest:
    if not allowed:
        return ExplainedRequest(kind=kind)
    return ExplainedRequest(
        kind=kind,
        rules=tuple(one.rule for one in allowed),
        per_call=min(one.per_call for one in allowed),
        max_tokens=min(one.max_tokens for one in allowed) if kind == "sampling" else 0,
        hosts=tuple(dict.fromkeys(host for one in allowed for host in one.hosts)),
        rates=tuple(one.limit.id for one in allowed if one.limit is not None),
    )


class Outlook(Struct, frozen=True, kw_only=True):
    """Verdict for calls of a tool by a principal before their arguments are known. `rules` are those about it, and `depends`
    is True if the arguments or other properties of a call decide."""

    verdict: Literal["allow", "ask", "deny", "hidden"]
    rules: tuple[str, ...]
    depends: bool


def outlook(access: Access, principal: Principal, tool: Tool) -> Outlook:
    """Return what a principal can expect of a tool: it is `hidden` if no rule is about it, and `deny` if none can allow it."""
    about = [one for one in access.considered(principal, tool) if not one.rule.shadow]
    rules, depends = tuple(one.rule.id for one in about), any(one.conditional for one in about)
    if not access.visible(principal, tool):
        denied = any(one.rule.verdict == "deny" for one in about)
        return Outlook(verdict="deny" if denied else "hidden", rules=rules, depends=False)
    return Outlook(verdict="ask" if access.asks(principal, tool) else "allow", rules=rules, depends=depends)


def why_hidden(access: Access, principal: Principal, tool: Tool) -> str:
    """Return the reason why a principal is told that a tool does not exist, for the operator; "" if it may see the tool."""
    party: Principal | None = principal
    while party is not None:
        rules = [one.rule for one in access.considered(party, tool) if not one.rule.shadow]
        if not access.visible(replace(party, on_behalf_of=None, toolsets=frozenset()), tool):
            denying = [rule.id for rule in rules if rule.verdict == "deny"]
            if denying:
                return f"rule {denying[0]} denies it to {party.id} for all arguments"
            return f"no rule allows it to {party.id} (roles: {', '.join(sorted(party.roles)) or 'none'})"
        if not access.visible(replace(party, on_behalf_of=None), tool):
            return f"it is not in all toolsets that {party.id} selected: {', '.join(sorted(party.toolsets))}"
        party = party.on_behalf_of
    return ""


def readings_shown(tool: Tool, arguments: JsonObject) -> Mapping[str, list[Json]]:
    """Return the interpretations of each argument that has several; null for an argument that may be left out."""
    try:
        readings = readings_of(tool, arguments)
    except TooManyReadingsError:
        return {}
    return {} if readings is None else readings.shown()


def _considered(
    compiled: CompiledRule, party: Principal, tool: Tool, arguments: JsonObject, circumstances: EvaluationContext
) -> tuple[bool, str]:
    rule = compiled.rule
    if not rule.roles & party.roles:
        return False, f"role: it is for {', '.join(sorted(rule.roles))}"
    if tool.name not in compiled.tools:
        if tool.effect not in rule.effects:
            return False, f"effect: the tool's is {tool.effect.value}"
        return False, "tool: none of its patterns matches"

    def facts(given: JsonObject) -> ConditionVariables:
        return ConditionVariables(
            principal=party,
            tool=tool,
            arguments=given,
            now=circumstances.now,
            session=circumstances.session,
            history=circumstances.history,
        )

    try:
        readings = readings_of(tool, arguments)
        if readings is None or not readings.affects(compiled.reads):
            given = arguments if readings is None else readings.base
            return _alone(compiled, compiled.validator, given, facts(given))
        return _read(compiled, readings, facts)
    except TooManyReadingsError as error:
        return rule.verdict != "allow", f"arguments: {error}"


def _read(
    compiled: CompiledRule, readings: Readings, facts: Callable[[JsonObject], ConditionVariables]
) -> tuple[bool, str]:
    """Return the interpretation that decides: for a rule that allows, the first that it does not accept; for any other, the first that it
    accepts."""
    allows = compiled.rule.verdict == "allow"
    applies, why = allows, "it applies to this call"
    for one in compiled.interpretations_to_match(readings):
        asked = compiled if one.weight is Weight.MEANT or not allows else None
        applies, why = _alone(asked, compiled.alike, one.arguments, facts(one.arguments))
        if applies != allows:
            differing = readings.choices.keys() | readings.defaults.keys()
            named = {name: value for name, value in one.arguments.items() if name in differing}
            return applies, f"{why}; read as {msgspec.json.encode(named).decode()}"
    return applies, why


def _alone(
    compiled: CompiledRule | None, validator: Validator | None, arguments: JsonObject, facts: ConditionVariables
) -> tuple[bool, str]:
    """Return True if a rule (or the schema alone, without a rule) matches one interpretation, with the reason."""
    if validator is not None and (faults := validator.faults(arguments, 1)):
        return False, f"arguments: {faults[0]}"
    if compiled is None or compiled.rule.when is None:
        return True, "it applies to this call"
    when = compiled.rule.when
    try:
        holds = when.holds(facts)
    except Unevaluated as error:
        return compiled.rule.verdict != "allow", f"when: cannot be evaluated: {error}"
    return holds, f"when: {str(holds).lower()}: {when.source}"


class Explanation(Struct, frozen=True, kw_only=True):
    """Explanation of the decision about a call: by the rules, and then by the guards of SQL, GraphQL and egress.

    `statement` is the SQL statement or the GraphQL document that would run, "" if the tool has none or nothing would run. `arguments`
    include those that the gateway sets, whose names are `set_names`.
    """

    verdict: Verdict
    arguments: JsonObject
    set_names: tuple[str, ...] = ()
    statement: str = ""

    @property
    def word(self) -> str:
        """Return the verdict as a word: allow, deny or ask."""
        match self.verdict:
            case Allow():
                return "allow"
            case Ask():
                return "ask"
            case _:
                return "deny"

    @property
    def reason(self) -> str:
        """Return the reason why it is not allowed; "" if it is."""
        return "" if isinstance(self.verdict, Allow) else self.verdict.reason


class EarlierCall(Struct, frozen=True, kw_only=True):
    """Earlier call in a test, by the same principal, in the same session or another."""

    tool: str
    arguments: Mapping[str, Any]
    outcome: str  # ok | failed | running
    in_session: bool = True


class SelfTest(Struct, frozen=True, kw_only=True):
    """Entry of `tests:` in a policy file."""

    caller: Principal
    tool: str
    arguments: Mapping[str, Any]
    expect: str  # allow | deny | ask
    rule: str | None
    where: str
    at: float | None = None  # seconds since the epoch; None for the present
    after: tuple[EarlierCall, ...] = ()


class SelfTestResult(Struct, frozen=True, kw_only=True):
    """Result of a test: the expected verdict and the verdict found; `rule` is the rule that decided."""

    test: SelfTest
    verdict: str
    rule: str

    @property
    def passed(self) -> bool:
        return self.verdict == self.test.expect and self.test.rule in {None, self.rule}

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, for `toolgen policy check --json`."""
        return {
            "where": self.test.where,
            "as": self.test.caller.id,
            "call": self.test.tool,
            "expect": self.test.expect,
            "expect_rule": self.test.rule,
            "verdict": self.verdict,
            "rule": self.rule,
            "passed": self.passed,
        }


async def run(
    tests: Iterable[SelfTest],
    tools: Mapping[str, Tool],
    judge: Callable[[SelfTest, Tool, JsonObject], Awaitable[Explanation]],
) -> tuple[SelfTestResult, ...]:
    """Run tests. `judge` decides the call of a test, with its repaired arguments. `tools` are those that can be called, and the records of
    prompts and resources."""
    results = []
    for test in tests:
        tool = tools[test.tool]
        context = test.tool.startswith((PROMPT, RESOURCE))  # these have text arguments, which are not repaired
        arguments = test.arguments if context else repair(tool.input_schema, test.arguments).arguments
        judged = await judge(test, tool, arguments)
        results.append(SelfTestResult(test=test, verdict=judged.word, rule=judged.verdict.rule))
    return tuple(results)
