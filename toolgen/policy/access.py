"""Who may call what: deny by default, the strictest verdict wins, for the caller and for whom it acts alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from toolgen.model.call import Principal
from toolgen.model.schema import JsonObject, Schema
from toolgen.model.tool import Effect, GraphQLBinding, Tool
from toolgen.model.verdict import Allow, Ask, Deny, Verdict, strictest
from toolgen.policy.arguments import Validator
from toolgen.policy.graphql.coercion import coerced

__all__ = ["Access", "Rule"]

UNKNOWN = Deny(
    rule="default",
    code="unknown_tool",
    reason="there is no such tool",
    suggestion="list the tools to see their exact names",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule of a policy. It speaks about a call when role, tool and effect fit and `arguments`, if given, accepts the arguments."""

    id: str
    roles: frozenset[str]
    tools: tuple[str, ...]
    effects: frozenset[Effect]
    names_destructive: bool
    arguments: Schema | None
    verdict: str  # allow | deny | ask
    where: str

    def covers(self, tool: Tool) -> bool:
        """Whether the rule is about a tool, whatever the arguments."""
        return tool.effect in self.effects and any(fnmatchcase(tool.name, pattern) for pattern in self.tools)


@dataclass(frozen=True, slots=True)
class _Compiled:
    rule: Rule
    validator: Validator | None

    def speaks(self, arguments: JsonObject) -> bool:
        return self.validator is None or self.validator.accepts(arguments)


class Access:
    """The rules, compiled per set of roles the first time a principal with those roles is seen."""

    def __init__(self, rules: Iterable[Rule], tools: Mapping[str, Tool]) -> None:
        self._rules = tuple(
            _Compiled(rule, None if rule.arguments is None else Validator(rule.arguments)) for rule in rules
        )
        self._tools = tools
        self._by_roles: dict[frozenset[str], dict[str, tuple[_Compiled, ...]]] = {}

    def visible(self, principal: Principal, tool: Tool) -> bool:
        """Whether any arguments at all could let the principal, and whom it acts for, call the tool."""
        return all(self._could(party, tool) for party in _parties(principal))

    def decide(self, principal: Principal, tool: Tool, arguments: JsonObject) -> Verdict:
        """The verdict on one call. Pure: the same call always gets the same answer."""
        if not self.visible(principal, tool):
            return UNKNOWN
        return strictest(
            self._decide(party, tool, given) for party in _parties(principal) for given in _readings(tool, arguments)
        )

    def _decide(self, principal: Principal, tool: Tool, arguments: JsonObject) -> Verdict:
        about = self._about(principal, tool)
        speaking = [compiled.rule for compiled in about if compiled.speaks(arguments)]
        verdict = strictest(_verdict(rule) for rule in speaking)
        match verdict:
            case Allow() if tool.effect is Effect.DESTRUCTIVE:
                named = [rule for rule in speaking if rule.verdict == "allow" and rule.names_destructive]
                if named:
                    return Allow(rule=named[0].id)
                return Ask(rule=verdict.rule, reason="the tool is destructive and no rule allows that outright")
            case Deny(rule="default"):
                return _unmet(about, arguments)
            case _:
                return verdict

    def _could(self, principal: Principal, tool: Tool) -> bool:
        about = self._about(principal, tool)
        forbidden = any(compiled.rule.verdict == "deny" and compiled.validator is None for compiled in about)
        return not forbidden and any(compiled.rule.verdict != "deny" for compiled in about)

    def _about(self, principal: Principal, tool: Tool) -> tuple[_Compiled, ...]:
        table = self._by_roles.get(principal.roles)
        if table is None:
            mine = [compiled for compiled in self._rules if compiled.rule.roles & principal.roles]
            table = {
                name: found
                for name, item in self._tools.items()
                if (found := tuple(compiled for compiled in mine if compiled.rule.covers(item)))
            }
            self._by_roles[principal.roles] = table
        # By name and identity: a tool that is not the catalog's own (an absent one, an older one) is about nothing.
        return table.get(tool.name, ()) if self._tools.get(tool.name) is tool else ()


def _readings(tool: Tool, arguments: JsonObject) -> Iterator[JsonObject]:
    """The arguments as they will be sent, and as a GraphQL service reads them, where that is something else."""
    yield arguments
    if isinstance(tool.binding, GraphQLBinding) and (read := coerced(tool.input_schema, arguments)) is not arguments:
        yield read


def _parties(principal: Principal) -> Iterator[Principal]:
    party: Principal | None = principal
    while party is not None:
        yield party
        party = party.on_behalf_of


def _verdict(rule: Rule) -> Verdict:
    match rule.verdict:
        case "allow":
            return Allow(rule=rule.id)
        case "ask":
            return Ask(rule=rule.id, reason=f"rule {rule.id} wants a person to agree")
        case _:
            return Deny(rule=rule.id, reason=f"rule {rule.id} forbids this call")


def _unmet(about: Iterable[_Compiled], arguments: JsonObject) -> Deny:
    """Nothing spoke, but something could have: say what the arguments would have to be."""
    for compiled in about:
        if compiled.validator is not None and compiled.rule.verdict != "deny":
            faults = compiled.validator.faults(arguments, 1)
            if faults:
                return Deny(
                    rule="default",
                    reason=f"not with these arguments: {faults[0]} (rule {compiled.rule.id})",
                    suggestion="change that argument and call again",
                )
    return Deny(rule="default", reason="no rule allows this call")
