"""Accounts at a real OpenID provider, npm's oidc-provider: linked, refreshed with rotation, revoked. `make oidc-provider` installs it."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from urllib.parse import urljoin

import httpx
import pytest
from msgspec.structs import replace

from tests.gateway.accounts.offices import link_of, office
from tests.services.account_provider import CLIENT, SECRET, AccountProvider

ROOT = Path(__file__).parent.parent.parent.parent
INSTALLED = ROOT / ".venv-oidc"
SERVER = Path(__file__).parent / "oidc" / "server.mjs"
ME = "repos__get_me"
_FORM = re.compile(r'<form[^>]*action="([^"]+)"[^>]*>(.*?)</form>', re.DOTALL)
_INPUT = re.compile(r"<input[^>]*>")
_NAME, _VALUE = re.compile(r'name="([^"]+)"'), re.compile(r'value="([^"]*)"')

pytestmark = pytest.mark.skipif(
    not (INSTALLED / ".installed").is_file() or shutil.which("node") is None,
    reason="oidc-provider is not installed; `make oidc-provider` installs it",
)


class RealProvider:
    """The provider, as far as the project of the tests asks for one."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer


@contextmanager
def real_provider(redirect: str) -> Iterator[RealProvider]:
    """The provider with one client."""
    server = INSTALLED / "server.mjs"
    server.write_bytes(SERVER.read_bytes())
    command = ["node", str(server), redirect, CLIENT, SECRET]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        issuer = next(line.strip() for line in process.stdout if line.startswith("http"))
        try:
            yield RealProvider(issuer)
        finally:
            process.terminate()


async def agreed(url: str, gateway: str, person: str) -> str:
    """Sign in at the provider and agree, as a browser does; returns where it sends the browser in the end."""
    async with httpx.AsyncClient() as http:
        answer = await http.get(url)
        for _ in range(12):
            if answer.is_redirect:
                location = urljoin(str(answer.url), answer.headers["location"])
                if location.startswith(gateway):
                    return location
                answer = await http.get(location)
                continue
            form = _FORM.search(answer.text)
            assert form, answer.text[:1000]
            fields = {}
            for tag in _INPUT.findall(form[2]):
                if name := _NAME.search(tag):
                    value = _VALUE.search(tag)
                    fields[name[1]] = value[1] if value else person
            answer = await http.post(urljoin(str(answer.url), form[1]), data=fields)
    raise AssertionError("the provider never came to an end")


async def test_an_account_at_a_real_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCOUNT_CLIENT_SECRET", SECRET)
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with real_provider(f"{url}/accounts/callback/repos") as real:
        provider = cast("AccountProvider", real)
        auth = {"provider": "oidc", "scopes": []}
        async with office(tmp_path, provider, auth=auth, listener=listener) as here:
            asked = await here.begin("ann", link_of(await here.call(tool=ME)))
            back = await here.back("ann", await agreed(asked, url, "octocat"))
            assert back.status_code == 303, back.text
            assert (await here.call(tool=ME)).unwrap() == {"sub": "octocat"}
            (account,) = await here.gateway.accounts.all()
            assert account.refresh_token
            aged = await here.gateway.accounts.store.put(replace(account, expires=time.time() - 1))
            assert aged is not None
            tokens = here.gateway.accounts.tokens("repos")
            assert tokens is not None
            tokens.forget(account.person)
            assert (await here.call(tool=ME)).unwrap() == {"sub": "octocat"}
            (fresh,) = await here.gateway.accounts.all()
            assert fresh.refresh_token != account.refresh_token
            assert await here.gateway.accounts.unlink(fresh, by="ann")
            async with httpx.AsyncClient() as http:
                headers = {"authorization": f"Bearer {fresh.access_token}"}
                assert (await http.get(f"{real.issuer}/me", headers=headers)).status_code == 401
