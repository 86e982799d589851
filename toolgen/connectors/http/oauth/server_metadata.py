"""Metadata of authorization servers (RFC 8414, OpenID Connect Discovery 1.0): found by the issuer, and checked.

Every request is checked by the egress rules of the policy, so a document that names an internal address gives no access to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, RefusedError, Via
from toolgen.model.auth import UserAccount

__all__ = ["ServerMetadata", "discover", "discover_token_url", "given_metadata"]

_MAX_URL_LENGTH = 2048
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_ENDPOINTS = {
    "authorization_url": "authorization_endpoint",
    "token_url": "token_endpoint",
    "revocation_url": "revocation_endpoint",
    "device_url": "device_authorization_endpoint",
}
_NEEDED = ("authorization_url", "token_url")


class ServerMetadata(Struct, frozen=True, kw_only=True):
    """Endpoints of an authorization server. `says_issuer`: its answers name the issuer (RFC 9207), and an answer without it is refused.

    `issuer` is the identifier of the server. If no metadata was read, it is the origin of the authorization endpoint, and answers need not
    name it.
    """

    issuer: str
    authorization_url: str
    token_url: str
    revocation_url: str = ""
    device_url: str = ""
    says_issuer: bool = False
    discovered: bool = False


def given_metadata(form: UserAccount) -> ServerMetadata | None:
    """Return the endpoints that the configuration names; None if the metadata of an issuer has to be read."""
    if form.issuer and not (form.authorization_url and form.token_url):
        return None
    parts = urlsplit(form.authorization_url)
    return ServerMetadata(
        issuer=form.issuer or f"{parts.scheme}://{parts.netloc}",
        authorization_url=form.authorization_url,
        token_url=form.token_url,
        revocation_url=form.revocation_url,
        device_url=form.device_url,
        discovered=bool(form.issuer),
    )


async def discover(form: UserAccount, via: Via) -> ServerMetadata:
    """Read the metadata of the issuer of an account. Raises `OutboundError` for a document that is not the issuer's own."""
    return _metadata(form, await _document(form.issuer, via))


async def discover_token_url(issuer: str, via: Via) -> str:
    """Return the token endpoint in the metadata of an issuer. Raises `OutboundError` for a document that is not the issuer's own."""
    said = _own(issuer, await _document(issuer, via))
    value = said.get("token_endpoint")
    if not isinstance(value, str) or not _is_endpoint(value, local=urlsplit(issuer).scheme == "http"):
        raise OutboundError("its metadata has no usable https address as token_endpoint")
    return value


async def _document(issuer: str, via: Via) -> Mapping[str, object]:
    fault: OutboundError | None = None
    for address in _addresses(issuer):
        try:
            reply = await ask(OutboundRequest(method="GET", url=address, headers={"Accept": "application/json"}), via)
        except RefusedError:
            raise
        except OutboundError as error:
            fault = error
            continue
        if reply.status == 200:
            return _object(reply.body)
        fault = OutboundError(f"its metadata cannot be found (status {reply.status})")
    raise fault or OutboundError("its metadata cannot be found")


def _addresses(issuer: str) -> tuple[str, ...]:
    """Return the possible URLs of the metadata: RFC 8414 section 3.1, and OpenID Connect Discovery 1.0 section 4 with the path before and
    after the well-known part.
    """
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    found = (
        f"{origin}/.well-known/oauth-authorization-server{path}",
        f"{origin}/.well-known/openid-configuration{path}",
        f"{origin}{path}/.well-known/openid-configuration",
    )
    return tuple(dict.fromkeys(found))


def _own(issuer: str, said: Mapping[str, object]) -> Mapping[str, object]:
    if said.get("issuer") != issuer:  # RFC 8414 section 3.3: must be identical
        raise OutboundError("its metadata names another issuer than the configured one")
    return said


def _metadata(form: UserAccount, said: Mapping[str, object]) -> ServerMetadata:
    _own(form.issuer, said)
    methods = said.get("code_challenge_methods_supported")
    if methods is not None and (not isinstance(methods, list) or "S256" not in methods):
        raise OutboundError("it does not support PKCE with S256 (code_challenge_methods_supported)")
    kinds = said.get("response_types_supported")
    if isinstance(kinds, list) and "code" not in kinds:
        raise OutboundError("it does not issue authorization codes (response_types_supported)")
    local = urlsplit(form.issuer).scheme == "http"
    found: dict[str, str] = {}
    for name, member in _ENDPOINTS.items():
        value = getattr(form, name) or said.get(member) or ""
        if value and not _is_endpoint(value, local=local):
            raise OutboundError(f"its metadata has no usable https address as {member}")
        if not value and name in _NEEDED:
            raise OutboundError(f"its metadata has no {member}")
        found[name] = str(value)
    says = said.get("authorization_response_iss_parameter_supported") is True
    return ServerMetadata(issuer=form.issuer, says_issuer=says, discovered=True, **found)


def _is_endpoint(value: object, *, local: bool) -> bool:
    """Return True for an https URL without user name and fragment; http is for servers of this machine that were configured as such."""
    if not isinstance(value, str) or not value.isascii() or not value.isprintable() or len(value) > _MAX_URL_LENGTH:
        return False
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    plain = local and parts.scheme == "http" and host in _LOOPBACK
    clean = not parts.fragment and "@" not in parts.netloc and " " not in value and "\\" not in value
    return (parts.scheme == "https" or plain) and bool(host) and port != 0 and clean


def _object(body: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise OutboundError("its metadata is not JSON") from None
    if not isinstance(found, dict):
        raise OutboundError("its metadata is not a JSON object")
    return found
