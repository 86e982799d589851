"""`toolgen approvals`, `pause` and `resume` beside real gateways: processes that share a project, are killed, and come back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import patient
from tests.cli.commands import Run, served
from tests.gateway.clients import listening
from tests.gateway.test_approvals import key, policy_of
from tests.messages import line_names
from tests.projects import make_project
from tests.services.local import LocalServer, running
from toolgen.audit.reader import entries, merged
from toolgen.audit.verify import verify
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

pytestmark = pytest.mark.usefixtures("project")

NASTY = "<b>\x1b[2J\x9b31m\u202e\x07 Zoë"


class Upstream:
    """A service that deletes pets: counts what reaches it, and holds its answers back while `hold` is not set."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.arrived = threading.Event()
        self.hold = threading.Event()
        self.hold.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_DELETE(self) -> None:
                outer.deleted.append(self.path)
                outer.arrived.set()
                outer.hold.wait(120)
                with contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", "2")
                    self.end_headers()
                    self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None: ...

        self.server = LocalServer(("127.0.0.1", 0), Handler)
        self.url = self.server.url


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    service = Upstream()
    with running(service.server):
        try:
            yield service
        finally:
            service.hold.set()


@pytest.fixture
def project(tmp_path: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> Path:
    policy = policy_of()
    policy["rules"] = [{"id": "deletes", "to": ["bot"], "tools": ["pets__*"], "verdict": "ask"}]
    del policy["sql"]
    root = make_project(tmp_path / "project", server=upstream.url, policy=policy).parent
    settings = json.loads((root / "toolgen.yaml").read_text(encoding="utf-8"))
    del settings["sources"]["shop"]
    (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
    monkeypatch.chdir(root)
    monkeypatch.setenv("TEST_PETS_KEY", "canary")
    return root


async def serve(path: Path, started: queue.SimpleQueue[str], leave: threading.Event) -> None:
    """Serves the gateway of a project until `leave` is set. `started` gets its address."""
    async with Gateway.load(path) as gateway, listening(App(gateway)) as url:
        started.put(url)
        await asyncio.to_thread(leave.wait)


@contextlib.contextmanager
def serving_here() -> Iterator[str]:
    """The same in this process, where another one is not what is tried."""
    started: queue.SimpleQueue[str] = queue.SimpleQueue()
    leave = threading.Event()
    serving = serve(Path("toolgen.yaml").resolve(), started, leave)
    thread = threading.Thread(target=asyncio.run, args=(serving,))
    thread.start()
    try:
        yield started.get(timeout=120)
    finally:
        leave.set()
        thread.join()


def headers(who: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key(who)}"}


def ask(url: str, pet: int = 5, who: str = "bot") -> str:
    body = {"arguments": {"petId": pet}, "wait": 0}
    answer = patient.post(f"{url}/v1/tools/pets__delete_pet/call", json=body, headers=headers(who))
    assert answer.status_code == 202, answer.text
    return str(answer.json()["call_id"])


def outcome(url: str, call_id: str, who: str = "bot") -> Any:
    """The envelope once the call has ended."""
    return until(lambda: _ended(patient.get(f"{url}/v1/calls/{call_id}", headers=headers(who))))


def _ended(answer: httpx.Response) -> Any:
    return None if answer.status_code == 202 else answer.json()


def until(look: Callable[[], Any]) -> Any:
    """What `look` finds once it finds something, within two minutes."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("it never came")


def test_one_process_asks_another_answers_and_whichever_serves_carries_it_out_once(
    project: Path, upstream: Upstream, toolgen: Run
) -> None:
    with served(Path.cwd()) as (_, first), served(Path.cwd()) as (_, second):
        call_id = ask(first)
        listed = toolgen("approvals", "list", "--as", "ops", "--json").json()
        assert [(item["id"], item["arguments"]) for item in listed] == [(call_id, {"petId": 5})]
        for answer in ("approve", "deny"):
            unnamed = toolgen("approvals", answer, call_id)
            assert unnamed.code == 2
            assert line_names(" ".join(unnamed.err.split()), "--as", "(approvers: ann, bot, lead, ops)")
        done = toolgen("approvals", "approve", call_id, "--as", "ops", "--note", "go on")
        assert (done.code, done.out.startswith("approved; the gateway")) == (0, True), done.err
        assert outcome(second, call_id)["status"] == "ok"
        assert outcome(first, call_id) == outcome(second, call_id)
        again = toolgen("approvals", "approve", call_id, "--as", "lead")
        assert (again.code, again.out, "does not wait" in again.err) == (1, "", True)
        assert toolgen("approvals", "list", "--json").json() == []
        assert "no call waits" in toolgen("approvals", "list").out
        for number in range(6):
            call_id = ask((first, second)[number % 2], number)
            toolgen("approvals", "approve", call_id, "--as", "ops")
            assert outcome((second, first)[number % 2], call_id)["status"] == "ok"
    assert upstream.deleted == ["/pets/5", *(f"/pets/{number}" for number in range(6))]
    audit = project / "var" / "audit"
    assert verify(audit).ok
    assert [row["status"] for row in merged(entries(audit))] == ["ok"] * 7


def test_a_call_waits_across_a_restart_and_is_answered_while_nothing_runs(upstream: Upstream, toolgen: Run) -> None:
    with served(Path.cwd()) as (process, url):
        approved, denied = ask(url, 1), ask(url, 2)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = toolgen("approvals", "approve", approved, "--as", "ops")
    assert done.out.startswith("approved; a running gateway"), done.err
    assert toolgen("approvals", "deny", denied, "--as", "lead", "--note", "no").out.startswith("denied; ")
    assert upstream.deleted == []
    with served(Path.cwd()) as (_, url):
        assert outcome(url, approved)["status"] == "ok"
        assert outcome(url, denied)["error"]["code"] == "approval_denied"
    assert upstream.deleted == ["/pets/1"]


def test_a_gateway_killed_while_it_carries_a_call_out_never_does_it_twice(
    project: Path, upstream: Upstream, toolgen: Run
) -> None:
    upstream.hold.clear()
    with served(Path.cwd()) as (process, url):
        call_id = ask(url)
        toolgen("approvals", "approve", call_id, "--as", "ops")
        assert upstream.arrived.wait(120)
        process.send_signal(signal.SIGKILL)
        process.wait()
    upstream.hold.set()
    with served(Path.cwd()) as (_, url):
        envelope = outcome(url, call_id)
        assert (envelope["status"], envelope["error"]["code"]) == ("error", "outcome_unknown")
    assert upstream.deleted == ["/pets/5"]
    assert [(row["status"], row["code"]) for row in merged(entries(project / "var" / "audit"))] == [
        ("error", "outcome_unknown")
    ]


def test_a_gateway_that_is_asked_to_stop_finishes_what_was_approved(upstream: Upstream, toolgen: Run) -> None:
    upstream.hold.clear()
    with served(Path.cwd()) as (process, url):
        call_id = ask(url)
        toolgen("approvals", "approve", call_id, "--as", "ops")
        assert upstream.arrived.wait(120)
        process.send_signal(signal.SIGTERM)
        upstream.hold.set()
        assert process.wait(120) == 0
    with served(Path.cwd()) as (_, url):
        assert outcome(url, call_id)["status"] == "ok"
    assert upstream.deleted == ["/pets/5"]


def test_nobody_answers_who_may_not(upstream: Upstream, toolgen: Run) -> None:
    with serving_here() as url:
        call_id = ask(url)
    for who, says in (
        ("bot", "you cannot answer for your own call"),
        ("clerk", "this principal may not answer for the calls of others"),
        ("bott", "the policy has no principal 'bott' (did you mean 'bot'?)"),
    ):
        done = toolgen("approvals", "approve", call_id, "--as", who)
        assert (done.code, done.out) == (1, "")
        assert says in done.err
        assert toolgen("approvals", "list", "--json").json()[0]["id"] == call_id
    assert upstream.deleted == []


def test_a_key_answers_at_a_gateway_elsewhere(
    upstream: Upstream, toolgen: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with serving_here() as url:
        call_id = ask(url)
        monkeypatch.chdir(tmp_path)  # no project here
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        refused = toolgen("approvals", "list", "--url", url)
        assert (refused.code, "TOOLGEN_KEY" in refused.err) == (1, True)
        monkeypatch.setenv("TOOLGEN_KEY", key("clerk"))
        assert "may not answer" in toolgen("approvals", "list", "--url", url).err
        monkeypatch.setenv("TOOLGEN_KEY", key("ops"))
        assert toolgen("approvals", "list", "--url", url, "--json").json()[0]["id"] == call_id
        done = toolgen("approvals", "approve", call_id, "--url", url, "--note", "go on")
        assert (done.code, done.out.startswith("approved; the gateway")) == (0, True), done.err
        late = toolgen("approvals", "deny", call_id, "--url", f"{url}/")
        assert (late.code, late.out, "does not wait" in late.err) == (1, "", True)
        for wrong in ("http://gateway.example", "ftp://127.0.0.1", f"{url}?a=1", "127.0.0.1"):
            assert toolgen("approvals", "list", "--url", wrong).code == 1
        assert toolgen("approvals", "list", "--url", url, "--as", "ops").code == 2
        monkeypatch.delenv("HTTP_PROXY")
        assert outcome(url, call_id)["status"] == "ok"
    assert key("ops") not in done.out + done.err + late.err
    assert upstream.deleted == ["/pets/5"]


def test_what_a_caller_wrote_does_nothing_to_the_terminal(project: Path, toolgen: Run) -> None:
    described = json.loads((project / "specs" / "pets.json").read_text(encoding="utf-8"))
    path = described["paths"].pop("/pets/{petId}")
    path["delete"]["parameters"][0]["schema"] = {}
    described["paths"]["/pets/{petId}"] = {"delete": path["delete"], "get": path["get"]}
    (project / "specs" / "pets.json").write_text(json.dumps(described), encoding="utf-8")
    with serving_here() as url:
        body = {"arguments": {"petId": NASTY}, "wait": 0}
        agent = headers("bot") | {"user-agent": "evil\x1b[31m".encode("latin-1").decode("latin-1").replace("\x1b", "?")}
        answer = patient.post(f"{url}/v1/tools/pets__delete_pet/call", json=body, headers=agent)
        assert answer.status_code == 202, answer.text
        shown = toolgen("approvals", "list")
    assert all(sign.isprintable() or sign == "\n" for sign in shown.out)
    assert "petId = " in shown.out
    assert "\\u001b[2J" in shown.out
    assert "\\u202e" in shown.out
    assert "<b>" in shown.out
    assert "Zoë" in shown.out


def test_a_long_value_hides_no_other_and_is_opened_by_a_flag(
    project: Path, toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGEN_KEY", key("ops"))
    described = json.loads((project / "specs" / "pets.json").read_text(encoding="utf-8"))
    described["paths"]["/pets/{petId}"]["delete"]["parameters"][0]["schema"] = {}
    (project / "specs" / "pets.json").write_text(json.dumps(described), encoding="utf-8")
    with serving_here() as url:
        given = {"petId": {"reason": "60.01 EUR " * 390, "amount_cents": 199_999}}
        body = {"arguments": given, "wait": 0}
        call_id = patient.post(f"{url}/v1/tools/pets__delete_pet/call", json=body, headers=headers("bot")).json()[
            "call_id"
        ]
        for more in ((), ("--url", url)):
            shown = toolgen("approvals", "list", *more).out
            lines = [line.strip() for line in shown.splitlines()]
            at = lines.index("petId.amount_cents = 199999")
            assert lines[at + 1].startswith('petId.reason = "60.01 EUR ')
            assert line_names(lines[at + 1].partition("…")[2], "3,900 characters", "--whole")
            assert "method = DELETE" in lines
            assert json.dumps(given["petId"]["reason"]) in toolgen("approvals", "list", "--whole", *more).out
        toolgen("approvals", "deny", call_id, "--as", "ops", "--note", "\u200b")
        told = outcome(url, call_id)["error"]
        assert (told["code"], ":" in told["message"]) == ("approval_denied", False)
    (decision,) = [one for one in entries(project / "var" / "audit") if one.get("verdict") == "deny"]
    assert decision["arguments"]["channel"] == "cli"


def test_a_pause_holds_in_every_process_until_it_is_resumed(project: Path, upstream: Upstream, toolgen: Run) -> None:
    def code(url: str, who: str = "bot") -> str:
        body = {"arguments": {"petId": 1}, "wait": 0}
        answer = patient.post(f"{url}/v1/tools/pets__delete_pet/call", json=body, headers=headers(who))
        return f"{answer.status_code} {answer.json()['error']['code']}"

    with served(Path.cwd()) as (_, first), served(Path.cwd()) as (_, second):
        waiting = ask(first)
        assert toolgen("pause").out == "nothing is paused\n"
        done = toolgen("pause", "--tool", "pets__delete_*", "--reason", "incident 7")
        assert (done.code, "incident 7" in done.out) == (0, True), done.err
        assert {code(first), code(second)} == {"503 paused"}
        called = toolgen("call", "pets__delete_pet", "petId=1", "--as", "bot")
        assert (called.code, line_names(called.err, "paused: ", "incident 7")) == (1, True)
        held = toolgen("approvals", "approve", waiting, "--as", "ops")
        assert "paused" in held.out
        toolgen("pause", "--principal", "bot2")
        assert [sorted(item.keys() - {"since"}) for item in toolgen("pause", "--json").json()] == [
            ["reason", "tool"],
            ["principal"],
        ]
        assert upstream.deleted == []
        toolgen("resume", "--tool", "pets__delete_*")
        assert outcome(second, waiting)["status"] == "ok"
        assert (code(first), code(second, "bot2")) == ("202 approval_required", "503 paused")
        assert toolgen("resume").out == "nothing is paused\n"
        assert code(second, "bot2") == "202 approval_required"
    assert upstream.deleted == ["/pets/5"]
    found = [entry for entry in entries(project / "var" / "audit") if entry["event"] in {"pause", "resume"}]
    assert [(entry["event"], {**entry["arguments"], "by": ""}) for entry in found] == [
        ("pause", {"tool": "pets__delete_*", "reason": "incident 7", "by": ""}),
        ("pause", {"principal": "bot2", "by": ""}),
        ("resume", {"tool": "pets__delete_*", "reason": "incident 7", "by": ""}),
        ("resume", {"principal": "bot2", "by": ""}),
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("pause", "--tool", "pts__*"), 1, "matches no tool"),
        (("pause", "--source", "pet"), 1, "there is no source 'pet' (did you mean 'pets'?)"),
        (("pause", "--principal", "bto"), 1, "the policy has no principal 'bto'"),
        (("pause", "--source", "pets", "--principal", "bot"), 2, "use one of"),
        (("pause", "--source", "pets", "--reason", "x" * 501), 2, "more than 500"),
        (("resume", "--source", "pets"), 1, "that is not paused"),
        (("resume",), 1, "that is not paused"),
    ],
)
def test_what_cannot_be_paused_or_resumed_is_said(
    project: Path, toolgen: Run, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = toolgen(*arguments)
    assert (done.code, done.out) == (code, "")
    assert says in done.err
    assert not (project / "var" / "state" / "pauses.json").exists()


def test_a_project_whose_policy_is_broken_can_be_paused(project: Path, toolgen: Run) -> None:
    (project / "policies" / "policy.yaml").write_text("rules: [", encoding="utf-8")
    done = toolgen("pause", "--source", "pets")
    assert done.code == 0, done.err
    assert "not checked" in done.err
    assert toolgen("pause", "--json").json()[0]["source"] == "pets"
