"""Who is who in a policy: what is read, and every mistake named with its file and line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from tests.catalogs import PETS
from tests.policy.document.test_policy import loaded
from toolgen.config.policies import load_policy as load
from toolgen.core.errors import PolicyError
from toolgen.policy.credentials import ALGORITHMS, ApiKey, Revocation
from toolgen.policy.document import schema
from toolgen.policy.document.policy import load_credentials

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
WHOLE = f"""\
principals:
  bot: {{api_key: "{A}", roles: [bot]}}
  ops: {{jwt: {{issuer: "https://login.example", audience: toolgen, jwks: "https://login.example/keys", subject: s1}}, roles: [ops]}}
  edge: {{mtls: {{fingerprint: "{B}"}}, roles: [bot]}}
  mesh: {{mtls: {{subject: "CN=mesh,O=Acme", issuer: "CN=CA,O=Acme"}}, roles: [bot]}}
issuers:
  staff:
    jwt: {{issuer: "https://login.example", audience: [toolgen, other], jwks: "https://login.example/keys"}}
    roles: [staff]
    grants: {{groups: {{eng: [engineer, bot], sre: ops}}}}
    attributes: {{tenant: /org/tenant}}
rules:
  - {{id: reads, to: [bot, engineer, staff], tools: ["pets__*"], effects: [read], verdict: allow}}
sql:
  shop: {{tables: {{customers: {{rows: "tenant = :tenant"}}}}}}
keys:
  - {{principal: bot, hash: "sha256:{"c" * 64}", created: 2026-01-01T00:00:00Z, expires: 2027-01-01T00:00:00Z}}
revoked:
  - {{key: "{A}"}}
  - {{subject: ann, before: 2026-01-01T00:00:00Z}}
"""


def test_a_whole_one_is_read(tmp_path: Path) -> None:
    policy = loaded(tmp_path, who=WHOLE)
    found = policy.credentials
    ops, staff = found.principals["ops"], found.issuers["staff"]
    assert ops.token is not None
    assert (ops.subject, ops.token.audience, ops.token.algorithms) == ("s1", {"toolgen"}, set(ALGORITHMS))
    assert found.principals["bot"].keys[1] == ApiKey(
        sha256="c" * 64, created=1767225600.0, expires=1798761600.0, where="policies/who.yaml:17", managed=True
    )
    assert staff.all_roles == {"staff", "engineer", "bot", "ops"}
    assert staff.attributes == {"tenant": "/org/tenant"}
    assert found.revoked_keys == {"a" * 64}
    assert found.revocations == (Revocation(subject="ann", before=1767225600.0),)
    assert load_credentials(tmp_path / "policies") == found


def test_the_algorithms_are_the_same_in_both_places() -> None:
    assert get_args(schema._Algorithm) == ALGORITHMS


def test_a_key_is_no_change_of_the_policy_and_yet_noticed(tmp_path: Path) -> None:
    before = loaded(tmp_path, who=WHOLE)
    after = loaded(tmp_path, who=WHOLE.replace("c" * 64, "d" * 64))
    assert after.digest == before.digest
    assert after.keys_digest != before.keys_digest
    assert loaded(tmp_path, who=WHOLE.replace("roles: [staff]", "roles: [staff, ops]")).digest != before.digest


JWT = 'jwt: {issuer: "https://login.example", audience: toolgen, jwks: "https://login.example/keys", subject: s1}'
MISTAKES = [
    (", subject: s1}", "}", "who.yaml:3: jwt: needs a subject"),
    ("audience: toolgen, ", "", "who.yaml:3: principals.ops.jwt: object missing required field `audience`"),
    ("audience: toolgen,", 'audience: "",', "who.yaml:3: principals.ops.jwt.audience:"),
    ("audience: [toolgen, other]", "audience: []", "who.yaml:8: issuers.staff.jwt.audience:"),
    ("subject: s1}", "subject: s1, algorithms: [HS256]}", "invalid enum value 'HS256'"),
    ("subject: s1}", "subject: s1, algorithms: [none]}", "invalid enum value 'none'"),
    ("subject: s1}", "subject: s1, algorithms: []}", "principals.ops.jwt.algorithms:"),
    ("subject: s1}", "subject: s1, leeway: 5}", "unknown key 'leeway'"),
    ("subject: s1}", "subject: s1, algorithms: [EdDSA]}", "has different jwks or algorithms in another place"),
    ('jwks: "https://login.example/keys", subject', 'jwks: "https://other.example/keys", subject', "has different jwks"),
    ('jwks: "https://login.example/keys", subject', 'jwks: "http://login.example/keys", subject', "jwks: must be https"),
    ('jwks: "https://login.example/keys", subject', 'jwks: "http://127.0.0.1.evil.example/k", subject', "must be https"),
    ('jwks: "https://login.example/keys", subject', 'jwks: "https://a:b@login.example/k", subject', "neither a URL"),
    ('jwks: "https://login.example/keys", subject', 'jwks: "https://:0/k", subject', "neither a URL"),
    ('jwks: "https://login.example/keys", subject', 'jwks: "ftp://login.example/k", subject', "must be https"),
    ('jwks: "https://login.example/keys", subject', "jwks: ../keys.json, subject", "the file cannot be read"),
    ('jwks: "https://login.example/keys", subject', "jwks: /dev/zero, subject", "the file cannot be read: it is a device"),
    (f'fingerprint: "{B}"', "fingerprint: AA:BB", "who.yaml:4: mtls: a fingerprint is sha256:"),
    (f'fingerprint: "{B}"', "", "who.yaml:4: mtls: takes a fingerprint, or a subject and its issuer"),
    (f'fingerprint: "{B}"', 'subject: "CN=x"', "who.yaml:4: mtls: takes a fingerprint"),
    (f'fingerprint: "{B}"', f'fingerprint: "{B}", subject: "CN=x"', "who.yaml:4: mtls: takes a fingerprint"),
    ("  mesh:", f'  two: {{mtls: {{fingerprint: ["{A}", "{B}"]}}}}\n  mesh:', "who.yaml:5: mtls: 'two' and 'edge' have the same"),
    ("  staff:\n", "  Staff:\n", "who.yaml:7: an issuer's name is like staff"),
    ("  edge:", '  "staff:ann":', "has a name that a user of the issuer 'staff' could have"),
    ("roles: [staff]\n    grants: {groups: {eng: [engineer, bot], sre: ops}}", "", "gives its users no role"),
    ("[bot, engineer, staff]", "[bot, enginer]", "no principal has the role 'enginer' (did you mean 'engineer'?)"),
    ("tenant = :tenant", "tenant = :tennant", "no principal has the attribute 'tennant' (did you mean 'tenant'?)"),
    ("eng: [engineer, bot]", "eng: []", "issuers.staff.grants"),
    ("keys:\n  - {principal: bot", "keys:\n  - {principal: bto", "who.yaml:17: there is no principal 'bto' (did you mean 'bot'?)"),
    ("c" * 64, "c" * 63, "who.yaml:17: hash: must be sha256:"),
    ("c" * 64, "C" * 64, "who.yaml:17: hash: must be sha256:"),
    ("expires: 2027-01-01T00:00:00Z", "expires: soon", "who.yaml:17: expires: 'soon' is not a time"),
    ("expires: 2027-01-01T00:00:00Z", "expires: 0001-01-01T00:00:00+14:00", "is not a time"),
    (f'{{key: "{A}"}}', "{}", "who.yaml:19: must revoke either a key, or a certificate, or tokens"),
    (f'{{key: "{A}"}}', f'{{key: "{A}", subject: x}}', "who.yaml:19: must revoke either a key, or a certificate, or tokens"),
    (f'{{key: "{A}"}}', '{subject: ""}', "who.yaml:19: revoked.0.subject:"),
]  # fmt: skip


@pytest.mark.parametrize(("right", "wrong", "message"), MISTAKES)
def test_mistakes_are_named_with_file_and_line(tmp_path: Path, right: str, wrong: str, message: str) -> None:
    assert right in WHOLE
    with pytest.raises(PolicyError, match=re.escape(message)) as caught:
        loaded(tmp_path, who=WHOLE.replace(right, wrong, 1))
    assert "who.yaml" in str(caught.value) or "staff" in str(caught.value)


@pytest.mark.parametrize("subject", ["s1", "s2"])
def test_one_token_leads_to_one_principal(tmp_path: Path, subject: str) -> None:
    second = f"  also: {{{JWT.replace('s1', subject)}, roles: [ops]}}\nissuers:"
    text = WHOLE.replace("issuers:", second)
    if subject == "s2":
        loaded(tmp_path, who=text)
        return
    with pytest.raises(PolicyError, match="'also' and 'ops'"):
        loaded(tmp_path, who=text)


def test_a_key_given_out_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="have the same key"):
        loaded(tmp_path, who=WHOLE, more=f'keys: [{{principal: edge, hash: "{A}"}}]\n')
    one, other = (f"{{principal: {name}, hash: 'sha256:{'7' * 64}'}}" for name in ("edge", "ops"))
    loaded(tmp_path, who=WHOLE, more=f"keys: [{one}, {one}]\n")
    with pytest.raises(PolicyError, match="have the same key"):
        loaded(tmp_path, who=WHOLE, more=f"keys: [{one}, {other}]\n")
    (tmp_path / "policies" / "more.yaml").write_text(f"keys: [{other}]\n", encoding="utf-8")
    with pytest.raises(PolicyError, match="have the same key"):
        loaded(tmp_path, who=WHOLE, other=f"keys: [{one}]\n")


def test_a_key_set_may_be_a_file_beside_the_policy(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text("{}")
    policy = loaded(tmp_path, who=WHOLE.replace("https://login.example/keys", "../keys.json"))
    token = policy.principals["ops"].token
    assert token is not None
    assert token.jwks == str(tmp_path / "keys.json")
    assert load(tmp_path / "policies", PETS).digest == policy.digest


TESTED = (
    WHOLE
    + """\
tests:
  - {as: {issuer: staff, subject: ann, claims: {groups: [eng], org: {tenant: acme}}}, call: pets__list_pets, expect: allow}
  - {as: edge, on_behalf_of: {issuer: staff, subject: ann}, call: pets__list_pets, expect: allow}
"""
)
ACTING = "edge: {acts_for: ['staff:*'], "


def test_the_caller_of_a_test_is_made_of_its_claims(tmp_path: Path) -> None:
    first, second = loaded(tmp_path, who=TESTED.replace("edge: {", ACTING)).tests
    assert (first.caller.id, first.caller.roles) == ("staff:ann", {"staff", "engineer", "bot"})
    assert dict(first.caller.attributes) == {"tenant": "acme"}
    assert second.caller.on_behalf_of is not None
    assert (second.caller.id, second.caller.on_behalf_of.id) == ("edge", "staff:ann")
    assert second.caller.on_behalf_of.roles == {"staff"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("issuer: staff, subject: ann, c", "issuer: stuff, subject: ann, c", "who.yaml:22: there is no issuer 'stuff' (did you"),
        ("groups: [eng], org", "group: [eng], org", "who.yaml:22: the issuer 'staff' reads no claim 'group' (did you mean 'groups'?)"),
        ("groups: [eng]", "groups: [[eng]]", "who.yaml:22: no token with these claims is accepted: its claim"),
        ("tenant: acme}}}", "tenant: {a: b}}}}", "who.yaml:22: no token with these claims is accepted: a claim of its attributes"),
        ("subject: ann, c", 'subject: "", c', "who.yaml:22: no token with these claims is accepted: its subject"),
        ("subject: ann, c", "subject: 5, c", "who.yaml:22: "),
        ("subject: ann, c", "c", "who.yaml:22: "),
        ("subject: ann, c", "subject: ann, roles: [x], c", "who.yaml:22: "),
        ("as: edge", "as: 'staff:ann'", "who.yaml:23: there is no principal 'staff:ann' (write a user of an issuer as"),
        ("", "", "who.yaml:23: edge has no 'staff:ann' under acts_for"),
        ("edge: {", "edge: {acts_for: ['stuff:*'], ", "who.yaml:4: there is no principal 'stuff:*' (did you mean 'staff:*'?)"),
        ("edge: {", "edge: {acts_for: ['staff:'], ", "who.yaml:4: there is no principal 'staff:'"),
        ("edge: {", "edge: {acts_for: ['staff:bob'], ", "who.yaml:23: edge has no 'staff:ann' under acts_for"),
        ("edge: {", "edge: {acts_for: ['*'], ", "who.yaml:4: there is no principal '*'"),
    ],
)  # fmt: skip
def test_a_user_that_cannot_be_is_named_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(PolicyError) as raised:
        loaded(tmp_path, who=TESTED.replace(old, new, 1))
    assert message in str(raised.value)
