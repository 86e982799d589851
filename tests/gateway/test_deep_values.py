"""Values nested too deeply, by each way in: the call ends with an error of its source, and the gateway goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import runner
from tests.gateway.governed import project, upstream
from tests.gateway.sandboxes import coding, ran
from tests.services.bridged import hostile, listed, over_http, write_project
from toolgen.core.json_codec import MAX_DEPTH
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

RULE = {"id": "all", "to": ["bot"], "tools": ["*"], "effects": ["read", "write", "destructive"], "verdict": "allow"}
TAKES = {"type": "object", "properties": {"levels": {"type": "integer"}, "where": {"type": "string"}}}
TOLD = f"nested more than {MAX_DEPTH} levels deep"
FUNCTIONS = '''
"""Functions whose answers are nested as deep as they are told."""
from typing import Any

import toolgen


@toolgen.tool(effect="read")
def nest(levels: int) -> Any:
    """Nests lists."""
    value: Any = 1
    for _ in range(levels):
        value = [value, 0, 0, 0]
    return value
'''


def tailed(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value, 0, 0, 0]
    return [value] * 3


async def test_an_answer_of_a_service_is_given_up_to_the_limit(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        path = project(tmp_path, server, {"rules": [RULE], "limits": []})
        found = []
        async with Gateway.load(path) as gateway:
            for levels in (MAX_DEPTH - 1, MAX_DEPTH, 195, MAX_DEPTH - 1):
                seen.body = json.dumps(tailed(levels)).encode()
                found.append(await gateway.call("orders__send_mail", {"to": "x"}, principal="bot"))
                seen.status = 200
        fits, deep, deeper, again = found
    assert fits.data == again.data == tailed(MAX_DEPTH - 1)
    for refused in (deep, deeper):
        assert (refused.status, refused.data) == ("error", None)
        assert refused.error is not None
        assert refused.error.code == "upstream_error"
        assert TOLD in refused.error.message


@pytest.mark.parametrize("where", ["structuredContent", "_meta"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_an_answer_of_an_mcp_server_is_given_up_to_the_limit(
    tmp_path: Path,
    where: str,
    transport: str,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.chdir(tmp_path)
    command = hostile(tmp_path, *listed("nested", inputSchema=TAKES))

    async def made(**source: Any) -> list[Envelope]:
        path = write_project(tmp_path, mcp=source)
        assert runner(capfdbinary)("build").code == 0
        async with Gateway.load(path) as gateway:
            return [
                await gateway.call("far__nested", {"levels": levels, "where": where}, principal="bot")
                for levels in (50, MAX_DEPTH, 195, 50)
            ]

    if transport == "stdio":
        fits, deep, deeper, again = await made(command=command)
    else:
        with over_http(*command) as url:
            fits, deep, deeper, again = await made(url=url)
    assert (fits.status, again.status) == ("ok", "ok"), (fits, again)
    for refused in (deep, deeper):
        assert refused.status == "error"
        assert refused.error is not None
        assert refused.error.code == "upstream_error"
        assert TOLD in refused.error.message


async def test_a_result_of_code_is_given_up_to_the_limit(tmp_path: Path) -> None:
    pytest.importorskip("pydantic_monty", reason="the extra `code` is not installed")
    code = "d = 1\nfor _ in range({}):\n    d = [d, 0, 0, 0]\n[d] * 3"
    async with coding(tmp_path) as (gateway, _):
        fits, *deep = [await ran(gateway, code.format(levels)) for levels in (MAX_DEPTH - 1, MAX_DEPTH, 195)]
    assert fits.data["result"] == tailed(MAX_DEPTH - 1)
    for refused in deep:
        assert (refused.status, refused.error.code) == ("error", "code_failed")
        assert TOLD in refused.error.message


async def test_an_answer_of_a_function_is_given_up_to_the_limit(tmp_path: Path) -> None:
    path = project(tmp_path, "", {"rules": [RULE]}, sources={"own": {"python": "deep_functions"}})
    (tmp_path / "deep_functions.py").write_text(FUNCTIONS)
    async with Gateway.load(path) as gateway:
        fits, *deep = [
            await gateway.call("own__nest", {"levels": levels}, principal="bot")
            for levels in (MAX_DEPTH, MAX_DEPTH + 1, 195, 50_000)
        ]
    assert fits.status == "ok"
    for refused in deep:
        assert refused.error is not None
        assert (refused.status, refused.error.code) == ("error", "handler_error")
        assert TOLD in refused.error.message


async def test_a_kept_answer_is_given_again_up_to_the_limit(tmp_path: Path) -> None:
    """From the cache, under an idempotency key, and redacted; each is compared with the answer as the service gave it."""
    mail = {"to": "x"}

    with upstream() as (seen, server):
        policy = {
            "rules": [RULE],
            "limits": [],
            "redact": [{"tools": ["orders__send_mail"], "fields": ["$..secret"], "with": "[hidden]"}],
        }
        path = project(tmp_path, server, policy, tools={"orders__get_health": {"cache": "60s"}})
        found: dict[str, list[Any]] = {"cache": [], "key": [], "redacted": []}
        async with Gateway.load(path) as gateway:
            for levels in (MAX_DEPTH, MAX_DEPTH - 3):
                seen.body = json.dumps(
                    {"secret": "x", "value": tailed(levels), "text": json.dumps(tailed(levels))}
                ).encode()
                key = f"key-{levels}"
                for _ in range(2):
                    found["key"].append(
                        await gateway.call("orders__send_mail", mail, principal="bot", idempotency_key=key)
                    )
                    found["cache"].append(await gateway.call("orders__get_health", {}, principal="bot"))
                    found["redacted"].append(await gateway.call("orders__send_mail", mail, principal="bot"))
    for kind, (*refused, first, second) in found.items():
        assert first.status == second.status == "ok", (kind, first)
        assert first.data == second.data
        assert first.data["value"] == tailed(MAX_DEPTH - 3)
        assert first.data["secret"] == ("x" if kind == "cache" else "[hidden]")
        for answer in refused:
            assert answer.error is not None
            assert (answer.data, answer.error.code) == (None, "upstream_error"), kind
            assert TOLD in answer.error.message
