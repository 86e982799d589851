"""Revocations of `toolgen keys revoke`, written to the policy even if the rest of the project cannot be read."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from toolgen.config.environment import PREFIX, in_force
from toolgen.config.policies import load_policy
from toolgen.config.settings import GivenFile, Settings
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import ConfigError, PolicyError, ToolgenError
from toolgen.core.yaml_file import YamlDocument, read
from toolgen.gateway.catalog.served_catalog import catalog_of
from toolgen.policy.credentials import PolicyCredentials
from toolgen.policy.document.policy import load_credentials
from toolgen.policy.key_list import revoke as add_revocation

__all__ = ["Revoker"]

_USUAL = "policies/"


def _policies(document: YamlDocument) -> object:
    """Return `policies:` by the file and the environment, even if the rest of either is invalid. Raises `ConfigError`."""
    data = document.data if isinstance(document.data, dict) else {}
    alone = replace(document, data={key: value for key, value in data.items() if key == "policies"})
    others = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    own = {name: os.environ[name] for name in (f"{PREFIX}POLICIES",) if name in os.environ}
    return in_force(alone, GivenFile, others | own).document.data.get("policies", _USUAL)


class Revoker:
    """Writer of revocations into the policy of one project. `complete` is False if it is uncertain that this is the gateway's policy."""

    def __init__(self, config: str) -> None:
        """Find the policy. Raises `ConfigError` without toolgen.yaml, or without a policy beside one that cannot be read."""
        self._settings: Settings | None = None
        self.complete = True
        try:
            self._settings = load_settings(config)
            self.directory = self._settings.policies
        except ConfigError as error:
            self.directory = self._guessed(Path(config).absolute(), error)

    def _guessed(self, path: Path, fault: ConfigError) -> Path:
        """Return the path of the policy by the readable part of toolgen.yaml; a revocation does not wait for the rest of it."""
        if not path.is_file():
            raise fault
        click.echo(f"warning: {fault}", err=True)
        try:
            given = _policies(read(path, path.name, ConfigError))
        except ConfigError:
            given, self.complete = _USUAL, False
        directory = path.parent / (given if isinstance(given, str) else _USUAL)
        if not self.complete:
            if not directory.is_dir():
                raise fault
            message = f"the place of the policy is uncertain; {directory.name}/ is used, and a policy elsewhere is not changed"
            click.echo(f"warning: {message}", err=True)
        return directory

    def principal(self, name: str) -> str:
        """Revoke all credentials that a principal got until now. Returns a sentence about the result; raises `ToolgenError`."""
        found = self._credentials()
        issuer = name.partition(":")[0]
        if found is not None and name not in found.principals and issuer not in found.issuers and self._usable():
            raise ConfigError(f"'{name}' has no key, and is not a principal", suggestion="see `toolgen keys list`")
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        revocation = {"principal": name, "before": now}
        gone = add_revocation(self.directory, revocation, lambda entry: entry.get("principal") == name)
        keys = {str(entry["hash"]).removeprefix("sha256:") for entry in gone}
        if found is not None and name in found.principals:
            keys |= {key.sha256 for key in found.principals[name].keys}
        return _said(keys) or f"revoked all credentials of '{name}' from before {now}"

    def key(self, beginning: str) -> str:
        """Revoke a key by the beginning of its hash. Returns and raises as `principal` does."""
        found = self._credentials()
        entries = tuple(found.principals.values()) if found is not None else ()
        keys = {key.sha256 for entry in entries for key in entry.keys if key.sha256.startswith(beginning)}
        if not keys and found is not None and self._usable():
            raise ConfigError(f"no key's hash begins with {beginning}", suggestion="see `toolgen keys list`")
        if len(keys) > 1:
            raise ConfigError(f"{len(keys)} keys begin with {beginning}", suggestion="give more of the id")
        digest = f"sha256:{next(iter(keys), beginning)}"
        owners = [entry.id for entry in entries for key in entry.keys if key.sha256 in keys]
        revocation = {"key": digest, **({"of": owners[0]} if len(set(owners)) == 1 else {})}
        add_revocation(self.directory, revocation, lambda entry: str(entry.get("hash", "")).startswith(digest))
        return _said(keys) or f"revoked every key whose hash begins with {beginning}"

    def other(self, revocation: Mapping[str, Any]) -> None:
        """Revoke tokens or certificates. Raises as `principal` does."""
        add_revocation(self.directory, revocation, lambda _: False)

    def warn(self) -> None:
        """Warn if the policy is invalid at present: the revocation is in force even so."""
        try:
            load_credentials(self.directory)
        except PolicyError as error:
            click.echo(f"warning: the policy is invalid at present: {error}", err=True)

    def _credentials(self) -> PolicyCredentials | None:
        try:
            return load_credentials(self.directory)
        except PolicyError:
            return None

    def _usable(self) -> bool:
        """Return True if a gateway would accept the policy. Otherwise an earlier policy may be in force, with keys that are in no file any
        more."""
        settings = self._settings
        try:
            return settings is not None and bool(load_policy(self.directory, catalog_of(settings), settings.labels))
        except ToolgenError:
            return False


def _said(keys: Collection[str]) -> str:
    listed = ", ".join(sorted(key[:12] for key in keys))
    return f"revoked {len(keys)} key{'s' if len(keys) > 1 else ''}: {listed}" if keys else ""
