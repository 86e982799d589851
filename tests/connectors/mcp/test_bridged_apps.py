"""Apps of bridged MCP servers (SEP-1865): pinned with their tools, governed, and given to clients that show apps alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolgen.frontends.mcp.messages import Caller, ProtocolStyle, RpcMessage
from toolgen.frontends.mcp.server import Mcp
from toolgen.frontends.mcp.sessions import opened_session, session_id
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.catalog.tool_lists import Listings
from toolgen.model.apps import APP_TYPE, accepts_apps, page_of, tool_app

SERVER = Path(__file__).parents[2] / "services" / "mcp_context.py"
PAGE = "ui://far/clock.html"
HTML = "<!doctype html><title>Clock</title><p id=now></p>"
RIGHTS = {
    "ui": {
        "csp": {"connectDomains": ["https://api.example.com"]},
        "permissions": {"camera": {}},
        "prefersBorder": True,
        "domain": "bank.example",
    }
}


def tool(name: str, **ui: Any) -> dict[str, Any]:
    meta = {"_meta": {"ui": ui, "vendor/x": 1}} if ui else {}
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **meta}


def content(text: str = HTML, **more: Any) -> dict[str, Any]:
    return {"contents": [{"uri": PAGE, "mimeType": APP_TYPE, "text": text, "_meta": RIGHTS, **more}]}


STATE: dict[str, Any] = {
    "tools": [
        tool("show-time", resourceUri=PAGE),
        tool("tick", resourceUri=PAGE, visibility=["app"]),
        tool("for-models", resourceUri=PAGE, visibility=["model"]),
        tool("plain"),
    ],
    "resources": [{"uri": PAGE, "name": "clock", "mimeType": APP_TYPE}, {"uri": "far://notes", "name": "notes"}],
    "answers": {
        PAGE: content(),
        "show-time": {"content": [{"type": "text", "text": "noon"}], "structuredContent": {"hour": 12}},
        "tick": {"content": [{"type": "text", "text": "tock"}]},
    },
}
RULES = [
    {
        "id": "tools",
        "to": ["bot"],
        "tools": ["far__*"],
        "effects": ["read", "write", "destructive"],
        "verdict": "allow",
    },
    {"id": "pages", "to": ["bot"], "resources": ["ui://far/*"], "verdict": "allow"},
    {"id": "notes", "to": ["bot", "blind"], "resources": ["far://*"], "verdict": "allow"},
    {"id": "blind", "to": ["blind"], "tools": ["far__show_time"], "effects": ["destructive"], "verdict": "allow"},
]
APPS = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": [APP_TYPE]}}}


def tell(root: Path, **changes: Any) -> None:
    (root / "state.json").write_text(json.dumps({**STATE, **changes}), encoding="utf-8")


def calls(root: Path) -> list[str]:
    made = root / "calls"
    return made.read_text(encoding="utf-8").splitlines() if made.exists() else []


def project(root: Path, *, allow: list[str], rules: list[dict[str, Any]] = RULES) -> Path:
    tell(root)
    (root / "policies").mkdir(exist_ok=True)
    policy = {"principals": {"bot": {"roles": ["bot"]}, "blind": {"roles": ["blind"]}}, "rules": rules}
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    mcp = {"command": [sys.executable, str(SERVER), "state.json"], "allow": allow}
    settings = {
        "sources": {"far": {"mcp": mcp, "timeouts": {"connect": "5s", "total": "5s"}}},
        "audit": {"dir": "audit"},
        "policies": "policies/",
        "generated": "generated/",
    }
    path = root / "toolgen.yaml"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def build(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "toolgen", "build", "--config", str(path), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def manifest(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path.parent / "generated" / "manifest.json").read_bytes())
    return found


def ask(
    path: Path, *requests: tuple[str, dict[str, Any]], principal: str = "bot", capabilities: dict[str, Any] = APPS
) -> list[dict[str, Any]]:
    """The answers of the gateway over standard input and output, to a client with these capabilities."""
    begin = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "t", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": begin},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    messages += [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(requests, 1)
    ]
    command = [sys.executable, "-m", "toolgen", "serve", "--stdio", "--as", principal, "--config", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        found: dict[int, dict[str, Any]] = {}
        for message in messages:
            served.stdin.write(json.dumps(message).encode() + b"\n")
            served.stdin.flush()
            while "id" in message and message["id"] not in found:
                answer = json.loads(served.stdout.readline())
                if "id" in answer:
                    found[answer["id"]] = answer
        served.stdin.close()
        served.wait(30)
    return [found[number].get("result", found[number]) for number in range(1, len(requests) + 1)]


def listed(result: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one.get("_meta") for one in result["tools"]}


@pytest.fixture(name="built", scope="module")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = project(tmp_path_factory.mktemp("apps"), allow=["apps"])
    done = build(path)
    assert done.returncode == 0, done.stderr
    return path.parent


@pytest.fixture(name="served")
def _served(built: Path, tmp_path: Path) -> Path:
    """A built project whose source allows apps."""
    return Path(shutil.copytree(built, tmp_path / "project")) / "toolgen.yaml"


def test_apps_are_denied_unless_the_source_allows_them(tmp_path: Path) -> None:
    path = project(tmp_path, allow=[], rules=[RULES[0], RULES[2]])
    assert build(path).returncode == 0
    assert "_meta" not in (tmp_path / "toolgen.pins" / "far" / "tools.json").read_text(encoding="utf-8")
    assert [one["uri"] for one in manifest(path)["resources"]] == ["far://notes"]
    tools, pages, read, called = ask(
        path,
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/read", {"uri": PAGE}),
        ("tools/call", {"name": "show-time"}),
    )
    assert set(listed(tools).values()) == {None}
    assert [one["uri"] for one in pages["resources"]] == ["far://notes"]
    assert read["error"]["code"] == -32002
    assert "unknown_tool" in json.dumps(called)
    assert calls(tmp_path) == []


def test_clients_that_show_apps_are_given_them_and_others_are_not(served: Path) -> None:
    tools, pages, read = ask(served, ("tools/list", {}), ("resources/list", {}), ("resources/read", {"uri": PAGE}))
    ui = {"resourceUri": PAGE}
    assert listed(tools) == {
        "far__show_time": {"ui": {**ui, "visibility": ["model", "app"]}},
        "far__tick": {"ui": {**ui, "visibility": ["app"]}},
        "far__for_models": {"ui": {**ui, "visibility": ["model"]}},
        **{name: {"ui": {"visibility": ["model"]}} for name in listed(tools) if name in {"far__plain", "read_file"}},
    }
    rights = {"ui": {key: RIGHTS["ui"][key] for key in ("csp", "permissions", "prefersBorder")}}
    (page,) = [one for one in pages["resources"] if one["uri"] == PAGE]
    assert (page["mimeType"], page["_meta"]) == (APP_TYPE, rights)
    assert read["contents"] == [{"uri": PAGE, "mimeType": APP_TYPE, "text": HTML, "_meta": rights}]
    tools, pages = ask(served, ("tools/list", {}), ("resources/list", {}), capabilities={})
    assert "far__tick" not in listed(tools)
    assert set(listed(tools).values()) == {None}
    assert PAGE not in json.dumps(pages)


def test_calls_of_apps_are_governed_and_may_use_the_servers_names(served: Path) -> None:
    ticked, model, foreign, shown = ask(
        served,
        ("tools/call", {"name": "tick", "arguments": {}}),
        ("tools/call", {"name": "for-models", "arguments": {}}),
        ("tools/call", {"name": "plain", "arguments": {}}),
        ("tools/call", {"name": "far__show_time", "arguments": {}}),
    )
    assert (ticked["isError"], ticked["content"][0]["text"]) == (False, "tock")
    assert shown["structuredContent"] == {"hour": 12}
    for refused in (model, foreign):
        assert refused["content"][0]["text"].startswith("unknown_tool")
    (denied,) = ask(served, ("tools/call", {"name": "tick", "arguments": {}}), principal="blind")
    assert denied["content"][0]["text"].startswith("unknown_tool")
    (unannounced,) = ask(served, ("tools/call", {"name": "tick", "arguments": {}}), capabilities={})
    assert unannounced["content"][0]["text"].startswith("unknown_tool")
    records = (served.parent / "audit").rglob("*")
    recorded = b"".join(one.read_bytes() for one in records if one.is_file())
    assert recorded.count(b'"tool":"far__tick"') >= 2  # its intent and its outcome


def test_a_page_that_the_policy_hides_is_neither_named_nor_read(served: Path) -> None:
    tools, pages, read = ask(
        served,
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/read", {"uri": PAGE}),
        principal="blind",
    )
    assert listed(tools)["far__show_time"] == {"ui": {"visibility": ["model", "app"]}}
    assert PAGE not in json.dumps([tools, pages])
    assert read["error"]["code"] == -32002


@pytest.mark.parametrize(
    "changed",
    [
        content("<script src=https://evil.example></script>"),
        content(_meta={"ui": {"csp": {"connectDomains": ["https://evil.example"]}}}),
        content(mimeType="text/html"),
        {"contents": []},
        {"contents": [*content()["contents"], *content()["contents"]]},
    ],
    ids=["page", "rights", "type", "nothing", "two"],
)
def test_a_page_that_changed_since_it_was_pinned_is_refused(served: Path, changed: dict[str, Any]) -> None:
    tell(served.parent, answers={**STATE["answers"], PAGE: changed})
    (read,) = ask(served, ("resources/read", {"uri": PAGE}))
    assert "contents" not in read
    assert "evil" not in json.dumps(read)
    assert build(served).returncode == 1
    assert build(served, "--update-pins").returncode == 0


@pytest.mark.parametrize("meta", [{"resourceUri": "ui://far/other.html"}, {"visibility": ["app"]}, {}])
def test_a_tool_whose_app_changed_since_it_was_pinned_is_refused(served: Path, meta: dict[str, Any]) -> None:
    changed = [tool("show-time", **({"resourceUri": PAGE} | meta if meta else {})), *STATE["tools"][1:]]
    tell(served.parent, tools=changed)
    before = len(calls(served.parent))
    (called,) = ask(served, ("tools/call", {"name": "far__show_time", "arguments": {}}))
    assert "app changed" in called["content"][0]["text"]
    assert len(calls(served.parent)) == before


@pytest.mark.parametrize("answer", ["deep", "flood", "other", {"contents": [{"uri": PAGE}]}], ids=str)
def test_a_page_that_cannot_be_read_costs_its_app_alone(tmp_path: Path, answer: Any) -> None:
    path = project(tmp_path, allow=["apps"], rules=[RULES[0], RULES[2]])
    tell(tmp_path, answers={**STATE["answers"], PAGE: answer})
    done = build(path)
    assert done.returncode == 0, done.stderr
    made = manifest(path)
    assert {one["code"] for one in made["problems"]} == {"unusable_app"}
    assert [one["name"] for one in made["tools"] if one.get("app", {}).get("uri")] == []
    assert "far__tick" not in listed(ask(path, ("tools/list", {}), capabilities={})[0])


@pytest.mark.parametrize("answer", ["hang", "big"])
def test_a_server_that_stops_at_a_page_keeps_its_pinned_copy(served: Path, answer: str) -> None:
    tell(served.parent, answers={**STATE["answers"], PAGE: answer})
    before = manifest(served)
    done = build(served)
    assert "far" in done.stderr
    assert manifest(served)["tools"] == before["tools"]


@pytest.mark.parametrize("answer", ["hang", "big", "deep"])
def test_a_page_that_a_hostile_server_answers_is_an_error_of_its_own(served: Path, answer: str) -> None:
    tell(served.parent, answers={**STATE["answers"], PAGE: answer})
    read, listing = ask(served, ("resources/read", {"uri": PAGE}), ("tools/list", {}))
    assert "contents" not in read
    assert "far__show_time" in listed(listing)


def test_only_what_the_specification_has_is_read_of_apps() -> None:
    hostile = ["https://a.example; script-src *", "*", "'self'", "data:", "http://a.example", "https://localhost", 7]
    page = page_of(PAGE, content(_meta={"ui": {"csp": {"connectDomains": [*hostile, "https://*.a.example:444"]}}}))
    assert page is not None
    assert page.rights.connect_domains == ("https://*.a.example:444",)
    assert tool_app({"ui": {"resourceUri": "https://evil.example"}}) is None
    assert tool_app({"ui": {"resourceUri": "ui://a/../b"}}) is None
    assert tool_app({"ui/resourceUri": PAGE}) == tool_app({"ui": {"resourceUri": PAGE}})
    nobody = tool_app({"ui": {"resourceUri": PAGE, "visibility": ["everybody"]}})
    assert nobody is not None
    assert (nobody.hidden, nobody.audience) == (True, ())
    for given in ({}, {"extensions": 5}, {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": "x"}}}):
        assert not accepts_apps(given)


async def test_clients_over_http_of_both_revisions_are_given_apps(served: Path) -> None:
    async with Gateway.load(served) as gateway:
        mcp = Mcp(gateway, Listings(gateway))
        bot = gateway.principal("bot")

        async def answer(
            method: str, params: dict[str, Any], style: ProtocolStyle, apps: frozenset[str] = frozenset()
        ) -> dict[str, Any]:
            message = RpcMessage(jsonrpc="2.0", id=1, method=method, params=params)
            reply = await mcp.answer(message, protocol_style=style, caller=Caller(principal=bot, capabilities=apps))
            found: dict[str, Any] = msgspec.json.decode(reply.body)["result"]
            return found

        call = {"name": "far__show_time", "arguments": {}}
        stateful, stateless = ProtocolStyle.STATEFUL, ProtocolStyle.STATELESS
        known = opened_session(session_id("t/1", frozenset({"apps", "roots"})))
        assert known is not None
        shown = await answer("tools/call", call, stateful, known.capabilities)
        assert shown["structuredContent"] == {"hour": 12}
        assert "structuredContent" not in await answer("tools/call", call, stateful)
        meta: dict[str, Any] = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": APPS,
        }
        listing = listed(await answer("tools/list", {"_meta": meta}, stateless))
        assert listing["far__tick"] == {"ui": {"resourceUri": PAGE, "visibility": ["app"]}}
        ticked = await answer("tools/call", {"name": "tick", "arguments": {}, "_meta": meta}, stateless)
        assert ticked["content"][0]["text"] == "tock"
        meta["io.modelcontextprotocol/clientCapabilities"] = {}
        assert "far__tick" not in listed(await answer("tools/list", {"_meta": meta}, stateless))
