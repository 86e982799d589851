"""What a bridged MCP server answers arrives as it was: block by block, in order, with structured content beside it and nothing twice."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.commands import Run
from tests.services.bridged import POLICY, hostile, listed, write_project
from toolgen.frontends.mcp.messages import ProtocolStyle
from toolgen.frontends.mcp.results import Rendering, tool_result
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.json_body import envelope_json
from toolgen.gateway.catalog.tool_lists import ToolListing
from toolgen.model.result import Envelope
from toolgen.policy.answer_redaction import WITHHELD

pytestmark = pytest.mark.usefixtures("in_tmp_path")

NOTES: dict[str, Any] = {"annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"vendor/x": [1]}}
LINK = {"type": "resource_link", "uri": "a://3", "name": "n", "title": "t", "description": "d", "mimeType": "a/b"}
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "first", **NOTES},
    {"type": "image", "data": "aGk=", "mimeType": "image/png", **NOTES},
    {"type": "text", "text": "second"},
    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav", **NOTES},
    {
        "type": "resource",
        "resource": {"uri": "a://1", "mimeType": "text/plain", "text": "t", "_meta": {"vendor/y": 1}},
        **NOTES,
    },
    {"type": "resource", "resource": {"uri": "a://2", "blob": "aGk="}},
    {**LINK, "size": 7, **NOTES},
]
OUTPUT = {"outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
FILE = 'a "file" of\ntwo lines'
LISTED = {"result": [{"a": 1}, {"a": 2}]}
Said = tuple[Envelope, dict[str, Any]]


async def answers(
    root: Path, toolgen: Run, results: list[Any], name: str = "says", form: str = "none", **policy: Any
) -> list[Said]:
    """What calls come to that the server answers so: for programs, and over MCP. `far__promises` has an output schema."""
    takes = {"inputSchema": {"type": "object", "properties": {"result": {}}}}
    tools = [{**tool, **takes} for tool in (*listed("says"), *listed("promises", **OUTPUT))]
    path = write_project(root, {**POLICY, **policy}, mcp={"command": hostile(root, *tools)}, output_schema=form)
    assert toolgen("build").code == 0

    async with Gateway.load(path) as gateway:
        listing = ToolListing(gateway.tool_calls.catalog(gateway.principal("bot")))
        made: list[Said] = []
        for result in results:
            envelope = await gateway.call(f"far__{name}", {"result": result}, principal="bot")
            shown = tool_result(
                envelope, f"far__{name}", Rendering(listing=listing, protocol_style=ProtocolStyle.STATEFUL)
            )
            made.append((envelope, msgspec.json.decode(msgspec.json.encode(shown, enc_hook=dict))))
    return made


def texts(*said: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": one} for one in said]


async def test_blocks_arrive_as_they_were_and_in_order(tmp_path: Path, toolgen: Run) -> None:
    [(envelope, shown)] = await answers(tmp_path, toolgen, [{"content": BLOCKS}])
    assert shown["content"][:-1] == BLOCKS[:-1]
    assert shown.keys() == {"content", "isError"}
    here = envelope.data["content"][-1]["_meta"].pop("toolgen/uri")
    assert envelope.data == {"content": BLOCKS}
    said, hint = shown["content"][-1]["text"].split("\n")
    assert said == "File n, t, d (a/b, 7 bytes): a://3"
    assert hint.endswith(here)
    assert "content" not in envelope_json(envelope)
    assert "content" not in envelope.to_dict()


async def test_a_picture_that_is_kept_as_a_file_has_its_annotations(tmp_path: Path, toolgen: Run) -> None:
    png = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
    picture = {"type": "image", "data": base64.b64encode(png).decode(), "mimeType": "image/png", **NOTES}
    [(_, shown)] = await answers(tmp_path, toolgen, [{"content": [picture]}])
    image, named = shown["content"]
    assert image == picture
    assert named["annotations"] == NOTES["annotations"]
    assert "toolgen://answers/" in named["text"]


FIVE = {"structuredContent": {"n": 5}}
TWO = {"a": 1, "b": "x"}
CASES: list[tuple[dict[str, Any], Any, Any]] = [  # what the server says, `data`, and the blocks over MCP
    ({"content": texts("one")}, "one", texts("one")),
    ({"content": texts("one", "two")}, "one\ntwo", texts("one", "two")),
    ({"content": texts(FILE), "structuredContent": {"content": FILE}}, {"content": FILE}, texts(FILE)),
    ({"content": texts('{ "n": 5 }'), **FIVE}, {"n": 5}, texts('{ "n": 5 }')),
    ({"content": texts("5"), "structuredContent": {"result": 5}}, {"result": 5}, texts("5")),
    ({"content": texts('{"a": 1}', '{"a": 2}'), "structuredContent": LISTED}, LISTED, texts('{"a": 1}', '{"a": 2}')),
    ({"content": texts("x"), "structuredContent": TWO}, TWO, texts('{"a":1,"b":"x"}')),
    ({"content": [], **FIVE}, {"n": 5}, texts('{"n":5}')),
    ({"content": texts("more"), **FIVE}, {"content": texts("more"), **FIVE}, texts("more", '{"n":5}')),
    ({"content": BLOCKS[1:2], **FIVE}, {"content": BLOCKS[1:2], **FIVE}, [*BLOCKS[1:2], *texts('{"n":5}')]),
    (
        {"content": BLOCKS[1:2], "structuredContent": {"content": BLOCKS[1:2]}},
        {"content": BLOCKS[1:2], "structuredContent": {"content": BLOCKS[1:2]}},
        BLOCKS[1:2],
    ),
    ({"content": [{"type": "text"}, 5, {"type": "image", "data": 5}]}, None, None),
]


async def test_structured_content_is_text_where_no_text_of_the_server_says_it(tmp_path: Path, toolgen: Run) -> None:
    found = await answers(tmp_path, toolgen, [result for result, _, _ in CASES])
    for (_, data, blocks), (envelope, shown) in zip(CASES, found, strict=True):
        assert (envelope.status, shown.keys()) == ("ok", {"content", "isError"})
        if data is None:
            assert all(block["text"].startswith("[here the server") for block in shown["content"])
            continue
        assert envelope.data == data
        assert shown["content"] == blocks


@pytest.mark.parametrize("form", ["lenient", "strict"])
async def test_structured_content_goes_with_the_servers_schema_where_that_is_listed(
    tmp_path: Path, toolgen: Run, form: str
) -> None:
    results = [
        {"content": texts('{"n": 5}'), **FIVE},
        {"content": [*texts("five"), BLOCKS[1]], **FIVE},
        {"content": texts("words"), "structuredContent": {"n": "x"}},
        {"content": texts("words")},
        {"content": texts('{"n": 5}'), "isError": True, **FIVE},
    ]
    found = [shown.get("structuredContent") for _, shown in await answers(tmp_path, toolgen, results, "promises", form)]
    assert found == [
        {"n": 5},
        {"n": 5, "gateway_note": "five\n\n[image/png: in the content of this answer]"},
        {"gateway_note": 'words\n\n{"n":"x"}'},
        {"gateway_note": "words"},
        None,
    ]


async def test_an_error_brings_its_blocks(tmp_path: Path, toolgen: Run) -> None:
    pictured = {"content": [*texts("see the picture"), BLOCKS[1]], "isError": True}
    (_, shown), (plain, said) = await answers(tmp_path, toolgen, [pictured, {"content": texts("no"), "isError": True}])
    assert shown["isError"] is True
    assert shown["content"][1:] == pictured["content"]
    assert (plain.data, len(said["content"])) == (None, 1)


async def test_an_error_of_several_lines_arrives_as_it_was(tmp_path: Path, toolgen: Run) -> None:
    lines = texts("no match for:\n    two = 2\n")
    [(failed, shown)] = await answers(tmp_path, toolgen, [{"content": lines, "isError": True}])
    assert shown["content"][1:] == lines
    assert failed.data == lines[0]["text"]


async def test_every_block_is_redacted_or_withheld(tmp_path: Path, toolgen: Run) -> None:
    email = "ada.canary@example.com"
    blocks = [*texts(json.dumps({"user": {"email": email}}), f"mail {email}"), *BLOCKS[1:]]
    results = [{"content": blocks, "structuredContent": {"user": {"email": email, "n": 5}}}]
    results.append({"content": [*texts(f"no {email}"), BLOCKS[1]], "isError": True})
    rules = [{"tools": ["far__*"], "fields": ["$.user.email"], "with": "***"}]
    (envelope, shown), (failed, _) = await answers(tmp_path, toolgen, results, redact=rules)
    assert email not in json.dumps([shown, envelope.to_dict(), failed.to_dict()])
    first, *rest, last = shown["content"]
    assert first["text"] == '{"user":{"email":"***"}}'
    assert last["text"] == '{"user":{"email":"***","n":5}}'
    assert [block.get("text", "")[:9] for block in rest].count(WITHHELD[:9]) == len(rest) - 1
    assert rest[4]["resource"] == {
        "uri": "withheld:",
        "mimeType": "text/plain",
        "text": WITHHELD,
        "_meta": {"vendor/y": 1},
    }


async def test_an_answer_that_does_not_say_whether_it_worked_is_an_error(tmp_path: Path, toolgen: Run) -> None:
    wrong = ["true", "false", 0, 1, None, [], {}]
    results = [{"content": texts("done"), "isError": value} for value in wrong]
    for envelope, shown in await answers(tmp_path, toolgen, results):
        assert envelope.error is not None
        assert (envelope.error.code, shown["isError"]) == ("upstream_error", True)


async def test_a_page_of_a_bridged_list_says_how_to_read_on_and_gives_the_items_that_were_asked_for(
    tmp_path: Path, toolgen: Run
) -> None:
    pages = {"inputSchema": {"type": "object", "properties": {"result": {}, "cursor": {"type": "string"}}}}
    reads = {**pages, "annotations": {"readOnlyHint": True}}
    path = write_project(
        tmp_path, POLICY, mcp={"command": hostile(tmp_path, *listed("says", **reads)), "annotations": "trusted"}
    )
    assert toolgen("build").code == 0
    page = {"items": [{"id": number, "size": number * 3 % 5, "x": "y"} for number in range(4)], "next_cursor": "c2"}
    results = [
        {"content": texts(json.dumps(page)), "structuredContent": page},
        {"content": texts(json.dumps(page))},
        {"content": texts(json.dumps({**page, "next_cursor": None}))},
    ]

    async with Gateway.load(path) as gateway:
        (tool,) = (one for one in gateway.tool_calls.catalog(gateway.principal("bot")) if one.name == "far__says")
        assert {"fields", "where", "sort", "top", "pages"} == tool.input_schema["properties"]["answer"][
            "properties"
        ].keys()
        asked = {"fields": ["items.id"], "sort": "-size", "top": 1}
        whole, text, last, chosen = [
            *[await gateway.call("far__says", {"result": one}, principal="bot") for one in results],
            await gateway.call("far__says", {"result": results[0], "answer": asked}, principal="bot"),
        ]
    for envelope in (whole, text):
        assert envelope.meta.more is not None
        assert envelope.meta.more.arguments == {"cursor": "c2"}
    assert last.meta.more is None
    assert chosen.data == {"items": [{"id": 3}]}
    assert chosen.meta.more is not None
    assert (chosen.meta.more.read, chosen.meta.more.shown) == (4, 1)
