"""Identity assertion authorization grant (ID-JAG, draft-ietf-oauth-identity-assertion-authz-grant): the assertion that an identity provider
gives for a person's token, and the request that presents it at the authorization server of an API (RFC 7523 section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolgen.connectors.http.oauth.token_endpoint import JWT_BEARER, ResolvedSecrets, members_of, refusal, request
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, OutboundResponse
from toolgen.model.auth import ID_JAG, OAuth, ResourceAuthorizationServer
from toolgen.model.secret import Unprinted

__all__ = ["ExpectedAssertion", "assertion_request", "read_assertion", "subject_fault", "subject_of"]

_TYPE = "oauth-id-jag+jwt"
_ACCESS_TOKENS = frozenset({"at+jwt", "application/at+jwt"})  # RFC 9068 section 4
_LEEWAY_S = 60.0
_MAX_LENGTH = 16_384


class ExpectedAssertion(Struct, frozen=True, kw_only=True):
    """Claims that an assertion must have: the identity provider, the authorization server it is for, the person, and the client there."""

    issuer: str
    audience: str
    subject: str
    client_id: str
    resource: str = ""


class _Jwt(Unprinted, frozen=True, kw_only=True):
    header: Mapping[str, Any]
    claims: Mapping[str, Any]


def subject_fault(form: OAuth, token: str) -> str:
    """Return the reason why a caller's token cannot be shown to the identity provider of this exchange; "" if it can.

    The gateway has verified the token before, so its signature is not verified again.
    """
    found = _read(token)
    if found is None:
        return "came with a token that is no JWT"
    if found.claims.get("iss") != form.issuer:
        return "came with a token of another identity provider than the one that gives assertions"
    kind = found.header.get("typ")
    if form.subject_token_type == "id_token" and isinstance(kind, str) and kind.lower() in _ACCESS_TOKENS:  # noqa: S105 - a type
        return "came with an access token, and the identity provider is shown an id token"
    if not subject_of(token):
        return "came with a token without a subject"
    return ""


def subject_of(token: str) -> str:
    """Return the subject of a token, "" if it has none."""
    found = _read(token)
    subject = None if found is None else found.claims.get("sub")
    return subject if isinstance(subject, str) else ""


def read_assertion(reply: OutboundResponse, expected: ExpectedAssertion, now: float) -> str:
    """Return the assertion in the response of an identity provider. Raises `OutboundError` for anything but the expected one.

    The authorization server verifies the signature. An assertion for anybody or anything else is sent nowhere.
    """
    if 300 <= reply.status < 400:
        raise OutboundError("it redirects, which is not followed: name the endpoint itself as token_url")
    answer = members_of(reply)
    if reply.status != 200 or "access_token" not in answer:
        raise refusal(reply.status, answer)
    kind = answer.get("token_type")
    if answer.get("issued_token_type") != ID_JAG or not isinstance(kind, str) or kind.lower() != "n_a":
        raise OutboundError("its answer is no identity assertion (issued_token_type, token_type)")
    token = answer["access_token"]
    found = _read(token) if isinstance(token, str) else None
    if found is None or not isinstance(token, str):
        raise OutboundError("its identity assertion is no JWT")
    fault = _fault(found, expected, now)
    if fault:
        raise OutboundError(f"its identity assertion {fault}")
    return token


def assertion_request(
    server: ResourceAuthorizationServer, endpoint: str, held: ResolvedSecrets, assertion: str, now: float
) -> OutboundRequest:
    """Return the request that presents an assertion. Scopes and resource are in the assertion. Raises `SecretError`."""
    form = OAuth(
        grant=JWT_BEARER, authentication=server.authentication, client_id=server.client_id, key_id=server.key_id
    )
    return request(form, endpoint, held, now, {"assertion": assertion})


def _fault(found: _Jwt, expected: ExpectedAssertion, now: float) -> str:
    claims, kind = found.claims, found.header.get("typ")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") != _TYPE:
        return f"is of another type than {_TYPE} (typ)"
    if found.header.get("alg") in {None, "none"}:
        return "is not signed (alg)"
    audience = claims.get("aud")
    if audience not in (expected.audience, [expected.audience]):
        return "is for another authorization server (aud)"
    for name, value, text in (
        ("iss", expected.issuer, "comes from another identity provider"),
        ("sub", expected.subject, "is about another person than the caller"),
        ("client_id", expected.client_id, "is for another client"),
    ):
        if claims.get(name) != value:
            return f"{text} ({name})"
    resource = claims.get("resource")
    named = resource if isinstance(resource, list) else [resource]
    if expected.resource and resource is not None and expected.resource not in named:
        return "is for another resource"
    expires = claims.get("exp")
    if isinstance(expires, bool) or not isinstance(expires, int | float) or not expires + _LEEWAY_S > now:
        return "has expired, or never does (exp)"
    return ""


def _read(token: str) -> _Jwt | None:
    if len(token) > _MAX_LENGTH or not token.isascii() or not token.isprintable():
        return None
    import jwt  # noqa: PLC0415 - for sources with such a credential

    try:
        found = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        return None
    return _Jwt(header=found["header"], claims=found["payload"])
