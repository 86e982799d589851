"""What a program added to a catalog and took from it, laid over what was built; and a function as such a tool."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from toolgen.canonical import digest
from toolgen.errors import ConfigError
from toolgen.functions.decorator import MARK, Mark
from toolgen.functions.signature import Broken, Offer, offer_of
from toolgen.gateway.search_tools import INPUTS
from toolgen.model.manifest import Manifest, SourceInfo, with_tools
from toolgen.model.names import ADDED, MAX_NAME_LENGTH, TOOL_NAME
from toolgen.model.tool import Effect, Tool, seal
from toolgen.policy.arguments import check_schema
from toolgen.sources.python import tool_of

__all__ = ["Added", "Overlay", "Said", "added_tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What is said of a function in place of its own name, mark and docstring; "" for nothing."""

    name: str = ""
    effect: str = ""
    title: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A tool that was added, and the function that carries its calls out."""

    tool: Tool
    offer: Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """Tools by name. One that was added may have the name of one that was removed."""

    added: Mapping[str, Added] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()

    def known(self, built: Manifest) -> Manifest:
        """The catalog with what was added, and with what was removed: all that a policy may speak of."""
        return _with(built, {**built.tools, **self._tools()}) if self.added else built

    def in_force(self, built: Manifest) -> Manifest:
        """The catalog as callers see it."""
        if not self.added and not self.removed & built.tools.keys():
            return built
        left = {name: tool for name, tool in built.tools.items() if name not in self.removed}
        return _with(built, {**left, **self._tools()})

    def clashes(self, built: Manifest) -> tuple[str, ...]:
        """The names of tools that were added and that a catalog has too, with another meaning."""
        taken = (name for name in self.added if name in built.tools and name not in self.removed)
        return tuple(name for name in taken if built.tools[name].digest != self.added[name].tool.digest)

    def check(self, built: Manifest) -> None:
        """Raises `ConfigError` where it clashes with a catalog."""
        if taken := self.clashes(built):
            raise ConfigError(
                f"{taken[0]} was added at run time", suggestion="remove that one, or rename the one of the build"
            )

    def without(self, names: tuple[str, ...]) -> Overlay:
        """The same without these that were added."""
        return replace(self, added={name: one for name, one in self.added.items() if name not in names})

    def narrows(self, before: Overlay) -> bool:
        """Whether nothing is there that was not there before it."""
        kept = all(before.added.get(name) is one for name, one in self.added.items())
        return kept and self.removed >= before.removed

    def _tools(self) -> Mapping[str, Tool]:
        return {name: one.tool for name, one in self.added.items()}


def added_tool(function: Callable[..., Any], said: Said, prefix: str) -> Added:
    """A function as a tool, whose name begins so. Raises `ConfigError` for one that cannot be a tool."""
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise ConfigError(f"{function!r:.60} is no function", suggestion="give a function, or a method of an object")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{function.__name__} yields", suggestion="return the whole answer")
    mark = _mark(function, said)
    local = mark.name or function.__name__
    name = f"{prefix}{local}"
    if not TOOL_NAME.match(name) or name in INPUTS:
        reason = f"{name[:60]} is no tool's name: letters, digits, _ and -, at most {MAX_NAME_LENGTH} of them"
        raise ConfigError(reason if name not in INPUTS else f"{name} is taken by the gateway", suggestion="give a name")
    offer = offer_of(local, function, mark)
    if isinstance(offer, Broken):
        raise ConfigError(f"{function.__name__}: {offer.reason}", suggestion="give it types that JSON has a form for")
    if fault := check_schema(offer.input_schema):
        raise ConfigError(f"{function.__name__}: its arguments could not be checked: {fault}")
    made = tool_of(ADDED, function.__module__, offer, name, f"{function.__module__}.{function.__qualname__}")
    return Added(tool=seal(made), offer=offer)


def _mark(function: Callable[..., Any], said: Said) -> Mark:
    own = getattr(function, MARK, None)
    mark = own if isinstance(own, Mark) else Mark(effect="write")
    if said.effect and said.effect not in set(Effect):
        raise ConfigError(f"effect: {said.effect[:40]!r} is not read, write or destructive")
    given = {name: text for name in ("name", "effect", "title", "description") if (text := getattr(said, name))}
    return replace(mark, **given)


def _with(built: Manifest, tools: Mapping[str, Tool]) -> Manifest:
    own = {name: one.digest for name, one in tools.items() if one.source == ADDED}
    info = SourceInfo(kind="python", digest=digest(own), title="added at run time", version="")
    sources = {**built.sources, ADDED: info} if own and ADDED not in built.sources else built.sources
    return with_tools(built, sources, tools.values())
