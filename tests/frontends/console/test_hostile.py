"""The console in hands it is not for: made-up addresses, planted cookies, sign-ins without end, tokens that end."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from tests.frontends.console.house import CONSOLE, KEYS, house
from tests.frontends.console.people import client, form_token, sign_in
from tests.frontends.console.provider import CLIENT, issuer
from tests.frontends.console.test_sign_in import policy_of, signing_in
from tests.gateway.issuer import token
from toolgen.state import sessions as sessions_sqlite

LONG = "9" * 20


@pytest.mark.parametrize("cursor", [f"{LONG}-1", f"1-{LONG}", "1", "-", "1-1-1", "\u0661-\u0661", "x" * 41])
def test_an_address_of_no_page_is_said_to_be_one(tmp_path: Path, cursor: str) -> None:
    with house(tmp_path / "project") as home, client(home, "rita") as http:
        assert http.get("/console/calls", params={"cursor": cursor}).status_code in {200, 400}


def test_over_https_no_other_host_can_choose_anybodys_session(tmp_path: Path) -> None:
    console = {**CONSOLE, "url": "https://gateway.example"}
    with house(tmp_path / "project", console=console) as home, client(home) as http:
        page = http.get("/console/sign-in")
        (held,) = (value for value in page.headers.get_list("set-cookie"))
        kept = held.split(";")[0]
        fields = {"credential": KEYS["rita"], "form_token": form_token(page.text)}
        answer = http.post("/console/sign-in", data=fields, headers={"cookie": kept})
        assert answer.status_code == 200, answer.text
        set_ = [value for value in answer.headers.get_list("set-cookie") if "Max-Age=0" not in value]
        assert len(set_) == 1
        for cookie in (held, *set_):
            assert cookie.startswith("__Host-toolgen_")
            assert {"Path=/", "HttpOnly", "Secure", "SameSite=Strict"} <= set(cookie.split("; "))
            assert "Domain" not in cookie
        name, _, value = set_[0].split(";")[0].partition("=")
        assert http.get("/console/calls", headers={"cookie": f"{name}={value}"}).status_code == 200
        # What a page of another host of the same domain, or a man in the middle over http, could have set:
        assert http.get("/console/calls", headers={"cookie": f"toolgen_session={value}"}).status_code == 401


def test_sign_ins_that_nobody_finishes_lock_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_sqlite, "_MAX_COUNT", 5)
    with signing_in(tmp_path / "root", monkeypatch) as (home, _):
        for _ in range(12):
            with client(home) as stranger:
                assert stranger.get("/console/oidc").status_code == 303
        with sqlite3.connect(home.root / "var" / "state" / "console.db") as file:
            assert file.execute("SELECT count(*) FROM attempts").fetchone() == (5,)


def test_a_session_begun_with_a_token_lasts_no_longer_than_the_token(tmp_path: Path) -> None:
    with issuer() as provider:
        (tmp_path / "keys.json").write_text(provider.keys())
        with house(tmp_path / "project", policy=policy_of(provider)) as home, client(home) as http:
            now = int(time.time())
            shown = token(iss=provider.url, aud=CLIENT, sub="ann", groups=["leads"], iat=now, exp=now + 300)
            answer = sign_in(http, shown)
            assert answer.status_code == 200, answer.text
            (kept,) = (it for it in answer.headers.get_list("set-cookie") if it.startswith("toolgen_session="))
            age = next(part for part in kept.split("; ") if part.startswith("Max-Age="))
            assert int(age.removeprefix("Max-Age=")) <= 300
            with sqlite3.connect(home.root / "var" / "state" / "console.db") as file:
                assert file.execute("SELECT max(expires) FROM sessions").fetchone()[0] <= now + 300
