"""What the GraphQL executor sends, and what it makes of every kind of answer."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from examples.shop.catalog import app as catalog_app
from toolgen.connectors.executor import Destination
from toolgen.connectors.graphql.executor import GraphQLExecutor
from toolgen.connectors.graphql.read import read_graphql
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import ToolgenError
from toolgen.model.call import Call, Principal
from toolgen.model.manifest import SecurityScheme
from toolgen.model.result import Delivery, Failed, Shape, Success
from toolgen.model.tool import Effect, GraphQLBinding, NoBinding, Tool
from toolgen.model.verdict import Allow, Deny, Verdict

TOKEN = "canary-7f3a9b-token"
BEARER = {"bearer": SecurityScheme(type="http", scheme="bearer")}
JSON = "application/json"
STATELESS = "application/graphql-response+json"
CATALOG = Path(__file__).parents[3] / "specs" / "catalog.graphql"


def allow(_: Destination) -> Verdict:
    return Allow(rule="test")


@dataclass(slots=True)
class Scripted:
    """A service that answers what it is told to and remembers what it was asked."""

    status: int = 200
    content_type: str = STATELESS
    body: bytes = b'{"data": {"thing": 1}}'
    headers: Mapping[str, str] = field(default_factory=dict)
    seen: list[tuple[dict[str, str], str, Any]] = field(default_factory=list)

    async def answer(self, request: Request) -> Response:
        self.seen.append((dict(request.headers), str(request.url.path), json.loads(await request.body())))
        return Response(self.body, self.status, {**self.headers, "content-type": self.content_type})


def serving(application: Starlette) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(name="service", scope="module")
def _service() -> Scripted:
    return Scripted()


@pytest.fixture(name="origin", scope="module")
def _origin(service: Scripted) -> Iterator[str]:
    yield from serving(Starlette(routes=[Route("/{path:path}", service.answer, methods=["POST"])]))


@pytest.fixture(autouse=True)
def _fresh(service: Scripted) -> None:
    fresh = Scripted()
    for name in ("status", "content_type", "body", "headers", "seen"):
        setattr(service, name, getattr(fresh, name))


def tool(endpoint: str, *, kind: str = "query", variables: dict[str, str] | None = None) -> Tool:
    return Tool(
        name="s__get_thing",
        title="",
        description="",
        input_schema={"type": "object"},
        output_schema=None,
        effect=Effect.READ if kind == "query" else Effect.DESTRUCTIVE,
        idempotent=kind == "query",
        source="s",
        origin="Query.thing",
        binding=GraphQLBinding(
            type=kind,
            field="thing",
            operation=f"{kind} s__get_thing($a: Int, $b: Where) {{ thing(a: $a, b: $b) }}",
            operation_name="s__get_thing",
            variables=variables if variables is not None else {"a": "a", "b": "b", "after": "after"},
            endpoint=endpoint,
            cursor=("after", "thing") if variables is None or "after" in variables else (),
        ),
    )


def call(tool: Tool, arguments: Mapping[str, Any] | None = None) -> Call:
    return Call(id="c1", tool=tool, arguments=arguments or {}, principal=Principal(id="tester"))


def executor(permit: Callable[[Destination], Verdict] = allow, **options: Any) -> GraphQLExecutor:
    made: dict[str, Any] = {"schemes": {}, "auth": {}, "secrets": SecretResolver({"TOKEN": TOKEN}), "permit": permit}
    return GraphQLExecutor(**{**made, **options})


async def run(work: Callable[[GraphQLExecutor], Awaitable[Any]], made: GraphQLExecutor | None = None) -> Any:
    used = made or executor()
    try:
        return await work(used)
    finally:
        await used.close()


async def execute(asked: Call, made: GraphQLExecutor | None = None) -> Success | Failed:
    result: Success | Failed = await run(lambda used: used.execute(asked), made)
    return result


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        ({}, {}),
        ({"a": None}, {"a": None}),
        ({"a": 0, "b": {}}, {"a": 0, "b": {}}),
        ({"b": {"not": None, "all": []}}, {"b": {"not": None, "all": []}}),
        ({"unknown": 1, "a": 2}, {"a": 2}),
    ],
)
async def test_absent_null_and_empty_arrive_as_they_were_given(
    service: Scripted, origin: str, arguments: dict[str, Any], variables: dict[str, Any]
) -> None:
    asked = call(tool(f"{origin}/graphql"), arguments)
    assert await execute(asked) == Success(
        data={"thing": 1}, delivery=Delivery(attempts=1, bytes=len(service.body), status=200)
    )
    [(headers, path, body)] = service.seen
    assert path == "/graphql"
    assert body == {
        "query": asked.tool.binding.operation,  # type: ignore[union-attr]
        "variables": variables,
        "operationName": "s__get_thing",
    }
    assert headers["content-type"] == JSON
    assert headers["accept"] == f"{STATELESS}, {JSON};q=0.9"
    assert executor().preview(asked) == body


async def test_the_endpoint_keeps_its_trailing_slash_and_query(service: Scripted, origin: str) -> None:
    await execute(call(tool(f"{origin}/api/graphql/?version=1")))
    assert service.seen[0][1] == "/api/graphql/"


ERROR = {"message": "north does not answer", "path": ["thing", "rooms", 2, "count"]}


@pytest.mark.parametrize(
    ("status", "content_type", "body", "message", "data"),
    [
        (
            200,
            STATELESS,
            {"data": {"thing": None}, "errors": [ERROR]},
            "the service reported: north does not answer (at thing.rooms.2.count)",
            {"data": {"thing": None}, "errors": [ERROR]},
        ),
        (200, JSON, {"errors": [ERROR]}, "the service reported: north", {"data": None, "errors": [ERROR]}),
        (200, JSON, {"data": None, "errors": [ERROR]}, "the service reported: north", {"data": None, "errors": [ERROR]}),
        (400, STATELESS, {"errors": [ERROR]}, "the service reported: north", {"data": None, "errors": [ERROR]}),
        (500, STATELESS, {"errors": [ERROR] * 5}, "5 times)", {"data": None, "errors": [{**ERROR, "count": 5}]}),
        (200, JSON, {"errors": ["text", {"no": "message"}]}, "an error without a message", None),
        (200, JSON, {"data": None}, "the endpoint answered with something that is not a GraphQL response", None),
        (200, JSON, {"ok": True}, "the endpoint answered with something that is not a GraphQL response", None),
        (200, JSON, [], "the endpoint answered with something that is not a GraphQL response", None),
        (200, JSON, {"data": []}, "the endpoint answered with something that is not a GraphQL response", None),
        (200, "text/html", "<!doctype html><p>Sign in</p>", "the endpoint answered with a web page", None),
        (404, "text/html", "<html>not here</html>", "the endpoint answered 404 with a web page", None),
        (502, "text/html", " <html>bad gateway</html>", "the endpoint answered 502 with a web page", None),
        (403, JSON, {"message": "no"}, "the server answered 403 Forbidden", {"message": "no"}),
    ],
)  # fmt: skip
async def test_answers_that_are_no_success(
    service: Scripted, origin: str, status: int, content_type: str, body: Any, message: str, data: Any
) -> None:
    service.status, service.content_type = status, content_type
    service.body = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    result = await execute(call(tool(f"{origin}/graphql")))
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_error"
    assert message in result.error.message
    assert "html" not in result.error.message
    assert result.error.suggestion
    assert result.delivery.status == status
    if data is not None:
        assert result.data == data


@pytest.mark.parametrize(
    "body", [{"data": {"thing": []}}, {"data": {"thing": None}, "errors": None}, {"data": {"thing": {}}, "errors": []}]
)
async def test_empty_and_null_data_are_successes_and_stay_what_they_are(
    service: Scripted, origin: str, body: Any
) -> None:
    service.body = json.dumps(body).encode()
    result = await execute(call(tool(f"{origin}/graphql")))
    assert isinstance(result, Success)
    assert result.data == body["data"]


async def test_too_large_an_answer_is_an_error_and_not_half_of_one(service: Scripted, origin: str) -> None:
    service.body = json.dumps({"data": {"thing": "x" * 2_000_000}}).encode()
    result = await execute(call(tool(f"{origin}/graphql")))
    assert isinstance(result, Failed)
    assert result.error.code == "response_too_large"


@pytest.mark.parametrize(
    ("cost", "wait"),
    [
        ({"requestedQueryCost": 100, "throttleStatus": {"currentlyAvailable": 50, "restoreRate": 25}}, 2.0),
        ({"requestedQueryCost": 1, "throttleStatus": {"currentlyAvailable": 50, "restoreRate": 25}}, 0.0),
        ({"requestedQueryCost": 100, "throttleStatus": {"currentlyAvailable": 0, "restoreRate": 0}}, 1.0),
        ({"requestedQueryCost": 1e308, "throttleStatus": {"currentlyAvailable": 0, "restoreRate": 1}}, 3600.0),
        ({}, 1.0),
    ],
)
async def test_a_throttled_answer_says_when_to_come_back(
    service: Scripted, origin: str, cost: Any, wait: float
) -> None:
    errors = [{"message": "Throttled", "extensions": {"code": "THROTTLED"}}]
    service.body = json.dumps({"errors": errors, "extensions": {"cost": cost}}).encode()
    result = await execute(call(tool(f"{origin}/graphql")))
    assert isinstance(result, Failed)
    assert result.error.retry_after_s == wait


async def test_a_retry_after_header_is_kept_beside_graphql_errors(service: Scripted, origin: str) -> None:
    service.status, service.headers, service.body = 429, {"retry-after": "7"}, b'{"errors": [{"message": "slow"}]}'
    result = await execute(call(tool(f"{origin}/graphql")))
    assert isinstance(result, Failed)
    assert (result.error.retry_after_s, result.error.message) == (7.0, "the service reported: slow")


@pytest.mark.parametrize(
    ("page_info", "variables", "cursor"),
    [
        ({"hasNextPage": True, "endCursor": "c9"}, {"after": "after"}, "c9"),
        ({"hasNextPage": False, "endCursor": "c9"}, {"after": "after"}, ""),
        ({"hasNextPage": True, "endCursor": None}, {"after": "after"}, ""),
        ({"hasNextPage": True, "endCursor": "c9"}, {}, ""),
    ],
)
async def test_a_cursor_is_offered_where_it_can_be_used(
    service: Scripted, origin: str, page_info: Any, variables: dict[str, str], cursor: str
) -> None:
    service.body = json.dumps({"data": {"thing": {"pageInfo": page_info}}}).encode()
    result = await execute(call(tool(f"{origin}/graphql", variables=variables)))
    assert isinstance(result, Success)
    assert result.next_cursor == cursor


async def test_the_credential_is_sent_and_shown_nowhere(service: Scripted, origin: str) -> None:
    service.body = json.dumps({"errors": [{"message": f"I saw Bearer {TOKEN}"}]}).encode()
    made = executor(schemes=BEARER, auth={"bearer": SecretReference("env", "TOKEN")})
    asked = call(tool(f"{origin}/graphql"))
    result = await execute(asked, made)
    assert service.seen[0][0]["authorization"] == f"Bearer {TOKEN}"
    for shown in (repr(result), repr(made), repr(made.preview(asked)), repr(vars(made))):
        assert TOKEN not in shown


async def test_a_credential_that_is_not_set_stops_the_call(service: Scripted, origin: str) -> None:
    made = executor(schemes=BEARER, auth={"bearer": SecretReference("env", "MISSING")})
    result = await execute(call(tool(f"{origin}/graphql")), made)
    assert isinstance(result, Failed)
    assert result.error.code == "secret_unavailable"
    assert service.seen == []


async def test_a_credential_nobody_knows_how_to_send_stops_the_call(service: Scripted, origin: str) -> None:
    made = executor(schemes=BEARER, auth={"barer": SecretReference("env", "TOKEN")})
    result = await execute(call(tool(f"{origin}/graphql")), made)
    assert isinstance(result, Failed)
    assert result.error.code == "secret_unavailable"
    assert service.seen == []


async def test_a_refused_address_is_never_connected_to(service: Scripted, origin: str) -> None:
    asked_about: list[Destination] = []

    def refuse(destination: Destination) -> Verdict:
        asked_about.append(destination)
        return Deny(rule="egress", reason="private network", code="egress_refused")

    result = await execute(call(tool(f"{origin}/graphql")), executor(refuse))
    assert isinstance(result, Failed)
    assert (result.error.code, result.error.rule) == ("egress_refused", "egress")
    assert [one.address for one in asked_about] == ["127.0.0.1"]
    assert service.seen == []


async def test_a_redirect_is_not_followed(service: Scripted, origin: str) -> None:
    def unless_redirected(destination: Destination) -> Verdict:
        return Deny(rule="egress", reason="no") if destination.service == "redirect" else Allow(rule="t")

    service.status, service.headers, service.body = 307, {"location": f"{origin}/elsewhere"}, b""
    result = await execute(call(tool(f"{origin}/graphql")), executor(unless_redirected))
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_error"
    assert len(service.seen) == 1


@pytest.mark.parametrize("endpoint", ["", "http://127.0.0.1:1/graphql", "http://{host}/graphql", "ftp://127.0.0.1/x"])
async def test_an_endpoint_that_cannot_be_reached_is_a_failure_and_no_exception(endpoint: str) -> None:
    result = await execute(call(tool(endpoint)))
    assert isinstance(result, Failed)
    assert result.error.code in {"upstream_unavailable", "validation"}


def test_only_graphql_tools_are_taken() -> None:
    bound = tool("http://127.0.0.1:1/")
    other = Tool(**{name: getattr(bound, name) for name in bound.__struct_fields__} | {"binding": NoBinding()})
    with pytest.raises(ToolgenError, match="s__get_thing"):
        executor().preview(call(other))


@pytest.fixture(name="shop", scope="module")
def _shop() -> Iterator[dict[str, Tool]]:
    for origin in serving(catalog_app(TOKEN)):
        config = SourceConfig(name="catalog", kind="graphql", location=str(CATALOG), endpoint=f"{origin}/graphql")
        yield {one.name: one for one in read_graphql(config).tools}


@pytest.mark.parametrize(
    ("name", "arguments", "field", "expected"),
    [
        ("catalog__get_product", {"id": "p1"}, "product", {"id": "p1", "name": "Chew toy"}),
        ("catalog__get_product_by", {"by": {"name": "dog bed"}}, "productBy", {"id": "p3"}),
        ("catalog__list_products", {"first": 2}, "products", {"totalCount": 7}),
        ("catalog__list_products", {"filter": {"not": {"category": "c1"}}}, "products", {"totalCount": 4}),
        ("catalog__get_node", {"id": "r4"}, "node", {"__typename": "Review", "author": "Di"}),
        ("catalog__add_review", {"input": {"productId": "p7", "rating": 3}}, "addReview", {"userErrors": []}),
        ("catalog__delete_product", {"id": "p6"}, "deleteProduct", {"deletedId": "p6"}),
    ],
)
async def test_every_kind_of_operation_reaches_the_sample_catalog(
    shop: dict[str, Tool], name: str, arguments: dict[str, Any], field: str, expected: dict[str, Any]
) -> None:
    made = executor(schemes=BEARER, auth={"bearer": SecretReference("env", "TOKEN")})
    result = await execute(call(shop[name], arguments), made)
    assert isinstance(result, Success)
    assert isinstance(result.data, Mapping)
    answered = result.data[field]
    assert isinstance(answered, Mapping)
    assert {key: answered[key] for key in expected} == expected


async def test_a_field_that_fails_leaves_its_neighbours(shop: dict[str, Tool]) -> None:
    made = executor(schemes=BEARER, auth={"bearer": SecretReference("env", "TOKEN")})
    result = await execute(call(shop["catalog__get_stock"], {"productId": "p2"}), made)
    assert isinstance(result, Success)
    kept: Any = result.data
    assert result.shape is Shape.GRAPHQL
    assert kept["errors"] == [
        {
            "message": "warehouse north does not answer",
            "path": ["stock", "warehouses", 2, "count"],
            "code": "WAREHOUSE_DOWN",
        }
    ]
    assert [one["count"] for one in kept["data"]["stock"]["warehouses"]] == [7, 3, None]


async def test_without_its_credential_the_catalog_answers_nothing(shop: dict[str, Tool]) -> None:
    result = await execute(call(shop["catalog__list_categories"]))
    assert isinstance(result, Failed)
    assert "bearer token" in result.error.message
