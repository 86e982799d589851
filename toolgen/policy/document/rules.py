"""Rules of policy files: read one by one, and completed when all names that they may use are known."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.errors import PolicyError
from toolgen.core.spelling import nearest
from toolgen.core.units import MAX_PENDING_AFTER_S, parse_duration
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.caller_requests import REQUEST_KINDS, RequestKind
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Effect, Tool
from toolgen.policy.arguments import repair
from toolgen.policy.binding import bind_fault
from toolgen.policy.caller_requests import RequestAllowance
from toolgen.policy.cel.expression import Expression, compile_expression
from toolgen.policy.cel.names import CelScope
from toolgen.policy.document.approvals import read_consent
from toolgen.policy.document.context_selectors import named_context
from toolgen.policy.document.schema import AllowanceShape, EarlierShape, LabelShape, RuleShape, TestShape, ToolsetShape
from toolgen.policy.document.selectors import matched, selected
from toolgen.policy.explain import EarlierCall
from toolgen.policy.limits import Limit, parse_rate
from toolgen.policy.rules import NO_REQUESTS, Rule, fault_of
from toolgen.policy.toolsets import Toolset

__all__ = [
    "RuleCache",
    "RuleDraft",
    "earlier_call",
    "finished",
    "read_allowances",
    "read_labels",
    "read_rule",
    "read_toolset",
]

_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,47}\Z")
_BINDABLE = frozenset({"principal", "user", "tool"})


class RuleDraft(Struct, frozen=True, kw_only=True):
    """Rule whose expressions are still text, with its tools and the places of its parts. A rule about tools that are added later has no
    tools yet, and joins the policy when it has."""

    rule: Rule
    tools: Mapping[str, Tool]
    when: str | None
    bind: Mapping[str, str]
    when_where: str
    bind_where: Mapping[str, str]


def read_rule(document: YamlDocument, index: int, manifest: Manifest) -> RuleDraft:
    """Read an entry of `rules:` and check everything that depends on no other entry. Raises `PolicyError`."""
    path = ("rules", index)
    given = decode(document, path, RuleShape, PolicyError)
    where = document.where(*path)
    selection = selected(given, manifest, document, path)
    if not given.to or selection is None:
        raise PolicyError(f"rule {given.id} names no role or no tool", where=where)
    effects = frozenset(Effect if isinstance(given.effects, msgspec.UnsetType) else given.effects)
    named = selection.tools
    about = {tool.name: tool for tool in named if tool.effect in effects}
    if not about and not selection.later:
        raise PolicyError(f"rule {given.id}: none of its tools has one of these effects", where=where)
    narrowing = None if isinstance(given.arguments, msgspec.UnsetType) else given.arguments
    if narrowing is not None and named:
        known = {name for tool in named for name in tool.input_schema.get("properties", {})}
        if fault := fault_of(narrowing, known):
            raise PolicyError(f"rule {given.id}: arguments: {fault}", where=document.where(*path, "arguments"))
    if given.bind and (given.verdict == "deny" or given.shadow):
        kind = "denies" if given.verdict == "deny" else "is a shadow"
        raise PolicyError(f"rule {given.id} {kind}, so bind: is not allowed", where=document.where(*path, "bind"))
    for argument in given.bind:
        for tool in about.values():
            if fault := bind_fault(tool, argument):
                known = tool.input_schema.get("properties", {})
                raise PolicyError(
                    f"rule {given.id}: bind: {fault}{nearest(argument, known)}",
                    where=document.where(*path, "bind", argument),
                    suggestion="a rule binds its arguments for all of its tools; write a separate rule for the other tools",
                )
    rule = Rule(
        id=given.id,
        roles=frozenset(given.to),
        tools=selection.patterns,
        selected=selection.names,
        effects=effects,
        names_destructive=given.effects is not msgspec.UNSET and Effect.DESTRUCTIVE in effects,
        arguments=narrowing,
        accounts=None if isinstance(given.accounts, msgspec.UnsetType) else frozenset(given.accounts),
        verdict=given.verdict,
        where=where,
        shadow=given.shadow,
        tell=_told(given, document.where(*path, "tell")),
        consent=read_consent(given.id, given.verdict, given.approvers, where),
        pending_after_s=_read_pending_after(given, document.where(*path, "pending_after")),
        requests=read_allowances(given, about, document, path),
    )
    return RuleDraft(
        rule=rule,
        tools=about,
        when=None if isinstance(given.when, msgspec.UnsetType) else given.when,
        bind=given.bind,
        when_where=document.where(*path, "when"),
        bind_where={argument: document.where(*path, "bind", argument) for argument in given.bind},
    )


def _told(given: RuleShape, where: str) -> frozenset[str]:
    for argument in given.tell:
        if argument not in given.bind:
            raise PolicyError(
                f"rule {given.id}: tell: {argument} is not under bind:{nearest(argument, given.bind)}", where=where
            )
    return frozenset(given.tell)


def read_allowances(
    given: RuleShape, about: Mapping[str, Tool], document: YamlDocument, path: tuple[str | int, ...]
) -> Mapping[RequestKind, RequestAllowance]:
    """Read `allow:` of a rule. Raises `PolicyError`."""
    if not given.allow:
        return NO_REQUESTS
    where = document.where(*path, "allow")
    if given.verdict == "deny" or given.shadow:
        kind = "denies" if given.verdict == "deny" else "is a shadow"
        raise PolicyError(f"rule {given.id} {kind}, so allow: is not allowed", where=where)
    if isinstance(given.allow, list):
        shapes = dict.fromkeys(given.allow, AllowanceShape())
    else:
        named = {kind: getattr(given.allow, kind) for kind in REQUEST_KINDS}
        shapes = {kind: shape for kind, shape in named.items() if shape is not None}
    for kind in shapes:
        if about and not any(kind in tool.caller_requests for tool in about.values()):
            raise PolicyError(
                f"rule {given.id}: allow: none of its tools may request {kind} of its caller",
                where=where,
                suggestion="set the requests that the server may send at its source: mcp: {allow: [sampling, elicitation, roots]}",
            )
    return {kind: _allowance(given.id, kind, shape, where) for kind, shape in shapes.items()}


def _allowance(rule: str, kind: RequestKind, shape: AllowanceShape, where: str) -> RequestAllowance:
    limit = None
    if shape.rate is not None:
        rate = parse_rate(shape.rate)
        if rate is None:
            raise PolicyError(f"rate: '{shape.rate}' is not like 20/h", where=where)
        limit = Limit(id=f"{rule} {kind}", per=("principal",), burst=rate[0], per_second=rate[1])
    if not isinstance(shape.hosts, msgspec.UnsetType) and kind != "elicitation_url":
        raise PolicyError(f"rule {rule}: allow: hosts: belongs to elicitation_url", where=where)
    hosts = () if isinstance(shape.hosts, msgspec.UnsetType) else tuple(host.lower() for host in shape.hosts)
    return RequestAllowance(rule=rule, per_call=shape.per_call, limit=limit, max_tokens=shape.max_tokens, hosts=hosts)


def _read_pending_after(given: RuleShape, where: str) -> float | None:
    if given.pending_after is None:
        return None
    if given.verdict == "deny" or given.shadow:
        kind = "denies" if given.verdict == "deny" else "is a shadow"
        raise PolicyError(f"rule {given.id} {kind}, so pending_after: is not allowed", where=where)
    seconds = parse_duration(given.pending_after)
    if seconds is None or seconds > MAX_PENDING_AFTER_S:
        raise PolicyError(f"rule {given.id}: pending_after: takes 0s to 1h, like 30s", where=where)
    return seconds


def read_labels(document: YamlDocument, index: int, manifest: Manifest) -> Mapping[str, frozenset[str]]:
    """Read an entry of `labels:`: the labels that each tool sets. Raises `PolicyError`."""
    path = ("labels", index)
    given = decode(document, path, LabelShape, PolicyError)
    for number, label in enumerate(given.add):
        if not _LABEL.match(label):
            raise PolicyError(
                f"'{label}' is not a valid label: write a letter, then letters, digits, - or _",
                where=document.where(*path, "add", number),
            )
    return {tool.name: frozenset(given.add) for tool in matched(given.tools, manifest, document, (*path, "tools"))}


def read_toolset(document: YamlDocument, name: str, manifest: Manifest) -> Toolset:
    """Read an entry of `toolsets:`. Raises `PolicyError`."""
    path = ("toolsets", name)
    if not _LABEL.match(name):
        raise PolicyError(
            f"'{name}' is not a valid name of a toolset: write a letter, then letters, digits, - or _",
            where=document.where(*path),
        )
    given = decode(document, path, ToolsetShape, PolicyError)
    effects = frozenset(Effect if isinstance(given.effects, msgspec.UnsetType) else given.effects)
    selection = selected(given, manifest, document, path)
    context = named_context(given, manifest, document, path)
    if selection is None:
        if not context:
            raise PolicyError(f"toolset {name} names no tool", where=document.where(*path))
        return Toolset(tools=frozenset(), roles=frozenset(given.to), context=context)
    tools = frozenset(tool.name for tool in selection.tools if tool.effect in effects)
    if not tools and not selection.later:
        raise PolicyError(f"toolset {name}: none of its tools has one of these effects", where=document.where(*path))
    return Toolset(tools=tools, roles=frozenset(given.to), context=context)


def read_earlier(
    document: YamlDocument, path: tuple[str | int, ...], given: TestShape, manifest: Manifest
) -> tuple[EarlierCall, ...]:
    """Return the earlier calls of a test. Raises `PolicyError`."""
    places = (document.where(*path, "after", index) for index in range(len(given.after)))
    return tuple(earlier_call(call, manifest, where=where) for call, where in zip(given.after, places, strict=True))


def earlier_call(given: EarlierShape, manifest: Manifest, *, where: str) -> EarlierCall:
    """Read an earlier call. Its tool and its arguments have to exist. Raises `PolicyError`."""
    tool = manifest.tools.get(given.call)
    if tool is None:
        raise PolicyError(f"there is no tool '{given.call}'{nearest(given.call, manifest.tools)}", where=where)
    known = tool.input_schema.get("properties", {})
    for name in repair(tool.input_schema, given.arguments).dropped:
        raise PolicyError(f"{given.call} has no argument '{name}'{nearest(name, known)}", where=where)
    return EarlierCall(tool=given.call, arguments=given.arguments, outcome=given.outcome, in_session=given.session)


class _ParsedRule(Struct):
    """Cached rule: the part of the file that it was read from, and the catalog and scope that it was checked and compiled with."""

    part: object
    manifest: Manifest
    draft: RuleDraft
    whole: CelScope | None = None
    rule: Rule | None = None


class RuleCache:
    """Cache of the rules of the policy that was read last. Of an edited policy, only rules whose part of the file is another object are
    read again, and rules whose expressions may use changed names are checked again. An unchanged rule is the same object.

    Call `read` for each rule and then `finish`; a policy that cannot be used does not change the cache.
    """

    def __init__(self) -> None:
        self._before: dict[int, _ParsedRule] = {}
        self._now: dict[str, _ParsedRule] = {}
        self._expressions: dict[str, Expression] = {}
        self._whole: CelScope | None = None

    def begin(self) -> None:
        """Start reading a policy."""
        self._now = {}

    def read(self, document: YamlDocument, index: int, manifest: Manifest) -> RuleDraft:
        """Read an entry of `rules:`, as `read_rule` reads it. Raises `PolicyError`."""
        part = document.data["rules"][index]
        kept = self._before.get(id(part))
        if kept is None or kept.part is not part or kept.manifest is not manifest:
            kept = _ParsedRule(part, manifest, read_rule(document, index, manifest))
        elif document.where("rules", index) != kept.draft.rule.where:
            kept = _ParsedRule(part, manifest, _moved(kept.draft, document, index), kept.whole, kept.rule)
        draft = kept.draft
        self._now[draft.rule.id] = kept
        return draft

    def finish(self, drafts: Iterable[RuleDraft], whole: CelScope) -> tuple[Rule, ...]:
        """Return the rules with their expressions compiled; `whole` are the names that expressions about all tools may use. Raises
        `PolicyError`."""
        if whole == self._whole:
            whole = self._whole  # identity of the scope that rules were compiled with
        expressions = dict[str, Expression]()
        known = ChainMap(expressions, self._expressions)
        found = tuple(self._finished(draft, whole, known) for draft in drafts)
        self._before = {id(kept.part): kept for kept in self._now.values()}
        self._expressions, self._whole = expressions, whole
        return found

    def _finished(self, draft: RuleDraft, whole: CelScope, known: ChainMap[str, Expression]) -> Rule:
        kept = self._now[draft.rule.id]
        rule = kept.rule
        if rule is None or kept.whole is not whole:
            made = finished(draft, whole, known)
            is_same = rule is not None and (made.where, made.when, made.bind) == (rule.where, rule.when, rule.bind)
            rule = rule if rule is not None and is_same else made
        elif rule.where != draft.rule.where:
            rule = replace(rule, where=draft.rule.where)
        kept.rule, kept.whole = rule, whole
        known.update({one.source: one for one in (rule.when, *rule.bind.values()) if one is not None})
        return rule


def _moved(draft: RuleDraft, document: YamlDocument, index: int) -> RuleDraft:
    """Return the draft for the same text on other lines."""
    path = ("rules", index)
    return replace(
        draft,
        rule=replace(draft.rule, where=document.where(*path)),
        when_where=document.where(*path, "when"),
        bind_where={argument: document.where(*path, "bind", argument) for argument in draft.bind},
    )


def finished(draft: RuleDraft, whole: CelScope, known: Mapping[str, Expression]) -> Rule:
    """Return the rule with its expressions compiled, or reused from `known` by their text. Raises `PolicyError`."""
    if draft.when is None and not draft.bind:
        return draft.rule
    scope = replace(whole, tools=draft.tools)
    when = None
    if draft.when is not None:
        when = compile_expression(draft.when, scope, where=draft.when_where, wants="bool", known=known)
    bind = {argument: _bound(draft, argument, scope, known) for argument in sorted(draft.bind)}
    return replace(draft.rule, when=when, bind=bind)


def _bound(draft: RuleDraft, argument: str, scope: CelScope, known: Mapping[str, Expression]) -> Expression:
    where = draft.bind_where[argument]
    expression = compile_expression(draft.bind[argument], scope, where=where, known=known)
    if others := expression.variables - _BINDABLE:
        raise PolicyError(
            f"rule {draft.rule.id}: bind: {argument} is set from 'principal', 'user' or 'tool', not from '{min(others)}'",
            where=where,
        )
    if argument in draft.rule.tell and "tool" in expression.variables:
        raise PolicyError(
            f"rule {draft.rule.id}: tell: {argument} depends on the tool; only values that depend on principal or user can be disclosed",
            where=where,
        )
    if not expression.variables:
        raise PolicyError(
            f"rule {draft.rule.id}: bind: {argument} would have the same value for all callers",
            where=where,
            suggestion=f"set it from principal or user; `arguments: {{properties: {{{argument}: {{const: …}}}}}}` fixes a value",
        )
    return expression
