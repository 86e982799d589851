"""What no JSON has a form for, from Python and over the wire: a validation that says where, and never an exception."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.gateway.raw import CLOSE, Served, request, serving, statuses
from tests.projects import audit_entries, make_project
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope
from toolgen.pipeline.input_validation import no_json

HALF = "a\ud800b"
PET = "pets__get_pet"


async def called(root: Path, name: Any, arguments: Any, more: Mapping[str, Any]) -> tuple[Envelope, int]:
    """The envelope and how many entries the record has of it; a preview, where nothing but arguments are given, ends the same."""

    async with Gateway.load(make_project(root)) as gateway:
        answer = await gateway.call(name, arguments, principal="bot", **more)
        if not more:
            rehearsed = await gateway.preview(name, arguments, principal="bot")
            assert rehearsed.error == answer.error
        return answer, len(audit_entries(gateway))


@pytest.mark.parametrize(
    ("name", "arguments", "more", "where"),
    [
        pytest.param(PET, {"petId": HALF}, {}, "/petId: contains half", id="a value"),
        pytest.param(PET, {HALF: 1}, {}, "/a\\ud800b: the name contains half", id="a name"),
        pytest.param(PET, {"petId": 1, "x": {"y/z": [1, {HALF: 2}]}}, {}, "/x/y~1z/1/a\\ud800b: the name", id="deep"),
        pytest.param(
            PET, {"petId": 1, 5: 2}, {}, "/5: the name must be a text, but is a Python int", id="a name that is none"
        ),
        pytest.param(PET, {"petId": {1}}, {}, "/petId: JSON has no form for a Python set", id="a set"),
        pytest.param(PET, {"petId": 1, "x": b"1"}, {}, "/x: JSON has no form for a Python bytes", id="bytes"),
        pytest.param("shop__query", {"sql": "SELECT ?", "parameters": [HALF]}, {}, "/parameters/0: contains", id="SQL"),
        pytest.param("pets__" + HALF, {}, {}, "the name of the tool contains half", id="the tool"),
        pytest.param(7, {}, {}, "the name of the tool must be a text", id="a tool that is a number"),
        *(
            pytest.param(PET, {"petId": 1}, {what: given}, f"{what}: it {why}", id=f"{what}-{why[:5]}")
            for what in ("session", "connection", "client", "parent", "idempotency_key")
            for given, why in ((HALF, "contains half"), (7, "must be a text"))
        ),
    ],
)
async def test_what_is_no_json_is_a_validation_that_says_where(
    tmp_path: Path, name: Any, arguments: Any, more: Mapping[str, Any], where: str
) -> None:
    answer, recorded = await called(tmp_path / "p", name, arguments, more)
    assert (answer.status, answer.error and answer.error.code) == ("refused", "validation")
    assert answer.error is not None
    assert answer.error.message.startswith(where)
    assert msgspec.json.decode(msgspec.json.encode(answer.to_dict()))["status"] == "refused"
    assert recorded == 0  # it never became a call


def test_what_is_too_much_to_look_at_is_left_to_the_record() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    assert no_json({"x": value}) is None
    assert (no_json({"x": value, HALF: 1}) or "").startswith("/a\\ud800b: ")


@pytest.mark.parametrize("value", [1, 2**70, 1.5, "ü😀", None, True, [1, (2,)], {"a": {}}])
def test_what_is_json_passes(value: object) -> None:
    assert no_json({"x": value}) is None


# The same over the wire


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("given") / "p") as found:
        yield found


META = b'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}'
STATELESS = ("MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: orders__get_health")


def rpc(params: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{' + params + b"}}"


@pytest.mark.parametrize("half", [b"\\ud800", b"\\udc00", b"\\ud800\\u0041", b"\xed\xa0\x80"])
@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/v1/tools/orders__get_health/call", b'{"arguments":{"x":"%b"}}', ()),
        ("/v1/tools/orders__get_health/call", b'{"arguments":{"%b":1}}', ()),
        ("/v1/tools/orders__get_health/call", b'{"idempotency_key":"%b"}', ()),
        ("/v1/tool_calls", b'[{"id":"%b","name":"orders__get_health","args":{}}]', ()),
        ("/v1/tool_calls", b'[{"id":"a","name":"%b","args":{}}]', ()),
        ("/v1/tool_calls", b'[{"id":"a","name":"orders__get_health","args":{"%b":1}}]', ()),
        ("/mcp", rpc(b'"name":"%b"'), ()),
        ("/mcp", rpc(b'"name":"orders__get_health","arguments":{"%b":1}'), ()),
        ("/mcp", rpc(b'"name":"orders__get_health","_meta":{"progressToken":"%b"}'), ()),
        ("/mcp", rpc(b'"name":"orders__get_health","_meta":{"x":"%b",' + META + b"}"), STATELESS),
        ("/mcp", rpc(b'"name":"orders__get_health","arguments":{"x":"%b"},"_meta":{' + META + b"}"), STATELESS),
    ],
)
def test_half_a_surrogate_pair_in_a_body_is_no_json_whatever_it_stands_in(
    served: Served, path: str, body: bytes, headers: tuple[str, ...], half: bytes
) -> None:
    before = len(served.seen.requests)
    answer = served.exchange(request(body.replace(b"%b", half), *headers, CLOSE, path=path))
    assert statuses(answer) == [400]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert len(served.seen.requests) == before


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/tools/orders__%ED%A0%80/call", (), 400),
        ("/v1/tools/orders__get_health/call", ("X-Conversation-Id: a\xed\xa0\x80b",), 400),
        ("/mcp", ("MCP-Session-Id: a\xed\xa0\x80b",), 400),
        ("/mcp", (*STATELESS[:2], "Mcp-Name: a\xed\xa0\x80b"), 400),
        ("/mcp", (*STATELESS[:2], "Mcp-Name: =?base64?7aCA?="), 400),
    ],
)
def test_half_a_surrogate_pair_in_a_path_or_a_header_is_refused(
    served: Served, path: str, headers: tuple[str, ...], status: int
) -> None:
    before = len(served.seen.requests)
    body = rpc(b'"name":"orders__get_health","_meta":{' + META + b"}") if path == "/mcp" else b"{}"
    answer = served.exchange(request(body, *headers, CLOSE, path=path))
    assert statuses(answer) == [status]
    assert len(served.seen.requests) == before


async def test_an_error_says_where_its_operation_is_documented(tmp_path: Path) -> None:
    path = make_project(tmp_path / "p")
    spec = path.parent / "specs" / "pets.json"
    written = json.loads(spec.read_text(encoding="utf-8"))
    for item in written["paths"].values():
        for operation in item.values():
            operation["externalDocs"] = {"url": "https://docs.example/pets"}
    spec.write_text(json.dumps(written), encoding="utf-8")
    async with Gateway.load(path) as gateway:
        wrong = await gateway.call(PET, {"petId": {}}, principal="bot")
        assert (wrong.error and wrong.error.code, wrong.error and wrong.error.help_url) == (
            "validation",
            "https://docs.example/pets",
        )
        unknown = await gateway.call("pets__nothing", {}, principal="bot")
        assert unknown.error
        assert not unknown.error.help_url
