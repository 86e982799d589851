"""Policy files: what is read, and every mistake named with its file and line."""

from __future__ import annotations

import hashlib
from pathlib import Path
from textwrap import dedent

import pytest

from tests.catalogs import PETS
from toolgen.config.policies import load_policy as load
from toolgen.core.errors import PolicyError
from toolgen.policy.document.approvals import NOBODY, Approval
from toolgen.policy.document.policy import Policy

HASH = "sha256:" + hashlib.sha256(b"key").hexdigest()
WHOLE = f"""\
principals:
  bot: {{api_key: "{HASH}", roles: [bot], attributes: {{tenant: acme}}, acts_for: [ann]}}
  ann: {{api_key: ["sha256:{"b" * 64}", {{hash: "sha256:{"c" * 64}", expires: 2030-01-01T00:00:00Z}}], roles: [user]}}
rules:
  - {{id: reads, to: [bot], tools: ["pets__*", shop__query], effects: [read], verdict: allow,
     arguments: {{properties: {{limit: {{maximum: 100}}}}}}}}
  - {{id: users, to: [user], tools: ["*"], verdict: ask}}
limits:
  - {{id: each, per: [principal, tool], rate: 60/min, burst: 10, cost: {{shop__query: 5}}}}
sql:
  shop: {{tables: {{customers: {{columns: [id, name], rows: "tenant = :tenant"}}, orders: {{}}}}, max_rows: 10, timeout: 500ms}}
egress: {{allow: ["api.example.com:443"], private_networks: deny, redirects: none}}
sensitive: ["$..card_number"]
redact:
  - {{tools: ["*"], fields: ["$..email"], with: "[hidden]"}}
tests:
  - {{as: bot, call: pets__list_pets, arguments: {{limit: 5}}, expect: allow, rule: reads, on_behalf_of: ann}}
approvals: {{approvers: [user], expires: 30m}}
"""


def loaded(directory: Path, **files: str) -> Policy:
    policies = directory / "policies"
    policies.mkdir(exist_ok=True)
    for name, text in files.items():
        (policies / f"{name}.yaml").write_text(dedent(text), encoding="utf-8")
    return load(policies, PETS)


def test_a_whole_policy_is_read(tmp_path: Path) -> None:
    policy = loaded(tmp_path, shop=WHOLE)
    assert [rule.id for rule in policy.rules] == ["reads", "users"]
    assert policy.principals["bot"].attributes == {"tenant": "acme"}
    assert policy.principals["ann"].keys[1].expires == 1893456000.0
    assert policy.approval == Approval(roles=frozenset({"user"}), expires_s=1800.0)
    assert policy.limits[0].per == ("principal", "tool")
    assert policy.sql["shop"].max_rows == 10
    assert policy.sql["shop"].timeout_s == 0.5
    assert policy.egress.allow == {("api.example.com", 443)}
    assert policy.redactions[0].replacement == "[hidden]"
    assert policy.tests[0].rule == "reads"


def test_who_may_answer_is_said_in_one_place(tmp_path: Path) -> None:
    assert loaded(tmp_path, shop=WHOLE.replace("approvals: {approvers: [user], expires: 30m}\n", "")).approval == NOBODY
    more = "approvals: {approvers: [bot]}"
    with pytest.raises(PolicyError, match=r"approvals: .*two files") as caught:
        loaded(tmp_path, shop=WHOLE, two=more)
    assert str(caught.value).startswith("policies/two.yaml:1")


def test_files_are_one_policy_whatever_their_order(tmp_path: Path) -> None:
    head, tail = WHOLE.split("limits:")
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first = loaded(tmp_path / "one", a=head, b="limits:" + tail)
    second = loaded(tmp_path / "two", b=head, a="limits:" + tail)
    assert first.digest == second.digest
    assert first.rules == second.rules or [rule.id for rule in first.rules] == [rule.id for rule in second.rules]


def test_the_digest_follows_the_meaning(tmp_path: Path) -> None:
    before = loaded(tmp_path, shop=WHOLE).digest
    assert loaded(tmp_path, shop=WHOLE + "\n# a remark\n").digest == before
    assert loaded(tmp_path, shop=WHOLE.replace("maximum: 100", "maximum: 101")).digest != before


MISTAKES = [
    ("tools: [\"pets__*\", shop__query]", "tools: [\"pets__lst_*\"]", "shop.yaml:5: 'pets__lst_*' matches no tool"),
    ("to: [bot]", "to: [bto]", "shop.yaml:5: no principal has the role 'bto' (did you mean 'bot'?)"),
    ("maximum: 100", "maximun: 100", "shop.yaml:6: rule reads: arguments: unknown JSON Schema keyword 'maximun' (did you mean 'maximum'?)"),
    ("{properties: {limit", "{propertes: {limit", "rule reads: arguments: unknown JSON Schema keyword 'propertes'"),
    ("maximum: 100", "format: uuid", "rule reads: arguments: unknown JSON Schema keyword 'format'"),
    ("maximum: 100", "maximum: x", "shop.yaml:6: rule reads: arguments:"),
    ("{limit: {maximum: 100}}}}", "{}, allOf: [{properties: {limt: {}}}]}}", "arguments: none of its tools has an argument 'limt'"),
    ("{limit: {maximum: 100}}}}", "{}, if: {required: [limt]}}}", "rule reads: arguments: none of its tools has an argument 'limt'"),
    ("arguments: {properties: {limit: {maximum: 100}}}}", "arguments: }", "rules.0.arguments: expected `object`, got `null`"),
    ("arguments: {properties: {limit: {maximum: 100}}}}", "arguments: {}}", "rule reads: arguments: it is empty and narrows nothing"),
    ("effects: [read]", "effects: []", "shop.yaml:5: rule reads: none of its tools has one of these effects"),
    ("effects: [read]", "effects: ", "expected `array`, got `null`"),
    ("columns: [id, name]", "columns: ", "expected `array`, got `null`"),
    ('rows: "tenant = :tenant"', "rows: ", "expected `str | object`, got `null`"),
    ("orders: {}", "orders: ", "got `null`"),
    ("burst: 10,", "burst: 99999999999999999999,", "shop.yaml:9: limits.0.burst:"),
    ('fields: ["$..email"]', "fields: []", "shop.yaml:15: redact.0.fields:"),
    ('tools: ["*"], fields', "tools: [], fields", "shop.yaml:15: redact.0.tools:"),
    ('tools: ["*"], fields: ["$..email"]', 'tools: [shop__query], fields: ["$.rows[*][2]"]', "'$.rows[*][2]' does not end with a column"),
    ("{limit: {maximum", "{limt: {maximum", "rule reads: arguments: none of its tools has an argument 'limt' (did you mean 'limit'?)"),
    ("verdict: ask", "verdict: asks", "shop.yaml:7: rules.1.verdict: invalid enum value 'asks'"),
    ("verdict: ask", "verdct: ask", "shop.yaml:7: unknown key 'verdct' in rules.1 (did you mean 'verdict'?)"),
    ("effects: [read]", "effects: [reads]", "shop.yaml:5: rules.0.effects.0: invalid enum value 'reads'"),
    ("{id: users", "{id: reads", "shop.yaml:7: the rule id 'reads' is used twice"),
    ("{id: users", "{id: default", "shop.yaml:7: the rule id 'default' is used twice"),
    ("to: [user]", "to: []", "shop.yaml:7: rule users names no role or no tool"),
    ("60/min", "60/fortnight", "shop.yaml:9: rate: '60/fortnight' is not like 60/min"),
    ("burst: 10", "burst: 0", "shop.yaml:9: limits.0.burst: expected `int` >= 1"),
    ("shop__query: 5", "shop__query: 50", "shop.yaml:9: cost of shop__query is more than the burst, 10"),
    ("cost: {shop__query", "cost: {shop__qery", "'shop__qery' matches no tool (did you mean 'shop__query'?)"),
    ("[principal, tool]", "[principle]", "shop.yaml:9: limits are not per 'principle' (did you mean 'principal'?)"),
    ("sql:\n  shop:", "sql:\n  shpo:", "shop.yaml:11: there is no SQL source 'shpo' (did you mean 'shop'?)"),
    ("{customers:", "{custmers:", "shop.yaml:11: "),
    ("[id, name]", "[id, nmae]", "shop.yaml:11: "),
    ("tenant = :tenant", "tenant = :tennant", "shop.yaml:11: no principal has the attribute 'tennant' (did you mean 'tenant'?)"),
    ("tenant = :tenant", "tenant = = :tenant", "shop.yaml:11: "),
    ("500ms", "500", "shop.yaml:11: "),
    ("500ms", "\"0s\"", "shop.yaml:11: timeout: must be like 2s or 500ms"),
    ("max_rows: 10", "max_rows: 0", "shop.yaml:11: "),
    ("api.example.com:443", "api.example.com", "shop.yaml:12: 'api.example.com' is not host:port"),
    ("redirects: none", "sources: {shap: []}", "shop.yaml:12: there is no source 'shap' (did you mean 'shop'?)"),
    ("redirects: none", "sources: {shop: [x]}", "shop.yaml:12: 'x' is not host:port, like api.example.com:443"),
    ("redirects: none", "redirects: any", "shop.yaml:12: egress.redirects: invalid enum value 'any'"),
    ("$..card_number", "..card_number", "shop.yaml:13: '..card_number' is not a JSONPath"),
    ("$..email", "$[", "shop.yaml:15: '$[' is not a JSONPath"),
    ("call: pets__list_pets", "call: pets__list_pet", "shop.yaml:17: there is no tool 'pets__list_pet'"),
    ("{limit: 5}", "{limti: 5}", "shop.yaml:17: pets__list_pets has no argument 'limti' (did you mean 'limit'?)"),
    ("as: bot", "as: bob", "shop.yaml:17: there is no principal 'bob' (did you mean 'bot'?)"),
    ("rule: reads", "rule: read", "shop.yaml:17: there is no rule 'read' (did you mean 'reads'?)"),
    (", acts_for: [ann]", "", "shop.yaml:17: bot has no 'ann' under acts_for"),
    ("acts_for: [ann]", "acts_for: [anna]", "shop.yaml:2: there is no principal 'anna' (did you mean 'ann'?)"),
    (HASH, "plain-key", "shop.yaml:2: api_key: must be sha256:"),
    ("2030-01-01T00:00:00Z", "someday", "shop.yaml:3: expires: 'someday' is not a time"),
    ("principals:\n", "principals:\n  bot: {}\n", "shop.yaml:3: the key 'bot' occurs twice"),
    ("principals:\n", "jwt: {}\nprincipals:\n", "shop.yaml:1: unknown key 'jwt' in the file"),
    ("approvers: [user]", "approvers: [usr]", "shop.yaml:18: no principal has the role 'usr' (did you mean 'user'?)"),
    ("approvers: [user]", "approvers: []", "shop.yaml:18: approvals.approvers"),
    ("approvers: [user], ", "elicitation: maybe, ", "shop.yaml:18: elicitation: takes allow or deny"),
    ("approvers: [user]", "approver: [user]", "shop.yaml:18: unknown key 'approver'"),
    *(
        ("expires: 30m", f"expires: {text}", "shop.yaml:18: expires: must be like 30m or 1h")
        for text in ("0s", "1d", "never", "200h", "-1h", "500ms")
    ),
    ("rules:\n", "rules: [\n", "is not YAML"),
    ("tests:\n", "tests: &a\n", ""),
    ("sensitive: [", "sensitive: &x [", ""),
    ('with: "[hidden]"', 'wth: "[hidden]"', "shop.yaml:15: unknown key 'wth' in redact.0"),
    ("redact:\n", "redact: *x\n", "is not YAML"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "message"), MISTAKES)
def test_mistakes_are_named_with_file_and_line(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    assert right in WHOLE
    text = WHOLE.replace(right, wrong, 1)
    if not message:  # an anchor nobody refers to does no harm
        loaded(tmp_path, shop=text)
        return
    with pytest.raises(PolicyError) as caught:
        loaded(tmp_path, shop=text)
    assert message in str(caught.value)
    assert "shop.yaml" in str(caught.value)


def test_one_key_belongs_to_one_principal(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="'ann' and 'bot'"):
        loaded(tmp_path, shop=WHOLE.replace(f"sha256:{'b' * 64}", HASH))


@pytest.mark.parametrize("name", ["deny.YAML", "deny.yaml.bak", "deny.json", "more"])
def test_a_file_that_would_not_be_read_is_an_error(tmp_path: Path, name: str) -> None:
    loaded(tmp_path, shop=WHOLE)
    (tmp_path / "policies" / "README.md").write_text("notes", encoding="utf-8")
    loaded(tmp_path, shop=WHOLE)
    if name == "more":
        (tmp_path / "policies" / name).mkdir()
    else:
        (tmp_path / "policies" / name).write_text("rules: []", encoding="utf-8")
    with pytest.raises(PolicyError, match="is not a policy file"):
        loaded(tmp_path, shop=WHOLE)


def test_columns_that_are_redacted_are_masked_for_every_tool_of_their_database(tmp_path: Path) -> None:
    text = WHOLE.replace("[id, name]", "[id, name, email]")
    policy = loaded(tmp_path, shop=text)
    assert policy.sql["shop"].tables["customers"].masks == {"email": "[hidden]"}
    assert policy.sql["shop"].tables["orders"].masks == {}


def test_a_key_that_was_written_out_is_not_repeated_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        loaded(tmp_path, shop=WHOLE.replace(HASH, "my-secret-key"))
    assert "my-secret-key" not in str(caught.value)


def test_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    bomb = "a: &a [1,1]\nb: &b [*a,*a]\nc: &c [*b,*b]\n"
    with pytest.raises(PolicyError, match="alias"):
        loaded(tmp_path, bomb=bomb)


@pytest.mark.parametrize(
    ("written", "expected"), [("cascades: true", True), ("cascades: false", False), ("columns: [id]", False)]
)
def test_what_a_change_sets_off_is_open_where_the_policy_says_so(tmp_path: Path, written: str, expected: bool) -> None:
    policy = loaded(tmp_path, a=f"sql: {{shop: {{tables: {{customers: {{writes: [update], {written}}}}}}}}}\n")
    assert policy.sql["shop"].tables["customers"].cascades is expected


def test_cascades_of_a_table_that_nobody_may_change_are_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"cascades:"):
        loaded(tmp_path, a="sql: {shop: {tables: {customers: {cascades: true}}}}\n")


@pytest.mark.parametrize(("key", "text"), [("egress", "egress: {}\n"), ("sql", "sql: {shop: {tables: {}}}\n")])
def test_what_may_stand_once_stands_in_one_file(tmp_path: Path, key: str, text: str) -> None:
    with pytest.raises(PolicyError, match=r"twice|two files"):
        loaded(tmp_path, a=text, b=text)


def test_no_policy_is_an_error_and_never_means_allow(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no such policy directory"):
        load(tmp_path / "policies", PETS)
    with pytest.raises(PolicyError, match="contains no policy"):
        loaded(tmp_path)


@pytest.mark.parametrize(
    "raw",
    [
        b"\xff\xfe\x00",
        b"rules: \x00",
        b"- a\n- b\n",
        b"text",
        b"rules: " + b"[" * 1000,
        b"a: " + b"[" * 100_000,
        b"- " * 100_000,
    ],
)
def test_what_is_no_policy_file_is_one_clear_error(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "broken.yaml").write_bytes(raw)
    with pytest.raises(PolicyError, match=r"broken\.yaml"):
        load(tmp_path / "policies", PETS)


BINDINGS = [
    (
        "{limt: principal.attributes.tenant}",
        "rule b: bind: pets__list_pets has no argument 'limt' (did you mean 'limit'?)",
    ),
    ("{limit.deep: principal.id}", "rule b: bind: pets__list_pets has no argument 'limit.deep'"),
    ("{limit: principal.attributes.tennant}", "no principal has the attribute 'tennant' (did you mean 'tenant'?)"),
    ("{limit: args.limit}", "limit is set from 'principal', 'user' or 'tool', not from 'args'"),
    ("{limit: session.labels}", "limit is set from 'principal', 'user' or 'tool', not from 'session'"),
    ("{limit: '5'}", "limit would have the same value for all callers"),
    ("{limit: principal.}", "Syntax error"),
]


@pytest.mark.parametrize(("bind", "message"), BINDINGS)
def test_what_cannot_be_bound_is_an_error(tmp_path: Path, bind: str, message: str) -> None:
    text = f"""
        principals: {{bot: {{roles: [bot], attributes: {{tenant: acme}}}}}}
        rules:
          - {{id: b, to: [bot], tools: [pets__list_pets], verdict: allow, bind: {bind}}}
    """
    with pytest.raises(PolicyError) as caught:
        loaded(tmp_path, p=text)
    assert message in str(caught.value)
    assert "p.yaml:4" in str(caught.value)
    with pytest.raises(PolicyError, match=r"rule b .*bind:"):
        loaded(tmp_path, p=text.replace("verdict: allow", "verdict: deny"))


@pytest.mark.parametrize(
    ("bind", "tell", "message"),
    [
        ("{limit: principal.attributes.tenant}", "[limt]", "tell: limt is not under bind: (did you mean 'limit'?)"),
        ("{limit: tool.name + principal.id}", "[limit]", "tell: limit depends on the tool"),
        ("{}", "[limit]", "tell: limit is not under bind:"),
    ],
)
def test_what_cannot_be_told_is_an_error(tmp_path: Path, bind: str, tell: str, message: str) -> None:
    text = f"""
        principals: {{bot: {{roles: [bot], attributes: {{tenant: acme}}}}}}
        rules:
          - {{id: b, to: [bot], tools: [pets__list_pets], verdict: allow, bind: {bind}, tell: {tell}}}
    """
    with pytest.raises(PolicyError) as caught:
        loaded(tmp_path, p=text)
    assert message in str(caught.value)


CONDITIONS = [
    (
        "when: 'principl.id == 1'",
        "shop.yaml:5: 'principl.id == 1': unknown name 'principl' (did you mean 'principal'?)",
    ),
    (
        "when: 'principal.attributes.tennant == principal.id'",
        "no principal has the attribute 'tennant' (did you mean 'tenant'?)",
    ),
    ("when: 'args.limt < 5'", "none of its tools has an argument 'limt' (did you mean 'limit'?)"),
    ("when: '1 + 1'", "'1 + 1' is int, not bool"),
    ("when: 'args.'", "shop.yaml:5: 'args.': column 6: Syntax error"),
    ("when: 5", "shop.yaml:5: rules.0.when: expected `str`"),
    ("when: ", "shop.yaml:5: rules.0.when: expected `str`, got `null`"),
    ("bind: {limit: principal.attributes.tenant}", "rule reads: bind: pets__get_pet has no argument 'limit'"),
    ("tools: [pets__list_pets], bind: {limt: x}", "occurs twice"),
    ("shadow: 1", "rules.0.shadow: expected `bool`"),
    ("shadow: true, bind: {sql: principal.id}", "rule reads is a shadow, so bind: is not allowed"),
]


@pytest.mark.parametrize(("key", "message"), CONDITIONS)
def test_what_no_condition_can_be_is_an_error(tmp_path: Path, key: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        loaded(tmp_path, shop=WHOLE.replace("verdict: allow,", f"verdict: allow, {key},"))
    assert message in str(caught.value)


SETS = [
    (
        "labels: [{tools: [pets__lst_pets], add: [a]}]",
        "'pets__lst_pets' matches no tool (did you mean 'pets__list_pets'?)",
    ),
    ("labels: [{tools: [pets__list_pets], add: ['a b']}]", "'a b' is not a valid label"),
    ("labels: [{tools: [pets__list_pets], add: []}]", "labels.0.add: expected `array` of length >= 1"),
    (
        "toolsets: {guest: {tools: [pets__lst_pets]}}",
        "'pets__lst_pets' matches no tool (did you mean 'pets__list_pets'?)",
    ),
    (
        "toolsets: {guest: {tools: [pets__list_pets], effects: [destructive]}}",
        "none of its tools has one of these effects",
    ),
    (
        "toolsets: {guest: {tools: [pets__list_pets], to: [usr]}}",
        "no principal has the role 'usr' (did you mean 'user'?)",
    ),
    ("toolsets: {'a b': {tools: [pets__list_pets]}}", "'a b' is not a valid name of a toolset"),
    ("toolsets: {guest: {tool: [pets__list_pets]}}", "unknown key 'tool' in toolsets.guest (did you mean 'tools'?)"),
]


@pytest.mark.parametrize(("text", "message"), SETS)
def test_labels_and_toolsets_name_what_exists(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        loaded(tmp_path, shop=WHOLE, more=text)
    assert message in str(caught.value)
    assert "more.yaml:1" in str(caught.value)


EARLIER = [
    ("at: noon", "at: 'noon' is not a time like"),
    ("after: [{call: pets__lst_pets}]", "there is no tool 'pets__lst_pets' (did you mean 'pets__list_pets'?)"),
    (
        "after: [{call: pets__list_pets, arguments: {limt: 1}}]",
        "pets__list_pets has no argument 'limt' (did you mean 'limit'?)",
    ),
    ("after: [{call: pets__list_pets, outcome: okay}]", "invalid enum value 'okay'"),
    ("toolset: gest", "there is no toolset 'gest'"),
]


@pytest.mark.parametrize(("key", "message"), EARLIER)
def test_what_tests_say_went_before_exists(tmp_path: Path, key: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        loaded(tmp_path, shop=WHOLE.replace("rule: reads,", f"rule: reads, {key},"))
    assert message in str(caught.value)
