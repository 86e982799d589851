"""The sample shop's orders: a small REST service as specs/orders.yaml describes it, with everything in memory."""

from __future__ import annotations

import argparse
import hmac
import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, TypeGuard

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

__all__ = ["DESCRIPTION", "app", "main"]

DESCRIPTION = Path(__file__).parents[2] / "specs" / "orders.yaml"
_MAX_BODY_SIZE = 65_536
_STATUSES = ("open", "shipped", "delivered", "cancelled")
_FILTERS = {"status", "customer_id", "placed_since", "limit", "offset"}
_PRICES = {"p1": 4.5, "p2": 19.9, "p3": 59.0, "p4": 34.5, "p5": 8.9, "p6": 129.0, "p7": 3.2}  # as in the catalog
_CUSTOMERS: dict[str, dict[str, Any]] = {
    "c1": {"id": "c1", "name": "Ada Byron", "email": "ada@example.com", "city": "Lisbon"},
    "c2": {"id": "c2", "name": "Bo Lindgren", "email": "bo@example.com", "city": "Oslo"},
    "c3": {"id": "c3", "name": "Cyd Moreau", "email": "cyd@example.com", "city": "Lyon"},
}
_TODAY = date(2026, 4, 1)  # orders are placed on the same day on every run


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One order; `items` are (product, quantity)."""

    id: str
    customer_id: str
    placed: date
    items: tuple[tuple[str, int], ...]
    status: str = "open"
    note: str | None = None
    cancel_reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        items = [
            {"product_id": product, "quantity": quantity, "unit_price": _PRICES[product]}
            for product, quantity in self.items
        ]
        shown = {
            "id": self.id,
            "customer_id": self.customer_id,
            "status": self.status,
            "placed": self.placed.isoformat(),
            "items": items,
            "total": round(sum(_PRICES[product] * quantity for product, quantity in self.items), 2),
            "note": self.note,
        }
        return {**shown, "cancel_reason": self.cancel_reason} if self.cancel_reason else shown


@dataclass(slots=True)
class Shop:
    """The orders of one running service, and the number the next one gets."""

    orders: dict[str, Order] = field(default_factory=dict[str, Order])
    next_number: int = 1

    def add(self, **fields: Any) -> Order:
        order = Order(id=f"o{self.next_number}", **fields)
        self.orders[order.id] = order
        self.next_number += 1
        return order

    def get(self, order_id: str) -> Order:
        if order_id not in self.orders:
            raise HTTPException(404, f"there is no order {order_id[:40]}")
        return self.orders[order_id]


def app(key: str) -> Starlette:
    """The service. Every request needs `key` in its X-API-Key header; each app has orders of its own."""
    shop = _stocked()

    def route(path: str, handler: Callable[[Shop, Request], Awaitable[Response]], method: str) -> Route:
        async def endpoint(request: Request) -> Response:
            if not hmac.compare_digest(request.headers.get("x-api-key", "").encode(), key.encode()):
                raise HTTPException(401, "send the shop's key in X-API-Key")
            return await handler(shop, request)

        return Route(path, endpoint, methods=[method])

    routes = [
        route("/orders", _list, "GET"),
        route("/orders", _create, "POST"),
        route("/orders/{order_id}", _get, "GET"),
        route("/orders/{order_id}", _delete, "DELETE"),
        route("/orders/{order_id}/cancel", _cancel, "POST"),
        route("/customers/{customer_id}", _customer, "GET"),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _error})


def main() -> None:
    """Serves the orders on loopback."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--port", type=int, default=8801)
    parser.add_argument(
        "--key",
        default=os.environ.get("ORDERS_KEY", "shop-key"),
        help="what callers send in X-API-Key; $ORDERS_KEY by default",
    )
    options = parser.parse_args()
    uvicorn.run(app(options.key), host="127.0.0.1", port=options.port, log_level="warning")


def _stocked() -> Shop:
    shop = Shop()
    shop.add(customer_id="c1", placed=date(2026, 1, 14), items=(("p1", 2), ("p7", 1)), status="delivered")
    shop.add(customer_id="c2", placed=date(2026, 2, 2), items=(("p3", 1),), status="delivered", note="Ring twice")
    shop.add(
        customer_id="c1",
        placed=date(2026, 2, 20),
        items=(("p4", 1),),
        status="cancelled",
        cancel_reason="ordered twice",
    )
    shop.add(customer_id="c3", placed=date(2026, 3, 9), items=(("p6", 1), ("p7", 4)), status="shipped")
    shop.add(customer_id="c1", placed=date(2026, 3, 28), items=(("p2", 3),))
    shop.add(customer_id="c2", placed=date(2026, 3, 30), items=(("p5", 2),), note="A gift")
    return shop


async def _list(shop: Shop, request: Request) -> Response:
    query = request.query_params
    if unknown := sorted(set(query) - _FILTERS):
        raise HTTPException(400, f"there is no filter {unknown[0][:40]}")
    statuses = query.getlist("status")
    if wrong := [status for status in statuses if status not in _STATUSES]:
        raise HTTPException(400, f"status: {wrong[0][:40]} is none of {', '.join(_STATUSES)}")
    since = query.get("placed_since")
    try:
        first = date.fromisoformat(since) if since is not None else date.min
    except ValueError as error:
        raise HTTPException(400, "placed_since is not a date like 2026-03-01") from error
    limit, offset = (
        _number(query.get("limit"), 20, 1, 100, "limit"),
        _number(query.get("offset"), 0, 0, 100_000, "offset"),
    )
    customer = query.get("customer_id")
    fitting = [
        order.to_dict()
        for order in sorted(shop.orders.values(), key=lambda order: (order.placed, int(order.id[1:])), reverse=True)
        if (not statuses or order.status in statuses)
        and (customer is None or order.customer_id == customer)
        and order.placed >= first
    ]
    return _json({"orders": fitting[offset : offset + limit], "total": len(fitting)})


def _number(text: str | None, default: int, least: int, most: int, name: str) -> int:
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
        raise HTTPException(400, f"{name} is not a number from {least} to {most}")
    return int(text)


async def _get(shop: Shop, request: Request) -> Response:
    return _json(shop.get(request.path_params["order_id"]).to_dict())


async def _create(shop: Shop, request: Request) -> Response:
    body = await _body(request, {"customer_id", "items", "note"})
    customer, note = body.get("customer_id"), body.get("note")
    items: object = body.get("items")
    if not isinstance(customer, str) or not _is_list(items) or not 1 <= len(items) <= 50:
        raise HTTPException(400, "an order has a customer_id and 1 to 50 items")
    if note is not None and (not isinstance(note, str) or len(note) > 500):
        raise HTTPException(400, "note is a text of at most 500 characters")
    if customer not in _CUSTOMERS:
        raise HTTPException(404, f"there is no customer {customer[:40]}")
    wanted: dict[str, int] = {}
    for item in items:
        product, quantity = _item(item)
        if product in wanted:
            raise HTTPException(400, f"items: {product} is there twice")
        wanted[product] = quantity
    order = shop.add(customer_id=customer, placed=_TODAY, items=tuple(wanted.items()), note=note)
    return _json(order.to_dict(), 201, {"location": f"/orders/{order.id}"})


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)  # keys of JSON are strings


def _item(item: object) -> tuple[str, int]:
    if not _is_object(item) or set(item) != {"product_id", "quantity"}:
        raise HTTPException(400, "an item has a product_id and a quantity, and nothing else")
    product, quantity = item["product_id"], item["quantity"]
    if not isinstance(quantity, int) or isinstance(quantity, bool) or not 1 <= quantity <= 1000:
        raise HTTPException(400, "quantity is a number from 1 to 1000")
    if not isinstance(product, str) or product not in _PRICES:
        raise HTTPException(404, f"there is no product {str(product)[:40]}")
    return product, quantity


async def _cancel(shop: Shop, request: Request) -> Response:
    order = shop.get(request.path_params["order_id"])
    body = await _body(request, {"reason"}) if request.headers.get("content-type") else {}
    reason = body.get("reason", "")
    if not isinstance(reason, str) or len(reason) > 200:
        raise HTTPException(400, "reason is a text of at most 200 characters")
    if order.status != "open":
        raise HTTPException(409, f"order {order.id} is {order.status}, and only an open order can be cancelled")
    shop.orders[order.id] = replace(order, status="cancelled", cancel_reason=reason)
    return _json(shop.orders[order.id].to_dict())


async def _delete(shop: Shop, request: Request) -> Response:
    del shop.orders[shop.get(request.path_params["order_id"]).id]
    return Response(status_code=204)


async def _customer(_: Shop, request: Request) -> Response:
    customer_id = request.path_params["customer_id"]
    if customer_id not in _CUSTOMERS:
        raise HTTPException(404, f"there is no customer {customer_id[:40]}")
    return _json(_CUSTOMERS[customer_id])


async def _body(request: Request, known: set[str]) -> dict[str, Any]:
    received = bytearray()
    async for piece in request.stream():
        received += piece
        if len(received) > _MAX_BODY_SIZE:
            raise HTTPException(400, f"the body is larger than {_MAX_BODY_SIZE} bytes")
    try:
        body: object = msgspec.json.decode(received)
    except ValueError as error:
        raise HTTPException(400, "the body is not JSON") from error
    if not _is_object(body) or set(body) - known:
        raise HTTPException(400, f"the body is an object with {', '.join(sorted(known))} and nothing else")
    return body


async def _error(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return _json({"error": error.detail}, error.status_code, dict(error.headers or {}))


def _json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, {**(headers or {}), "content-type": "application/json"})


if __name__ == "__main__":
    main()
