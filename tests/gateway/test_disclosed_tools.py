"""Disclosed tools: callers that a policy tells so learn that a tool is closed, and nobody else learns that it is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.mcp.peers import Peer, close_peers
from tests.gateway.clients import listening
from tests.gateway.governed import project
from toolgen.core.errors import PolicyError
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Principal
from toolgen.policy.disclosure import Disclosure, disclosed

MAIL = "orders__send_mail"
RULES = [
    {"id": "reads", "to": ["bot", "user"], "tools": ["*"], "effects": ["read"], "verdict": "allow"},
    {"id": "deletes", "to": ["bot"], "tools": ["orders__delete_order"], "effects": ["destructive"], "verdict": "allow"},
]
ENTRY = {"to": ["bot"], "tools": ["orders__send_*"], "text": "ask the mail team"}
ELSEWHERE = "do not try to reach the same result in another way; report that this tool is closed to you"


def gateway(root: Path, *, search: bool = True, **policy: Any) -> Gateway:
    settings = {"gateway": {"search_above": 0 if search else "never"}}
    return Gateway.load(project(root, "http://127.0.0.1:9", {"rules": RULES, **policy}, **settings))


async def answers(root: Path, *asked: tuple[str, dict[str, Any]], search: bool = True, **policy: Any) -> list[Any]:
    async with gateway(root, search=search, **policy) as opened:
        return [(await opened.call(name, given, principal="bot")).to_dict() for name, given in asked]


@pytest.mark.parametrize("search", [True, False])
async def test_a_call_of_a_disclosed_tool_says_that_it_is_not_open(tmp_path: Path, search: bool) -> None:
    direct, other = await answers(
        tmp_path, (MAIL, {"to": "a"}), ("orders__create_order", {}), search=search, disclose=[ENTRY]
    )
    assert direct["status"] == "refused"
    assert (direct["error"]["code"], direct["error"]["message"]) == ("forbidden", f"{MAIL} is not open to this caller")
    assert direct["error"]["suggestion"] == f"{ELSEWHERE}; ask the mail team"
    assert other["error"]["code"] == "unknown_tool"


async def test_tools_that_search_and_describe_say_it_too(tmp_path: Path) -> None:
    described, through, found = await answers(
        tmp_path,
        ("describe_tool", {"name": MAIL}),
        ("run_tool", {"name": MAIL, "arguments": {"to": "a"}}),
        ("search_tools", {"query": "send a mail"}),
        disclose=[ENTRY],
    )
    for one in (described, through):
        assert one["error"]["code"] == "forbidden"
        assert ELSEWHERE in one["error"]["suggestion"]
    assert found["data"]["not_open"] == [MAIL]
    assert f"({MAIL}): {ELSEWHERE}; ask the mail team" in found["data"]["note"]
    assert MAIL not in [tool["name"] for tool in found["data"]["tools"]]


async def test_a_search_that_an_open_tool_fits_best_says_nothing_of_closed_ones(tmp_path: Path) -> None:
    found, deletes = await answers(
        tmp_path,
        ("search_tools", {"query": "list orders"}),
        ("search_tools", {"query": "delete an order"}),
        disclose=[{"to": ["bot"], "tools": ["*"]}],
    )
    for one in (found, deletes):
        assert "not_open" not in one["data"]
        assert "not open" not in json.dumps(one)


async def test_without_an_entry_a_closed_tool_does_not_exist(tmp_path: Path) -> None:
    policies: dict[str, Any] = {"none": {}, "others": {"disclose": [{**ENTRY, "to": ["user"]}]}}
    for name, policy in policies.items():
        direct, described, found = await answers(
            tmp_path / name,
            (MAIL, {}),
            ("describe_tool", {"name": MAIL}),
            ("search_tools", {"query": "send a mail"}),
            **policy,
        )
        assert direct["error"]["code"] == described["error"]["code"] == "unknown_tool"
        assert "not_open" not in found["data"]
        assert MAIL not in json.dumps(found)


async def test_a_refusal_by_a_rule_says_it_where_nothing_else_is_to_be_done(tmp_path: Path) -> None:
    never = {"id": "never", "to": ["bot"], "tools": ["orders__list_orders"], "when": "true", "verdict": "deny"}
    asked = ("orders__list_orders", {"tenant_id": "acme"})
    everything = [{"to": ["bot"], "tools": ["*"]}]
    (told,) = await answers(tmp_path / "told", asked, rules=[*RULES, never], disclose=everything)
    (untold,) = await answers(tmp_path / "untold", asked, rules=[*RULES, never])
    assert told["error"]["suggestion"] == ELSEWHERE
    assert told["error"]["rule"] == untold["error"]["rule"] == "never"
    assert "another way" not in json.dumps(untold)


async def test_both_parties_have_to_be_told(tmp_path: Path) -> None:
    codes: list[str] = []
    for name, roles in (("agent", ["bot"]), ("both", ["bot", "user"])):
        async with gateway(tmp_path / name, disclose=[{**ENTRY, "to": roles}]) as opened:
            bot = opened.principal("bot", on_behalf_of="ann")
            envelope = await opened.tool_calls.call(MAIL, {}, principal=bot)
            assert envelope.error is not None
            codes.append(envelope.error.code)
    assert codes == ["unknown_tool", "forbidden"]


def test_each_of_a_chain_needs_an_entry_for_the_tool() -> None:
    entries = (
        Disclosure(roles=frozenset({"a"}), tools=("x__*",), text="first"),
        Disclosure(roles=frozenset({"b"}), tools=("x__y",), text="second"),
    )
    user = Principal(id="u", roles=frozenset({"b"}))
    agent = Principal(id="p", roles=frozenset({"a"}), on_behalf_of=user)
    assert disclosed(entries, agent, "x__y") is entries[0]
    assert disclosed(entries, agent, "x__z") is None
    assert disclosed(entries, user, "x__y") is entries[1]


async def test_what_a_toolset_leaves_out_is_not_called_closed(tmp_path: Path) -> None:
    toolsets = {"quick": {"tools": ["orders__list_orders"]}}
    async with gateway(tmp_path, toolsets=toolsets, disclose=[{"to": ["bot"], "tools": ["*"]}]) as opened:
        app = App(opened)
        async with listening(app) as url, httpx.AsyncClient(base_url=url) as http:
            headers = {"authorization": "Bearer key-of-bot", "x-toolset": "quick"}
            left_out, closed = [
                (await http.post(f"/v1/tools/{name}/call", json={"arguments": {}}, headers=headers)).json()
                for name in ("orders__get_health", MAIL)
            ]
    assert left_out["error"]["code"] == "unknown_tool"
    assert closed["error"]["code"] == "forbidden"


async def test_front_ends_say_it(tmp_path: Path) -> None:
    async with gateway(tmp_path, disclose=[ENTRY]) as opened:
        app = App(opened)
        async with listening(app) as url:
            try:
                headers = {"authorization": "Bearer key-of-bot"}
                async with httpx.AsyncClient(base_url=url, headers=headers) as http:
                    rest = await http.post(f"/v1/tools/{MAIL}/call", json={"arguments": {}})
                mcp = await Peer(url).ask("tools/call", name=MAIL, arguments={})
            finally:
                await close_peers()
                app.end_streams()
    assert rest.status_code == 403
    assert ELSEWHERE in rest.text
    assert ELSEWHERE in json.dumps(mcp)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"to": ["nobody"], "tools": ["*"]}, "no principal has the role 'nobody'"),
        ({"to": ["bot"], "tools": ["orders__snd_*"]}, "matches no tool"),
        ({"to": ["bot"]}, "tools"),
        ({"to": [], "tools": ["*"]}, "length"),
        ({"to": ["bot"], "tools": ["*"], "text": "x" * 301}, "300"),
        ({"to": ["bot"], "tools": ["*"], "say": "x"}, "say"),
    ],
)
async def test_an_entry_that_is_none_is_refused(tmp_path: Path, entry: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError, match=said):
        await answers(tmp_path, disclose=[entry])
