"""Sign-ins and clients as operators and reviewers see and end them: on the command line, and in the console."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.commands import Run, runner
from tests.frontends.console.people import form_token
from tests.gateway.sign_in.places import REDIRECT, Place, place
from tests.gateway.sign_in.test_registered import asked, hashed, settings
from tests.services.identity_provider import IdentityProvider
from toolgen.gateway.sign_in.records import HostedClient, RememberedConsent, SignInGrant


@pytest.fixture
def toolgen(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    return runner(capsysbinary)


async def counts(here: Place) -> tuple[int, int, int]:
    """How many sign-ins, registered clients and remembered consents are stored."""
    assert here.gateway.sign_in is not None
    store = here.gateway.sign_in.store
    found = [await store.all(kind) for kind in (SignInGrant, HostedClient, RememberedConsent)]
    return len(found[0]), len(found[1]), len(found[2])


def recorded(here: Place, code: str) -> list[dict[str, Any]]:
    """Entries of all streams with this code: a command writes to a stream of its own."""
    files = sorted(here.gateway.settings.audit_dir.rglob("*.jsonl"))
    lines = [line for path in files for line in path.read_text().strip("\0").splitlines()]
    return [one for one in map(json.loads, lines) if (one.get("event"), one.get("code")) == ("sign_in", code)]


async def remembered(here: Place, provider: IdentityProvider, person: str, client: dict[str, object]) -> str:
    """Sign a person in with a consent that is remembered; returns their refresh token."""
    provider.person = person
    async with httpx.AsyncClient() as browser:
        page = await here.page(here.asked(client), browser)
        sent = await here.answer(page, browser, remember="yes")
    code = httpx.URL(sent.headers["location"]).params["code"]
    reply = await here.redeem(client, code)
    token: str = reply.json()["refresh_token"]
    return token


async def test_sign_ins_are_listed_and_ended_on_the_machine(
    tmp_path: Path, provider: IdentityProvider, toolgen: Run
) -> None:
    """The gateway runs meanwhile. A revoked sign-in has no remembered consent, and each step is on record."""
    made = settings(provider, tmp_path)
    made["sign_in"]["clients"]["registration"] = True
    async with place(tmp_path, provider, **made) as here:
        path = str(here.gateway.settings.path)

        async def run(*arguments: str) -> tuple[int, str, str]:
            done = await asyncio.to_thread(toolgen, "sign-ins", *arguments, "--config", path)
            return done.code, done.out, done.err

        client = await here.client(client_name="Chat")
        ann = await remembered(here, provider, "ann", client)
        bob = await remembered(here, provider, "bob", client)
        assert (await asked(here)).status_code == 200
        code, out, _ = await run("list", "--json")
        rows = json.loads(out)
        assert (code, sorted(one["principal"] for one in rows)) == (0, ["robot", "staff:ann", "staff:bob"])
        assert {"tgr_", ann, bob}.isdisjoint(out.split('"'))
        code, out, _ = await run("list", "--principal", "staff:ann")
        assert (out.count("staff:ann"), out.count("staff:bob")) == (1, 0)
        (_, out, _) = await run("clients", "--json")
        assert {(one["name"], one["origin"], one["sign_ins"]) for one in json.loads(out)} >= {
            ("Chat", "registration", 2),
            ("Runner", "settings", 1),
            ("keyed", "settings", 0),
        }
        assert await counts(here) == (3, 1, 2)
        assert (await run("revoke"))[0] == 2
        assert (await run("revoke", "none"))[0] == 1
        assert (await run("revoke", "--principal", "staff:ann"))[1] == "ended 1\n"
        assert await counts(here) == (2, 1, 1)
        assert (await here.refresh(client, ann)).json()["error"] == "invalid_grant"
        assert (await here.refresh(client, bob)).status_code == 200
        (entry,) = recorded(here, "revoked")
        assert (entry["principal"], entry["arguments"]["by"]) == ("staff:ann", "operator")
        assert (await run("remove-client", "runner"))[0] == 1
        assert (await run("remove-client", client["client_id"]))[1] == "removed, and ended 1\n"
        assert await counts(here) == (1, 0, 0)
        assert recorded(here, "client_removed")[0]["arguments"]["client_id"] == client["client_id"]


async def test_reviewers_see_sign_ins_in_the_console_and_admins_end_them(
    tmp_path: Path, provider: IdentityProvider
) -> None:
    console = {"viewers": ["viewer"], "admins": ["admin"]}
    made = settings(provider, tmp_path)
    made["policy"]["principals"] |= {
        "vera": {"api_key": hashed("vera-key"), "roles": ["viewer"]},
        "rosa": {"api_key": hashed("rosa-key"), "roles": ["admin"]},
    }
    made["sign_in"]["clients"]["registration"] = True
    async with place(tmp_path, provider, console=console, **made) as here:
        client = await here.client(client_name="Chat <b>", redirect_uris=[REDIRECT])
        await remembered(here, provider, "ann", client)
        seen = {}
        for key in ("vera-key", "rosa-key"):
            async with httpx.AsyncClient(base_url=here.url, follow_redirects=True) as http:
                start = await http.get("/console/sign-in")
                await http.post("/console/sign-in", data={"form_token": form_token(start.text), "credential": key})
                seen[key] = await http.get("/console/sign-ins")
                assert seen[key].status_code == 200
                assert "staff:ann" in seen[key].text
                assert "Chat &lt;b&gt;" in seen[key].text
                form = {"form_token": form_token(seen[key].text), "id": client["client_id"]}
                gone = await http.post("/console/sign-ins/clients/remove", data=form)
                assert gone.status_code == (403 if key == "vera-key" else 200)
        assert 'action="/console/sign-ins/revoke"' not in seen["vera-key"].text
        assert await counts(here) == (0, 0, 0)
        assert here.recorded("client_removed")[0]["arguments"]["by"] == "rosa"
