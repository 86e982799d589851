"""An application of the same process as a source: its calls need no socket, reach no other place, and end as those over HTTP do."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

import toolgen
from toolgen.connectors.executor import LocalApp
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.asgi_client import AppDialer
from toolgen.connectors.http.connector import EgressRefusal, Target

SEEN: list[dict[str, Any]] = []


async def echo(request: Request) -> Response:
    body = await request.body()
    SEEN.append({"headers": dict(request.headers), "path": request.url.path, "body": body})
    return JSONResponse(
        {
            "path": request.path_params.get("name", ""),
            "query": dict(request.query_params),
            "host": request.headers["host"],
            "body": body.decode(),
        }
    )


async def broken(_: Request) -> Response:
    raise RuntimeError("the password is hunter2")


async def silent(request: Request) -> Response:
    SEEN.append({"began": True})
    try:
        await asyncio.sleep(600)
    finally:
        SEEN.append({"ended": True})
    return Response()


async def long(_: Request) -> Response:
    async def parts() -> Any:
        while True:
            yield b'["' + b"x" * 65_536
            await asyncio.sleep(0)

    return StreamingResponse(parts(), media_type="application/json")


async def elsewhere(request: Request) -> Response:
    return RedirectResponse(request.query_params["to"])


async def large(_: Request) -> Response:
    return JSONResponse({"text": "y" * 5_000})


async def later(_: Request) -> Response:
    async def work() -> None:
        await asyncio.sleep(0.2)
        SEEN.append({"done": True})

    return JSONResponse({"text": "soon"}, background=BackgroundTask(work))


async def packed(_: Request) -> Response:
    return Response(gzip.compress(b'{"a": 1}'), media_type="application/json", headers={"Content-Encoding": "gzip"})


ROUTES = {
    "/echo/{name}": (echo, "post"),
    "/broken": (broken, "get"),
    "/silent": (silent, "get"),
    "/long": (long, "get"),
    "/elsewhere": (elsewhere, "get"),
    "/large": (large, "get"),
    "/later": (later, "get"),
    "/packed": (packed, "get"),
}


def app() -> Starlette:
    SEEN.clear()
    return Starlette(
        routes=[Route(path, made, methods=[method.upper()]) for path, (made, method) in ROUTES.items()],
        middleware=[Middleware(GZipMiddleware)],
    )


def document() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for path, (made, method) in ROUTES.items():
        operation: dict[str, Any] = {"operationId": made.__name__, "responses": {"200": {"description": "ok"}}}
        parameters = [{"name": "to", "in": "query", "schema": {"type": "string"}}]
        if "{name}" in path:
            parameters.append({"name": "name", "in": "path", "required": True, "schema": {"type": "string"}})  # type: ignore[dict-item]
            operation["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
        paths[path] = {method: {**operation, "parameters": parameters}}
    return {"openapi": "3.1.0", "info": {"title": "Own", "version": "1"}, "paths": paths}


@asynccontextmanager
async def tried(**options: Any) -> AsyncIterator[toolgen.Gateway]:
    gateway = toolgen.Gateway.from_asgi(app(), document(), allow=["read", "write"], name="own", **options)
    async with gateway, asyncio.timeout(120):
        yield gateway


async def test_a_call_reaches_the_application_as_http_would_bring_it() -> None:
    routes = ROUTES["/echo/{name}"]
    ROUTES["/echo/{name:path}"] = ROUTES.pop("/echo/{name}")
    try:
        made = app()
    finally:
        ROUTES["/echo/{name}"] = ROUTES.pop("/echo/{name:path}", routes)
    gateway = toolgen.Gateway.from_asgi(
        made, document(), allow=["read", "write"], name="own", server="http://tools.example"
    )
    async with gateway:
        arguments = {"name": "a/b é", "to": "x&y=1", "body": {"k": "ü"}}
        data: Any = (await gateway.call("own__echo", arguments)).unwrap()
        assert data == {"path": "a/b é", "query": {"to": "x&y=1"}, "host": "tools.example:80", "body": '{"k":"ü"}'}
        (seen,) = SEEN
        assert seen["headers"]["content-type"] == "application/json"
        assert int(seen["headers"]["content-length"]) == len(seen["body"])


async def test_every_call_is_on_record_and_held_by_the_policy(tmp_path: Path) -> None:
    async def work(gateway: toolgen.Gateway) -> None:
        assert (await gateway.call("own__large", {})).status == "ok"
        refused = await gateway.call("own__echo", {"name": "x"})
        assert refused.error is not None
        assert refused.error.code == "unknown_tool"
        assert SEEN == []

    gateway = toolgen.Gateway.from_asgi(app(), document(), name="own", record=tmp_path)
    async with gateway:
        await work(gateway)
    assert "own__large" in "".join(path.read_text("utf-8") for path in tmp_path.glob("*.jsonl"))


async def test_an_application_that_fails_tells_nobody_why(caplog: pytest.LogCaptureFixture) -> None:
    async with tried() as gateway:
        envelope = await gateway.call("own__broken", {})
        assert envelope.error is not None
        assert envelope.error.code == "upstream_error"
        assert "hunter2" not in str(envelope.to_dict())
    assert "the application failed: RuntimeError" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("to", ["http://127.0.0.1:9/x", "https://localhost/x", "//example.com/x"])
async def test_a_redirect_leads_to_no_other_place(to: str) -> None:
    async with tried() as gateway:
        envelope = await gateway.call("own__elsewhere", {"to": to})
        assert envelope.error is not None, envelope
        assert envelope.error.code in {"egress_refused", "upstream_error"}


async def test_requests_to_another_origin_are_refused() -> None:
    dialer = AppDialer(LocalApp(app=app(), origin="http://localhost"), Timeouts())
    assert await dialer.addresses(Target.of("http://localhost/x")) == ("",)
    for url in ("http://localhost:81/", "https://localhost/", "http://127.0.0.1/"):
        with pytest.raises(EgressRefusal):
            await dialer.addresses(Target.of(url))
    await dialer.close()


async def test_an_answer_without_end_is_cut_and_its_application_ended() -> None:
    async with tried() as gateway:
        envelope = await gateway.call("own__long", {})
        assert envelope.error is not None
        assert envelope.error.code == "response_too_large"


async def test_an_answer_is_not_packed_unless_the_application_insists() -> None:
    async with tried() as gateway:
        data: Any = (await gateway.call("own__large", {})).unwrap()
        assert len(data["text"]) == 5_000
        envelope = await gateway.call("own__packed", {})
        assert envelope.error is not None
        assert envelope.error.code == "upstream_error"


async def test_a_call_that_nobody_waits_for_ends_in_the_application() -> None:
    async with tried() as gateway:
        call = asyncio.create_task(gateway.call("own__silent", {}))
        while not SEEN:  # noqa: ASYNC110 - an application tells nobody
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        while len(SEEN) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert SEEN == [{"began": True}, {"ended": True}]


async def test_what_the_application_does_after_its_answer_is_done_to_its_end() -> None:
    """Also where the gateway is closed at once."""

    async with tried() as gateway:
        assert (await gateway.call("own__later", {})).unwrap() == {"text": "soon"}
    assert SEEN == [{"done": True}]


def test_a_fastapi_application_describes_itself() -> None:
    class Described(Starlette):
        def openapi(self) -> dict[str, Any]:
            return document()

    made = Described(routes=[Route("/large", large)])
    with toolgen.Gateway.from_fastapi(made, name="own") as calls:
        assert "own__large" in [tool.name for tool in calls.tools.list()]
        assert calls.call("own__large", {}).status == "ok"
