"""One rule of a policy, compiled: what it is about, when it speaks, and what it says where a condition has no answer."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase, translate
from types import MappingProxyType

from toolgen.model.schema import JsonObject, Schema
from toolgen.model.tool import Effect, Tool
from toolgen.model.verdict import Allow, Ask, Deny, Verdict
from toolgen.policy.arguments import Validator
from toolgen.policy.cel import Expression, Facts, Unevaluated

__all__ = ["CompiledRule", "Note", "Rule", "matching"]

_NO_BINDINGS: Mapping[str, Expression] = MappingProxyType({})
_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of a policy. It speaks about a call when role, tool and effect fit, `arguments`, if given, accepts the arguments, and
    `when`, if given, holds.

    `bind` has the expression of each argument (a path of names, joined by dots) that the gateway sets. `shadow`: decides nothing.
    """

    id: str
    roles: frozenset[str]
    tools: tuple[str, ...]
    effects: frozenset[Effect]
    names_destructive: bool
    arguments: Schema | None
    verdict: str  # allow | deny | ask
    where: str
    when: Expression | None = None
    bind: Mapping[str, Expression] = field(default_factory=lambda: _NO_BINDINGS)
    shadow: bool = False

    def covers(self, tool: Tool) -> bool:
        """Whether the rule is about a tool, whatever the arguments."""
        return tool.effect in self.effects and any(fnmatchcase(tool.name, pattern) for pattern in self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a decision leaves for the record besides its verdict: a shadow rule that spoke, or a condition that had no answer."""

    rule: str
    verdict: str
    status: str  # shadow | unevaluated
    reason: str = ""


class CompiledRule:
    """A rule with its schema compiled; `says` is its verdict once it speaks."""

    __slots__ = ("conditional", "rule", "says", "tools", "validator")

    def __init__(self, rule: Rule, tools: Mapping[str, Tool]) -> None:
        self.rule = rule
        self.says = _says(rule)
        self.validator = None if rule.arguments is None else Validator(rule.arguments)
        self.conditional = self.validator is not None or rule.when is not None
        found = (name for pattern in rule.tools for name in matching(pattern, tools))
        self.tools = frozenset(name for name in found if tools[name].effect in rule.effects)

    def speaks(self, arguments: JsonObject, facts: Facts, notes: list[Note]) -> bool:
        """Whether the rule is about this call. Where its condition has no answer, a rule that allows is silent and any other speaks."""
        if self.validator is not None and not self.validator.accepts(arguments):
            return False
        when = self.rule.when
        if when is None:
            return True
        try:
            return when.holds(facts)
        except Unevaluated as error:
            notes.append(
                Note(rule=self.rule.id, verdict=self.rule.verdict, status="unevaluated", reason=str(error)[:200])
            )
            return self.rule.verdict != "allow"


def _says(rule: Rule) -> Verdict:
    match rule.verdict:
        case "allow":
            return Allow(rule=rule.id)
        case "ask":
            return Ask(rule=rule.id, reason=f"rule {rule.id} wants a person to agree")
        case _:
            return Deny(rule=rule.id, reason=f"rule {rule.id} forbids this call")


def matching(pattern: str, names: Collection[str]) -> list[str]:
    """The names a glob matches, in their order."""
    if not _GLOB.search(pattern):
        return [pattern] if pattern in names else []
    accepts = re.compile(translate(pattern)).match
    return [name for name in names if accepts(name)]
