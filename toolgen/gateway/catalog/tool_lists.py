"""Catalog of a principal, rendered once per format and split into pages with a stable order and stable cursors."""

from __future__ import annotations

import base64
import bisect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import msgspec
from msgspec import Struct

from toolgen.core.json_codec import decode_json
from toolgen.gateway.calls.json_body import Malformed, encode
from toolgen.gateway.catalog.search_tools import AT_ONCE, canonical, meta_tools
from toolgen.gateway.protocol import Facade
from toolgen.generator.emit.formats import FORMATS, mcp_tool
from toolgen.generator.emit.listed_output import ListedOutput, listed_output
from toolgen.generator.emit.schema_budget import listed
from toolgen.model.apps import OWN_PAGE, Audience, ToolApp
from toolgen.model.call import Principal
from toolgen.model.names import TOOL_NAME
from toolgen.model.stored_schemas import complete
from toolgen.model.tool import Tool
from toolgen.model.waiting import GET_CALL_RESULT

__all__ = [
    "APP_FORMS",
    "LISTED",
    "OWN_APP_FORMS",
    "STATELESS",
    "WITH_BINDINGS",
    "WITH_TASKS",
    "Listings",
    "ToolListing",
    "ToolPage",
    "for_agents",
]

_MAX_LISTINGS = 64
_MAX_DEPTH = 1_000  # maximum nesting of JSON that the gateway wrote itself

_HOW_IT_IS_CALLED = frozenset({"binding", "origin"})


def for_agents(tool: Tool) -> Mapping[str, object]:
    """Return a tool as in the manifest, without its servers, steps, statements and place in the description."""
    return {name: value for name, value in tool.to_dict().items() if name not in _HOW_IT_IS_CALLED}


LISTED: Mapping[str, Callable[[Tool], Mapping[str, object]]] = MappingProxyType({"manifest": for_agents, **FORMATS})
"""Formats of a listed catalog, by name."""

WITH_BINDINGS = "manifest with bindings"
"""Tools of the manifest as a build wrote them, for principals that may read the audit log."""

WITH_TASKS = "mcp with tasks"
"""Format for clients of MCP 2025-11-25: with how each tool may be called as a task."""

STATELESS = "mcp 2026-07-28"
"""Format for clients of 2026-07-28: output schemas may describe any value."""


def _with_tasks(tool: Tool) -> Mapping[str, object]:
    shaped = FORMATS["mcp"](tool)
    if tool.name in AT_ONCE:
        return shaped
    required = tool.requires_tasks
    return {**shaped, "execution": {"taskSupport": "required" if required else "optional"}}


APP_FORMS: Mapping[str, str] = MappingProxyType(
    {WITH_TASKS: f"{WITH_TASKS} and apps", STATELESS: f"{STATELESS} with apps"}
)
"""Formats for clients that show apps, by those for other clients."""
OWN_APP_FORMS: Mapping[str, str] = MappingProxyType(
    {form: f"{with_apps} of the gateway" for form, with_apps in APP_FORMS.items()}
)
"""The same formats for gateways whose own app is shown for tools without an app."""
_PLAIN: Mapping[str, str] = MappingProxyType(
    {shown: form for forms in (APP_FORMS, OWN_APP_FORMS) for form, shown in forms.items()}
)

_WRITERS: Mapping[str, Callable[[Tool], Mapping[str, object]]] = {
    **LISTED,
    WITH_TASKS: _with_tasks,
    STATELESS: partial(mcp_tool, any_root=True),
    WITH_BINDINGS: Tool.to_dict,
}


class ToolPage(Struct, frozen=True, kw_only=True):
    """Page of tools, each as its JSON text, to be encoded as a list; and the cursor of the rest ("" if there is none)."""

    tools: tuple[msgspec.Raw, ...]
    next_cursor: str


class ToolListing:
    """Listing of a catalog, or of the tools listed in its place. Derived data is computed on first use and cached.

    No request converts a schema twice. `apps` are tools only for apps, which clients that show apps get, and `readable` returns True if the
    principal may read the page of an app. The tuples live as long as the listing, because its cache key relies on that.
    """

    def __init__(
        self,
        tools: tuple[Tool, ...],
        catalog: tuple[Tool, ...] | None = None,
        apps: tuple[Tool, ...] = (),
        readable: Callable[[str], bool] = bool,
    ) -> None:
        self.tools = tools
        self._readable = readable
        self._with_apps = tuple(sorted((*tools, *apps), key=lambda tool: tool.name)) if apps else tools
        self.catalog = tools if catalog is None else catalog
        self._names = [tool.name for tool in tools]
        # A client may have listed the search tools while the catalog was longer.
        searching = meta_tools(self.catalog) if self.catalog else ()
        self._by_name = {tool.name: tool for tool in (*searching, *self.catalog, *tools, *apps)}
        self._own_names: dict[str, str] | None = None
        self._has_apps = any(tool.app is not None for tool in self._by_name.values())
        self._rendered: dict[tuple[str, str], msgspec.Raw] = {}
        self._headers: dict[str, Mapping[str, str]] = {}
        self._outputs: dict[tuple[str, str], ListedOutput | None] = {}

    def page(self, form: str, *, cursor: str, limit: int) -> ToolPage:
        """Return up to `limit` tools after the one that `cursor` names. Raises `Malformed` for an invalid cursor.

        A cursor is the last name of a page and not a position, so that a tool that is added meanwhile neither repeats nor hides another.
        """
        tools = self._with_apps if form in _PLAIN else self.tools
        names = [tool.name for tool in tools] if tools is not self.tools else self._names
        return self._page(form, tools, bisect.bisect_right(names, _after(cursor)) if cursor else 0, limit)

    def found(self, form: str, tools: Sequence[Tool], *, cursor: str, limit: int) -> ToolPage:
        """Return a page of the tools that a search found, in its order. A cursor with another tool belongs to another search."""
        start = 0
        if cursor:
            name = _after(cursor)
            start = next((at + 1 for at, tool in enumerate(tools) if tool.name == name), 0)
            if not start:
                raise Malformed("belongs to another search", pointer="/cursor")
        return self._page(form, tools, start, limit)

    def _page(self, form: str, tools: Sequence[Tool], start: int, limit: int) -> ToolPage:
        shown = tools[start : start + limit]
        more = start + limit < len(tools)
        return ToolPage(
            tools=tuple(self._rendered_as(form, tool) for tool in shown),
            next_cursor=_cursor(shown[-1].name) if more else "",
        )

    def _rendered_as(self, form: str, tool: Tool) -> msgspec.Raw:
        key = (form, tool.name)
        rendered = self._rendered.get(key)
        if rendered is None:
            # A schema with stored definitions is shown in its listed form: with all of them a page would be too long.
            shown = (
                tool
                if form in {"manifest", WITH_BINDINGS} and complete(tool.input_schema) is tool.input_schema
                else listed(tool)
            )
            written = _WRITERS[_PLAIN.get(form, form)](shown)
            if form in _PLAIN and (meta := self._app_meta(tool, own=form in OWN_APP_FORMS.values())):
                written = {**written, "_meta": meta}
            rendered = self._rendered[key] = msgspec.Raw(encode(written))
        return rendered

    def _app_meta(self, tool: Tool, *, own: bool) -> Mapping[str, object]:
        """Return the `_meta` of a tool for clients that show apps. A page that the principal may not read is left out. A tool without an
        app is only for models: apps of a server may call only tools of servers with apps."""
        if tool.app is None:
            audience: tuple[Audience, ...] = ("app", "model") if tool.name == GET_CALL_RESULT and own else ("model",)
            return ToolApp(uri=OWN_PAGE if own else "", audience=audience).meta if own or self._has_apps else {}
        app = tool.app if self._readable(tool.app.uri) else msgspec.structs.replace(tool.app, uri="")
        return app.meta

    def called_by_app(self, name: str) -> str:
        """Return the tool that an app means by the server's own name, if exactly one tool of this principal fits and apps may call it; ""
        for any other name."""
        if self._own_names is None:
            found: dict[str, list[str]] = {}
            for tool in self._by_name.values():
                if tool.app is not None and "app" in tool.app.audience:
                    found.setdefault(tool.origin, []).append(tool.name)
            self._own_names = {origin: names[0] for origin, names in found.items() if len(names) == 1}
        return self._own_names.get(name, "")

    def tool(self, name: str) -> Tool | None:
        """Return the tool with this name if this principal may call or list it; a meta tool also by its former name."""
        return self._by_name.get(name) or self._by_name.get(canonical(name))

    def headers(self, name: str) -> Mapping[str, str]:
        """Return the headers (`x-mcp-header`) that repeat arguments of this tool, by argument."""
        found = self._headers.get(name)
        if found is None:
            tool = self._by_name.get(name)
            properties = tool.input_schema.get("properties") if tool is not None else None
            found = {
                argument: str(schema["x-mcp-header"])
                for argument, schema in (properties if isinstance(properties, Mapping) else {}).items()
                if isinstance(schema, Mapping) and isinstance(schema.get("x-mcp-header"), str)
            }
            if tool is not None:
                self._headers[name] = found
        return found

    def output(self, form: str, name: str) -> ListedOutput | None:
        """Return the output schema that a tool is listed with in a format of MCP; None if there is none."""
        key = (form, name)
        if key not in self._outputs:
            tool = self._by_name.get(name)
            if tool is None:
                return None
            rendered = self._rendered.get(key)
            written = None if rendered is None else decode_json(bytes(rendered), _MAX_DEPTH).get("outputSchema")
            self._outputs[key] = listed_output(tool, any_root=form == STATELESS, written=written)
        return self._outputs[key]


class Listings:
    """Cache of the listings of recent principals. No two principals share one."""

    def __init__(self, gateway: Facade) -> None:
        self._gateway = gateway
        self._kept: dict[tuple[str, int], ToolListing] = {}

    def of(self, principal: Principal, session: str | None = None) -> ToolListing:
        """Return the listing of what this principal may call now; with a session, of the tools in its current step."""
        catalog = self._gateway.tool_calls.catalog(principal, session)
        key = (
            principal.id,
            id(catalog),
        )  # the listing has the tuple, so its id is not reused while it is cached
        listing = self._kept.pop(key, None) or ToolListing(
            self._gateway.tool_calls.offered(principal, session),
            catalog,
            self._gateway.context.app_tools(principal),
            partial(self._gateway.context.may_read, principal),
        )
        self._kept[key] = listing  # moved to the end: the least recently used is first
        if len(self._kept) > _MAX_LISTINGS:
            del self._kept[next(iter(self._kept))]
        return listing


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
