"""Properties of the message core: whatever arrives, it answers in JSON-RPC and says nothing it was sent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gateway.gateways import BOT, FakeGateway
from toolgen.frontends.mcp.server import Caller, Mcp, ProtocolStyle, RpcMessage, RpcReply, client_label, parse
from toolgen.gateway.catalog.tool_lists import Listings

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
METHODS = st.sampled_from(
    ["tools/call", "tools/list", "initialize", "ping", "server/discover", "notifications/cancelled"]
)


def dumped(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except TypeError:  # an integer beyond 64 bits
        return b"{}"


@given(st.binary(max_size=200) | JSON.map(dumped))
def test_any_bytes_are_a_message_or_one_error_reply(data: bytes) -> None:
    parsed = parse(data)
    if isinstance(parsed, RpcReply):
        body = msgspec.json.decode(parsed.body)
        assert body["jsonrpc"] == "2.0"
        assert body["error"]["code"] in {-32700, -32600, -32602}
    else:
        assert parsed.jsonrpc == "2.0"


@given(
    method=METHODS | st.text(max_size=10),
    params=st.dictionaries(st.sampled_from(["name", "arguments", "cursor", "_meta", "protocolVersion"]), JSON),
    protocol_style=st.sampled_from(ProtocolStyle),
)
async def test_any_request_gets_exactly_one_reply_with_its_id(
    method: str, params: dict[str, Any], protocol_style: ProtocolStyle
) -> None:
    gateway = FakeGateway(tools=())
    mcp = Mcp(gateway, Listings(gateway))
    message = RpcMessage(jsonrpc="2.0", id="r1", method=method, params=params)
    reply = await mcp.answer(message, protocol_style=protocol_style, caller=Caller(principal=BOT))
    body = msgspec.json.decode(reply.body)
    assert body["id"] == "r1"
    assert ("result" in body) != ("error" in body)


@pytest.mark.parametrize(
    ("info", "label"),
    [
        ({"name": "a", "version": "1"}, "a/1"),
        ({"name": "a"}, "a"),
        ({"name": "a", "version": 1}, "a"),
        ({"name": "a\r\nX: y\x1b[31m", "version": "\u202e1"}, "a??X: y?[31m/?1"),
        ({"name": "x" * 500}, "x" * 120),
        ({"name": 5}, ""),
        ({}, ""),
        (None, ""),
        ("a", ""),
        (["a"], ""),
    ],
)
def test_a_clients_name_is_kept_short_and_printable(info: object, label: str) -> None:
    assert client_label(info) == label


async def test_an_id_is_given_back_as_it_came() -> None:
    gateway = FakeGateway()
    mcp = Mcp(gateway, Listings(gateway))
    for request in (0, -1, 2**70, "", "ü\n", "1"):
        message = parse(b'{"jsonrpc":"2.0","method":"ping","id":' + dumped_id(request) + b"}")
        assert isinstance(message, RpcMessage)
        reply = await mcp.answer(message, protocol_style=ProtocolStyle.STATEFUL, caller=Caller(principal=BOT))
        assert b'"id":' + dumped_id(request) in reply.body


def dumped_id(request: int | str) -> bytes:
    return str(request).encode() if isinstance(request, int) else msgspec.json.encode(request)
