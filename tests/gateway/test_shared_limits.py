"""Two gateways over one Redis: one limit for both, and what callers, operators and the record are told when Redis is away."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.messages import line_names
from tests.projects import POLICY, audit_entries, make_project
from tests.redis_server import RedisServer
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway


def project(folder: Path, state: str, limits: list[dict[str, Any]], **policy: Any) -> Path:
    path = make_project(folder, policy={**POLICY, "limits": limits, **policy})
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "state": state}), encoding="utf-8")
    return path


async def test_two_gateways_share_one_limit_and_say_when_it_cannot_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATE_PASSWORD", "right-0123456789")
    monkeypatch.setattr("toolgen.state.pauses.FRESH_S", 60.0)  # whether limits can be counted is the question here
    server = RedisServer(tmp_path, "--requirepass", "right-0123456789")
    server.start()
    state = f"redis://:${{env:STATE_PASSWORD}}@127.0.0.1:{server.port}/3?prefix=shop"
    limits = [{"id": "few", "per": ["principal"], "rate": "3/h"}]
    one, two = (project(tmp_path / name, state, limits) for name in ("one", "two"))

    try:
        async with Gateway.load(one) as first, Gateway.load(two) as second:
            answers = [
                await gateway.call("shop__list_tables", {}, principal="bot")
                for gateway in (first, second, first, second)
            ]
            assert [answer.status for answer in answers] == ["ok", "ok", "ok", "refused"]
            assert answers[3].error is not None
            assert (answers[3].error.code, answers[3].error.rule) == ("rate_limited", "few")
            assert first.operations.warnings() == ()
            server.stop()
            refused = await first.call("shop__list_tables", {}, principal="bot")
            assert refused.error is not None
            assert (refused.error.code, refused.error.rule) == ("upstream_unavailable", "few")
            assert refused.error.retry_after_s is not None
            assert any(line_names(reason, "limits", "Redis", "reached") for reason in first.operations.ready())
            while not (noted := [entry for entry in audit_entries(first) if entry["event"] == "state"]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert {"event": "state", "status": "error"}.items() <= noted[0].items()
            entries = audit_entries(first)
            outcome = next(entry for entry in entries if entry["event"] == "outcome")
            assert (outcome["code"], outcome["rule"], outcome["status"]) == ("upstream_unavailable", "few", "refused")
    finally:
        server.stop()
    settings = load(one)
    assert "0123456789" not in repr(settings)
    assert settings.state is not None
    assert (settings.state.location.database, settings.state.location.prefix) == (3, "shop")


async def test_a_gateway_starts_without_its_redis(tmp_path: Path) -> None:
    limits = [{"id": "few", "rate": "3/h", "on_failure": "share"}]
    path = project(tmp_path, f"redis://127.0.0.1:{RedisServer(tmp_path).port}", limits)
    async with Gateway.load(path) as gateway:
        refused = await gateway.call("shop__list_tables", {}, principal="bot")
        assert refused.error is not None
        assert refused.error.code == "upstream_unavailable"  # what cannot be read pauses


def test_a_password_written_out_is_a_warning_and_never_repeated(tmp_path: Path) -> None:
    path = project(tmp_path, "redis://:pa:ss@word-123@127.0.0.1", [])
    settings = load(path)
    assert any("secret" in warning for warning in settings.warnings)
    for text in (repr(settings), *settings.warnings):
        assert "word-123" not in text
    path.write_text(path.read_text(encoding="utf-8").replace("127.0.0.1", "127.0.0.1:99999"), encoding="utf-8")
    with pytest.raises(ConfigError) as raised:
        load(path)
    assert "word-123" not in str(raised.value)
