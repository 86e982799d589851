"""Settings of the accounts of people in toolgen.yaml: the keys that their tokens are encrypted with."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.secret import SecretReference, parse_reference

__all__ = ["AccountSettings", "GivenAccounts", "read_accounts"]

_KMS = re.compile(r"aws:[A-Za-z0-9:/_-]{1,256}\Z|vault:[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)+\Z")


class GivenAccounts(msgspec.Struct, forbid_unknown_fields=True):
    """`accounts:` as it is written."""

    keys: list[str] = []
    kms: str = ""
    store: str = ""


class AccountSettings(Struct, frozen=True, kw_only=True):
    """Key-encryption keys: the first one encrypts, all of them decrypt. Without any, they are in a file of the project.
    `kms` names a service that encrypts in their place; they decrypt what was encrypted before.
    `store` is the address of a PostgreSQL that keeps the accounts and the sign-ins of people; without it they are with the other state."""

    keys: tuple[SecretReference, ...] = ()
    kms: str = ""
    store: SecretReference | None = None


def read_accounts(given: GivenAccounts, document: YamlDocument) -> AccountSettings:
    """Read the section `accounts:` of a project. Raises `ConfigError` with file and line."""
    keys: list[SecretReference] = []
    for index, text in enumerate(given.keys):
        where = document.where("accounts", "keys", index)
        try:
            reference = parse_reference(text)
        except SecretError as error:
            raise ConfigError(f"keys: {error.message}", where=where, suggestion=error.suggestion) from None
        if reference.provider not in {"env", "file"}:
            raise ConfigError(
                "keys: takes references of the environment or of files",
                where=where,
                suggestion="write ${env:NAME} or ${file:/path}; 64 hex digits, as `openssl rand -hex 32` prints",
            )
        keys.append(reference)
    if given.kms and not _KMS.match(given.kms):
        raise ConfigError(
            "kms: is not a key of AWS KMS or Vault",
            where=document.where("accounts", "kms"),
            suggestion="write aws:alias/NAME, aws:KEY-ID or vault:MOUNT/NAME",
        )
    return AccountSettings(keys=tuple(keys), kms=given.kms, store=_read_store(given.store, document))


def _read_store(written: str, document: YamlDocument) -> SecretReference | None:
    """Read the address of the store: a URL of PostgreSQL, or a reference to one. Raises `ConfigError`."""
    if not written:
        return None
    where = document.where("accounts", "store")
    try:
        reference = parse_reference(written)
    except SecretError as error:
        raise ConfigError(f"store: {error.message}", where=where, suggestion=error.suggestion) from None
    plain = reference.provider == "literal" and not written.startswith(("postgresql://", "postgres://"))
    if plain or reference.provider not in {"env", "file", "literal"}:
        raise ConfigError(
            "store: is not the address of a PostgreSQL database",
            where=where,
            suggestion="write postgresql://USER@HOST/DATABASE, or ${env:NAME} where it has a password",
        )
    return reference
