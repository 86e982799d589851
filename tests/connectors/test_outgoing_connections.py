"""Outgoing connections: each module that opens one, with its way through the proxy of the policy, or the reason why it has none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.test_architecture import modules

THROUGH_PROXY = {
    "toolgen.connectors.http.client": "calls over HTTP/1.1: `Dialer` gives it a tunnel",
    "toolgen.connectors.http.http2_client": "calls over HTTP/2: as above",
    "toolgen.connectors.http.proxy_tunnel": "the tunnel itself",
    "toolgen.connectors.http.streaming_client": "event streams: as above",
    "toolgen.connectors.http.outbound.transport": "requests that are no calls: a tunnel for each connection",
    "toolgen.connectors.sql.execution.snowflake_api": "statements over HTTP: the transport above",
    "toolgen.connectors.http.outbound.blocking": "descriptions: the transport above, if there is a policy with a proxy",
    "toolgen.connectors.graphql.graphql_transport_ws": "subscriptions: the socket of a tunnel",
}
DIRECT = {
    "toolgen.cli.remote_gateway": "a client of a gateway, with the key of its user",
    "toolgen.cli.demo.story": "the agent of the demo, on loopback",
    "toolgen.connectors.syslog_client": "syslog over TLS is no HTTP; the policy checks its address",
    "toolgen.connectors.kafka_client": "Kafka is no HTTP; the policy checks the address of each broker",
    "toolgen.connectors.sql.reading.no_session": "a database; the policy checks its address",
    "toolgen.connectors.sql.execution.metered_connection": "the descriptor of a database connection that exists",
    "toolgen.connectors.sql.execution.tds_connection": "a database; the policy checks its address",
    "toolgen.connectors.sql.dialects": "a database",
    "toolgen.connectors.mcp.command_server": "a pair of sockets between processes of one gateway",
    "toolgen.connectors.mcp.command_client": "as above",
    "toolgen.state.shared_counts": "as above",
    "toolgen.state.redis_connection": "Redis",
    "toolgen.frontends.server.sockets": "listens",
    "toolgen.frontends.server.lifeline": "a pair of sockets between processes of one gateway",
    "toolgen.frontends.server.worker": "listens",
}
OPENERS = {
    *("Client", "AsyncClient", "HTTPTransport", "AsyncHTTPTransport", "AsyncConnectionPool", "ConnectionPool"),
    *("create_connection", "create_unix_connection", "open_connection", "open_unix_connection", "connect_tcp"),
    *("sock_connect", "urlopen", "HTTPConnection", "HTTPSConnection", "ClientSession", "AnyIOBackend", "socketpair"),
    *("Redis", "RedisCluster", "connect", "socket"),
}
NAMESPACES = {"httpx", "httpcore", "socket", "asyncio", "redis", "websockets", "urllib", "http"}


def openers(name: str, text: str) -> Iterator[str]:
    """Yield calls that open a connection: by a name of a library, or by a method of an event loop or a backend."""
    tree = ast.parse(text)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in NAMESPACES
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names = {base.id for base in node.bases if isinstance(base, ast.Name)}
            yield from (f"{name}:{node.lineno} {base}" for base in sorted(names & imported & OPENERS))
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in imported & OPENERS:
            yield f"{name}:{node.lineno} {called.id}"
        if not isinstance(called, ast.Attribute) or called.attr not in OPENERS:
            continue
        owner = called.value
        library = isinstance(owner, ast.Name) and owner.id in NAMESPACES
        if library or called.attr in {"create_connection", "create_unix_connection", "connect_tcp", "sock_connect"}:
            yield f"{name}:{node.lineno} {called.attr}"


def test_every_module_that_opens_a_connection_is_listed_with_its_way_through_the_proxy() -> None:
    found = {name for name, text in modules().items() if [*openers(name, text)]}
    known = {*THROUGH_PROXY, *DIRECT}
    assert {name for name in found if name not in known} == set()
    assert {name for name in THROUGH_PROXY if name not in found} == set()


@pytest.mark.parametrize(
    "text",
    [
        "import httpx\nhttpx.Client()",
        "import httpx\nasync def f():\n    async with httpx.AsyncClient() as c: pass",
        "from httpx import Client\nClient()",
        "from websockets.asyncio.client import connect\nclass Own(connect): pass",
        "import asyncio\nasync def f(): await asyncio.open_connection('a', 1)",
        "import asyncio\nasync def f(): await asyncio.get_running_loop().create_connection(None, 'a', 1)",
        "import socket\nsocket.create_connection(('a', 1))",
        "from urllib.request import urlopen\nurlopen('http://a')",
    ],
)
def test_a_planted_connection_is_found(text: str) -> None:
    assert [*openers("toolgen.planted", text)] != []
