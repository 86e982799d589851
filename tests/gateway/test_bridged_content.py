"""What a bridged MCP server answers arrives as it was: block by block, in order, with structured content beside it and nothing twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.commands import Run, runner
from tests.services.bridged import POLICY, hostile, listed, with_gateway, write_project
from toolgen.gateway.json_body import envelope_json
from toolgen.gateway.mcp.results import tool_result
from toolgen.gateway.service import Gateway
from toolgen.gateway.tool_lists import Listing
from toolgen.model.result import Envelope
from toolgen.policy.answer_redaction import WITHHELD

NOTES: dict[str, Any] = {"annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"vendor/x": [1]}}
LINK = {"type": "resource_link", "uri": "a://3", "name": "n", "title": "t", "description": "d", "mimeType": "a/b"}
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "first", **NOTES},
    {"type": "image", "data": "aGk=", "mimeType": "image/png", **NOTES},
    {"type": "text", "text": "second"},
    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", **NOTES},
    {"type": "resource", "resource": {"uri": "a://1", "mimeType": "text/plain", "text": "t", "_meta": {}}, **NOTES},
    {"type": "resource", "resource": {"uri": "a://2", "blob": "aGk="}},
    {**LINK, "size": 7, **NOTES},
]
OUTPUT = {"outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
FILE = 'a "file" of\ntwo lines'
LISTED = {"result": [{"a": 1}, {"a": 2}]}
Said = tuple[Envelope, dict[str, Any]]


@pytest.fixture(name="toolgen")
def _toolgen(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner(capfdbinary)


def answers(root: Path, toolgen: Run, results: list[Any], name: str = "says", **policy: Any) -> list[Said]:
    """What calls come to that the server answers so: for programs, and over MCP. `far__promises` has an output schema."""
    takes = {"inputSchema": {"type": "object", "properties": {"result": {}}}}
    tools = [{**tool, **takes} for tool in (*listed("says"), *listed("promises", **OUTPUT))]
    path = write_project(root, {**POLICY, **policy}, mcp={"command": hostile(root, *tools)})
    assert toolgen("build").code == 0

    async def work(gateway: Gateway) -> list[Said]:
        listing = Listing(gateway.tool_calls.catalog(gateway.principal("bot")))
        made = []
        for result in results:
            envelope = await gateway.call(f"far__{name}", {"result": result}, principal="bot")
            shown = tool_result(envelope, f"far__{name}", listing)
            made.append((envelope, msgspec.json.decode(msgspec.json.encode(shown, enc_hook=dict))))
        return made

    found: list[Said] = with_gateway(path, work)
    return found


def texts(*said: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": one} for one in said]


def test_blocks_arrive_as_they_were_and_in_order(tmp_path: Path, toolgen: Run) -> None:
    [(envelope, shown)] = answers(tmp_path, toolgen, [{"content": BLOCKS}])
    assert shown["content"] == BLOCKS
    assert envelope.data == {"content": BLOCKS}
    assert "data" not in shown["structuredContent"]
    assert shown["structuredContent"]["call_id"] == envelope.call_id
    assert "content" not in envelope_json(envelope)
    assert "content" not in envelope.to_dict()


CASES: list[tuple[dict[str, Any], Any, Any]] = [  # what the server says, `data`, and the data beside the blocks over MCP
    ({"content": texts("one")}, "one", None),
    ({"content": texts("one", "two")}, "one\ntwo", None),
    ({"content": texts(FILE), "structuredContent": {"content": FILE}}, {"content": FILE}, {"content": FILE}),
    ({"content": texts('{ "n": 5 }'), "structuredContent": {"n": 5}}, {"n": 5}, {"n": 5}),
    ({"content": texts("5"), "structuredContent": {"result": 5}}, {"result": 5}, {"result": 5}),
    ({"content": texts('{"a": 1}', '{"a": 2}'), "structuredContent": LISTED}, LISTED, LISTED),
    ({"content": [], "structuredContent": {"n": 5}}, {"n": 5}, {"n": 5}),
    ({"content": texts("more"), "structuredContent": {"n": 5}}, {"content": texts("more"), "structuredContent": {"n": 5}}, {"n": 5}),
    ({"content": BLOCKS[1:2], "structuredContent": {"n": 5}}, {"content": BLOCKS[1:2], "structuredContent": {"n": 5}}, {"n": 5}),
    ({"content": [{"type": "text"}, 5, {"type": "image", "data": 5}]}, None, None),
]  # fmt: skip


def test_structured_content_stands_beside_blocks_and_never_in_their_place(tmp_path: Path, toolgen: Run) -> None:
    found = answers(tmp_path, toolgen, [result for result, _, _ in CASES])
    for (result, data, beside), (envelope, shown) in zip(CASES, found, strict=True):
        assert envelope.status == "ok"
        if data is None:
            assert all("here the server sent" in block["text"] for block in shown["content"])
            continue
        assert envelope.data == data
        assert shown["content"] == result["content"]
        assert shown["structuredContent"].get("data") == beside


def test_a_promised_shape_is_what_the_server_said_and_its_text_too(tmp_path: Path, toolgen: Run) -> None:
    good = {"content": [*texts("five"), BLOCKS[1]], "structuredContent": {"n": 5}}
    bad = {"content": BLOCKS[:2], "structuredContent": {"n": "x"}}
    (_, first), (_, second) = answers(tmp_path, toolgen, [good, bad], "promises")
    assert first == {**good, "isError": False}
    assert "structuredContent" not in second
    assert second["content"][1:3] == BLOCKS[:2]
    assert "carried out" in second["content"][0]["text"]


def test_an_error_brings_its_blocks(tmp_path: Path, toolgen: Run) -> None:
    pictured = {"content": [*texts("see the picture"), BLOCKS[1]], "isError": True}
    (_, shown), (plain, said) = answers(tmp_path, toolgen, [pictured, {"content": texts("no"), "isError": True}])
    assert shown["isError"] is True
    assert shown["content"][1:] == pictured["content"]
    assert (plain.data, len(said["content"])) == (None, 1)


def test_an_error_of_several_lines_arrives_as_it_was(tmp_path: Path, toolgen: Run) -> None:
    lines = texts("no match for:\n    two = 2\n")
    [(failed, shown)] = answers(tmp_path, toolgen, [{"content": lines, "isError": True}])
    assert shown["content"][1:] == lines
    assert failed.data == lines[0]["text"]


def test_every_block_is_redacted_or_withheld(tmp_path: Path, toolgen: Run) -> None:
    email = "ada.canary@example.com"
    blocks = [*texts(json.dumps({"user": {"email": email}}), f"mail {email}"), *BLOCKS[1:]]
    results = [{"content": blocks, "structuredContent": {"user": {"email": email, "n": 5}}}]
    results.append({"content": [*texts(f"no {email}"), BLOCKS[1]], "isError": True})
    rules = [{"tools": ["far__*"], "fields": ["$.user.email"], "with": "***"}]
    (envelope, shown), (failed, _) = answers(tmp_path, toolgen, results, redact=rules)
    assert email not in json.dumps([shown, envelope.to_dict(), failed.to_dict()])
    assert shown["structuredContent"]["data"] == {"user": {"email": "***", "n": 5}}
    first, *rest = shown["content"]
    assert first["text"] == '{"user":{"email":"***"}}'
    assert [block.get("text", "")[:9] for block in rest].count(WITHHELD[:9]) == len(rest) - 1
    assert rest[4]["resource"] == {"uri": "withheld:", "mimeType": "text/plain", "text": WITHHELD, "_meta": {}}


def test_an_answer_that_does_not_say_whether_it_worked_is_an_error(tmp_path: Path, toolgen: Run) -> None:
    wrong = ["true", "false", 0, 1, None, [], {}]
    results = [{"content": texts("done"), "isError": value} for value in wrong]
    for envelope, shown in answers(tmp_path, toolgen, results):
        assert envelope.error is not None
        assert (envelope.error.code, shown["isError"]) == ("upstream_error", True)
        assert "neither true nor false" in envelope.error.message
