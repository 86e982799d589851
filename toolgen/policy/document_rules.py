"""The rules of policy files: read one by one, and finished once every name that they may use is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from toolgen.errors import PolicyError
from toolgen.model.manifest import Manifest
from toolgen.model.names import nearest
from toolgen.model.tool import Effect, Tool
from toolgen.policy.arguments import repair
from toolgen.policy.binding import bind_fault
from toolgen.policy.cel import Expression, compile_expression
from toolgen.policy.cel_names import Scope
from toolgen.policy.narrowing import fault_of
from toolgen.policy.rules import Rule, matching
from toolgen.policy.selftest import EarlierCall
from toolgen.policy.shapes import EarlierShape, LabelShape, RuleShape, TestShape, ToolsetShape
from toolgen.policy.toolsets import Toolset
from toolgen.strict_yaml import Document, decode

__all__ = [
    "Draft",
    "ScopeOf",
    "earlier_call",
    "finished",
    "matched",
    "read_earlier",
    "read_labels",
    "read_rule",
    "read_toolset",
]

ScopeOf = Callable[[Mapping[str, Tool]], Scope]
_LABEL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,47}\Z")
_BINDABLE = frozenset({"principal", "user", "tool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A rule whose expressions are still text, the tools it is about, and where its parts stand."""

    rule: Rule
    tools: Mapping[str, Tool]
    when: str | None
    bind: Mapping[str, str]
    when_where: str
    bind_where: Mapping[str, str]


def matched(patterns: Sequence[str], manifest: Manifest, document: Document, path: tuple[str | int, ...]) -> list[Tool]:
    """The tools that globs match; a glob that matches nothing is an error, because somebody meant something by it."""
    tools: dict[str, Tool] = {}
    for index, pattern in enumerate(patterns):
        found = matching(pattern, manifest.tools)
        if not found:
            raise PolicyError(
                f"'{pattern}' matches no tool{nearest(pattern, manifest.tools)}", where=document.where(*path, index)
            )
        tools |= {name: manifest.tools[name] for name in found}
    return [*tools.values()]


def read_rule(document: Document, index: int, manifest: Manifest) -> Draft:
    """One entry of `rules:`, with everything checked that needs no other entry. Raises `PolicyError`."""
    path = ("rules", index)
    given = decode(document, path, RuleShape, PolicyError)
    where = document.where(*path)
    if not given.to or not given.tools:
        raise PolicyError(f"rule {given.id} names no role or no tool", where=where)
    effects = frozenset(Effect if isinstance(given.effects, msgspec.UnsetType) else given.effects)
    named = matched(given.tools, manifest, document, (*path, "tools"))
    about = {tool.name: tool for tool in named if tool.effect in effects}
    if not about:
        raise PolicyError(f"rule {given.id}: none of its tools has one of these effects", where=where)
    narrowing = None if isinstance(given.arguments, msgspec.UnsetType) else given.arguments
    if narrowing is not None:
        known = {name for tool in named for name in tool.input_schema.get("properties", {})}
        if fault := fault_of(narrowing, known):
            raise PolicyError(f"rule {given.id}: arguments: {fault}", where=document.where(*path, "arguments"))
    if given.bind and (given.verdict == "deny" or given.shadow):
        kind = "denies" if given.verdict == "deny" else "is a shadow"
        raise PolicyError(f"rule {given.id} {kind}, and so can bind nothing", where=document.where(*path, "bind"))
    for argument in given.bind:
        for tool in about.values():
            if fault := bind_fault(tool, argument):
                known = tool.input_schema.get("properties", {})
                raise PolicyError(
                    f"rule {given.id}: bind: {fault}{nearest(argument, known)}",
                    where=document.where(*path, "bind", argument),
                    suggestion="a rule binds its arguments for every tool it is about; give the others a rule of their own",
                )
    rule = Rule(
        id=given.id,
        roles=frozenset(given.to),
        tools=tuple(given.tools),
        effects=effects,
        names_destructive=given.effects is not msgspec.UNSET and Effect.DESTRUCTIVE in effects,
        arguments=narrowing,
        verdict=given.verdict,
        where=where,
        shadow=given.shadow,
    )
    return Draft(
        rule=rule,
        tools=about,
        when=None if isinstance(given.when, msgspec.UnsetType) else given.when,
        bind=given.bind,
        when_where=document.where(*path, "when"),
        bind_where={argument: document.where(*path, "bind", argument) for argument in given.bind},
    )


def read_labels(document: Document, index: int, manifest: Manifest) -> Mapping[str, frozenset[str]]:
    """One entry of `labels:`: the labels that each tool sets. Raises `PolicyError`."""
    path = ("labels", index)
    given = decode(document, path, LabelShape, PolicyError)
    for number, label in enumerate(given.add):
        if not _LABEL.match(label):
            raise PolicyError(
                f"'{label}' is no label: a letter, then letters, digits, - or _",
                where=document.where(*path, "add", number),
            )
    return {tool.name: frozenset(given.add) for tool in matched(given.tools, manifest, document, (*path, "tools"))}


def read_toolset(document: Document, name: str, manifest: Manifest) -> Toolset:
    """One entry of `toolsets:`. Raises `PolicyError`."""
    path = ("toolsets", name)
    if not _LABEL.match(name):
        raise PolicyError(
            f"'{name}' is no name of a toolset: a letter, then letters, digits, - or _", where=document.where(*path)
        )
    given = decode(document, path, ToolsetShape, PolicyError)
    effects = frozenset(Effect if isinstance(given.effects, msgspec.UnsetType) else given.effects)
    named = matched(given.tools, manifest, document, (*path, "tools"))
    tools = frozenset(tool.name for tool in named if tool.effect in effects)
    if not tools:
        raise PolicyError(f"toolset {name}: none of its tools has one of these effects", where=document.where(*path))
    return Toolset(tools=tools, roles=frozenset(given.to))


def read_earlier(
    document: Document, path: tuple[str | int, ...], given: TestShape, manifest: Manifest
) -> tuple[EarlierCall, ...]:
    """The calls that a test says were made before. Raises `PolicyError`."""
    places = (document.where(*path, "after", index) for index in range(len(given.after)))
    return tuple(earlier_call(call, manifest, where=where) for call, where in zip(given.after, places, strict=True))


def earlier_call(given: EarlierShape, manifest: Manifest, *, where: str) -> EarlierCall:
    """One call made before, of a tool and with arguments that there are. Raises `PolicyError`."""
    tool = manifest.tools.get(given.call)
    if tool is None:
        raise PolicyError(f"there is no tool '{given.call}'{nearest(given.call, manifest.tools)}", where=where)
    known = tool.input_schema.get("properties", {})
    for name in repair(tool.input_schema, given.arguments).dropped:
        raise PolicyError(f"{given.call} has no argument '{name}'{nearest(name, known)}", where=where)
    return EarlierCall(tool=given.call, arguments=given.arguments, outcome=given.outcome, in_session=given.session)


def finished(draft: Draft, scope_of: ScopeOf) -> Rule:
    """The rule with its expressions compiled. Raises `PolicyError`."""
    if draft.when is None and not draft.bind:
        return draft.rule
    scope = scope_of(draft.tools)
    when = None
    if draft.when is not None:
        when = compile_expression(draft.when, scope, where=draft.when_where, wants="bool")
    bind = {argument: _bound(draft, argument, scope) for argument in sorted(draft.bind)}
    return replace(draft.rule, when=when, bind=bind)


def _bound(draft: Draft, argument: str, scope: Scope) -> Expression:
    where = draft.bind_where[argument]
    expression = compile_expression(draft.bind[argument], scope, where=where)
    if others := expression.variables - _BINDABLE:
        raise PolicyError(
            f"rule {draft.rule.id}: bind: {argument} is set from 'principal', 'user' or 'tool', not from '{min(others)}'",
            where=where,
        )
    if not expression.variables:
        raise PolicyError(
            f"rule {draft.rule.id}: bind: {argument} would be the same for everybody",
            where=where,
            suggestion=f"set it from principal or user; `arguments: {{properties: {{{argument}: {{const: …}}}}}}` fixes a value",
        )
    return expression
