"""Narrowed policies: for any two policies and any call, nothing is allowed that either of them refuses."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.catalogs import catalog, http_tool
from toolgen.model.call import Principal
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.tool import Effect
from toolgen.model.verdict import Allow, Ask, Deny, Verdict
from toolgen.policy.access import Access, Rule
from toolgen.policy.credentials import ApiKey, PolicyCredentials, PrincipalEntry, TokenRule
from toolgen.policy.document.approvals import Approval
from toolgen.policy.limits import Limit
from toolgen.policy.narrowing import NarrowedAccess, _approval, _limits, _plain, _scope, narrowed_credentials
from toolgen.policy.redact import UnredactedArguments
from toolgen.policy.toolsets import Toolset

ROLES = ("a", "b", "c")
TOOLS = catalog(
    http_tool("s__get_x", Effect.READ, {"n": {"type": "integer"}}),
    http_tool("s__set_x", Effect.WRITE, {"n": {"type": "integer"}}),
    http_tool("s__drop_x", Effect.DESTRUCTIVE, {"n": {"type": "integer"}}),
).tools
NAMES = ("s__*", *TOOLS)

_roles = st.frozensets(st.sampled_from(ROLES), max_size=3)
_rules = st.lists(
    st.builds(
        lambda number, roles, tool, verdict, effects, most: Rule(
            id=f"r{number}",
            roles=roles,
            tools=(tool,),
            effects=frozenset(effects),
            names_destructive=Effect.DESTRUCTIVE in effects and len(effects) < 3,
            arguments=None if most is None else {"properties": {"n": {"maximum": most}}},
            verdict=verdict,
            where="",
        ),
        st.integers(0, 9),
        _roles,
        st.sampled_from(NAMES),
        st.sampled_from(["allow", "ask", "deny"]),
        st.sets(st.sampled_from(list(Effect)), min_size=1),
        st.none() | st.integers(0, 3),
    ),
    max_size=6,
)
_toolsets = st.dictionaries(
    st.sampled_from(["t", "u"]),
    st.builds(
        lambda tools, roles: Toolset(tools=tools, roles=roles), st.frozensets(st.sampled_from(list(TOOLS))), _roles
    ),
)


def _strictness(verdict: Verdict) -> int:
    return {Allow: 0, Ask: 1, Deny: 2}[type(verdict)]


@given(
    _rules, _rules, _toolsets, _toolsets, _roles, st.none() | _roles, st.sampled_from(list(TOOLS)), st.integers(0, 4)
)
def test_a_call_is_as_refused_as_in_the_stricter_of_both_policies(
    before: list[Rule],
    after: list[Rule],
    sets_before: dict[str, Toolset],
    sets_after: dict[str, Toolset],
    roles: frozenset[str],
    later: frozenset[str] | None,
    name: str,
    number: int,
) -> None:
    who, tool, arguments = Principal(id="p", roles=roles), TOOLS[name], {"n": number}
    there = None if later is None else Principal(id="p", roles=later)
    other = Access(after, TOOLS, sets_after)
    both = NarrowedAccess(before, TOOLS, sets_before, other=other, counterpart=lambda _: there)
    own = Access(before, TOOLS, sets_before)
    verdict = both.decide(who, tool, arguments)
    wanted = [_strictness(own.decide(who, tool, arguments))]
    wanted.append(2 if there is None else _strictness(other.decide(there, tool, arguments)))
    assert _strictness(verdict) == max(wanted)
    assert both.visible(who, tool) == (own.visible(who, tool) and there is not None and other.visible(there, tool))
    assert both.settled(who, tool) is None


_texts = st.frozensets(st.sampled_from(["x", "y", "z"]))
_keys = st.lists(
    st.builds(
        lambda sha, ends: ApiKey(sha256=sha * 64, expires=ends), st.sampled_from("abc"), st.none() | st.integers(1, 3)
    ),
    max_size=3,
    unique_by=lambda key: key.sha256,
)
_tokens = st.none() | st.builds(
    lambda issuer, audience, scopes: TokenRule(
        issuer=issuer, audience=audience, jwks="https://k", algorithms=frozenset({"RS256"}), scopes=scopes
    ),
    st.sampled_from(["i", "j"]),
    _texts,
    _texts,
)
_people = st.dictionaries(
    st.sampled_from(["p", "q"]),
    st.builds(
        lambda keys, acts, token: PrincipalEntry(
            id="p", keys=tuple(keys), roles=frozenset(), attributes={}, acts_for=acts, token=token
        ),
        _keys,
        _texts,
        _tokens,
    ),
)
_credentials = st.builds(
    lambda people, revoked: PolicyCredentials(principals=people, issuers={}, revocations=(), revoked_keys=revoked),
    _people,
    st.frozensets(st.sampled_from(["a" * 6, "b" * 6])),
)


@given(_credentials, _credentials)
def test_nobody_gets_in_whom_either_policy_keeps_out(before: PolicyCredentials, after: PolicyCredentials) -> None:
    found = narrowed_credentials(before, after)
    assert set(found.principals) == set(before.principals) & set(after.principals)
    assert found.revoked_keys == before.revoked_keys | after.revoked_keys
    for name, entry in found.principals.items():
        for one in (before.principals[name], after.principals[name]):
            ends = {key.sha256: key.expires for key in one.keys}
            for key in entry.keys:
                assert key.sha256 in ends
                assert ends[key.sha256] is None or (key.expires is not None and key.expires <= (ends[key.sha256] or 0))
            assert entry.acts_for <= one.acts_for
            if entry.token is not None:
                assert one.token is not None
                assert entry.token.issuer == one.token.issuer
                assert entry.token.audience <= one.token.audience
                assert entry.token.scopes >= one.token.scopes


_number = st.integers(0, 3)
_limits_drawn = st.lists(
    st.builds(
        lambda name, rate, burst, places, cost: Limit(
            id=name, per_second=float(rate), burst=burst, concurrency=places, cost=(("*", cost),)
        ),
        st.sampled_from("lm"),
        _number,
        _number,
        _number,
        _number,
    ),
    max_size=2,
    unique_by=lambda limit: limit.id,
)


@given(_limits_drawn, _limits_drawn)
def test_no_limit_lets_more_through_than_before(before: list[Limit], after: list[Limit]) -> None:
    found = {limit.id: limit for limit in _limits(tuple(before), tuple(after))}
    assert set(found) == {limit.id for limit in (*before, *after)}
    for limit in before:
        now = found[limit.id]
        assert (now.per_second, now.cost) <= (limit.per_second, limit.cost)
        assert now.burst <= limit.burst
        assert bool(now.burst) == bool(limit.burst)
        assert limit.concurrency == 0 or 0 < now.concurrency <= limit.concurrency


@given(_texts, _texts, st.booleans(), st.booleans(), st.integers(1, 3), st.integers(1, 3))
def test_nobody_answers_for_a_call_who_may_not_in_both(
    roles: frozenset[str], later: frozenset[str], elicits: bool, later_elicits: bool, quorum: int, later_quorum: int
) -> None:
    before = Approval(roles=roles, expires_s=60, elicits=elicits, quorum=quorum)
    after = Approval(roles=later, expires_s=30, elicits=later_elicits, quorum=later_quorum)
    found = _approval(before, after)
    assert (found.roles, found.elicits) == (roles & later, elicits and later_elicits)
    assert (found.quorum, found.expires_s) == (max(quorum, later_quorum), 30)


_tables = st.dictionaries(
    st.sampled_from(["t", "u"]),
    st.builds(
        lambda columns, rows, writes, masks: TableScope(columns=columns, rows=rows, writes=writes, masks=masks),
        st.none() | st.lists(st.sampled_from(["x", "y"]), unique=True).map(tuple),
        st.none() | st.just("x = :a"),
        _texts,
        st.dictionaries(st.sampled_from(["x", "y"]), st.just("'-'")),
    ),
)
_scopes = st.builds(
    lambda tables, rows, functions: SqlScope(tables=tables, max_rows=rows, functions=functions),
    _tables,
    _number,
    _texts,
)


@given(_scopes, _scopes)
def test_a_scope_of_sql_gives_no_more_than_before(before: SqlScope, after: SqlScope) -> None:
    found = _scope(before, after)
    assert found.max_rows <= before.max_rows
    assert found.functions <= before.functions
    for name, table in found.tables.items():
        old = before.tables[name]
        assert old.columns is None or set(table.columns or "?") - {"?"} <= set(old.columns)
        assert table.columns is not None or old.columns is None
        assert old.rows in {None, table.rows}
        assert table.writes <= old.writes
        assert all(table.masks.get(column) == mask for column, mask in old.masks.items())


_plains = st.none() | st.lists(
    st.builds(lambda name: UnredactedArguments(tools=(name,), fields=("$.x",)), st.sampled_from("xy"))
).map(tuple)


@given(_plains, _plains)
def test_nothing_is_recorded_plainly_that_was_not(before: Any, after: Any) -> None:
    found = _plain(before, after)
    for one in (before, after):
        assert one is None or (found is not None and set(map(str, found)) <= set(map(str, one)))
