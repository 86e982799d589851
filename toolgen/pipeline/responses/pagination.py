"""Pagination: the request for a tool's next page, derived from its parameters and its answer.

Recognised are numbered pages, offsets, cursors and tokens, the last item's id, `Link: <…>; rel="next"` (RFC 8288) and next URLs in a body.
Only the tool's own paging parameters are taken from a URL, and only if it has the tool's own origin: an answer must not choose the
destination of a request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from urllib.parse import parse_qsl, urljoin, urlsplit

from msgspec import Struct

from toolgen.config.tools import PagesBy
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Effect, Tool

__all__ = [
    "LIST_NAMES",
    "MAX_PAGES",
    "NO_LINK",
    "Paging",
    "Pagings",
    "has_more",
    "items_of",
    "joined",
    "next_link",
    "paging_of",
    "told_of",
    "total_of",
]

MAX_PAGES = 20
_CURSORS = frozenset(
    {
        "cursor", "pagecursor", "startcursor", "nextcursor", "pagetoken", "nexttoken", "nextpagetoken", "continuation", "continuationtoken",
        "paginationtoken", "marker", "scrollid", "after", "startingafter", "startafter", "pageafter", "skiptoken", "exclusivestartkey",
        "bookmark",
    }
)  # fmt: skip
_PAGES = frozenset({"page", "pagenumber", "pageno", "pagenum", "pageindex", "currentpage"})
_OFFSETS = frozenset({"offset", "skip", "start", "startat", "startindex", "pageoffset", "from"})
_MOMENTS = frozenset(
    {"start", "from"}
)  # these often are times, so their description must state that they count from the beginning
_SIZES = frozenset(
    {
        "limit",
        "perpage",
        "pagesize",
        "maxresults",
        "count",
        "size",
        "top",
        "pagelimit",
        "pageitems",
        "max",
        "rows",
        "take",
    }
)
_TOKENS = (
    "nextcursor", "nextpagetoken", "nexttoken", "nextpagecursor", "continuationtoken", "paginationtoken", "nextmarker", "endcursor",
    "nextpage", "next", "cursor", "scrollid", "bookmark", "after",
)  # fmt: skip
_URLS = ("next", "nexturl", "nextlink", "nextpageurl", "odatanextlink", "nexthref")
_MORE = ("hasmore", "hasnext", "hasnextpage", "more", "istruncated", "moreresultsavailable")
_HOLDERS = frozenset(
    {
        "meta",
        "metadata",
        "pagination",
        "paging",
        "pageinfo",
        "responsemetadata",
        "links",
        "link",
        "cursors",
        "page",
        "pages",
    }
)
LIST_NAMES = (
    "items",
    "data",
    "results",
    "values",
    "entries",
    "records",
    "value",
    "list",
    "content",
    "objects",
    "elements",
    "hits",
    "rows",
)
_WORD = re.compile(r"[^a-z0-9]")
_LINK = re.compile(r"<([^<>]{1,4096})>((?:\s*;\s*[A-Za-z*]+\s*=\s*(?:\"[^\"]*\"|[^\s\",;]+))*)")
_NEXT = re.compile(r";\s*rel\s*=\s*(?:\"(?:[^\"]*\s)?next(?:\s[^\"]*)?\"|next(?![^\s,;]))", re.IGNORECASE)
_URL = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//|/[^?]*\?")
_PORTS = {"http": 80, "https": 443}
_MAX_TOKEN_LENGTH = 4096


class Paging(Struct, frozen=True, kw_only=True):
    """Arguments of a tool that choose its page, by kind; "" for a missing one. `names` has each by its wire name."""

    cursor: str
    page: str
    offset: str
    size: str
    first_page: int
    size_default: int | None
    names: Mapping[str, str]
    server: str
    next: tuple[str, ...] = ()

    def following(self, arguments: JsonObject, data: Json, link: str) -> JsonObject | None:
        """Return the changed arguments for the next page, or None if there is no next page or it is unknown."""
        if self.next:
            return self._by_place(arguments, data)
        _, items = items_of(data)
        told = told_of(data)
        if any(told.get(name) is False for name in _MORE):
            return None
        for url in (link, *(told[name] for name in _URLS if isinstance(told.get(name), str))):
            if isinstance(url, str) and (changes := self._from_url(url, arguments)):
                return changes
        if self.cursor:
            return self._by_cursor(arguments, told, items)
        if not items or link == NO_LINK:
            return None
        if self.page:
            return self._by_page(arguments, told, items)
        if self.offset:
            begin = arguments.get(self.offset, 0)
            wanted = self.wanted(arguments)
            if (
                not isinstance(begin, int)
                or (wanted is not None and len(items) < wanted)
                or _reached(told, begin + len(items))
            ):
                return None
            return {self.offset: begin + len(items)}
        return None

    def begin(self, arguments: JsonObject) -> int | None:
        """Return the number of items before a page, if the arguments contain it; with a cursor only for the first page."""
        if self.cursor and arguments.get(self.cursor) is not None:
            return None
        if self.offset and not self.page:
            offset = arguments.get(self.offset, 0)
            return offset if isinstance(offset, int) and not isinstance(offset, bool) else None
        page = arguments.get(self.page, self.first_page) if self.page else self.first_page
        if page == self.first_page:
            return 0
        size = self.wanted(arguments)
        return None if size is None or not isinstance(page, int) else (page - self.first_page) * size

    def _by_place(self, arguments: JsonObject, data: Json) -> JsonObject | None:
        """Return the changed arguments from the place in the answer that toolgen.yaml names: a next URL, a cursor, or a page number."""
        for name in self.next:
            data = data.get(name) if isinstance(data, Mapping) else None
        if (
            isinstance(data, bool)
            or not isinstance(data, (str, int))
            or data == ""
            or len(str(data)) > _MAX_TOKEN_LENGTH
        ):
            return None
        if isinstance(data, str) and _URL.match(data):
            return self._from_url(data, arguments) or None
        chosen = self.cursor or self.page or self.offset
        said: Json = str(data) if self.cursor else int(data) if str(data).isdecimal() else None
        return None if said is None or said == arguments.get(chosen) else {chosen: said}

    def _by_cursor(self, arguments: JsonObject, told: Mapping[str, Json], items: Sequence[Json]) -> JsonObject | None:
        for name in _TOKENS:
            token = told.get(name)
            if isinstance(token, int) and not isinstance(token, bool):
                token = str(token)
            if isinstance(token, str) and 0 < len(token) <= _MAX_TOKEN_LENGTH and not _URL.match(token):
                return {self.cursor: token} if token != arguments.get(self.cursor) else None
        # Cursor of Stripe and similar APIs: the id of the last item, as long as there is more.
        last = items[-1] if items else None
        if (
            any(told.get(name) is True for name in _MORE)
            and isinstance(last, Mapping)
            and isinstance(last.get("id"), str)
        ):
            return {self.cursor: last["id"]}
        return None

    def _by_page(self, arguments: JsonObject, told: Mapping[str, Json], items: Sequence[Json]) -> JsonObject | None:
        page = arguments.get(self.page, self.first_page)
        if not isinstance(page, int) or isinstance(page, bool):
            return None
        last = next(
            (told[name] for name in ("totalpages", "pagecount", "lastpage") if isinstance(told.get(name), int)), None
        )
        if isinstance(last, int) and page - self.first_page + 1 >= last:
            return None
        wanted = self.wanted(arguments)
        short = wanted is not None and len(items) < wanted
        return None if short and not any(told.get(name) is True for name in _MORE) else {self.page: page + 1}

    def wanted(self, arguments: JsonObject) -> int | None:
        """Return the page size, if the arguments or their defaults contain it."""
        wanted = arguments.get(self.size, self.size_default) if self.size else None
        return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else None

    def _from_url(self, url: str, arguments: JsonObject) -> JsonObject:
        """Return the paging arguments in a next URL, or {} if it leads to another origin."""
        try:
            parts = urlsplit(urljoin(self.server, url))
            if url == NO_LINK or _origin(parts.geturl()) != _origin(self.server):
                return {}
            pairs = parse_qsl(parts.query, max_num_fields=100)
        except (ValueError, KeyError):
            return {}
        said: dict[str, Json] = {
            self.names[name]: int(text)
            if self.names[name] in (self.page, self.offset, self.size) and text.isdecimal()
            else text
            for name, text in pairs
            if name in self.names and len(text) <= _MAX_TOKEN_LENGTH
        }
        chosen = (self.cursor, self.page, self.offset)
        moved = any(name in said and said[name] != arguments.get(name) for name in chosen if name)
        return said if moved else {}


NO_LINK = "-"
"""Marker for an answer that has links, but no next link: it was the last page."""


def paging_of(tool: Tool) -> Paging | None:
    """Return the paging of a tool, or None if its parameters do not show it."""
    http = tool.http
    properties = tool.input_schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    if tool.is_bridged:
        return _bridged_paging(properties)
    if http is None or not http.servers:
        return None
    found: dict[str, str] = {}
    names: dict[str, str] = {}
    for parameter in http.parameters:
        schema = properties.get(parameter.argument)
        if parameter.in_ != "query" or not isinstance(schema, Mapping):
            continue
        kind = _kind(_word(parameter.name), schema)
        if kind and kind not in found:
            found[kind] = parameter.argument
        if kind:
            names[parameter.name] = parameter.argument
    if not found.keys() & {"cursor", "page", "offset"}:
        return None
    return _paging(http.servers[0], properties, found, names)


def _bridged_paging(properties: Mapping[str, Json]) -> Paging | None:
    """Return the paging of an MCP server's tool, as far as the names of its arguments show it. URLs are not followed."""
    found: dict[str, str] = {}
    for name, schema in properties.items():
        kind = _kind(_word(name), schema) if isinstance(schema, Mapping) else ""
        if kind:
            found.setdefault(kind, name)
    return _paging("", properties, found, {}) if found.keys() & {"cursor", "page", "offset"} else None


def _configured(tool: Tool, by: PagesBy) -> Paging | None:
    """Return the paging configured in toolgen.yaml. Arguments outside the query can be incremented, but are not part of a next URL."""
    http = tool.http
    if not by.arguments or http is None or not http.servers:
        return None
    properties = tool.input_schema.get("properties")
    used = set(by.arguments.values())
    names = {one.name: one.argument for one in http.parameters if one.in_ == "query" and one.argument in used}
    properties = properties if isinstance(properties, Mapping) else {}
    return _paging(http.servers[0], properties, by.arguments, names, by.following)


class Pagings:
    """Paging of each tool: by its entry in `configured`, or else by its parameters."""

    def __init__(self, configured: Mapping[str, PagesBy] = MappingProxyType({})) -> None:
        self._configured = configured
        self._known: dict[str, Paging | None] = {}

        self.paged: dict[str, bool] = {}
        """Whether a tool is read-only and has pages, by its digest: call plans look it up without a function call."""

    def of(self, tool: Tool) -> Paging | None:
        """Return the paging of a tool, or None if its answers are not pages."""
        if tool.digest not in self._known:
            by = self._configured.get(tool.name)
            found = self._known[tool.digest] = paging_of(tool) if by is None else _configured(tool, by)
            self.paged[tool.digest] = found is not None and tool.effect is Effect.READ
        return self._known[tool.digest]


def _paging(
    server: str,
    properties: Mapping[str, Json],
    found: Mapping[str, str],
    names: Mapping[str, str],
    following: tuple[str, ...] = (),
) -> Paging:
    return Paging(
        cursor=found.get("cursor", ""),
        page=found.get("page", ""),
        offset=found.get("offset", ""),
        size=found.get("size", ""),
        first_page=0 if _whole(properties, found.get("page"), "default") == 0 else 1,
        size_default=_whole(properties, found.get("size"), "default"),
        names=names,
        server=server,
        next=following,
    )


def _kind(word: str, schema: Mapping[str, Json]) -> str:
    numeric = bool(_types(schema) & {"integer", "number"})
    if word in _MOMENTS and not any(schema.get(key) in (0, 1) for key in ("default", "minimum")):
        return ""
    if word in _SIZES:
        return "size"
    if word in _PAGES:
        return "page" if numeric else "cursor"
    if word in _OFFSETS and numeric:
        return "offset"
    return "cursor" if word in _CURSORS else ""


def _whole(properties: Mapping[str, Json], name: str | None, key: str) -> int | None:
    schema = properties.get(name or "")
    value = schema.get(key) if isinstance(schema, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _types(schema: Mapping[str, Json]) -> frozenset[str]:
    kinds = schema.get("type")
    return frozenset(
        [kinds] if isinstance(kinds, str) else [str(kind) for kind in kinds] if isinstance(kinds, list) else []
    )


def _word(name: str) -> str:
    return _WORD.sub("", name.lower())


def told_of(data: Json) -> dict[str, Json]:
    """Return the information beside an answer's items, at the top level and in objects that usually hold it, by normalized names."""
    told: dict[str, Json] = {}
    if not isinstance(data, Mapping):
        return told
    below = [item for name, item in data.items() if _word(name) in _HOLDERS and isinstance(item, Mapping)]
    below += [
        item for one in below for name, item in one.items() if _word(name) in _HOLDERS and isinstance(item, Mapping)
    ]
    for holder in (data, *below):
        for name, item in holder.items():
            plain = _plain(item) if _word(name) == "next" else item
            if not isinstance(plain, (list, Mapping)):
                told.setdefault(_word(name), plain)
    return told


def _plain(link: Json) -> Json:
    """Return the target of a link that is an object, as in HAL."""
    return (
        next((link[name] for name in ("href", "url", "cursor") if name in link), link)
        if isinstance(link, Mapping)
        else link
    )


def _reached(told: Mapping[str, Json], seen: int) -> bool:
    total = total_of(told)
    return total is not None and seen >= total


def total_of(told: Mapping[str, Json]) -> int | None:
    """Return the total number of items, if an answer has it beside them."""
    totals = (told.get(name) for name in ("total", "totalcount", "totalresults", "totalitems", "totalsize"))
    return next((total for total in totals if isinstance(total, int) and not isinstance(total, bool)), None)


def has_more(told: Mapping[str, Json]) -> bool:
    """Return True if an answer states that there is more, or has the place of the next page."""
    return any(told.get(name) is True for name in _MORE) or any(isinstance(told.get(name), str) for name in _URLS)


def items_of(data: Json) -> tuple[tuple[str, ...], Sequence[Json]]:
    """Return the path and the items of a page: the answer itself, or the list in it that holds the items."""
    if isinstance(data, list):
        return (), data
    if not isinstance(data, Mapping):
        return (), []
    lists = {name: item for name, item in data.items() if isinstance(item, list)}
    named = next((name for word in LIST_NAMES for name in lists if _word(name) == word), None)
    if named is None and len(lists) == 1:
        named = next(iter(lists))
    if named is not None:
        return (named,), lists[named]
    for name, item in data.items():
        if _word(name) in {"data", "result", "response", "embedded"} and isinstance(item, Mapping):
            path, found = items_of(item)
            if path:
                return (name, *path), found
    return (), []


def joined(pages: Sequence[Json]) -> Json:
    """Join several pages: the items of all, and the other members of the last one."""
    path, _ = items_of(pages[-1])
    items: list[Json] = [item for page in pages for item in items_of(page)[1]]
    return _with(pages[-1], path, items)


def _with(data: Json, path: Sequence[str], items: list[Json]) -> Json:
    if not path or not isinstance(data, Mapping):
        return items if isinstance(data, list) else data
    return {**data, path[0]: _with(data[path[0]], path[1:], items) if path[1:] else items}


def next_link(header: str) -> str:
    """Return the target of `rel="next"` in a `Link` header; `NO_LINK` if there are only other links, "" if there are none."""
    found = [(target, attributes) for target, attributes in _LINK.findall(header[:16_384])]
    if not found:
        return ""
    return next((target for target, attributes in found if _NEXT.search(attributes)), NO_LINK)


def _origin(url: str) -> tuple[str, str, int]:
    """Return the origin of a URL (RFC 6454, section 4). Raises `ValueError` and `KeyError` if it has none."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("no host")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
