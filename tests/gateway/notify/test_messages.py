"""Bodies of messages: what Slack would read of them, and that a caller's text stays text."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.messages import line_names
from tests.state.test_invocations import invocation
from toolgen.config.notify import Format, NotifyEvent, Webhook
from toolgen.gateway.notify.messages import body_of
from toolgen.gateway.notify.notice import Notice, events_of, message_id
from toolgen.gateway.operations.call_rows import argument_rows
from toolgen.model.secret import parse_reference
from toolgen.state.invocations import ApprovalVote, Invocation, Requirement

URL = "https://gateway.example.com/console/approvals/call_1"
EVIL = "<!channel> <https://evil.example.com|Approve> & :tada: @here \u202e\u200b*bold*"


def ended(code: str, **changes: Any) -> Invocation:
    return invocation(status="ended", envelope={"status": "refused", "error": {"code": code}}, **changes)


def body(known: Invocation, event: NotifyEvent = "approval_requested", form: Format = "slack", **arguments: Any) -> Any:
    webhook = Webhook(
        name="ops",
        url=parse_reference("https://hooks.example.com"),
        secrets=(),
        format=form,
        events=frozenset({event}),
        arguments=True,
    )
    notice = Notice(
        event=event,
        known=known,
        arguments=arguments,
        rows=argument_rows(arguments, None),
        url=URL,
        escalated_to=("boss",),
        at=1.0,
    )
    return json.loads(body_of(webhook, notice))


def texts(value: Any) -> list[tuple[str, str]]:
    """Every text object of blocks: its type and what it says."""
    if isinstance(value, list):
        return [one for item in value for one in texts(item)]
    if not isinstance(value, dict):
        return []
    own = [(value["type"], value["text"])] if isinstance(value.get("text"), str) else []
    return own + [one for item in value.values() for one in texts(item)]


def link_target(text: str) -> str:
    """Return the URL of a link in Slack's format."""
    return text.removeprefix("<").partition("|")[0]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (invocation(), ["approval_requested"]),
        (invocation(reminded=2.0, escalated=1.0), ["approval_requested", "approval_escalated", "approval_reminder"]),
        (invocation(status="approved"), ["approval_requested", "approval_decided"]),
        (invocation(status="running"), ["approval_requested", "approval_decided"]),
        (invocation(kind="device"), ["approval_requested", "approval_decided"]),
        (ended("approval_denied"), ["approval_requested", "approval_decided"]),
        (ended("upstream_error"), ["approval_requested", "approval_decided"]),
        (ended("expired"), ["approval_requested", "approval_expired"]),
        (ended("cancelled"), ["approval_requested", "approval_withdrawn"]),
    ],
)
def test_what_there_is_to_tell_follows_from_how_a_call_stands(known: Invocation, expected: list[str]) -> None:
    assert list(events_of(known)) == expected


def test_ids_tell_events_calls_and_receivers_apart() -> None:
    ids = {
        message_id(f"call_{number}", event, receiver)
        for number in (1, 2)
        for event in ("a", "b")
        for receiver in ("ops", "chat")
    }
    assert len(ids) == 8


def test_slack_is_given_a_text_blocks_and_a_link() -> None:
    known = invocation(needs=(Requirement(roles=("lead",), quorum=2),), rule="mail")
    found = body(known, to="ann")
    assert line_names(found["text"], "approval: pets__delete_pet, by bot")
    assert [block["type"] for block in found["blocks"]] == ["header", "section", "section", "section"]
    fields = [one["text"] for one in found["blocks"][1]["fields"]]
    assert fields[:3] == [
        "Tool\npets__delete_pet (destructive)",
        "Caller\nbot",
        "Rule\nmail",
    ]
    assert line_names(fields[3].partition("\n")[2], "2 people", "role lead")
    assert found["blocks"][2]["text"]["text"] == 'to = "ann"'
    assert (found["blocks"][3]["text"]["type"], link_target(found["blocks"][3]["text"]["text"])) == ("mrkdwn", URL)


@pytest.mark.parametrize(
    ("known", "event", "title"),
    [
        (invocation(), "approval_reminder", "A call still waits for approval"),
        (invocation(), "approval_escalated", "A call waits for approval, and others may answer now"),
        (
            invocation(votes=(ApprovalVote(by="ann", roles=("lead",), at=1.0),)),
            "approval_decided",
            "A call was approved",
        ),
        (ended("approval_denied", closed_by="ann"), "approval_decided", "A call was denied"),
        (ended("expired"), "approval_expired", "A call was not approved in time, or something has changed since"),
        (ended("cancelled"), "approval_withdrawn", "A call was withdrawn by its caller"),
    ],
)
def test_each_event_has_a_title_and_says_who(known: Invocation, event: NotifyEvent, title: str) -> None:
    found = body(known, event)
    assert found["blocks"][0]["text"]["text"] == title
    said = str(found["blocks"][1]["fields"])
    assert ("By\\nann" in said) == (event == "approval_decided")
    assert ("And of\\nboss" in said) == (event == "approval_escalated")


def test_what_a_caller_wrote_is_no_mention_link_or_format() -> None:
    party = msgspec.structs.replace(invocation().principal, id=f"staff:{EVIL}")
    found = body(_by(party), **{EVIL: EVIL})
    assert "<" not in found["text"]
    assert ">" not in found["text"]
    assert "&lt;!channel&gt;" in found["text"]
    written = [(kind, text) for kind, text in texts(found["blocks"]) if "channel" in text or "\u202e" in text]
    assert {kind for kind, _ in written} == {"plain_text"}
    assert [link_target(text) for kind, text in texts(found["blocks"]) if kind == "mrkdwn"] == [URL]
    assert "\u202e" not in json.dumps(found, ensure_ascii=False)
    plain = [part for block in found["blocks"] for part in (block.get("fields") or [block["text"]])]
    assert all(part["emoji"] is False for part in plain if part["type"] == "plain_text")


def _by(party: Any) -> Invocation:
    return msgspec.structs.replace(invocation(rule=EVIL), principal=party)


def test_long_text_is_cut_to_what_slack_takes() -> None:
    known = msgspec.structs.replace(
        _by(msgspec.structs.replace(invocation().principal, id="p" * 9000)), rule="r" * 9000
    )
    found = body(known, to="\u200b" * 20_000)
    assert len(found["text"]) <= 3000
    assert max(len(one["text"]) for one in found["blocks"][1]["fields"]) <= 2000
    assert len(found["blocks"][2]["text"]["text"]) <= 3000


def test_a_long_value_hides_no_other_in_a_message() -> None:
    long = "60.01 EUR " * 390
    found = body(invocation(), reason=long, amount_cents=199_999, name="\u3164\u05d0")
    lines = found["blocks"][2]["text"]["text"].split("\n")
    assert lines[:2] == ["amount_cents = 199999", 'name = \u2068"\\u3164\u05d0"\u2069']
    assert lines[2].startswith('reason = "60.01')
    assert lines[2].endswith("… (3,900 characters)")
    rows = body(invocation(), form="generic", reason=long, amount_cents=199_999)["data"]["rows"]
    assert [(row["name"], row.get("length")) for row in rows] == [("amount_cents", None), ("reason", 3900)]
    assert "whole" not in rows[1]


def test_what_has_no_room_in_a_message_is_counted() -> None:
    many = {f"m{number:03}": "x" * 60 for number in range(300)}
    assert body(invocation(), **many)["blocks"][2]["text"]["text"].rpartition("more: ")[2].endswith("the console")
    data = body(invocation(), form="generic", **many)["data"]
    assert (len(data["rows"]), data["rows_omitted"]) == (100, 200)
