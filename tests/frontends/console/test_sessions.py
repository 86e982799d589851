"""Who gets into the console, what they may do there, and how they get out: over HTTP, as a browser or somebody worse would ask."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.frontends.console.house import KEYS, POLICY, House, house
from tests.frontends.console.people import client, form_token, sign_in
from tests.gateway.governed import write_policy
from toolgen.audit.reader import entries

GETS = (
    "/console/overview",
    "/console/calls",
    "/console/calls/call_1",
    "/console/live",
    "/console/pauses",
    "/console/approvals",
    "/console/tools",
    "/console/tools/orders__list_orders",
    "/console/policies",
    "/console/policies/explain",
    "/console/record",
    "/console/sources",
    "/console/sources/orders",
    "/console/limits",
    "/console/keys",
    "/console/policies/history",
    "/console/principals?name=bot",
    "/console/calls.csv",
)
POSTS = (
    "/console/sign-out",
    "/console/approvals/call_1",
    "/console/tools/orders__list_orders",
    "/console/policies/explain",
    "/console/record/verify",
    "/console/pauses",
    "/console/pauses/resume",
    "/console/keys/revoke",
    "/console/grants/revoke",
    "/console/grants/agree",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("sessions") / "project") as found:
        yield found


def eventually(holds: Callable[[], bool]) -> None:
    """Asks until something holds; what is asked takes its time, so nothing else has to."""
    until = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < until


def test_without_a_session_no_page_shows_anything_and_no_form_does_anything(home: House) -> None:
    before = len(home.upstream.requests)
    with client(home) as http:
        for path in GETS:
            answer = http.get(path)
            assert answer.status_code == 401, path
            assert "orders__" not in answer.text.replace(path, "")  # which names the page to go on to
        assert http.get("/console/live/events").status_code == 401
        for path in POSTS:
            assert http.post(path, data={"form_token": "x"}).status_code == 401, path
        for value in ("toolgen_session=x", "toolgen_session=", "toolgen_session=a; toolgen_session=b"):
            assert http.get("/console/calls", headers={"cookie": value}).status_code == 401
        assert http.get("/console/calls", headers={"authorization": f"Bearer {KEYS['rita']}"}).status_code == 401
        assert http.get("/console").headers["location"] == "/console/sign-in"
    assert len(home.upstream.requests) == before


def test_each_role_opens_its_own_pages_and_no_others(home: House) -> None:
    calls = {"/console/overview", "/console/calls", "/console/live", "/console/pauses", "/console/record"}
    tools = {"/console/tools", "/console/tools/orders__list_orders"}
    calls |= {"/console/sources", "/console/sources/orders", "/console/limits", "/console/keys", "/console/calls.csv"}
    calls |= {"/console/policies/history", "/console/approvals", "/console/principals?name=bot"}
    opened = {
        "rita": calls | tools | {"/console/policies", "/console/policies/explain"},
        "paul": {"/console/approvals", "/console/tools"},  # who answers is not who reads the record
        "olga": {path for path in GETS if not path.endswith("call_1")},
    }
    for who, expected in opened.items():
        with client(home, who) as http:
            found = {path for path in GETS if http.get(path).status_code == 200}
            assert found == expected, who


def test_a_viewer_answers_for_nothing_and_verifies(home: House) -> None:
    waiting = home.call("orders__delete_order", {"id": "1"})
    with client(home, "rita") as http:
        token = form_token(http.get("/console/tools").text)
        known = home.run(home.gateway.approvals.calls.store.get(waiting.call_id))
        fields = {"form_token": token, "decision": "approve", "digest": known.digest}
        assert http.post(f"/console/approvals/{waiting.call_id}", data=fields).status_code == 403
        assert http.post("/console/record/verify", data={"form_token": token}).status_code == 303
    assert home.run(home.gateway.approvals.calls.store.get(waiting.call_id)).status == "pending"
    with client(home, "rita") as http:
        eventually(lambda: "Intact, unsigned" in http.get("/console/record").text)
    with client(home, "paul") as http:
        token = form_token(http.get("/console/tools").text)
        assert http.post("/console/record/verify", data={"form_token": token}).status_code == 403


def test_nobody_without_a_role_for_it_gets_in(home: House) -> None:
    with client(home) as http:
        answer = sign_in(http, KEYS["nobody"])
        assert answer.status_code == 403
        assert "toolgen_session" not in answer.headers.get("set-cookie", "")
        assert http.get("/console/tools").status_code == 401


def test_a_form_without_the_sessions_own_token_does_nothing(home: House) -> None:
    waiting = home.call("orders__delete_order", {"id": "2"})
    known = home.run(home.gateway.approvals.calls.store.get(waiting.call_id))
    with client(home, "paul") as http, client(home, "olga") as other:
        foreign = form_token(other.get("/console/tools").text)
        for token in ({"form": "x"}, {"form_token": ""}, {"form_token": "x"}, {"form_token": foreign}):
            fields = {"decision": "approve", "digest": known.digest, **token}
            assert http.post(f"/console/approvals/{waiting.call_id}", data=fields).status_code == 403
            assert http.post("/console/sign-out", data=token).status_code == 403
        good = form_token(http.get("/console/tools").text)
        twice = f"form_token=x&form_token={good}&decision=approve&digest={known.digest}"
        kind = {"content-type": "application/x-www-form-urlencoded"}
        assert http.post(f"/console/approvals/{waiting.call_id}", content=twice, headers=kind).status_code == 400
        whole = {"form_token": good, "decision": "approve", "digest": known.digest}
        assert http.post(f"/console/approvals/{waiting.call_id}", json=whole).status_code == 415
        for origin in ("http://evil.example", "null"):
            answer = http.post(f"/console/approvals/{waiting.call_id}", data=whole, headers={"origin": origin})
            assert answer.status_code == 403
    assert home.run(home.gateway.approvals.calls.store.get(waiting.call_id)).status == "pending"


def test_signing_in_needs_the_form_of_the_same_browser(home: House) -> None:
    with client(home) as http, client(home) as other:
        token = form_token(other.get("/console/sign-in").text)
        answer = http.post("/console/sign-in", data={"credential": KEYS["rita"], "form_token": token})
        assert answer.status_code == 403
        assert "toolgen_session" not in answer.headers.get("set-cookie", "")


def test_an_answer_counts_for_the_call_that_was_shown_and_no_other(home: House) -> None:
    first, second = (home.call("orders__delete_order", {"id": number}) for number in ("3", "4"))
    known = home.run(home.gateway.approvals.calls.store.get(first.call_id))
    with client(home, "paul") as http:
        token = form_token(http.get(f"/console/approvals/{second.call_id}").text)
        fields = {"form_token": token, "decision": "approve", "digest": known.digest}
        assert http.post(f"/console/approvals/{second.call_id}", data=fields).status_code == 409
    assert home.run(home.gateway.approvals.calls.store.get(second.call_id)).status == "pending"


def test_the_session_cookie_is_strict_and_unseen_by_scripts(home: House) -> None:
    with client(home) as http:
        cookies = sign_in(http, KEYS["rita"]).headers.get_list("set-cookie")
    session = next(cookie for cookie in cookies if cookie.startswith("toolgen_session=") and "Max-Age=0" not in cookie)
    assert {"HttpOnly", "SameSite=Strict", "Path=/console"} <= set(session.split("; "))
    assert "Secure" not in session  # this one is on the machine itself


def test_every_answer_forbids_script_frames_and_keeping(home: House) -> None:
    with client(home, "olga") as http:
        for path in (*GETS, "/console/sign-in", "/console/nothing", "/console/static/console.css"):
            headers = http.get(path).headers
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; ")
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-frame-options"] == "DENY"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
            assert headers["cache-control"] == "no-store"


def test_signing_in_again_gives_another_session_and_ends_the_one_before(home: House) -> None:
    with client(home, "rita") as http:
        before = http.cookies["toolgen_session"]
        assert sign_in(http, KEYS["rita"]).status_code == 200
        after = http.cookies["toolgen_session"]
        assert after != before
        with client(home) as other:
            assert other.get("/console/calls", headers={"cookie": f"toolgen_session={before}"}).status_code == 401
            assert other.get("/console/calls", headers={"cookie": f"toolgen_session={after}"}).status_code == 200


def test_signing_out_ends_the_session_for_whoever_kept_its_cookie(home: House) -> None:
    with client(home, "rita") as http:
        held = http.cookies["toolgen_session"]
        token = form_token(http.get("/console/tools").text)
        assert http.post("/console/sign-out", data={"form_token": token}).status_code == 303
        assert http.get("/console/calls", headers={"cookie": f"toolgen_session={held}"}).status_code == 401


def test_coming_and_going_is_on_record(home: House) -> None:
    with client(home, "rita") as http:
        token = form_token(http.get("/console/tools").text)
        http.post("/console/sign-out", data={"form_token": token})
        sign_in(http, KEYS["nobody"])
    found = [entry for entry in entries(home.root / "var" / "audit") if entry["event"] == "session"][-3:]
    assert [(entry["principal"], entry["code"]) for entry in found] == [
        ("rita", "sign_in"),
        ("rita", "sign_out"),
        ("nobody", "sign_in_refused"),
    ]


def test_the_store_of_sessions_holds_nothing_a_browser_could_show(home: House) -> None:
    with client(home, "rita") as http:
        file = home.root / "var" / "state" / "console.db"
        assert http.cookies["toolgen_session"].encode() not in file.read_bytes()
        assert file.stat().st_mode & 0o077 == 0
        assert KEYS["rita"].encode() not in file.read_bytes()


def test_keys_that_nobody_has_are_tried_so_often_and_no_more(tmp_path: Path) -> None:
    with house(tmp_path / "project") as home, client(home) as http:
        statuses = [sign_in(http, "guess").status_code]
        while (
            statuses[-1] == 401 and len(statuses) < 400
        ):  # one more may be tried every second, and a busy machine takes long
            statuses.append(sign_in(http, f"guess-{len(statuses)}").status_code)
        assert statuses[:10] == [401] * 10
        assert statuses[-1] == 429
        # What was right before is still let in, elsewhere than at the console too.
        assert sign_in(http, KEYS["rita"]).status_code in {200, 429}


def test_a_revoked_key_ends_its_sessions(tmp_path: Path) -> None:
    with house(tmp_path / "project") as home, client(home, "rita") as http, client(home, "paul") as other:
        assert http.get("/console/calls").status_code == 200
        policy = json.loads(json.dumps(POLICY))
        policy["revoked"] = [{"key": POLICY["principals"]["rita"]["api_key"]}]
        write_policy(home.root, policy)
        eventually(lambda: http.get("/console/calls").status_code == 401)
        assert other.get("/console/approvals").status_code == 200


def test_a_role_that_is_taken_away_closes_its_pages(tmp_path: Path) -> None:
    with house(tmp_path / "project") as home, client(home, "olga") as http:
        policy = json.loads(json.dumps(POLICY))
        policy["principals"]["olga"]["roles"] = ["approver", "reader"]
        write_policy(home.root, policy)
        eventually(lambda: http.get("/console/calls").status_code == 403)
        assert http.get("/console/approvals").status_code == 200


@pytest.mark.parametrize("path", ["/console/../v1/tools", "/consoles", "/consolecalls"])
def test_what_only_looks_like_the_console_is_not(home: House, path: str) -> None:
    with client(home, "olga") as http:
        assert httpx.get(f"{home.url}{path}", cookies=dict(http.cookies)).status_code in {401, 404}


def test_over_plain_http_from_elsewhere_nobody_can_sign_in(home: House) -> None:
    """The Host header is what the browser was told to open; this gateway answers to no other than its own."""
    with client(home) as http:
        assert http.get("/console/sign-in", headers={"host": "gateway.example"}).status_code == 421


def test_a_decision_says_what_an_argument_was_read_as(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolgen.frontends.console.policies.readings_shown", lambda *_: {"status": [7, "<7>"]})
    with client(home, "rita") as http:
        token = form_token(http.get("/console/policies/explain").text)
        asked = {"principal": "bot", "tool": "orders__list_orders", "json": "{}"}
        shown = http.post("/console/policies/explain", data={"form_token": token, **asked}).text
        assert "<strong>Read as:</strong> status: <code>7</code>, <code>&#34;&lt;7&gt;&#34;</code>" in shown
