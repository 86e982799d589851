"""Four services on loopback that answer in pages, each in the way of one that people know, for `bench.agent_tasks`."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

_RANDOM = random.Random(7)
_WORDS = (
    "red",
    "green",
    "blue",
    "small",
    "large",
    "round",
    "fast",
    "slow",
    "quiet",
    "loud",
    "warm",
    "cold",
    "early",
    "late",
    "plain",
)


def _text(words: int) -> str:
    return " ".join(_RANDOM.choice(_WORDS) for _ in range(words))


def _items(count: int, **fields: Callable[[int], Any]) -> list[dict[str, Any]]:
    return [{name: made(number) for name, made in fields.items()} for number in range(1, count + 1)]


ARTIFACTS = _items(
    260,
    id=lambda number: number,
    node_id=lambda number: f"MDg6QXJ0aWZhY3Q{number:08}",
    name=lambda _: _text(2).replace(" ", "-"),
    size_in_bytes=lambda _: _RANDOM.randrange(10**8),
    url=lambda number: f"https://api.github.com/repos/octo/app/actions/artifacts/{number}",
    archive_download_url=lambda number: f"https://api.github.com/repos/octo/app/actions/artifacts/{number}/zip",
    expired=lambda _: False,
    created_at=lambda number: f"2026-01-{number % 28 + 1:02}T10:00:00Z",
)
ISSUES = _items(
    95,
    id=lambda number: 9000 + number,
    number=lambda number: number,
    title=lambda _: _text(6),
    state=lambda _: "open",
    comments=lambda _: _RANDOM.randrange(60),
    user=lambda _: {"login": _RANDOM.choice(_WORDS), "id": 1, "type": "User"},
    body=lambda _: _text(60),
    html_url=lambda number: f"https://github.com/octo/app/issues/{number}",
)
BRANCHES = _items(
    120,
    name=lambda number: f"feature/{number}",
    commit=lambda number: {
        "sha": f"{number:040x}",
        "url": f"https://api.github.com/repos/octo/app/commits/{number:040x}",
    },
    protected=lambda _: False,
)
CHARGES = _items(
    210,
    id=lambda number: f"ch_{number:04}",
    object=lambda _: "charge",
    amount=lambda _: _RANDOM.randrange(100, 10**6),
    currency=lambda _: "usd",
    paid=lambda _: True,
    description=lambda _: _text(12),
    billing_details=lambda _: {
        "email": "a@example.com",
        "name": _text(2),
        "address": {"city": "Oslo", "country": "NO"},
    },
)
TRACKS = _items(
    130,
    added_at=lambda number: f"2026-02-{number % 28 + 1:02}T08:00:00Z",
    track=lambda number: {
        "id": f"t{number}",
        "name": _text(3),
        "popularity": _RANDOM.randrange(1000),
        "duration_ms": 200_000,
        "artists": [{"id": "a1", "name": _text(2), "href": "https://api.spotify.com/v1/artists/a1"}],
        "album": {"id": "b1", "name": _text(3), "images": [{"url": "https://i.scdn.co/image/1", "height": 640}]},
    },
)
ORDERS = _items(
    130,
    id=lambda number: f"o{number}",
    code=lambda number: f"B{number:06}",
    state=lambda number: "APPROVED" if number % 3 else "SUBMITTED",
    buyerTotalCents=lambda _: _RANDOM.randrange(10**7),
    currencyCode=lambda _: "USD",
    createdAt=lambda _: "2026-03-01T00:00:00Z",
    sellerId=lambda number: f"s{number % 9}",
)
TOTALS = {number: _RANDOM.randrange(10**6) / 100 for number in range(1, 401)}


class Upstream(BaseHTTPRequestHandler):
    """The four services, in pages of their own sizes."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None: ...

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
        parts = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        data, link = self._data(parts.path, asked, body)
        content = b"" if data is None else json.dumps(data).encode()
        self.send_response(200 if content else 204)
        if link:
            self.send_header("link", link)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _answer  # noqa: N815 - the library's names

    def _data(self, path: str, asked: Mapping[str, str], body: str) -> tuple[Any, str]:
        if path.endswith("/graphql"):
            return _graphql(json.loads(body)), ""
        if self.command != "GET":
            return ({"id": "new_1", "status": "ok"} if self.command == "POST" else None), ""
        if path.endswith("/artifacts"):
            page, link = self._numbered(ARTIFACTS, asked)
            return {"total_count": len(ARTIFACTS), "artifacts": page}, link
        if path.endswith("/issues"):
            return self._numbered(ISSUES, asked)
        if path.endswith("/branches"):
            return self._numbered(BRANCHES, asked)
        if path.endswith("/charges"):
            after = asked.get("starting_after", "")
            begin = next((place for place, one in enumerate(CHARGES, 1) if one["id"] == after), 0)
            page = CHARGES[begin : begin + min(int(asked.get("limit", 10)), 100)]
            return {
                "object": "list",
                "data": page,
                "has_more": begin + len(page) < len(CHARGES),
                "url": "/v1/charges",
            }, ""
        if path.endswith("/me/tracks"):
            begin, size = int(asked.get("offset", 0)), min(int(asked.get("limit", 20)), 50)
            following = f"{self._base}/me/tracks?offset={begin + size}&limit={size}"
            return {
                "href": "x",
                "items": TRACKS[begin : begin + size],
                "limit": size,
                "next": following if begin + size < len(TRACKS) else None,
                "offset": begin,
                "total": len(TRACKS),
            }, ""
        return {}, ""

    @property
    def _base(self) -> str:
        return f"http://{self.headers['host']}"

    def _numbered(self, items: list[dict[str, Any]], asked: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
        page, size = int(asked.get("page", 1)), min(int(asked.get("per_page", 30)), 100)
        more = page * size < len(items)
        address = f"{self._base}{urlsplit(self.path).path}?page={page + 1}&per_page={size}"
        return items[(page - 1) * size : page * size], f'<{address}>; rel="next"' if more else ""


def _graphql(asked: Mapping[str, Any]) -> Any:
    """Answers `order` and `orders` with at most 25 a page, whatever `first` says."""
    variables, query = asked.get("variables") or {}, asked["query"]
    if not re.search(r"\borders\b", query):
        return {"data": {"order": {"__typename": "CommerceBuyOrder", **ORDERS[6]}}}
    begin = int(variables.get("after") or 0)
    page = ORDERS[begin : begin + min(variables.get("first") or 25, 25)]
    ended = begin + len(page)
    info = {"hasNextPage": ended < len(ORDERS), "endCursor": str(ended), "hasPreviousPage": False, "startCursor": "0"}
    wanted = set(re.findall(r"\w+", query))
    nodes = [{name: value for name, value in one.items() if name in wanted} for one in page]
    return {
        "data": {"orders": {"totalCount": len(ORDERS), "edges": [{"node": one} for one in nodes], "pageInfo": info}}
    }
