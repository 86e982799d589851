"""Index of the rules about a tool, by the literals that their conditions compare with variables of the call.

Most conditions of a long policy name one tenant, one id or one team. A call has one value of each, so that all but a few of these
conditions are false without being evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolgen.policy.cel.comparison import Path, kind_of, value_at
from toolgen.policy.cel.expression import ConditionVariables
from toolgen.policy.rules import CompiledRule

__all__ = ["RuleIndex"]

_MIN_RULES = 8


class _Table:
    """Rules whose conditions compare one variable with literals of one kind, by their position in the order of the rules."""

    __slots__ = ("everything", "rules")

    def __init__(self) -> None:
        self.rules: dict[str | int, list[int]] = {}
        self.everything: list[int] = []


class RuleIndex:
    """Rules about a tool that can apply to a call, in their order. Built at the first call."""

    __slots__ = ("_always", "_roots", "_rules", "_tables")

    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        self._rules = rules
        self._always: list[int] = []
        self._roots: tuple[str, ...] = ()
        self._tables: dict[tuple[Path, str], _Table] | None = None

    def candidates(self, variables: ConditionVariables) -> Sequence[CompiledRule]:
        """Return the rules without those whose condition is certainly false.

        All rules are returned if the variables have no exact form for conditions: then a condition may have no answer.
        """
        if len(self._rules) < _MIN_RULES:
            return self._rules
        if self._tables is None:
            self._tables = self._built()
        if not self._tables or not all(map(variables.reads_as_given, self._roots)):
            return self._rules
        found = [*self._always]
        for (path, kind), table in self._tables.items():
            root = variables.arguments if path[0] == "args" else variables.of(path[0])
            value = value_at({path[0]: root}, path)
            # With a missing value, or one of another kind, a condition may have no answer.
            found += table.rules.get(value, ()) if kind_of(value) == kind else table.everything  # type: ignore[call-overload]
        return [self._rules[number] for number in sorted(found)]

    def _built(self) -> dict[tuple[Path, str], _Table]:
        tables: dict[tuple[Path, str], _Table] = {}
        for number, compiled in enumerate(self._rules):
            when = compiled.rule.when
            comparison = None if when is None else when.comparison
            if comparison is None:
                self._always.append(number)
                continue
            table = tables.setdefault((comparison.path, comparison.kind), _Table())
            table.everything.append(number)
            for value in comparison.values:
                table.rules.setdefault(value, []).append(number)
        self._roots = tuple({path[0] for path, _ in tables})
        return tables
