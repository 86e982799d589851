"""Stories of real calls: approved, denied, expired, escalated, and of two people, as the page of a call and the list of calls tell them."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser

from tests.frontends.console.axe import violations
from tests.frontends.console.house import KEYS, POLICY, House, house
from tests.frontends.console.people import client, form_token, needs_chromium, watched
from toolgen.model.result import Envelope

TWO = {
    "id": "mail-asks",
    "to": ["bot"],
    "tools": ["orders__send_mail"],
    "verdict": "ask",
    "approvers": {"any": "2 of [approver]"},
}
_TAGS = re.compile(r"<[^>]+>")


def policy(**approvals: Any) -> dict[str, Any]:
    key = "sha256:" + hashlib.sha256(KEYS["lena"].encode()).hexdigest()
    return {
        **POLICY,
        "principals": {**POLICY["principals"], "lena": {"api_key": key, "roles": ["lead"]}},
        "rules": [rule for rule in POLICY["rules"] if rule["id"] != "no-mail"] + [TWO],
        "approvals": {**POLICY["approvals"], **approvals},
        "tests": [],
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("stories") / "project", policy=policy()) as found:
        yield found


def new_id() -> str:
    """Two equal calls that wait would be one."""
    return secrets.token_hex(4)


def answer(home: House, who: str, call_id: str, decision: str, note: str = "") -> None:
    """The answer of a person who fills in the form of the console."""
    with client(home, who) as http:
        page = http.get(f"/console/approvals/{call_id}").text
        names = ("form_token", "digest", "shown")
        found = {name: re.search(rf'name="{name}" value="([^"]*)"', page) for name in names}
        given = {name: one[1] for name, one in found.items() if one} | {"form_token": form_token(page)}
        done = http.post(f"/console/approvals/{call_id}", data={**given, "decision": decision, "note": note})
        assert done.status_code == 200, done.text
        words = ("Approved", "Agreed", "Denied")
        assert done.text.partition("<title>")[2].lstrip("()0123456789 ").startswith(words), done.text[:300]


def ended(home: House, call_id: str) -> Envelope:
    """How a call ended, once it has."""
    caller = home.gateway.principal("bot")
    while True:
        found: Envelope = home.run(home.gateway.approvals.calls.outcome(call_id, caller, 60))
        if found.status != "pending":
            return found


def steps(page: str) -> list[str]:
    """What the page of a call says that happened, without times."""
    listed = page.partition('<ol class="steps')[2].partition("</ol>")[0].split("<li")[1:]
    texts = [re.sub(r"<time.*?</time>", "", item.partition(">")[2]) for item in listed]
    words = [" ".join(_TAGS.sub(" ", text).split()) for text in texts]
    return [re.sub(r"after \d+(\.\d+)? (ms|s|min)( \d+ (s|min))?", "after a while", text) for text in words]


def approved(home: House) -> tuple[str, list[str]]:
    call_id = home.call("orders__delete_order", {"id": new_id()}).call_id
    answer(home, "paul", call_id, "approve", "by phone")
    assert ended(home, call_id).status == "ok"
    return call_id, ["asked", "waited for a person", "approved after a while by paul by phone", "sent", "ok"]


def denied(home: House) -> tuple[str, list[str]]:
    call_id = home.call("orders__delete_order", {"id": new_id()}).call_id
    answer(home, "olga", call_id, "deny", "not this one")
    assert ended(home, call_id).status == "refused"
    return call_id, ["asked", "waited for a person", "denied after a while by olga not this one"]


def of_two_people(home: House) -> tuple[str, list[str]]:
    call_id = home.call("orders__send_mail", {"to": new_id()}).call_id
    answer(home, "paul", call_id, "approve", "fine")
    with client(home, "paul") as http:
        queue = http.get("/console/approvals").text
        row = queue.partition(f"/console/approvals/{call_id}")[2].partition("</tr>")[0]
        assert "You agreed" in row
        assert "one more" in row
        assert 'class="badge"' not in queue
    answer(home, "olga", call_id, "approve")
    assert ended(home, call_id).status == "ok"
    agreed = "agreed after a while; it takes others too by paul fine"
    return call_id, ["asked", "waited for a person", agreed, "approved after a while by olga", "sent", "ok"]


@needs_chromium
def test_calls_that_people_answered_for_tell_their_stories(browser: Browser, home: House) -> None:
    with client(home, "rita") as http, watched(browser, home, "rita") as visitor:
        for story in (approved, denied, of_two_people):
            call_id, told = story(home)
            assert steps(http.get(f"/console/calls/{call_id}").text) == told, story.__name__
            visitor.visit(f"{home.url}/console/calls/{call_id}")
            assert violations(visitor.page) == [], story.__name__
            # One state: that of the end, with the times of the beginning and of the sending.
            heading = visitor.page.locator(".heading").inner_text()
            assert "approval_required" not in heading
            facts = visitor.page.locator("dl.facts dt").all_inner_texts()
            assert ("Sent" in facts) is (told[-1] == "ok")
            assert "Asked" in facts
        visitor.check()


def test_a_call_that_nobody_answered_for_tells_that_it_expired(tmp_path: Path) -> None:
    with house(tmp_path / "project", policy=policy(expires="1s")) as home, client(home, "rita") as http:
        call_id = home.call("orders__delete_order", {"id": "expired"}).call_id
        found = ended(home, call_id)
        assert found.error is not None
        assert found.error.code == "expired"
        page = http.get(f"/console/calls/{call_id}").text
        assert steps(page) == ["asked", "waited for a person", "expired after a while by time"]
        assert "Nothing left the gateway" in page
        assert found.error.message in page
        assert home.upstream.requests == []


def test_a_call_that_was_escalated_tells_to_whom_and_who_of_them_answered(tmp_path: Path) -> None:
    escalated = policy(expires="1h", escalate={"after": "1s", "to": ["lead"]})
    with house(tmp_path / "project", policy=escalated) as home, client(home, "rita") as http:
        call_id = home.call("orders__delete_order", {"id": "escalated"}).call_id
        while "escalated" not in " ".join(steps(http.get(f"/console/calls/{call_id}").text)):
            pass
        answer(home, "lena", call_id, "approve", "taken over")
        assert ended(home, call_id).status == "ok"
        assert steps(http.get(f"/console/calls/{call_id}").text) == [
            "asked",
            "waited for a person",
            "escalated to lead",
            "approved after a while by lena taken over",
            "sent",
            "ok",
        ]


def moments(home: House, http: httpx.Client, call_id: str) -> list[datetime]:
    """The times of all entries of a call."""
    entries = http.get(f"/console/calls/{call_id}").text.partition('<ol class="timeline">')[2]
    return [datetime.fromisoformat(time) for time in re.findall(r'datetime="([^"]+)"', entries)]


@pytest.mark.parametrize("story", [approved, denied, of_two_people])
def test_a_search_by_time_finds_any_entry_of_a_call(
    home: House, story: Callable[[House], tuple[str, list[str]]]
) -> None:
    call_id, _ = story(home)
    moment = timedelta(milliseconds=1)
    with client(home, "rita") as http:
        times = moments(home, http, call_id)
        assert len(times) >= 3
        for time in times:
            span = {"since": (time - moment).isoformat(), "until": (time + moment).isoformat()}
            assert f"/console/calls/{call_id}" in http.get("/console/calls", params=span).text, time
        before, after = times[0] - moment, times[-1] + moment
        assert call_id not in http.get("/console/calls", params={"until": before.isoformat()}).text
        assert call_id not in http.get("/console/calls", params={"since": after.isoformat()}).text
