"""HTTP/2, for a source that asks for it, at a real server; HTTP/1.1 is then not spoken."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.connectors.http.bindings import binding, call, parameter
from tests.connectors.http.test_downloads import FILE, Taking
from tests.connectors.http.test_executor import Server, echo, executor
from tests.connectors.http.upstreams import asked as requested
from toolgen.connectors.executor import Destination
from toolgen.connectors.failure_settings import Timeouts
from toolgen.connectors.http.http2_client import Http2Client
from toolgen.model.result import Failed, Success
from toolgen.model.verdict import Deny

NGINX = """
daemon off;
user root;
error_log {folder}/error.log;
pid {folder}/nginx.pid;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port} http2;
    default_type application/json;
    location /e {{ return 200 '{{"protocol": "$server_protocol", "q": "$arg_q", "header": "$http_x_a"}}'; }}
    location /file {{ root {folder}; default_type application/octet-stream; }}
    location /long {{ return 200 '{long}'; }}
    location /missing {{ return 404 '{{"message": "there is none"}}'; }}
  }}
}}
"""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """An nginx that speaks HTTP/2 without TLS."""
    nginx = shutil.which("nginx")
    if nginx is None:
        pytest.skip("nginx is not installed: `make proxies` installs it")
    folder = tmp_path_factory.mktemp("nginx")
    with socket.create_server(("127.0.0.1", 0)) as listener:  # nginx inherits it, so that nobody else can have its port
        found = listener.getsockname()[1]
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=found, long="x" * 3000), encoding="utf-8")
        (folder / "file").write_bytes(FILE)
        command = [nginx, "-c", str(folder / "nginx.conf"), "-p", str(folder)]
        environment = {**os.environ, "NGINX": f"{listener.fileno()};"}
        with subprocess.Popen(command, env=environment, pass_fds=[listener.fileno()]) as process:
            yield found
            process.terminate()


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_long_file_is_taken_in_parts(port: int, refuses: bool) -> None:
    sink = Taking(refuses=refuses)

    client = Http2Client(
        scheme="http",
        host="127.0.0.1",
        port=port,
        address="127.0.0.1",
        timeouts=Timeouts(),
        tls=ssl.create_default_context,
    )
    try:
        reply = await client.send(
            requested(url=f"http://127.0.0.1:{port}/file"), 300_000, asyncio.Semaphore(4), sink=sink
        )
    finally:
        client.close()
    if refuses:
        assert (reply.truncated, sink.taken) == (True, [])
    else:
        assert b"".join([*sink.taken, reply.body]) == FILE
        assert not reply.truncated


async def asked(port: int, bound: Any = None, arguments: dict[str, Any] | None = None, **more: Any) -> Success | Failed:
    sender = executor(http2=True, **more)
    try:
        return await sender.execute(call(bound or binding(servers=(f"http://127.0.0.1:{port}",)), arguments))
    finally:
        await sender.close()


async def test_a_call_is_made_in_http2(port: int) -> None:
    bound = binding(
        parameter("query"), parameter("header", name="X-A", argument="a"), servers=(f"http://127.0.0.1:{port}",)
    )
    outcome = await asked(port, bound, {"q": "1", "a": "2"})
    assert isinstance(outcome, Success)
    assert outcome.data == {"protocol": "HTTP/2.0", "q": "1", "header": "2"}
    assert outcome.delivery.status == 200


async def test_an_error_and_a_long_answer_are_what_they_are_in_http1(port: int) -> None:
    missing = await asked(port, binding(servers=(f"http://127.0.0.1:{port}",), path="/missing"))
    assert isinstance(missing, Failed)
    assert missing.delivery.status == 404
    long = await asked(port, binding(servers=(f"http://127.0.0.1:{port}",), path="/long"), largest=1000)
    assert isinstance(long, Failed)
    assert long.error.code == "response_too_large"


async def test_every_address_is_put_to_the_policy_before() -> None:
    seen: list[Destination] = []

    def permit(destination: Destination) -> Deny:
        seen.append(destination)
        return Deny(rule="r", reason="no", code="egress_refused")

    outcome = await asked(1, permit=permit)
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "egress_refused"
    assert [one.address for one in seen] == ["127.0.0.1"]


async def test_a_server_that_speaks_only_http1_is_sent_no_request() -> None:
    server = Server(echo)
    async with server.serving() as port:
        sender = executor(http2=True)
        try:
            outcome = await sender.execute(call(binding(servers=(f"http://127.0.0.1:{port}",))))
        finally:
            await sender.close()
    assert not any(head.startswith(b"GET") for head in server.heads)
    assert isinstance(outcome, Failed)
    assert outcome.delivery.unsent
    assert "does not speak HTTP/2" in outcome.error.message


async def test_where_nobody_listens_nothing_was_sent() -> None:
    with socket.socket() as deaf:  # it has the port, and does not listen
        deaf.bind(("127.0.0.1", 0))
        outcome = await asked(deaf.getsockname()[1])
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "upstream_unavailable"
    assert outcome.delivery.unsent
