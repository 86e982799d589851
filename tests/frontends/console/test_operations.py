"""Sources, limits, keys and the history of the policy: what an operator looks up, from the gateway at work, and never a secret."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.frontends.console.house import KEYS, POLICY, House, house
from tests.frontends.console.people import client
from tests.gateway.governed import write_policy
from tests.messages import line_names
from toolgen.connectors.health import SystemHealth
from toolgen.connectors.rotated_tokens import Rotated
from toolgen.connectors.source import SourceConfig, SourceSettings
from toolgen.frontends.console.keys import keys_of
from toolgen.frontends.console.policy_history import changes
from toolgen.frontends.console.sources import credentials_of, health_of
from toolgen.model.secret import SecretReference
from toolgen.policy.document.policy import load_credentials


@pytest.fixture
def home(tmp_path: Path) -> Iterator[House]:
    with house(tmp_path / "project") as found:
        yield found


def until(holds: Callable[[], bool]) -> None:
    """Asks until something holds; figures are made again after a second."""
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end


def changed(home: House, **sections: Any) -> str:
    """Puts another policy in force; its digest."""
    policy = {**json.loads(json.dumps(POLICY)), **sections}
    write_policy(home.root, policy)
    assert home.run(home.gateway.operations.reload())
    return home.gateway.policy.digest


def system(breaker: Any) -> SystemHealth:
    return SystemHealth(system="x", breaker=breaker)


def test_a_source_that_fails_is_left_alone_and_its_page_says_since_when_and_why(home: House) -> None:
    with client(home, "rita") as http:
        assert "not called" in http.get("/console/sources/orders").text
        assert ">not called</span>" in http.get("/console/sources").text
        home.call("orders__get_health", {})
        until(lambda: ">answers</span>" in http.get("/console/sources").text)
        home.upstream.status = 500
        failed = [home.call("orders__get_health", {}) for _ in range(12)]
        page = http.get("/console/sources").text
        assert ">circuit open</span>" in page
        assert "is open: " in page
        page = http.get("/console/sources/orders").text
        last = next(call for call in reversed(failed) if call.error is not None and call.error.code == "upstream_error")
        assert last.call_id in page
        assert "specs/orders.json" in page
        assert "Nothing is built" not in page
        assert http.get("/console/sources/none").status_code == 404


@pytest.mark.parametrize(
    ("breakers", "calls", "refused", "failed", "health"),
    [
        ((), 0, 0, 0, "quiet"),
        ((), 5, 5, 0, "quiet"),
        (("closed",), 10, 2, 3, "ok"),
        (("closed",), 10, 2, 4, "failing"),
        (("closed", "open"), 10, 0, 0, "down"),
        (("half-open",), 10, 0, 9, "recovering"),
    ],
)
def test_the_health_of_a_source_in_a_word(
    breakers: tuple[str, ...], calls: int, refused: int, failed: int, health: str
) -> None:
    systems = tuple(map(system, breakers))
    assert health_of(systems, calls=calls, refused=refused, failed=failed) == health


def test_credentials_are_told_by_where_they_stand_and_never_by_what_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_text("CANARY-1")
    os.utime(file, (1000, 1000))
    monkeypatch.setenv("SET_ONE", "CANARY-2")
    monkeypatch.delenv("UNSET_ONE", raising=False)
    secret = SecretReference("env", "SET_ONE")
    rotating = {"refresh_token": secret, "client_secret": secret, "token_url": "https://a.example/token"}
    settings = SourceSettings(
        config=SourceConfig(name="api", kind="openapi", location="x.json"),
        auth={
            "a": SecretReference("file", str(file)),
            "b": SecretReference("env", "SET_ONE"),
            "c": {"client_id": "id", "client_secret": SecretReference("env", "UNSET_ONE")},
            "d": SecretReference("literal", "CANARY-3"),
            "e": SecretReference("vault", "secret/x#key"),
            "f": SecretReference("file", str(tmp_path / "gone")),
        },
        environment={"TOKEN": SecretReference("env", "SET_ONE")},
    )
    settings = replace(
        settings, auth={**settings.auth, "g": rotating, "h": {"refresh_token": rotating["refresh_token"]}}
    )
    kept = [Rotated(source="api", host="a.example", at=5000), Rotated(source="api", host="b.example", at=6000)]
    found = {one.scheme: one for one in credentials_of(settings, {"a": "apiKey"}, kept)}
    assert (found["g.refresh_token"].age, found["g.refresh_token"].changed) == ("rotated", 5000)
    assert (found["h.refresh_token"].age, found["h.refresh_token"].changed) == ("rotated", 6000)
    assert found["g.client_secret"].age == "started"
    (untouched,) = (one for one in credentials_of(settings, {}) if one.scheme == "g.refresh_token")
    assert untouched.age == "started"
    assert "CANARY" not in repr(found)
    assert (found["a"].kind, found["a"].kept, found["a"].age, found["a"].changed) == (
        "apiKey",
        f"${{file:{file}}}",
        "file",
        1000,
    )
    assert (found["b"].age, found["b"].fault) == ("started", "")
    assert "variable" in found["c.client_secret"].fault
    assert line_names(found["d"].fault, "plain text", "toolgen.yaml")
    assert (found["e"].kept, found["e"].age) == ("${vault:secret/x#key}", "read")
    assert "file" in found["f"].fault
    assert found["TOKEN"].kept == "${env:SET_ONE}"


def test_limits_are_shown_as_the_policy_writes_them_with_what_is_used(home: House) -> None:
    limits = [
        {"id": "slow", "per": ["principal", "tool"], "rate": "2/day", "burst": 4},
        {"id": "all", "rate": "1/day", "burst": 2, "cost": {"orders__get_*": 0}},
        {"id": "flying", "per": ["source"], "concurrency": 3},
    ]
    changed(home, limits=limits)
    home.call("orders__get_health", {})
    home.call("orders__list_orders", {"tenant_id": "acme"})
    with client(home, "rita") as http:
        page = http.get("/console/limits").text
        assert "2/day" in page
        assert "at most 3" in page
        assert "bot · orders__get_health" in page
        assert "everybody together" in page
        assert page.count("1 of 4, restored in") == 2
        assert "1 of 2, restored in" in page
        changed(home, limits=[])
        assert "no limits" in http.get("/console/limits").text


def test_looking_at_limits_takes_nothing(home: House) -> None:
    changed(home, limits=[{"id": "few", "rate": "1/day", "burst": 2}])
    with client(home, "rita") as http:
        for _ in range(5):
            assert http.get("/console/limits").status_code == 200
    assert [home.call("orders__get_health", {}).status for _ in range(3)] == ["ok", "ok", "refused"]


def test_keys_say_when_they_were_made_and_used_and_which_end_soon(home: House) -> None:
    def digest(key: str) -> str:
        return "sha256:" + hashlib.sha256(key.encode()).hexdigest()

    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3 * 86_400))
    changed(
        home,
        keys=[
            {"principal": "bot", "hash": digest("soon"), "created": "2026-01-01T00:00:00Z", "expires": soon},
            {"principal": "bot", "hash": digest("past"), "expires": "2026-01-02T00:00:00Z"},
        ],
        revoked=[{"key": digest("gone")}],
    )
    used = hashlib.sha256(KEYS["olga"].encode()).hexdigest()[:12]
    with client(home, "olga") as http:
        page = http.get("/console/keys").text
    assert "1 key expires" in page
    rows = {row.split("</code>")[0].split("<code>")[-1]: row for row in page.split("<tr>")[2:]}
    assert "not seen here" not in rows[used]
    assert ">expiring</span>" in rows[digest("soon")[7:19]]
    assert ">expired</span>" in rows[digest("past")[7:19]]
    assert ">revoked</span>" in rows[digest("gone")[7:19]]
    assert "not seen here" in rows[digest("soon")[7:19]]
    for key in KEYS.values():
        assert key not in page
        assert hashlib.sha256(key.encode()).hexdigest() not in page


def test_what_somebody_should_act_on_comes_first(tmp_path: Path) -> None:
    now = 1_800_000_000.0
    keys = [
        {"principal": "ann", "hash": "sha256:" + sign * 64, **({"expires": time.strftime("%Y-%m-%d", time.gmtime(end))} if end else {})}
        for sign, end in (("a", 0.0), ("b", now + 5 * 86_400), ("c", now - 5 * 86_400))
    ]  # fmt: skip
    (tmp_path / "p.yaml").write_text(json.dumps({"principals": {"ann": {"roles": ["r"]}}, "keys": keys}))
    found = keys_of(load_credentials(tmp_path), {"b" * 12: now - 1}, now)
    assert [(key.id[0], key.state, key.used) for key in found] == [
        ("b", "expiring", now - 1),
        ("a", "accepted", None),
        ("c", "expired", None),
    ]


def test_each_policy_on_record_is_listed_and_compared_with_the_one_before(home: House) -> None:
    home.call("orders__get_health", {})
    first = home.gateway.policy.digest
    with client(home, "rita") as http:
        page = http.get("/console/policies/history").text
        assert first[7:19] in page
        assert "first known" in http.get(f"/console/policies/history/{first}").text
        rules = [
            *POLICY["rules"],
            {"id": "<b>new", "to": ["reader"], "tools": ["orders__send_mail"], "verdict": "deny"},
        ]
        second = changed(home, rules=rules)
        call = home.call("orders__get_health", {})
        page = http.get("/console/policies/history").text
        assert page.index(second[7:19]) < page.index(first[7:19])
        assert page.count(">in force</span>") == 1
        page = http.get(f"/console/policies/history/{second}").text
        assert "What changed since" in page
        assert '<span class="hidden">added: </span></span>- id: &lt;b&gt;new' in page
        assert "<b>new" not in page
        back = http.get(f"/console/policies/history/{first}", params={"from": second}).text
        assert '<span class="hidden">removed: </span></span>- id: &lt;b&gt;new' in back
        changed(home)
        story = http.get(f"/console/calls/{call.call_id}").text
        assert f"/console/policies/history/{second}?from=" in story.replace("%3A", ":")
        unknown = "sha256:" + "0" * 64
        assert http.get(f"/console/policies/history/{unknown}").status_code == 404
        assert http.get(f"/console/policies/history/{first}", params={"from": "x"}).status_code == 400


def test_a_policy_whose_text_was_not_kept_is_still_on_the_list(home: House) -> None:
    home.call("orders__get_health", {})
    first = home.gateway.policy.digest
    second = changed(home, approvals={"approvers": ["approver"], "expires": "2h"})
    home.run(home.gateway.monitoring.history.note())
    home.run(home.gateway.monitoring.history.seen.close())
    (home.root / "var" / "state" / "seen.db").unlink()
    home.gateway.monitoring.history.seen.__init__(home.root / "var" / "state" / "seen.db")  # type: ignore[misc]
    with client(home, "rita") as http:
        page = http.get("/console/policies/history").text
        assert "not stored" in page
        assert first[7:19] in page
        assert "is not stored" in http.get(f"/console/policies/history/{first}").text
    assert second != first


def test_a_difference_is_by_file_and_of_lines() -> None:
    before = {"p/a.yaml": {"rules": [{"id": "x"}]}, "p/b.yaml": {"limits": []}}
    after = {"p/a.yaml": {"rules": [{"id": "y"}]}, "p/b.yaml": {"limits": []}, "p/c.yaml": {"labels": []}}
    found = [(one.sign, one.text) for one in changes(before, after) if one.kind != "gap"]
    assert found == [
        (" ", "p/a.yaml"),
        (" ", "rules:"),
        ("−", "- id: x"),
        ("+", "- id: y"),
        (" ", "p/c.yaml"),
        ("+", "labels: []"),
    ]
    assert changes(after, after) == ()
