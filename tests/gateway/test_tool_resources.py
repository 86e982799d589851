"""Resources that tools read: a read of a URI is a call of the tool, and is hidden, limited, redacted and recorded as one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

import toolgen
from tests.gateway.clients import bearer, listening
from toolgen.audit.reader import entries
from toolgen.cli.main import cli
from toolgen.core.errors import ConfigError, PolicyError
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.context_policy import Reader

FUNCTIONS = '''
from typing import Literal

import toolgen

called = []

@toolgen.tool(effect="read")
def get_order(id: int, part: Literal["lines", "whole"] = "whole") -> dict:
    """Get an order.

    Args:
        id: Its number.
    """
    called.append((id, part))
    return {"id": id, "part": part, "email": "ann@example.com"}

@toolgen.tool(effect="read")
def get_terms() -> str:
    """Get the terms."""
    return "pay"

@toolgen.tool(effect="read")
def get_picture(name: str) -> toolgen.Image:
    """Get a picture."""
    return toolgen.Image(b"\\x89PNG\\r\\n\\x1a\\n\\x00" + name.encode() + bytes(70_000))

@toolgen.tool(effect="write")
def cancel_order(id: int) -> str:
    """Cancel an order."""
    called.append(id)
    return "cancelled"
'''
RESOURCES = [
    {"template": "shop://orders/{id}", "tool": "shop__get_order"},
    {"template": "shop://orders/{id}/{part}", "tool": "shop__get_order", "title": "Part of an order"},
    {"template": "shop://lines/{id}", "tool": "shop__get_order", "arguments": {"part": "lines"}},
    {"template": "shop://terms", "tool": "shop__get_terms", "media_type": "text/markdown"},
    {"template": "shop://pictures/{name}", "tool": "shop__get_picture"},
]
POLICY = """
principals: {bot: {roles: [bot]}, other: {roles: [other]}}
rules:
  - {id: orders, to: [bot], tools: [shop__get_order, shop__get_picture], verdict: allow, arguments: {properties: {id: {maximum: 100}}}}
  - {id: terms, to: [bot, other], tools: [shop__get_terms], verdict: allow}
redact: [{tools: ["shop__get_order"], fields: ["$..email"], with: "hidden"}]
"""


def _project(root: Path, name: str, policy: str = POLICY, resources: object = RESOURCES) -> Path:
    (root / "policies").mkdir(exist_ok=True)
    (root / f"{name}.py").write_text(FUNCTIONS, encoding="utf-8")
    (root / "policies" / "policy.yaml").write_text(policy, encoding="utf-8")
    settings = {
        "sources": {"shop": {"python": name}, "views": {"context": {"resources": resources}}},
        "audit": {"dir": "audit"},
        "policies": "policies/",
    }
    path = root / "toolgen.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


async def test_a_read_is_a_call_of_the_tool(tmp_path: Path) -> None:
    async with Gateway.load(_project(tmp_path, "tool_resources_read")) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        (order,) = await gateway.context.read("shop://orders/7", bot)  # type: ignore[misc]
        assert json.loads(order.text) == {"id": 7, "part": "whole", "email": "hidden"}
        assert (order.uri, order.media_type) == ("shop://orders/7", "application/json")
        (lines,) = await gateway.context.read("shop://lines/7", bot)  # type: ignore[misc]
        assert json.loads(lines.text)["part"] == "lines"
        (terms,) = await gateway.context.read("shop://terms", bot)  # type: ignore[misc]
        assert (terms.text, terms.media_type) == ("pay", "text/markdown")
        (picture,) = await gateway.context.read("shop://pictures/cat", bot)  # type: ignore[misc]
        assert (picture.text, picture.media_type) == (None, "image/png")
        assert b"cat" in picture.body
    recorded = [one for one in entries(tmp_path / "audit") if one.get("event") == "outcome"]
    assert [(one["tool"], one["rule"]) for one in recorded] == [
        ("shop__get_order", "orders"),
        ("shop__get_order", "orders"),
        ("shop__get_terms", "terms"),
        ("shop__get_picture", "orders"),
    ]
    first = next(one for one in entries(tmp_path / "audit") if one.get("event") == "intent")
    assert first["arguments"] == {"id": 7}


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("shop://orders/101", "forbidden"),
        ("shop://orders/x", "validation"),
        ("shop://orders/07", "validation"),
        ("shop://orders/7/none", "validation"),
        ("shop://orders/7?part=lines", "not_found"),
        ("shop://orders/%2e%2e/terms", "not_found"),
    ],
)
async def test_what_the_call_refuses_is_not_read(uri: str, code: str, tmp_path: Path) -> None:
    async with Gateway.load(_project(tmp_path, "tool_resources_refused")) as gateway:
        found: Any = await gateway.context.read(uri, Reader(principal=gateway.principal("bot")))
        assert found.code == code
    assert not [one for one in entries(tmp_path / "audit") if one.get("status") == "ok"]


async def test_a_resource_is_hidden_like_its_tool(tmp_path: Path) -> None:
    async with Gateway.load(_project(tmp_path, "tool_resources_hidden")) as gateway:
        other = gateway.principal("other")
        reader = Reader(principal=other)
        assert [one.uri for one in gateway.context.resources(other)] == ["shop://terms"]
        assert gateway.context.templates(other) == ()
        hidden: Any = await gateway.context.read("shop://orders/7", reader)
        unknown: Any = await gateway.context.read("shop://nowhere/7", reader)
        assert hidden == unknown
        assert not gateway.context.may_read(other, "shop://orders/7")
        found: Any = await gateway.context.complete({"resource": "shop://orders/{id}/{part}"}, "part", "", {}, reader)
        missing: Any = await gateway.context.complete({"resource": "shop://nowhere/{id}"}, "part", "", {}, reader)
        assert found == missing
        bot = gateway.principal("bot")
        assert gateway.context.may_read(bot, "shop://orders/7")
        assert not gateway.context.may_read(bot, "shop://orders/101")
        narrowed = [one.uri for one in gateway.context.templates(bot)]
        assert narrowed == [
            *("shop://lines/{id}", "shop://orders/{id}", "shop://orders/{id}/{part}", "shop://pictures/{name}"),
        ]


async def test_values_of_variables_are_those_of_the_schema(tmp_path: Path) -> None:
    async with Gateway.load(_project(tmp_path, "tool_resources_values")) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        found: Any = await gateway.context.complete({"resource": "shop://orders/{id}/{part}"}, "part", "l", {}, bot)
        assert found.values == ("lines",)
        found = await gateway.context.complete({"resource": "shop://orders/{id}/{part}"}, "id", "1", {}, bot)
        assert found.values == ()


async def test_limits_and_turns_of_the_tool_count_reads(tmp_path: Path) -> None:
    limited = f"{POLICY}\nlimits: [{{id: slow, per: [principal], tools: [shop__get_order], rate: 1/h, burst: 2}}]\n"
    async with Gateway.load(_project(tmp_path, "tool_resources_limited", limited)) as gateway:
        bot = gateway.principal("bot")
        await gateway.call("shop__get_order", {"id": 1}, principal=bot)
        found = [await gateway.context.read(f"shop://orders/{one}", Reader(principal=bot)) for one in (1, 2)]
        assert [getattr(one, "code", "ok") for one in found] == ["ok", "rate_limited"]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_clients_list_and_read_them(mode: str, tmp_path: Path) -> None:
    key = hashlib.sha256(b"key").hexdigest()
    policy = POLICY.replace("bot: {roles: [bot]}", f'bot: {{roles: [bot], api_key: "sha256:{key}"}}')
    async with Gateway.load(_project(tmp_path, f"tool_resources_client_{mode[:4]}", policy)) as gateway:
        app = App(gateway)
        async with (
            listening(app) as url,
            httpx2.AsyncClient(headers=bearer("key")) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
        ):
            listed = (await client.list_resource_templates()).resource_templates
            assert [one.uri_template for one in listed][:2] == ["shop://lines/{id}", "shop://orders/{id}"]
            read = await client.read_resource("shop://orders/7")
            assert json.loads(read.contents[0].text)["id"] == 7  # type: ignore[union-attr]
            with pytest.raises(MCPError):
                await client.read_resource("shop://orders/101")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"template": "shop://x/{id}", "tool": "shop__get_orders"}, "there is no tool 'shop__get_orders'"),
        ({"template": "shop://x/{id}", "tool": "shop__cancel_order"}, "only reads"),
        ({"template": "shop://x/{nr}", "tool": "shop__get_order"}, "has no argument 'nr'"),
        ({"template": "shop://x/{id", "tool": "shop__get_order"}, "brace"),
        ({"template": "orders/{id}", "tool": "shop__get_order"}, "is not a URI"),
        ({"template": "shop://x/../{id}", "tool": "shop__get_order"}, "dot segments"),
        ({"template": "shop://x/{id}", "tool": "shop__get_order", "arguments": {"id": 1}}, "both a variable"),
        ({"template": "shop://x/{id}", "tool": "shop__get_order", "arguments": {"part": "z"}}, "arguments:"),
        ({"template": "shop://x", "tool": "shop__get_order"}, "requires id"),
    ],
)
def test_an_entry_that_does_not_fit_its_tool_is_a_problem(entry: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "tool_resources_problem.py").write_text(FUNCTIONS, encoding="utf-8")
    sources = {"shop": {"python": "tool_resources_problem"}, "views": {"context": {"resources": [entry]}}}
    made = toolgen.build(sources, root=tmp_path)
    (problem,) = made.problems
    assert message in problem.message
    assert len(made.resources) == (problem.level == "warning")


@pytest.mark.parametrize("given", [["a", "b"], [], [{"template": "x://y"}], ["/etc"]])
def test_other_lists_are_refused(given: object, tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        toolgen.build({"views": {"context": {"resources": given}}}, root=tmp_path)


async def test_rules_about_resources_name_the_tool_instead(tmp_path: Path) -> None:
    policy = POLICY.replace(
        "rules:", 'rules:\n  - {id: none, to: [bot], resources: ["shop://orders/*"], verdict: deny}'
    )
    with pytest.raises(PolicyError, match="shop__get_order"):
        async with Gateway.load(_project(tmp_path, "tool_resources_rule", policy)):
            pass


def test_tests_and_explanations_are_about_the_call(tmp_path: Path) -> None:
    tests = """
tests:
  - {as: bot, resource: "shop://orders/7", expect: allow, rule: orders}
  - {as: bot, resource: "shop://orders/101", expect: deny}
  - {as: other, resource: "shop://orders/7", expect: deny}
"""
    path = _project(tmp_path, "tool_resources_tests", POLICY + tests)
    assert CliRunner().invoke(cli, ["build", "--config", str(path)]).exit_code == 0
    done = CliRunner().invoke(cli, ["policy", "check", "--config", str(path)])
    assert done.exit_code == 0, done.output
    said = CliRunner().invoke(
        cli, ["policy", "explain", "resource:shop://orders/7", "--as", "bot", "--config", str(path)]
    )
    assert "allow by orders" in said.output
