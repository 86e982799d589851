"""Links to pages of the console from mail and chat, the page that a sign-in goes on to, and attacks on both."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.frontends.console.house import KEYS, House, house
from tests.frontends.console.people import arriving, client, form_token, needs_chromium, sign_in
from toolgen.frontends.console.sign_in import page_asked

MAIL = "http://mail.example/"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("links") / "project") as found:
        found.call("orders__get_health", {})
        yield found


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    found = browser.new_context()
    try:
        yield found
    finally:
        found.close()


def mail(context: BrowserContext, body: str) -> Page:
    """A page of another site."""
    page = context.new_page()
    page.route(f"{MAIL}**", lambda route: route.fulfill(status=200, content_type="text/html", body=body))
    page.goto(MAIL)
    return page


def signed_in(page: Page, who: str = "paul") -> None:
    page.fill("#credential", KEYS[who])
    with arriving(page):
        page.click("button[type=submit]")
    page.wait_for_selector("form.who")


@needs_chromium
def test_a_link_from_mail_works_for_who_is_signed_in(context: BrowserContext, home: House) -> None:
    waiting = home.call("orders__delete_order", {"id": "mail"})
    address = f"/console/approvals/{waiting.call_id}"
    page = context.new_page()
    page.goto(f"{home.url}/console")
    signed_in(page)
    letter = mail(context, f'<a href="{home.url}{address}">answer</a>')
    letter.click("a")
    letter.wait_for_selector("form.answer")
    assert urlsplit(letter.url).path == address
    (cookie,) = [one for one in context.cookies() if one["name"] == "toolgen_session"]
    assert cookie["sameSite"] == "Strict"


@needs_chromium
def test_a_link_from_mail_leads_through_the_sign_in_to_its_page(context: BrowserContext, home: House) -> None:
    address = "/console/calls?tool=orders__get_health&when=today"
    letter = mail(context, f'<a href="{home.url}{address}">calls</a>')
    letter.click("a")
    letter.wait_for_selector("#credential")
    expect(letter.locator("#credential")).to_be_focused()
    letter.fill("#credential", "a wrong key")
    with arriving(letter):
        letter.click("button[type=submit]")
    letter.wait_for_selector("[role=alert]")
    signed_in(letter, "rita")
    assert letter.url.startswith(f"{home.url}{address}")


@needs_chromium
def test_a_form_of_another_site_does_nothing(context: BrowserContext, home: House) -> None:
    waiting = home.call("orders__delete_order", {"id": "forged"})
    page = context.new_page()
    page.goto(f"{home.url}/console")
    signed_in(page)
    page.goto(f"{home.url}/console/approvals/{waiting.call_id}")
    token, digest = (page.locator(f"form.answer [name={name}]").input_value() for name in ("form_token", "digest"))
    # Even with the token, which another site cannot read.
    fields = {"form_token": token, "digest": digest, "decision": "approve"}
    inputs = "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
    form = f'<form method="post" action="{home.url}/console/approvals/{waiting.call_id}">{inputs}<button>win</button></form>'
    letter = mail(context, form)
    with arriving(letter):
        letter.click("button")
    assert home.run(home.gateway.approvals.calls.store.get(waiting.call_id)).status == "pending"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none"])
def test_forms_of_other_origins_are_refused_with_every_cookie_and_token(home: House, site: str) -> None:
    waiting = home.call("orders__delete_order", {"id": f"forged-{site}"})
    known = home.run(home.gateway.approvals.calls.store.get(waiting.call_id))
    headers = {"sec-fetch-site": site}
    with client(home, "olga") as http:
        token = form_token(http.get("/console/tools").text)
        whole = {"form_token": token, "decision": "approve", "digest": known.digest}
        assert http.post(f"/console/approvals/{waiting.call_id}", data=whole, headers=headers).status_code == 403
        pause = {"form_token": token, "kind": "principal", "name": "bot"}
        assert http.post("/console/pauses", data=pause, headers=headers).status_code == 403
        assert http.post("/console/sign-out", data=whole, headers=headers).status_code == 403
        assert http.get("/console/overview").status_code == 200
    with client(home) as http:
        given = {"credential": KEYS["olga"], "form_token": form_token(http.get("/console/sign-in").text)}
        assert http.post("/console/sign-in", data=given, headers=headers).status_code == 403
    assert home.gateway.pausing.all() == ()
    assert home.run(home.gateway.approvals.calls.store.get(waiting.call_id)).status == "pending"


HOSTILE = (
    "https://evil.example/",
    "//evil.example/console",
    "/console//evil.example",
    "/console/../x",
    "/console/..",
    "/consolex",
    "/other",
    "/console\\evil",
    "javascript:alert(1)",
    '/console/calls?x="><script>',
    "/console/calls#x",
    "/console/sign-out",
    "/console/sign-in?to=/console",
    "/console/calls\r\nset-cookie: a=b",
    "/console/calls\n",
    "/console/" + "a" * 2000,
    "/console/oidc",
    "console/calls",
    "/console/@evil",
    "",
)


@pytest.mark.parametrize("to", HOSTILE)
def test_a_sign_in_goes_on_to_pages_of_the_console_alone(home: House, to: str) -> None:
    assert page_asked(to) == ""
    with client(home) as http:
        page = http.get("/console/sign-in", params={"to": to}).text
        assert 'name="to" value=""' in page
        given = {"credential": KEYS["rita"], "form_token": form_token(page), "to": to}
        answer = http.post("/console/sign-in", data=given)
        assert answer.status_code == 200
        assert 'content="0; url=/console"' in answer.text


@pytest.mark.parametrize(
    "to", ["/console", "/console/calls?principal=bot&tool=a%2Fb", "/console/approvals/call_1.2:3-4"]
)
def test_pages_that_a_sign_in_goes_on_to(to: str) -> None:
    assert page_asked(to) == to


def test_a_link_of_another_site_shows_nothing_without_a_session_and_asks_once(home: House) -> None:
    cross = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document", "sec-fetch-mode": "navigate"}
    with client(home) as http:
        first = http.get("/console/calls", headers=cross)
        assert first.status_code == 200
        assert 'content="0; url=/console/calls"' in first.text
        assert "orders__" not in first.text
        again = http.get("/console/calls", headers={**cross, "referer": f"{home.url}/console/calls"})
        assert again.status_code == 401
        assert http.get("/console/calls", headers={**cross, "sec-fetch-dest": "iframe"}).status_code == 401
        assert sign_in(http, KEYS["rita"]).status_code == 200
        assert "orders__get_health" in http.get("/console/calls", headers=cross).text


def test_the_state_of_a_person_changes_with_forms_alone(home: House) -> None:
    """No GET does anything: a link of another site, which a signed-in person follows, is only a page."""
    with client(home, "olga") as http:
        for path in ("sign-out", "pauses/resume", "grants/revoke", "grants/agree", "record/verify", "keys/revoke"):
            assert http.get(f"/console/{path}").status_code in {404, 405}, path
        assert http.get("/console/overview").status_code == 200
