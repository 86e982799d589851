"""The sample shop's catalog: a small GraphQL service over specs/catalog.graphql, with everything in memory."""

from __future__ import annotations

import argparse
import hmac
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

import msgspec
import uvicorn
from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLObjectType,
    GraphQLSchema,
    build_schema,
    execute_sync,  # pyright: ignore[reportUnknownVariableType] - a default of its own is not typed
    parse,
    validate,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

__all__ = ["app", "main"]

SCHEMA = Path(__file__).parents[2] / "specs" / "catalog.graphql"
_MAX_BODY_SIZE = 65_536
_TOKENS = 2_000
_PAGE = 50
_MODERN, _LEGACY = "application/graphql-response+json", "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Category:
    id: str
    name: str
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    id: str
    name: str
    amount: float
    category: str
    added: str
    description: str | None = None
    stock: Mapping[str, int] = field(default_factory=dict[str, int])
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    id: str
    product: str
    rating: int
    author: str
    written: str
    text: str | None = None


Thing: TypeAlias = Category | Product | Review
Resolver: TypeAlias = Callable[..., Any]


class Catalog:
    """The data of one running service."""

    def __init__(self) -> None:
        self.categories = {one.id: one for one in _CATEGORIES}
        self.products = {one.id: one for one in _PRODUCTS}
        self.reviews = {one.id: one for one in _REVIEWS}

    def reviews_of(self, product: str) -> list[Review]:
        """Newest first."""
        found = [one for one in self.reviews.values() if one.product == product]
        return sorted(found, key=lambda one: (one.written, one.id), reverse=True)

    def find(self, id_: str) -> Thing | None:
        """Anything by its id."""
        return self.categories.get(id_) or self.products.get(id_) or self.reviews.get(id_)

    def add_review(self, *, product: str, rating: int, text: str | None, author: str) -> Review:
        """The review as it was stored."""
        number = max((int(one.removeprefix("r")) for one in self.reviews), default=0) + 1
        written = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        review = Review(id=f"r{number}", product=product, rating=rating, author=author, written=written, text=text)
        self.reviews[review.id] = review
        return review

    def delete_product(self, id_: str) -> bool:
        """Whether there was such a product."""
        self.reviews = {key: one for key, one in self.reviews.items() if one.product != id_}
        gone = self.products.pop(id_, None) is not None
        for key, one in self.products.items():
            if id_ in one.related:
                self.products[key] = replace(one, related=tuple(other for other in one.related if other != id_))
        return gone


def app(token: str) -> Starlette:
    """The service, for callers who show `token` as a bearer credential. Answers POST /graphql as GraphQL over HTTP describes."""
    schema = _schema(Catalog())
    expected = f"Bearer {token}".encode()

    async def graphql(request: Request) -> Response:
        if not hmac.compare_digest(request.headers.get("authorization", "").encode(), expected):
            return _answer(request, 401, _refusal("a bearer token is needed"), {"WWW-Authenticate": "Bearer"})
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _LEGACY:
            return _answer(request, 415, _refusal("send the request as application/json"))
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_BODY_SIZE:
                return _answer(request, 413, _refusal("the request is too large"))
        return _run(request, schema, body)

    return Starlette(routes=[Route("/graphql", graphql, methods=["POST"])])


def main() -> None:
    """`python -m examples.shop.catalog --port 8802 --token shop`"""
    parser = argparse.ArgumentParser(description="The sample shop's catalog, as a GraphQL service on loopback.")
    parser.add_argument("--port", type=int, default=8802)
    parser.add_argument(
        "--token",
        default=os.environ.get("CATALOG_TOKEN", "catalog-token"),
        help="the bearer token callers must show; $CATALOG_TOKEN by default",
    )
    options = parser.parse_args()
    uvicorn.run(app(options.token), host="127.0.0.1", port=options.port, log_level="warning")


def _run(request: Request, schema: GraphQLSchema, body: bytes) -> Response:
    try:
        asked: object = msgspec.json.decode(body)
    except ValueError:
        return _answer(request, 400, _refusal("the request is no JSON"))
    if not _is_object(asked) or not isinstance(asked.get("query"), str):
        return _answer(request, 400, _refusal("the request has no `query`"))
    variables: object = asked.get("variables") or {}
    name: object = asked.get("operationName")
    if not _is_object(variables) or not isinstance(name, str | None):
        return _answer(request, 400, _refusal("`variables` is an object and `operationName` a string"))
    try:
        document: DocumentNode = parse(asked["query"], max_tokens=_TOKENS)
    except GraphQLError as error:
        return _answer(request, 400, {"errors": [error.formatted]})
    # GraphQL over HTTP, section 6.4: a request that is not valid is 400 in the new media type and 200 in the old one.
    refused = 400 if _accepts_modern(request) else 200
    if errors := validate(schema, document):
        return _answer(request, refused, {"errors": [error.formatted for error in errors]})
    result = execute_sync(schema, document, variable_values=variables, operation_name=name)
    return _answer(request, refused if result.data is None and result.errors else 200, result.formatted)


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)  # keys of JSON are strings


def _answer(request: Request, status: int, body: object, headers: Mapping[str, str] | None = None) -> Response:
    media_type = _MODERN if _accepts_modern(request) else _LEGACY
    return Response(msgspec.json.encode(body), status, headers, f"{media_type}; charset=utf-8")


def _accepts_modern(request: Request) -> bool:
    return _MODERN in request.headers.get("accept", "")


def _refusal(message: str) -> dict[str, object]:
    return {"errors": [{"message": message}]}


def _schema(catalog: Catalog) -> GraphQLSchema:
    """The schema file with a resolver for every field that is no attribute."""
    schema = build_schema(SCHEMA.read_text(encoding="utf-8"))
    for type_name, resolvers in _resolvers(catalog).items():
        owner = schema.type_map[type_name]
        if not isinstance(owner, GraphQLObjectType):
            raise TypeError(f"{type_name} is no object type")
        for name, resolver in resolvers.items():
            owner.fields[name].resolve = resolver
    for abstract in ("Node", "SearchResult"):
        schema.type_map[abstract].resolve_type = lambda value, *_: type(value).__name__  # type: ignore[attr-defined]
    return schema


def _resolvers(catalog: Catalog) -> dict[str, dict[str, Resolver]]:
    product: dict[str, Callable[[Product, object], object]] = {
        "price": lambda one, _: {"amount": one.amount, "currency": "EUR"},
        "category": lambda one, _: catalog.categories[one.category],
        "inStock": lambda one, _: sum(one.stock.values()) > 0,
        "averageRating": lambda one, _: _average([review.rating for review in catalog.reviews_of(one.id)]),
        "addedAt": lambda one, _: one.added,
        "related": lambda one, _: [catalog.products[other] for other in one.related],
        "legacyNumber": lambda one, _: int(one.id.removeprefix("p")),
    }
    review: dict[str, Callable[[Review, object], object]] = {
        "writtenAt": lambda one, _: one.written,
        "product": lambda one, _: catalog.products[one.product],
    }

    def reviews(one: Product, _: object, first: int, after: str | None = None) -> dict[str, object]:
        return _page(catalog.reviews_of(one.id), first, after)

    def products(one: Category, _: object, first: int, after: str | None = None) -> dict[str, object]:
        return _page([other for other in catalog.products.values() if other.category == one.id], first, after)

    return {
        "Query": _queries(catalog),
        "Mutation": _mutations(catalog),
        "Product": {**product, "reviews": reviews},
        "Category": {"products": products},
        "Review": {**review},
        "WarehouseStock": {"count": _count},
    }


def _queries(catalog: Catalog) -> dict[str, Resolver]:
    def product_by(_: object, __: object, by: Mapping[str, str]) -> Product | None:
        name = by.get("name", "").casefold()
        named = next((one for one in catalog.products.values() if name and one.name.casefold() == name), None)
        return catalog.products.get(by.get("id", "")) or named

    def products(_: object, __: object, first: int, order: str, **rest: Any) -> dict[str, object]:
        found = [one for one in catalog.products.values() if _fits(one, rest.get("filter") or {})]
        match order:
            case "PRICE":
                found.sort(key=lambda one: (one.amount, one.id))
            case "NEWEST":
                found.sort(key=lambda one: (one.added, one.id), reverse=True)
            case _:
                found.sort(key=lambda one: one.name)
        return _page(found, first, rest.get("after"))

    def search(_: object, __: object, text: str) -> list[Thing]:
        wanted = text.casefold()
        named: list[Category | Product] = [*catalog.categories.values(), *catalog.products.values()]
        hits: list[Thing] = [one for one in named if wanted in f"{one.name} {one.description or ''}".casefold()]
        hits += [one for one in catalog.reviews.values() if wanted in (one.text or "").casefold()]
        return hits[:_PAGE]

    def stock(_: object, __: object, **asked: str) -> dict[str, object] | None:
        product = catalog.products.get(asked["productId"])
        if product is None:
            return None
        counts: dict[str, int | None] = {**product.stock, "north": None}
        return {
            "product": product,
            "warehouses": [{"warehouse": name, "count": count} for name, count in counts.items()],
        }

    def product(_: object, __: object, id: str) -> Product | None:  # noqa: A002 - the schema's name
        return catalog.products.get(id)

    def categories(_: object, __: object) -> list[Category]:
        return list(catalog.categories.values())

    def reviews(_: object, __: object, **asked: Any) -> list[Review]:
        return [one for one in catalog.reviews_of(asked["productId"]) if one.rating >= asked["minRating"]]

    def node(_: object, __: object, id: str) -> Thing | None:  # noqa: A002 - the schema's name
        return catalog.find(id)

    return {
        "product": product,
        "productBy": product_by,
        "products": products,
        "categories": categories,
        "reviews": reviews,
        "search": search,
        "stock": stock,
        "node": node,
    }


def _mutations(catalog: Catalog) -> dict[str, Resolver]:
    def add_review(_: object, __: object, input: Mapping[str, Any]) -> dict[str, object]:  # noqa: A002 - the schema's name
        errors: list[dict[str, Any]] = []
        if input["productId"] not in catalog.products:
            errors.append({"message": "there is no such product", "field": ["input", "productId"]})
        if not 1 <= input["rating"] <= 5:
            errors.append({"message": "a rating is from 1 to 5", "field": ["input", "rating"]})
        if errors:
            return {"review": None, "userErrors": errors}
        review = catalog.add_review(
            product=input["productId"], rating=input["rating"], text=input.get("text"), author=input["author"]
        )
        return {"review": review, "userErrors": []}

    def delete_product(_: object, __: object, id: str) -> dict[str, object]:  # noqa: A002 - the schema's name
        if catalog.delete_product(id):
            return {"deletedId": id, "userErrors": []}
        return {"deletedId": None, "userErrors": [{"message": "there is no such product", "field": ["id"]}]}

    return {"addReview": add_review, "deleteProduct": delete_product}


def _count(one: Mapping[str, int | None], _: object) -> int:
    if one["count"] is None:
        raise GraphQLError(f"warehouse {one['warehouse']} does not answer", extensions={"code": "WAREHOUSE_DOWN"})
    return one["count"]


def _fits(product: Product, wanted: Mapping[str, Any]) -> bool:
    """Null is as good as absent for every condition."""
    given = {key: value for key, value in wanted.items() if value is not None}
    return (
        product.category == given.get("category", product.category)
        and given.get("minPrice", product.amount) <= product.amount <= given.get("maxPrice", product.amount)
        and given.get("inStock", sum(product.stock.values()) > 0) == (sum(product.stock.values()) > 0)
        and ("anyOf" not in given or any(_fits(product, one) for one in given["anyOf"]))
        and ("not" not in given or not _fits(product, given["not"]))
    )


def _page(things: Sequence[Product | Review], first: int, after: str | None) -> dict[str, object]:
    """A Relay connection; a cursor is the id of the last thing on a page."""
    if not 0 <= first <= _PAGE:
        raise GraphQLError(f"`first` is from 0 to {_PAGE}")
    ids = [one.id for one in things]
    if after is not None and after not in ids:
        raise GraphQLError("`after` is no cursor of this list")
    start = 0 if after is None else ids.index(after) + 1
    page = things[start : start + first]
    return {
        "edges": [{"cursor": one.id, "node": one} for one in page],
        "pageInfo": {"hasNextPage": start + first < len(things), "endCursor": page[-1].id if page else None},
        "totalCount": len(things),
    }


def _average(ratings: Sequence[int]) -> float | None:
    return round(sum(ratings) / len(ratings), 2) if ratings else None


_CATEGORIES = (
    Category(id="c1", name="Dogs", description="Everything for dogs"),
    Category(id="c2", name="Cats", description="Everything for cats"),
    Category(id="c3", name="Fish"),
)
_PRODUCTS = (
    Product(
        id="p1",
        name="Chew toy",
        amount=4.5,
        category="c1",
        added="2024-01-10T09:00:00Z",
        stock={"south": 40},
        related=("p2",),
    ),
    Product(
        id="p2",
        name="Dog lead",
        amount=19.9,
        category="c1",
        added="2024-02-01T09:00:00Z",
        stock={"south": 7, "west": 3},
    ),
    Product(
        id="p3", name="Dog bed", amount=59, category="c1", added="2024-03-05T09:00:00Z", description="Washable, 80 cm"
    ),
    Product(
        id="p4", name="Scratching post", amount=34.5, category="c2", added="2024-01-20T09:00:00Z", stock={"west": 12}
    ),
    Product(
        id="p5",
        name="Cat litter",
        amount=8.9,
        category="c2",
        added="2024-04-02T09:00:00Z",
        stock={"south": 120},
        related=("p4",),
    ),
    Product(
        id="p6",
        name="Aquarium",
        amount=129,
        category="c3",
        added="2024-05-11T09:00:00Z",
        stock={"west": 2},
        related=("p7",),
    ),
    Product(id="p7", name="Fish flakes", amount=3.2, category="c3", added="2024-05-12T09:00:00Z", stock={"south": 300}),
)
_REVIEWS = (
    Review(id="r1", product="p1", rating=5, author="Ada", written="2024-06-01T10:00:00Z", text="Still in one piece!"),
    Review(id="r2", product="p1", rating=2, author="Bo", written="2024-06-03T12:30:00Z", text="Lasted a day."),
    Review(id="r3", product="p4", rating=4, author="Cy", written="2024-06-04T08:15:00Z"),
    Review(id="r4", product="p6", rating=5, author="Di", written="2024-06-09T17:45:00Z", text="The fish agree."),
)


if __name__ == "__main__":
    main()
