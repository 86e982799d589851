"""Reviewing in the console: the story of a call, searches, what a principal may do, and which rules are used."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from markupsafe import escape
from playwright.sync_api import Browser

from tests.frontends.console.axe import violations
from tests.frontends.console.house import POLICY, House, house
from tests.frontends.console.people import arriving, client, form_token, needs_chromium, watched
from toolgen.audit.index import filler
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.index.indexer import Filled
from toolgen.audit.reader import entries as read_entries
from toolgen.frontends.console.story import request_text, steps_of, waited


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("reviewing") / "project") as found:
        yield found


@pytest.fixture(scope="module")
def reader(home: House) -> Iterator[httpx.Client]:
    with client(home, "rita") as http:
        yield http


def entry(event: str, minute: int, **rest: Any) -> dict[str, Any]:
    return {"event": event, "time": f"2026-01-05T{1 + minute // 60:02}:{minute % 60:02}:00.000000Z", **rest}


ASKED = [entry("intent", 5), entry("outcome", 5, status="pending", code="approval_required")]
APPROVED = entry("decision", 369, verdict="approve", principal="ann", arguments={"note": "agreed"})
STORIES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "approved": (
        [*ASKED, APPROVED, entry("intent", 370), entry("outcome", 370, status="ok")],
        ["asked", "waited for a person", "approved after 6 h 4 min by ann: agreed", "sent", "ok"],
    ),
    "denied": (
        [*ASKED, entry("decision", 6, verdict="deny", principal="ann", status="refused", code="approval_denied", arguments={"note": "no"})],
        ["asked", "waited for a person", "denied after 1 min by ann: no"],
    ),
    "expired": (
        [*ASKED, entry("decision", 65, verdict="expire", status="refused", code="expired")],
        ["asked", "waited for a person", "expired after 1 h"],
    ),
    "escalated": (
        [*ASKED, entry("escalation", 35, arguments={"to": ["lead"], "after_s": 1800}), APPROVED, entry("intent", 370),
         entry("outcome", 370, status="error", code="upstream_error")],
        ["asked", "waited for a person", "escalated to lead", "approved after 6 h 4 min by ann: agreed", "sent", "error upstream_error"],
    ),
    "of two people": (
        [*ASKED, entry("decision", 6, verdict="approve", principal="bob", arguments={"votes": 1, "enough": False}),
         {**APPROVED, "arguments": {"votes": 2, "enough": True}}, entry("intent", 370), entry("outcome", 370, status="ok")],
        ["asked", "waited for a person", "agreed after 1 min; it takes others too by bob", "approved after 6 h 4 min by ann", "sent", "ok"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("entries", "told"), STORIES.values(), ids=STORIES)
def test_a_call_tells_its_story(entries: list[dict[str, Any]], told: list[str]) -> None:
    said = []
    for step in steps_of(tuple(entries)):
        text = " ".join(filter(None, (step.word, step.detail, f"by {step.by}" if step.by else "")))
        said.append(f"{text}: {step.note}" if step.note else text)
    assert said == told


@pytest.mark.parametrize(
    ("until", "words"),
    [
        ("2026-01-01T00:00:07Z", "7 s"),
        ("2026-01-01T00:04:00Z", "4 min"),
        ("2026-01-02T02:00:00Z", "1 d 2 h"),
        ("never", ""),
    ],
)
def test_a_wait_is_told_in_two_units(until: str, words: str) -> None:
    assert waited("2026-01-01T00:00:00Z", until) == words


def test_a_request_is_shown_as_people_read_one() -> None:
    body = json.dumps({"amount": 5, "note": "a\nb\u202e"})
    headers = [["content-type", "application/json"], ["x-evil", "a\r\nb"]]
    text = request_text({"method": "POST", "url": "https://api.example/orders", "headers": headers, "body": body})
    assert text.split("\n") == [
        "POST https://api.example/orders",
        "content-type: application/json",
        r"x-evil: a\r\nb",
        "",
        "{",
        '  "amount": 5,',
        r'  "note": "a\nb\u202e"',
        "}",
    ]


def told(home: House, call_id: str, seconds: float = 60) -> Any:
    return home.run(home.gateway.approvals.calls.outcome(call_id, home.gateway.principal("bot"), seconds))


def answered(home: House, call_id: str, **rest: Any) -> None:
    home.run(home.gateway.approvals.decide(call_id, principal=home.gateway.principal("paul"), **rest))


@needs_chromium
def test_an_approved_call_has_one_state_and_both_times(browser: Browser, home: House) -> None:
    call_id = home.call("orders__delete_order", {"id": "story"}, session="chat-9").call_id
    answered(home, call_id, approve=True, note="by phone")
    assert told(home, call_id).status == "ok"
    with watched(browser, home, "rita") as visitor:
        page = visitor.page
        visitor.visit(f"{home.url}/console/calls/{call_id}")
        assert page.locator(".heading .status").inner_text().endswith("ok")
        assert "approval_required" not in page.locator(".heading").inner_text()
        steps = page.locator(".steps li").all_inner_texts()
        assert [step.split("\n")[0].split(" ")[0] for step in steps] == ["asked", "waited", "approved", "sent", "ok"]
        assert "by paul" in steps[2]
        assert "by phone" in steps[2]
        facts = page.locator("dl.facts").first.inner_text()
        assert "Asked" in facts
        assert "Sent" in facts
        request = page.locator("pre[aria-label=Request]").inner_text()
        assert request.startswith("DELETE http://127.0.0.1")
        assert request.split("\n")[0].endswith("/pet/story")
        assert violations(page) == []
        visitor.visit(f"{home.url}/console/calls?text=story")
        row = page.locator("table.calls tbody tr").first.inner_text()
        assert "asked" in row
        assert "answered by paul" in row
        assert 'id: "story"' in row
        assert violations(page) == []
        visitor.check()


def rows(http: httpx.Client, **query: str) -> list[str]:
    """The ids of the calls that a search finds."""
    page = http.get("/console/calls", params=query)
    assert page.status_code == 200, page.text
    table = page.text.partition('<table class="calls">')[2]
    return list(dict.fromkeys(part.partition('"')[0] for part in table.split('href="/console/calls/')[1:]))


def test_text_is_looked_for_where_people_wrote_it(home: House, reader: httpx.Client) -> None:
    made = {
        text: home.call("orders__list_orders", {"tenant_id": "acme", "status": text}, session=f"s-{text}").call_id
        for text in ("c14", "needle", 'quo"ted')
    }
    note = home.call("orders__delete_order", {"id": "noted"}).call_id
    answered(home, note, approve=False, note="customer called")
    assert rows(reader, text="c14") == [made["c14"]]
    assert rows(reader, text='"status":"c14"') == [made["c14"]]
    assert rows(reader, text="S-NEEDLE") == [made["needle"]]
    assert rows(reader, text='quo"ted') == [made['quo"ted']]
    assert rows(reader, text="customer called") == [note]
    assert rows(reader, text="approval_denied") == [note]
    assert rows(reader, text=note) == []
    assert rows(reader, session="s-needle") == [made["needle"]]
    assert "1 call found" in reader.get("/console/calls", params={"text": "customer called"}).text


def test_calls_are_found_by_what_the_gateway_said(home: House, reader: httpx.Client) -> None:
    refused = home.call("orders__list_orders", {"tenant_id": "acme", "status": ["of-a-refusal"]})
    assert refused.error is not None
    home.upstream.faults["/check"] = 500
    failed = home.call("orders__check_fraud", {"order": "of-a-fault"})
    home.upstream.faults.clear()
    assert failed.error is not None
    assert rows(reader, text=refused.error.message, session="") == [refused.call_id]
    said = failed.error.message.partition(":")[0]
    assert failed.call_id in rows(reader, text=said)
    for call, words in ((refused, refused.error.message), (failed, said)):
        page = reader.get(f"/console/calls/{call.call_id}").text
        assert escape(words) in page.partition('class="told">')[2].partition("</p>")[0]
    exported = reader.get("/console/calls.csv", params={"text": "of-a-refusal"}).text
    assert refused.error.message in exported


def test_calls_are_found_by_effect_and_by_day(home: House, reader: httpx.Client) -> None:
    read = home.call("orders__get_health", {}).call_id
    deleted = home.call("orders__delete_order", {"id": "by-effect"}).call_id
    assert read in rows(reader, effect="read")
    assert read not in rows(reader, effect="destructive")
    assert deleted in rows(reader, effect="destructive")
    assert deleted in rows(reader, when="today")
    assert rows(reader, when="yesterday", tool="orders__get_health") == []
    assert read in rows(reader, when="today", zone="Pacific/Auckland")
    for wrong in ({"effect": "x"}, {"when": "x"}):
        assert reader.get("/console/calls", params=wrong).status_code == 400
    assert reader.get("/console/calls", params={"when": "today", "zone": "../etc/passwd"}).status_code == 200
    assert reader.get("/console/calls.csv", params={"when": "today", "effect": "read"}).status_code == 200


@needs_chromium
def test_times_are_those_of_the_browsers_clock_to_the_millisecond(browser: Browser, home: House) -> None:
    home.call("orders__get_health", {})
    context = browser.new_context(timezone_id="Asia/Kolkata")
    try:
        page = context.new_page()
        page.goto(f"{home.url}/console/sign-in")
        page.fill("#credential", "key-of-rita")
        with arriving(page):
            page.click("button[type=submit]")
        page.wait_for_selector("form.who")
        page.goto(f"{home.url}/console/calls")
        shown = page.evaluate(
            "(() => { const one = document.querySelector('table.calls time'); return [one.dateTime, one.innerText, one.title]; })()"
        )
        local = page.evaluate("time => new Date(time).toLocaleString('sv-SE', {timeZone: 'Asia/Kolkata'})", shown[0])
        assert shown[1][:-4] == local
        assert shown[1][-4] == "."
        assert shown[2].endswith("UTC")
        assert page.locator("th .zone").first.inner_text() in {"Asia/Kolkata", "Asia/Calcutta"}
        with arriving(page):
            page.click("a.zoned:has-text('Yesterday')")
        assert "zone=Asia" in page.url
    finally:
        context.close()


def test_the_page_of_a_principal_says_what_it_may_do(home: House, reader: httpx.Client) -> None:
    page = reader.get("/console/principals", params={"name": "bot"})
    assert page.status_code == 200
    table = page.text.partition('id="tools"')[2].partition("</table>")[0]
    names = [part.partition('"')[0] for part in table.split('href="/console/tools/')[1:]]
    assert names[0] == "orders__delete_order"  # what destroys comes first
    said = {
        name: row.partition('<span class="verdict ')[2].partition('"')[0]
        for name, row in zip(names, table.split("<tr>")[2:], strict=True)
    }
    assert said["orders__delete_order"] == "ask"
    assert said["orders__send_mail"] == "deny"
    assert said["orders__create_order"] == "hidden"
    assert said["orders__list_orders"] == "allow"
    for word in ("deletes-ask", "per-bot", "toolgen pause --principal <bdi>bot</bdi>", "on record", "Its keys"):
        assert word in page.text
    only = reader.get("/console/principals", params={"name": "bot", "verdict": "deny"}).text
    assert "orders__send_mail" in only.partition('id="tools"')[2]
    assert "orders__create_order</a>" not in only
    assert reader.get("/console/principals", params={"name": "nobody at all"}).status_code == 404
    with client(home, "paul") as http:
        assert http.get("/console/principals", params={"name": "bot"}).status_code == 403


def test_the_page_of_a_principal_has_the_limits_that_count_its_calls(tmp_path: Path) -> None:
    limits = [
        {"id": "of-all", "rate": "600/min", "burst": 200},
        {"id": "of-reads", "tools": ["orders__list_*"], "per": ["principal"], "rate": "60/min", "burst": 20},
        {"id": "of-deletes", "tools": ["orders__delete_*"], "per": ["tool"], "rate": "60/min", "burst": 20},
        {"id": "of-mail", "tools": ["orders__send_mail"], "rate": "6/min", "burst": 2},
    ]
    with house(tmp_path / "project", policy={**POLICY, "limits": limits}) as home, client(home, "rita") as http:
        for name, wanted in (
            ("bot", ["of-all", "of-reads", "of-deletes"]),  # mail is denied to it
            ("rita", ["of-all", "of-reads"]),
            ("paul", ["of-all"]),
        ):
            page = http.get("/console/principals", params={"name": name}).text.partition('id="limits"')[2]
            found = [part.partition("<")[0] for part in page.partition("</section>")[0].split("<bdi>")[1:]]
            assert sorted(found) == sorted(wanted), name


def test_rules_say_how_often_and_when_they_were_used(tmp_path: Path) -> None:
    with house(tmp_path / "project") as home, client(home, "rita") as http:
        home.call("orders__get_health", {})
        home.call("orders__get_health", {})
        home.call("orders__send_mail", {"to": "x"})
        page = http.get("/console/policies").text
        assert "2 of 3 rules" in page
        assert "2 calls, last" in page
        assert 'href="/console/calls?rule=reads"' in page
        assert "never used" in page
        overview = http.get("/console/overview").text
        assert "Refusals by rule" in overview
        assert "status=refused&amp;since=" in overview
        since = overview.partition('href="/console/calls?since=')[2].partition('"')[0]
        assert http.get(f"/console/calls?since={since}").status_code == 200


def test_while_the_index_is_made_pages_say_so_and_nothing_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()
    fill = RecordIndex.fill

    def held_up(index: RecordIndex, progress: Callable[[int], None] = lambda entries: None) -> Filled:
        assert goes_on.wait(120)
        return fill(index, progress)

    with house(tmp_path / "project") as home, client(home, "rita") as http:
        home.call("orders__get_health", {})
        monkeypatch.setattr(filler, "_MANY", 1)
        monkeypatch.setattr(RecordIndex, "fill", held_up)
        for path in ("overview", "sources", "calls", "policies/history"):
            page = http.get(f"/console/{path}")
            assert page.status_code == 200
            assert "not shown yet" in page.text, path
            assert ("not counted yet" in page.text) is (path in {"overview", "sources"})
        goes_on.set()
        monkeypatch.setattr(filler, "_MANY", 1_000)
        while "not counted yet" in (page := http.get("/console/overview").text):
            pass
        assert "Calls over time: 1 ok" in page


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_of_reviewers_are_accessible_and_fit(browser: Browser, home: House, scheme: str) -> None:
    call_id = home.call("orders__delete_order", {"id": "x" * 400}, session="y" * 100).call_id
    with watched(browser, home, "olga", scheme=scheme) as visitor:
        for width in (390, 768, 1280):
            visitor.page.set_viewport_size({"width": width, "height": 900})
            for path in ("principals?name=bot", "calls", f"calls/{call_id}", "policies", "overview"):
                visitor.visit(f"{home.url}/console/{path}")
                assert violations(visitor.page) == [], (path, width)
                assert visitor.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
        # No field of a filter is narrower than what stands in it.
        visitor.page.goto(f"{home.url}/console/calls")
        clipped = visitor.page.evaluate(
            """() => [...document.querySelectorAll('.filters input:not([type=hidden]), .filters select')]
                .filter(one => one.scrollWidth > one.clientWidth + 1).map(one => one.id)"""
        )
        assert clipped == []
        visitor.check()


BROKEN = "log is broken"


def test_a_broken_record_is_a_banner_on_every_page(tmp_path: Path) -> None:
    with house(tmp_path / "project") as home, client(home, "rita") as http, client(home, "paul") as other:
        home.call("orders__get_health", {})
        home.call("orders__get_health", {})
        token = form_token(http.get("/console/record").text)
        page = http.post("/console/record/verify", data={"form_token": token}, follow_redirects=True).text
        assert "Intact, unsigned" in page
        assert "no key" in page
        (log,) = (home.root / "var" / "audit").glob("*.jsonl")
        written = log.read_bytes()
        assert b'"principal":"bot"' in written
        log.write_bytes(written.replace(b'"principal":"bot"', b'"principal":"eve"', 1))
        http.post("/console/record/verify", data={"form_token": token}, follow_redirects=True)
        for path in ("overview", "calls", "approvals", "tools", "keys", "pauses"):
            assert BROKEN in http.get(f"/console/{path}").text, path
        assert "Broken" in http.get("/console/record").text.partition("</title>")[0]
        assert BROKEN not in other.get("/console/tools").text  # paul reads no record


def test_a_key_is_revoked_by_an_admin_and_keeps_the_name_of_its_owner(tmp_path: Path) -> None:
    with house(tmp_path / "project") as home, client(home, "olga") as http, client(home, "rita") as other:
        page = http.get("/console/keys").text
        assert "toolgen pause --principal NAME" in page
        key_id = (
            page.partition('<a href="/console/principals?name=bot">')[0].rpartition("<code>")[2].partition("</code>")[0]
        )
        assert f"toolgen keys revoke {key_id}" in page
        assert f"toolgen keys revoke {key_id}" in other.get("/console/keys").text
        form = {"form_token": form_token(page), "key": key_id}
        asked = {"authorization": "Bearer key-of-bot"}
        assert http.get("/v1/tools", headers=asked).status_code == 200
        own = {**form, "form_token": form_token(other.get("/console/keys").text)}
        assert other.post("/console/keys/revoke", data=own).status_code == 403
        assert http.post("/console/keys/revoke", data={**form, "form_token": "x"}).status_code == 403
        assert http.post("/console/keys/revoke", data={**form, "key": "nothing"}).status_code == 409
        assert http.get("/v1/tools", headers=asked).status_code == 200
        done = http.post("/console/keys/revoke", data=form, follow_redirects=True)
        assert f"Revoked: key {key_id} of bot" in done.text.partition("</title>")[0]
        assert http.get("/v1/tools", headers=asked).status_code == 401
        row = http.get("/console/keys").text.partition(f"<code>{key_id}</code>")[2].partition("</tr>")[0]
        assert "name=bot" in row
        assert ">revoked<" in row
        entries = [one for one in read_entries(home.root / "var" / "audit") if one.get("code") == "key_revoked"]
        assert [one["arguments"] for one in entries] == [{"key": key_id, "of": "bot", "by": "olga"}]


def test_a_revoked_key_that_left_the_list_keeps_the_name_of_its_owner(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"an old key").hexdigest()
    policy = json.loads(json.dumps(POLICY))
    policy["revoked"] = [{"key": f"sha256:{digest}", "of": "bot"}]
    with house(tmp_path / "project", policy=policy) as home, client(home, "rita") as http:
        row = http.get("/console/keys").text.partition(f"<code>{digest[:12]}")[2].partition("</tr>")[0]
        assert "name=bot" in row
