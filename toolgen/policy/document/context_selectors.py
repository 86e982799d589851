"""Selectors of prompts and resources in policies: globs of names and of URIs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import msgspec

from toolgen.core.errors import PolicyError
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.context import PROMPT, RESOURCE, prompt_tool, resource_tool
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Tool
from toolgen.model.uri_template import overlaps
from toolgen.policy.document.schema import ToolsetShape
from toolgen.policy.rules import matching

__all__ = ["context_tools", "matching_prompts", "matching_resources", "named_context", "only_context"]

_Path = tuple[str | int, ...]


def context_tools(manifest: Manifest) -> Mapping[str, Tool]:
    """Return the reads of prompts and resources, by their names in rules and in the audit log. A resource that a tool reads is not
    included: a read of it is a call of the tool, so rules about the tool decide."""
    prompts = (prompt_tool(prompt) for prompt in manifest.prompts.values())
    resources = (resource_tool(one) for one in manifest.resources.values() if not one.binding.reading_tool)
    return MappingProxyType({tool.name: tool for tool in (*prompts, *resources)})


def only_context(part: object) -> bool:
    """Return True if an entry of a policy selects prompts or resources, and no tools."""
    if not isinstance(part, Mapping) or part.keys().isdisjoint({"prompts", "resources"}):
        return False
    return part.keys().isdisjoint({"tools", "tags", "operations", "paths", "methods"})


def _matched(
    patterns: Sequence[str], names: Collection[str], kind: str, document: YamlDocument, path: _Path
) -> list[str]:
    """Return the names that globs match; a glob that matches none is an error, because it is probably a mistake."""
    found: dict[str, None] = {}
    for index, pattern in enumerate(patterns):
        matched = matching(pattern, names)
        if not matched:
            raise PolicyError(
                f"'{pattern}' matches no {kind}{nearest(pattern, names)}", where=document.where(*path, index)
            )
        found |= dict.fromkeys(matched)
    return [*found]


def matching_prompts(patterns: Sequence[str], manifest: Manifest, document: YamlDocument, path: _Path) -> list[str]:
    """Return the names of the prompts that globs match. Raises `PolicyError`."""
    return _matched(patterns, manifest.prompts, "prompt", document, path)


def matching_resources(patterns: Sequence[str], manifest: Manifest, document: YamlDocument, path: _Path) -> list[str]:
    """Return the URIs of the resources that globs match, and of templates with at least one matching URI. Raises `PolicyError`."""
    found: dict[str, None] = {}
    for index, pattern in enumerate(patterns):
        selected = [one for one in manifest.resources.values() if overlaps(pattern, one.template)]
        matched = [one.uri for one in selected if not one.binding.reading_tool]
        if selected and not matched:
            raise PolicyError(
                f"'{pattern}' matches no resource but {selected[0].uri}, which the tool {selected[0].binding.reading_tool} reads",
                where=document.where(*path, index),
                suggestion="select the tool with tools: its rules decide about reads of the resource as well",
            )
        if not matched:
            known = nearest(pattern, manifest.resources)
            raise PolicyError(f"'{pattern}' matches no resource{known}", where=document.where(*path, index))
        found |= dict.fromkeys(matched)
    return [*found]


def named_context(given: ToolsetShape, manifest: Manifest, document: YamlDocument, path: _Path) -> frozenset[str]:
    """Return the prompts and resources of a toolset, which selects resources by their URIs or templates as listed. Raises `PolicyError`."""
    prompts = [] if isinstance(given.prompts, msgspec.UnsetType) else given.prompts
    resources = [] if isinstance(given.resources, msgspec.UnsetType) else given.resources
    named = _matched(prompts, manifest.prompts, "prompt", document, (*path, "prompts"))
    own = {uri: one for uri, one in manifest.resources.items() if not one.binding.reading_tool}
    found = _matched(resources, own, "resource", document, (*path, "resources"))
    return frozenset({*(f"{PROMPT}{one}" for one in named), *(f"{RESOURCE}{one}" for one in found)})
