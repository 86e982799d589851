"""A GraphQL service on loopback, written with Ariadne: errors, nulls, unions, pages, throttling, uploads and subscriptions."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from ariadne import (
    InterfaceType,
    MutationType,
    ObjectType,
    QueryType,
    SubscriptionType,
    UnionType,
    gql,
    make_executable_schema,
    upload_scalar,
)
from ariadne.asgi import GraphQL
from ariadne.asgi.handlers import GraphQLTransportWSHandler
from ariadne.contrib.sse import GraphQLHTTPSSEHandler
from graphql import GraphQLError

SDL = """
schema { query: Reads mutation: Writes subscription: Feed }
scalar Upload
scalar Price
enum Shelf { FICTION SCIENCE }
input BookFilter { shelf: Shelf, anyOf: [BookFilter!], before: Int = 2000 }
input BookBy @oneOf { id: ID, title: String }
"Anything on the shelves."
union Item = Book | Film
type Book { id: ID! title: String! shelf: Shelf pages: Int isbn: String secret: String
  similar(first: Int = 2): BookConnection! reads: Reads! excerpt(length: Int!): String }
type Film { id: ID! title: String! minutes: Int pages: [String!] }
type PageInfo { hasNextPage: Boolean! endCursor: String }
type BookEdge { cursor: String! node: Book! }
type BookConnection { edges: [BookEdge!]! pageInfo: PageInfo! }
type Shelfmark { label: String count: Int }
type Stored { bytes: Int! names: [String!]! note: String }
interface Kept { id: ID! hidden: String }
union Anything = Book | Reads
type Reads implements Kept {
  id: ID!
  kept(id: ID!): Kept
  anything: Anything
  whole: Reads!
  several(ids: [ID!]): [Book!]!
  priced(at: Price): Book
  "One book."
  book(by: BookBy!): Book
  books(filter: BookFilter, first: Int, after: String): BookConnection!
  items: [Item!]!
  marks: [Shelfmark!]!
  crowded: Int
  echo(value: String): String
  hidden: String
}
type Writes { addBook(title: String!): Book removeBook(id: ID!): Book store(file: Upload!, more: [Upload!], note: String): Stored }
type Feed { added(count: Int! = 3, pause: Float! = 0): Book! broken: Int! }
"""

BOOKS = [
    {"id": str(n), "title": f"Book {n}", "shelf": "FICTION", "pages": 100 + n, "isbn": None, "secret": f"s{n}"}
    for n in range(1, 8)
]
query, mutation, feed, item = QueryType(), MutationType(), SubscriptionType(), UnionType("Item")
kept_type, anything_type = InterfaceType("Kept"), UnionType("Anything")
query.name, mutation.name, feed.name = "Reads", "Writes", "Feed"


def page(first: int | None, after: str | None) -> dict[str, Any]:
    start = int(after or 0)
    found = BOOKS[start : start + (3 if first is None else first)]
    end = start + len(found)
    return {
        "edges": [{"cursor": book["id"], "node": book} for book in found],
        "pageInfo": {"hasNextPage": end < len(BOOKS), "endCursor": str(end)},
    }


@query.field("book")
def book(*_: Any, by: dict[str, str]) -> Any:
    [(key, value)] = by.items()
    return next((one for one in BOOKS if one[key] == value), None)


@query.field("books")
def books(*_: Any, first: int | None = None, after: str | None = None, **_more: Any) -> Any:
    return page(first, after)


@query.field("items")
def items(*_: Any) -> Any:
    return [{**BOOKS[0], "kind": "Book"}, {"id": "f1", "title": "Film", "minutes": 90, "pages": None, "kind": "Film"}]


@query.field("marks")
def marks(*_: Any) -> Any:
    def fail(*_: Any) -> int:
        raise GraphQLError("counter stopped")

    return [{"label": "A", "count": 1}, {"label": None, "count": fail}]


@query.field("crowded")
def crowded(*_: Any) -> Any:
    raise GraphQLError("Throttled", extensions={"code": "THROTTLED"})


@query.field("echo")
def echo(*_: Any, value: str | None = None) -> str | None:
    return value


@query.field("id")
def identity(*_: Any) -> str:
    return "reads"


@query.field("kept")
def kept(*_: Any, **__: Any) -> Any:
    return {"kind": "Reads"}


@query.field("anything")
def anything(*_: Any) -> Any:
    return {"kind": "Reads"}


@query.field("several")
def several(*_: Any, ids: list[str] | None = None) -> Any:
    return [one for one in BOOKS if one["id"] in (ids or ())]


@query.field("whole")
def whole(*_: Any) -> Any:
    return {}


@query.field("hidden")
def hidden(*_: Any) -> str:
    return "hidden"


@mutation.field("addBook")
def add_book(*_: Any, title: str) -> Any:
    WRITTEN.append(title)
    return {**BOOKS[0], "title": title}


@mutation.field("removeBook")
def remove_book(*_: Any, **given: str) -> Any:
    WRITTEN.append(given["id"])
    return BOOKS[0]


@mutation.field("store")
async def store(*_: Any, file: Any, more: Any = None, note: str | None = None) -> Any:
    files = [file, *(more or [])]
    sizes = [len(await one.read()) for one in files]
    names = [one.filename for one in files]
    for one in files:
        await one.close()
    return {"bytes": sum(sizes), "names": names, "note": note}


@feed.source("added")
async def added(*_: Any, count: int = 3, pause: float = 0) -> AsyncIterator[Any]:
    for number in range(count):
        yield {**BOOKS[number % len(BOOKS)]}
        if pause:
            await asyncio.Event().wait()


@feed.field("added")
def added_book(value: Any, *_: Any, **__: Any) -> Any:
    return value


@feed.source("broken")
async def broken(*_: Any) -> AsyncIterator[Any]:
    yield {"broken": None}


@anything_type.type_resolver
@kept_type.type_resolver
@item.type_resolver
def item_type(value: Any, *_: Any) -> str:
    return str(value["kind"])


WRITTEN: list[str] = []


def application(*, introspection: bool = True) -> GraphQL:
    similar = ObjectType("Book")
    similar.set_field("similar", lambda *_, first=2: page(first, None))
    similar.set_field("reads", lambda *_: {})
    schema = make_executable_schema(
        gql(SDL), query, mutation, feed, item, kept_type, anything_type, similar, upload_scalar
    )
    return GraphQL(
        schema,
        introspection=introspection,
        http_handler=GraphQLHTTPSSEHandler(),
        websocket_handler=GraphQLTransportWSHandler(),
    )


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The origin of a service that runs in a thread as long as this is open."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="off", ws="websockets-sansio", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
