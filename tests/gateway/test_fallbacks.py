"""Fallback tools in a whole gateway: called when a tool's system does not do well, as calls of themselves, and checked at load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connectors.failing import FINE, Behaviour, Server, closed, reset, saying
from tests.gateway.governed import project
from tests.gateway.test_result_cache import outcomes
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway

RULE = {"id": "all", "to": ["bot"], "tools": ["*"], "effects": ["read", "write"], "verdict": "allow"}
LIST, OTHER, MAIL = "main__list_orders", "spare__list_orders", "main__send_mail"
DOWN = saying("500 Broken")


def gateway_of(root: Path, main: str, spare: str, tools: dict[str, Any], rule: dict[str, Any] = RULE) -> Gateway:
    """Two sources of one description: `main` and `spare`."""
    keys = {"openapi": "specs/orders.json", "breaker": "never", "retries": "never"}
    sources = {"main": {**keys, "server": main}, "spare": {**keys, "server": spare}}
    return Gateway.load(project(root, main, {"rules": [rule]}, sources=sources, tools=tools))


async def called(
    root: Path, behaviour: Behaviour, name: str, tools: dict[str, Any], rule: dict[str, Any] = RULE, **more: Any
) -> tuple[Any, Server, Server]:
    """One call whose own system behaves so."""

    main, spare = Server([behaviour]), Server([FINE])
    async with main.serving() as one, spare.serving() as two, gateway_of(root, one, two, tools, rule) as gateway:
        arguments = more.pop("arguments", {"tenant_id": "acme", "status": "open"})
        return await gateway.call(name, arguments, principal="bot", **more), main, spare


@pytest.mark.parametrize("behaviour", [DOWN, saying("503 Busy"), saying("429 Slow down"), reset])
async def test_a_read_falls_back_and_both_calls_are_on_record(tmp_path: Path, behaviour: Behaviour) -> None:
    envelope, main, spare = await called(tmp_path, behaviour, LIST, {LIST: {"fallback": OTHER}})
    assert (envelope.status, envelope.tool, envelope.data) == ("ok", OTHER, {"ok": True})
    assert (len(main.heads), len(spare.heads)) == (1, 1)
    assert b"tenant_id=acme&status=open" in spare.heads[0]
    told = [(entry["tool"], entry["status"]) for entry in outcomes(tmp_path)]
    assert told == [(LIST, "error"), (OTHER, "ok")]
    text = "".join(path.read_text() for path in (tmp_path / "var/audit").glob("*.jsonl"))
    assert f'"parent":"{envelope.call_id}"' not in text
    assert '"parent":"call_' in text


@pytest.mark.parametrize("status", ["400 Bad", "401 No", "403 No", "404 None", "409 Conflict"])
async def test_an_answer_is_an_answer(tmp_path: Path, status: str) -> None:
    envelope, _, spare = await called(tmp_path, saying(status), LIST, {LIST: {"fallback": OTHER}})
    assert (envelope.status, envelope.tool, spare.heads) == ("error", LIST, [])


async def test_a_write_that_was_sent_never_falls_back(tmp_path: Path) -> None:
    for number, behaviour in enumerate((reset, DOWN)):
        tools = {MAIL: {"fallback": "spare__send_mail"}}
        envelope, _, spare = await called(tmp_path / str(number), behaviour, MAIL, tools, arguments={"to": "ann"})
        assert (envelope.status, spare.heads) == ("error", [])


@pytest.mark.parametrize(("key", "status"), [("", "ok"), ("k1", "error")])
async def test_a_write_that_was_not_sent_falls_back_unless_its_repetition_could_be_another(
    tmp_path: Path, key: str, status: str
) -> None:
    with closed() as dead:
        spare, tools = Server([FINE]), {MAIL: {"fallback": "spare__send_mail"}}
        async with spare.serving() as url, gateway_of(tmp_path, dead, url, tools) as gateway:
            found = await gateway.call(MAIL, {"to": "ann"}, principal="bot", idempotency_key=key)
        assert found.status == status


async def test_a_fallback_that_the_policy_refuses_is_not_made_and_the_failure_is_told(tmp_path: Path) -> None:
    rule = {**RULE, "tools": ["main__*"]}
    envelope, _, spare = await called(tmp_path, DOWN, LIST, {LIST: {"fallback": OTHER}}, rule)
    assert (envelope.status, envelope.tool, envelope.error.code, spare.heads) == ("error", LIST, "upstream_error", [])
    assert [entry.get("code") for entry in outcomes(tmp_path)] == ["upstream_error", "unknown_tool"]


async def test_fallbacks_do_not_go_in_circles(tmp_path: Path) -> None:
    server = Server([DOWN])
    tools = {LIST: {"fallback": OTHER}, OTHER: {"fallback": LIST}}
    async with server.serving() as url, gateway_of(tmp_path, url, url, tools) as gateway:
        envelope, reached = await gateway.call(LIST, {"tenant_id": "acme"}, principal="bot"), len(server.heads)
    assert (envelope.status, envelope.tool, reached) == ("error", LIST, 2)


async def test_arguments_go_by_the_names_that_were_said_and_others_stay_behind(tmp_path: Path) -> None:
    tools = {LIST: {"fallback": {"tool": "spare__check_fraud", "arguments": {"order": "status"}}}}
    envelope, _, spare = await called(tmp_path, DOWN, LIST, tools)
    assert envelope.status == "ok"
    assert spare.heads[0].startswith(b"GET /check?order=open ")


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        ({LIST: {"fallback": "spare__list_ordres"}}, "did you mean 'spare__list_orders'"),
        ({LIST: {"fallback": LIST}}, "is not another tool"),
        ({LIST: {"fallback": "spare__send_mail"}}, "is write, and main__list_orders only read"),
        ({"main__get_health": {"fallback": OTHER}}, "needs 'tenant_id'"),
        ({LIST: {"fallback": {"tool": OTHER, "arguments": {"statu": "status"}}}}, "did you mean 'status'"),
        ({LIST: {"fallback": {"tool": OTHER, "arguments": {"status": "statsu"}}}}, "did you mean 'status'"),
        ({LIST: {"fallback": {"tol": OTHER}}}, "did you mean 'tool'"),
    ],
)
def test_a_fallback_that_cannot_be_is_an_error_at_load(tmp_path: Path, tools: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        gateway_of(tmp_path, "http://127.0.0.1:9", "http://127.0.0.1:9", tools)
    assert said in str(caught.value)
