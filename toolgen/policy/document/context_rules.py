"""Rules about prompts and resources: `prompts:` and `resources:` of an entry of `rules:`, as rules about reads of them.

A rule about resources applies to a read if one of its globs matches the canonical URI. A template is visible if a URI of it may match.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from toolgen.core.errors import PolicyError
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.context import PROMPT, RESOURCE
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Effect, Tool
from toolgen.model.uri_template import glob_pattern
from toolgen.policy.binding import bind_fault
from toolgen.policy.document.context_selectors import matching_prompts, matching_resources
from toolgen.policy.document.rules import RuleDraft, read_allowances
from toolgen.policy.document.schema import RuleShape
from toolgen.policy.rules import Rule, fault_of

__all__ = ["read_context_rules"]

_Path = tuple[str | int, ...]


def read_context_rules(
    document: YamlDocument, index: int, manifest: Manifest, reads: Mapping[str, Tool]
) -> list[RuleDraft]:
    """Return the rules that an entry of `rules:` makes about prompts and resources, at most one for each kind. Raises `PolicyError`."""
    path = ("rules", index)
    given = decode(document, path, RuleShape, PolicyError)
    where = document.where(*path)
    if given.prompts is msgspec.UNSET and given.resources is msgspec.UNSET:
        return []
    if not given.to:
        raise PolicyError(f"rule {given.id} names no role", where=where)
    if given.verdict == "ask" or given.approvers is not None or given.pending_after is not None:
        raise PolicyError(
            f"rule {given.id}: prompts and resources can be allowed or denied, but not approved by a person",
            where=where,
        )
    if given.effects is not msgspec.UNSET and Effect.READ not in given.effects:
        raise PolicyError(f"rule {given.id}: prompts and resources are reads", where=document.where(*path, "effects"))
    drafts: list[RuleDraft] = []
    if not isinstance(given.prompts, msgspec.UnsetType):
        named = matching_prompts(given.prompts, manifest, document, (*path, "prompts"))
        about = {name: reads[name] for name in (f"{PROMPT}{one}" for one in named)}
        narrowing = None if isinstance(given.arguments, msgspec.UnsetType) else given.arguments
        _check_narrowing(given, narrowing, about, document, path)
        _check_bound(given, about, document, path)
        drafts.append(_draft(given, about, narrowing, document, path))
    if not isinstance(given.resources, msgspec.UnsetType):
        if given.bind:
            raise PolicyError(
                f"rule {given.id}: bind: callers choose the URI of a resource, so it cannot be bound",
                where=document.where(*path, "bind"),
                suggestion="compare a variable of the URI: when: args.tenant == principal.attributes.tenant",
            )
        found = matching_resources(given.resources, manifest, document, (*path, "resources"))
        about = {name: reads[name] for name in (f"{RESOURCE}{one}" for one in found)}
        narrowing = _narrowed(given, about, document, path)
        drafts.append(_draft(given, about, narrowing, document, path))
    _check_allowances(given, drafts, document, path)
    return drafts


def _check_allowances(given: RuleShape, drafts: list[RuleDraft], document: YamlDocument, path: _Path) -> None:
    """Raise `PolicyError` for `allow:` of a rule without tools, if no server may request such a thing of its callers."""
    if isinstance(given.tools, msgspec.UnsetType):
        read_allowances(given, {name: tool for draft in drafts for name, tool in draft.tools.items()}, document, path)


def _narrowed(given: RuleShape, about: Mapping[str, Tool], document: YamlDocument, path: _Path) -> dict[str, Any]:
    """Return the schema of a rule about resources: the URI matches one of its globs, and the arguments fit its own schema."""
    globs = [] if isinstance(given.resources, msgspec.UnsetType) else given.resources
    uri = {"type": "object", "properties": {"uri": {"pattern": glob_pattern(globs)}}, "required": ["uri"]}
    if isinstance(given.arguments, msgspec.UnsetType):
        return uri
    _check_narrowing(given, given.arguments, about, document, path)
    return {"allOf": [uri, given.arguments]}


def _check_narrowing(
    given: RuleShape,
    narrowing: Mapping[str, Any] | None,
    about: Mapping[str, Tool],
    document: YamlDocument,
    path: _Path,
) -> None:
    if narrowing is None:
        return
    known = {name for tool in about.values() for name in tool.input_schema.get("properties", {})}
    if fault := fault_of(narrowing, known):
        raise PolicyError(f"rule {given.id}: arguments: {fault}", where=document.where(*path, "arguments"))


def _check_bound(given: RuleShape, about: Mapping[str, Tool], document: YamlDocument, path: _Path) -> None:
    for argument in given.bind:
        for tool in about.values():
            if fault := bind_fault(tool, argument):
                raise PolicyError(f"rule {given.id}: bind: {fault}", where=document.where(*path, "bind", argument))


def _draft(
    given: RuleShape,
    about: Mapping[str, Tool],
    narrowing: dict[str, Any] | None,
    document: YamlDocument,
    path: _Path,
) -> RuleDraft:
    rule = Rule(
        id=given.id,
        roles=frozenset(given.to),
        tools=(),
        selected=frozenset(about),
        effects=frozenset({Effect.READ}),
        names_destructive=False,
        arguments=narrowing,
        verdict=given.verdict,
        where=document.where(*path),
        shadow=given.shadow,
        tell=frozenset(given.tell),
        requests=read_allowances(given, {}, document, path),
    )
    return RuleDraft(
        rule=rule,
        tools=about,
        when=None if isinstance(given.when, msgspec.UnsetType) else given.when,
        bind=given.bind,
        when_where=document.where(*path, "when"),
        bind_where={argument: document.where(*path, "bind", argument) for argument in given.bind},
    )
