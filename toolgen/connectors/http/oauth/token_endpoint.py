"""Token request and strict parsing of its response (RFC 6749 sections 4.4, 5 and 6, RFC 7523, RFC 8693, RFC 8705, RFC 9449)."""

from __future__ import annotations

import base64
import json
import math
import re
import secrets as randomness
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import parse_qsl, quote_plus, urlencode

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, SECP384R1, EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from toolgen.connectors.http.oauth.dpop import ProofKey, check_binding
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, OutboundResponse
from toolgen.core.errors import SecretError
from toolgen.model.auth import OAuth
from toolgen.model.excerpt import bounded
from toolgen.model.secret import Unprinted

__all__ = ["JWT_BEARER", "Issued", "ResolvedSecrets", "members_of", "read_answer", "read_members", "refusal", "request"]

_TYPES = "urn:ietf:params:oauth:token-type:"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
"""Grant that presents an assertion (RFC 7523 section 2.1)."""
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_TOKEN = re.compile(r"[\x21-\x7e]{1,16384}\Z")
_USUAL_S = 300.0  # lifetime in seconds if an answer states none
_NUMBER = re.compile(r"-?[0-9]{1,12}(?:\.[0-9]{1,12})?\Z")
_FORM = "application/x-www-form-urlencoded"
_MAX_FIELDS = 100
_MAX_DURATION_S = 86_400.0
_ASSERTED_S = 60
_NOTHING: Mapping[str, str] = MappingProxyType({})
# RFC 6749 section 5.2, RFC 8707 section 2, RFC 9449 section 5, and common other codes. Any other code is not repeated: an endpoint could
# put the secrets that it received into it, and agents would read them.
_ERRORS = {
    "invalid_request": "it finds something wrong with the request",
    "invalid_client": "it does not accept the client's credentials",
    "invalid_grant": "it does not accept the refresh token, the assertion or the caller's token",
    "invalid_scope": "it does not give these scopes",
    "unauthorized_client": "this client may not use this grant",
    "invalid_target": "it does not give tokens for this audience or resource",
    "unsupported_grant_type": "it does not know this grant",
    "access_denied": "it denies the client a token",
    "invalid_dpop_proof": "it does not accept the proof of possession, or requires one (dpop: true)",
    "use_dpop_nonce": "it requires a proof of possession with a nonce of its own (dpop: true)",
    "interaction_required": "it requires a person to sign in or consent first",
    "login_required": "it requires a person to sign in or consent first",
    "consent_required": "it requires a person to sign in or consent first",
    "server_error": "it failed",
    "temporarily_unavailable": "it cannot answer for a while",
    "slow_down": "it received too many requests",
}


class ResolvedSecrets(Unprinted, frozen=True, kw_only=True):
    """Resolved secrets of one request: the client's own, and the token that is exchanged or refreshed."""

    client_id: str = ""
    client_secret: str = ""
    private_key: str = ""
    refresh_token: str = ""
    subject_token: str = ""
    assertion: str = ""


class Issued(Unprinted, frozen=True, kw_only=True):
    """Token response: a token, its lifetime in seconds (0: only for the current call) and the new refresh token, if any."""

    token: str
    seconds: float
    refresh_token: str = ""


def request(
    form: OAuth, endpoint: str, held: ResolvedSecrets, now: float, more: Mapping[str, str] = _NOTHING
) -> OutboundRequest:
    """Return the request for a token, with the additional fields `more`. Raises `SecretError` for a private key that cannot sign."""
    fields: dict[str, str] = {"grant_type": form.grant} if form.grant else {}
    match form.grant:
        case "refresh_token":
            fields["refresh_token"] = held.refresh_token
        case "token_exchange":
            fields |= {
                "grant_type": _EXCHANGE,
                "subject_token": held.subject_token,
                "subject_token_type": f"{_TYPES}{form.subject_token_type}",
            }
            if form.token_type:
                fields["requested_token_type"] = form.token_type
        case "jwt_bearer":
            fields |= {"grant_type": JWT_BEARER, "assertion": _workload_assertion(held.assertion, now)}
    given = {"scope": " ".join(form.scopes), "audience": form.audience, "resource": form.resource}
    fields |= {name: value for name, value in given.items() if value}
    fields |= more
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    match form.authentication:
        case "client_secret_basic":
            # Section 2.3.1: both are form-encoded first, so that a colon in the id is not read as the separator.
            pair = f"{quote_plus(held.client_id)}:{quote_plus(held.client_secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        case "client_secret_post":
            fields |= {"client_id": held.client_id, "client_secret": held.client_secret}
        case "private_key_jwt":
            assertion = _assertion(form, endpoint, held, now)
            fields |= {"client_id": held.client_id, "client_assertion_type": _ASSERTION, "client_assertion": assertion}
        case _:
            if held.client_id:
                fields["client_id"] = held.client_id
    return OutboundRequest(method="POST", url=endpoint, headers=headers, body=urlencode(fields).encode())


def read_answer(reply: OutboundResponse, scopes: tuple[str, ...], key: ProofKey | None = None) -> Issued:
    """Return the token of an answer, which has to be bound to the key if there is one. Raises `OutboundError` for any other answer, with a
    message without text of the endpoint."""
    if 300 <= reply.status < 400:
        raise OutboundError("it redirects, which is not followed: name the endpoint itself as token_url")
    return read_members(reply.status, members_of(reply), scopes, key)


def read_members(
    status: int, answer: Mapping[str, object], scopes: tuple[str, ...], key: ProofKey | None = None
) -> Issued:
    """Return the token of the members of an answer. Raises as `read_answer`."""
    if status != 200 or (
        answer.get("error") and "access_token" not in answer
    ):  # GitHub, Slack and others report errors with 200
        raise refusal(status, answer)
    token, kind = answer.get("access_token"), answer.get("token_type")
    if not isinstance(token, str) or not _TOKEN.match(token):
        raise OutboundError("its answer has no access_token that could be sent in a header")
    kind = kind.lower() if isinstance(kind, str) else ""
    if key is not None:
        check_binding(token, kind, key)
    elif kind != "bearer":
        raise OutboundError("its token is not a bearer token")
    granted = _granted(answer.get("scope"))
    if granted is not None and (lacking := [one for one in scopes if one not in granted]):
        raise OutboundError(f"its token lacks the scope {bounded(lacking[0], 80)}")
    refreshed = answer.get("refresh_token")
    if refreshed is not None and (not isinstance(refreshed, str) or not _TOKEN.match(refreshed)):
        raise OutboundError("its answer has a refresh_token that could never be sent back")
    return Issued(token=token, seconds=_seconds(answer.get("expires_in")), refresh_token=refreshed or "")


def refusal(status: int, answer: Mapping[str, object]) -> OutboundError:
    """Return the error for an answer without a token. Of what the endpoint says, only codes of standards are repeated."""
    code = answer.get("error")
    known = _ERRORS.get(code, "") if isinstance(code, str) else ""
    return OutboundError(f"it answered {status}{f': {known}' if known else ''}")


def _granted(scope: object) -> frozenset[str] | None:
    """Return the scopes of a token, from a text with spaces (RFC 6749 section 3.3) or commas, or a list; None if the answer has none."""
    if isinstance(scope, list) and all(isinstance(one, str) for one in scope):
        return frozenset(scope)
    return frozenset(re.split(r"[\s,]+", scope)) if isinstance(scope, str) else None


def _seconds(value: object) -> float:
    """Return the lifetime of a token in seconds; some services write the number as text. Zero or less becomes 0: the token is used only
    for the current call. Raises `OutboundError`.
    """
    if value is None:
        return _USUAL_S
    if isinstance(value, str) and _NUMBER.match(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -math.inf < value < math.inf:
        raise OutboundError("its answer has an invalid lifetime of the token (expires_in)")
    return float(max(0.0, min(value, _MAX_DURATION_S)))


def members_of(reply: OutboundResponse) -> Mapping[str, object]:
    """Return the members of an answer in JSON, or of a form if that is its media type. Raises `OutboundError`."""
    if reply.content_type.partition(";")[0].strip().lower() == _FORM:
        return _form(reply.body)
    try:
        answer = json.loads(reply.body)
    except (ValueError, RecursionError):
        raise OutboundError("its answer is not JSON") from None
    if not isinstance(answer, dict):
        raise OutboundError("its answer is not a JSON object")
    return answer


def _form(body: bytes) -> Mapping[str, object]:
    try:
        fields = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=True, max_num_fields=_MAX_FIELDS
        )
    except ValueError:
        raise OutboundError("its answer is not a valid form, although that is its media type") from None
    if len(answer := dict(fields)) != len(fields):
        raise OutboundError("its answer has a field twice")
    return answer


def _workload_assertion(assertion: str, now: float) -> str:
    """Return the assertion of a workload, as its platform wrote it. Raises `SecretError` for one that no server could accept.

    The authorization server verifies it. What has expired is sent nowhere, because a file that nobody renews is the usual fault.
    """
    import jwt  # noqa: PLC0415 - for sources with such a credential

    try:
        claims = jwt.decode(assertion, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise SecretError("the assertion of an OAuth client is no JWT") from None
    expires = claims.get("exp")
    if isinstance(expires, bool) or not isinstance(expires, int | float) or not expires > now:
        raise SecretError("the assertion of an OAuth client has expired, or never does (exp)")
    return assertion


def _assertion(form: OAuth, endpoint: str, held: ResolvedSecrets, now: float) -> str:
    """Return a signed assertion of the client's identity for this endpoint, or for the server's issuer where it is configured, valid for a
    minute (RFC 7523 section 3).

    Raises `SecretError`.
    """
    claims = {
        "iss": held.client_id,
        "sub": held.client_id,
        "aud": endpoint if form.authorization_server is not None else form.issuer or endpoint,
        "jti": randomness.token_urlsafe(16),
        "iat": int(now),
        "exp": int(now) + _ASSERTED_S,
    }
    try:
        key = load_pem_private_key(held.private_key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SecretError("the private_key of an OAuth client is not a PEM key without a password") from None
    import jwt  # noqa: PLC0415 - for clients that sign assertions

    headers = {"kid": form.key_id} if form.key_id else None
    match key:
        case RSAPrivateKey():
            return jwt.encode(claims, key, "RS256", headers)
        case EllipticCurvePrivateKey(curve=SECP256R1()):
            return jwt.encode(claims, key, "ES256", headers)
        case EllipticCurvePrivateKey(curve=SECP384R1()):
            return jwt.encode(claims, key, "ES384", headers)
        case Ed25519PrivateKey():
            return jwt.encode(claims, key, "EdDSA", headers)
        case _:
            raise SecretError(
                "the private_key of an OAuth client is of a kind that signs no assertions (RSA, P-256, P-384, Ed25519 do)"
            )
