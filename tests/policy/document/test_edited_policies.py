"""Policy reader: whatever a series of edits makes of the files, a policy is what reading it anew would make it, and decides the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from tests.catalogs import catalog, http_tool
from tests.exhaustive import examples
from toolgen.config.policies import policy_reader
from toolgen.core.clock import FixedClock
from toolgen.core.errors import PolicyError, StateError
from toolgen.gateway.identity import Identity, KeySets
from toolgen.model.call import Principal
from toolgen.model.tool import Effect
from toolgen.policy.access import Access, EvaluationContext
from toolgen.policy.cel.expression import Expression
from toolgen.policy.document.policy import Policy, PolicyReader
from toolgen.policy.document.policy_files import PolicyFiles

_PROPERTIES = {"limit": {"type": "integer"}, "tenant": {"type": "string"}}
_TOOLS = catalog(
    http_tool("shop__list", Effect.READ, _PROPERTIES),
    http_tool("shop__create", Effect.WRITE, _PROPERTIES),
    http_tool("shop__delete", Effect.DESTRUCTIVE, _PROPERTIES),
)
_SECRETS = tuple(f"secret-{number}" for number in range(5))
_CALLS: tuple[dict[str, Any], ...] = ({}, {"limit": 3}, {"limit": 30, "tenant": "acme"}, {"limit": "30"})


def _sha(number: int) -> str:
    return hashlib.sha256(_SECRETS[number].encode()).hexdigest()


_PRINCIPALS = (
    "  bot: {roles: [one], attributes: {tenant: acme}}",
    "  bot: {roles: [two], attributes: {tenant: 5}}",
    f"  ann: {{roles: [two], api_key: 'sha256:{_sha(0)}', acts_for: [bot]}}",
    f"  eve:\n    roles: [one, two]\n    api_key:\n    - {{hash: 'sha256:{_sha(1)}', expires: '2020-01-01'}}\n    - 'sha256:{_sha(2)}'",
    f"  mtls: {{roles: [one], mtls: {{fingerprint: 'sha256:{_sha(0)}'}}}}",
    "  '': {}",
    "  # a comment",
    "",
)
_RULES = (
    "  - {id: a, to: [one], tools: ['shop__*'], verdict: allow}",
    "  - {id: b, to: [one], tools: ['shop__*'], when: \"principal.attributes.tenant == 'acme'\", verdict: allow}",
    "  - {id: c, to: [two], tools: [shop__list], when: \"principal.id == 'eve'\", verdict: allow}",
    "  - id: d\n    to: [two]\n    tools: [shop__create]\n    arguments: {properties: {limit: {maximum: 5}}}\n    verdict: allow",
    "  - {id: e, to: [one, two], tools: [shop__create], bind: {tenant: principal.attributes.tenant}, verdict: allow}",
    "  - {id: f, to: [two], tools: ['shop__*'], when: 'args.limit > 5', verdict: deny}",
    "  - {id: a, to: [two], tools: [shop__delete], verdict: ask}",
    "  - {id: g, to: [nobody], tools: ['shop__*'], verdict: allow}",
    "  - {id: h, to: [one], tools: [shop__delete], when: 'principal.attributes.other', verdict: deny, shadow: true}",
    "  # a comment",
    "",
)
_KEYS = (
    f"  - {{principal: bot, hash: 'sha256:{_sha(3)}', created: '2026-01-01T00:00:00Z'}}",
    f"  - {{principal: bot, hash: 'sha256:{_sha(4)}', expires: '2099-01-01T00:00:00Z'}}",
    f"  - {{principal: ann, hash: 'sha256:{_sha(0)}', created: '2026-01-01T00:00:00Z'}}",
    f"  - {{principal: eve, hash: 'sha256:{_sha(3)}'}}",
    "  - {principal: bot, hash: short}",
    "  # a comment",
    "",
)
_REVOKED = (
    f"  - {{key: 'sha256:{_sha(3)[:8]}'}}",
    f"  - {{key: 'sha256:{_sha(2)}'}}",
    "  - {principal: ann, before: '2025-06-01T00:00:00Z'}",
    "  - {principal: bot}",
    "",
)


def _section(name: str, lines: tuple[str, ...], most: int) -> st.SearchStrategy[str]:
    """A section with some of these lines, in any order: the first are the likelier ones."""
    chosen = st.lists(st.sampled_from(lines), max_size=most, unique=True)
    return chosen.map(
        lambda found: "\n".join([f"{name}:" if any(map(str.strip, found)) else f"{name}: []", *found, ""])
    )


_FILES = st.fixed_dictionaries(
    {
        "keys-2.yaml": _section("keys", _KEYS, 3),
        "keys.yaml": st.tuples(_section("keys", _KEYS, 3), _section("revoked", _REVOKED, 2)).map("".join),
        "principals.yaml": _section("principals", _PRINCIPALS, 5),
        "rules.yaml": _section("rules", _RULES, 6),
    }
)
_START = {
    "keys-2.yaml": "keys: []\n",
    "keys.yaml": f"keys:\n{_KEYS[0]}\n{_KEYS[1]}\nrevoked: []\n",
    "principals.yaml": "\n".join(("principals:", _PRINCIPALS[0], _PRINCIPALS[2], _PRINCIPALS[3], "")),
    "rules.yaml": "\n".join(("rules:", *_RULES[:6], "")),
}
_EDIT = st.one_of(
    st.sampled_from(sorted(_START)).flatmap(lambda name: _FILES.map(lambda files: {name: files[name]})),
    st.just(_START),
    _FILES,
)


def _said(value: object) -> object:
    """All that a policy says, with expressions as their text: two of them are never equal."""
    match value:
        case Expression():
            return "expression", value.source, value.variables, value.excluded, value.reads()
        case Struct():
            return type(value), {name: _said(getattr(value, name)) for name in value.__struct_fields__}
        case Mapping():
            return {name: _said(item) for name, item in value.items()}
        case list() | tuple():
            return [_said(item) for item in value]
        case _:
            return value


def _read(reader: PolicyReader, files: Mapping[str, str]) -> Policy | str:
    contents = {name: text.encode() for name, text in files.items()}
    try:
        return reader.read(PolicyFiles(directory="policies", contents=contents), _TOOLS)
    except PolicyError as error:
        return str(error)


async def _nothing(_: str, __: int) -> bytes:
    raise StateError("no key set is asked for")


class _InForce:
    """Rules and keys of a policy in force, compiled with those before or anew."""

    def __init__(self, policy: Policy, before: _InForce | None) -> None:
        clock = FixedClock()
        self.access: Access = Access(
            policy.rules, _TOOLS.tools, policy.toolsets, before=None if before is None else before.access
        )
        self.identity: Identity = Identity(
            policy.credentials, clock, KeySets(_nothing, clock), before=None if before is None else before.identity
        )

    async def answers(self) -> list[object]:
        """Who has each key, which rules are considered for each principal, and what they say of calls."""
        found: list[object] = [self.identity.has_credentials, self.identity.names]
        for secret in _SECRETS:
            whose = await self.identity.authenticate(secret)
            found.append((whose.id, whose.proof) if isinstance(whose, Principal) else whose)
        for name in self.identity.names:
            principal = replace(self.identity.named(name), under=None)
            for tool in _TOOLS.tools.values():
                found.append([one.rule.where for one in self.access.considered(principal, tool)])
                found.append([_said(one) for one in self.access.bound(principal, tool)])
                circumstances = EvaluationContext(now=1.8e9)
                found += [self.access.judge(principal, tool, call, circumstances) for call in _CALLS]
        return found


@example([{"principals.yaml": "\n".join(("principals:", *_PRINCIPALS[:3:2], ""))}])  # of one whom a rule names
@given(st.lists(_EDIT, min_size=1, max_size=5))
@settings(max_examples=examples(400), deadline=None)
async def test_an_edited_policy_is_what_reading_it_anew_makes_it(edits: list[dict[str, str]]) -> None:
    reader, before = policy_reader(Path("policies")), None
    files = _START
    for edit in ({}, *edits):
        files = files | edit
        edited, anew = _read(reader, files), _read(policy_reader(Path("policies")), files)
        assert _said(edited) == _said(anew)
        if isinstance(edited, Policy) and isinstance(anew, Policy):
            before, fresh = _InForce(edited, before), _InForce(anew, None)
            assert await before.answers() == await fresh.answers()


def test_what_an_edit_leaves_is_not_read_again() -> None:
    reader = policy_reader(Path("policies"))
    before = _read(reader, _START)
    after = _read(reader, _START | {"rules.yaml": _START["rules.yaml"] + _RULES[8] + "\n", "keys-2.yaml": "keys:\n"})
    assert isinstance(before, Policy)
    assert isinstance(after, str)  # `keys:` says nothing
    lines = _START["rules.yaml"].replace(
        "rules:\n", "rules:\n  # a line more\n  - {id: i, to: [one], tools: [shop__list], verdict: ask}\n"
    )
    after = _read(reader, _START | {"rules.yaml": lines})
    assert isinstance(after, Policy)
    assert all(after.principals[name] is entry for name, entry in before.principals.items())
    assert {rule.id: rule.when for rule in before.rules if rule.when} == {
        rule.id: rule.when for rule in after.rules if rule.when
    }
    first = Access(before.rules, _TOOLS.tools)
    second = Access(after.rules, _TOOLS.tools, before=first)
    bot = Principal(id="bot", roles=frozenset({"two"}))
    ways = [access.considered(bot, _TOOLS.tools["shop__create"]) for access in (first, second)]
    assert [one.rule.id for one in ways[0]] == [one.rule.id for one in ways[1]]
    assert [one.validator for one in ways[0]] == [one.validator for one in ways[1]]


async def test_a_key_that_stands_twice_is_revoked_where_either_place_is() -> None:
    keys = f"keys:\n{_KEYS[2]}\nrevoked:\n{_REVOKED[2]}\n"  # from after the time, and without a time
    policy = _read(policy_reader(Path("policies")), _START | {"keys.yaml": keys})
    assert isinstance(policy, Policy)
    assert len(policy.principals["ann"].keys) == 2
    identity = _InForce(policy, None).identity
    assert not isinstance(await identity.authenticate(_SECRETS[0]), Principal)
