"""`toolgen policy explain`, `replay` and `suggest` over calls that a real gateway made and recorded."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.commands import runner
from tests.gateway.governed import PRINCIPALS, project, upstream, write_policy
from tests.gateway.issuer import ISSUER, jwk
from tests.messages import line_names
from tests.projects import POLICY, make_project
from toolgen.audit.reader import entries
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.policies.policy_acceptance import ACCEPTED

READS = {"id": "reads", "to": ["bot"], "tools": ["orders__*"], "effects": ["read"], "verdict": "allow"}
BOUND = {
    "id": "bound",
    "to": ["bot"],
    "tools": ["orders__create_order"],
    "verdict": "allow",
    "bind": {"tenant_id": "principal.attributes.tenant"},
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("orders__check_fraud", {"order": "1"}),
    ("orders__create_order", {"amount_cents": 5}),
    ("orders__send_mail", {"to": "x"}),
    ("orders__send_mail", {"to": "y"}),
    ("orders__delete_order", {"id": "a"}),
]


async def recorded(root: Path, policy: dict[str, Any], calls: list[tuple[str, dict[str, Any]]] = CALLS) -> str:
    """A project whose gateway took these calls; its toolgen.yaml."""

    with upstream() as (_, server):
        path = project(root / "p", server, policy, gateway={"turn_limit": "never"})
        async with Gateway.load(path) as gateway:
            for tool, arguments in calls:
                await gateway.call(tool, arguments, principal="bot", session="s")
    return str(path)


def only(**properties: Any) -> dict[str, Any]:
    """The schema of exactly these arguments."""
    return {"properties": properties, "additionalProperties": False, "required": sorted(properties)}


async def test_replay_lists_what_would_differ_and_suggest_what_would_allow(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run = runner(capfdbinary)
    path = await recorded(tmp_path, {"rules": [READS, BOUND]})
    same = run("policy", "replay", "--since", "1h", "--json", "--config", path)
    assert (same.code, same.json()["calls"], same.json()["differ"]) == (0, len(CALLS), [])
    suggested = run("policy", "suggest", "--config", path)
    rules = yaml.safe_load(suggested.out)["rules"]
    assert [(rule["tools"], rule["verdict"], rule["arguments"]) for rule in rules] == [
        (["orders__delete_order"], "ask", only(id={"enum": ["a"]})),
        (["orders__send_mail"], "allow", only(to={"enum": ["x", "y"]})),
    ]
    assert line_names(suggested.out, "# ", "2 refused call(s)")
    assert line_names(suggested.out, "# - bare, ", "role bot")
    late = {
        "id": "late",
        "to": ["bot"],
        "tools": ["orders__create_order"],
        "verdict": "deny",
        "when": "session.called('orders__check_fraud')",
    }
    write_policy(tmp_path / "p", {"rules": [READS, BOUND, late, *rules]})
    changed = run("policy", "replay", "--json", "--config", path)
    assert changed.code == 1
    assert [(item["tool"], item["before"], item["now"], item["rule"]) for item in changed.json()["differ"]] == [
        ("orders__create_order", "allow", "deny", "late"),
        ("orders__send_mail", "deny", "allow", "suggested-bot-orders__send_mail"),
        ("orders__send_mail", "deny", "allow", "suggested-bot-orders__send_mail"),
        ("orders__delete_order", "deny", "ask", "suggested-bot-orders__delete_order"),
    ]


async def test_equal_calls_are_decided_apart_where_a_rule_asks_for_more(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    mail, order = ("orders__send_mail", {"to": "x"}), ("orders__create_order", {"amount_cents": 5})
    path = await recorded(tmp_path, {"rules": [READS, BOUND]}, [mail, order, mail, order, mail])
    run = runner(capfdbinary)
    opened = {"id": "mails", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow"}
    once = {**opened, "when": "!session.called('orders__create_order')"}
    twice = {**opened, "when": "session.count('orders__create_order') == 2"}
    log = [*entries(tmp_path / "p" / "var" / "audit")]
    mails = [entry for entry in log if entry["event"] == "intent" and entry["tool"] == mail[0]]
    early = {**opened, "when": f"now < timestamp('{mails[1]['time']}')"}
    for rule, allowed in ((opened, (0, 1, 2)), (once, (0,)), (twice, (2,)), (early, (0,))):
        write_policy(tmp_path / "p", {"rules": [READS, BOUND, rule]})
        found = run("policy", "replay", "--json", "--config", path).json()["differ"]
        assert [item["seq"] for item in found] == [mails[number]["seq"] for number in allowed]


async def test_calls_that_differ_in_anything_are_decided_apart(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    calls = [("orders__send_mail", {"to": to}) for to in ("x", "y", "x")]
    path = await recorded(tmp_path, {"rules": [READS]}, calls)

    async with Gateway.load(path) as gateway:
        await gateway.call(*calls[0], principal=gateway.principal("bot", "ann"), session="s")
    rule = {"id": "mails", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow", "when": "args.to == 'x'"}
    write_policy(tmp_path / "p", {"rules": [READS, rule]})
    found = runner(capfdbinary)("policy", "replay", "--json", "--config", path).json()["differ"]
    assert [(item["now"], item["rule"]) for item in found] == [("allow", "mails")] * 2


async def test_a_rule_that_denied_and_asks_now_differs(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    mails = {"id": "mails", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "deny", "when": "args.to == 'x'"}
    allow = {"id": "allow", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow"}
    path = await recorded(tmp_path, {"rules": [allow, mails]}, [("orders__send_mail", {"to": "x"})])
    run = runner(capfdbinary)
    write_policy(tmp_path / "p", {"rules": [allow, mails | {"verdict": "ask"}]})

    (found,) = run("policy", "replay", "--json", "--config", path).json()["differ"]

    assert (found["before"], found["now"], found["rule"]) == ("deny", "ask", "mails")


async def test_calls_that_the_rules_were_not_asked_about_do_not_differ(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    limits = [{"id": "few", "per": ["principal"], "rate": "2/day"}]
    refused = [("orders__get_health", {}), ("orders__delete_order", {"id": "a"}), ("orders__nope", {})]
    bound = {**BOUND, "tools": ["orders__create_open_order"], "bind": {"body.tenant_id": "principal.attributes.tenant"}}
    calls = [("orders__create_open_order", {"body": 3}), ("orders__get_health", {}), *refused]
    path = await recorded(tmp_path, {"rules": [READS, bound], "limits": limits}, calls)
    run = runner(capfdbinary)
    same = run("policy", "replay", "--json", "--config", path)
    assert (same.code, same.json()["calls"], same.json()["unasked"], same.json()["differ"]) == (0, 5, 3, [])
    assert line_names(run("policy", "replay", "--config", path).out, "of 3 ", "not evaluated")


async def test_replay_asks_the_guards_of_statements_and_places_too(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = make_project(tmp_path / "p")
    policies = path.parent / "policies" / "policy.yaml"
    statements = ["SELECT name FROM customers", "SELECT id FROM customers", "SELECT email FROM customers", "nonsense"]

    async with Gateway.load(path) as gateway:
        for statement in statements:
            await gateway.call("shop__query", {"sql": statement}, principal="bot")
        await gateway.call("shop__query", {"sql": 5}, principal="bot")
    run = runner(capfdbinary)
    same = run("policy", "replay", "--json", "--config", str(path))
    assert (same.code, same.json()["calls"], same.json()["differ"]) == (0, 5, [])
    other = {"shop": {"tables": {"customers": {"columns": ["id", "email"]}}, "max_rows": 10}}
    policies.write_text(json.dumps({**POLICY, "sql": other}), encoding="utf-8")
    changed = run("policy", "replay", "--json", "--config", str(path))
    differ = changed.json()["differ"]
    assert (changed.code, [(item["before"], item["now"]) for item in differ]) == (
        1,
        [("allow", "deny"), ("deny", "allow")],
    )
    assert "name" in differ[0]["why"]


async def test_replay_knows_that_a_place_was_closed(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = await recorded(tmp_path, {"rules": [READS]}, [("orders__get_health", {})])
    write_policy(tmp_path / "p", {"rules": [READS], "egress": {"private_networks": "deny"}})
    (differ,) = runner(capfdbinary)("policy", "replay", "--json", "--config", path).json()["differ"]
    assert (differ["before"], differ["now"]) == ("allow", "deny")


async def test_what_the_record_hides_is_undecidable(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    mail = {"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow", "when": "args.to != 'eve'"}
    path = await recorded(tmp_path, {"rules": [READS, mail], "sensitive": ["$.to"]})
    found = runner(capfdbinary)("policy", "replay", "--json", "--config", path).json()
    assert found["differ"] == []
    assert [item["tool"] for item in found["undecidable"]] == ["orders__send_mail"] * 2
    assert line_names(found["undecidable"][0]["why"], "/to ", "digest")


def test_explain_says_of_every_rule_why(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    rule = {"to": ["bot"], "tools": ["orders__create_order"], "verdict": "deny"}
    rules = [
        READS,
        BOUND,
        {**rule, "id": "users", "to": ["user"]},
        {**rule, "id": "mail", "tools": ["orders__send_mail"]},
        {**rule, "id": "large", "arguments": {"properties": {"amount_cents": {"minimum": 100}}}},
        {**rule, "id": "noted", "when": "args.note == 'x'"},
        {**rule, "id": "poor", "when": "args.amount_cents > principal.attributes.limit"},
        {**rule, "id": "tried", "shadow": True},
    ]
    path = str(project(tmp_path / "p", "http://127.0.0.1:9", {"rules": rules}))
    run = runner(capfdbinary)
    shown = run(
        "policy", "explain", "orders__create_order", "amount_cents=5", "--as", "bot", "--json", "--config", path
    )
    found = shown.json()
    assert (found["verdict"], found["rule"], found["bound"]) == ("deny", "noted", ["tenant_id"])
    why = {item["rule"]: (item["speaks"], item["why"].partition(":")[0]) for item in found["rules"]}
    applies = why["bound"][1]
    assert applies not in {"arguments", "tool", "when", "effect", "role"}
    assert why == {
        "bound": (True, applies),
        "large": (False, "arguments"),
        "mail": (False, "tool"),
        "noted": (True, "when"),
        "poor": (False, "when"),
        "reads": (False, "effect"),
        "tried": (True, applies),
        "users": (False, "role"),
    }
    text = run("policy", "explain", "orders__create_order", "amount_cents=5", "--as", "bot", "--config", path).out
    assert "deny by noted" in text
    wrong = run("policy", "explain", "orders__create_ordr", "--as", "bot", "--config", path)
    assert (wrong.code, "did you mean 'orders__create_order" in wrong.err) != (0, False)


def test_users_of_an_issuer_are_named_with_their_claims(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run = runner(capfdbinary)
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "keys.json").write_text(json.dumps({"keys": [jwk("rsa")]}))
    issuer = {
        "jwt": {"issuer": ISSUER, "audience": "toolgen", "jwks": "../keys.json"},
        "roles": ["staff"],
        "grants": {"groups": {"leads": ["user"]}},
    }
    mail = {"id": "mail", "to": ["user"], "tools": ["orders__send_mail"], "verdict": "allow"}
    health = {"id": "health", "to": ["staff"], "tools": ["orders__get_health"], "verdict": "allow"}
    user = {"issuer": "staff", "subject": "ann"}
    tests = [
        {"as": {**user, "claims": {"groups": ["leads"]}}, "call": "orders__send_mail", "expect": "allow"},
        {"as": user, "call": "orders__send_mail", "expect": "allow"},
    ]
    policy = {"issuers": {"staff": issuer}, "rules": [mail, health], "tests": tests}
    path = str(project(tmp_path / "p", "http://127.0.0.1:9", policy))
    checked = run("policy", "check", "--config", path)
    assert checked.code == 1
    assert line_names(checked.out, "staff:ann calling orders__send_mail: deny by default", "not allow")
    assert "1 tests passed, 1 failed" in checked.out
    lead = ("--as", "staff:ann", "--claims", '{"groups": "leads", "email": "ann@example.com"}')
    plain = ("--as", "staff:ann")
    for who, expected in ((lead, "allow"), (plain, "deny")):
        found = run("policy", "explain", "orders__send_mail", *who, "--json", "--config", path)
        assert found.json()["verdict"] == expected
        tried = run("call", "orders__send_mail", "--dry-run", *who, "--config", path)
        assert tried.code == (0 if expected == "allow" else 1)
    assert [tool["name"] for tool in run("tools", *lead, "--json", "--config", path).json()] == [
        "orders__get_health",
        "orders__send_mail",
    ]
    for wrong, said in (
        (("--as", "staff:ann", "--claims", "[]"), "must be a JSON object"),
        (("--as", "staff:ann", "--user-claims", '{"a": 1}'), "goes with --on-behalf-of"),
        (("--as", "stafff:ann"), "did you mean 'staff:ann'"),
    ):
        refused = run("policy", "explain", "orders__send_mail", *wrong, "--config", path)
        assert refused.code != 0
        assert said in refused.err


def test_explain_takes_calls_made_before_and_a_time(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    run = runner(capfdbinary)
    mail = {"to": ["bot"], "tools": ["orders__send_mail"], "verdict": "allow"}
    rules = [
        {**mail, "id": "checked", "when": "session.called('orders__check_fraud')"},
        {**mail, "id": "spent", "when": "history.sum('orders__create_order', 'amount_cents') > 10"},
    ]
    path = str(project(tmp_path / "p", "http://127.0.0.1:9", {"rules": rules}))

    def verdict(*after: str) -> tuple[str, str]:
        given = [part for text in after for part in ("--after", text)]
        found = run("policy", "explain", "orders__send_mail", "--as", "bot", *given, "--json", "--config", path).json()
        return found["verdict"], found["rule"]

    assert verdict() == ("deny", "default")
    assert verdict("orders__check_fraud") == ("allow", "checked")
    assert verdict("orders__check_fraud:ok") == ("allow", "checked")
    assert verdict("orders__check_fraud:failed") == verdict("orders__check_fraud:running") == ("deny", "default")
    spent = {"call": "orders__create_order", "arguments": {"amount_cents": 6}, "session": False}
    assert verdict(json.dumps(spent)) == ("deny", "default")
    assert verdict(*[json.dumps(spent)] * 2) == ("allow", "spent")
    for wrong, said in (
        ("orders__check_frod", "did you mean 'orders__check_fraud'"),
        ("orders__check_fraud:done", "done"),
        ('{"call": "orders__check_fraud", "argument": {}}', "argument"),
        ('{"call": "orders__check_fraud", "arguments": {"ordr": "1"}}', "has no argument 'ordr'"),
        ("{", "is not JSON"),
    ):
        refused = run("policy", "explain", "orders__send_mail", "--as", "bot", "--after", wrong, "--config", path)
        assert (refused.code, said in refused.err) == (2, True), refused


STAFF = {
    "jwt": {"issuer": ISSUER, "audience": "toolgen", "jwks": "../keys.json"},
    "roles": ["staff"],
    "grants": {"groups": {"leads": ["lead"]}},
    "attributes": {"tenant": "org"},
}
FRAUD = {"id": "fraud", "to": ["lead"], "tools": ["orders__check_fraud"], "verdict": "allow"}
OURS = {"id": "ours", "to": ["staff"], "tools": ["orders__get_health"], "verdict": "allow"}
ACME = {**OURS, "when": "principal.attributes.tenant == 'acme'"}


async def of_users(root: Path, **more: Any) -> str:
    """A project whose gateway took calls of users, two of them of one user whose claims had changed, and of an agent for one."""
    (root / "p").mkdir(exist_ok=True)
    (root / "p" / "keys.json").write_text(json.dumps({"keys": [jwk("rsa")]}))
    agent = {**PRINCIPALS, "bot": {**PRINCIPALS["bot"], "acts_for": ["staff:*"]}}
    policy = {"principals": agent, "issuers": {"staff": STAFF}, "rules": [FRAUD, OURS, READS], **more}

    with upstream() as (_, server):
        path = project(root / "p", server, policy, gateway={"turn_limit": "never"})
        async with Gateway.load(path) as gateway:
            before = gateway.principal("staff:ann", claims={"org": "acme"})
            after = gateway.principal("staff:ann", claims={"org": "acme", "groups": ["leads"]})
            for who in (before, after, before, gateway.callers.acting_for(gateway.principal("bot"), after)):
                assert who is not None
                for tool in ("orders__check_fraud", "orders__get_health"):
                    await gateway.call(tool, {}, principal=who)
    return str(path)


async def test_calls_of_users_are_decided_again_with_what_they_were_then(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run = runner(capfdbinary)
    path = await of_users(tmp_path)
    same = run("policy", "replay", "--json", "--config", path)
    assert (same.code, same.json()["calls"], same.json()["differ"], same.json()["undecidable"]) == (0, 8, [], [])
    [suggested] = yaml.safe_load(run("policy", "suggest", "--config", path).out)["rules"]
    assert (suggested["to"], suggested["tools"]) == (["staff"], ["orders__check_fraud"])
    policies = tmp_path / "p" / "policies" / "policy.yaml"
    whole = json.loads(policies.read_text())

    def replayed(**changed: Any) -> tuple[list[tuple[str, str, str]], set[str]]:
        policies.write_text(json.dumps({**whole, **changed}))
        found = run("policy", "replay", "--json", "--config", path).json()
        differ = [(item["principal"], item["before"], item["now"]) for item in found["differ"]]
        return differ, {item["why"] for item in found["undecidable"]}

    assert replayed(rules=[OURS, READS]) == ([("staff:ann", "allow", "deny"), ("bot", "allow", "deny")], set())
    globex = {**ACME, "when": "principal.attributes.tenant == 'globex'"}
    assert replayed(rules=[FRAUD, ACME, READS]) == ([], set())
    assert replayed(rules=[FRAUD, globex, READS])[0] == [
        *[("staff:ann", "allow", "deny")] * 3,
        ("bot", "allow", "deny"),
    ]
    gone = {"staff": {**STAFF, "grants": {"groups": {"leads": ["chief"]}}}}
    fraud = {**FRAUD, "to": ["chief"]}
    (why,) = replayed(issuers=gone, rules=[fraud, OURS, READS])[1]
    assert line_names(why, "staff", "'lead'")


async def test_what_the_record_says_of_users_it_says_once_and_nothing_that_is_sensitive(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run = runner(capfdbinary)
    path = await of_users(tmp_path, sensitive=["$..tenant"], rules=[FRAUD, ACME, READS])
    written = [*entries(tmp_path / "p" / "var" / "audit")]
    told = [entry for entry in written if entry["event"] == "identity"]
    assert [(entry["principal"], entry["arguments"]["roles"]) for entry in told] == [
        ("staff:ann", ["staff"]),
        ("staff:ann", ["lead", "staff"]),
        ("staff:ann", ["staff"]),
        ("staff:ann", ["lead", "staff"]),
    ]
    assert all(entry["arguments"]["attributes"]["tenant"].startswith("hmac-sha256:") for entry in told)
    assert "acme" not in json.dumps(written)
    found = run("policy", "replay", "--json", "--config", path).json()
    (why,) = {item["why"] for item in found["undecidable"]}
    assert line_names(why, "/attributes/tenant ", "digest")
    assert run("audit", "verify", "--config", path).code == 0


async def test_calls_of_one_user_with_other_claims_at_the_same_time_are_told_apart(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = Path(await of_users(tmp_path))

    async with Gateway.load(path) as gateway:
        users = [gateway.principal("staff:ann", claims={"groups": groups}) for groups in ([], ["leads"])] * 10
        await asyncio.gather(*(gateway.call("orders__check_fraud", {}, principal=user) for user in users))
    found = runner(capfdbinary)("policy", "replay", "--json", "--config", str(path)).json()
    # What nothing answered was allowed all the same: the service of the first calls is gone.
    assert (found["calls"], found["differ"], found["undecidable"]) == (28, [], [])


async def test_what_a_person_denied_and_an_executor_would_not_send_does_not_differ(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """A call that waited and was denied, one without the token it is exchanged for, and one that waits for a person without it."""
    path = make_project(tmp_path / "p", server="http://127.0.0.1:9")
    pets = tmp_path / "p" / "specs" / "pets.json"
    described = json.loads(pets.read_text())
    flow = {"clientCredentials": {"tokenUrl": "http://127.0.0.1:9/token", "scopes": {}}}
    described["components"]["securitySchemes"]["key"] = {"type": "oauth2", "flows": flow}
    operations = described["paths"]["/pets/{petId}"]
    described["paths"]["/asked"] = {"get": {**operations["get"], "operationId": "askedPet", "parameters": []}}
    pets.write_text(json.dumps(described))
    exchange = {"client_id": "a", "client_secret": "${env:TEST_PETS_KEY}", "subject_token": "principal"}
    sources = json.loads(path.read_text())["sources"]
    path.write_text(json.dumps({"sources": {**sources, "pets": {**sources["pets"], "auth": {"key": exchange}}}}))
    asked = {"id": "asked", "to": ["bot"], "verdict": "ask"}
    rules = [
        {**asked, "tools": ["pets__delete_pet"]},
        {**asked, "id": "asked-too", "tools": ["pets__asked_pet"]},
        {"id": "reads", "to": ["bot"], "tools": ["pets__get_pet"], "verdict": "allow"},
    ]
    approvals = {"approvers": ["reviewer"]}
    policies = tmp_path / "p" / "policies" / "policy.yaml"
    policies.write_text(json.dumps({**POLICY, "rules": rules, "approvals": approvals}))

    async with Gateway.load(path) as gateway:
        waiting = await gateway.call("pets__delete_pet", {"petId": 1}, principal="bot")
        reviewer = gateway.principal("reviewer")
        await gateway.approvals.decide(waiting.call_id, approve=False, note="", principal=reviewer)
        sent = await gateway.call("pets__get_pet", {"petId": 1}, principal="bot")
        unkept = await gateway.call("pets__asked_pet", {}, principal="bot")
        ended = [one.error.code if one.error else one.status for one in (waiting, sent, unkept)]
    assert ended == ["approval_required", "forbidden", "forbidden"]
    found = runner(capfdbinary)("policy", "replay", "--json", "--config", str(path))
    assert (found.code, found.json()["calls"], found.json()["differ"]) == (0, 3, [])


def test_accept_says_which_files_were_accepted_and_that_is_on_record(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run, path = runner(capfdbinary), make_project(tmp_path)
    done = run("policy", "accept", "--config", str(path))
    assert (done.code, done.out) == (0, "accepted 1 policy files (policy.yaml)\n")
    (entry,) = (one for one in entries(tmp_path / "var" / "audit") if one["event"] == "policy")
    assert entry["arguments"]["accepted"] == ["policy.yaml"]
    assert entry["policy_digest"] == Gateway.load(path).policy.digest
    (tmp_path / "policies" / "policy.yaml").write_text("rules: [")
    assert run("policy", "accept", "--config", str(path)).code == 1


def test_what_cannot_be_written_beside_the_policy_is_accepted_in_the_state_of_the_project(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run, path = runner(capfdbinary), make_project(tmp_path)
    (tmp_path / "policies" / ACCEPTED).mkdir()
    done = run("policy", "accept", "--config", str(path), "--json")
    assert done.code == 0, done.err
    assert done.json()["written"] == str(tmp_path / "var" / "state" / "policy-accepted.json")
