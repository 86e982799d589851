"""Pausing and resuming in the console: an admin's, in effect at once, and on record as the command line's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.frontends.console.house import House, house
from tests.frontends.console.people import client, form_token
from toolgen.audit.reader import entries
from toolgen.cli.main import cli


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path / "project") as found:
        yield found


def recorded(home: House) -> list[dict[str, object]]:
    found = [entry for entry in entries(home.root / "var" / "audit") if entry["event"] in {"pause", "resume"}]
    return [{name: entry.get(name) for name in ("event", "client", "status", "arguments")} for entry in found]


def test_an_admin_pauses_and_resumes_and_it_is_on_record(home: House) -> None:
    with client(home, "olga") as http:
        token = form_token(http.get("/console/pauses").text)
        given = {"form_token": token, "kind": "tool", "name": "orders__list_*", "reason": "<b>maintenance</b>"}
        assert http.post("/console/pauses", data=given).status_code == 303
        page = http.get("/console/pauses").text
        assert "orders__list_*" in page
        assert "&lt;b&gt;maintenance" in page
        refused = home.call("orders__list_orders", {"tenant_id": "acme"})
        assert refused.error is not None
        assert refused.error.code == "paused"
        assert home.call("orders__get_health", {}).status == "ok"
        ended = {"form_token": token, "principal": "", "source": "", "tool": "orders__list_*"}
        assert http.post("/console/pauses/resume", data=ended).status_code == 303
        assert home.call("orders__list_orders", {"tenant_id": "acme"}).status == "ok"
        assert http.post("/console/pauses/resume", data=ended).status_code == 409
    about = {"tool": "orders__list_*", "reason": "<b>maintenance</b>", "by": "olga"}
    assert recorded(home) == [
        {"event": "pause", "client": "console", "status": "ok", "arguments": about},
        {"event": "resume", "client": "console", "status": "ok", "arguments": about},
    ]


def test_what_the_command_line_paused_an_admin_resumes(home: House) -> None:
    config = ["--config", str(home.root / "toolgen.yaml")]
    done = CliRunner().invoke(cli, ["pause", "--principal", "bot", "--reason", "why", *config], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert home.call("orders__get_health", {}).error.code == "paused"  # type: ignore[union-attr]
    with client(home, "olga") as http:
        token = form_token(http.get("/console/pauses").text)
        http.post("/console/pauses/resume", data={"form_token": token, "principal": "bot", "source": "", "tool": ""})
    assert home.call("orders__get_health", {}).status == "ok"
    assert {tuple(sorted(entry)) for entry in recorded(home)} == {("arguments", "client", "event", "status")}


@pytest.mark.parametrize(
    ("given", "status", "why"),
    [
        ({"kind": "tool", "name": "nothing__*"}, 400, "matches no tool"),
        ({"kind": "principal", "name": "bott"}, 400, "bot"),
        ({"kind": "source", "name": "x"}, 400, "there is no source"),
        ({"kind": "everything", "name": "x"}, 400, "name a principal, a source or tools"),
        ({"kind": "tool", "name": ""}, 400, "name a principal, a source or tools"),
        ({"kind": "source", "name": "orders", "reason": "x" * 501}, 400, "more than 500"),
    ],
)
def test_what_is_not_there_is_not_paused(home: House, given: dict[str, str], status: int, why: str) -> None:
    with client(home, "olga") as http:
        token = form_token(http.get("/console/pauses").text)
        answer = http.post("/console/pauses", data={"form_token": token, **given})
        assert answer.status_code == status
        assert why in answer.text
    assert home.gateway.pausing.all() == ()
    assert recorded(home) == []


def test_nobody_else_pauses_or_resumes(home: House) -> None:
    given = {"kind": "source", "name": "orders", "principal": "", "source": "orders", "tool": ""}
    for who in ("rita", "paul"):
        with client(home, who) as http:
            token = form_token(http.get("/console/tools").text)
            for path in ("/console/pauses", "/console/pauses/resume"):
                assert http.post(path, data={"form_token": token, **given}).status_code == 403
                assert http.post(path, data=given).status_code == 403
    with client(home, "olga") as http:
        assert http.post("/console/pauses", data=given).status_code == 403  # without the form's own token
    assert home.gateway.pausing.all() == ()


@pytest.mark.parametrize(("path", "heading"), [("overview", "Overview"), ("pauses", "Pauses"), ("record", "Record")])
def test_each_page_is_found_at_its_own_address(home: House, path: str, heading: str) -> None:
    with client(home, "olga") as http:
        assert f"<h1>{heading}</h1>" in http.get(f"/console/{path}").text
