"""The tests a policy file carries: what a principal should be told, decided by the same code that decides calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from toolgen.model.call import Principal
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.model.verdict import Allow, Ask, Verdict
from toolgen.policy.access import Access, Circumstances
from toolgen.policy.arguments import repair

__all__ = ["EarlierCall", "SelfTest", "SelfTestResult", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierCall:
    """A call that a test says was made before, by the same principal, in the same session or another."""

    tool: str
    arguments: Mapping[str, Any]
    outcome: str  # ok | failed | running
    in_session: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """One entry of `tests:` in a policy file."""

    caller: Principal
    tool: str
    arguments: Mapping[str, Any]
    expect: str  # allow | deny | ask
    rule: str | None
    where: str
    at: float | None = None  # seconds since the epoch; None is now
    after: tuple[EarlierCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTestResult:
    """What a test expected and what it got; `rule` is the rule that decided."""

    test: SelfTest
    verdict: str
    rule: str

    @property
    def passed(self) -> bool:
        return self.verdict == self.test.expect and self.test.rule in {None, self.rule}

    def to_dict(self) -> dict[str, object]:
        """The JSON form, for `toolgen policy check --json`."""
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


def run(
    tests: Iterable[SelfTest],
    access: Access,
    tools: Mapping[str, Tool],
    circumstances: Callable[[SelfTest], Circumstances],
) -> tuple[SelfTestResult, ...]:
    """Runs tests against the rules. `circumstances` has what went before."""
    results = []
    for test in tests:
        tool = tools[test.tool]
        arguments: JsonObject = repair(tool.input_schema, test.arguments).arguments
        bound = access.bind(test.caller, tool, arguments)
        verdict = bound.denied or access.decide(test.caller, tool, bound.arguments, circumstances(test))
        results.append(SelfTestResult(test=test, verdict=_word(verdict), rule=verdict.rule))
    return tuple(results)


def _word(verdict: Verdict) -> str:
    match verdict:
        case Allow():
            return "allow"
        case Ask():
            return "ask"
        case _:
            return "deny"
