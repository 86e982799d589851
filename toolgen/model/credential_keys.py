"""Keys of a credential's configuration, with their types. `auth.read_form` checks their combinations."""

from __future__ import annotations

import msgspec

__all__ = ["CredentialKeys", "CredentialServer", "CredentialTls"]


class CredentialTls(msgspec.Struct, forbid_unknown_fields=True):
    certificate: str | None = None
    key: str | None = None
    authorities: str | None = None


class CredentialServer(msgspec.Struct, forbid_unknown_fields=True):
    issuer: str
    client_id: str
    token_url: str = ""
    client_secret: str | None = None
    private_key: str | None = None
    key_id: str = ""
    authentication: str = ""


class CredentialKeys(msgspec.Struct, forbid_unknown_fields=True):
    value: str | None = None
    name: str = ""
    in_: str = msgspec.field(name="in", default="header")
    token: str | None = None
    username: str | None = None
    password: str | None = None
    certificate: str | None = None
    key: str | None = None
    authorities: str | None = None
    access_key_id: str | None = None
    secret_access_key: str | None = None
    session_token: str | None = None
    region: str = ""
    service: str = ""
    client_id: str | None = None
    client_secret: str | None = None
    private_key: str | None = None
    key_id: str = ""
    authentication: str = ""
    tls: CredentialTls | None = None
    dpop: bool = False
    token_url: str = ""
    scopes: list[str] = []
    audience: str = ""
    resource: str = ""
    refresh_token: str | None = None
    assertion: str | None = None
    subject_token: str = ""
    subject_token_type: str = ""
    token_type: str = ""
    authorization_server: CredentialServer | None = None
    account: str = ""
    provider: str = ""
    issuer: str = ""
    authorization_url: str = ""
    revocation_url: str = ""
    device_url: str = ""
