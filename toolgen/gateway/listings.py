"""A principal's catalog, rendered once per format and cut into pages whose order and cursors are the same on every call."""

from __future__ import annotations

import base64
import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import jsonschema_rs

from toolgen.emit.formats import FORMATS
from toolgen.gateway.facade import Facade
from toolgen.gateway.wire import Malformed, encode
from toolgen.model.call import Principal
from toolgen.model.names import TOOL_NAME
from toolgen.model.schema import Json
from toolgen.model.tool import Tool

__all__ = ["LISTED", "Listing", "Listings", "Page"]

_MOST_LISTINGS = 64

LISTED: Mapping[str, Callable[[Tool], Mapping[str, object]]] = MappingProxyType({"manifest": Tool.to_dict, **FORMATS})
"""What a catalog can be listed as, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Some tools as one JSON array, and the cursor of the rest ("" when there is none)."""

    tools: bytes
    next_cursor: str


class Listing:
    """One catalog. Everything derived from it is made on first use and kept, so that no request converts a schema twice."""

    def __init__(self, tools: tuple[Tool, ...]) -> None:
        self.tools = tools
        self._names = [tool.name for tool in tools]
        self._by_name = {tool.name: tool for tool in tools}
        self._rendered: dict[str, list[bytes]] = {}
        self._validators: dict[str, jsonschema_rs.Validator | None] = {}

    def page(self, form: str, *, cursor: str, limit: int) -> Page:
        """Up to `limit` tools after the one `cursor` names. Raises `Malformed` for a cursor that was never given out.

        A cursor is the last name of a page and not a position, so that a tool added meanwhile neither repeats nor hides another.
        """
        start = bisect.bisect_right(self._names, _after(cursor)) if cursor else 0
        rendered = self._rendered.get(form)
        if rendered is None:
            rendered = self._rendered[form] = [encode(LISTED[form](tool)) for tool in self.tools]
        end = start + limit
        more = end < len(rendered)
        return Page(
            tools=b"[" + b",".join(rendered[start:end]) + b"]",
            next_cursor=_cursor(self._names[end - 1]) if more else "",
        )

    def declares_output(self, name: str) -> bool:
        """Whether tools/list shows an output schema for this tool, which clients then hold its answers against."""
        tool = self._by_name.get(name)
        return tool is not None and tool.output_schema is not None and tool.output_schema.get("type") == "object"

    def fits(self, name: str, data: Json) -> bool:
        """Whether data is what the tool's output schema promises (MCP 2025-06-18, server/tools, section Output Schema)."""
        if not isinstance(data, Mapping):
            return False
        if name not in self._validators:
            self._validators[name] = _validator(self._by_name[name])
        validator = self._validators[name]
        return validator is None or validator.is_valid(data)


class Listings:
    """The listings of every principal seen lately. No two principals share one."""

    def __init__(self, gateway: Facade) -> None:
        self._gateway = gateway
        self._kept: dict[tuple[str, int], Listing] = {}

    def of(self, principal: Principal) -> Listing:
        """The listing of what this principal may call now."""
        tools = self._gateway.catalog(principal)
        key = (
            principal.id,
            id(tools),
        )  # the listing holds the tuple, so its id is not given to another while it is kept
        listing = self._kept.pop(key, None) or Listing(tools)
        self._kept[key] = listing  # last again: what was used least lately stands first
        if len(self._kept) > _MOST_LISTINGS:
            del self._kept[next(iter(self._kept))]
        return listing


def _validator(tool: Tool) -> jsonschema_rs.Validator | None:
    """None when the schema does not compile: then nobody can hold an answer against it."""
    try:
        return jsonschema_rs.validator_for(dict(tool.output_schema or {}), offline=True)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        return None


def _cursor(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode("ascii")).decode("ascii").rstrip("=")


def _after(cursor: str) -> str:
    try:
        name = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
    except ValueError:
        name = ""
    if not TOOL_NAME.match(name):
        raise Malformed("is not a cursor this gateway gave out", pointer="/cursor")
    return name
