"""Access of callers to tools: deny by default; the strictest verdict wins, for the caller and for the user it acts for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.model.call import ANY_OF, Principal
from toolgen.model.caller_requests import RequestKind
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Effect, Tool, absent
from toolgen.model.verdict import Allow, Ask, Deny, Verdict
from toolgen.policy.binding import Binder, BoundArguments, bind, with_told, without_bound
from toolgen.policy.caller_requests import Allowances, RequestAllowance, in_common
from toolgen.policy.cel.expression import ConditionVariables, History, Reads, read_together
from toolgen.policy.readings.call import Readings, readings_of
from toolgen.policy.readings.wire import TooManyReadingsError
from toolgen.policy.rule_index import RuleIndex
from toolgen.policy.rules import CompiledRule, DecisionNote, Rule
from toolgen.policy.toolsets import NO_TOOLSETS, Toolset, audience

__all__ = ["NOWHERE", "UNKNOWN", "Access", "Decision", "EvaluationContext", "Rule"]


UNKNOWN = Deny(
    rule="default",
    code="unknown_tool",
    reason="there is no such tool",
    suggestion="list the tools to see their exact names",
)


class EvaluationContext(msgspec.Struct, frozen=True, kw_only=True):
    """Data that a condition may read besides the call itself: the time (seconds since the epoch) and earlier calls of the caller.

    `user` has the earlier calls made by, or for, the principal that the caller acts for; without it they are the caller's.
    """

    now: float = 0.0
    session: History | None = None
    history: History | None = None
    user: EvaluationContext | None = None

    def each(self, principal: Principal) -> Iterator[tuple[Principal, EvaluationContext]]:
        """Return the parties of a call, each with its own evaluation context."""
        yield principal, self
        party = principal.on_behalf_of
        while party is not None:
            yield party, self.user or self
            party = party.on_behalf_of


NOWHERE = EvaluationContext()
DESCRIBES = "types-of-callable-tools"
"""Id of the rule that shows the types of a GraphQL source where no rule of the policy covers the tool for types."""
_MAX_ENTRIES = 500_000  # about 100 bytes each


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """Verdict on a call, with details for the audit log. `readings` are the interpretations of its arguments; None if there is only one."""

    verdict: Verdict
    notes: tuple[DecisionNote, ...] = ()
    readings: Readings | None = None


class _About(Struct, frozen=True):
    """Rules about one tool for one set of roles. `settled`: they allow every call, with any arguments."""

    rules: tuple[CompiledRule, ...]
    shadows: tuple[CompiledRule, ...]
    binding: tuple[Rule, ...]
    could: bool
    reads: Reads  # inputs of their conditions
    index: RuleIndex
    conditional: bool = False
    settled: Allow | None = None


_NO_TOOL = absent("")
_NOTHING = _About((), (), (), False, read_together(()), RuleIndex(()))


class Access:
    """Rules of a policy, compiled per set of roles when a principal with those roles is first seen.

    `before` are the previous rules: unchanged rules about the same tools are not compiled again. `bounds_waiting`: at least one rule has
    `pending_after`.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        tools: Mapping[str, Tool],
        toolsets: Mapping[str, Toolset] = NO_TOOLSETS,
        *,
        before: Access | None = None,
    ) -> None:
        known = {} if before is None else before._compiled_for(tools)
        self._rules: tuple[CompiledRule, ...] = tuple(_compiled(rule, tools, known.get(rule.id)) for rule in rules)
        self._shadowed = any(compiled.rule.shadow for compiled in self._rules)
        self.bounds_waiting = any(compiled.rule.pending_after_s is not None for compiled in self._rules)
        self._requested = any(compiled.rule.requests for compiled in self._rules)
        self._telling = tuple(compiled.rule for compiled in self._rules if compiled.rule.tell)
        self._tools: Mapping[str, Tool] = tools
        self._toolsets = toolsets
        self._describing = [tool for tool in tools.values() if tool.shows_schema]
        self._by_roles: dict[frozenset[str], dict[str, _About]] = {}
        self._entries = 0  # of the tables of all sets of roles
        self._same: dict[tuple[bool, tuple[int, ...]], _About] = {}

    def _compiled_for(self, tools: Mapping[str, Tool]) -> dict[str, CompiledRule]:
        """Return the compiled rules by name; none if they are about other tools."""
        return {one.rule.id: one for one in self._rules} if self._tools is tools else {}

    def visible(self, principal: Principal, tool: Tool) -> bool:
        """Return True if some arguments could let the principal, and everyone it acts for, call the tool."""
        party: Principal | None = principal
        while party is not None:
            if not self._about(party, tool).could or (party.toolsets and not self._within(party.toolsets, tool)):
                return False
            party = party.on_behalf_of
        return True

    def asks(self, principal: Principal, tool: Tool) -> bool:
        """Return True if a person may have to approve some call of the tool."""
        for party in _parties(principal):
            rules = self._about(party, tool).rules
            if any(one.rule.verdict == "ask" for one in rules):
                return True
            outright = any(
                one.rule.verdict == "allow" and one.rule.names_destructive and not one.conditional for one in rules
            )
            if rules and tool.effect is Effect.DESTRUCTIVE and not outright:
                return True
        return False

    def pending_after(self, principal: Principal, tool: Tool) -> float | None:
        """Return the shortest `pending_after` of all rules about a tool, in seconds; None if no rule has one."""
        if not self.bounds_waiting:
            return None
        rules = (one.rule for party in _parties(principal) for one in self._about(party, tool).rules)
        return min((rule.pending_after_s for rule in rules if rule.pending_after_s is not None), default=None)

    def may_request(self, tool: Tool) -> bool:
        """Return True if the server of a tool may send requests to at least one caller."""
        return self._requested and bool(tool.caller_requests)

    def requests(
        self,
        principal: Principal,
        tool: Tool,
        arguments: JsonObject,
        circumstances: EvaluationContext,
        judged: Decision,
    ) -> Allowances:
        """Return the requests that the server of a tool may send to the caller during a call that was `judged`: the applicable rules of
        each party have to allow them."""
        parties: list[dict[RequestKind, RequestAllowance]] = []
        for party, around in circumstances.each(principal):
            about, found = self._about(party, tool), dict[RequestKind, RequestAllowance]()
            asked = _EvaluatedCall(party, tool, arguments, around, about.reads, judged.readings)
            for compiled in about.rules:
                if compiled.rule.requests and (not compiled.conditional or asked.applies(compiled, [])):
                    found = {**compiled.rule.requests, **found}
            parties.append(found)
        return in_common(parties)

    def settled(self, principal: Principal, tool: Tool) -> Allow | None:
        """Return the verdict that `judge` gives every call of the principal itself, for any arguments.

        None if the arguments matter, or if shadow rules are evaluated too.
        """
        return None if self._shadowed else self._about(principal, tool).settled

    def bound(self, principal: Principal, tool: Tool) -> tuple[Binder, ...]:
        """Return the arguments of a tool that the gateway sets for a principal and the user it acts for, by any rule about the tool. Rules
        that do not apply to a call count too."""
        return tuple(
            Binder(rule=rule.id, argument=argument, expression=expression, party=party, told=argument in rule.tell)
            for party in _parties(principal)
            for rule in self._about(party, tool).binding
            for argument, expression in rule.bind.items()
        )

    def bind(self, principal: Principal, tool: Tool, arguments: JsonObject) -> BoundArguments:
        """Return the arguments together with the bound ones."""
        if principal.on_behalf_of is None and not self._about(principal, tool).binding:
            return BoundArguments(arguments=arguments)
        binders = self.bound(principal, tool)
        return bind(binders, tool, arguments) if binders else BoundArguments(arguments=arguments)

    def shown(self, principal: Principal, tool: Tool) -> Tool:
        """Return a visible tool as the principal sees it: without bound arguments, or with their values if the policy discloses them."""
        bound = self.bound(principal, tool)
        if not bound:
            return tool
        told = {one.argument: value for one in bound if one.told and (value := one.value(tool)) is not None}
        return without_bound(with_told(tool, dict(sorted(told.items()))), sorted({one.argument for one in bound}))

    def told(self, principal: Principal) -> tuple[str, ...]:
        """Return the values of bound arguments that are disclosed to a principal, because its tools differ by them; empty if the policy
        discloses none."""
        if not self._telling:
            return ()
        return tuple(
            f"{rule.id} {argument} {binder.value(_NO_TOOL)!r}"
            for party in _parties(principal)
            for rule in self._telling
            if not rule.roles.isdisjoint(party.roles)
            for argument in sorted(rule.tell)
            for binder in (Binder(rule=rule.id, argument=argument, expression=rule.bind[argument], party=party),)
        )

    def decide(
        self, principal: Principal, tool: Tool, arguments: JsonObject, circumstances: EvaluationContext = NOWHERE
    ) -> Verdict:
        """Return the verdict on one call. Pure function: equal calls in equal circumstances get equal verdicts."""
        return self.judge(principal, tool, arguments, circumstances).verdict

    def judge(
        self, principal: Principal, tool: Tool, arguments: JsonObject, circumstances: EvaluationContext = NOWHERE
    ) -> Decision:
        """Decide a call as `decide` does, with notes for the audit log: conditions without an answer, and the verdicts of shadow rules."""
        notes: list[DecisionNote] = []
        verdict: Verdict = UNKNOWN
        readings: Readings | None = None
        alone = principal.on_behalf_of is None and not principal.toolsets
        about = self._about(principal, tool)
        if about.could if alone else self.visible(principal, tool):
            try:
                readings = readings_of(tool, arguments)
                if alone and about.settled is not None:
                    verdict = about.settled
                elif alone:
                    verdict = self._decide(principal, tool, arguments, readings, circumstances, notes)
                else:
                    parties = circumstances.each(principal)
                    verdict = strictest(
                        [self._decide(party, tool, arguments, readings, around, notes) for party, around in parties]
                    )
            except TooManyReadingsError as error:
                verdict = Deny(
                    rule="readings",
                    reason=f"these arguments have more interpretations than the rules can check: {error}",
                    suggestion="send fewer of them, or ask the operator of the gateway to give each one type in an overlay",
                )
        if self._shadowed:
            notes += self._shadows(principal, tool.name, arguments, circumstances)
        return Decision(verdict=verdict, notes=tuple(notes), readings=readings)

    def _shadows(
        self, principal: Principal, name: str, arguments: JsonObject, circumstances: EvaluationContext
    ) -> Iterator[DecisionNote]:
        """Yield the verdicts of shadow rules. There are none for a call that is refused because it has too many interpretations."""
        known = self._tools.get(name)
        if known is None:
            return
        with suppress(TooManyReadingsError):
            readings = readings_of(known, arguments)
            for party, around in circumstances.each(principal):
                about = self._about(party, known)
                asked = _EvaluatedCall(party, known, arguments, around, about.reads, readings)
                for compiled in about.shadows:
                    if asked.applies(compiled, []):
                        yield DecisionNote(rule=compiled.rule.id, verdict=compiled.rule.verdict, status="shadow")

    def considered(self, principal: Principal, tool: Tool) -> tuple[CompiledRule, ...]:
        """Return the rules about a tool for the first party, shadow rules included; for explaining a decision."""
        about = self._about(principal, tool)
        return (*about.rules, *about.shadows)

    @property
    def rules(self) -> tuple[CompiledRule, ...]:
        """Return all rules, in the order of their ids."""
        return self._rules

    def _decide(
        self,
        principal: Principal,
        tool: Tool,
        arguments: JsonObject,
        readings: Readings | None,
        circumstances: EvaluationContext,
        notes: list[DecisionNote],
    ) -> Verdict:
        about = self._about(principal, tool)
        speaking: list[CompiledRule] = []
        asked: _EvaluatedCall | None = None
        rules: Sequence[CompiledRule] = about.rules
        if readings is None and about.conditional:
            asked = _EvaluatedCall(principal, tool, arguments, circumstances, about.reads, readings)
            rules = about.index.candidates(asked.variables)
        for compiled in rules:
            if compiled.conditional:
                asked = asked or _EvaluatedCall(principal, tool, arguments, circumstances, about.reads, readings)
                if not asked.applies(compiled, notes):
                    continue
            speaking.append(compiled)
        verdict = _said(speaking, tool)
        return (
            _unmet(about.rules, arguments, readings)
            if isinstance(verdict, Deny) and verdict.rule == "default"
            else verdict
        )

    def _within(self, toolsets: frozenset[str], tool: Tool) -> bool:
        """Return True if a tool is in every set that a caller asked for. A set that does not exist contains no tool. Names with `ANY_OF`
        between them are the tools of any of these sets."""
        return all(
            any(one in self._toolsets and tool.name in self._toolsets[one].tools for one in name.split(ANY_OF))
            for name in toolsets
        )

    def _about(self, principal: Principal, tool: Tool) -> _About:
        table = self._by_roles.get(principal.roles)
        if table is None:
            table = self._table(principal.roles)
            self._entries += len(table) + 1
            if self._entries > _MAX_ENTRIES:
                self._by_roles.clear()
                self._entries = len(table) + 1
            self._by_roles[principal.roles] = table
        # By name and identity: a tool that is not from this catalog (an unknown one, an older version) has no rules.
        return table.get(tool.name, _NOTHING) if self._tools.get(tool.name) is tool else _NOTHING

    def _table(self, roles: frozenset[str]) -> dict[str, _About]:
        about: dict[str, list[CompiledRule]] = {}
        open_to = audience(self._toolsets, roles)
        for compiled in self._rules:
            if compiled.rule.roles & roles:
                for name in compiled.tools if open_to is None else compiled.tools & open_to:
                    about.setdefault(name, []).append(compiled)
        table = {name: self._shared(found, self._tools[name]) for name, found in about.items()}
        for tool in self._describing:
            known = table.get(tool.name)
            silent = known is None or not known.rules
            if silent and (open_to is None or tool.name in open_to) and self._may_call_of(tool.source, table):
                shadows = () if known is None else tuple(known.shadows)
                table[tool.name] = _gathered([_describes(tool, roles), *shadows], tool)
        return table

    def _shared(self, found: list[CompiledRule], tool: Tool) -> _About:
        """Return the rules about a tool as an object that all tools and roles with the same rules share."""
        key = (tool.effect is Effect.DESTRUCTIVE, tuple(map(id, found)))  # rules live as long as the cache
        same = self._same.get(key)
        if same is None:
            if len(self._same) >= _MAX_ENTRIES:
                self._same.clear()
            same = self._same[key] = _gathered(found, tool)
        return same

    def _may_call_of(self, source: str, table: Mapping[str, _About]) -> bool:
        return any(about.could and self._tools[name].source == source for name, about in table.items())


def _compiled(rule: Rule, tools: Mapping[str, Tool], known: CompiledRule | None) -> CompiledRule:
    """Compile a rule, or reuse `known`: the compiled form of the previous rule with this name, about the same tools."""
    again = None if known is None else known.of(rule)
    return CompiledRule(rule, tools) if again is None else again


def _describes(tool: Tool, roles: frozenset[str]) -> CompiledRule:
    """Return the default rule for types: a principal that may call a tool of a GraphQL source may read its types, unless a rule decides
    about them."""
    rule = Rule(
        id=DESCRIBES,
        roles=roles,
        tools=(tool.name,),
        effects=frozenset({Effect.READ}),
        names_destructive=False,
        arguments=None,
        verdict="allow",
        where="",
    )
    return CompiledRule(rule, {tool.name: tool})


def _gathered(found: list[CompiledRule], tool: Tool) -> _About:
    rules = tuple(compiled for compiled in found if not compiled.rule.shadow)
    forbidden = any(compiled.rule.verdict == "deny" and not compiled.conditional for compiled in rules)
    return _About(
        rules=rules,
        shadows=tuple(compiled for compiled in found if compiled.rule.shadow),
        binding=tuple(compiled.rule for compiled in rules if compiled.rule.bind),
        could=not forbidden and any(compiled.rule.verdict != "deny" for compiled in rules),
        reads=read_together(one.rule.when for one in found if one.rule.when is not None),
        index=RuleIndex(rules),
        conditional=(conditional := any(compiled.conditional for compiled in rules)),
        settled=None if conditional else _settled(rules, tool),
    )


def _settled(rules: Iterable[CompiledRule], tool: Tool) -> Allow | None:
    """Return the combined verdict of rules that all apply if it is an Allow, else None."""
    verdict = _said(rules, tool)
    return verdict if isinstance(verdict, Allow) else None


def _said(speaking: Iterable[CompiledRule], tool: Tool) -> Verdict:
    """Return the combined verdict of the rules that apply. A destructive tool needs approval unless one that allows it
    lists the effect `destructive`."""
    speaking = tuple(speaking)
    verdict = strictest(compiled.says for compiled in speaking)
    if not isinstance(verdict, Allow) or tool.effect is not Effect.DESTRUCTIVE:
        return verdict
    named = [one.rule for one in speaking if one.rule.verdict == "allow" and one.rule.names_destructive]
    if named:
        return Allow(rule=named[0].id)
    return Ask(
        rule=verdict.rule, reason="the tool is destructive and no rule allows destructive calls of it explicitly"
    )


def strictest(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the strictest verdict: Deny before Ask before Allow, the first of each kind. No verdicts give a Deny."""
    asked: list[Ask] = []
    allowed: Allow | None = None
    for verdict in verdicts:
        match verdict:
            case Deny():
                return verdict
            case Ask():
                asked.append(verdict)
            case Allow():
                allowed = allowed or verdict
    if asked:
        return _together(asked)
    return allowed or Deny(rule="default", reason="no rule allows this call")


def _together(asked: Sequence[Ask]) -> Ask:
    """Combine several Ask verdicts: all of their requirements apply, under the rule of the first."""
    if len(asked) == 1:
        return asked[0]
    return replace(asked[0], consents=tuple(dict.fromkeys(consent for ask in asked for consent in ask.wanted)))


class _EvaluatedCall:
    """A call of one principal while rules are evaluated for it, in all interpretations of its arguments."""

    __slots__ = ("_around", "_party", "_readings", "_reads", "_tool", "arguments", "variables")

    def __init__(
        self,
        party: Principal,
        tool: Tool,
        arguments: JsonObject,
        around: EvaluationContext,
        reads: Reads,
        readings: Readings | None,
    ) -> None:
        self.arguments = arguments if readings is None else readings.base
        self._party, self._tool, self._around, self._reads = party, tool, around, reads
        self._readings = readings
        self.variables = self.facts(self.arguments)

    def applies(self, compiled: CompiledRule, notes: list[DecisionNote]) -> bool:
        """Return True if a rule applies to the call. Raises `TooManyReadingsError`."""
        if self._readings is None or not self._readings.affects(compiled.reads):
            return compiled.applies(self.arguments, self.variables, notes)
        return compiled.speaks_of(self._readings, self.facts, notes)

    def facts(self, arguments: JsonObject) -> ConditionVariables:
        return ConditionVariables(
            principal=self._party,
            tool=self._tool,
            arguments=arguments,
            now=self._around.now,
            session=self._around.session,
            history=self._around.history,
            reads=self._reads,
        )


def _parties(principal: Principal) -> Iterator[Principal]:
    party: Principal | None = principal
    while party is not None:
        yield party
        party = party.on_behalf_of


def _unmet(about: Iterable[CompiledRule], arguments: JsonObject, readings: Readings | None) -> Deny:
    """Return the Deny for a call that no rule matched although some could match: it states the arguments that these rules require."""
    waiting = ""
    for compiled in about:
        if compiled.rule.verdict == "deny":
            continue
        fault = compiled.fault(arguments, readings)
        if fault:
            return Deny(
                rule="default",
                reason=f"the arguments are not allowed: {fault} (rule {compiled.rule.id})",
                suggestion="change that argument and call again",
            )
        if compiled.rule.when is not None:
            waiting = waiting or compiled.rule.id
    if waiting:
        return Deny(rule="default", reason=f"the condition of rule {waiting} does not hold for this call")
    return Deny(rule="default", reason="no rule allows this call")
