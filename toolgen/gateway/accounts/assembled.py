"""Assembly of the accounts of a project: its clients, its store and its keys."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolgen.config.settings import Settings
from toolgen.connectors.executor import Permit, SourcePermit
from toolgen.connectors.http.oauth.account_client import AccountClient
from toolgen.connectors.key_services import ServiceKeys, key_service
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import Clock
from toolgen.core.errors import ConfigError, SecretError, StateError
from toolgen.gateway.accounts.accounts import AccountDependencies, Accounts
from toolgen.gateway.accounts.forms import account_forms
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.gateway.state.shared_state import account_rows
from toolgen.state.accounts import AccountStore
from toolgen.state.key_encryption import FileKeys, GivenKeys, KeyEncryption

__all__ = ["account_keys", "account_store", "make_accounts", "public_address", "service_keys"]

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


def make_accounts(
    settings: Settings,
    *,
    current: CurrentPolicy,
    record: Callable[[Mapping[str, Any]], Awaitable[object]],
    clock: Clock,
) -> Accounts:
    """Return the accounts of a project. Nothing is opened yet."""

    def identity(name: str) -> tuple[str, str] | None:
        return current.compiled_policy.identity.person(name)

    permit: SourcePermit = current.permit
    secrets = SecretResolver(permit=permit, clock=clock)
    clients = {
        name: AccountClient(form, secrets=secrets, permit=_of_source(permit, name), clock=clock)
        for name, form in account_forms(settings).items()
    }
    dependencies = AccountDependencies(
        store=account_store(settings, clock, permit),
        clients=clients,
        record=record,
        identity=identity,
        clock=clock,
        url=public_address(settings),
    )
    return Accounts(dependencies)


def account_store(settings: Settings, clock: Clock, permit: Permit | None = None) -> AccountStore:
    """Return the store of the accounts of a project. `permit` is asked about the address of a key service."""
    return AccountStore(account_rows(settings, clock), service_keys(settings, clock, permit) or account_keys(settings))


def service_keys(settings: Settings, clock: Clock, permit: Permit | None = None) -> KeyEncryption | None:
    """Return the key-encryption keys of the service that the project names, if it names one."""
    if not settings.accounts.kms:
        return None
    service = key_service(settings.accounts.kms, os.environ, permit=permit, clock=clock)
    return ServiceKeys(service, account_keys(settings), clock)


def account_keys(settings: Settings) -> KeyEncryption:
    """Return the key-encryption keys that are here: those that the project names, or a file beside that of its log."""
    references = settings.accounts.keys
    if not references:
        return FileKeys(_key_file(settings))
    secrets = SecretResolver()

    def read() -> Sequence[str]:
        try:
            found = [secrets.revealed(reference) for reference in references]
        except SecretError as error:
            raise StateError(f"accounts.keys: {error.message}", suggestion=error.suggestion) from None
        return [text.strip() for text in found if text is not None]

    return GivenKeys(read)


def public_address(settings: Settings) -> str:
    """Return the address of the gateway as browsers see it; that of this machine if it listens there alone.

    Raises `ConfigError` where links could lead nowhere.
    """
    address = settings.console.url or settings.url
    if not address and settings.host not in _LOOPBACK and account_forms(settings):
        raise ConfigError(
            "accounts of people need the address that browsers come back to",
            where=str(settings.path),
            suggestion="set console.url to the gateway's address as browsers see it, like https://gateway.example.com",
        )
    return address or f"http://127.0.0.1:{settings.port}"


def _key_file(settings: Settings) -> Path:
    return settings.audit_dir / "accounts.key"


def _of_source(permit: SourcePermit, source: str) -> Callable[..., Any]:
    return lambda destination: permit(destination, source=source)
