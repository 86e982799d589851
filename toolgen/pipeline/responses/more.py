"""Remaining items after a part of a list, and how to read them: HTTP pages, GraphQL connections, rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from toolgen.model.result import More, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool
from toolgen.pipeline.responses.choice import located, replaced
from toolgen.pipeline.responses.pagination import NO_LINK, Paging, has_more, items_of, next_link, told_of, total_of

__all__ = ["has_cursor", "joined_lists", "more_behind", "more_of_page"]

_MAX_DEPTH: Final = 6
_ROWS: Final = (
    "ORDER BY gives a cursor for the next rows, and with LIMIT the largest or smallest of all; "
    "use count, sum or GROUP BY if you only need numbers"
)


def more_of_page(paging: Paging, arguments: JsonObject, page: Success, before: int = 0) -> More | None:
    """Return the items after a page, before which `before` items were read, or None if nothing indicates another page."""
    link = next_link(page.delivery.link)
    changes = paging.following(arguments, page.data, link)
    if not changes:
        return None
    told, items = told_of(page.data), items_of(page.data)[1]
    total = page.delivery.total if page.delivery.total is not None else total_of(told)
    begin = paging.begin(arguments)
    read = None if begin is None and not before else len(items) + (before or begin or 0)
    if total is not None and read is not None and read >= total:
        return None
    sure = link not in ("", NO_LINK) or has_more(told) or bool(paging.cursor) or bool(paging.next)
    if not sure and not (total is not None and read is not None):
        wanted = paging.wanted(arguments)
        if wanted is None or len(items) < wanted:
            return None
        return More(arguments=changes, read=read, possible=True)
    return More(arguments=changes, read=read, total=total)


def has_cursor(tool: Tool) -> bool:
    """Return True for a tool of GraphQL or SQL with an argument that takes the cursor of the next items."""
    properties = tool.input_schema.get("properties")
    if not isinstance(properties, Mapping):
        return False
    cursor = tool.binding.cursor_argument
    return bool(cursor) and cursor in properties


def joined_lists(pages: Sequence[Json]) -> Json:
    """Return the items of all pages in the list of the last one. Each page has one list (`located`)."""
    lists = [found for page in pages if (found := located(page)) is not None]
    items = [item for _, items in lists for item in items]
    return replaced(pages[-1], lists[-1][0], items)


def more_behind(
    tool: Tool, result: Success, arguments: JsonObject = MappingProxyType({}), before: int = 0
) -> More | None:
    """Return the items after an answer that has a cursor or was cut to a number of rows, before which `before` items were read.

    If the arguments contain a cursor, the number of items that were read before is unknown.
    """
    more = _behind(tool, result)
    if more is None or more.read is None or more.arguments is None:
        return more
    begun = not arguments.keys().isdisjoint(more.arguments)
    return msgspec.structs.replace(more, read=more.read + before if before or not begun else None)


def _behind(tool: Tool, result: Success) -> More | None:
    cursor = tool.binding.cursor_argument
    if tool.asks_database and result.next_cursor:
        total = result.delivery.total
        read = result.delivery.rows if total is None else None
        return More(arguments={cursor: result.next_cursor}, read=read, total=total)
    if tool.asks_database and result.truncated:
        return More(read=result.delivery.rows, advice=_ROWS)
    if cursor and result.next_cursor:
        total, shown = _counted(result.data, 0)
        return More(arguments={cursor: result.next_cursor}, read=shown, total=total)
    return None


def _counted(data: Json, depth: int) -> tuple[int | None, int | None]:
    """Return the total that a connection states, and its number of items, for the first connection that is found."""
    if not isinstance(data, Mapping) or depth > _MAX_DEPTH:
        return None, None
    shown = next((len(items) for name in ("edges", "nodes") if isinstance(items := data.get(name), list)), None)
    if shown is not None:
        return total_of(told_of(data)), shown
    for item in data.values():
        found = _counted(item, depth + 1)
        if found != (None, None):
            return found
    return None, None
