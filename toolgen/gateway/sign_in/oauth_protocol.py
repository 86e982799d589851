"""Rules of OAuth 2.0 for the token and revocation endpoints, as Authlib has them (decision 010), over records that were read before.

Authlib judges and changes nothing: what a request would do is returned, and the caller does it in one step.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Any, ClassVar
from urllib.parse import unquote_plus

from authlib.oauth2.rfc6749 import AuthorizationServer, InvalidClientError, OAuth2Request
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, ClientCredentialsGrant, RefreshTokenGrant
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from authlib.oauth2.rfc7636 import CodeChallenge
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from msgspec import Struct

from toolgen.config.sign_in import JWT_BEARER
from toolgen.gateway.sign_in.client_metadata import METHODS, PROVING_METHODS
from toolgen.gateway.sign_in.clients import digest_of
from toolgen.gateway.sign_in.records import SCOPE, HostedClient, IssuedCode, SignInGrant
from toolgen.model.redirect_uris import redirect_fits

__all__ = ["Judgement", "KnownRecords", "basic_credentials", "judge_revocation", "judge_token_request"]

# At DEBUG Authlib logs the tokens that it issues.
logging.getLogger("authlib").setLevel(logging.INFO)

Issue = Callable[[bool], Mapping[str, Any]]
"""Function that makes the answer of the token endpoint, with or without a refresh token."""


class KnownRecords(Struct, frozen=True, kw_only=True):
    """Stored records that a request names: the client with its keys, the code, and the grant of a matching refresh token."""

    client: HostedClient | None
    keys: Mapping[str, Any] | None = None
    code: IssuedCode | None = None
    grant: SignInGrant | None = None
    audiences: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "KnownRecords(***)"


class Judgement(Struct, frozen=True, kw_only=True):
    """Answer to a request. It is valid only if the records have not changed meanwhile. `assertion` is the id and the end of an assertion
    that was used, None without one."""

    status: int
    body: Mapping[str, Any]
    assertion: tuple[str, float] | None = None

    def __repr__(self) -> str:
        return f"Judgement({self.status})"


def judge_token_request(known: KnownRecords, form: Mapping[str, str], authorization: str, issue: Issue) -> Judgement:
    """Return the answer to a token request, for which `issue` makes the tokens."""
    server = _Server(known, issue)
    status, body, _ = server.create_token_response(_FormRequest(form, authorization))
    return Judgement(status=status, body=body, assertion=server.assertion)


def judge_revocation(known: KnownRecords, form: Mapping[str, str], authorization: str) -> tuple[Judgement, bool]:
    """Return the answer to a revocation (RFC 7009), and True if the grant is to be revoked."""
    server = _Server(known, lambda _: {})
    status, body, _ = server.create_endpoint_response("revocation", _FormRequest(form, authorization))
    return Judgement(status=status, body=body, assertion=server.assertion), server.revoked


def basic_credentials(authorization: str) -> tuple[str, str] | None:
    """Return the client id and secret of a Basic header, both form-encoded (RFC 6749 section 2.3.1); None for another header."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, secret = base64.b64decode(value.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, ValueError):
        return None
    return (unquote_plus(name), unquote_plus(secret)) if colon else None


class _FormRequest(OAuth2Request):  # type: ignore[misc]
    """Request to an endpoint. Its address is not taken from the client."""

    def __init__(self, form: Mapping[str, str], authorization: str) -> None:
        super().__init__("POST", "https://gateway.invalid/", headers={"Authorization": authorization})
        self.payload = BasicOAuth2Payload(dict(form))

    @property
    def form(self) -> dict[str, str]:
        return dict(self.payload.data)

    @property
    def args(self) -> dict[str, str]:
        return {}


class _Client:
    """Client, in the interface of Authlib."""

    def __init__(self, client: HostedClient) -> None:
        self.client = client

    def __repr__(self) -> str:
        return "_Client(***)"

    def get_client_id(self) -> str:
        return self.client.id

    def check_client_secret(self, secret: str) -> bool:
        own, shown = self.client, digest_of(secret)
        return any(one and hmac.compare_digest(one, shown) for one in (own.secret, *own.secrets))

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        own = self.client.method
        # A secret in the body is as secure as in the header, and clients confuse the two.
        return method == own or (method.startswith("client_secret") and own.startswith("client_secret"))

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in self.client.grants

    def check_redirect_uri(self, uri: str) -> bool:
        return any(redirect_fits(one, uri) for one in self.client.redirects)


class _Code:
    """Authorization code, in the interface of Authlib."""

    code_challenge_method = "S256"

    def __init__(self, code: IssuedCode) -> None:
        self._code = code
        self.code_challenge = code.challenge

    def __repr__(self) -> str:
        return "_Code(***)"

    def get_redirect_uri(self) -> str:
        return self._code.redirect

    def get_scope(self) -> str:
        return SCOPE


class _GrantToken:
    """Token of a grant, in the interface of Authlib."""

    def __init__(self, grant: SignInGrant) -> None:
        self._grant = grant

    def __repr__(self) -> str:
        return "_GrantToken(***)"

    def check_client(self, client: _Client) -> bool:
        return self._grant.client == client.client.id

    def get_scope(self) -> str:
        return SCOPE


class _Assertion(JWTBearerClientAssertion):  # type: ignore[misc]
    """Assertion of a client (RFC 7523) for the token endpoint, or for the issuer, each exactly as in the metadata."""

    CLIENT_AUTH_METHOD = "private_key_jwt"
    _LONGEST_S = 3600.0

    def __init__(self, server: _Server) -> None:
        super().__init__(validate_jti=True)
        self._server = server

    def get_audiences(self) -> list[str]:
        return list(self._server.known.audiences)

    def verify_claims(self, claims: Any) -> None:
        audience = claims.get("aud")
        named = audience if isinstance(audience, list) else [audience]
        if not set(self.get_audiences()) & {one for one in named if isinstance(one, str)}:
            raise InvalidClientError(
                description=f"the audience of the assertion is not the token endpoint; expected {self.get_audiences()[0]}"
            )
        super().verify_claims(claims)

    def validate_jti(self, claims: Mapping[str, Any], jti: object) -> bool:
        if not isinstance(jti, str) or not 0 < len(jti) <= 256:
            return False
        self._server.assertion = (jti, float(claims["exp"]))
        return True

    def resolve_client_public_key(self, client: _Client) -> Any:
        try:
            return KeySet.import_key_set(self._server.known.keys or {"keys": []})
        except (JoseError, ValueError, TypeError, KeyError):
            raise InvalidClientError(description="the keys of the client cannot be read") from None


class _CodeGrant(AuthorizationCodeGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS: ClassVar[list[str]] = list(METHODS)

    def query_authorization_code(self, code: str, client: _Client) -> _Code | None:
        known = self.server.known.code
        return _Code(known) if known is not None and not known.used and known.client == client.client.id else None

    def authenticate_user(self, authorization_code: _Code) -> bool:
        return True

    def delete_authorization_code(self, authorization_code: _Code) -> None:
        """Do nothing: the caller deletes the code in one step with storing the grant."""


class _RefreshGrant(RefreshTokenGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS: ClassVar[list[str]] = list(METHODS)
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> _GrantToken | None:
        known = self.server.known.grant
        return None if known is None else _GrantToken(known)

    def authenticate_user(self, refresh_token: _GrantToken) -> bool:
        return True

    def revoke_old_credential(self, refresh_token: _GrantToken) -> None:
        """Do nothing: the caller replaces the token in one step."""

    def _validate_token_scope(self, token: _GrantToken) -> None:
        """Accept every scope: there is only one, and the answer names it."""


class _ClientGrant(ClientCredentialsGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS: ClassVar[list[str]] = list(PROVING_METHODS)

    def validate_requested_scope(self) -> None:
        """Accept every scope: there is only one, and the answer names it."""


class _IdentityAssertionGrant(_ClientGrant):
    """Grant by an assertion of the identity provider about a person. The assertion was read before; the client proves itself here."""

    GRANT_TYPE = JWT_BEARER


class _Pkce(CodeChallenge):  # type: ignore[misc]
    """PKCE with S256 only (RFC 9700 section 2.1.1)."""

    DEFAULT_CODE_CHALLENGE_METHOD = "S256"
    SUPPORTED_CODE_CHALLENGE_METHOD: ClassVar[list[str]] = ["S256"]
    CODE_CHALLENGE_METHODS: ClassVar[dict[str, Any]] = {"S256": CodeChallenge.CODE_CHALLENGE_METHODS["S256"]}


class _Revocation(RevocationEndpoint):  # type: ignore[misc]
    SUPPORTED_TOKEN_TYPES = ("access_token", "refresh_token")
    CLIENT_AUTH_METHODS: ClassVar[list[str]] = list(METHODS)

    def query_token(self, token_string: str, token_type_hint: str | None) -> _GrantToken | None:
        known = self.server.known.grant
        return None if known is None else _GrantToken(known)

    def revoke_token(self, token: _GrantToken, request: Any) -> None:
        self.server.revoked = True


class _Server(AuthorizationServer):  # type: ignore[misc]
    """Rules for one request. `revoked` and `assertion` are what the request would change."""

    def __init__(self, known: KnownRecords, issue: Issue) -> None:
        super().__init__()
        self.known = known
        self.revoked = False
        self.assertion: tuple[str, float] | None = None
        self.register_grant(_CodeGrant, [_Pkce(required=True)])
        self.register_grant(_RefreshGrant)
        self.register_grant(_ClientGrant)
        self.register_grant(_IdentityAssertionGrant)
        self.register_endpoint(_Revocation)
        self.register_client_auth_method("client_secret_basic", self._by_basic)
        self.register_client_auth_method("private_key_jwt", _Assertion(self))
        self.register_token_generator("default", lambda **asked: issue(bool(asked["include_refresh_token"])))

    def query_client(self, client_id: str) -> _Client | None:
        known = self.known.client
        return _Client(known) if known is not None and known.id == client_id else None

    def save_token(self, token: Mapping[str, Any], request: Any) -> None:
        """Do nothing: the caller stores the grant in one step with the code or the refresh token."""

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Do nothing: there are no listeners."""

    def create_oauth2_request(self, request: _FormRequest) -> _FormRequest:
        return request

    def handle_response(self, status: int, body: Any, headers: Any) -> tuple[int, Any, Any]:
        return status, body, headers

    def _by_basic(self, query_client: Callable[[str], _Client | None], request: _FormRequest) -> _Client | None:
        found = basic_credentials(request.headers["Authorization"])
        client = None if found is None else query_client(found[0])
        return client if found is not None and client is not None and client.check_client_secret(found[1]) else None
