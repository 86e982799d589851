"""Grants in the console: the choice in the form of an answer, the list below the calls that wait, and revoking."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.frontends.console.house import POLICY, House, house
from tests.frontends.console.people import client, form_token
from tests.gateway.governed import write_policy
from toolgen.gateway.approvals.role_grants import RoleWish

REMEMBER = {"max_duration": "30m", "max_calls": 5, "any_arguments": True}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path / "project") as found:
        policy = {**POLICY, "approvals": {**POLICY["approvals"], "remember": REMEMBER}}
        write_policy(found.root, policy)
        assert found.run(found.gateway.operations.reload())
        yield found


def answered(http: httpx.Client, call_id: str, **fields: str) -> httpx.Response:
    page = http.get(f"/console/approvals/{call_id}").text
    given = {"form_token": form_token(page), "digest": page.split('name="digest" value="')[1].split('"')[0]}
    return http.post(f"/console/approvals/{call_id}", data={**given, "decision": "approve", **fields})


def asked(home: House, number: str = "o1") -> Any:
    return home.call("orders__delete_order", {"id": number})


LATER = "later calls too"
"""Part of the page after an answer that made a grant."""


def ended(home: House, call_id: str) -> None:
    assert home.run(home.gateway.approvals.calls.outcome(call_id, home.gateway.principal("bot"), 60)).status == "ok"


def test_an_answer_counts_for_as_many_calls_as_the_form_says(home: House) -> None:
    with client(home, "paul") as http:
        waiting = asked(home)
        page = http.get(f"/console/approvals/{waiting.call_id}").text
        assert "At most 30;" in page
        assert "At most 5;" in page
        told = answered(http, waiting.call_id, remember="yes", minutes="10", calls="2")
        assert LATER in told.text
        ended(home, waiting.call_id)
        assert [asked(home).status for _ in range(3)] == ["ok", "ok", "pending"]


def test_without_a_box_or_a_filled_field_an_answer_is_for_one_call(home: House) -> None:
    with client(home, "paul") as http:
        waiting = asked(home)
        assert LATER not in answered(http, waiting.call_id, minutes=" ", calls="").text
        ended(home, waiting.call_id)
        assert asked(home).status == "pending"


@pytest.mark.parametrize(
    ("fields", "calls"),
    [({"minutes": "10"}, 5), ({"calls": "2"}, 2), ({"any_arguments": "yes"}, 5), ({"remember": "yes"}, 5)],
    ids=str,
)
def test_a_filled_field_means_the_box_and_an_empty_one_the_bound(
    home: House, fields: dict[str, str], calls: int
) -> None:
    with client(home, "paul") as http:
        waiting = asked(home)
        assert LATER in answered(http, waiting.call_id, **fields).text
        ended(home, waiting.call_id)
        (grant,) = home.run(home.gateway.approvals.grants.listed(home.gateway.principal("paul")))
        assert grant.calls == calls
        assert grant.expires - grant.created == (600.0 if "minutes" in fields else 1800.0)


def test_a_policy_without_grants_takes_none_from_a_form(tmp_path: Path) -> None:
    with house(tmp_path / "project") as home, client(home, "paul") as http:
        waiting = asked(home)
        assert "for-minutes" not in http.get(f"/console/approvals/{waiting.call_id}").text
        told = answered(http, waiting.call_id, minutes="10")
        assert told.status_code == 400
        assert "one call only" in told.text
        assert home.run(home.gateway.approvals.calls.store.get(waiting.call_id)).status == "pending"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"minutes": "0"}, "“For how many minutes” takes a number of at most 30."),
        ({"minutes": "1e1"}, "“For how many minutes” takes a number of at most 30."),
        ({"calls": "many"}, "“For how many calls” takes a whole number from 1 to 5."),
        ({"calls": "²"}, "“For how many calls” takes a whole number from 1 to 5."),
        ({"minutes": "31"}, "“For how many minutes” takes a number of at most 30."),
        ({"calls": "6"}, "“For how many calls” takes a whole number from 1 to 5."),
        ({"calls": "1", "session": "yes"}, "belongs to no session"),
    ],
)
def test_what_cannot_be_remembered_is_told_on_the_page_and_nothing_is_done(
    home: House, fields: dict[str, str], message: str
) -> None:
    with client(home, "paul") as http:
        waiting = asked(home)
        told = answered(http, waiting.call_id, remember="yes", **fields)
        assert told.status_code == 400
        assert message in told.text
        assert home.run(home.gateway.approvals.calls.store.get(waiting.call_id)).status == "pending"


def test_a_grant_is_listed_and_revoked(home: House) -> None:
    with client(home, "paul") as http, client(home, "rita") as other:
        waiting = asked(home)
        assert 'name="grant"' not in http.get("/console/approvals").text
        answered(http, waiting.call_id, remember="yes", calls="5", any_arguments="yes")
        ended(home, waiting.call_id)
        assert asked(home, "o2").status == "ok"
        page = http.get("/console/approvals").text
        assert "1 of 5" in page
        grant = page.split('name="grant" value="')[1].split('"')[0]
        token = form_token(other.get("/console/calls").text)
        assert other.post("/console/grants/revoke", data={"form_token": token, "grant": grant}).status_code == 403
        form = {"form_token": form_token(page), "grant": grant}
        assert http.post("/console/grants/revoke", data={**form, "form_token": "x"}).status_code == 403
        assert http.post("/console/grants/revoke", data={**form, "grant": "grant_none"}).status_code == 404
        assert asked(home, "o2").status == "ok"
        done = http.post("/console/grants/revoke", data=form)
        assert done.status_code == 303
        assert done.headers["location"].startswith("/console/approvals?done=")
        assert asked(home, "o2").status == "pending"
        assert 'name="grant"' not in http.get("/console/approvals").text


def test_a_role_that_takes_two_people_is_agreed_to_and_taken_back(home: House) -> None:
    one = {"role": "admin", "by": ["approver"], "to": ["bot"], "max_duration": "1h", "break_glass": True}
    write_policy(home.root, {**POLICY, "role_grants": [one]})
    assert home.run(home.gateway.operations.reload())
    grant_request = RoleWish(role="admin", to="bot", seconds=600.0, reason="<b>incident</b>")
    asked = home.run(home.gateway.role_grants.ask(grant_request, home.gateway.principal("olga")))
    with client(home, "paul") as http, client(home, "olga") as other:
        page = http.get("/console/approvals").text
        assert "&lt;b&gt;incident" in page
        assert "another person" in page
        own = {"form_token": form_token(other.get("/console/approvals").text), "grant": asked.id, "decision": "approve"}
        assert other.post("/console/grants/agree", data=own).status_code == 403
        form = {"form_token": form_token(page), "grant": asked.id}
        assert http.post("/console/grants/agree", data={**form, "decision": "maybe"}).status_code == 404
        assert "admin" not in home.gateway.principal("bot").roles
        assert http.post("/console/grants/agree", data={**form, "decision": "approve"}).status_code == 303
        assert "admin" in home.gateway.principal("bot").roles
        assert http.post("/console/grants/agree", data={**form, "decision": "approve"}).status_code == 409
        assert "Take back" in http.get("/console/approvals").text
        assert http.post("/console/grants/revoke", data=form).status_code == 303
        assert "admin" not in home.gateway.principal("bot").roles
