"""What a user may do is derived from claims by the policy in force, for as long as anything remembers the user."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.catalogs import PETS
from tests.exhaustive import examples
from tests.gateway.governed import write_policy
from tests.gateway.issuer import AUDIENCE, ISSUER, jwk, token
from tests.gateway.test_issuer_users import call, code, scenario, whole
from toolgen.config.policies import load_policy as load
from toolgen.core.canonical import digest
from toolgen.core.clock import SystemClock
from toolgen.frontends.adapters.calls import AdapterCaller
from toolgen.gateway.identity import Identity, KeySets, TokenRejected
from toolgen.gateway.operations.kept_principals import of_party, party_of
from toolgen.model.call import Call, Principal
from toolgen.pipeline.stages.approve import approval_digest
from toolgen.policy.credentials import ALGORITHMS, IssuerEntry, PolicyCredentials, TokenRule, claims_read
from toolgen.state.invocations import PrincipalRef
from toolgen.state.pauses import Pause

MAIL = {"id": "mail", "to": ["lead"], "tools": ["orders__send_mail"], "verdict": "ask"}
LEADS = {"groups": ["leads"], "org": {"id": "acme"}}


def asking(**more: Any) -> dict[str, Any]:
    """A policy under which leads, who are leads by their claims alone, may send mail when ops agrees."""
    policy = copy.deepcopy(whole(rules=[MAIL], approvals={"approvers": ["ops"]}, **more))
    policy["principals"] = {"ops": {"roles": ["ops", "lead"]}}
    return policy


def edited(edit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    policy = asking()
    edit(policy["issuers"]["staff"])
    return policy


EDITS: dict[str, tuple[Callable[[dict[str, Any]], None], bool]] = {
    "the mapping is gone": (lambda staff: staff.pop("grants"), True),
    "the group gives another role": (lambda staff: staff["grants"]["groups"].update(leads=["staff"]), True),
    "the group gives one more": (lambda staff: staff["grants"]["groups"].update(leads=["lead", "ops"]), True),
    "another claim is asked": (lambda staff: staff.update(grants={"teams": {"leads": ["lead"]}}), True),
    "the role comes by another way": (lambda staff: staff.update(grants={}, roles=["staff", "lead"]), True),
    "the tenant is another claim": (lambda staff: staff["attributes"].update(tenant="sub"), True),
    "the token is for another audience": (lambda staff: staff["jwt"].update(audience="elsewhere"), True),
    "the token lacks a scope": (lambda staff: staff["jwt"].update(scopes=["tools:call"]), True),
    "the issuer is gone": (lambda staff: staff["jwt"].update(issuer="https://new.example"), True),
    "another group gives something": (lambda staff: staff["grants"]["groups"].update(others=["lead"]), False),
}


@pytest.mark.parametrize("edit", EDITS)
async def test_a_call_that_waits_ends_when_its_caller_would_be_another_by_now(tmp_path: Path, edit: str) -> None:
    change, ends = EDITS[edit]

    async with scenario(tmp_path, asking()) as (gateway, who, seen):
        ann, ops = await who(**LEADS), gateway.principal("ops")
        calls = [(await call(gateway, ann, "send_mail", to=to)).call_id for to in ("first", "second")]
        pause = Pause(principal="staff:ann", since=0.0)  # so that what is approved is not made before the edit
        gateway.pausing.local.change(lambda _: (pause,))
        await gateway.approvals.decide(calls[0], approve=True, note="", principal=ops)
        write_policy(gateway.settings.path.parent, edited(change))
        assert await gateway.operations.reload()
        await gateway.approvals.decide(calls[1], approve=True, note="", principal=ops)
        gateway.pausing.local.change(lambda _: ())
        ended = [await gateway.approvals.calls.outcome(one, ann, 60) for one in calls]
        assert [code(one) for one in ended if one is not None] == ["expired" if ends else "ok"] * 2
        assert len(seen.requests) == (0 if ends else 2)


async def test_agents_in_the_same_process_and_users_named_by_hand_are_derived_anew_too(tmp_path: Path) -> None:
    async with scenario(tmp_path, asking()) as (gateway, who, _):
        by_token = AdapterCaller(gateway=gateway, party=await who(**LEADS), client="test")
        by_hand = AdapterCaller(gateway=gateway, party=gateway.principal("staff:ann", claims=LEADS), client="test")
        for caller in (by_token, by_hand):
            assert "lead" in caller.principal().roles
            assert code(await caller.call("orders__send_mail", {"to": "all"})) == "approval_required"
        write_policy(gateway.settings.path.parent, edited(lambda staff: staff.pop("grants")))
        assert await gateway.operations.reload()
        for caller in (by_token, by_hand):
            assert "lead" not in caller.principal().roles
            assert code(await caller.call("orders__send_mail", {"to": "all"})) == "unknown_tool"
        write_policy(gateway.settings.path.parent, edited(lambda staff: staff["attributes"].update(team="team")))
        assert await gateway.operations.reload()
        assert gateway.callers.current(await who(**LEADS)) is not None
        assert by_hand.principal().attributes == {"tenant": "acme"}


async def test_a_call_that_comes_under_another_policy_than_its_caller_was_let_in_by_is_made_by_who_that_is_now(
    tmp_path: Path,
) -> None:
    async with scenario(tmp_path, asking()) as (gateway, who, seen):
        ann = await who(**LEADS)  # as of a request whose body takes its time
        write_policy(gateway.settings.path.parent, edited(lambda staff: staff.pop("grants")))
        assert await gateway.operations.reload()
        assert code(await call(gateway, ann, "send_mail", to="all")) == "unknown_tool"
        write_policy(gateway.settings.path.parent, edited(lambda staff: staff["jwt"].update(audience="elsewhere")))
        assert await gateway.operations.reload()
        assert code(await call(gateway, ann, "send_mail", to="all")) == "forbidden"
        assert seen.requests == []


async def test_who_was_kept_before_it_was_said_where_roles_come_from_is_nobody_any_more(tmp_path: Path) -> None:
    async with scenario(tmp_path, asking()) as (gateway, who, _):
        ann = await who(**LEADS)
        kept = party_of(ann)
        assert gateway.callers.current(of_party(kept)) == ann
        old = PrincipalRef(id=kept.id, roles=kept.roles, attributes=kept.attributes, proof=kept.proof)
        assert gateway.callers.current(of_party(old)) is None


NAMES = st.sampled_from(["a", "b", "c"])
ROLES = st.frozensets(st.sampled_from(["r1", "r2", "r3"]), max_size=2)
PATHS = st.sampled_from(["groups", "/realm/roles", "scope"])
RULES = st.builds(
    lambda audience, scopes: TokenRule(
        issuer=ISSUER, audience=audience, jwks="keys", algorithms=frozenset(ALGORITHMS), scopes=scopes
    ),
    st.frozensets(st.sampled_from([AUDIENCE, "other"]), min_size=1),
    st.frozensets(NAMES, max_size=1),
)
MAPPINGS = st.builds(
    IssuerEntry,
    name=st.just("staff"),
    token=RULES,
    roles=ROLES,
    grants=st.dictionaries(PATHS, st.dictionaries(NAMES, ROLES)),
    attributes=st.dictionaries(NAMES, st.sampled_from(["level", "/org/id", "groups"])),
)
CLAIMS = st.fixed_dictionaries(
    {"aud": st.sampled_from([AUDIENCE, "other", [AUDIENCE, "x"]])},
    optional={
        "groups": st.lists(NAMES, unique=True) | NAMES | st.just("a b"),
        "realm": st.fixed_dictionaries({"roles": st.lists(NAMES)}),
        "scope": st.sampled_from(["a", "a b c", ""]),
        "level": st.integers(0, 3),
        "org": st.fixed_dictionaries({"id": NAMES}),
    },
)


async def _fetch(_: str, __: int) -> bytes:
    return json.dumps({"keys": [jwk("ed")]}).encode()


_KEYS = KeySets(_fetch, SystemClock())


def _identity(mapping: IssuerEntry) -> Identity:
    found = PolicyCredentials(principals={}, issuers={"staff": mapping}, revocations=(), revoked_keys=frozenset())
    return Identity(found, SystemClock(), _KEYS)


@settings(max_examples=examples(60), deadline=None)
@given(before=MAPPINGS, after=MAPPINGS, claims=CLAIMS)
async def test_whoever_is_remembered_is_who_their_token_would_make_them_now_or_nobody(
    before: IssuerEntry, after: IssuerEntry, claims: dict[str, Any]
) -> None:
    text = token("ed", **claims)
    known = await _identity(before).authenticate(text)
    assume(isinstance(known, Principal))
    assert isinstance(known, Principal)
    again = _identity(after).current(of_party(party_of(known)))
    now = await _identity(after).authenticate(text)
    if isinstance(now, TokenRejected):
        assert again is None
    elif again is None:
        assert claims_read(after) - claims_read(before)  # what was never kept cannot be asked
    else:
        assert again == now
        assert again.origin is not None
        assert now.origin is not None
        assert again.origin.mapping == now.origin.mapping


async def test_an_approval_is_bound_to_where_roles_came_from(tmp_path: Path) -> None:
    async with scenario(tmp_path, asking()) as (gateway, who, _):
        tool = gateway.manifest.tools["orders__send_mail"]

        def bound(principal: Principal) -> str:
            return approval_digest(Call(id="c", tool=tool, arguments={}, principal=principal), digest("the same"))

        ann = await who(**LEADS)
        other = await who(**{**LEADS, "groups": ["leads", "others"]})
        assert (ann.roles, ann.attributes) == (other.roles, other.attributes)
        assert bound(ann) != bound(other)
        assert bound(ann) == bound(of_party(party_of(ann)))


async def test_a_token_that_leads_to_another_principal_by_now_keeps_nobody_in(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [jwk("ed")]}), encoding="utf-8")

    def identity(name: str) -> Identity:
        folder = tmp_path / name
        folder.mkdir()
        jwt = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": "../keys.json", "subject": "ann"}
        rule = {"id": "reads", "to": ["reader"], "tools": ["*"], "effects": ["read"], "verdict": "allow"}
        policy = {"principals": {name: {"jwt": jwt, "roles": ["reader"]}}, "rules": [rule]}
        (folder / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
        return Identity(load(folder, PETS).credentials, SystemClock(), _KEYS)

    before, after = identity("ann"), identity("boss")
    text = token("ed", sub="ann")
    known, now = await before.authenticate(text), await after.authenticate(text)
    assert isinstance(known, Principal)
    assert isinstance(now, Principal)
    assert (known.id, now.id) == ("ann", "boss")
    assert before.current(known) == known
    assert after.current(known) is None
