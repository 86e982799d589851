"""The sample orders, served for real: every request and every answer is what specs/orders.yaml describes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
import yaml

from examples.shop.orders import DESCRIPTION, app

if TYPE_CHECKING:  # takes half a second
    from openapi_core import OpenAPI

KEY = "a-key-for-tests"

Ask = Callable[..., httpx.Response]


class SentRequest:
    """An httpx request as openapi-core wants to see it."""

    def __init__(self, request: httpx.Request) -> None:
        from openapi_core.datatypes import RequestParameters  # noqa: PLC0415 - see above

        self.host_url = f"{request.url.scheme}://{request.url.netloc.decode()}"
        self.path = request.url.path
        self.method = request.method.lower()
        self.content_type = request.headers.get("content-type", "")
        self.body = request.content or None
        self.parameters = RequestParameters(query=_Many(request.url.params), header=request.headers, cookie={}, path={})


class _Many(dict[str, Any]):
    """Query parameters that may be repeated."""

    def __init__(self, params: httpx.QueryParams) -> None:
        super().__init__(params)
        self._params = params

    def getlist(self, name: str) -> list[str]:
        return self._params.get_list(name)


class ReceivedResponse:
    """An httpx response as openapi-core wants to see it."""

    def __init__(self, response: httpx.Response) -> None:
        self.status_code = response.status_code
        self.data = response.content
        self.content_type = response.headers.get("content-type", "")
        self.headers = dict(response.headers)


@pytest.fixture(name="url")
def _url() -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app(KEY), log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(name="document")
def _document(url: str) -> OpenAPI:
    from openapi_core import OpenAPI  # noqa: PLC0415 - see above

    written = yaml.safe_load(DESCRIPTION.read_text(encoding="utf-8"))
    written["servers"] = [{"url": url}]
    return OpenAPI.from_dict(written)


@pytest.fixture(name="ask")
def _ask(url: str, document: OpenAPI) -> Iterator[Ask]:
    with httpx.Client(trust_env=False, timeout=120, base_url=url, headers={"X-API-Key": KEY}) as client:

        def ask(method: str, path: str, **options: Any) -> httpx.Response:
            response = client.request(method, path, **options)
            request = SentRequest(response.request)
            if response.status_code not in {400, 401}:
                document.validate_request(request)
            if response.status_code != 204:
                document.validate_response(request, ReceivedResponse(response))
            return response

        yield ask


@pytest.mark.parametrize(
    ("query", "orders"),
    [
        ({}, ["o6", "o5", "o4", "o3", "o2", "o1"]),
        ({"status": ["open", "shipped"]}, ["o6", "o5", "o4"]),
        ({"status": "cancelled"}, ["o3"]),
        ({"customer_id": "c1"}, ["o5", "o3", "o1"]),
        ({"customer_id": "c1", "status": "open"}, ["o5"]),
        ({"customer_id": "c9"}, []),
        ({"placed_since": "2026-03-28"}, ["o6", "o5"]),
        ({"limit": 2, "offset": 1}, ["o5", "o4"]),
    ],
)
def test_orders_are_listed_newest_first_and_filtered(ask: Ask, query: dict[str, Any], orders: list[str]) -> None:
    page = ask("GET", "/orders", params=query).json()
    assert [order["id"] for order in page["orders"]] == orders
    assert page["total"] == (6 if "limit" in query else len(orders))


@pytest.mark.parametrize(
    "query",
    [
        {"status": "lost"},
        {"limit": "0"},
        {"limit": "many"},
        {"placed_since": "soon"},
        {"sort": "asc"},
        {"offset": "-1"},
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(ask: Ask, query: dict[str, str]) -> None:
    assert ask("GET", "/orders", params=query).status_code == 400


def test_an_order_lives_from_creation_to_cancellation_to_deletion(ask: Ask) -> None:
    created = ask(
        "POST", "/orders", json={"customer_id": "c2", "items": [{"product_id": "p4", "quantity": 2}], "note": None}
    )
    assert created.status_code == 201
    assert created.json()["total"] == 69.0
    place = created.headers["location"]
    assert ask("GET", place).json() == created.json()
    cancelled = ask("POST", f"{place}/cancel", json={"reason": "changed my mind"}).json()
    assert (cancelled["status"], cancelled["cancel_reason"]) == ("cancelled", "changed my mind")
    assert ask("POST", f"{place}/cancel").status_code == 409
    assert ask("DELETE", place).status_code == 204
    assert ask("GET", place).status_code == 404


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"customer_id": "c9", "items": [{"product_id": "p1", "quantity": 1}]}, 404),
        ({"customer_id": "c1", "items": [{"product_id": "p99", "quantity": 1}]}, 404),
        ({"customer_id": "c1", "items": []}, 400),
        ({"customer_id": "c1", "items": [{"product_id": "p1", "quantity": True}]}, 400),
        ({"customer_id": "c1", "items": [{"product_id": "p1", "quantity": 1, "unit_price": 0}]}, 400),
        ({"customer_id": "c1", "items": [{"product_id": "p1", "quantity": 1}] * 2}, 400),
        ({"customer_id": "c1", "items": [{"product_id": "p1", "quantity": 1}], "status": "delivered"}, 400),
    ],
)
def test_an_order_that_makes_no_sense_is_not_created(ask: Ask, body: dict[str, Any], status: int) -> None:
    assert ask("POST", "/orders", json=body).status_code == status
    assert ask("GET", "/orders").json()["total"] == 6


def test_a_customer_is_found_by_id(ask: Ask) -> None:
    assert ask("GET", "/customers/c1").json()["name"] == "Ada Byron"
    assert ask("GET", "/customers/c9").status_code == 404


@pytest.mark.parametrize("headers", [{"X-API-Key": ""}, {"X-API-Key": "wrong"}, {"X-API-Key": f"{KEY}x"}])
@pytest.mark.parametrize("path", ["/orders", "/orders/o1", "/customers/c1"])
def test_without_the_key_nothing_is_answered(ask: Ask, headers: dict[str, str], path: str) -> None:
    assert ask("GET", path, headers=headers).status_code == 401


def test_the_check_itself_notices_a_request_the_description_does_not_know(document: OpenAPI, url: str) -> None:
    from openapi_core.exceptions import OpenAPIError  # noqa: PLC0415 - see above

    with pytest.raises(OpenAPIError):
        document.validate_request(SentRequest(httpx.Request("PUT", f"{url}/orders/o1")))
