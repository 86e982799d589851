"""Section `notify:` of toolgen.yaml: receivers of notifications about approvals, and the signatures of messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Struct

from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.secret import SecretReference, parse_reference
from toolgen.model.webhook import key_of, url_fault

__all__ = ["NO_NOTIFICATIONS", "Format", "GivenNotify", "NotifyEvent", "NotifySettings", "Webhook", "read_notify"]

Format = Literal["generic", "slack"]
NotifyEvent = Literal[
    "approval_requested",
    "approval_reminder",
    "approval_escalated",
    "approval_decided",
    "approval_expired",
    "approval_withdrawn",
    "break_glass_requested",
    "break_glass_given",
]
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_MAX_WEBHOOKS = 20
_HOW = "write whsec_ and the base64 of 24 to 64 random bytes: echo whsec_$(openssl rand -base64 32)"


class GivenNotify(msgspec.Struct, forbid_unknown_fields=True):
    """A webhook as it is written."""

    url: str
    secret: str | Annotated[list[str], msgspec.Meta(min_length=1, max_length=2)] | None = None
    format: Format = "generic"
    events: Annotated[list[NotifyEvent], msgspec.Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: list(get_args(NotifyEvent))
    )
    arguments: bool = True
    authorities: str | None = None


class Webhook(Struct, frozen=True, kw_only=True):
    """A receiver of notifications. Its address and its secrets are read when a message is sent; with two secrets, each signs.
    `arguments` is True if the arguments of calls are sent, in the form of the audit log. `authorities` are additional certificate
    authorities (PEM) for the receiver's certificate."""

    name: str
    url: SecretReference
    secrets: tuple[SecretReference, ...]
    format: Format
    events: frozenset[str]
    arguments: bool
    authorities: SecretReference | None = None


class NotifySettings(Struct, frozen=True, kw_only=True):
    """`webhooks` by name. `console` is the origin of the console's pages, which notifications link to."""

    webhooks: Mapping[str, Webhook]
    console: str

    def __bool__(self) -> bool:
        return bool(self.webhooks)


NO_NOTIFICATIONS = NotifySettings(webhooks=MappingProxyType({}), console="")


def read_notify(given: Mapping[str, Any], document: YamlDocument, console: str, warnings: list[str]) -> NotifySettings:
    """Read the webhooks of a project. `console` is "" if the console's address is not set. Raises `ConfigError` with file and
    line, and without the content of an address or a secret."""
    if given and not console:
        raise ConfigError(
            "notifications link to the console, but its address is not set",
            where=document.where("notify"),
            suggestion="set console.url to the gateway's address as browsers see it, like https://gateway.example.com",
        )
    if len(given) > _MAX_WEBHOOKS:
        raise ConfigError(f"takes {_MAX_WEBHOOKS} webhooks at most", where=document.where("notify"))
    found = {name: _webhook(name, document, warnings) for name in given}
    return NotifySettings(webhooks=MappingProxyType(found), console=console)


def _webhook(name: str, document: YamlDocument, warnings: list[str]) -> Webhook:
    path = ("notify", name)
    where = document.where(*path)
    if not _NAME.match(name):
        raise ConfigError(f"'{name[:60]}' is not a valid name: lower-case letters, digits, _ and -", where=where)
    given = decode(document, path, GivenNotify, ConfigError)
    url = _reference(given.url, "url", document.where(*path, "url"))
    if url.prefix:
        raise ConfigError("url: takes an address or one reference", where=document.where(*path, "url"))
    if url.provider == "literal" and (fault := url_fault(url.locator)):
        raise ConfigError(f"url: {fault}", where=document.where(*path, "url"))
    written = [given.secret] if isinstance(given.secret, str) else given.secret or []
    at = document.where(*path, "secret")
    secrets = tuple(_reference(one, "secret", at) for one in written)
    if not secrets and given.format == "generic":
        raise ConfigError(
            "needs secret:, because receivers must distinguish our messages from others", where=where, suggestion=_HOW
        )
    for secret in secrets:
        if secret.prefix or (secret.provider == "literal" and key_of(secret.locator) is None):
            raise ConfigError("secret: is not a signing secret of webhooks", where=at, suggestion=_HOW)
        if secret.provider == "literal":
            warnings.append(f"{at}: a secret is written out; keep it outside with ${{env:NAME}} or ${{file:/path}}")
    authorities = None
    if given.authorities is not None:
        at = document.where(*path, "authorities")
        authorities = _reference(given.authorities, "authorities", at)
        literal = authorities.provider == "literal"
        if authorities.prefix or (literal and "-----BEGIN CERTIFICATE-----" not in authorities.locator):
            raise ConfigError(
                "authorities: are not PEM certificates", where=at, suggestion="write ${file:/path/ca.pem}"
            )
    return Webhook(
        name=name,
        url=url,
        secrets=secrets,
        format=given.format,
        events=frozenset(given.events),
        arguments=given.arguments,
        authorities=authorities,
    )


def _reference(text: str, key: str, where: str) -> SecretReference:
    try:
        return parse_reference(text)
    except SecretError as error:
        raise ConfigError(f"{key}: {error.message}", where=where, suggestion=error.suggestion) from error
