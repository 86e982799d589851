"""Lists of which there is more: what an answer says of the rest, for each kind of paging, through a whole gateway."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.gateway.test_long_answers import policy
from tests.services.local import LocalServer, running
from toolgen import Gateway
from toolgen.gateway.calls.answer_text import data_text
from toolgen.model.result import Envelope

TOTAL = 9
ITEMS = [{"id": f"i{number}", "size": number * 7 % 10, "secret": "s"} for number in range(TOTAL)]
_TEXT = {"in": "query", "schema": {"type": "string"}}
_LIST = {
    "type": "array",
    "items": {"type": "object", "properties": {"id": {"type": "string"}, "size": {"type": "integer"}}},
}


def _integer(default: int | None = None) -> dict[str, Any]:
    return {"in": "query", "schema": {"type": "integer", **({} if default is None else {"default": default})}}


def _get(name: str, *parameters: Any) -> dict[str, Any]:
    answer = {"description": "ok", "content": {"application/json": {"schema": _LIST}}}
    return {"get": {"operationId": name, "summary": name, "parameters": list(parameters), "responses": {"200": answer}}}


API = {
    "openapi": "3.1.0",
    "info": {"title": "Lists", "version": "1"},
    "paths": {
        "/linked": _get("listLinked", {"name": "page", **_integer(1)}),
        "/counted": _get("listCounted", {"name": "offset", **_integer(0)}, {"name": "limit", **_integer(3)}),
        "/cursors": _get("listCursors", {"name": "starting_after", **_TEXT}),
        "/sized": _get("listSized", {"name": "page", **_integer(1)}, {"name": "per_page", **_integer(3)}),
        "/plain": _get("listPlain", {"name": "page", **_integer(1)}),
        "/whole": _get("listWhole"),
    },
}


@contextmanager
def upstream() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            body, headers = self.page(parts.path, asked)
            data = json.dumps(body).encode()
            self.send_response(200)
            for name, value in {
                "content-type": "application/json",
                "content-length": str(len(data)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def page(self, path: str, asked: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
            size, number = int(asked.get("limit", asked.get("per_page", 3))), int(asked.get("page", 1))
            items = ITEMS[(number - 1) * size : number * size]
            match path:
                case "/linked":
                    more = {"link": f'<http://{self.headers["host"]}/linked?page={number + 1}>; rel="next"'}
                    return items, {
                        "x-total-count": str(TOTAL),
                        **(more if number * size < TOTAL else {"link": '</>; rel="first"'}),
                    }
                case "/counted":
                    begin = int(asked.get("offset", 0))
                    return {"items": ITEMS[begin : begin + size], "total": TOTAL}, {}
                case "/cursors":
                    ids = [one["id"] for one in ITEMS]
                    begin = ids.index(asked["starting_after"]) + 1 if "starting_after" in asked else 0
                    return {"data": ITEMS[begin : begin + 4], "has_more": begin + 4 < TOTAL}, {}
                case "/whole":
                    return ITEMS, {}
                case _:
                    return items, {}

    server = LocalServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield server.url


async def answered(root: Path, name: str, *asked: dict[str, Any]) -> list[Envelope]:
    (root / "lists.json").write_text(json.dumps(API), encoding="utf-8")
    policy(root, redact=[{"tools": ["*"], "fields": ["$..secret"], "with": "[hidden]"}])

    with upstream() as url:
        settings = {"sources": {"lists": {"openapi": "lists.json", "server": url}}}
        (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
        async with Gateway.load(root / "toolgen.yaml") as gateway:
            return [await gateway.call(f"lists__{name}", one, principal="bot") for one in asked]


@pytest.mark.parametrize(
    ("name", "first", "then", "said"),
    [
        ("list_linked", {}, {"page": 2}, "(3 of 9 so far)"),
        ("list_linked", {"page": 2}, {"page": 3}, "(9 in all)"),
        ("list_counted", {}, {"offset": 3}, "(3 of 9 so far)"),
        ("list_counted", {"offset": 3}, {"offset": 6}, "(6 of 9 so far)"),
        ("list_cursors", {}, {"starting_after": "i3"}, "There is more;"),
        ("list_cursors", {"starting_after": "i3"}, {"starting_after": "i7"}, "There is more;"),
        ("list_sized", {}, {"page": 2}, "There may be more;"),
        ("list_linked", {"answer": {"pages": 2}}, {"page": 3}, "(6 of 9 so far)"),
        ("list_counted", {"answer": {"pages": 2, "fields": ["items.id"]}}, {"offset": 6}, "(6 of 9 so far)"),
    ],
)
async def test_a_list_of_which_there_is_more_says_how_to_read_on(
    tmp_path: Path, name: str, first: dict[str, Any], then: dict[str, Any], said: str
) -> None:
    (envelope,) = await answered(tmp_path, name, first)
    assert envelope.meta.more is not None
    assert envelope.meta.more.arguments == then
    text = data_text(envelope)
    assert said in text
    assert f"read on with {json.dumps(then, separators=(',', ':'))} (answer.pages reads several pages at once)." in text
    meta: Any = envelope.to_dict()["meta"]
    assert meta["more"]["arguments"] == then


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list_linked", {"page": 3}),
        ("list_linked", {"answer": {"pages": 3}}),
        ("list_linked", {"answer": {"pages": 20}}),
        ("list_counted", {"offset": 6}),
        ("list_cursors", {"starting_after": "i7"}),
        ("list_sized", {"page": 4}),
        ("list_plain", {}),
        ("list_whole", {}),
    ],
)
async def test_the_last_page_and_what_nobody_counts_say_nothing(
    tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    (envelope,) = await answered(tmp_path, name, arguments)
    assert envelope.status == "ok"
    assert envelope.meta.more is None
    assert "[There" not in data_text(envelope)
    assert "more" not in envelope.to_dict()["meta"]  # type: ignore[operator]


async def test_the_largest_of_all_pages_is_had_in_one_call(tmp_path: Path) -> None:
    asked = {"answer": {"pages": 20, "sort": "-size", "top": 1, "fields": ["id", "size", "secret"]}}
    (envelope,) = await answered(tmp_path, "list_linked", asked)
    assert envelope.data == [{"id": "i7", "size": 9, "secret": "[hidden]"}]
    assert "1 of 9 items that were read is shown." in data_text(envelope)
    (first,) = await answered(tmp_path, "list_linked", {"answer": {"where": ["size > 3"], "top": 1}})
    assert "1 of 2 matching items among 3 that were read is shown. There is more" in data_text(first)


async def test_what_is_hidden_is_hidden_from_conditions_too(tmp_path: Path) -> None:
    (none, masked) = await answered(
        tmp_path, "list_whole", {"answer": {"where": ["secret = s"]}}, {"answer": {"where": ["secret = [hidden]"]}}
    )
    assert none.data == []
    assert isinstance(masked.data, list)
    assert len(masked.data) == TOTAL


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"fields": ["sise", "owner.name"]},
            "answer.fields: the answer has none of these; it has: id, size, secret",
        ),
        ({"sort": "-sise"}, "no item has 'sise'; paths of the items: id, size, secret"),
        ({"where": ["sise > 3"]}, "no item has 'sise'; paths of the items: id, size, secret"),
    ],
)
async def test_options_that_fit_nothing_are_an_error_with_the_paths_there_are(
    tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    (envelope,) = await answered(tmp_path, "list_whole", {"answer": options})
    assert envelope.error is not None
    assert envelope.error.code == "validation"
    assert said in envelope.error.message
    assert envelope.data is None


async def test_options_that_are_none_are_refused_before_the_call(tmp_path: Path) -> None:
    for options in ({"where": ["size"]}, {"top": 0}, {"sort": 5}, {"order": "x"}):
        (envelope,) = await answered(tmp_path, "list_whole", {"answer": options})
        assert envelope.status == "refused"


async def rows_of(root: Path, *asked: dict[str, Any]) -> list[Envelope]:
    with contextlib.closing(sqlite3.connect(root / "c.db")) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL)")
        database.executemany("INSERT INTO orders VALUES (?, ?)", [(number, number * 7 % 10) for number in range(1, 10)])
    tables = {"orders": {"columns": ["id", "total"]}}
    policy(root, redact=[], sql={"c": {"tables": tables, "max_rows": 4}})
    settings = {"sources": {"c": {"sql": f"sqlite:///{root / 'c.db'}"}}}
    (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")

    async with Gateway.load(root / "toolgen.yaml") as gateway:
        return [await gateway.call("c__query", one, principal="bot") for one in asked]


async def test_rows_beyond_the_maximum_are_told_with_a_cursor_or_with_what_gives_one(tmp_path: Path) -> None:
    cut, ordered, last, top = await rows_of(
        tmp_path,
        {"sql": "SELECT id, total FROM orders"},
        {"sql": "SELECT id, total FROM orders ORDER BY id"},
        {"sql": "SELECT id, total FROM orders WHERE id < 4"},
        {"sql": "SELECT id, total FROM orders ORDER BY id", "answer": {"sort": "-total", "top": 1}},
    )
    assert cut.meta.more is not None
    assert "more rows than the 4 that were read: ORDER BY gives a cursor" in data_text(cut)
    assert ordered.meta.more is not None
    assert ordered.meta.more.arguments == {"cursor": ordered.meta.next_cursor}
    assert "There is more; read on with" in data_text(ordered)
    assert last.meta.more is None
    assert isinstance(top.data, Mapping)
    assert top.data["rows"] == [[4, 8.0]]
    assert "1 of 4 items that were read is shown. There is more; read on with" in data_text(top)


async def test_rows_of_several_pages_are_read_in_one_call(tmp_path: Path) -> None:
    ordered = "SELECT id, total FROM orders ORDER BY id"
    whole, two, top, unordered = await rows_of(
        tmp_path,
        {"sql": ordered, "answer": {"pages": 20}},
        {"sql": ordered, "answer": {"pages": 2}},
        {"sql": ordered, "answer": {"pages": 20, "sort": "-total", "top": 1}},
        {"sql": "SELECT id, total FROM orders", "answer": {"pages": 20}},
    )
    for envelope, rows in ((whole, 9), (two, 8), (unordered, 4)):
        assert isinstance(envelope.data, Mapping)
        assert [row[0] for row in envelope.data["rows"]] == list(range(1, rows + 1))
        assert envelope.data["row_count"] == rows
    assert (whole.meta.more, whole.meta.truncated, whole.meta.next_cursor) == (None, False, "")
    assert two.meta.more is not None
    assert two.meta.more.arguments == {"cursor": two.meta.next_cursor}
    assert two.meta.more.option == "answer"
    assert isinstance(top.data, Mapping)
    assert top.data["rows"] == [[7, 9.0]]
    assert "1 of 9 items that were read is shown." in data_text(top)


async def test_a_column_that_no_row_has_is_an_error_with_the_columns_there_are(tmp_path: Path) -> None:
    sql = "SELECT id, total FROM orders"
    where, sort = await rows_of(
        tmp_path,
        {"sql": sql, "answer": {"where": ["totl > 1"]}},
        {"sql": sql, "answer": {"sort": "-totl"}},
    )
    for envelope in (where, sort):
        assert envelope.error is not None
        assert all(name in envelope.error.message for name in ("totl", "id, total"))


_SDL = """
type Query { orders(first: Int, after: String): OrderConnection! }
type OrderConnection { totalCount: Int!, edges: [OrderEdge!]!, pageInfo: PageInfo! }
type OrderEdge { cursor: String!, node: Order! }
type Order { id: ID!, cents: Int! }
type PageInfo { hasNextPage: Boolean!, endCursor: String }
"""


@contextmanager
def connection(*, fails_at: int = TOTAL, stands_at: int = TOTAL) -> Iterator[tuple[str, list[Any]]]:
    """A GraphQL service with pages of three. It fails behind `fails_at`; its cursor leads to the same page again behind `stands_at`."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            begin = int((asked.get("variables") or {}).get("after") or 0)
            seen.append(begin)
            edges = [{"node": {"id": f"o{at}", "cents": at * 7 % 10}} for at in range(begin, min(begin + 3, TOTAL))]
            end = min(begin + 3, stands_at)
            info = {"hasNextPage": end < TOTAL, "endCursor": str(end)}
            found: Any = {"data": {"orders": {"totalCount": TOTAL, "edges": edges, "pageInfo": info}}}
            if begin >= fails_at:
                found = {"data": None, "errors": [{"message": "out of order"}]}
            data = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    server = LocalServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield server.url, seen


async def orders_of(root: Path, url: str, **asked: Any) -> tuple[Envelope, Any]:
    policy(root, redact=[])
    (root / "g.graphql").write_text(_SDL, encoding="utf-8")
    settings = {"sources": {"g": {"graphql": "g.graphql", "endpoint": f"{url}/graphql"}}}
    (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")

    async with Gateway.load(root / "toolgen.yaml") as gateway:
        (tool,) = [one for one in gateway.tool_calls.catalog(gateway.principal("bot")) if one.name == "g__list_orders"]
        envelope = await gateway.call("g__list_orders", asked, principal="bot")
        return envelope, tool.input_schema["properties"]["answer"]["properties"]


async def test_a_connection_is_read_to_its_end_in_one_call(tmp_path: Path) -> None:
    with connection() as (url, seen):
        envelope, options = await orders_of(tmp_path, url, answer={"pages": 20, "sort": "-node.cents", "top": 1})
    assert "pages" in options
    assert seen == [0, 3, 6]
    assert [one["node"]["id"] for one in envelope.data["orders"]["edges"]] == ["o7"]
    assert "1 of 9 items that were read is shown." in data_text(envelope)
    assert envelope.meta.more is not None
    assert envelope.meta.more.arguments is None
    assert envelope.meta.next_cursor == ""


async def test_a_connection_of_more_pages_than_were_asked_for_says_where_it_goes_on(tmp_path: Path) -> None:
    with connection() as (url, seen):
        two, _ = await orders_of(tmp_path, url, answer={"pages": 2})
        later, _ = await orders_of(tmp_path, url, after="3")
    assert seen == [0, 3, 3]
    assert [one["node"]["id"] for one in two.data["orders"]["edges"]] == [f"o{number}" for number in range(6)]
    assert two.meta.more is not None
    assert (two.meta.more.arguments, two.meta.more.read, two.meta.more.total) == ({"after": "6"}, 6, TOTAL)
    assert '(6 of 9 so far); read on with {"after":"6"} (answer.pages reads several pages at once)' in data_text(two)
    assert "There is more (9 in all);" in data_text(later), "how many came before the cursor is not known"


async def test_a_page_that_fails_ends_a_connection_with_where_it_goes_on(tmp_path: Path) -> None:
    with connection(fails_at=6) as (url, seen):
        envelope, _ = await orders_of(tmp_path, url, answer={"pages": 20})
    assert seen[:3] == [0, 3, 6]
    assert len(envelope.data["orders"]["edges"]) == 6
    assert envelope.meta.truncated
    assert envelope.meta.more is not None
    assert envelope.meta.more.arguments == {"after": "6"}


async def test_a_cursor_that_leads_to_its_own_page_is_followed_once(tmp_path: Path) -> None:
    with connection(stands_at=3) as (url, seen):
        await orders_of(tmp_path, url, answer={"pages": 20})
    assert seen == [0, 3]
