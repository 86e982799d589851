from __future__ import annotations

import json
import socket
from typing import Any

import msgspec
import pytest

from tests.gateway.gateways import BOT, OTHER, PET, TOOLS, FakeGateway, tool
from toolgen.gateway.calls.json_body import Malformed
from toolgen.gateway.catalog.tool_lists import LISTED, STATELESS, WITH_TASKS, Listings, ToolListing, ToolPage


def shown(page: ToolPage) -> Any:
    """The tools of a page as JSON has them."""
    return msgspec.json.decode(msgspec.json.encode(page.tools))


@pytest.mark.parametrize("form", sorted(LISTED))
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_follow_each_other_without_a_gap_or_a_repeat(form: str, limit: int) -> None:
    listing = ToolListing(TOOLS)
    seen, cursor = [], ""
    while True:
        page = listing.page(form, cursor=cursor, limit=limit)
        tools = shown(page)
        assert len(tools) <= limit
        seen += tools
        cursor = page.next_cursor
        if not cursor:
            break
    assert seen == shown(listing.page(form, cursor="", limit=100))
    assert len(seen) == len(TOOLS)


def test_a_tool_added_between_two_pages_neither_repeats_nor_hides_another() -> None:
    first = ToolListing(TOOLS).page("mcp", cursor="", limit=3)
    grown = ToolListing((tool("test__a"), *TOOLS))
    rest = grown.page("mcp", cursor=first.next_cursor, limit=100)
    names = [item["name"] for item in shown(first) + shown(rest)]
    assert names == [item.name for item in TOOLS]


@pytest.mark.parametrize("cursor", ["x", "!!!", "AAAA", "L2V0Yy9wYXNzd2Q", "é"])
def test_a_made_up_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(Malformed, match="cursor"):
        ToolListing(TOOLS).page("mcp", cursor=cursor, limit=5)


def test_a_catalog_is_rendered_once_and_again_when_it_changed() -> None:
    gateway = FakeGateway()
    listings = Listings(gateway)
    first = listings.of(BOT)
    assert listings.of(BOT) is first
    gateway.tools = (*TOOLS, tool("test__zoo"))
    assert listings.of(BOT) is not first
    assert len(listings.of(BOT).tools) == len(TOOLS) + 1


def test_two_principals_never_share_a_listing_even_of_the_same_catalog() -> None:
    gateway = FakeGateway()
    listings = Listings(gateway)
    assert listings.of(OTHER) is not listings.of(BOT)
    assert listings.of(OTHER).tools == ()


def test_the_number_of_kept_listings_is_bounded() -> None:
    gateway = FakeGateway()
    listings = Listings(gateway)
    for number in range(600):
        gateway.tools = (tool(f"test__t{number}"),)
        listings.of(BOT)
    assert len(listings._kept) <= 64


@pytest.mark.parametrize(
    ("data", "fits"),
    [({"id": 1}, True), ({"id": "1"}, False), ({}, False), ([], False), (None, False), ("x", False)],
)
@pytest.mark.parametrize("form", [WITH_TASKS, STATELESS])
def test_data_is_held_against_the_output_schema(form: str, data: object, fits: bool) -> None:
    output = ToolListing((tool("test__pet", output=PET),)).output(form, "test__pet")
    assert output is not None
    assert (output.structured(data, "", lambda: "as text") == data) is fits  # type: ignore[arg-type]


def test_a_schema_that_points_to_the_network_is_not_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        remote = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        schema = {"type": "object", "properties": {"id": {"$ref": remote}}}
        listing = ToolListing((tool("test__pet", output=schema),))
        assert listing.output(WITH_TASKS, "test__pet") is None
        assert b"outputSchema" not in bytes(listing.page(WITH_TASKS, cursor="", limit=1).tools[0])
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("form", [WITH_TASKS, STATELESS])
@pytest.mark.parametrize("listed_before", [False, True])
def test_answers_are_held_to_the_output_schema_that_the_page_has(form: str, listed_before: bool) -> None:
    """Deep schemas too, and numbers to the last digit."""
    deep: dict[str, Any] = {"type": "integer", "maximum": 2**64 + 1}
    for _ in range(30):
        deep = {"type": "object", "properties": {"below": {"type": "array", "items": deep}}, "required": ["below"]}
    one = msgspec.structs.replace(tool("test__deep"), output_schema=deep, listed_output="strict")
    listing = ToolListing((one,))
    if listed_before:
        listing.page(form, cursor="", limit=1)
    output = listing.output(form, one.name)
    assert output is not None
    (shape,) = json.loads(msgspec.json.encode(listing.page(form, cursor="", limit=1).tools))
    assert shape["outputSchema"] == output.schema
