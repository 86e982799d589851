"""Webhooks that are told of approvals, over whole gateways, real HTTP and a real Redis."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.gateway.governed import PRINCIPALS, Upstream, project, upstream, write_policy
from tests.messages import line_names
from tests.patient import until
from tests.receivers import Delivered, Receiver, receiver
from tests.redis_server import RedisServer
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify as verify_record
from toolgen.config.settings import load as load_settings
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.approvals.role_grants import RoleWish
from toolgen.gateway.state.shared_state import seal_file
from toolgen.state.encryption import seal_of
from toolgen.state.grants import RoleGrant
from toolgen.state.outbox_sqlite import SqliteOutbox

ROOT = Path(__file__).parents[3]
SECRET, OLD_SECRET = ("whsec_" + base64.b64encode(key * 32).decode() for key in (b"n", b"o"))
POLICY: dict[str, Any] = {
    "rules": [{"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"}],
    "approvals": {"approvers": ["user"], "expires": "1h"},
}
CONSOLE = "https://gateway.example.com"


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SECRET", SECRET)
    monkeypatch.setenv("OLD_SECRET", OLD_SECRET)


@pytest.fixture
def to() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


def made(root: Path, url: str, to: Receiver, policy: dict[str, Any] | None = None, **more: Any) -> Path:
    """A project with one webhook."""
    state = {"state": more.pop("state")} if "state" in more else {}
    webhook = {"url": f"{to.url}/hook", "secret": "${env:NOTIFY_SECRET}", **more}
    settings = {"console": {"url": CONSOLE}, "notify": {"ops": webhook}, **state}
    return project(root / "project", url, {**POLICY, **(policy or {})}, **settings)


@asynccontextmanager
async def play(
    root: Path, to: Receiver, policy: dict[str, Any] | None = None, **more: Any
) -> AsyncIterator[tuple[Gateway, Upstream]]:
    """A gateway that sends notifications to a receiver, and its API."""
    with upstream() as (seen, url):
        path = made(root, url, to, policy, **more)
        async with Gateway.load(path) as gateway, asyncio.timeout(120):
            yield gateway, seen


async def ask(gateway: Gateway, text: str = "x") -> str:
    answer = await gateway.call("orders__send_mail", {"to": text}, principal="bot")
    assert answer.status == "pending", answer
    return answer.call_id


async def decide(gateway: Gateway, call_id: str, *, approve: bool = True, who: str = "ann") -> None:
    found = await gateway.approvals.decide(call_id, approve=approve, note="", principal=gateway.principal(who))
    assert not hasattr(found, "code"), found


def verify() -> Callable[[str, dict[str, str], bytes], None]:
    """The function of the documentation that receivers copy."""
    page = (ROOT / "docs" / "how-to" / "notifications.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```python\n# verify_webhook\.py\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(text, "verify_webhook.py", "exec"), names)
    found: Callable[[str, dict[str, str], bytes], None] = names["verify"]
    return found


async def test_what_waits_and_what_came_of_it_is_told_signed_and_linked(tmp_path: Path, to: Receiver) -> None:
    async with play(tmp_path, to) as (gateway, _):
        yes, no, back = [await ask(gateway, text) for text in ("yes", "no", "back")]
        await to.reached(3)
        await decide(gateway, yes)
        await decide(gateway, no, approve=False)
        await gateway.approvals.calls.cancel(back, gateway.principal("bot"))
        await to.reached(6)
        assert to.events()[:3] == [("approval_requested", call_id) for call_id in (yes, no, back)]
        first = to.got[0].json()["data"]
        assert first["url"] == f"{CONSOLE}/console/approvals/{yes}"
        assert (first["tool"], first["principal"], first["rule"]) == ("orders__send_mail", "bot", "mail")
        assert (first["arguments"], first["needs"]) == ({"to": "yes"}, [{"roles": ["user"], "people": 1}])
        ends = {one.json()["data"]["id"]: one.json() for one in to.got[3:]}
        assert {call_id: one["type"] for call_id, one in ends.items()} == {
            yes: "approval_decided",
            no: "approval_decided",
            back: "approval_withdrawn",
        }
        told = [(ends[one]["data"]["decision"], ends[one]["data"]["decided_by"]) for one in (yes, no)]
        assert told == [("approve", ["ann"]), ("deny", ["ann"])]
        assert len({one.id for one in to.got}) == 6
        check = verify()
        for one in to.got:
            check(SECRET, one.headers, one.body)


async def test_a_receiver_that_checks_takes_nothing_altered_and_either_of_two_secrets(
    tmp_path: Path, to: Receiver
) -> None:
    async with play(tmp_path, to, secret=["${env:NOTIFY_SECRET}", "${env:OLD_SECRET}"]) as (gateway, _):
        await ask(gateway)
        (got,) = await to.reached(1)
        check = verify()
        for secret in (SECRET, OLD_SECRET):
            check(secret, got.headers, got.body)
        other = "whsec_" + base64.b64encode(b"x" * 32).decode()
        old = str(int(got.headers["webhook-timestamp"]) - 400)
        for secret, headers, body in [
            (other, got.headers, got.body),
            (SECRET, got.headers, got.body.replace(b"bot", b"b0t")),
            (SECRET, {**got.headers, "webhook-id": "msg_other"}, got.body),
            (SECRET, {**got.headers, "webhook-timestamp": old}, got.body),
            (SECRET, {**got.headers, "webhook-signature": "v1,AAAA"}, got.body),
        ]:
            with pytest.raises(ValueError, match=r"signed|old"):
                check(secret, headers, body)


@pytest.mark.parametrize(
    ("policy", "more", "expected"),
    [
        ({"sensitive": ["$..to"]}, {}, "hmac-sha256:"),
        ({"plain": []}, {}, "hmac-sha256:"),
        ({}, {"arguments": False}, ""),
        ({}, {"long": True}, "too long"),
    ],
    ids=["sensitive", "plain", "left out", "long"],
)
async def test_what_is_secret_of_arguments_is_not_told(
    tmp_path: Path, to: Receiver, policy: dict[str, Any], more: dict[str, Any], expected: str
) -> None:
    text = "4111-1111" * (3000 if more.pop("long", False) else 1)

    async with play(tmp_path, to, policy, **more) as (gateway, _):
        await decide(gateway, await ask(gateway, text))
        for one in await to.reached(2):
            assert b"4111" not in one.body
            shown = one.json()["data"]
            assert expected in str(shown.get("arguments", "")) + str(shown.get("arguments_omitted", ""))


async def test_a_webhook_that_hangs_or_fails_delays_and_loses_no_approval(tmp_path: Path, to: Receiver) -> None:
    async with play(tmp_path, to) as (gateway, seen):
        to.answers = ["hang"]
        call_id = await ask(gateway)
        await to.reached(1)
        await decide(gateway, call_id)
        envelope = await gateway.approvals.calls.outcome(call_id, gateway.principal("bot"), 60)
        assert envelope is not None
        assert (envelope.status, len(seen.requests), len(to.got)) == ("ok", 1, 1)
        to.release.set()
        got = await to.reached(2)
        # What was not answered is not delivered; it comes again later, under the same id.
        assert [one.json()["type"] for one in got] == ["approval_requested", "approval_decided"]
        metrics = await until(lambda: gateway.monitoring.notifications)
        await until(lambda: gateway.monitoring.notifications.failed == 1)  # type: ignore[union-attr]
        assert metrics.dead == 0


async def test_a_place_that_is_not_open_is_refused_on_record_and_a_warning(
    tmp_path: Path, to: Receiver, toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with upstream() as (seen, url):
        policy = {"egress": {"allow": [url.removeprefix("http://")]}}
        path = made(tmp_path, url, to, policy)

        async with Gateway.load(path) as gateway, asyncio.timeout(60):
            call_id = await ask(gateway)
            (warning,) = await until(gateway.operations.warnings)
            assert "1 to ops " in warning
            assert gateway.operations.ready() == ()
            text = (await gateway.operations.measured()).decode()
            assert re.search(r"^toolgen_notifications_dead\{.*\} 1$", text, re.MULTILINE)
            await decide(gateway, call_id)
            assert (await gateway.approvals.calls.outcome(call_id, gateway.principal("bot"), 60)).status == "ok"  # type: ignore[union-attr]
            await until(lambda: "2 to ops" in gateway.operations.warnings()[0])
        assert (to.got, len(seen.requests)) == ([], 1)
        refused = [one for one in entries(path.parent / "var" / "audit") if one["event"] == "notification"]
        assert [(one["call_id"], one["status"], one["code"]) for one in refused] == [
            (call_id, "refused", "egress_refused")
        ] * 2
        listed = toolgen("notify", "list", "--json", "--config", str(path)).json()
        assert [(one["webhook"], one["waiting"], one["dead"]) for one in listed] == [("ops", 0, 2)]
        assert {one["call_id"] for one in listed[0]["dead_letters"]} == {call_id}
        assert line_names(toolgen("notify", "list", "--config", str(path)).out, "not connect to 127.0.0.1")
        # A reviewer opens the place, and what could not be delivered is.
        write_policy(path.parent, POLICY)
        assert "2 messages to ops" in toolgen("notify", "retry", "ops", "--config", str(path)).out
        assert toolgen("notify", "retry", "opps", "--config", str(path)).code != 0

        async with Gateway.load(path):
            assert len({one.id for one in await to.reached(2)}) == 2


KILLED = """
import asyncio, os, signal, sys
from toolgen.gateway.approvals.role_grants import RoleWish
from toolgen.frontends.python.gateway import Gateway

async def main():
    gateway = Gateway.load(sys.argv[1])
    if sys.argv[2] == "before":
        async with gateway.short_session():  # which tells nobody
            answer = await gateway.call("orders__send_mail", {"to": "x"}, principal="bot")
            print(answer.call_id, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    async with gateway:
        answer = await gateway.call("orders__send_mail", {"to": "x"}, principal="bot")
        print(answer.call_id, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@contextmanager
def started(path: Path, when: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A gateway in a process of its own that made a call."""
    command = [sys.executable, "-c", KILLED, str(path), when]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


async def test_a_gateway_killed_before_it_wrote_a_message_has_it_told_by_the_next(tmp_path: Path, to: Receiver) -> None:
    with upstream() as (_, url):
        path = made(tmp_path, url, to)
        with started(path, "before") as (process, call_id):
            assert process.wait(60) == -signal.SIGKILL
        assert to.got == []
        assert not (path.parent / "var" / "state" / "notify.db").exists()

        async with Gateway.load(path):
            await to.reached(1)
        assert to.events() == [("approval_requested", call_id)]


async def _reached(to: Receiver) -> None:
    await to.reached(1)


class Ahead:
    """The machine's clock, a minute ahead: leases of others have lapsed."""

    def now(self) -> float:
        return time.time() + 60

    def monotonic(self) -> float:
        return self.now()


async def test_a_gateway_killed_while_it_sent_has_it_sent_again_under_the_same_id(tmp_path: Path, to: Receiver) -> None:
    with upstream() as (_, url):
        path = made(tmp_path, url, to)
        to.answers = ["hang"]
        with started(path, "meanwhile") as (_, call_id):
            await _reached(to)

        outbox = SqliteOutbox(path.parent / "var" / "state" / "notify.db", Ahead())
        claim = await outbox.claim("ops", 0.0)
        await outbox.close()
        assert claim is not None
        assert (claim.message.id, claim.message.body) == (to.got[0].id, to.got[0].body)
        assert (claim.message.call_id, claim.attempts) == (call_id, 1)


SOON = {
    "approvals": {
        "approvers": ["lead"],
        "expires": "30s",
        "remind": "29s",
        "escalate": {"after": "1s", "to": ["user"]},
    },
    "principals": {**PRINCIPALS, "lena": {"api_key": PRINCIPALS["ann"]["api_key"][:-1] + "0", "roles": ["lead"]}},
}


async def test_people_are_reminded_and_others_asked_once_over_all_gateways(tmp_path: Path, to: Receiver) -> None:
    server = RedisServer(tmp_path)
    server.start()
    try:
        with upstream() as (_, url):
            path = made(tmp_path, url, to, SOON, state=f"redis://127.0.0.1:{server.port}/0")
            seal_of(seal_file(load_settings(path)))

            async with Gateway.load(path) as one, Gateway.load(path) as two, asyncio.timeout(60):
                calls = [await ask(gateway, text) for gateway, text in ((one, "x"), (two, "y"))]
                await to.reached(6)
                for call_id in calls:
                    await decide(two, call_id)
                await to.reached(8)
    finally:
        server.stop()
    events = ("approval_requested", "approval_reminder", "approval_escalated", "approval_decided")
    assert sorted(to.events()) == sorted((event, call_id) for event in events for call_id in calls)
    (escalated, _) = [one.json()["data"] for one in to.got if one.json()["type"] == "approval_escalated"]
    assert escalated["escalated_to"] == ["user"]
    record = [one for one in entries(path.parent / "var" / "audit") if one["event"] == "escalation"]
    assert sorted(one["call_id"] for one in record) == sorted(calls)
    assert record[0]["arguments"] == {"after_s": 1, "to": ["user"]}


async def test_what_was_answered_before_reminds_and_escalates_nobody(tmp_path: Path, to: Receiver) -> None:
    async with play(tmp_path, to, SOON) as (gateway, _):
        soon, late = await ask(gateway), await ask(gateway, "late")
        await decide(gateway, soon, who="lena")
        await to.reached(5)
        assert [event for event, call_id in to.events() if call_id == soon] == [
            "approval_requested",
            "approval_decided",
        ]
        assert {event for event, call_id in to.events() if call_id == late} == {
            "approval_requested",
            "approval_reminder",
            "approval_escalated",
        }


async def test_an_escalation_is_on_record_and_a_reminder_is_logged_where_nobody_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolgen")
    with upstream() as (_, url):
        path = project(tmp_path / "project", url, {**POLICY, **SOON})

        async with Gateway.load(path) as gateway, asyncio.timeout(60):
            call_id = await ask(gateway)
            found = None
            while found is None or not (found.approval.escalated and found.approval.reminded):
                await gateway.approvals.calls.news.changed(0.1)
                found = await gateway.approvals.calls.store.get(call_id)
            assert found.status == "pending"
    assert any(line_names(one, f"call {call_id} of orders__send_mail ", "still waits") for one in caplog.messages)
    record = [one for one in entries(path.parent / "var" / "audit") if one["event"] == "escalation"]
    assert [(one["call_id"], one["rule"]) for one in record] == [(call_id, "mail")]
    assert verify_record(path.parent / "var" / "audit").ok


async def test_two_gateways_over_one_redis_tell_each_event_once(tmp_path: Path, to: Receiver) -> None:
    server = RedisServer(tmp_path)
    server.start()
    try:
        with upstream() as (_, url):
            path = made(tmp_path, url, to, state=f"redis://127.0.0.1:{server.port}/0")
            seal_of(seal_file(load_settings(path)))

            async with Gateway.load(path) as one, Gateway.load(path) as two, asyncio.timeout(120):
                calls = [await ask(gateway, f"m{number}") for number, gateway in enumerate((one, two) * 5)]
                for number, call_id in enumerate(calls):
                    await decide((one, two)[number % 2], call_id, approve=number % 3 > 0)
                await to.reached(20)
                await until(lambda: one.monitoring.notifications.waiting == 0)  # type: ignore[union-attr]
                await until(lambda: two.monitoring.notifications.waiting == 0)  # type: ignore[union-attr]
                expected = [(event, one) for event in ("approval_requested", "approval_decided") for one in calls]
                assert sorted(to.events()) == sorted(expected)
                assert len({one.id for one in to.got}) == 20
    finally:
        server.stop()


async def test_only_the_events_that_a_webhook_names_are_told(tmp_path: Path, to: Receiver) -> None:
    async with play(tmp_path, to, events=["approval_decided"]) as (gateway, _):
        call_id = await ask(gateway)
        await decide(gateway, call_id, approve=False)
        await to.reached(1)
        assert to.events() == [("approval_decided", call_id)]


async def test_a_call_that_nobody_answers_for_expires_and_that_is_told(tmp_path: Path, to: Receiver) -> None:
    async with play(tmp_path, to, {"approvals": {"approvers": ["user"], "expires": "1s"}}) as (gateway, _):
        call_id = await ask(gateway)
        got: list[Delivered] = await to.reached(2)
        assert [one.json()["type"] for one in got] == ["approval_requested", "approval_expired"]
        assert {one.json()["data"]["id"] for one in got} == {call_id}


GLASS: dict[str, Any] = {
    "role_grants": [{"role": "root", "by": ["user"], "to": ["user"], "max_duration": "1h", "break_glass": True}]
}
EVIL = "<!channel> fire & <https://evil.example.com|agree>"


@pytest.mark.parametrize("form", ["generic", "slack"])
async def test_who_asks_for_a_role_that_takes_two_people_is_told_of(tmp_path: Path, to: Receiver, form: str) -> None:
    async with play(tmp_path, to, GLASS, format=form) as (gateway, _):
        roles = gateway.role_grants
        grant_request = RoleWish(role="root", to="ann", seconds=60.0, reason=EVIL)
        asked = await roles.ask(grant_request, gateway.principal("ann"))
        assert isinstance(asked, RoleGrant)
        (first,) = await to.reached(1)
        agreed = await roles.decide(asked.id, approve=True, principal=gateway.principal("eve"))
        assert isinstance(agreed, RoleGrant)
        _, second = await to.reached(2)
        if form == "slack":
            assert "for ann" in first.json()["text"]
            assert EVIL in json.dumps(first.json()["blocks"])
            assert all(EVIL not in block["text"]["text"] for block in first.json()["blocks"] if "text" in block)
            return
        verify()(SECRET, first.headers, first.body)
        told = first.json()
        assert (told["type"], told["data"]["id"]) == ("break_glass_requested", asked.id)
        assert (told["data"]["role"], told["data"]["principal"], told["data"]["reason"]) == ("root", "ann", EVIL)
        assert (told["data"]["asked_by"], "agreed_by" in told["data"]) == ("ann", False)
        assert told["data"]["url"] == f"{CONSOLE}/console/approvals"
        told = second.json()
        assert (told["type"], told["data"]["agreed_by"]) == ("break_glass_given", "eve")
