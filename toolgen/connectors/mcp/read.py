"""A pinned listing of an MCP server -> a Tool for each tool that can be shown and called as it is described."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import msgspec
from msgspec import Struct

from toolgen.connectors.assigned_names import held_names
from toolgen.connectors.mcp.context import CONTEXT_FILTERS, read_listed_context
from toolgen.connectors.naming import assign, from_identifier, words
from toolgen.connectors.pins import digest_of
from toolgen.connectors.source import SourceConfig, SourceReading, listed_filter
from toolgen.connectors.syntax import MAX_DOCUMENT_SIZE
from toolgen.core.errors import CanonicalError, DescriptionError
from toolgen.core.files import read_file
from toolgen.model.apps import ToolApp
from toolgen.model.auth_schemes import SCHEMES
from toolgen.model.icons import icons_in, is_web_address
from toolgen.model.injected_orders import order_in
from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.mcp import APP_PART, ListedTool, ServerTools, parts_of, read_listing, texts_of
from toolgen.model.prompt_injection import visible
from toolgen.model.schema import Json
from toolgen.model.tool import Effect, McpBinding, Tool

__all__ = ["read_mcp"]

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/")
_MAX_NAME_LENGTH = 128  # MCP 2025-11-25, server/tools, Tool Names
_MAX_INSTRUCTIONS_LENGTH = 1000
_MAX_TITLE_LENGTH = 120
_MAX_DESCRIPTION_LENGTH = 4096
_MAX_READ_LENGTH = 100_000  # of a text that is looked at
_MAX_SCHEMA_SIZE = 65_536
_MAX_SCHEMA_DEPTH = 24
_REFERENCES = ("$ref", "$dynamicRef")


class _UnusableToolError(Exception):
    """The tool has none of what it takes; the text says what."""


def read_mcp(config: SourceConfig) -> SourceReading:
    """Reads what was pinned of the server; nothing is asked. Raises `DescriptionError` for a copy that is no listing."""
    path = Path(config.file)
    try:
        data = read_file(path, MAX_DOCUMENT_SIZE)
        listing = read_listing(data)
    except OSError as error:
        raise DescriptionError(f"cannot be read: {error.strerror}", where=config.name) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise DescriptionError(
            "is no listing of an MCP server's tools",
            where=config.name,
            suggestion="restore it from version control, or run `toolgen build --update-pins`",
        ) from error
    made, problems = _made(config, listing)
    problems += _apps(config, listing)
    context, unusable = read_listed_context(config, listing)
    problems += unusable
    if order := order_in(listing.instructions):
        message = f"its instructions speak against the agent's own: {_cut(order, 80)!a}"
        problems.append(_problem(config, "warning", "instructions", "suspicious_text", message))
    wanted = listed_filter(config, "an MCP server", CONTEXT_FILTERS)
    tools = tuple(tool for tool in made if wanted(tool))
    return SourceReading(
        info=SourceInfo(
            kind="mcp",
            digest=digest_of(data),
            title=_shown(listing.server, _MAX_TITLE_LENGTH) or config.name,
            version=_shown(listing.version, 40),
            security_schemes={} if config.command else dict(SCHEMES),
            instructions=_cut(_visible(listing.instructions).strip(), _MAX_INSTRUCTIONS_LENGTH),
            website=listing.website_url if is_web_address(listing.website_url) else "",
            icons=icons_in(listing.icons),
        ),
        tools=tools,
        problems=tuple(problems),
        operations=len(tools) + sum(problem.level == "error" for problem in problems if problem not in unusable),
        identifiers={tool.origin: tool.origin for tool in tools},
        files={str(path): digest_of(data)},
        context=context,
    )


def _made(config: SourceConfig, listing: ServerTools) -> tuple[list[Tool], list[Problem]]:
    tools: list[Tool] = []
    problems: list[Problem] = []
    listed = Counter(tool.name for tool in listing.tools)
    named = {name for name in listed if 0 < len(name) <= _MAX_NAME_LENGTH and set(name) <= _NAME}
    candidates = {name: from_identifier(name) or (words(name) or ("call",),) for name in sorted(named)}
    held = held_names(config.names, {name: name for name in candidates})
    names = assign(config.name, candidates, held=held, reserved={one.name for one in config.names.values()})
    pages = {page.uri for page in listing.apps}
    for tool in listing.tools:
        origin = _shown(tool.name, _MAX_NAME_LENGTH)
        try:
            _check(tool, named, listed[tool.name])
            made, hidden = _tool(config, tool, names[tool.name], pages)
        except (_UnusableToolError, CanonicalError) as error:
            message = f"{error}; it has no tool here"
            problems.append(_problem(config, "error", origin, "unusable_tool", message))
            continue
        tools.append(made)
        problems += _remarks(config, origin, tool, hidden)
    return tools, problems


def _remarks(config: SourceConfig, origin: str, tool: ListedTool, hidden: bool) -> Iterator[Problem]:
    """Yield warnings that a person should read before an agent uses the tool."""
    if hidden:
        message = "its texts held characters that nobody sees, which were taken out; read them, somebody may have hidden something"
        yield _problem(config, "warning", origin, "hidden_text", message)
    for where, text in texts_of(tool):
        if found := order_in(text[:_MAX_READ_LENGTH]):
            message = f"{where} speaks to the model, not to a reader: {_cut(found, 80)!a}"
            yield _problem(config, "warning", origin, "suspicious_text", message)
            return


def _check(tool: ListedTool, named: set[str], times: int) -> None:
    if tool.name not in named:
        raise _UnusableToolError("its name has other characters than letters, digits and _-./, or too many")
    if times > 1:
        raise _UnusableToolError(f"{times} tools of the server have this name")


def _problem(config: SourceConfig, level: str, origin: str, code: str, message: str) -> Problem:
    return Problem(level=level, source=config.name, origin=origin, code=code, message=message)


def _apps(config: SourceConfig, listing: ServerTools) -> Iterator[Problem]:
    """Yield a warning for each app whose page the server did not give."""
    pages = {page.uri for page in listing.apps}
    for tool in listing.tools if config.apps else ():
        if tool.app is not None and tool.app.uri and tool.app.uri not in pages:
            message = f"its app has no page at {_shown(tool.app.uri, 80)!a}; the tool is served without the app"
            yield _problem(config, "warning", _shown(tool.name, _MAX_NAME_LENGTH), "unusable_app", message)


def _app(config: SourceConfig, listed: ListedTool, pages: Set[str]) -> ToolApp | None:
    """The app of a tool, as far as its source allows apps and its page is pinned."""
    app = listed.app if config.apps else None
    if app is None or not app.uri or app.uri in pages:
        return app
    return msgspec.structs.replace(app, uri="") if app.hidden else None


def _tool(config: SourceConfig, listed: ListedTool, name: str, pages: Set[str]) -> tuple[Tool, bool]:
    """The tool, and whether anything was hidden in its texts."""
    seen = _Texts()
    annotations = listed.annotations
    effect = _effect(annotations, trusted=config.annotations == "trusted")
    titled = listed.title or annotations.get("title")
    output = listed.output_schema
    tool = Tool(
        name=name,
        title=seen.text(titled if isinstance(titled, str) else "", _MAX_TITLE_LENGTH) or listed.name,
        description=seen.text(listed.description, _MAX_DESCRIPTION_LENGTH) or f"Calls {listed.name} of {config.name}.",
        input_schema=seen.schema(listed.input_schema, "input"),
        output_schema=None if output is None else seen.schema(output, "output"),
        effect=effect,
        idempotent=effect is Effect.READ
        or (config.annotations == "trusted" and annotations.get("idempotentHint") is True),
        source=config.name,
        origin=listed.name,
        binding=McpBinding(
            tool=listed.name,
            url="" if config.command else config.endpoint or config.location,
            parts=_pinned_parts(config, listed),
            task=listed.demands_task,
            requests=config.allow,
            apps=config.apps,
            open_world=not (config.annotations == "trusted" and annotations.get("openWorldHint") is False),
        ),
        icons=icons_in(listed.icons),
        app=_app(config, listed, pages),
    )
    return tool, seen.hidden


def _pinned_parts(config: SourceConfig, listed: ListedTool) -> dict[str, str]:
    return {part: digest for part, digest in parts_of(listed).items() if config.apps or part != APP_PART}


def _effect(annotations: Mapping[str, object], *, trusted: bool) -> Effect:
    """Return the effect by the protocol's defaults: a tool without hints is destructive. A tool is a read only if the server is trusted."""
    if annotations.get("readOnlyHint") is True:
        return Effect.READ if trusted else Effect.WRITE
    return Effect.WRITE if annotations.get("destructiveHint") is False else Effect.DESTRUCTIVE


class _Texts(Struct):
    """Texts of a stranger, made fit to be read by agents and people; `hidden` says that something was taken out."""

    hidden: bool = False

    def text(self, text: str, limit: int) -> str:
        """The text without what nobody sees, at most `limit` characters."""
        kept = _visible(text)
        self.hidden |= kept != text
        return _cut(kept.strip(), limit)

    def schema(self, schema: Mapping[str, Json], what: str) -> dict[str, Json]:
        """The schema with its prose made fit. Raises `_UnusableToolError` for one that is too large, refers elsewhere or hides something
        where it cannot be taken out: in names and values. An input schema describes an object; an output schema may describe anything
        (SEP-2106, MCP 2026-07-28)."""
        if what == "input" and schema.get("type") != "object":
            raise _UnusableToolError(f"its {what} schema describes no object")
        if len(msgspec.json.encode(schema)) > _MAX_SCHEMA_SIZE:
            raise _UnusableToolError(f"its {what} schema is larger than {_MAX_SCHEMA_SIZE} bytes")
        made = self._walk(schema, what, 0)
        assert isinstance(made, dict)  # noqa: S101 - as it came
        return made

    def _walk(self, value: Json, what: str, depth: int) -> Json:
        if depth > _MAX_SCHEMA_DEPTH:
            raise _UnusableToolError(f"its {what} schema is nested more than {_MAX_SCHEMA_DEPTH} levels deep")
        match value:
            case str():
                return _plain(value, what)
            case list():
                return [self._walk(item, what, depth + 1) for item in value]
            case dict():
                return {_plain(key, what): self._member(key, item, what, depth + 1) for key, item in value.items()}
            case _:
                return value

    def _member(self, key: str, value: Json, what: str, depth: int) -> Json:
        if key in {"description", "title", "$comment"} and isinstance(value, str):
            return self.text(value, _MAX_DESCRIPTION_LENGTH)
        if key in _REFERENCES and isinstance(value, str) and not value.startswith("#"):
            raise _UnusableToolError(f"its {what} schema refers to another document, which is never fetched")
        return self._walk(value, what, depth)


def _plain(text: str, what: str) -> str:
    if _visible(text) != text:
        raise _UnusableToolError(f"its {what} schema holds characters that nobody sees in a name or a value")
    return text


def _visible(text: str) -> str:
    """Also without what only its writer knows the looks of (private use) and without carriage returns."""
    return "".join(one for one in visible(text) if one != "\r" and unicodedata.category(one) != "Co")


def _shown(text: str, limit: int) -> str:
    return _cut(" ".join(_visible(text).split()), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"
