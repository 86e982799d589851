"""Calls: as a file, and what a story says of a request that never left. The live page's stream: rows, for as long as a session lasts."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.frontends.console.house import POLICY, House, house
from tests.frontends.console.people import client, form_token
from tests.gateway.governed import write_policy
from tests.messages import line_names
from toolgen.frontends.console.story import sending_of

EVENTS = "/console/live/events"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path / "project") as found:
        yield found


@contextmanager
def listening(http: httpx.Client, query: str = "") -> Iterator[Iterator[str]]:
    """The stream's lines, each waited for as long as it takes."""
    with http.stream("GET", EVENTS + query, timeout=60) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        yield answer.iter_lines()


def until(lines: Iterator[str], text: str) -> str:
    """The first line with this in it."""
    for line in lines:
        if text in line:
            return line
    raise AssertionError(f"the stream ended before {text}")


def test_a_call_is_told_of_as_rows_in_which_nothing_is_markup(home: House) -> None:
    with client(home, "rita") as http, listening(http) as lines:
        until(lines, "event: rows")
        call = home.call("<script>alert(1)</script>\r\n\r\nevent: rows\ndata: forged", {})
        row = until(lines, call.call_id)
        assert row.startswith("data: ")
        assert "&lt;script&gt;alert(1)" in row


def test_it_ends_when_the_session_does_and_comes_back_to_nobody(home: House) -> None:
    with client(home, "rita") as http:
        token = form_token(http.get("/console/live").text)
        with listening(http) as lines:
            until(lines, "event: rows")
            with httpx.Client(base_url=home.url, cookies=http.cookies) as other:
                other.post("/console/sign-out", data={"form_token": token})
            assert list(lines)[-1:] in ([], [""])  # to its end, which comes
            assert http.get(EVENTS).status_code == 401


def test_it_ends_when_the_role_is_taken_away(home: House) -> None:
    with client(home, "olga") as http, listening(http) as lines:
        until(lines, "event: rows")
        policy = json.loads(json.dumps(POLICY))
        policy["principals"]["olga"]["roles"] = ["approver"]
        write_policy(home.root, policy)
        for _ in lines:
            pass
        assert http.get(EVENTS).status_code == 403


def test_only_viewers_listen_and_only_so_many_times(home: House) -> None:
    with client(home, "paul") as http:
        assert http.get(EVENTS).status_code == 403
    with client(home, "rita") as http, client(home, "olga") as other, ExitStack() as open_:
        for _ in range(4):
            until(open_.enter_context(listening(http)), "event: rows")
        answer = http.get(EVENTS)
        assert answer.status_code == 429
        assert "live pages" in answer.text
        until(open_.enter_context(listening(other)), "event: rows")


def test_whoever_leaves_makes_room(home: House) -> None:
    with client(home, "rita") as http:
        for _ in range(12):
            while True:  # that somebody left is noticed at the next look
                with http.stream("GET", EVENTS, timeout=60) as answer:
                    if answer.status_code == 200:
                        until(answer.iter_lines(), "event: rows")
                        break


def test_a_gateway_that_goes_ends_what_is_listened_to(tmp_path: Path) -> None:
    with ExitStack() as open_:
        with house(tmp_path / "project") as home:
            http = open_.enter_context(client(home, "rita"))
            lines = open_.enter_context(listening(http))
            until(lines, "event: rows")
        try:
            rest = list(lines)
        except httpx.TransportError:
            rest = []
        assert len(rest) < 100


def test_a_hidden_tool_is_marked_and_its_story_says_what_would_open_it(home: House) -> None:
    hidden = home.call("orders__create_order", {})
    unknown = home.call("orders__get_nothing", {})
    with client(home, "rita") as http:
        rows = http.get("/console/calls").text
        assert rows.count("(hidden)") == 1
        story = http.get(f"/console/calls/{hidden.call_id}").text
        assert line_names(story, "orders__create_order exists", "no rule", "bot")
        assert "suggested-bot-orders__create_order" in story
        assert "Hidden:" not in http.get(f"/console/calls/{unknown.call_id}").text


def test_the_stream_has_only_what_is_asked_for(home: House) -> None:
    with client(home, "rita") as http, listening(http, "?tool=orders__get_*&status=ok") as lines:
        until(lines, "No call fits these filters")
        home.call("orders__list_orders", {"tenant_id": "acme"})
        call = home.call("orders__get_health", {})
        for line in lines:
            assert "list_" not in line
            if call.call_id in line:
                break


@pytest.mark.parametrize("query", ["?text=x", "?tool=" + "x" * 201, "?since=yesterday"])
def test_a_stream_is_not_asked_for_what_costs_too_much(home: House, query: str) -> None:
    with client(home, "rita") as http:
        assert http.get(EVENTS + query).status_code == 400


def test_what_is_filtered_is_had_as_a_file_in_which_nothing_is_a_formula(home: House) -> None:
    home.call("orders__get_health", {})
    home.call("=HYPERLINK(A1)", {})
    with client(home, "rita") as http:
        page = http.get("/console/calls", params={"status": "refused"}).text
        assert 'href="/console/calls.csv?status=refused"' in page
        answer = http.get("/console/calls.csv", params={"status": "refused"})
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"].startswith('attachment; filename="calls-2')
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert [row["tool"] for row in rows] == ["'=HYPERLINK(A1)"]
        lines = [json.loads(line) for line in http.get("/console/calls.jsonl").text.splitlines()]
        assert [line["tool"] for line in lines] == ["=HYPERLINK(A1)", "orders__get_health"]
        assert http.get("/console/calls.xml").status_code == 404
    with client(home, "paul") as http:
        assert http.get("/console/calls.csv").status_code == 403


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        (" =1+1", "' =1+1"),
        ("x;=1+1", "x;'=1+1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ('x;"@1', "x;\"'@1"),
        ("a\u202eb", "a\\u{202e}b"),
    ],
)
def test_nothing_in_a_file_becomes_a_formula_behind_spaces_or_semicolons(home: House, name: str, cell: str) -> None:
    """Spreadsheets of many countries part cells at semicolons, quoted or not."""
    home.call(name, {})
    with client(home, "rita") as http:
        (row,) = csv.DictReader(io.StringIO(http.get("/console/calls.csv", params={"status": "refused"}).text))
    assert row["tool"] == cell


def test_a_request_that_never_left_is_not_called_sent(home: House) -> None:
    sent = home.call("orders__get_health", {})
    asked = home.call("orders__delete_order", {"id": "o1"})
    home.upstream.status = 500
    failed = home.call("orders__get_health", {})
    said = {
        sent.call_id: "The request as sent",
        failed.call_id: "The request as sent",
        asked.call_id: "The request, which was not sent",
    }
    with client(home, "rita") as http:
        for call, title in said.items():
            story = http.get(f"/console/calls/{call}").text
            assert title in story
            assert ("as sent" in story) is ("as sent" in title)


@pytest.mark.parametrize(
    ("call", "sending"),
    [
        ({"status": "ok"}, "sent"),
        ({"status": "ok", "code": "hit"}, "kept"),
        ({"status": "ok", "code": "stale", "attempts": 2}, "sent"),
        ({"status": "error", "code": "upstream_unavailable", "attempts": 1}, "unreached"),
        ({"status": "error", "code": "secret_unavailable"}, "unsent"),
        ({"status": "error", "code": "outcome_unknown"}, "sent"),
        ({"status": "refused", "code": "forbidden"}, "unsent"),
        ({"status": "pending", "code": "approval_required"}, "unsent"),
        ({"status": "cancelled", "attempts": 1}, "sent"),
        ({"status": "unfinished"}, "perhaps"),
    ],
)
def test_whether_it_left_is_read_from_the_record(call: dict[str, object], sending: str) -> None:
    assert sending_of(call) == sending


def test_the_number_of_waiting_calls_is_beside_approvals_for_those_who_may_answer(home: House) -> None:
    badge = '<span class="badge">1<span class="hidden"> waiting</span></span>'
    with client(home, "paul") as http, client(home, "rita") as other:
        assert "badge" not in http.get("/console/tools").text
        waiting = home.call("orders__delete_order", {"id": "o1"})
        page = http.get(f"/console/approvals/{waiting.call_id}").text
        assert badge in page
        assert 'class="badge"' not in other.get("/console/tools").text
        digest = page.split('name="digest" value="')[1].split('"')[0]
        given = {"form_token": form_token(page), "digest": digest, "decision": "deny"}
        assert "badge" not in http.post(f"/console/approvals/{waiting.call_id}", data=given).text
