"""Kinds of sources that are called with accounts of people, and those that refuse them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.accounts.offices import POLICY, link_of, office, write_project
from tests.services.account_provider import CLIENT, AccountProvider
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError, PolicyError
from toolgen.frontends.python.gateway import Gateway


def account(provider: AccountProvider, **more: Any) -> dict[str, Any]:
    """An account at the provider, as it is written."""
    secret = "${env:ACCOUNT_CLIENT_SECRET}"
    return {"account": "user", "client_id": CLIENT, "client_secret": secret, "issuer": provider.issuer, **more}


async def test_graphql(tmp_path: Path, provider: AccountProvider) -> None:
    schema = tmp_path / "schema.graphql"
    schema.write_text("type Query { owner: String }", encoding="utf-8")
    repos = {"graphql": str(schema), "endpoint": f"{provider.issuer}/graphql", "auth": {"bearer": account(provider)}}
    async with office(tmp_path / "project", provider, sources={"repos": repos}) as here:
        tool = next(name for name in here.gateway.manifest.tools if "owner" in name)
        await here.link("ann", link_of(await here.call(tool=tool)))
        assert (await here.call(tool=tool)).status == "ok"
        provider.expire()
        assert (await here.call(tool=tool)).status == "ok"
        assert provider.refreshed == 1


async def test_a_description_without_security_schemes(tmp_path: Path, provider: AccountProvider) -> None:
    operation = {"operationId": "getRepos", "summary": "Get", "responses": {"200": {"description": "ok"}}}
    api = {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": {"/repos": {"get": operation}}}
    (tmp_path / "api.json").write_text(json.dumps(api), encoding="utf-8")
    repos = {"openapi": str(tmp_path / "api.json"), "server": provider.issuer, "auth": {"bearer": account(provider)}}
    async with office(tmp_path / "project", provider, sources={"repos": repos}) as here:
        tool = next(iter(here.gateway.manifest.tools))
        await here.link("ann", link_of(await here.call(tool=tool)))
        assert (await here.call(tool=tool)).unwrap() == {"owner": "octocat"}


def test_a_session_that_callers_share_takes_no_account(tmp_path: Path, provider: AccountProvider) -> None:
    path = write_project(tmp_path, provider, "http://127.0.0.1:8080")
    whole = json.loads(path.read_text(encoding="utf-8"))
    whole["sources"]["other"] = {"mcp": {"url": "https://mcp.example.com/mcp"}, "auth": {"bearer": account(provider)}}
    path.write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(ConfigError, match="share a session"):
        load(path)


def test_a_policy_gives_no_accounts(tmp_path: Path, provider: AccountProvider) -> None:
    path = write_project(tmp_path, provider, "http://127.0.0.1:8080")
    policy = {**POLICY, "credentials": [{"to": ["user"], "source": "repos", "use": {"login": account(provider)}}]}
    (tmp_path / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    with pytest.raises(PolicyError, match="belong to a source"):
        Gateway.load(path)


@pytest.mark.parametrize(("more", "word"), [({"provider": "githab"}, "github"), ({"issuer": "ftp://x"}, "issuer")])
def test_faults_of_an_account_are_told_with_their_line(
    tmp_path: Path, provider: AccountProvider, more: dict[str, Any], word: str
) -> None:
    path = write_project(tmp_path, provider, "http://127.0.0.1:8080", auth=more)
    with pytest.raises(ConfigError, match=word):
        load(path)
