"""Section `gateway.sign_in` of toolgen.yaml: the identity provider, and the clients that people may sign in with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

from toolgen.config.addresses import is_secure_address
from toolgen.config.registered_clients import GivenRegisteredClient, RegisteredClient, read_registered_clients
from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.secret import SecretReference, parse_reference

__all__ = ["JWT_BEARER", "ClientSettings", "GivenGatewaySignIn", "SignInSettings", "read_sign_in"]

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
"""Grant type of assertions (RFC 7523 section 2.1)."""
_HOST = re.compile(r"(?:\*\.)?[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\Z")
_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,100}\Z")
_RESERVED = frozenset(
    {"aud", "auth_time", "client_id", "exp", "iat", "idp", "iss", "jti", "nbf", "scope", "sid", "sub"}
)
_EXTENSIONS: Mapping[str, str] = {
    "client_credentials": "io.modelcontextprotocol/oauth-client-credentials",
    JWT_BEARER: "io.modelcontextprotocol/enterprise-managed-authorization",
}
_MAX_GRACE_S = 60.0
_LIFETIMES = {"access": (60.0, 3600.0), "idle": (300.0, 90 * 86_400.0), "expires": (300.0, 366 * 86_400.0)}


class GivenSignInClients(msgspec.Struct, forbid_unknown_fields=True):
    """`gateway.sign_in.clients` as it is written."""

    metadata_documents: bool = True
    registration: bool = False
    allow: list[str] = []
    registered: dict[str, GivenRegisteredClient] = {}


class GivenGatewaySignIn(msgspec.Struct, forbid_unknown_fields=True):
    """`gateway.sign_in` as it is written."""

    issuer: str
    client_id: str
    client_secret: str | None = None
    scopes: list[str] = msgspec.field(default_factory=lambda: ["openid"])
    clients: GivenSignInClients = msgspec.field(default_factory=GivenSignInClients)
    access: str = "10m"
    idle: str = "168h"
    expires: str = "720h"
    refresh_grace: str = "10s"
    claims: list[str] = []
    resources: list[str] = []
    introspection: list[str] = []
    identity_assertions: bool = False


class ClientSettings(Struct, frozen=True, kw_only=True):
    """Clients of the gateway: those whose id is the address of their metadata, those that register themselves, and those that the
    operator registered.

    `hosts` are the hosts of such addresses and of redirect URIs, `*.` before one for the names below it; all hosts without any. They do
    not limit the clients of the operator.
    """

    metadata_documents: bool = True
    registration: bool = False
    hosts: tuple[str, ...] = ()
    registered: Mapping[str, RegisteredClient] = MappingProxyType({})

    def allows(self, host: str) -> bool:
        """Return True if a client may be at a host."""
        name = host.rstrip(".").lower()
        return not self.hosts or any(
            name == one or (one.startswith("*.") and name.endswith(one[1:])) for one in self.hosts
        )


class SignInSettings(Struct, frozen=True, kw_only=True):
    """Sign-in of people through the gateway. `issuer`, `client_id`, `client_secret` and `scopes` are the gateway's own at the company's
    identity provider.

    An access token is valid for `access_s`; a refresh token for `idle_s` after its last use, and all tokens of a sign-in until `expires_s`
    after it. A refresh token that was used gives the same answer for `refresh_grace_s`, while its successor is not used.

    `claims` are copied from the id token into access tokens, for gateways at `resources`. Principals with a role of `introspection` may
    ask about tokens. `identity_assertions`: clients may show assertions of the provider about people (ID-JAG).
    """

    issuer: str
    client_id: str
    client_secret: SecretReference | None
    scopes: tuple[str, ...]
    clients: ClientSettings = ClientSettings()
    access_s: float = 600.0
    idle_s: float = 7 * 86_400.0
    expires_s: float = 30 * 86_400.0
    refresh_grace_s: float = 10.0
    claims: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    introspection: frozenset[str] = frozenset()
    identity_assertions: bool = False

    @property
    def grant_types(self) -> tuple[str, ...]:
        """Return the grant types of OAuth that the token endpoint takes."""
        itself = ("client_credentials",) if any(one.principal for one in self.clients.registered.values()) else ()
        asserted = (JWT_BEARER,) if self.identity_assertions else ()
        return ("authorization_code", "refresh_token", *itself, *asserted)

    @property
    def extensions(self) -> tuple[str, ...]:
        """Return the extensions of MCP about authorization that a client can use here."""
        return tuple(_EXTENSIONS[one] for one in self.grant_types if one in _EXTENSIONS)


def read_sign_in(
    given: GivenGatewaySignIn | None, document: YamlDocument, url: str, root: Path
) -> SignInSettings | None:
    """Read `gateway.sign_in`; None without a sign-in through the gateway. `url` is `gateway.url`, `root` the folder of the project.

    Raises `ConfigError`.
    """
    if given is None:
        return None
    where = document.where("gateway", "sign_in")
    if not url:
        raise ConfigError(
            "sign_in: needs the address of the gateway, which its tokens name as their issuer",
            where=where,
            suggestion="set gateway.url to the address that agents use, like https://tools.example.com",
        )
    if find_spec("authlib") is None:
        raise ConfigError(
            "sign_in: needs Authlib", where=where, suggestion='install it with: pip install "toolgen[sign-in]"'
        )
    if not is_secure_address(given.issuer):
        raise ConfigError("issuer: takes the https address that the provider's tokens have as iss", where=where)
    if "openid" not in given.scopes:
        raise ConfigError("scopes: must contain openid, or the provider does not identify the person", where=where)
    access, idle, expires = (_seconds(getattr(given, name), name, document) for name in _LIFETIMES)
    if not access <= idle <= expires:
        raise ConfigError(
            "access, idle and expires: each is at least as long as the one before",
            where=where,
            suggestion="use access: 10m, idle: 168h and expires: 720h",
        )
    return SignInSettings(
        issuer=given.issuer,
        client_id=given.client_id,
        client_secret=_secret(given.client_secret, where),
        scopes=tuple(given.scopes),
        clients=_clients(given.clients, document, root),
        access_s=access,
        idle_s=idle,
        expires_s=expires,
        refresh_grace_s=_grace(given.refresh_grace, document),
        claims=tuple(_claim(text, document, index) for index, text in enumerate(given.claims)),
        resources=tuple(_resource(text, document, index) for index, text in enumerate(given.resources)),
        introspection=frozenset(given.introspection),
        identity_assertions=given.identity_assertions,
    )


def _secret(text: str | None, where: str) -> SecretReference | None:
    if text is None:
        return None
    try:
        secret = parse_reference(text)
    except SecretError as error:
        raise ConfigError(f"client_secret: {error.message}", where=where) from None
    if secret.provider == "literal":
        raise ConfigError("client_secret: is a literal secret", where=where, suggestion="write ${env:NAME}")
    return secret


def _clients(given: GivenSignInClients, document: YamlDocument, root: Path) -> ClientSettings:
    for index, text in enumerate(given.allow):
        if not _HOST.match(text):
            raise ConfigError(
                f"allow: {text[:60]!a} is not the name of a host",
                where=document.where("gateway", "sign_in", "clients", "allow", index),
                suggestion="write hosts in lower case, like claude.ai or *.example.com; localhost for clients on the person's machine",
            )
    return ClientSettings(
        metadata_documents=given.metadata_documents,
        registration=given.registration,
        hosts=tuple(given.allow),
        registered=read_registered_clients(given.registered, document, root),
    )


def _seconds(text: str, name: str, document: YamlDocument) -> float:
    seconds, (least, most) = parse_duration(text), _LIFETIMES[name]
    if seconds is None or not least <= seconds <= most:
        raise ConfigError(
            f"{name}: takes {least / 60:.0f}m to {most / 60:.0f}m",
            where=document.where("gateway", "sign_in", name),
        )
    return seconds


def _grace(text: str, document: YamlDocument) -> float:
    seconds = parse_duration(text)
    if seconds is None or not 0 <= seconds <= _MAX_GRACE_S:
        raise ConfigError(
            f"refresh_grace: takes 0s to {_MAX_GRACE_S:.0f}s",
            where=document.where("gateway", "sign_in", "refresh_grace"),
        )
    return seconds


def _claim(text: str, document: YamlDocument, index: int) -> str:
    if not _NAME.match(text) or text in _RESERVED:
        raise ConfigError(
            f"claims: {text[:60]!a} cannot be copied into access tokens",
            where=document.where("gateway", "sign_in", "claims", index),
            suggestion="name claims of the id token, such as groups; those that say whose a token is are always there",
        )
    return text


def _resource(text: str, document: YamlDocument, index: int) -> str:
    if not is_secure_address(text) or "?" in text or "#" in text:
        raise ConfigError(
            f"resources: {text[:60]!a} is not the address of another gateway",
            where=document.where("gateway", "sign_in", "resources", index),
            suggestion="write it like https://other.example.com/mcp",
        )
    return text
