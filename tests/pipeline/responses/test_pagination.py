"""Paging styles, recognised from a tool's parameters, and what they make of answers, also of hostile ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.connectors.http.bindings import binding, call, parameter
from toolgen.model.tool import Tool, seal
from toolgen.pipeline.responses.pagination import NO_LINK, joined, next_link, paging_of

INTEGER = {"type": "integer"}


def tool(**parameters: dict[str, Any]) -> Tool:
    bound = binding(*(parameter("query", name=name) for name in parameters), servers=("https://api.test/v1",))
    return seal(msgspec.structs.replace(call(bound).tool, input_schema={"type": "object", "properties": parameters}))


ITEM = [{"id": "a"}, {"id": "b"}]
TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("parameters", "arguments", "data", "link", "changes"),
    [
        # Cursors and tokens, wherever an API keeps them.
        ({"cursor": TEXT}, {}, {"items": ITEM, "next_cursor": "n1"}, "", {"cursor": "n1"}),
        ({"pageToken": TEXT}, {}, {"items": ITEM, "nextPageToken": "n1"}, "", {"pageToken": "n1"}),
        ({"cursor": TEXT}, {}, {"items": ITEM, "response_metadata": {"next_cursor": "n1"}}, "", {"cursor": "n1"}),
        (
            {"after": TEXT},
            {},
            {"results": ITEM, "paging": {"next": {"after": "9"}, "cursors": {"after": "8"}}},
            "",
            {"after": "8"},
        ),
        ({"cursor": TEXT}, {}, {"items": ITEM, "next_cursor": ""}, "", None),
        ({"cursor": TEXT}, {}, {"items": ITEM, "next_cursor": None}, "", None),
        ({"cursor": TEXT}, {}, {"items": ITEM, "next_cursor": "n1", "has_more": False}, "", None),
        ({"cursor": TEXT}, {"cursor": "n1"}, {"items": ITEM, "next_cursor": "n1"}, "", None),
        ({"starting_after": TEXT, "limit": INTEGER}, {}, {"data": ITEM, "has_more": True}, "", {"starting_after": "b"}),
        ({"starting_after": TEXT}, {}, {"data": ITEM, "has_more": False}, "", None),
        # Numbered pages.
        ({"page": INTEGER}, {}, ITEM, "", {"page": 2}),
        ({"page": INTEGER}, {"page": 4}, {"items": ITEM}, "", {"page": 5}),
        ({"page": {**INTEGER, "default": 0}}, {}, ITEM, "", {"page": 1}),
        ({"page": INTEGER, "per_page": {**INTEGER, "default": 2}}, {}, ITEM, "", {"page": 2}),
        ({"page": INTEGER, "per_page": INTEGER}, {"per_page": 3}, ITEM, "", None),
        ({"page": INTEGER}, {}, [], "", None),
        ({"page": INTEGER}, {}, {"items": ITEM, "total_pages": 1}, "", None),
        ({"page": INTEGER}, {}, ITEM, NO_LINK, None),
        # Offsets.
        ({"offset": INTEGER, "limit": INTEGER}, {"limit": 2}, ITEM, "", {"offset": 2}),
        ({"offset": INTEGER, "limit": INTEGER}, {"limit": 2, "offset": 4}, ITEM, "", {"offset": 6}),
        ({"offset": INTEGER, "limit": INTEGER}, {"limit": 5}, ITEM, "", None),
        ({"offset": INTEGER}, {}, {"items": ITEM, "total": 2}, "", None),
        # Links, of which only the tool's own paging parameters are taken.
        ({"page": INTEGER}, {}, ITEM, "https://api.test/v1/other?page=7&admin=1", {"page": 7}),
        ({"page": INTEGER}, {}, ITEM, "/v1/e?page=2", {"page": 2}),
        ({"page": INTEGER}, {}, {"items": ITEM, "next": "https://api.test/v1/e?page=3"}, "", {"page": 3}),
        (
            {"cursor": TEXT},
            {},
            {"items": ITEM, "_links": {"next": {"href": "/v1/e?cursor=x%2Fy"}}},
            "",
            {"cursor": "x/y"},
        ),
        (
            {"$skiptoken": TEXT},
            {},
            {"value": ITEM, "@odata.nextLink": "https://api.test/v1/e?$skiptoken=s"},
            "",
            {"$skiptoken": "s"},
        ),
        ({"from": {**INTEGER, "minimum": 0}, "size": INTEGER}, {"size": 1}, {"hits": ITEM}, "", {"from": 2}),
        ({"start": {**INTEGER, "default": 0}}, {}, {"values": ITEM}, "", {"start": 2}),
        # A stranger's URL leads nowhere.
        ({"cursor": TEXT}, {}, {"items": ITEM}, "https://evil.test/v1/e?cursor=x", None),
        ({"cursor": TEXT}, {}, {"items": ITEM, "next": "http://api.test/v1/e?cursor=x"}, "", None),
        ({"cursor": TEXT}, {}, {"items": ITEM, "next": "//evil.test/?cursor=x"}, "", None),
        ({"cursor": TEXT}, {}, {"items": ITEM, "next": "http://169.254.169.254/?cursor=x"}, "", None),
        ({"cursor": TEXT}, {}, {"items": ITEM, "next": "http://[bad"}, "", None),
        ({"cursor": TEXT}, {}, {"items": ITEM, "next_cursor": "x" * 5000}, "", None),
        ({"cursor": TEXT}, {}, {"items": ITEM, "next_cursor": ["x"]}, "", None),
        ({"cursor": TEXT}, {}, "text", "", None),
        ({"cursor": TEXT}, {}, None, "", None),
    ],
)
def test_the_next_page_is_asked_for_as_its_style_says(
    parameters: dict[str, Any], arguments: dict[str, Any], data: Any, link: str, changes: Any
) -> None:
    paging = paging_of(tool(**parameters))
    assert paging is not None
    assert paging.following(arguments, data, link) == changes


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"q": TEXT},
        {"limit": INTEGER},
        {"start": TEXT},
        {"from": {"type": "string", "format": "date"}},
        # Moments and sizes that are numbers: a page further would be another question.
        {"from": INTEGER, "to": INTEGER, "limit": INTEGER},
        {"start": INTEGER, "end": INTEGER},
        {"first": INTEGER},
    ],
)
def test_a_tool_without_such_parameters_has_no_pages(parameters: dict[str, Any]) -> None:
    assert paging_of(tool(**parameters)) is None


@pytest.mark.parametrize(
    ("header", "target"),
    [
        (
            '<https://api.test/e?page=2>; rel="next", <https://api.test/e?page=9>; rel="last"',
            "https://api.test/e?page=2",
        ),
        ('<https://api.test/e?page=1>; rel="prev"', NO_LINK),
        ("</e?page=2>;rel=next", "/e?page=2"),
        ('</e?a=1,2>; title="a, b"; rel="prefetch next"', "/e?a=1,2"),
        ('</e>; rel="nextish"', NO_LINK),
        ('</e>; rel="previous"; title="next"', NO_LINK),
        ("", ""),
        ("no link at all", ""),
        ("<" * 20_000, ""),
    ],
)
def test_the_link_header_is_read_as_rfc_8288_writes_it(header: str, target: str) -> None:
    assert next_link(header) == target


def test_pages_become_one_whose_frame_is_the_last_ones() -> None:
    assert joined([[1], [2, 3]]) == [1, 2, 3]
    pages = [{"data": {"list": [1]}, "next": "a"}, {"data": {"list": [2]}, "next": None}]
    assert joined(pages) == {"data": {"list": [1, 2]}, "next": None}
