"""The example of the page about hosted clients, with the addresses of a test in place of the company's."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import httpx
import pytest
import yaml

from tests.gateway.sign_in.places import Place, opened
from tests.projects import POLICY, make_project
from tests.services import identity_provider
from tests.services.identity_provider import IdentityProvider

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "hosted-clients.md"


async def test_the_example_of_the_page_signs_a_person_in(
    tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity_provider, "CLIENT", "toolgen")
    provider.claims = {"groups": ["engineering"]}
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    text = PAGE.read_text(encoding="utf-8").replace("https://tools.example.com", url)
    text = text.replace("https://login.example.com/keys", f"{provider.issuer}/jwks")
    text = text.replace("https://login.example.com", provider.issuer)
    settings, issuers, *_ = (
        yaml.safe_load(one) for one in re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    )
    reads = {"id": "staff", "to": ["ops"], "tools": ["shop__*"], "effects": ["read"], "verdict": "allow"}
    path = make_project(tmp_path / "project", policy={**POLICY, **issuers, "rules": [*POLICY["rules"], reads]})
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    async with opened(path, listener) as gateway, httpx.AsyncClient() as browser:
        here = Place(gateway, url, provider, browser)
        client = await here.client(redirect_uris=["https://claude.ai/api/mcp/auth_callback"])
        found = await here.tools((await here.tokens(client))["access_token"])
        assert "shop__query" in found.text
        assert (await here.register(redirect_uris=["https://evil.example/cb"])).status_code == 400
