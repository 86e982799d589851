"""Live introspection: asked for within bounds, and answered by services old and new."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from graphql import build_schema, execute_sync, get_introspection_query, parse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.cli.commands import runner
from tests.connectors.graphql.reading import FIXTURES, binding, read
from toolgen.connectors.graphql import description
from toolgen.connectors.graphql.introspection import introspect
from toolgen.core.errors import DescriptionError

SDL = (FIXTURES / "edges.graphql").read_text(encoding="utf-8")
Handler = Callable[[Any], Response]


@pytest.fixture(name="serve")
def _serve() -> Iterator[Callable[[Handler], tuple[str, list[Request]]]]:
    running: list[tuple[uvicorn.Server, threading.Thread, socket.socket]] = []

    def serve(handler: Handler) -> tuple[str, list[Request]]:
        seen: list[Request] = []

        async def answer(request: Request) -> Response:
            seen.append(request)
            return handler(json.loads(await request.body()))

        listener = socket.create_server(("127.0.0.1", 0))
        application = Starlette(routes=[Route("/graphql", answer, methods=["POST"])])
        server = uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        running.append((server, thread, listener))
        return f"http://127.0.0.1:{listener.getsockname()[1]}/graphql", seen

    yield serve
    for server, thread, listener in running:
        server.should_exit = True
        thread.join()
        listener.close()


def executing(asked: Any) -> Response:
    return JSONResponse(execute_sync(build_schema(SDL), parse(asked["query"])).formatted)


def test_a_live_endpoint_gives_the_tools_its_schema_gives(serve: Any) -> None:
    url, seen = serve(executing)
    live = read(url, endpoint="")
    assert {binding(tool).endpoint for tool in live.tools} == {url}
    written = read(FIXTURES / "edges.graphql", endpoint=url)
    assert [tool.to_dict() for tool in live.tools] == [tool.to_dict() for tool in written.tools]
    [request] = seen
    assert request.headers["accept-encoding"] == "identity"
    assert "authorization" not in request.headers


def test_a_service_that_does_not_know_one_of_is_asked_again_without(serve: Any) -> None:
    def old(asked: Any) -> Response:
        if "isOneOf" in asked["query"]:
            return JSONResponse({"errors": [{"message": "Cannot query field 'isOneOf'"}]})
        return executing(asked)

    url, seen = serve(old)
    assert len(read(url).tools) == len(read(FIXTURES / "edges.graphql").tools)
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            lambda: JSONResponse({"errors": [{"message": "introspection is off"}]}),
            "does not answer introspection: introspection is off",
        ),
        (
            lambda: JSONResponse({"errors": [{"message": "introspection is off"}]}, 400),
            "does not answer introspection: introspection is off",
        ),
        (lambda: JSONResponse({"message": "no"}, 401), "wants a credential; set `auth:`"),
        (lambda: Response("<html>", media_type="text/html"), "web page"),
        (lambda: Response("<html>", 500, media_type="text/html"), "answers 500 with a web page"),
        (lambda: Response(status_code=307, headers={"location": "http://127.0.0.1:1/"}), "redirects are not followed"),
        (lambda: JSONResponse({"data": {"other": 1}}), "has no `__schema`"),
        (lambda: Response(b"x" * 2**21), "more than 1 MiB"),
        (lambda: Response(b"\x1f\x8b", headers={"content-encoding": "gzip"}), "compressed body"),
    ],
)
def test_an_answer_that_is_no_introspection_is_a_description_error(
    serve: Any, monkeypatch: pytest.MonkeyPatch, answer: Callable[[], Response], message: str
) -> None:
    monkeypatch.setattr(description, "MAX_SIZE", 2**20)
    url, _ = serve(lambda _: answer())
    with pytest.raises(DescriptionError, match=message) as caught:
        read(url)
    assert caught.value.where == url


def test_a_build_asks_with_the_credential_that_calls_are_made_with_and_keeps_it_out_of_every_file(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    url, seen = serve(executing)
    monkeypatch.setenv("CANARY", "canary-5d1c")
    text = f"sources: {{s: {{graphql: '{url}', auth: {{bearer: '${{env:CANARY}}'}}}}}}\n"
    (tmp_path / "toolgen.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    built = runner(capfdbinary)("build")
    assert built.code == 0, built.err
    assert seen[0].headers["authorization"] == "Bearer canary-5d1c"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert not any(b"canary-5d1c" in path.read_bytes() for path in files)
    assert "canary-5d1c" not in built.out + built.err


@pytest.mark.parametrize(("status", "message"), [(401, "does not accept the credential"), (200, "does not answer")])
def test_a_credential_that_is_not_accepted_is_named_and_not_shown(serve: Any, status: int, message: str) -> None:
    url, _ = serve(lambda _: JSONResponse({"errors": [{"message": "who is canary-5d1c?"}]}, status))
    with pytest.raises(DescriptionError, match=message) as caught:
        introspect(url, largest=2**20, headers={"Authorization": "Bearer canary-5d1c"})
    assert "canary" not in str(caught.value)


def test_an_endpoint_nobody_listens_on_is_a_description_error() -> None:
    with pytest.raises(DescriptionError, match="cannot be queried") as caught:
        read("http://127.0.0.1:1/graphql")
    assert "schema to a file" in caught.value.suggestion


def test_a_proxy_of_the_environment_is_not_used(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, through_proxy = serve(executing)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    url, direct = serve(executing)
    read(url)
    assert (len(direct), len(through_proxy)) == (1, 0)


def test_the_plain_question_is_graphql_cores_own() -> None:
    assert "isOneOf" not in get_introspection_query()
