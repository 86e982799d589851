"""`toolgen grants` and what `toolgen approvals approve` grants, beside a gateway that runs and over its REST interface."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import patient
from tests.cli.commands import Run
from tests.cli.test_approvals import Upstream, ask, headers, outcome, project, serving_here, upstream
from tests.gateway.test_approvals import key
from tests.messages import line_names

__all__ = ["project", "upstream"]

pytestmark = pytest.mark.usefixtures("project")


@pytest.fixture(autouse=True)
def remembering(project: Path) -> None:
    path = project / "policies" / "policy.yaml"
    policy = json.loads(path.read_text(encoding="utf-8"))
    policy["approvals"] |= {"remember": {"max_duration": "30m", "max_calls": 5}}
    path.write_text(json.dumps(policy), encoding="utf-8")


def status(url: str) -> str:
    body = {"arguments": {"petId": 5}, "wait": 0.1}
    answer = patient.post(f"{url}/v1/tools/pets__delete_pet/call", json=body, headers=headers("bot")).json()
    if answer["status"] == "pending" and answer["error"]["code"] == "deferred":
        answer = outcome(url, answer["call_id"])
    return str(answer["status"])


def test_a_grant_is_given_listed_and_revoked_on_the_machine(upstream: Upstream, toolgen: Run) -> None:
    with serving_here() as url:
        assert toolgen("grants", "list").out == "no grants\n"
        call_id = ask(url)
        given = toolgen("approvals", "approve", call_id, "--as", "ops", "--for", "15m", "--calls", "3")
        assert given.code == 0, given.err
        (grant,) = toolgen("grants", "list", "--json").json()
        assert f"`toolgen grants revoke {grant['id']}` ends that" in given.out
        assert outcome(url, call_id)["status"] == "ok"
        assert status(url) == "ok"
        shown = toolgen("grants", "list", "--as", "lead").out
        assert "calls         1 of 3" in shown
        assert "  petId = 5" in shown
        assert toolgen("grants", "list", "--as", "bot").out == "no grants\n"
        foreign = toolgen("grants", "revoke", grant["id"], "--as", "clerk")
        assert (foreign.code, foreign.out, "may not end" in foreign.err) == (1, "", True)
        assert status(url) == "ok"
        done = toolgen("grants", "revoke", grant["id"], "--as", "lead")
        assert (done.code, done.out) == (0, "revoked\n"), done.err
        assert status(url) == "pending"
        assert toolgen("grants", "revoke", grant["id"], "--as", "lead").code == 1
    assert upstream.deleted == ["/pets/5"] * 3


def test_a_grant_is_given_listed_and_revoked_with_a_key_from_elsewhere(
    upstream: Upstream, toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGEN_KEY", key("ops"))
    with serving_here() as url:
        call_id = ask(url)
        given = toolgen("approvals", "approve", call_id, "--url", url, "--calls", "5")
        assert "later calls" in given.out, given.err
        assert outcome(url, call_id)["status"] == "ok"
        (grant,) = toolgen("grants", "list", "--url", url, "--json").json()
        assert (grant["calls"], grant["approvers"]) == (5, ["ops"])
        assert status(url) == "ok"
        assert toolgen("grants", "revoke", grant["id"], "--url", url).code == 0
        assert status(url) == "pending"


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--for", "2h"), 1, "1800s and 5 calls at most"),
        (("--calls", "6"), 1, "1800s and 5 calls at most"),
        (("--session",), 1, "belongs to no session"),
        (("--calls", "2", "--any-arguments"), 1, "the same arguments only"),
        (("--for", "soon"), 2, "must be like 15m"),
        (("--calls", "0"), 2, "--calls"),
    ],
)
def test_what_the_policy_does_not_let_is_told(
    upstream: Upstream, toolgen: Run, options: tuple[str, ...], code: int, message: str
) -> None:
    with serving_here() as url:
        call_id = ask(url)
        refused = toolgen("approvals", "approve", call_id, "--as", "ops", *options)
        assert (refused.code, message in refused.err) == (code, True), refused.err
        assert toolgen("grants", "list").out == "no grants\n"
    assert upstream.deleted == []


ROLES = [
    {"role": "oncall", "by": ["ops"], "to": ["clerk"], "max_duration": "4h"},
    {"role": "root", "by": ["ops"], "to": ["clerk"], "max_duration": "1h", "break_glass": True},
]
GIVE = ("--to", "clerk", "--for", "2h", "--reason", "incident 7", "--as", "ops")


@pytest.fixture
def giving(project: Path) -> None:
    path = project / "policies" / "policy.yaml"
    policy = json.loads(path.read_text(encoding="utf-8"))
    policy["role_grants"] = ROLES
    policy["rules"].append({"id": "nights", "to": ["oncall"], "tools": ["pets__*"], "verdict": "allow"})
    path.write_text(json.dumps(policy), encoding="utf-8")


@pytest.mark.usefixtures("giving")
def test_a_role_is_given_listed_and_taken_back(toolgen: Run) -> None:
    done = toolgen("grant", "oncall", *GIVE)
    assert (done.code, done.out.startswith("given until ")) == (0, True), done.err
    (shown,) = toolgen("grant", "--list", "--json").json()
    assert (shown["role"], shown["principal"], shown["asked_by"]) == ("oncall", "clerk", "ops")
    assert (shown["reason"], shown["status"], shown["break_glass"]) == ("incident 7", "in_force", False)
    assert "reason        incident 7" in toolgen("grants", "list").out
    assert toolgen("grant", "--list", "root").out == "no grants\n"
    assert toolgen("grants", "revoke", shown["id"], "--as", "bot2").code == 1
    assert toolgen("grants", "revoke", shown["id"], "--as", "lead").out == "revoked\n"
    assert toolgen("grant", "--list").out == "no grants\n"


@pytest.mark.usefixtures("giving")
def test_two_people_break_the_glass_one_of_them_from_elsewhere(toolgen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving_here() as url:
        asked = toolgen("grant", "root", *GIVE[:3], "30m", *GIVE[4:])
        assert line_names(asked.out, "requested; another person", "`toolgen grants approve role_"), asked.err
        (shown,) = toolgen("grants", "list", "--json").json()
        assert shown["status"] == "pending"
        monkeypatch.setenv("TOOLGEN_KEY", key("ops"))
        own = toolgen("grants", "approve", shown["id"], "--url", url)
        assert (own.code, "second person" in own.err) == (1, True)
        monkeypatch.setenv("TOOLGEN_KEY", key("lead"))
        assert toolgen("grants", "approve", shown["id"], "--url", url).out.startswith("given until ")
        monkeypatch.setenv("TOOLGEN_KEY", key("ops"))
        again = toolgen("grant", "oncall", "--to", "clerk", "--for", "1h", "--reason", "r", "--url", url)
        assert again.out.startswith("given until ")
        listed = toolgen("grant", "--list", "--url", url, "--json").json()
        assert {(one["role"], one["status"]) for one in listed} == {("root", "in_force"), ("oncall", "in_force")}
        for one in listed:
            assert toolgen("grants", "revoke", one["id"], "--url", url).code == 0
        pending = toolgen("grant", "root", *GIVE[:3], "30m", *GIVE[4:], "--json").json()
        assert toolgen("grants", "deny", pending["id"], "--as", "lead").out == "denied\n"
        assert toolgen("grants", "list").out == "no grants\n"


@pytest.mark.usefixtures("giving")
@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("oncall", "--to", "clerk", "--for", "5h", "--reason", "r", "--as", "ops"), 1, "does not let"),
        (("oncall", "--to", "ops", "--for", "1h", "--reason", "r", "--as", "ops"), 1, "does not let"),
        (("oncall", "--to", "clerk", "--for", "1h", "--reason", "r", "--as", "bot2"), 1, "does not let"),
        (
            ("oncall", "--to", "clerk", "--for", "1h", "--reason", "\u200b\u3164", "--as", "ops"),
            2,
            "visible characters",
        ),
        (("oncall", "--to", "clerk", "--for", "soon", "--reason", "r", "--as", "ops"), 2, "must be like"),
        (("oncall", "--to", "clerk", "--for", "1h", "--as", "ops"), 2, "--reason"),
        ((), 2, "--list"),
    ],
)
def test_a_role_that_may_not_be_given_is_not(toolgen: Run, options: tuple[str, ...], code: int, message: str) -> None:
    refused = toolgen("grant", *options)
    assert (refused.code, message in refused.err) == (code, True), refused.err
    assert toolgen("grant", "--list").out == "no grants\n"


@pytest.mark.usefixtures("giving")
def test_commands_that_say_as_whom_go_by_the_roles_given_now(upstream: Upstream, toolgen: Run, project: Path) -> None:
    path = project / "policies" / "policy.yaml"
    policy = json.loads(path.read_text(encoding="utf-8"))
    policy["rules"].append({"id": "nights-too", "to": ["oncall"], "tools": ["pets__delete_pet"], "verdict": "ask"})
    policy["approvals"]["approvers"].append("oncall")
    path.write_text(json.dumps(policy), encoding="utf-8")
    with serving_here() as url:
        call_id = ask(url)

        def seen() -> tuple[list[str], list[str], str]:
            listed = toolgen("tools", "--as", "clerk", "--json")
            waiting = toolgen("approvals", "list", "--as", "clerk", "--json")
            told = toolgen("policy", "explain", "pets__get_pet", "petId=1", "--as", "clerk", "--json").json()
            return [one["name"] for one in listed.json()], [one["id"] for one in waiting.json()], told["verdict"]

        assert seen() == ([], [], "deny")
        assert toolgen("grant", "oncall", *GIVE).code == 0
        names, waits, verdict = seen()
        assert ("pets__get_pet" in names, waits, verdict) == (True, [call_id], "allow")
        (grant,) = toolgen("grant", "--list", "--json").json()
        assert toolgen("grants", "revoke", grant["id"], "--as", "ops").code == 0
        assert seen() == ([], [], "deny")
