"""Security schemes of descriptions, the schemes that `auth:` names without a description, and the credentials that fit each."""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import assert_never

from toolgen.model.auth import Basic, CertificateSecrets, Form, OAuth, SigV4, UserAccount, Value
from toolgen.model.manifest import SecurityScheme

__all__ = ["HEADERS", "SCHEMES", "chosen", "fits", "sendable", "sent", "takes", "with_headers"]

_TOKEN_SCHEMES = frozenset({"oauth2", "openIdConnect"})


def chosen(security: tuple[tuple[str, ...], ...], configured: Container[str]) -> tuple[str, ...] | None:
    """Return the first alternative whose schemes are all configured; `()` if none is needed, also for `{}` without another configured one;
    None if a needed one is not configured.

    The order of alternatives has no meaning (3.1.1, section 4.8.30), so a configured credential is always sent.
    """
    for option in security:
        if option and all(map(configured.__contains__, option)):
            return option
    return () if not security or () in security else None


def fits(scheme: SecurityScheme, form: Form) -> bool:
    """Return True if a scheme can carry a credential of this form."""
    match form:
        case Value():
            return scheme.type == "apiKey" or _takes_bearer(scheme)
        case Basic():
            return scheme.type == "http" and scheme.scheme == "basic"
        case OAuth() | UserAccount():
            return _takes_bearer(scheme)
        case CertificateSecrets():
            return scheme.type == "mutualTLS"
        case SigV4():
            # Descriptions call it an API key in the Authorization header, or a custom scheme of HTTP authentication.
            return scheme.type == "http" or (scheme.type == "apiKey" and scheme.name.lower() == "authorization")
        case _:
            assert_never(form)


def sendable(scheme: SecurityScheme) -> bool:
    """Return True if toolgen supports a credential for the scheme."""
    return scheme.type in {"apiKey", "mutualTLS", "http"} or _takes_bearer(scheme)


def sent(scheme: SecurityScheme) -> tuple[str, str] | None:
    """Return the place in a request of a scheme's credential, as place and name; None for a credential of the connection itself."""
    match scheme.type:
        case "apiKey":
            return scheme.in_, scheme.name.lower() if scheme.in_ == "header" else scheme.name
        case "mutualTLS":
            return None
        case _:
            return "header", "authorization"


def takes(scheme: SecurityScheme) -> str:
    """Describe the configuration that a scheme accepts."""
    match scheme.type:
        case "apiKey":
            return "a value, or an AWS key" if scheme.name.lower() == "authorization" else "a value"
        case "http" if scheme.scheme == "basic":
            return "username and password"
        case "mutualTLS":
            return "certificate and key"
        case _ if _takes_bearer(scheme):
            return "a token, or an OAuth client with client_id and client_secret, refresh_token, subject_token: principal, or account: user"
        case _:
            return "nothing that toolgen can send (it knows API keys, basic, bearer, OAuth 2.0, mutual TLS and AWS Signature 4)"


def _takes_bearer(scheme: SecurityScheme) -> bool:
    return scheme.type in _TOKEN_SCHEMES or (scheme.type == "http" and scheme.scheme == "bearer")


SCHEMES = MappingProxyType(
    {
        "bearer": SecurityScheme(type="http", scheme="bearer"),
        "basic": SecurityScheme(type="http", scheme="basic"),
        "api_key": SecurityScheme(type="apiKey", in_="header", name="X-API-Key"),
    }
)
HEADERS = "headers"
"""Key of `auth:` with a mapping of header names to secrets."""


def with_headers(
    schemes: Mapping[str, SecurityScheme], auth: Mapping[str, object]
) -> tuple[Mapping[str, SecurityScheme], Mapping[str, object]]:
    """Return the schemes and credentials of a source with `headers: {NAME: secret}` split into a scheme for each header."""
    named = auth.get(HEADERS)
    if not isinstance(named, Mapping):
        return schemes, auth
    own = {f"{HEADERS}.{name}": SecurityScheme(type="apiKey", in_="header", name=name) for name in named}
    shown = {f"{HEADERS}.{name}": secret for name, secret in named.items()}
    return {**schemes, **own}, {**{key: one for key, one in auth.items() if key != HEADERS}, **shown}
