"""Listings of MCP servers that take OAuth tokens: a build requests one as the gateway's own client, and uses no refresh token."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.services.authorization import Answered, Asked, serving, token
from toolgen.connectors.mcp.source_client import listing_of
from toolgen.connectors.source import SourceConfig, SourceSettings
from toolgen.core.errors import DescriptionError
from toolgen.model.secret import SecretReference

TOOL = {"name": "look", "inputSchema": {"type": "object"}}


def answer(asked: Asked) -> Answered:
    """The token endpoint, and a server that answers to its tokens alone."""
    if asked.path == "/token":
        return token("good")
    if asked.headers.get("Authorization") != "Bearer good":
        return Answered(401)
    message = json.loads(asked.body)
    if "id" not in message:
        return Answered(202)
    results: dict[str, Any] = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "far"}},
        "tools/list": {"tools": [TOOL]},
    }
    return Answered.json(jsonrpc="2.0", id=message["id"], result=results[message["method"]])


def source(origin: str, **auth: Any) -> SourceSettings:
    config = SourceConfig(name="far", kind="mcp", location=f"{origin}/mcp")
    return SourceSettings(config=config, auth={"bearer": {"token_url": f"{origin}/token", **auth}})


def test_a_build_lists_the_tools_of_a_server_with_a_token_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_SECRET", "secret")
    secret = SecretReference(provider="env", locator="FAR_SECRET")
    with serving(answer) as service:
        listed = listing_of(source(service.origin, client_id="shop", client_secret=secret))
        assert [one.name for one in listed.tools] == ["look"]
        asked = [one for one in service.asked if one.path == "/token"]
        assert len(asked) == 1
        assert asked[0].form["grant_type"] == "client_credentials"
        assert asked[0].headers["Authorization"] == f"Basic {base64.b64encode(b'shop:secret').decode()}"


@pytest.mark.parametrize(
    "other",
    [{"refresh_token": "${env:FAR_SECRET}"}, {"subject_token": "principal", "client_secret": "${env:FAR_SECRET}"}],
)
def test_a_build_uses_neither_a_refresh_token_nor_a_callers_token(
    monkeypatch: pytest.MonkeyPatch, other: dict[str, str]
) -> None:
    monkeypatch.setenv("FAR_SECRET", "secret")
    secret = SecretReference(provider="env", locator="FAR_SECRET")
    named = {key: secret if "$" in text else text for key, text in other.items()}
    with serving(answer) as service:
        with pytest.raises(DescriptionError, match="only requested for a call"):
            listing_of(source(service.origin, client_id="shop", **named))
        assert service.asked == []


@pytest.mark.parametrize(
    ("kept", "asks"), [("subject_token", True), ("refresh_token", False)], ids=["exchanged", "refreshed"]
)
def test_the_token_of_who_builds_is_exchanged(monkeypatch: pytest.MonkeyPatch, kept: str, asks: bool) -> None:
    monkeypatch.setenv("TOOLGEN_SUBJECT_TOKEN", "canary-mine")
    monkeypatch.setenv("FAR_SECRET", "secret")
    secret = SecretReference(provider="env", locator="FAR_SECRET")
    given = {kept: "principal" if asks else secret}
    with serving(answer) as service:
        made = source(service.origin, client_id="shop", client_secret=secret, **given)
        if not asks:
            with pytest.raises(DescriptionError, match="only requested for a call"):
                listing_of(made)
            assert service.asked == []
            return
        assert [one.name for one in listing_of(made).tools] == ["look"]
        (asked,) = [one for one in service.asked if one.path == "/token"]
        assert asked.form["subject_token"] == "canary-mine"
        assert all(
            "canary-mine" not in str(one.headers) + one.body.decode() for one in service.asked if one is not asked
        )
