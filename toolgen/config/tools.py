"""Settings in toolgen.yaml for calls of single tools: how long answers are cached, how lists are paged, how operations are polled,
and the fallback for a tool that failed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import Struct

from toolgen.config.poll import NEVER, PollKeys, read_poll
from toolgen.connectors.poll_settings import PollConfig
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument, apart, decode
from toolgen.model.field_mask import Mask
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Effect, Tool

__all__ = ["CacheFor", "Fallback", "PagesBy", "ToolKeys", "ToolSettings", "names", "of_tools", "read_tool"]

_MAX_DURATION_S = 86_400.0
_EFFECTS = tuple(Effect)


class _Cache(msgspec.Struct, forbid_unknown_fields=True):
    ttl: str
    stale_if_error: str = "0s"


class _Fallback(msgspec.Struct, forbid_unknown_fields=True):
    tool: str
    arguments: dict[str, str] = {}


class _Pages(msgspec.Struct, forbid_unknown_fields=True):
    page: str = ""
    offset: str = ""
    cursor: str = ""
    size: str = ""
    next: str = ""


class ToolKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Keys of a tool, as they are written. The first four are about its calls."""

    cache: _Cache | str | None = None
    fallback: _Fallback | str | None = None
    pages: _Pages | str | None = None
    poll: Annotated[Any, apart(PollKeys)] | str | None = None
    name: str | None = None
    title: str | None = None
    description: str | None = None
    effect: str | None = None
    hidden: bool = False


class CacheFor(Struct, frozen=True, kw_only=True):
    """Seconds of freshness of a cached answer, and further seconds in which it is used on errors."""

    ttl_s: float
    stale_s: float


class Fallback(Struct, frozen=True, kw_only=True):
    """Tool that is called after a failure of this one. `arguments` are its arguments by name, as this tool's."""

    tool: str
    arguments: Mapping[str, str]


class PagesBy(Struct, frozen=True, kw_only=True):
    """Arguments that select a page, by kind (`page`, `offset`, `cursor`, `size`), and the place of the next page in an answer; without
    arguments, there are no pages.
    """

    arguments: Mapping[str, str]
    following: tuple[str, ...]


class ToolSettings(Struct, frozen=True, kw_only=True):
    """An entry of `tools:`. `key` is the key as written, `name` the new name of the tool; `where` is its file and line."""

    key: str
    name: str
    where: str
    cache: CacheFor | None
    fallback: Fallback | None
    pages: PagesBy | None
    poll: PollConfig | None = None


def read_tool(given: ToolKeys, document: YamlDocument, key: str, name: str) -> ToolSettings | None:
    """Read the section `tools.<key>`, None if it has no setting for calls. Raises `ConfigError` with its line."""
    if given.cache is None and given.fallback is None and given.pages is None and given.poll is None:
        return None
    cache = fallback = None
    if given.cache is not None:
        said = _Cache(ttl=given.cache) if isinstance(given.cache, str) else given.cache
        path = ("cache",) if isinstance(given.cache, str) else ("cache", "ttl")
        cache = CacheFor(
            ttl_s=_seconds(said.ttl, document, key, path, least=0.001),
            stale_s=_seconds(said.stale_if_error, document, key, ("cache", "stale_if_error"), least=0.0),
        )
    if given.fallback is not None:
        to = _Fallback(tool=given.fallback) if isinstance(given.fallback, str) else given.fallback
        fallback = Fallback(tool=to.tool, arguments=MappingProxyType(dict(to.arguments)))
    pages = None if given.pages is None else _pages(given.pages, document.where("tools", key, "pages"))
    return ToolSettings(
        key=key,
        name=name,
        where=document.where("tools", key),
        cache=cache,
        fallback=fallback,
        pages=pages,
        poll=None if given.poll is None else _poll(given.poll, document, key),
    )


def _poll(given: object, document: YamlDocument, key: str) -> PollConfig:
    path = ("tools", key, "poll")
    if isinstance(given, str):
        if given != "never":
            raise ConfigError("poll: takes its settings, or the word never", where=document.where(*path))
        return NEVER
    return read_poll(decode(document, path, PollKeys, ConfigError), document, path)


def _pages(given: _Pages | str, where: str) -> PagesBy:
    if isinstance(given, str):
        if given != "never":
            raise ConfigError("pages: takes its settings, or the word never", where=where)
        return PagesBy(arguments=MappingProxyType({}), following=())
    kinds = {"page": given.page, "offset": given.offset, "cursor": given.cursor, "size": given.size}
    named = {kind: name for kind, name in kinds.items() if name}
    if len(named.keys() - {"size"}) != 1:
        raise ConfigError("pages: takes one of page, offset and cursor: the argument that selects a page", where=where)
    try:
        following = Mask.of([given.next]).paths[0] if given.next else ()
    except ValueError as error:
        raise ConfigError(f"next: {error}", where=where) from None
    if "*" in following:
        raise ConfigError("next: takes one place, without *", where=where)
    return PagesBy(arguments=MappingProxyType(named), following=following)


def of_tools(given: tuple[ToolSettings, ...], manifest: Manifest) -> Mapping[str, ToolSettings]:
    """Return the settings by the name that each tool has in the catalog. Raises `ConfigError` for settings that the catalog's tools do not
    support."""
    found: dict[str, ToolSettings] = {}
    origins = {tool.origin: tool.name for tool in manifest.tools.values()}
    for one in given:
        name = one.name or (one.key if one.key in manifest.tools else origins.get(one.key, ""))
        tool = manifest.tools.get(name)
        if tool is None:
            raise ConfigError(
                f"there is no tool '{one.key[:80]}'{nearest(one.key, manifest.tools)}",
                where=one.where,
                suggestion="cache:, fallback:, pages: and poll: use a tool's name or origin, as `toolgen tools` shows them",
            )
        if one.cache is not None:
            _check_cache(tool, one)
        if one.fallback is not None:
            _check_fallback(tool, one, one.fallback, manifest)
        if one.pages is not None:
            _check_pages(tool, one, one.pages)
        if one.poll is not None and not tool.sends_request:
            raise ConfigError(
                f"poll: is only for tools that send a request over HTTP, and {tool.name} sends none", where=one.where
            )
        found[name] = one
    return MappingProxyType(found)


def _check_cache(tool: Tool, one: ToolSettings) -> None:
    if tool.effect is not Effect.READ or tool.listens:
        raise ConfigError(
            f"cache: is for reads, and {tool.name} is {'a subscription' if tool.listens else tool.effect}",
            where=one.where,
        )


def _check_fallback(tool: Tool, one: ToolSettings, fallback: Fallback, manifest: Manifest) -> None:
    other = manifest.tools.get(fallback.tool)
    if other is None or other is tool:
        near = nearest(fallback.tool, manifest.tools.keys() - {tool.name})
        raise ConfigError(f"fallback: '{fallback.tool[:80]}' is not another tool{near}", where=one.where)
    if _EFFECTS.index(other.effect) > _EFFECTS.index(tool.effect):
        raise ConfigError(
            f"fallback: {other.name} is {other.effect}, and {tool.name} only {tool.effect}", where=one.where
        )
    theirs, ours = names(other), names(tool)
    for to, source in fallback.arguments.items():
        for name, of, known in ((to, other, theirs), (source, tool, ours)):
            if name not in known:
                raise ConfigError(
                    f"fallback: {of.name} has no argument '{name[:80]}'{nearest(name, known)}", where=one.where
                )
    required = other.input_schema.get("required")
    for name in required if isinstance(required, list | tuple) else ():
        if name not in ours and name not in fallback.arguments:
            raise ConfigError(
                f"fallback: {other.name} needs '{name}', which {tool.name} does not have",
                where=one.where,
                suggestion=f"name what it is: fallback: {{tool: {other.name}, arguments: {{{name}: …}}}}",
            )


def _check_pages(tool: Tool, one: ToolSettings, pages: PagesBy) -> None:
    if tool.effect is not Effect.READ or not tool.sends_request:
        raise ConfigError(f"pages: is only for tools that read over HTTP, and {tool.name} does not", where=one.where)
    for kind, name in pages.arguments.items():
        known = names(tool)
        if name not in known:
            near = nearest(name, known)
            raise ConfigError(f"pages: {kind}: {tool.name} has no argument '{name[:80]}'{near}", where=one.where)


def names(tool: Tool) -> Mapping[str, object]:
    """Return the arguments of a tool, by name."""
    properties = tool.input_schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _seconds(text: str, document: YamlDocument, key: str, path: tuple[str, ...], *, least: float) -> float:
    found = parse_duration(text)
    if found is None or not least <= found <= _MAX_DURATION_S:
        raise ConfigError(
            f"{path[-1]}: takes a time like 60s or 10m, up to 24h", where=document.where("tools", key, *path)
        )
    return found
