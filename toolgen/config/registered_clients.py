"""Clients under `gateway.sign_in.clients.registered` of toolgen.yaml, with public keys or hashed secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from toolgen.config.addresses import is_secure_address
from toolgen.core.errors import ConfigError
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.redirect_uris import redirect_fault

__all__ = ["GivenRegisteredClient", "RegisteredClient", "read_registered_clients"]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
_HASH = re.compile(r"sha256:([0-9a-f]{64})\Z")
_MAX_SECRETS = 2
_MAX_REDIRECTS = 20


class GivenRegisteredClient(msgspec.Struct, forbid_unknown_fields=True):
    """Entry of `gateway.sign_in.clients.registered` as it is written."""

    name: str = ""
    redirect_uris: list[str] = []
    secret: str | list[str] | None = None
    jwks: str | None = None
    principal: str | None = None


class RegisteredClient(Struct, frozen=True, kw_only=True):
    """Client of the settings. `secrets` are SHA-256 in hex; `jwks` is the URL or the absolute path of its public keys, "" for none.

    Without both, the client is public. `principal` is the principal of the policy that the client is when it acts for itself, "" for a
    client that acts for people only.
    """

    id: str
    name: str
    redirects: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    jwks: str = ""
    principal: str = ""

    @property
    def confidential(self) -> bool:
        """Return True if the client can prove who it is."""
        return bool(self.secrets or self.jwks)

    def __repr__(self) -> str:
        return f"RegisteredClient({self.id})"


def read_registered_clients(
    given: Mapping[str, GivenRegisteredClient], document: YamlDocument, root: Path
) -> Mapping[str, RegisteredClient]:
    """Read the clients by their ids. `root` is the folder of the project. Raises `ConfigError`."""
    return {name: _client(name, one, document, root) for name, one in given.items()}


def _client(name: str, given: GivenRegisteredClient, document: YamlDocument, root: Path) -> RegisteredClient:
    def where(*path: str | int) -> str:
        return document.where("gateway", "sign_in", "clients", "registered", name, *path)

    if not _ID.match(name):
        raise ConfigError(
            f"registered: {name[:60]!a} is not the id of a client",
            where=where(),
            suggestion="take up to 100 letters, digits, dots, dashes and underscores, like ci-runner",
        )
    if given.secret is not None and given.jwks is not None:
        raise ConfigError("secret, jwks: a client has one of the two", where=where())
    client = RegisteredClient(
        id=name,
        name=given.name or name,
        redirects=tuple(given.redirect_uris),
        secrets=_secrets(given.secret, where("secret")),
        jwks=_location(given.jwks, root, where("jwks")),
        principal=given.principal or "",
    )
    for index, uri in enumerate(client.redirects):
        if fault := redirect_fault(uri):
            raise ConfigError(f"redirect_uris: {uri[:100]!a} {fault}", where=where("redirect_uris", index))
    if len(client.redirects) > _MAX_REDIRECTS:
        raise ConfigError(f"redirect_uris: takes up to {_MAX_REDIRECTS} URIs", where=where("redirect_uris"))
    if client.principal and not client.confidential:
        raise ConfigError(
            "principal: only a client with a secret or keys acts for itself",
            where=where("principal"),
            suggestion="add jwks with the address of its public keys, or the hash of its secret",
        )
    if not client.redirects and not client.confidential:
        raise ConfigError(
            "redirect_uris: is missing, and the client has neither a secret nor keys, so nobody could use it",
            where=where(),
        )
    return client


def _secrets(given: str | list[str] | None, where: str) -> tuple[str, ...]:
    texts = [given] if isinstance(given, str) else given or []
    if given is not None and not 0 < len(texts) <= _MAX_SECRETS:
        raise ConfigError(f"secret: takes one hash, or {_MAX_SECRETS} while it is changed", where=where)
    found = [_HASH.match(text) for text in texts]
    if not all(found):
        raise ConfigError(
            "secret: is not a hash",
            where=where,
            suggestion="write sha256: and the SHA-256 of the secret in hex; the secret itself stands nowhere in the project",
        )
    return tuple(one[1] for one in found if one is not None)


def _location(text: str | None, root: Path, where: str) -> str:
    if text is None:
        return ""
    if "://" in text:
        if not is_secure_address(text):
            raise ConfigError(
                "jwks: must be https, because whoever changes these keys can be this client",
                where=where,
                suggestion="http is only for loopback addresses",
            )
        return text
    path = root / text
    if not path.is_file():
        raise ConfigError("jwks: there is no such file", where=where, suggestion="name a JWK set, or its https address")
    return str(path.resolve())
