"""Prompts and resources of functions over MCP in both protocol styles, under policy, limits, record and redaction."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import html
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitResult,
    LoggingMessageNotification,
    PromptListChangedNotification,
    PromptReference,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
)

from tests.gateway.clients import bearer, listening, serving
from toolgen.audit.reader import entries
from toolgen.cli.main import main as command_line
from toolgen.core.errors import PolicyError
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.context_policy import Reader

# 2026-07-28 has logging in a request's `_meta`, and subscriptions in `subscriptions/listen`; older clients use these methods.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
MODES = ("legacy", "2026-07-28")
_NUMBERS = count()
FUNCTIONS = '''
from typing import Literal
import toolgen

READ = []
KINDS = ("refund", "return", "repair")

@toolgen.prompt
def answer_ticket(ticket: str, tone: Literal["short", "kind"] = "kind", tenant: str = "") -> list[toolgen.Message]:
    """Answer a ticket.

    Args:
        ticket: Its number.
    """
    return [toolgen.Message(f"Answer {ticket} for {tenant}, {tone}."), toolgen.Message("I will.", "assistant")]

@toolgen.completes(answer_ticket, "ticket")
def kinds(value: str, others: dict[str, str]) -> list[str]:
    return [one + others.get("tone", "") for one in KINDS if one.startswith(value)]

@toolgen.prompt
def secret_plan() -> str:
    """Plan that nobody but the lead sees."""
    return "plan"

@toolgen.resource("shop://orders/{id}", media_type="application/json")
async def order(id: str) -> dict:
    """Order of the shop."""
    READ.append(id)
    return {"id": id, "email": "ann@example.com", "total": 5}

@toolgen.resource("shop://orders/vip-{id}")
def vip(id: str) -> str:
    """Order that no rule allows anybody to read."""
    READ.append("vip")
    return "vip " + id

@toolgen.resource("shop://logo", media_type="image/png")
def logo() -> bytes:
    """Logo of the shop."""
    return b"\\x89PNG\\r\\n\\x1a\\n\\x00"

@toolgen.resource("shop://terms")
def terms() -> str:
    """Terms of the shop."""
    return "Pay first."

@toolgen.resource("shop://big")
def big() -> str:
    """Text that is too long."""
    return "x" * 2_000_000

@toolgen.resource("shop://broken")
def broken() -> str:
    """Resource that fails."""
    raise RuntimeError("secret of the operator")

ASKED = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

@toolgen.prompt
async def greet(ctx: toolgen.ToolContext) -> str:
    """Greet somebody."""
    return f"Greet {(await ctx.elicit('Whom?', ASKED)).content['name']}."

@toolgen.resource("shop://greeting")
async def greeting(ctx: toolgen.ToolContext) -> str:
    """Greeting of somebody."""
    return f"Hello {(await ctx.elicit('Whom?', ASKED)).content['name']}"

@toolgen.tool(effect="read")
async def touch(ctx: toolgen.ToolContext) -> str:
    """Changes the logo and the terms."""
    await ctx.updated("shop://terms")
    await ctx.updated("shop://logo")
    return "touched"

@toolgen.tool(effect="read")
async def work(ctx: toolgen.ToolContext) -> str:
    """Says what it does."""
    ctx.log.info("secret of the operator")
    ctx.log.info("began %d", 1, client=True)
    ctx.log.error("broke", client=True)
    return "done"
'''
RULES = """
  - {id: tools, to: [bot], tools: ["*"], verdict: allow}
  - {id: prompts, to: [bot], prompts: ["own__answer_*"], verdict: allow, bind: {tenant: principal.attributes.tenant}}
  - {id: orders, to: [bot], resources: ["shop://orders/[0-9]*", "shop://logo", "shop://big", "shop://broken"], verdict: allow}
  - {id: not-that-order, to: [bot], resources: ["shop://orders/13*"], verdict: deny}
  - {id: lead, to: [lead], prompts: ["*"], resources: ["*"], verdict: allow}
"""


def _keys() -> str:
    roles = {"bot": "bot", "eve": "none", "lead": "lead"}
    lines = []
    for name, role in roles.items():
        key = "sha256:" + hashlib.sha256(f"key-of-{name}".encode()).hexdigest()
        lines.append(f'  {name}: {{api_key: "{key}", roles: [{role}], attributes: {{tenant: acme}}}}')
    return "\n".join(lines)


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Path]:
    """Write a project of these functions under a policy, in a module that no other test has imported."""

    def make(rules: str = RULES, more: str = "") -> Path:
        module = f"context_functions_{next(_NUMBERS)}"
        (tmp_path / f"{module}.py").write_text(FUNCTIONS, encoding="utf-8")
        (tmp_path / "policies").mkdir(exist_ok=True)
        text = f"principals:\n{_keys()}\nrules:{rules}\n{more}\n"
        (tmp_path / "policies" / "policy.yaml").write_text(text, encoding="utf-8")
        path = tmp_path / "toolgen.yaml"
        path.write_text(f"sources: {{own: {{python: {module}}}}}\naudit: {{dir: audit}}\n", encoding="utf-8")
        return path

    return make


@contextlib.asynccontextmanager
async def talking(url: str, mode: str, *, who: str = "bot") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=bearer(f"key-of-{who}")) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


def _recorded(gateway: Gateway) -> list[dict[str, Any]]:
    return [
        entry
        for entry in entries(gateway.settings.audit_dir)
        if str(entry.get("tool", "")).startswith(("prompt:", "resource:"))
    ]


@pytest.mark.parametrize("mode", MODES)
async def test_the_official_client_lists_and_gets_prompts(mode: str, project: Callable[..., Path]) -> None:
    async with serving(project()) as (gateway, url), talking(url, mode) as client:
        (listed,) = (await client.list_prompts()).prompts
        assert (listed.name, listed.title, listed.description) == (
            "own__answer_ticket",
            "Answer ticket",
            "Answer a ticket.",
        )
        assert [(one.name, one.required) for one in listed.arguments or ()] == [("ticket", True), ("tone", False)]
        got = await client.get_prompt("own__answer_ticket", {"ticket": "T1"})
        assert [(one.role, one.content.text) for one in got.messages] == [  # type: ignore[union-attr]
            ("user", "Answer T1 for acme, kind."),
            ("assistant", "I will."),
        ]
        intent, outcome = _recorded(gateway)
        assert (intent["event"], intent["tool"], intent["bound"]) == ("intent", "prompt:own__answer_ticket", ["tenant"])
        assert (outcome["event"], outcome["status"], outcome["rule"]) == ("outcome", "ok", "prompts")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "arguments",
    [{}, {"ticket": "T1", "tone": "rude"}, {"ticket": "T1", "more": "x"}, {"ticket": "T1", "tenant": "globex"}],
)
async def test_arguments_of_prompts_are_validated(
    mode: str, arguments: dict[str, str], project: Callable[..., Path]
) -> None:
    async with serving(project()) as (_, url), talking(url, mode) as client:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt("own__answer_ticket", arguments)
        assert caught.value.error.code == -32602


@pytest.mark.parametrize("mode", MODES)
async def test_the_official_client_lists_and_reads_resources(mode: str, project: Callable[..., Path]) -> None:
    async with serving(project()) as (gateway, url), talking(url, mode) as client:
        assert [one.uri for one in (await client.list_resources()).resources] == [
            "shop://big",
            "shop://broken",
            "shop://logo",
        ]
        (template,) = (await client.list_resource_templates()).resource_templates
        assert (template.uri_template, template.mime_type) == ("shop://orders/{id}", "application/json")
        (content,) = (await client.read_resource("shop://orders/42")).contents
        assert (content.uri, content.mime_type) == ("shop://orders/42", "application/json")
        assert json.loads(content.text) == {"id": "42", "email": "ann@example.com", "total": 5}  # type: ignore[union-attr]
        (picture,) = (await client.read_resource("shop://logo")).contents
        assert (picture.mime_type, picture.blob) == ("image/png", "iVBORw0KGgoA")  # type: ignore[union-attr]
        assert [one["tool"] for one in _recorded(gateway) if one["event"] == "intent"] == [
            "resource:shop://orders/{id}",
            "resource:shop://logo",
        ]
        assert _recorded(gateway)[0]["arguments"] == {"uri": "shop://orders/42", "id": "42"}


HIDDEN = (
    *(
        "shop://orders/13",
        "shop://orders/1%33",
        "SHOP://orders/13",
        "shop://orders/abc",
        "shop://terms",
        "shop://orders/vip-1",
    ),
    *(
        "shop://orders/vip%2D1",
        "shop://orders/9/../13",
        "shop://orders/9%2F..%2F13",
        "shop://nothing",
        "other://x",
        "no uri",
    ),
)


@pytest.mark.parametrize("mode", MODES)
async def test_hidden_and_unknown_resources_are_refused_alike(mode: str, project: Callable[..., Path]) -> None:
    async with serving(project()) as (gateway, url), talking(url, mode) as client:
        refusals = set()
        for uri in HIDDEN:
            with pytest.raises(MCPError) as caught:
                await client.read_resource(uri)
            error = caught.value.error
            assert error.data == {"uri": uri}
            refusals.add((error.code, error.message))
        ((code, _),) = refusals
        assert code == (-32602 if mode == "2026-07-28" else -32002)
        binding: Any = gateway.manifest.resources["shop://terms"].binding
        assert gateway.manifest.resources
        assert _module(binding.module).READ == []
        refused = [one for one in _recorded(gateway) if one["event"] == "outcome"]
        assert len(refused) == len(HIDDEN)
        assert {one["status"] for one in refused} == {"refused"}


def _module(name: str) -> Any:
    return sys.modules[name]


@pytest.mark.parametrize("mode", MODES)
async def test_hidden_and_unknown_prompts_are_refused_alike(mode: str, project: Callable[..., Path]) -> None:
    async with serving(project()) as (_, url), talking(url, mode) as client:
        refusals = set()
        for name in ("own__secret_plan", "own__nothing", "x" * 300, ""):
            with pytest.raises(MCPError) as caught:
                await client.get_prompt(name)
            refusals.add((caught.value.error.code, caught.value.error.message))
        ((code, _),) = refusals
        assert code == -32602


@pytest.mark.parametrize("mode", MODES)
async def test_nothing_is_allowed_by_default(mode: str, project: Callable[..., Path]) -> None:
    only_tools = '\n  - {id: tools, to: [bot, none, lead], tools: ["*"], verdict: allow}'
    async with serving(project(only_tools)) as (_, url), talking(url, mode) as client:
        assert (await client.list_prompts()).prompts == []
        assert (await client.list_resources()).resources == []
        assert (await client.list_resource_templates()).resource_templates == []
        with pytest.raises(MCPError):
            await client.read_resource("shop://logo")


@pytest.mark.parametrize("mode", MODES)
async def test_completion_proposes_values_of_visible_arguments_alone(mode: str, project: Callable[..., Path]) -> None:
    async with serving(project()) as (gateway, url), talking(url, mode) as client:
        prompt = PromptReference(name="own__answer_ticket")
        found = (await client.complete(prompt, {"name": "ticket", "value": "re"})).completion
        assert (found.values, found.total, found.has_more) == (["refund", "return", "repair"], 3, False)
        found = (await client.complete(prompt, {"name": "ticket", "value": "ref"}, {"tone": "!"})).completion
        assert found.values == ["refund!"]
        assert (await client.complete(prompt, {"name": "tone", "value": "s"})).completion.values == ["short"]
        assert [one["tool"] for one in _recorded(gateway) if one["event"] == "intent"] == [
            "prompt:own__answer_ticket#ticket"
        ] * 2
        for reference, name in (
            (prompt, "tenant"),
            (PromptReference(name="own__secret_plan"), "x"),
            (PromptReference(name="own__nothing"), "x"),
            (ResourceTemplateReference(uri="shop://orders/vip-{id}"), "id"),
        ):
            with pytest.raises(MCPError) as caught:
                await client.complete(reference, {"name": name, "value": ""})
            assert caught.value.error.code == -32602


async def test_answers_are_redacted_and_capped_and_errors_say_nothing(project: Callable[..., Path]) -> None:
    redact = 'redact: [{tools: ["*"], fields: ["$..email"]}]'
    async with Gateway.load(project(more=redact)) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        (content,) = await gateway.context.read("shop://orders/1", bot)  # type: ignore[misc]
        assert json.loads(content.text or "") == {"id": "1", "email": "[redacted]", "total": 5}
        big = await gateway.context.read("shop://big", bot)
        assert getattr(big, "code", "") == "response_too_large"
        broken = await gateway.context.read("shop://broken", bot)
        assert getattr(broken, "code", "") == "handler_error"
        assert "secret" not in str(broken)


async def test_reads_are_rate_limited_with_calls(project: Callable[..., Path]) -> None:
    limit = "limits: [{id: few, per: [principal], rate: 1/min, burst: 3}]"
    async with Gateway.load(project(more=limit)) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        codes = [getattr(await gateway.context.read("shop://logo", bot), "code", "ok") for _ in range(2)]
        codes.append(getattr(await gateway.context.get("own__answer_ticket", {"ticket": "1"}, bot), "code", "ok"))
        codes.append(getattr(await gateway.context.read("shop://logo", bot), "code", "ok"))
        assert codes == ["ok", "ok", "ok", "rate_limited"]


async def test_a_paused_source_is_not_read(project: Callable[..., Path]) -> None:
    async with Gateway.load(project()) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        await gateway.pausing.pause(principal="", source="own", tool="", by="ops", reason="broken")
        assert getattr(await gateway.context.read("shop://logo", bot), "code", "") == "paused"
        assert getattr(await gateway.context.read("shop://terms", bot), "code", "") == "not_found"


async def test_an_edit_of_the_policy_takes_resources_away_at_once(project: Callable[..., Path]) -> None:
    path = project()
    async with Gateway.load(path) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        assert not hasattr(await gateway.context.read("shop://logo", bot), "code")
        policy = path.parent / "policies" / "policy.yaml"
        policy.write_text(policy.read_text().replace('"shop://logo", ', ""))
        await gateway.operations.reload(complete=False)
        assert getattr(await gateway.context.read("shop://logo", bot), "code", "") == "not_found"
        assert not hasattr(await gateway.context.read("shop://orders/1", bot), "code")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('{id: x, to: [bot], prompts: ["nothing*"], verdict: allow}', "matches no prompt"),
        ('{id: x, to: [bot], resources: ["shop://nothing"], verdict: allow}', "matches no resource"),
        ('{id: x, to: [bot], resources: ["shop://orders/a/b"], verdict: allow}', "matches no resource"),
        ('{id: x, to: [bot], resources: ["shop://*"], verdict: ask}', "allowed or denied"),
        ('{id: x, to: [bot], resources: ["shop://*"], verdict: allow, bind: {id: principal.id}}', "URI of a resource"),
        ('{id: x, to: [bot], prompts: ["*"], verdict: allow, bind: {nothing: principal.id}}', "bind"),
        ('{id: x, to: [bot], prompts: ["*"], verdict: allow, when: "args.nothing == 1"}', "nothing"),
        ('{id: x, to: [bot], prompts: ["*"], verdict: allow, effects: [write]}', "reads"),
        ('{id: x, to: [], prompts: ["*"], verdict: allow}', "role"),
        ('{id: x, to: [nobody], prompts: ["*"], verdict: allow}', "no principal has the role"),
        ('{id: x, to: [bot], promts: ["*"], verdict: allow}', "prompts"),
    ],
)
def test_rules_that_mean_nothing_are_errors(rule: str, message: str, project: Callable[..., Path]) -> None:
    with pytest.raises(PolicyError, match=message):
        Gateway.load(project(f"\n  - {rule}"))


async def test_conditions_read_the_variables_of_a_uri(project: Callable[..., Path]) -> None:
    rule = '\n  - {id: x, to: [bot], resources: ["shop://orders/*"], verdict: allow, when: "args.id == principal.attributes.tenant"}'
    async with Gateway.load(project(rule)) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        assert not hasattr(await gateway.context.read("shop://orders/acme", bot), "code")
        assert getattr(await gateway.context.read("shop://orders/globex", bot), "code", "") == "not_found"


async def test_toolsets_narrow_prompts_and_resources(project: Callable[..., Path]) -> None:
    toolsets = 'toolsets: {small: {tools: ["*"], prompts: ["own__answer_ticket"]}, other: {tools: ["*"]}}'
    async with Gateway.load(project(more=toolsets)) as gateway:
        bot = gateway.principal("bot")
        small, other = gateway.callers.narrowed(bot, "small"), gateway.callers.narrowed(bot, "other")
        assert small is not None
        assert other is not None
        assert [len(gateway.context.prompts(one)) for one in (bot, small, other)] == [1, 1, 0]
        assert [len(gateway.context.resources(one)) for one in (bot, small, other)] == [3, 0, 0]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": 3}),
        ("prompts/get", {"name": "own__answer_ticket", "arguments": {"ticket": 3}}),
        ("prompts/get", {"name": "own__answer_ticket", "arguments": [1]}),
        ("prompts/list", {"cursor": 3}),
        ("prompts/list", {"cursor": "\u00e9"}),
        ("resources/read", {}),
        ("completion/complete", {"ref": {"type": "ref/other"}, "argument": {"name": "x", "value": ""}}),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "own__answer_ticket"}, "argument": {"name": "x"}},
        ),
    ],
)
async def test_requests_of_the_wrong_shape_are_invalid_params(
    method: str, params: dict[str, Any], project: Callable[..., Path]
) -> None:
    async with serving(project()) as (_, url), httpx.AsyncClient(headers=bearer("key-of-bot")) as http:
        answer = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        assert answer.json()["error"]["code"] == -32602


async def _next(told: asyncio.Queue[Any], kind: type) -> Any:
    """The next notification of a kind."""
    async with asyncio.timeout(10):
        while not isinstance(found := await told.get(), kind):
            pass
    return found


async def _stream_opened(gateway: Gateway) -> None:
    """Returns when the stream of a session is open, which a client opens behind the handshake."""
    async with asyncio.timeout(10):
        while not gateway.context.updates._listeners:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def listening_client(url: str) -> AsyncIterator[tuple[Client, asyncio.Queue[Any]]]:
    """A client of a session that keeps what it is told."""
    told: asyncio.Queue[Any] = asyncio.Queue()

    async def keep(message: Any) -> None:
        await told.put(message)

    async with (
        httpx2.AsyncClient(headers=bearer("key-of-bot"), timeout=30) as http,
        Client(streamable_http_client(url, http_client=http), mode="legacy", message_handler=keep) as client,
    ):
        yield client, told


async def test_sessions_are_told_of_changes_of_resources_that_they_subscribed_to(project: Callable[..., Path]) -> None:
    async with serving(project()) as (gateway, url), listening_client(url) as (client, told):
        await client.subscribe_resource("shop://orders/7")
        for hidden in ("shop://terms", "shop://orders/13", "shop://nothing"):
            with pytest.raises(MCPError) as caught:
                await client.subscribe_resource(hidden)
            assert caught.value.error.code == -32002
        await _stream_opened(gateway)
        for uri in ("shop://terms", "shop://orders/8", "shop://orders/%37"):
            gateway.context.updates.put(uri)
        assert (await _next(told, ResourceUpdatedNotification)).params.uri == "shop://orders/7"
        await client.unsubscribe_resource("shop://orders/7")
        gateway.context.updates.put("shop://orders/7")
        await client.call_tool("own__touch", {})
        assert told.empty()


async def test_functions_tell_that_a_resource_changed_and_listeners_of_2026_hear_it(
    project: Callable[..., Path],
) -> None:
    async with (
        serving(project()) as (_, url),
        talking(url, "2026-07-28") as client,
        client.listen(resource_subscriptions=["shop://logo", "shop://terms"]) as subscription,
    ):
        await client.call_tool("own__touch", {})
        async with asyncio.timeout(10):
            async for event in subscription:
                assert isinstance(event, ResourceUpdated)
                assert event.uri == "shop://logo"
                break


async def test_clients_are_told_that_lists_changed_and_which(project: Callable[..., Path]) -> None:
    path = project()
    async with serving(path) as (gateway, url), listening_client(url) as (_, told):
        await _stream_opened(gateway)
        policy = path.parent / "policies" / "policy.yaml"
        rule = "  - {id: gone, to: [bot], prompts: [own__answer_ticket], verdict: deny}"
        policy.write_text(policy.read_text().replace("\nrules:\n", f"\nrules:\n{rule}\n"))
        await gateway.operations.reload(complete=False)
        assert await _next(told, PromptListChangedNotification)
        assert told.empty()


@pytest.mark.parametrize("level", ["info", "error"])
async def test_clients_get_the_log_messages_that_they_asked_for(level: Any, project: Callable[..., Path]) -> None:
    async with serving(project()) as (_, url), listening_client(url) as (client, told):
        assert (await client.call_tool("own__work", {})).content[0].text == "done"  # type: ignore[union-attr]
        assert told.empty()
        await client.set_logging_level(level)
        await client.call_tool("own__work", {})
        message = (await _next(told, LoggingMessageNotification)).params
        assert (message.level, message.data) == (("info", "began 1") if level == "info" else ("error", "broke"))
        assert told.empty() is (level == "error")


async def test_no_log_message_is_sent_of_a_tool_whose_answers_the_policy_redacts(project: Callable[..., Path]) -> None:
    redact = 'redact: [{tools: ["own__work"], fields: ["$..email"]}]'
    async with serving(project(more=redact)) as (_, url), listening_client(url) as (client, told):
        await client.set_logging_level("debug")
        await client.call_tool("own__work", {})
        assert told.empty()


@pytest.mark.parametrize("mode", MODES)
async def test_prompts_and_resources_may_ask_their_caller(mode: str, project: Callable[..., Path]) -> None:
    async def answer(_: Any, params: Any) -> Any:
        return ElicitResult(action="accept", content={"name": "Ann"})

    async with (
        serving(project()) as (_, url),
        httpx2.AsyncClient(headers=bearer("key-of-lead")) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, elicitation_callback=answer) as client,
    ):
        got = await client.get_prompt("own__greet")
        assert got.messages[0].content.text == "Greet Ann."  # type: ignore[union-attr]
        (content,) = (await client.read_resource("shop://greeting")).contents
        assert content.text == "Hello Ann"  # type: ignore[union-attr]


def test_policy_check_takes_rules_about_prompts_and_resources_alone(project: Callable[..., Path]) -> None:
    path = project('\n  - {id: x, to: [bot], prompts: ["*"], resources: ["shop://*"], verdict: allow}')
    command = [sys.executable, "-m", "toolgen", "policy", "check", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def over_rest(http: httpx.AsyncClient, method: str, path: str, who: str = "bot", **more: Any) -> tuple[int, Any]:
    made = await http.request(method, f"/v1/{path}", headers=bearer(f"key-of-{who}"), **more)
    return made.status_code, made.json()


async def test_rest_lists_and_reads_what_the_policy_opens(project: Callable[..., Path]) -> None:
    path = project()

    async with Gateway.load(path) as gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            _, listed = await over_rest(http, "GET", "prompts")
            assert [one["name"] for one in listed["prompts"]] == ["own__answer_ticket"]
            assert [one["name"] for one in listed["prompts"][0]["arguments"]] == ["ticket", "tone"]
            _, found = await over_rest(http, "GET", "resources")
            assert [one["uri"] for one in found["resources"]] == ["shop://big", "shop://broken", "shop://logo"]
            _, first = await over_rest(http, "GET", "resources", params={"limit": 2})
            _, rest = await over_rest(http, "GET", "resources", params={"cursor": first["next_cursor"]})
            assert [one["uri"] for one in (*first["resources"], *rest["resources"])] == [
                one["uri"] for one in found["resources"]
            ]
            _, templates = await over_rest(http, "GET", "resources/templates")
            assert [one["uri_template"] for one in templates["templates"]] == ["shop://orders/{id}"]
            status, got = await over_rest(
                http, "POST", "prompts/own__answer_ticket", json={"arguments": {"ticket": "7"}}
            )
            assert (status, got["messages"][0]) == (200, {"role": "user", "content": "Answer 7 for acme, kind."})
            _, read = await over_rest(http, "POST", "resources/read", json={"uri": "shop://orders/5"})
            assert json.loads(read["contents"][0]["text"])["id"] == "5"
            _, logo = await over_rest(http, "POST", "resources/read", json={"uri": "shop://logo"})
            assert (logo["contents"][0]["media_type"], "base64" in logo["contents"][0]) == ("image/png", True)
            hidden = [
                await over_rest(http, "POST", "resources/read", who, json={"uri": uri})
                for who, uri in (("bot", "shop://terms"), ("bot", "shop://no"), ("bot", "shop://orders/13"))
            ]
            assert (hidden[0][0], hidden[0]) == (404, hidden[1])
            assert hidden[2] == hidden[1]
            secret = await over_rest(http, "POST", "prompts/own__secret_plan", json={})
            assert secret == await over_rest(http, "POST", "prompts/own__nothing", json={})
            assert secret[0] == 404
            for where in ("prompts", "resources", "resources/templates"):
                _, nothing = await over_rest(http, "GET", where, "eve")
                assert list(nothing.values()) == [[]]
            wrong = [
                (await over_rest(http, method, where, **more))[0]
                for method, where, more in (
                    ("GET", "prompts?cursor=%21", {}),
                    ("GET", "prompts?limit=0", {}),
                    ("POST", "prompts/own__answer_ticket", {"json": {"arguments": {"ticket": 7}}}),
                    ("POST", "prompts/own__answer_ticket", {"json": {"arguments": {}}}),
                    ("POST", "resources/read", {"json": {"url": "x"}}),
                    ("GET", "resources/read", {}),
                    ("POST", "resources/read", {"json": {"uri": "shop://big"}}),
                    ("POST", "resources/read", {"json": {"uri": "shop://broken"}}),
                )
            ]
            assert wrong == [404, 400, 400, 400, 400, 405, 502, 500]
            asking = await over_rest(http, "POST", "prompts/own__greet", "lead", json={})
            assert (asking[0], asking[1]["error"]["code"]) == (500, "handler_error")  # nobody can be asked
    recorded = {one["tool"] for one in entries(path.parent / "audit") if one["event"] == "intent"}
    assert {"prompt:own__answer_ticket", "resource:shop://orders/{id}", "resource:shop://logo"} <= recorded


async def test_the_console_shows_what_a_person_may_see(project: Callable[..., Path]) -> None:
    path = project(more="approvals: {approvers: [bot]}")
    path.write_text(path.read_text(encoding="utf-8") + "console: {viewers: [lead]}\n", encoding="utf-8")

    async def page(url: str, who: str) -> str:
        async with httpx.AsyncClient(base_url=url) as http:
            form = re.search(r'name="form_token" value="([^"]+)"', (await http.get("/console/sign-in")).text)
            assert form is not None
            await http.post("/console/sign-in", data={"credential": f"key-of-{who}", "form_token": form[1]})
            return html.unescape((await http.get("/console/tools")).text).replace("<wbr>", "")

    async with Gateway.load(path) as gateway:
        app = App(gateway)
        app.open_console(lambda authentication: console_of(gateway, authentication))
        async with listening(app) as url:
            found = await page(url, "bot"), await page(url, "lead")
        await app.close()
        (bot, lead) = found
    assert "own__answer_ticket" in bot
    assert "shop://orders/{id}" in bot
    assert "own__secret_plan" not in bot
    assert "shop://terms" not in bot
    assert "own__secret_plan" in lead
    assert "shop://terms" in lead


TESTED = """tests:
  - {as: bot, prompt: own__answer_ticket, arguments: {ticket: T-1}, expect: allow, rule: prompts}
  - {as: bot, prompt: own__secret_plan, expect: deny, rule: default}
  - {as: bot, resource: "shop://orders/%31", expect: allow, rule: orders}
  - {as: bot, resource: "shop://orders/13", expect: deny, rule: not-that-order}
  - {as: bot, resource: "shop://orders/vip-1", expect: deny}
  - {as: lead, resource: "shop://terms", expect: allow}
"""


def told(path: Path, capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        command_line([*arguments, "--config", str(path)])
    out, err = capfd.readouterr()
    return int(ended.value.code or 0), out + err


def test_a_policy_tests_prompts_and_resources(project: Callable[..., Path], capfd: pytest.CaptureFixture[str]) -> None:
    path = project(more=TESTED)
    code, said = told(path, capfd, "policy", "check")
    assert code == 0
    assert "6 tests passed, 0 failed" in said
    path = project(more=TESTED.replace("expect: deny, rule: not-that-order", "expect: allow"))
    code, said = told(path, capfd, "policy", "check", "--json")
    assert code == 1
    (failed,) = [one for one in json.loads(said)["tests"] if not one["passed"]]
    assert (failed["call"], failed["verdict"], failed["rule"]) == (
        "resource:shop://orders/{id}",
        "deny",
        "not-that-order",
    )


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("{as: bot, prompt: own__answer_tickt, expect: allow}", "did you mean 'own__answer_ticket'"),
        ("{as: bot, prompt: own__answer_ticket, arguments: {tikket: x}, expect: allow}", "did you mean 'ticket'"),
        ('{as: bot, resource: "shop://nothing/1", expect: deny}', "no such resource"),
        ('{as: bot, resource: "shop://orders/../terms", expect: deny}', "no such resource"),
        ('{as: bot, resource: "shop://terms", prompt: own__greet, expect: deny}', "names one tool"),
        ("{as: bot, expect: deny}", "names one tool"),
        ("{as: bot, prompt: own__greet, expect: ask}", "never approved by a person"),
        ("{as: bot, prompt: own__greet, expect: deny, after: [{call: own__touch}]}", "belongs to a test of a tool"),
    ],
)
def test_a_test_that_cannot_be_meant_is_refused(project: Callable[..., Path], test: str, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        Gateway.load(project(more=f"tests: [{test}]"))


def test_a_read_is_explained(project: Callable[..., Path], capfd: pytest.CaptureFixture[str]) -> None:
    path = project()

    def explained(about: str, *arguments: str) -> dict[str, Any]:
        code, said = told(path, capfd, "policy", "explain", about, *arguments, "--as", "bot", "--json")
        assert code == 0
        found: dict[str, Any] = json.loads(said)
        return found

    allowed = explained("prompt:own__answer_ticket", "ticket=7")
    assert (allowed["verdict"], allowed["rule"], allowed["bound"]) == ("allow", "prompts", ["tenant"])
    denied = explained("resource:shop://orders/13")
    assert (denied["verdict"], denied["rule"]) == ("deny", "not-that-order")
    assert {rule["rule"] for rule in denied["rules"]} >= {"orders", "not-that-order"}
    hidden = explained("resource:shop://terms")
    assert (hidden["verdict"], hidden["rule"], hidden["hidden"]) == ("deny", "default", True)
    assert told(path, capfd, "policy", "explain", "resource:shop://none", "--as", "bot")[0] == 1
    assert told(path, capfd, "policy", "explain", "prompt:own__greet", "x", "--as", "bot")[0] == 2
