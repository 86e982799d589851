"""Faults planted in guards, one at a time: doctor notices each. A few in the default run, all with

TOOLGEN_PLANTED=all python -m pytest tests/quality/doctor/test_planted_faults.py
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.exhaustive import EXHAUSTIVE
from tests.projects import POLICY, make_project
from toolgen.audit import segment, verify
from toolgen.connectors.http import connector, redirects
from toolgen.connectors.sql.guard import granted_tables, guard
from toolgen.frontends.console import app as console_app
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.identity import jwks, principals, token_claims
from toolgen.gateway.policies import compiled_policy, permits
from toolgen.model.verdict import Allow
from toolgen.pipeline.stages import approve, idempotency, record
from toolgen.policy import access, arguments, egress, rules, sensitive_arguments
from toolgen.policy.binding import BoundArguments
from toolgen.policy.credentials import PolicyCredentials
from toolgen.quality.doctor.examination import attempts_on
from toolgen.quality.doctor.trial import tried
from toolgen.state import pauses, rate_limits, turn_counter

ALL = EXHAUSTIVE or os.environ.get("TOOLGEN_PLANTED") == "all"
ALLOW = Allow(rule="planted")
_check = egress.Egress.check


@dataclass(frozen=True)
class Planted:
    """A guard that does not do its work any more. The default run has some of them."""

    owner: Any
    name: str
    fault: Any
    default: bool = False


async def passes(_self: object, call: Any, call_context: Any, proceed: Any) -> Any:
    return await proceed(call, call_context)


async def lets_on(_self: object, call: Any, _call_context: Any) -> Any:
    return call


async def nothing_async(*_: Any, **__: Any) -> None:
    return None


def allows(*_: Any, **__: Any) -> Allow:
    return ALLOW


def listed_opens_all(self: egress.Egress, host: str, port: int, address: str = "", *, source: str = "") -> Any:
    """Once anything is listed, nothing is asked of addresses any more."""
    return ALLOW if self.allow and host == "doctor.invalid" else _check(self, host, port, address, source=source)


def no_sources(self: egress.Egress, host: str, port: int, address: str = "", *, source: str = "") -> Any:
    return _check(self, host, port, address, source="")


def laxest(verdicts: Any) -> Any:
    every = list(verdicts)
    return next((one for one in every if isinstance(one, Allow)), every[0])


async def unchecked(self: connector.Dialer, target: connector.Target) -> tuple[str, ...]:
    return (target.host,) if target.literal else await self._looked_up(target.host, target.port)


def every_column(table: Any, _scope: Any, _dialect: Any) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns)


def unexpiring(self: Any, digest: bytes) -> Any:
    found = self._keys.get(digest)
    return found[0] if found is not None else None


def parsed(text: str) -> Any:
    try:
        return ip_address(text.partition("%")[0])
    except ValueError:
        return None


PLANTED: dict[str, Planted] = {
    "special addresses are ordinary": Planted(egress, "_SPECIAL", ()),
    "IPv4 in IPv6 is not looked at": Planted(egress, "_literal", parsed, default=True),
    "every address is public": Planted(egress, "_is_public", lambda _: True),
    "nothing is private": Planted(egress, "_is_private", lambda _: False),
    "databases are anywhere": Planted(egress.Egress, "check_database", allows),
    "key sets are anywhere": Planted(egress.Egress, "check_keys", allows),
    "egress.allow opens everything": Planted(egress.Egress, "check", listed_opens_all),
    "places of a source are not asked for": Planted(egress.Egress, "check", no_sources),
    "redirects are always followed": Planted(egress.Egress, "check_redirect", allows),
    "redirects go anywhere": Planted(redirects, "origin_of", lambda _: ("", "", 0)),
    "what is dialled is not checked": Planted(connector.Dialer, "addresses", unchecked),
    "destinations are not inspected": Planted(permits, "destination_of", allows),
    "the laxest verdict wins": Planted(access, "strictest", laxest),
    "rules do not look at arguments": Planted(rules.CompiledRule, "applies", lambda *_: True, default=True),
    "everything is visible": Planted(access.Access, "visible", lambda *_: True),
    "nothing is bound": Planted(access, "bind", lambda _b, _t, given: BoundArguments(arguments=given)),
    "no argument is at fault": Planted(arguments.Validator, "accepts", lambda *_: True),
    "SQL's grammar is not checked": Planted(guard, "check_grammar", lambda *_: None),
    "SQL's rows are not filtered": Planted(guard, "install", lambda *_: ((), frozenset())),
    "SQL's hidden columns are visible": Planted(granted_tables, "visible_columns", every_column),
    "nothing is redacted": Planted(compiled_policy, "redactor", lambda *_: None),
    "secrets of a schema are recorded": Planted(record, "has_secrets", lambda _: False),
    "sensitive paths are recorded": Planted(
        sensitive_arguments, "replace_places", lambda value, *_: value, default=True
    ),
    "buckets are never empty": Planted(rate_limits.MemoryBuckets, "take", lambda *_: None),
    "pauses cover nothing": Planted(pauses.Pauses, "covering", lambda *_: None),
    "nobody is asked": Planted(approve.ApproveStage, "__call__", lets_on),
    "keys of repetition are forgotten": Planted(idempotency.LedgerStage, "__call__", passes),
    "turns are endless": Planted(turn_counter.MemoryTurnLease, "excess", nothing_async),
    "intents are not recorded": Planted(record.Record, "_append_intent", nothing_async),
    "keys never expire": Planted(principals.Identity, "_known", unexpiring),
    "keys are never revoked": Planted(PolicyCredentials, "key_check", lambda _: lambda *_: False),
    "every signature is good": Planted(jwks, "_signed_by", lambda *_: True, default=True),
    "tokens are for anybody": Planted(token_claims, "audience_fits", lambda *_: True),
    "tokens never expire": Planted(principals, "check_claims", lambda _, now: now + 60),
    "forms are not checked": Planted(console_app, "_check_form", lambda _, form: dict(form)),
    "nothing is synced": Planted(segment, "_sync_content", lambda _: None, default=True),
    "entries are not hashed again": Planted(verify, "_in_order", lambda line, head: verify._link(line)),
}


REMEMBERING = (egress._literal, egress._is_private, egress._is_public)
"""Verdicts of before a fault was planted: a process that began with it has none."""
UNNOTICED = {
    # What is no more private is not public either, so the next check refuses it: nothing gets through, and there is nothing to notice.
    "nothing is private",
}


async def failed(root: Path) -> list[str]:
    gateway = Gateway.load(root / "toolgen.yaml")
    found = [await tried(attempt) for attempt in attempts_on(gateway)]
    return [f"{trial.name}: {trial.detail}" for trial in found if not trial.ok]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEST_PETS_KEY", "canary-7f3a")
    for remembering in REMEMBERING:
        remembering.cache_clear()
    return make_project(tmp_path / "p", policy={**POLICY, "egress": {}}).parent


@pytest.mark.sweep
@pytest.mark.parametrize("name", [name for name, one in PLANTED.items() if one.default or ALL])
async def test_a_planted_fault_is_noticed(name: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = PLANTED[name]
    monkeypatch.setattr(planted.owner, planted.name, planted.fault)

    assert bool(await failed(root)) is (name not in UNNOTICED)


def test_every_guard_that_a_fault_is_planted_in_is_there() -> None:
    """The default run plants some of them only, and would not notice one that was moved."""
    assert [name for name, one in PLANTED.items() if one.name not in vars(one.owner)] == []


async def test_without_a_fault_nothing_fails(root: Path) -> None:
    assert await failed(root) == []


def test_at_most_one_fault_stays_unnoticed() -> None:
    assert len(UNNOTICED) <= 1
    assert len(PLANTED) >= 24


async def test_a_trial_that_would_not_notice_is_reported(root: Path) -> None:
    """Each attempt as it would be if it never found anything: that is a failure, and no success."""

    async def blind() -> str:
        return ""

    attempts = attempts_on(Gateway.load(root / "toolgen.yaml"))
    found = [await tried(replace(attempt, make=blind, unguarded=None)) for attempt in attempts]
    assert all(not trial.ok and "proves nothing" in trial.detail for trial in found)
