"""`gateway.sign_in` of toolgen.yaml: off without it, and refused where it could not work or would be unsafe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolgen.config.registered_clients import RegisteredClient
from toolgen.config.settings import load
from toolgen.config.sign_in import ClientSettings
from toolgen.core.errors import ConfigError

URL = "https://tools.example.com"
GOOD: dict[str, Any] = {"issuer": "https://login.example.com", "client_id": "toolgen"}

KEYS = "https://ci.example.com/jwks"
HASH = "sha256:" + "0a" * 32


def written(root: Path, sign_in: Any, url: str | None = URL) -> Path:
    gateway = {"sign_in": sign_in, **({"url": url} if url else {})}
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": {"shop": {"sql": "sqlite:///shop.db"}}, "gateway": gateway}))
    return path


def test_it_is_off_without_the_section(tmp_path: Path) -> None:
    assert load(written(tmp_path, None), {}).sign_in is None


def test_the_least_that_is_written(tmp_path: Path) -> None:
    found = load(written(tmp_path, GOOD), {}).sign_in
    assert found is not None
    assert (found.access_s, found.idle_s, found.expires_s) == (600, 7 * 86_400, 30 * 86_400)
    assert found.clients == ClientSettings(metadata_documents=True, registration=False, hosts=())
    assert (found.introspection, found.resources, found.claims) == (frozenset(), (), ())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"isuer": "x"}, "issuer"),
        ({"clients": {"registraton": True}}, "registration"),
        ({"issuer": "http://login.example.com"}, "https"),
        ({"issuer": "login.example.com"}, "https"),
        ({"scopes": ["profile"]}, "openid"),
        ({"client_secret": "written-out"}, "literal"),
        ({"access": "2h"}, "access"),
        ({"access": "soon"}, "access"),
        ({"idle": "1h", "expires": "10m"}, "at least as long"),
        ({"refresh_grace": "2m"}, "refresh_grace"),
        ({"clients": {"allow": ["https://claude.ai"]}}, "host"),
        ({"clients": {"allow": ["*"]}}, "host"),
        ({"claims": ["sub"]}, "claims"),
        ({"clients": {"registered": {"a b": {"jwks": KEYS}}}}, "id of a client"),
        ({"clients": {"registered": {"ci": {}}}}, "nobody could use it"),
        ({"clients": {"registered": {"ci": {"secret": "written-out"}}}}, "not a hash"),
        ({"clients": {"registered": {"ci": {"secret": []}}}}, "takes one hash"),
        ({"clients": {"registered": {"ci": {"secret": HASH.upper()}}}}, "not a hash"),
        ({"clients": {"registered": {"ci": {"secret": [HASH] * 3}}}}, "takes one hash"),
        ({"clients": {"registered": {"ci": {"secret": HASH, "jwks": KEYS}}}}, "one of the two"),
        ({"clients": {"registered": {"ci": {"jwks": "http://ci.example.com/jwks"}}}}, "must be https"),
        ({"clients": {"registered": {"ci": {"jwks": "none.json"}}}}, "no such file"),
        ({"clients": {"registered": {"ci": {"redirect_uris": ["http://ci.example.com/"]}}}}, "redirect_uris"),
        ({"clients": {"registered": {"ci": {"redirect_uris": ["https://ci.example.com/"] * 21}}}}, "redirect_uris"),
        (
            {"clients": {"registered": {"ci": {"redirect_uris": ["https://a.b/"], "principal": "ci"}}}},
            "acts for itself",
        ),
        ({"clients": {"registered": {"ci": {"jwks": KEYS, "grants": []}}}}, "grants"),
        ({"resources": ["http://other.example.com/mcp"]}, "resources"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        load(written(tmp_path, {**GOOD, **changes}), {})
    assert "toolgen.yaml" in caught.value.where


def test_clients_of_the_operator(tmp_path: Path) -> None:
    """A relative path is of the project. Without clients that act for themselves, no extension is announced."""
    (tmp_path / "keys.json").write_text("{}")
    clients = {
        "ci": {"jwks": "keys.json", "principal": "ci"},
        "chat": {"redirect_uris": ["https://chat.example.com/cb"], "secret": [HASH, HASH.replace("0a", "0b")]},
    }
    settings = load(written(tmp_path, {**GOOD, "clients": {"registered": clients}}), {})
    assert settings.sign_in is not None
    found = settings.sign_in.clients.registered
    assert found["ci"] == RegisteredClient(id="ci", name="ci", jwks=str(tmp_path / "keys.json"), principal="ci")
    assert found["chat"].secrets == ("0a" * 32, "0b" * 32)
    assert "0a0a" not in repr(found["chat"])
    assert settings.sign_in.grant_types == ("authorization_code", "refresh_token", "client_credentials")
    assert settings.mcp_servers[""].extensions == ("io.modelcontextprotocol/oauth-client-credentials",)
    del clients["ci"]
    settings = load(written(tmp_path, {**GOOD, "clients": {"registered": clients}}), {})
    assert settings.mcp_servers[""].extensions == ()


def test_the_address_of_the_gateway_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="address of the gateway"):
        load(written(tmp_path, GOOD, url=None), {})


def test_the_extra_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolgen.config.sign_in.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="Authlib") as caught:
        load(written(tmp_path, GOOD), {})
    assert 'pip install "toolgen[sign-in]"' in caught.value.suggestion


@pytest.mark.parametrize(
    ("hosts", "host", "allowed"),
    [
        ((), "anything.example", True),
        (("claude.ai",), "claude.ai", True),
        (("claude.ai",), "CLAUDE.AI.", True),
        (("claude.ai",), "x.claude.ai", False),
        (("claude.ai",), "notclaude.ai", False),
        (("*.example.com",), "a.example.com", True),
        (("*.example.com",), "a.b.example.com", True),
        (("*.example.com",), "example.com", False),
        (("*.example.com",), "evilexample.com", False),
        (("*.example.com",), "a.example.com.evil", False),
    ],
)
def test_which_hosts_are_allowed(hosts: tuple[str, ...], host: str, allowed: bool) -> None:
    assert ClientSettings(hosts=hosts).allows(host) is allowed
