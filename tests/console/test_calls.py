"""The live page's stream: the newest rows, for a few listeners, for as long as their session lasts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from tests.console.house import POLICY, House, house
from tests.console.people import client, form_token
from tests.gateway.governed import write_policy

EVENTS = "/console/live/events"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path / "project") as found:
        yield found


@contextmanager
def listening(http: httpx.Client) -> Iterator[Iterator[str]]:
    """The stream's lines, each waited for as long as it takes."""
    with http.stream("GET", EVENTS, timeout=60) as answer:
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
        assert until(lines, "&lt;script&gt;alert(1)").startswith("data: ")


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
        assert "too many live pages" in answer.text.lower()
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
        assert "orders__create_order exists, and bot is told that it does not: no rule allows it to bot" in story
        assert "suggested-bot-orders__create_order" in story
        assert "Hidden:" not in http.get(f"/console/calls/{unknown.call_id}").text
