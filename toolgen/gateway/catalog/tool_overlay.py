"""Overlay of a built catalog: tools that a program added and removed, and tools made from functions."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.functions.adopted import adopted_tool
from toolgen.connectors.functions.decorator import MARK, ToolMark
from toolgen.connectors.functions.read import tool_of
from toolgen.connectors.functions.signature import Broken, FunctionTool, offer_of
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.canonical import digest
from toolgen.core.errors import ConfigError
from toolgen.model.argument_names import with_listed_arguments
from toolgen.model.excerpt import bounded
from toolgen.model.file_arguments import with_text_files
from toolgen.model.manifest import Manifest, SourceInfo, with_tools
from toolgen.model.names import ADDED, MAX_NAME_LENGTH, META_TOOLS, TOOL_NAME
from toolgen.model.tool import Effect, Tool, seal
from toolgen.policy.arguments import check_schema

__all__ = ["Added", "Overlay", "ToolOverrides", "added_tool"]

_KIND = next(kind for kind, connector in CONNECTORS.items() if connector.runs_functions)


class ToolOverrides(Struct, frozen=True, kw_only=True):
    """Values that replace the name, mark and docstring of a function; "" keeps its own."""

    name: str = ""
    effect: str = ""
    title: str = ""
    description: str = ""


class Added(Struct, frozen=True, kw_only=True):
    """Tool that was added, with the function that executes its calls."""

    tool: Tool
    offer: FunctionTool


class Overlay(Struct, frozen=True, kw_only=True):
    """Added and removed tools by name. An added tool may have the name of a removed one."""

    added: Mapping[str, Added] = {}
    removed: frozenset[str] = frozenset()

    def known(self, built: Manifest) -> Manifest:
        """Return the catalog with added and with removed tools: everything that a policy may name."""
        return _with(built, {**built.tools, **self._tools()}) if self.added else built

    def in_force(self, built: Manifest) -> Manifest:
        """Return the catalog as callers see it."""
        if not self.added and not self.removed & built.tools.keys():
            return built
        left = {name: tool for name, tool in built.tools.items() if name not in self.removed}
        return _with(built, {**left, **self._tools()})

    def clashes(self, built: Manifest) -> tuple[str, ...]:
        """Return the names of added tools that a catalog has too, with another meaning."""
        taken = (name for name in self.added if name in built.tools and name not in self.removed)
        return tuple(name for name in taken if built.tools[name].digest != self.added[name].tool.digest)

    def check(self, built: Manifest) -> None:
        """Raise `ConfigError` if it conflicts with a catalog."""
        if taken := self.clashes(built):
            raise ConfigError(
                f"{taken[0]} was added at run time", suggestion="remove that one, or rename the one of the build"
            )

    def without(self, names: tuple[str, ...]) -> Overlay:
        """Return the overlay without some added tools."""
        return replace(self, added={name: one for name, one in self.added.items() if name not in names})

    def narrows(self, before: Overlay) -> bool:
        """Return True if no tool is added or restored compared to `before`."""
        kept = all(before.added.get(name) is one for name, one in self.added.items())
        return kept and self.removed >= before.removed

    def _tools(self) -> Mapping[str, Tool]:
        return {name: one.tool for name, one in self.added.items()}


def added_tool(given: object, said: ToolOverrides, prefix: str) -> Added:
    """Return a function, or a tool of FastMCP or LangChain, as a tool with this prefix. Raises `ConfigError` for one that cannot be
    a tool."""
    offer = _offer(given, said)
    if isinstance(offer, Broken):
        raise ConfigError(f"{offer.name}: {offer.reason}", suggestion="give it types that JSON has a form for")
    name = f"{prefix}{offer.name}"
    if not TOOL_NAME.match(name) or name in META_TOOLS:
        reason = f"{bounded(name, 60)} is not a valid tool name: use letters, digits, _ and -, at most {MAX_NAME_LENGTH} of them"
        raise ConfigError(
            reason if name not in META_TOOLS else f"{name} is a reserved name of the gateway", suggestion="give a name"
        )
    if fault := check_schema(offer.input_schema):
        raise ConfigError(f"{offer.name}: its arguments could not be checked: {fault}")
    of = given if inspect.isroutine(given) else type(given)
    made = tool_of(ADDED, of.__module__, offer, name, f"{of.__module__}.{of.__qualname__}")
    made = replace(made, input_schema=with_text_files(made.input_schema))
    return Added(tool=seal(with_listed_arguments(made)), offer=offer)


def _offer(given: object, said: ToolOverrides) -> FunctionTool | Broken:
    """Return the function tool of an object, with the overrides applied."""
    if not inspect.isfunction(given) and not inspect.ismethod(given):
        offer = adopted_tool(given)
        if isinstance(offer, FunctionTool):
            mark = _mark(offer.mark, said)
            return replace(
                offer, mark=mark, name=mark.name or offer.name, summary=said.description.strip() or offer.summary
            )
        if offer is not None:
            return offer
        kind = (
            f"the class {bounded(given.__name__, 60)}"
            if isinstance(given, type)
            else f"this {bounded(type(given).__name__, 60)}"
        )
        raise ConfigError(f"{kind} is not a tool", suggestion=_SEVERAL if _holds_tools(given) else _ONE)
    if inspect.isgeneratorfunction(given) or inspect.isasyncgenfunction(given):
        raise ConfigError(f"{given.__name__} yields", suggestion="return the whole answer")
    own = getattr(given, MARK, None)
    mark = _mark(own if isinstance(own, ToolMark) else ToolMark(effect="write"), said)
    return offer_of(mark.name or given.__name__, given, mark)


_ONE = "give a function, a method of an object, or a tool of FastMCP or LangChain"
_SEVERAL = "add its tools one by one, or name it under `sources:` of toolgen.yaml, as python: {fastmcp: …} or python: {langchain: …}"


def _holds_tools(given: object) -> bool:
    """Return True if the object is a server, a toolkit or a collection."""
    return isinstance(given, list | tuple | set | dict) or any(
        hasattr(given, name) for name in ("list_tools", "get_tools")
    )


def _mark(own: ToolMark, said: ToolOverrides) -> ToolMark:
    if said.effect and said.effect not in set(Effect):
        raise ConfigError(f"effect: {bounded(said.effect, 40)!r} is not read, write or destructive")
    given = {name: text for name in ("name", "effect", "title", "description") if (text := getattr(said, name))}
    return replace(own, **given)


def _with(built: Manifest, tools: Mapping[str, Tool]) -> Manifest:
    own = {name: one.digest for name, one in tools.items() if one.source == ADDED}
    info = SourceInfo(kind=_KIND, digest=digest(own), title="added at run time", version="")
    sources = {**built.sources, ADDED: info} if own and ADDED not in built.sources else built.sources
    return with_tools(built, sources, tools.values())
