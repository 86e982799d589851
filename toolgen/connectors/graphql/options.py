"""Options of a GraphQL source in toolgen.yaml, except its location."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import msgspec
from msgspec import Struct, field

from toolgen.core.errors import ConfigError
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.schema import Schema

__all__ = [
    "DEFAULT_MAX_PAGE",
    "ChosenSelection",
    "GraphKeys",
    "GraphOptions",
    "QueryLimits",
    "SubscriptionOptions",
    "graph_options",
]

DEFAULT_MAX_PAGE = 100
_NO_SCALARS: Mapping[str, Schema] = MappingProxyType({})
_NO_SELECTIONS: Mapping[str, ChosenSelection] = MappingProxyType({})
_NAME = re.compile(r"[_A-Za-z][_0-9A-Za-z]*\Z")
_COORDINATE = re.compile(r"[_0-9A-Za-z*?]{1,100}\.[_0-9A-Za-z*?]{1,100}\Z")
_BUILT_IN = frozenset({"Int", "Float", "String", "Boolean", "ID"})  # scalars of the specification
_MAX_SECONDS, _MAX_EVENTS = 300.0, 1000
_MAX_FILES = 1000


class _Queries(msgspec.Struct, forbid_unknown_fields=True):
    max_depth: int = 8
    max_aliases: int = 10
    max_root_fields: int = 4
    max_fragments: int = 10
    max_cost: int = 2000


class _Subscriptions(msgspec.Struct, forbid_unknown_fields=True):
    transport: str = "websocket"
    url: str = ""
    events: int = 10
    seconds: float = 30.0


class _Tool(msgspec.Struct, forbid_unknown_fields=True):
    selection: str


class GraphKeys(msgspec.Struct):
    """Keys of a source in toolgen.yaml."""

    graphql: str | None = None
    endpoint: str = ""
    operations: str | list[str] = []
    scalars: dict[str, dict[str, Any]] = {}
    queries: bool | _Queries = False
    subscriptions: bool | _Subscriptions = False
    max_page: int | None = None
    leave_out: list[str] = []
    tools: dict[str, _Tool] = {}


class QueryLimits(Struct, frozen=True, kw_only=True):
    """Size limits of a document that an agent wrote. A page of 10 products costs 10 times as much as one product."""

    max_depth: int = 8
    max_aliases: int = 10
    max_root_fields: int = 4
    max_fragments: int = 10
    max_cost: int = 2000


class SubscriptionOptions(Struct, frozen=True, kw_only=True):
    """Transport of subscriptions, and their limits. `url` is "" for the endpoint's own."""

    transport: str = "websocket"  # websocket | sse
    url: str = ""
    events: int = 10
    seconds: float = 30.0


class ChosenSelection(Struct, frozen=True, kw_only=True):
    """Default selection of a root field's tool, as toolgen.yaml gives it. `where` is its file and line."""

    text: str
    where: str


class GraphOptions(Struct, frozen=True, kw_only=True):
    """Options of a GraphQL source.

    `operations` are files of trusted operations. `scalars` are JSON Schemas by scalar. `queries` permits documents that agents write,
    `subscriptions` permits subscriptions; `None` permits neither. `max_page` is the largest page, or `None` if toolgen.yaml sets none.
    `leave_out` are fields (`Type.field`, with globs) that no default selection reads. `selections` are by tool: its name, also without the
    source's, or its root field (`Query.product`).
    """

    operations: tuple[str, ...] = ()
    scalars: Mapping[str, Schema] = field(default_factory=lambda: _NO_SCALARS)
    queries: QueryLimits | None = None
    subscriptions: SubscriptionOptions | None = None
    max_page: int | None = None
    leave_out: tuple[str, ...] = ()
    selections: Mapping[str, ChosenSelection] = field(default_factory=lambda: _NO_SELECTIONS)

    def to_dict(self) -> dict[str, object]:
        """Return the options that are set, as JSON. Unset options are omitted, so that a new option does not change an earlier build."""
        said: dict[str, object] = {}
        if self.operations:
            said["operations"] = list(self.operations)
        if self.scalars:
            said["scalars"] = dict(self.scalars)
        if self.queries is not None:
            said["queries"] = {name: getattr(self.queries, name) for name in QueryLimits.__struct_fields__}
        if self.subscriptions is not None:
            said["subscriptions"] = {
                name: getattr(self.subscriptions, name) for name in SubscriptionOptions.__struct_fields__
            }
        if self.max_page is not None:
            said["max_page"] = self.max_page
        if self.leave_out:
            said["leave_out"] = list(self.leave_out)
        if self.selections:
            said["tools"] = {name: {"selection": one.text} for name, one in self.selections.items()}
        return said


def graph_options(keys: GraphKeys, document: YamlDocument, path: tuple[str, ...], root: Path) -> GraphOptions:
    """Return the options of the source at `path`. Raises `ConfigError` with its line."""
    if keys.max_page is not None and keys.max_page < 1:
        raise ConfigError("max_page: takes a number above 0", where=document.where(*path, "max_page"))
    for one in keys.leave_out:
        if not _COORDINATE.match(one):
            message = f"leave_out: takes fields as Type.field, with * and ?, not '{one[:60]}'"
            raise ConfigError(message, where=document.where(*path, "leave_out"))
    return GraphOptions(
        operations=_operations(keys, root, document.where(*path, "operations")),
        scalars=MappingProxyType({name: _scalar(name, keys, document, path) for name in keys.scalars}),
        queries=_queries(keys.queries, document, path),
        subscriptions=_subscriptions(keys.subscriptions, document, path),
        max_page=keys.max_page,
        leave_out=tuple(keys.leave_out),
        selections=MappingProxyType(
            {
                name: ChosenSelection(text=one.selection, where=document.where(*path, "tools", name, "selection"))
                for name, one in sorted(keys.tools.items())
            }
        ),
    )


def _operations(keys: GraphKeys, root: Path, where: str) -> tuple[str, ...]:
    """Return the matching files, not the patterns, so that a check for changes sees a new file."""
    found: dict[str, None] = {}
    for pattern in [keys.operations] if isinstance(keys.operations, str) else keys.operations:
        if not pattern or "://" in pattern or Path(pattern).is_absolute():
            raise ConfigError("operations: takes files and globs, relative to toolgen.yaml", where=where)
        here = [str(file) for file in sorted(root.glob(pattern)) if file.is_file()]
        if not here:
            raise ConfigError(f"operations: there is no file {pattern[:80]}", where=where)
        found |= dict.fromkeys(here)
    if len(found) > _MAX_FILES:
        raise ConfigError(f"operations: names {len(found)} files, more than {_MAX_FILES}", where=where)
    return tuple(found)


def _scalar(name: str, keys: GraphKeys, document: YamlDocument, path: tuple[str, ...]) -> Schema:
    where = document.where(*path, "scalars", name)
    if not _NAME.match(name) or name in _BUILT_IN:
        raise ConfigError(f"scalars: '{name[:40]}' is not the name of a custom scalar", where=where)
    schema = keys.scalars[name]
    if "$ref" in schema or "$defs" in schema or not isinstance(schema.get("type"), str | list):
        raise ConfigError(f"scalars: {name} needs a JSON Schema with a type and without references", where=where)
    try:
        jsonschema_rs.Draft202012Validator(schema)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise ConfigError(f"scalars: {name} is not a JSON Schema", where=where) from error
    return MappingProxyType(schema)


def _queries(
    given: bool | _Queries | str | list[str], document: YamlDocument, path: tuple[str, ...]
) -> QueryLimits | None:
    if isinstance(given, (str, list)):
        raise ConfigError(
            "queries: of a GraphQL source takes true, false or limits",
            where=document.where(*path, "queries"),
            suggestion="files of trusted operations belong under operations:",
        )
    if given is False:
        return None
    if given is True:
        return QueryLimits()
    for name in _Queries.__struct_fields__:
        if getattr(given, name) < (1 if name in {"max_depth", "max_root_fields", "max_cost"} else 0):
            raise ConfigError(f"{name}: is too small", where=document.where(*path, "queries", name))
    return QueryLimits(**msgspec.structs.asdict(given))


def _subscriptions(
    given: bool | _Subscriptions, document: YamlDocument, path: tuple[str, ...]
) -> SubscriptionOptions | None:
    if given is False:
        return None
    if given is True:
        return SubscriptionOptions()
    where = document.where(*path, "subscriptions")
    schemes = {"websocket": {"ws", "wss"}, "sse": {"http", "https"}}.get(given.transport)
    if schemes is None:
        raise ConfigError("transport: takes websocket or sse", where=where)
    if not 1 <= given.events <= _MAX_EVENTS or not 0 < given.seconds <= _MAX_SECONDS:
        message = f"subscriptions: take 1 to {_MAX_EVENTS} events and at most {_MAX_SECONDS:.0f} seconds"
        raise ConfigError(message, where=where)
    if given.url and not _is_address(given.url, schemes):
        raise ConfigError(
            f"url: must be a {' or '.join(sorted(schemes))} URL without user name and fragment", where=where
        )
    return SubscriptionOptions(**msgspec.structs.asdict(given))


def _is_address(url: str, schemes: set[str]) -> bool:
    try:
        parts = urlsplit(url)
        whole = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return whole and not (parts.username or parts.password or parts.fragment) and not set(url) & set(" {}<>\\")
