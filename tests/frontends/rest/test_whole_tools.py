"""Tools of a very large description over REST: every listing is a schema by itself, and one tool can be had with all that it leads to."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema

from tests.model.test_stored_schemas import COUNT, linked
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.shared_definitions import Closure
from toolgen.model.subschemas import references

KEY = {"authorization": "Bearer key-of-bot"}
HASH = "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest()
RULE = {"id": "some", "to": ["bot"], "tools": ["t__*s0", "t__*s1"], "effects": ["write"], "verdict": "allow"}


async def asked(root: Path, *paths: str) -> tuple[Gateway, list[httpx.Response]]:
    (root / "policies").mkdir()
    policy = {"principals": {"bot": {"api_key": HASH, "roles": ["bot"]}}, "rules": [RULE]}
    (root / "policies" / "p.yaml").write_text(json.dumps(policy), encoding="utf-8")
    (root / "t.json").write_text(json.dumps(linked()), encoding="utf-8")
    said = {"sources": {"t": {"openapi": "t.json", "server": "http://127.0.0.1:9"}}, "audit": {"dir": "audit"}}
    (root / "toolgen.yaml").write_text(json.dumps(said), encoding="utf-8")

    async with Gateway.load(root / "toolgen.yaml") as gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            return gateway, [await client.get(path, headers=KEY) for path in paths]


def is_closed(schema: dict[str, Any]) -> bool:
    """Whether whatever a schema refers to stands in it."""
    definitions = schema.get("$defs", {})
    found = references(schema) | {name for one in definitions.values() for name in references(one)}
    return isinstance(definitions, dict) and found <= definitions.keys()


async def test_every_format_lists_schemas_that_need_nothing_else(tmp_path: Path) -> None:
    forms = ("manifest", "mcp", "anthropic", "langchain")
    gateway, answers = await asked(tmp_path, *(f"/v1/tools?format={form}" for form in forms))
    assert all(isinstance(one.input_schema["$defs"], Closure) for one in gateway.manifest.tools.values())
    for form, answer in zip(forms, answers, strict=True):
        tools = answer.json()["tools"]
        assert [tool["name"] for tool in tools] == ["describe_tool", "t__put_s0", "t__put_s1"], form
        for tool in tools:
            key = {"manifest": "input_schema", "mcp": "inputSchema", "langchain": "args_schema"}.get(
                form, "input_schema"
            )
            jsonschema.Draft202012Validator.check_schema(tool[key])
            assert is_closed(tool[key]), form
            assert len(tool[key].get("$defs", {})) < 10, form


async def test_one_tool_is_had_with_all_that_its_schema_leads_to(tmp_path: Path) -> None:
    gateway, (listed, *answers) = await asked(
        tmp_path, "/v1/tools", *(f"/v1/tools/t__put_s{n}" for n in range(3)), "/v1/tools/t__no"
    )
    tool = answers[0].json()
    shared = gateway.manifest.tools["t__put_s0"].input_schema
    assert tool["input_schema"] == {**shared, "$defs": dict(shared["$defs"])}
    assert len(tool["input_schema"]["$defs"]) == COUNT
    validator = jsonschema.Draft202012Validator(tool["input_schema"])
    assert validator.is_valid({"body": [{"next": {"next": {"next": {"size": 3}}}}]})
    assert not validator.is_valid({"body": [{"next": {"next": {"next": {"size": 4}}}}]})
    listing = next(one for one in listed.json()["tools"] if one["name"] == "t__put_s0")
    assert {**tool, "input_schema": {}} == {**listing, "input_schema": {}}
    # One that is hidden might as well not be there.
    hidden, absent = answers[2], answers[3]
    assert (hidden.status_code, hidden.json()["error"]["code"]) == (404, "unknown_tool")
    assert hidden.content == absent.content
