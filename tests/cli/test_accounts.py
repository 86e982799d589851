"""`toolgen accounts` on the machine, `toolgen keys rotate`, and REST for one's own accounts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Run, runner
from tests.gateway.accounts.offices import write_project
from tests.messages import line_names, numbers
from tests.services.account_provider import SECRET, AccountProvider, account_provider
from toolgen.config.settings import load
from toolgen.core.clock import SystemClock
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.accounts.assembled import account_store
from toolgen.state.accounts import Account


@pytest.fixture
def toolgen(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    return runner(capsysbinary)


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AccountProvider]:
    """A provider with a project whose people have accounts there."""
    monkeypatch.setenv("ACCOUNT_CLIENT_SECRET", SECRET)
    with account_provider() as running:
        write_project(tmp_path / "project", running, "http://127.0.0.1:8080")
        monkeypatch.chdir(tmp_path / "project")
        asyncio.run(_link("ann", "bob"))
        yield running


async def _link(*people: str) -> None:
    gateway = Gateway.load("toolgen.yaml")
    accounts, now = gateway.accounts, time.time()
    for name in people:
        account = Account(
            person=accounts.person(gateway.principal(name)),
            principal=name,
            source="repos",
            name="default",
            issuer="",
            client=await accounts.client("repos").client_name(),
            scopes=("repo",),
            access_token=f"canary-access-of-{name}",
            refresh_token=f"canary-refresh-of-{name}",
            expires=now + 3600,
            linked=now,
            refreshed=now,
        )
        assert await accounts.store.put(account) is not None
    await accounts.close()


def test_accounts_are_listed_without_tokens(provider: AccountProvider, toolgen: Run) -> None:
    listed = toolgen("accounts", "list")
    assert (listed.code, "canary" in listed.out) == (0, False)
    assert [line.split()[:3] for line in listed.out.splitlines()[1:]] == [
        ["ann", "repos", "default"],
        ["bob", "repos", "default"],
    ]
    (own,) = toolgen("accounts", "list", "--as", "ann", "--json").json()
    assert (own["principal"], own["usable"]) == ("ann", True)
    assert set(own) == {"principal", "source", "name", "default", "usable", "scopes", "linked"}
    assert toolgen("accounts", "list", "--as", "rita", "--json").json() == []


def test_an_account_is_unlinked_and_revoked_at_the_system(provider: AccountProvider, toolgen: Run) -> None:
    done = toolgen("accounts", "unlink", "repos", "--as", "ann")
    assert (done.code, done.out) == (0, "unlinked, and revoked\n"), done.err
    assert provider.revoked == ["canary-refresh-of-ann", "canary-access-of-ann"]
    assert [one["principal"] for one in toolgen("accounts", "list", "--json").json()] == ["bob"]
    again = toolgen("accounts", "unlink", "repos", "--as", "ann")
    assert (again.code, "has no account" in again.err) == (1, True)


def test_all_accounts_of_a_principal_or_a_source_are_revoked(provider: AccountProvider, toolgen: Run) -> None:
    assert toolgen("accounts", "revoke").code == 2
    assert numbers(toolgen("accounts", "revoke", "--principal", "bob").out) == [1, 1]
    assert numbers(toolgen("accounts", "revoke", "--source", "repos").out) == [1, 1]
    assert len(provider.revoked) == 4
    assert toolgen("accounts", "list", "--json").json() == []
    assert "no account" in toolgen("accounts", "list").out


def test_accounts_of_principals_that_were_removed_are_revoked(provider: AccountProvider, toolgen: Run) -> None:
    assert numbers(toolgen("accounts", "revoke", "--removed").out) == [0, 0]
    policy = json.loads(Path("policies/policy.yaml").read_text(encoding="utf-8"))
    del policy["principals"]["bob"]
    policy["principals"]["bot"]["acts_for"] = ["ann"]
    Path("policies/policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    assert numbers(toolgen("accounts", "revoke", "--removed").out) == [1, 1]
    assert provider.revoked == ["canary-refresh-of-bob", "canary-access-of-bob"]


def test_a_system_that_is_away_keeps_no_account_linked(provider: AccountProvider, toolgen: Run) -> None:
    provider.more = {"issuer": "https://other.example.com"}
    done = toolgen("accounts", "unlink", "repos", "--as", "ann")
    assert (done.code, done.out.partition(";")[0]) == (0, "unlinked")
    assert "not be revoked" in done.out
    assert [one["principal"] for one in toolgen("accounts", "list", "--json").json()] == ["bob"]


def test_keys_are_rotated(provider: AccountProvider, toolgen: Run) -> None:
    key_file = load("toolgen.yaml").audit_dir / "accounts.key"
    before = key_file.read_text(encoding="ascii").split()
    for _ in range(2):
        assert numbers(toolgen("keys", "rotate").out) == [2]
    after = key_file.read_text(encoding="ascii").split()
    assert (len(after), before[0] in after) == (2, False)
    assert len(toolgen("accounts", "list", "--json").json()) == 2


def test_keys_of_the_environment_are_rotated_by_the_operator(
    tmp_path: Path, provider: AccountProvider, toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Path("toolgen.yaml").read_text(encoding="utf-8")
    Path("toolgen.yaml").write_text(
        text[:-1] + ', "accounts": {"keys": ["${env:NEW}", "${env:OLD}"]}}', encoding="utf-8"
    )
    old = (load("toolgen.yaml").audit_dir / "accounts.key").read_text(encoding="ascii").strip()
    monkeypatch.setenv("OLD", old)
    monkeypatch.setenv("NEW", "5" * 64)
    assert numbers(toolgen("keys", "rotate").out) == [2]
    monkeypatch.setenv("OLD", "6" * 64)
    assert len(toolgen("accounts", "list", "--json").json()) == 2
    monkeypatch.delenv("NEW")
    failed = toolgen("accounts", "list")
    assert (failed.code, "accounts.keys" in failed.err) == (1, True)


def test_a_name_that_is_none_is_refused(provider: AccountProvider, toolgen: Run) -> None:
    assert toolgen("accounts", "link", "repos", "--name", "../x", "--as", "ann").code == 2


async def _count() -> int:
    store = account_store(load("toolgen.yaml"), SystemClock())
    try:
        return len(await store.all())
    finally:
        await store.close()


def test_the_store_of_the_command_is_that_of_the_gateway(provider: AccountProvider) -> None:
    assert asyncio.run(_count()) == 2


@pytest.mark.parametrize("written", ["aws:", "gcp:projects/p", "vault:accounts", "vault:../accounts", "aws:a b"])
def test_a_key_of_no_service_is_refused(provider: AccountProvider, toolgen: Run, written: str) -> None:
    settings = json.loads(Path("toolgen.yaml").read_text(encoding="utf-8"))
    Path("toolgen.yaml").write_text(json.dumps({**settings, "accounts": {"kms": written}}), encoding="utf-8")
    refused = toolgen("accounts", "list")
    assert (refused.code, line_names(refused.err, "kms: ", "AWS KMS", "Vault")) == (1, True)
