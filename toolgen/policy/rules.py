"""Compiled rule of a policy: its scope, its conditions, and its verdict if a condition has no answer. The JSON Schema of `arguments:` is
strict, because a misspelt keyword would narrow nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from fnmatch import fnmatchcase, translate
from functools import cache, lru_cache, partial
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

from msgspec import Struct, field

from toolgen.core.spelling import nearest
from toolgen.model.caller_requests import RequestKind
from toolgen.model.excerpt import bounded
from toolgen.model.schema import JsonObject, Schema
from toolgen.model.tool import Effect, Tool
from toolgen.model.verdict import Allow, Ask, Consent, Deny, Verdict
from toolgen.policy.arguments import Validator, check_schema
from toolgen.policy.caller_requests import RequestAllowance
from toolgen.policy.cel.expression import ConditionVariables, Expression, Unevaluated
from toolgen.policy.null_arguments import refusing_null
from toolgen.policy.readings.alike import alike
from toolgen.policy.readings.call import CallInterpretations, Readings, Weight

__all__ = ["CompiledRule", "Condition", "DecisionNote", "Rule", "arguments_of", "conditions_of", "fault_of", "matching"]

_MAX_PATTERNS = 256
_MAPS = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLES = (
    "not",
    "if",
    "then",
    "else",
    "items",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_PLAIN = (
    "$ref",
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxContains",
    "minContains",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
    "title",
    "description",
    "$comment",
)
_KEYWORDS = frozenset({*_MAPS, *_LISTS, *_SINGLES, *_PLAIN})
_BY_NAME = frozenset(
    {
        "properties", "required", "dependentRequired", "dependentSchemas", "type", "title", "description", "$comment", "$defs",
        "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
    }
)  # fmt: skip
_SAME_INSTANCE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")


def fault_of(schema: Mapping[str, Any], known: Iterable[str]) -> str | None:
    """Return the reason why a schema cannot narrow arguments with these names, or None if it can.

    Keywords are those of JSON Schema 2020-12 that can refuse a value; `format` is not among them, because it refuses nothing.
    """
    if not schema:
        return "it is empty and narrows nothing"
    names = set(known)
    for part in _parts(schema):
        for keyword in part:
            if keyword not in _KEYWORDS:
                return f"unknown JSON Schema keyword '{keyword}'{nearest(keyword, _KEYWORDS)}"
    if fault := check_schema(schema):
        return fault
    for name in _names(schema):
        if name not in names:
            return f"none of its tools has an argument '{name}'{nearest(name, names)}"
    return None


def arguments_of(schema: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the arguments that decide whether a schema accepts a call; None if it may be any of them."""
    for part in _same(schema):
        if not _BY_NAME.issuperset(part):
            return None
    return frozenset(_names(schema))


def _same(schema: object) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas that it applies to the same instance."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for keyword in _SAME_INSTANCE:
        below = schema.get(keyword)
        for item in below if isinstance(below, list) else (below,):
            yield from _same(item)
    for dependent in schema.get("dependentSchemas", {}).values():
        yield from _same(dependent)


def _parts(schema: object) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas in it."""
    if not isinstance(schema, Mapping):
        return
    yield schema
    for keyword in _MAPS:
        below = schema.get(keyword)
        for item in below.values() if isinstance(below, Mapping) else ():
            yield from _parts(item)
    for keyword in _LISTS:
        below = schema.get(keyword)
        for item in below if isinstance(below, list) else ():
            yield from _parts(item)
    for keyword in _SINGLES:
        yield from _parts(schema.get(keyword))


def _names(schema: object) -> Iterator[str]:
    """Return the arguments that a schema mentions, through all combinators for the same instance."""
    if not isinstance(schema, Mapping):
        return
    for keyword in ("properties", "dependentRequired", "dependentSchemas"):
        yield from schema.get(keyword, ())
    yield from schema.get("required", ())
    for required in schema.get("dependentRequired", {}).values():
        yield from required
    for dependent in schema.get("dependentSchemas", {}).values():
        yield from _names(dependent)
    for keyword in _SAME_INSTANCE:
        below = schema.get(keyword)
        for item in below if isinstance(below, list) else (below,):
            yield from _names(item)


_NO_BINDINGS: Mapping[str, Expression] = MappingProxyType({})
NO_REQUESTS: Mapping[RequestKind, RequestAllowance] = MappingProxyType({})
_GLOB = re.compile(r"[*?\[]")


_T = TypeVar("_T")
_CONDITION = object()
Condition: TypeAlias = Annotated[_T | None, _CONDITION]
"""Type of a rule's field that is a condition: if it is set, the rule may apply to one call of a tool and not to another."""


class Rule(Struct, frozen=True, kw_only=True):
    """A rule of a policy. It applies to a call when role, tool and effect match, `arguments`, if given, accepts the arguments,
    `accounts`, if given, has the account that the call chose, and `when`, if given, is true.

    `bind` has the expression of each argument (a path of names, joined by dots) that the gateway sets, `tell` the arguments whose value
    callers may see. `shadow`: the rule is evaluated and decides nothing. `consent` has the approvers of a rule that asks, if they differ
    from the policy's. `pending_after_s` is how long a caller waits for a call under the rule, None for the gateway's setting. `requests`
    are what the MCP server of a tool may request of its caller. `selected` are the tools if selectors other than globs of names choose
    them; `tools` is empty then.
    """

    id: str
    roles: frozenset[str]
    tools: tuple[str, ...]
    effects: frozenset[Effect]
    names_destructive: bool
    arguments: Condition[Schema]
    verdict: str  # allow | deny | ask
    where: str
    when: Condition[Expression] = None
    accounts: Condition[frozenset[str]] = None
    bind: Mapping[str, Expression] = field(default_factory=lambda: _NO_BINDINGS)
    tell: frozenset[str] = frozenset()
    shadow: bool = False
    consent: Consent | None = None
    pending_after_s: float | None = None
    requests: Mapping[RequestKind, RequestAllowance] = field(default_factory=lambda: NO_REQUESTS)
    selected: frozenset[str] | None = None

    def covers(self, tool: Tool) -> bool:
        """Return True if the rule covers a tool, for any arguments."""
        if tool.effect not in self.effects:
            return False
        if self.selected is not None:
            return tool.name in self.selected
        return any(fnmatchcase(tool.name, pattern) for pattern in self.tools)


@cache
def conditions_of(kind: type[Rule]) -> frozenset[str]:
    """Names of the fields that are conditions."""
    found = get_type_hints(kind, include_extras=True)
    return frozenset(name for name, hint in found.items() if _CONDITION in getattr(hint, "__metadata__", ()))


_SAID = tuple(name for name in Rule.__struct_fields__ if name != "where")


class DecisionNote(Struct, frozen=True, kw_only=True):
    """Note of a decision for the audit log besides its verdict: a shadow rule that applied, a condition that had no answer, or the
    action of a middleware (of this `digest`); `arguments` as recorded if the middleware changed them, and `labels` that it set."""

    rule: str
    verdict: str
    status: str  # shadow | unevaluated, or a word of a middleware
    reason: str = ""
    digest: str = ""
    arguments: JsonObject | None = None
    labels: tuple[str, ...] = ()


class CompiledRule:
    """Rule with its schema compiled; `says` is its verdict if it applies, `reads` the arguments that decide whether it applies, None for
    all of them."""

    __slots__ = ("_alike", "_schema", "conditional", "reads", "rule", "says", "tools", "validator")

    def __init__(self, rule: Rule, tools: Mapping[str, Tool]) -> None:
        self.rule = rule
        self.says = _says(rule)
        self._alike: Validator | None = None
        self.conditional = any(getattr(rule, name) is not None for name in conditions_of(type(rule)))
        self.reads = _reads(rule)
        named = (name for pattern in rule.tools for name in matching(pattern, tools))
        found = named if rule.selected is None else rule.selected & tools.keys()
        self.tools = frozenset(name for name in found if tools[name].effect in rule.effects)
        self._schema = rule.arguments
        if rule.arguments is not None and rule.verdict == "allow":
            self._schema = refusing_null(rule.arguments, partial(_is_required, [tools[name] for name in self.tools]))
        self.validator = None if self._schema is None else Validator(self._schema, formats=False)

    def of(self, rule: Rule) -> CompiledRule | None:
        """Return a compiled form for a rule that differs only in its place in the file; None for any other rule."""
        if rule is self.rule:
            return self
        if any(getattr(rule, name) is not getattr(self.rule, name) for name in _SAID):
            return None
        moved = copy(self)
        moved.rule = rule
        return moved

    def applies(self, arguments: JsonObject, facts: ConditionVariables, notes: list[DecisionNote]) -> bool:
        """Return True if the rule applies to this call. If its condition has no answer, a rule that allows does not apply and any other
        does."""
        if self.validator is not None and not self.validator.accepts(arguments):
            return False
        return self._holds(facts, notes)

    def speaks_of(
        self, readings: Readings, facts: Callable[[JsonObject], ConditionVariables], notes: list[DecisionNote]
    ) -> bool:
        """Return True if the rule applies to arguments with several interpretations: a rule that allows has to apply to every
        interpretation that counts for it, any other rule to at least one. Raises `TooManyReadingsError`."""
        allows = self.rule.verdict == "allow"
        return (
            all(self.matches(one, facts, notes) == allows for one in self.interpretations_to_match(readings)) == allows
        )

    def interpretations_to_match(self, readings: Readings) -> list[CallInterpretations]:
        """Return the interpretations that count for the rule. Raises `TooManyReadingsError`."""
        least = Weight.LITERAL if self.rule.verdict == "allow" else Weight.DEFAULT
        return [one for one in readings.of(self.reads) if one.weight >= least]

    def matches(
        self, reading: CallInterpretations, facts: Callable[[JsonObject], ConditionVariables], notes: list[DecisionNote]
    ) -> bool:
        """Return True if the rule applies to an interpretation."""
        if self.alike is not None and not self.alike.accepts(reading.arguments):
            return False
        if reading.weight is Weight.LITERAL and self.rule.verdict == "allow":
            return True
        return self._holds(facts(reading.arguments), notes)

    def fault(self, arguments: JsonObject, readings: Readings | None) -> str:
        """Return the first error of the rule's schema in the arguments, or in one of their interpretations; "" if there is none."""
        if self.validator is None:
            return ""
        if readings is None or not readings.affects(self.reads):
            found = self.validator.faults(arguments if readings is None else readings.base, 1, tuple(self.rule.bind))
            return found[0] if found else ""
        for one in self.interpretations_to_match(readings):
            if self.alike is not None and (found := self.alike.faults(one.arguments, 1, tuple(self.rule.bind))):
                return f"{found[0]}, in another interpretation"
        return ""

    @property
    def alike(self) -> Validator | None:
        """Return the schema that treats a number and its text as equal, compiled on first use."""
        if self._alike is None and self._schema is not None:
            self._alike = Validator(alike(self._schema), formats=False)
        return self._alike

    def _holds_for(self, account: str) -> bool:
        """Test whether the rule is about an account. A call that chose none uses the default one, whichever that is: a rule that allows is
        not about it, and any other is."""
        return account in (self.rule.accounts or ()) if account else self.rule.verdict != "allow"

    def _holds(self, facts: ConditionVariables, notes: list[DecisionNote]) -> bool:
        if self.rule.accounts is not None and not self._holds_for(facts.principal.account):
            return False
        when = self.rule.when
        if when is None:
            return True
        try:
            return when.holds(facts)
        except Unevaluated as error:
            note = DecisionNote(
                rule=self.rule.id, verdict=self.rule.verdict, status="unevaluated", reason=bounded(str(error), 200)
            )
            if note not in notes:
                notes.append(note)
            return self.rule.verdict != "allow"


def _reads(rule: Rule) -> frozenset[str] | None:
    found: frozenset[str] = frozenset()
    if rule.arguments is not None:
        named = arguments_of(rule.arguments)
        if named is None:
            return None
        found = named
    if rule.when is not None:
        asked = rule.when.reads().arguments
        if asked is None:
            return None
        found |= asked
    return found


def _is_required(tools: Sequence[Tool], name: str) -> bool:
    """Test whether a tool requires an argument of this name."""
    return any(name in tool.input_schema.get("required", ()) for tool in tools)


def _says(rule: Rule) -> Verdict:
    match rule.verdict:
        case "allow":
            return Allow(rule=rule.id)
        case "ask":
            consents = () if rule.consent is None else (rule.consent,)
            return Ask(rule=rule.id, reason=f"rule {rule.id} requires approval by a person", consents=consents)
        case _:
            return Deny(rule=rule.id, reason=f"rule {rule.id} forbids this call")


def matching(pattern: str, names: Collection[str]) -> list[str]:
    """Return the names that a glob matches, in their order."""
    if not _GLOB.search(pattern):
        return [pattern] if pattern in names else []
    return [*_accepted(pattern, tuple(names))]


@lru_cache(_MAX_PATTERNS)
def _accepted(pattern: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Cached, because rules of a large policy repeat the same globs."""
    accepts = re.compile(translate(pattern)).match
    return tuple(name for name in names if accepts(name))
