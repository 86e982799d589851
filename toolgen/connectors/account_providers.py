"""Presets of authorization servers: what `provider:` of an account stands for, as data in account_providers.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec
from msgspec.structs import replace

from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import read
from toolgen.model.auth import UserAccount
from toolgen.model.excerpt import bounded

__all__ = [
    "PLAIN_PROVIDER",
    "ProviderPreset",
    "RevocationForm",
    "checked_account",
    "provider_of",
    "providers",
    "with_preset",
]

_FILE = Path(__file__).with_name("account_providers.yaml")


class RevocationForm(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Revocation request of a provider, as far as it differs from RFC 7009.

    `tokens`: `each` of an account; or one, because the refresh token ends the `grant` with all its access tokens; or the `access_token`
    alone. `fields`: the token with its type as a hint, the token alone, or the token in a field that is named like its type.
    `confirmed_by` is the member of the answer that is true if the token was revoked.
    """

    tokens: Literal["each", "grant", "access_token"] = "each"
    fields: Literal["token_and_hint", "token", "token_by_type"] = "token_and_hint"
    headers: dict[str, str] = {}
    confirmed_by: str = ""


class ProviderPreset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Preset. `scopes` are added to those of the source, `parameters` to the authorization request.

    `token_at` names the member of the token response that holds the tokens of the person, `body` is the form of token requests.
    """

    title: str
    issuer: str = ""
    authorization_url: str = ""
    token_url: str = ""
    revocation_url: str = ""
    revocation: RevocationForm = RevocationForm()
    device_url: str = ""
    parameters: dict[str, str] = {}
    scopes: tuple[str, ...] = ()
    scope_parameter: str = "scope"
    scope_separator: str = " "
    token_at: str = ""
    body: Literal["form", "json"] = "form"
    authentication: str = ""
    needs: tuple[Literal["issuer"], ...] = ()


PLAIN_PROVIDER = ProviderPreset(title="")
"""Preset of an account without `provider:`."""


@cache
def providers() -> Mapping[str, ProviderPreset]:
    """Return every preset, by name."""
    return MappingProxyType(msgspec.convert(read(_FILE, _FILE.name, ConfigError).data, type=dict[str, ProviderPreset]))


def provider_of(form: UserAccount) -> ProviderPreset:
    """Return the preset of an account."""
    return providers()[form.provider] if form.provider else PLAIN_PROVIDER


def checked_account(form: UserAccount) -> None:
    """Check what an account says of its provider. Raises `ValueError` with a sentence about a key."""
    if not form.provider:
        return
    known = providers()
    if form.provider not in known:
        near = nearest(form.provider, sorted(known))
        raise ValueError(f"provider: '{bounded(form.provider, 40)}' is none of {', '.join(known)}{near}")
    for key in known[form.provider].needs:
        if not getattr(form, key):
            raise ValueError(f"{key}: is missing; the provider {form.provider} needs it")


def with_preset(form: UserAccount) -> UserAccount:
    """Return an account with the addresses, scopes and client authentication of its preset where it has none of its own.

    An issuer or an address of the account's own replaces all addresses of the preset: endpoints of two servers are never mixed.
    """
    preset = provider_of(form)
    own = form.issuer or form.authorization_url or form.token_url
    changes: dict[str, object] = {"scopes": (*form.scopes, *(one for one in preset.scopes if one not in form.scopes))}
    if not own:
        names = ("issuer", "authorization_url", "token_url", "revocation_url", "device_url")
        changes |= {name: getattr(form, name) or getattr(preset, name) for name in names}
    if preset.authentication and form.authentication == "client_secret_basic" and not form.authentication_given:
        changes["authentication"] = preset.authentication
    return replace(form, **changes)
