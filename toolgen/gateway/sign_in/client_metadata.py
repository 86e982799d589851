"""Metadata of clients (RFC 7591 section 2), from a registration or a document: checked by Authlib, and then more strictly."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from toolgen.config.sign_in import JWT_BEARER, ClientSettings
from toolgen.gateway.sign_in.errors import OAuthError
from toolgen.gateway.sign_in.records import HostedClient
from toolgen.model.excerpt import bounded
from toolgen.model.redirect_uris import redirect_fault, redirect_host

__all__ = ["METHODS", "PROVING_METHODS", "client_of", "plain_name"]

PROVING_METHODS = ("client_secret_basic", "client_secret_post", "private_key_jwt")
"""Methods by which a client proves who it is."""
METHODS = ("none", *PROVING_METHODS)
_GRANTS = ("authorization_code", "refresh_token", JWT_BEARER)
_MAX_REDIRECTS = 20
_MAX_NAME_LENGTH = 80
_MAX_KEYS = 20
_PUBLIC_KEYS = frozenset({"RSA", "EC", "OKP"})
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def client_of(client_id: str, said: Mapping[str, Any], settings: ClientSettings, *, document: bool) -> HostedClient:
    """Return the client that metadata describes. Raises `OAuthError`.

    A registration without a method means client_secret_basic (RFC 7591 section 2). A document has no secret, so without a method its
    client is public.
    """
    jwks = _keys(said.get("jwks"))
    if _list(said, "grant_types") and "authorization_code" not in _list(said, "grant_types"):
        raise _fault("grant_types: must have authorization_code")
    public = {"token_endpoint_auth_method": "none"} if _is_public(said, document=document) else {}
    given = _validated({**said, **public})
    method = given["token_endpoint_auth_method"]
    if document and method not in {"none", "private_key_jwt"}:
        raise _fault("token_endpoint_auth_method: a metadata document takes none or private_key_jwt")
    redirects = given.get("redirect_uris")
    if not isinstance(redirects, list) or not 0 < len(redirects) <= _MAX_REDIRECTS:
        raise OAuthError("invalid_redirect_uri", f"redirect_uris: takes 1 to {_MAX_REDIRECTS} URIs")
    for uri in redirects:
        _check_redirect(uri, settings)
    grants = given.get("grant_types") or ["authorization_code"]
    jwks_uri = given.get("jwks_uri") or ""
    if method == "private_key_jwt" and jwks is None and not jwks_uri:
        raise _fault("private_key_jwt: needs jwks or jwks_uri")
    return HostedClient(
        id=client_id,
        name=plain_name(given.get("client_name")),
        redirects=tuple(redirects),
        method=method,
        # An identity provider names clients that it knows: a public one, or one that registered itself, is none of those.
        grants=tuple(
            one
            for one in _GRANTS
            if one in grants and (one != JWT_BEARER or (document and method == "private_key_jwt"))
        ),
        jwks=jwks,
        jwks_uri=jwks_uri if isinstance(jwks_uri, str) else "",
        document=document,
        host=(urlsplit(client_id).hostname or "") if document else "",
    )


def plain_name(name: object) -> str:
    """Return the display name of a client, without characters that are invisible or change the order of letters; "" for none."""
    if not isinstance(name, str):
        return ""
    spaced = "".join(" " if sign.isspace() else sign for sign in unicodedata.normalize("NFKC", name))
    kept = "".join(sign for sign in spaced if sign.isprintable() and unicodedata.category(sign) != "Mn")
    return bounded(" ".join(kept.split()), _MAX_NAME_LENGTH)


def _is_public(said: Mapping[str, Any], *, document: bool) -> bool:
    return document and "token_endpoint_auth_method" not in said


def _validated(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of RFC 7591, checked by Authlib. Raises `OAuthError`."""
    from authlib.oauth2.rfc7591 import ClientMetadataClaims  # noqa: PLC0415 - behind the extra sign-in
    from joserfc.errors import JoseError  # noqa: PLC0415

    supported = {"response_types_supported": ["code"], "token_endpoint_auth_methods_supported": list(METHODS)}
    unsupported_grants = [one for one in _list(said, "grant_types") if one not in _GRANTS]
    known = {**said, "grant_types": [one for one in _list(said, "grant_types") if one not in unsupported_grants]}
    try:
        claims = ClientMetadataClaims(known, {}, ClientMetadataClaims.get_claims_options(supported), supported)
        claims.validate()
    except (JoseError, TypeError, ValueError, AttributeError) as error:
        named = getattr(error, "claim", "")
        raise _fault(
            f"{named}: is not taken" if named in ClientMetadataClaims.REGISTERED_CLAIMS else "it cannot be read"
        ) from None
    return dict(claims.get_registered_claims())


def _list(said: Mapping[str, Any], name: str) -> list[Any]:
    value = said.get(name)
    return value if isinstance(value, list) and all(isinstance(one, str) for one in value) else []


def _check_redirect(uri: object, settings: ClientSettings) -> None:
    fault = redirect_fault(uri) if isinstance(uri, str) else "is not a text"
    if fault:
        raise OAuthError("invalid_redirect_uri", f"a redirect URI {fault}")
    host = redirect_host(str(uri))
    local = host in _LOOPBACK or host.endswith(":")
    if not settings.allows("localhost" if local else host):
        raise OAuthError("invalid_redirect_uri", "a redirect URI is at a host that the operator did not allow")


def _keys(jwks: object) -> dict[str, Any] | None:
    if jwks is None:
        return None
    keys = jwks.get("keys") if isinstance(jwks, dict) else None
    if not isinstance(keys, list) or not 0 < len(keys) <= _MAX_KEYS:
        raise _fault(f"jwks: takes 1 to {_MAX_KEYS} keys")
    if any(not isinstance(key, dict) or key.get("kty") not in _PUBLIC_KEYS for key in keys):
        raise _fault("jwks: must have only public keys")
    return {"keys": keys}


def _fault(text: str) -> OAuthError:
    return OAuthError("invalid_client_metadata", text)
