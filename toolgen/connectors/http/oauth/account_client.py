"""OAuth client for accounts of people: authorization code with PKCE, refresh, revocation and device authorization
(RFC 6749 sections 4.1 and 6, RFC 7636, RFC 7009, RFC 8628, RFC 8707, RFC 9207, RFC 9449), with the refusals that RFC 9700 requires.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets as randomness
from collections.abc import Mapping
from types import MappingProxyType
from urllib.parse import parse_qsl, urlencode, urlsplit

from msgspec.structs import replace

from toolgen.connectors.account_providers import ProviderPreset, provider_of, with_preset
from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.oauth.dpop import ProofKey, ask_with_proof
from toolgen.connectors.http.oauth.server_metadata import ServerMetadata, discover, given_metadata
from toolgen.connectors.http.oauth.token_endpoint import ResolvedSecrets, members_of, read_members, request
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, OutboundResponse, TlsMaterial, Via
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.core.clock import Clock
from toolgen.model.account_need import NO_DEMAND, AccountDemand
from toolgen.model.auth import OAuth, UserAccount
from toolgen.model.secret import Unprinted

__all__ = ["AccountClient", "AuthorizationRequest", "DeviceAuthorization", "RejectedGrantError", "TokenSet"]

_METADATA_S = 3600.0
_MAX_CODE_LENGTH = 4096
_MAX_SECONDS = 10 * 366 * 86_400.0
_DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
_REJECTED = frozenset({"invalid_grant", "bad_refresh_token", "invalid_refresh_token", "token_revoked", "access_denied"})
_WAITING = frozenset({"authorization_pending", "slow_down"})
_DEVICE_S = (5.0, 1800.0)
_MAX_TEXT_LENGTH = 256


class RejectedGrantError(OutboundError):
    """Raised if the authorization server no longer accepts the code or the refresh token: the person has to consent again."""


class TokenSet(Unprinted, frozen=True, kw_only=True):
    """Tokens of an account. `seconds` is the lifetime of the access token, 0 if the server states none. `proof_key` is the private key that
    they are bound to (PEM), "" for bearer tokens."""

    access_token: str
    refresh_token: str
    seconds: float
    scopes: tuple[str, ...]
    proof_key: str = ""


class AuthorizationRequest(Unprinted, frozen=True, kw_only=True):
    """Authorization request: the address that the person's browser is sent to, and what the answer has to fit."""

    url: str
    state: str
    verifier: str
    redirect: str
    issuer: str


class DeviceAuthorization(Unprinted, frozen=True, kw_only=True):
    """Device authorization (RFC 8628 section 3.2): the code that a person types at `page`, and how often the server may be asked."""

    device_code: str
    user_code: str
    page: str
    seconds: float
    interval_s: float


class AccountClient:
    """Client of one source at its authorization server. The egress rules of the policy decide about every request."""

    def __init__(
        self,
        form: UserAccount,
        *,
        secrets: SecretResolver,
        permit: Permit,
        clock: Clock,
        resolver: Resolver = system_resolver,
    ) -> None:
        self.form = with_preset(form)
        self.provider: ProviderPreset = provider_of(form)
        self._secrets = secrets
        self._permit = permit
        self._clock = clock
        self._resolver = resolver
        self._metadata: tuple[ServerMetadata, float] | None = None

    async def metadata(self) -> ServerMetadata:
        """Return the endpoints of the server; metadata is read again after an hour. Raises `OutboundError`."""
        given = given_metadata(self.form)
        if given is not None:
            return given
        now = self._clock.monotonic()
        if self._metadata is None or self._metadata[1] <= now:
            self._metadata = (await discover(self.form, await self._via()), now + _METADATA_S)
        return self._metadata[0]

    async def begin(self, redirect: str, demand: AccountDemand = NO_DEMAND) -> AuthorizationRequest:
        """Return a new authorization request with PKCE (S256) and a state of its own, for the scopes of the source and what a system
        demands beyond them (RFC 9470 section 4). Raises `OutboundError` and `SecretError`."""
        server, state, verifier = await self.metadata(), randomness.token_urlsafe(32), randomness.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode("ascii")).digest()).rstrip(b"=")
        query = {
            **self.provider.parameters,
            "response_type": "code",
            "client_id": await self._value(self.form.client_id),
            "redirect_uri": redirect,
            "state": state,
            "code_challenge": challenge.decode("ascii"),
            "code_challenge_method": "S256",
        }
        if scopes := dict.fromkeys((*self.form.scopes, *demand.scopes)):
            query[self.provider.scope_parameter] = self.provider.scope_separator.join(scopes)
        query |= {name: value for name in ("resource", "audience") if (value := getattr(self.form, name))}
        query |= {"acr_values": " ".join(demand.acr_values)} if demand.acr_values else {}
        query |= {"max_age": str(demand.max_age)} if demand.max_age >= 0 else {}
        known = {name for name, _ in parse_qsl(urlsplit(server.authorization_url).query, keep_blank_values=True)}
        if clash := sorted(known & query.keys()):
            raise OutboundError(f"its authorization endpoint sets {clash[0]} itself")
        join = "&" if "?" in server.authorization_url else "?"
        url = f"{server.authorization_url}{join}{urlencode(query)}"
        return AuthorizationRequest(url=url, state=state, verifier=verifier, redirect=redirect, issuer=server.issuer)

    async def check_answer(self, asked: AuthorizationRequest, *, state: str, issuer: str | None) -> None:
        """Check that an authorization response answers this request, by state and `iss` (RFC 9207). Raises `OutboundError`."""
        if not hmac.compare_digest(state.encode("utf-8", "replace"), asked.state.encode()):
            raise OutboundError("the answer is for another request (state)")
        server = await self.metadata()
        if server.issuer != asked.issuer:
            raise OutboundError("the authorization server was changed meanwhile")
        if issuer is None:
            if server.says_issuer:
                raise OutboundError("the answer does not name its issuer (iss), which this server always sends")
        elif issuer != server.issuer and (server.discovered or _origin(issuer) != server.issuer):
            raise OutboundError("the answer came from another authorization server (iss)")

    async def redeem(self, asked: AuthorizationRequest, code: str) -> TokenSet:
        """Return the tokens for an authorization code. Raises `OutboundError`, `RejectedGrantError` and `SecretError`."""
        if not 0 < len(code) <= _MAX_CODE_LENGTH:
            raise OutboundError("its code is empty, or longer than any")
        more = {"code": code, "redirect_uri": asked.redirect, "code_verifier": asked.verifier}
        return await self._tokens("authorization_code", more, key=self._new_key())

    async def refresh(self, refresh_token: str, proof_key: str = "") -> TokenSet:
        """Return new tokens for a refresh token, bound to the key of those before. Raises as `redeem`."""
        key = ProofKey.read(proof_key) if proof_key else self._new_key()
        return await self._tokens("refresh_token", {}, refresh_token, key=key)

    def _new_key(self) -> ProofKey | None:
        return ProofKey.generate() if self.form.dpop else None

    def revocable(self, access_token: str, refresh_token: str) -> list[tuple[str, str]]:
        """Return the tokens of an account that have to be revoked at this server, each with its type."""
        both = [(refresh_token, "refresh_token"), (access_token, "access_token")]
        match self.provider.revocation.tokens:
            case "access_token":
                both = both[1:]
            case "grant":
                both = both[:1] if refresh_token else both[1:]
            case _:
                pass
        return [one for one in both if one[0]]

    async def revoke(self, token: str, kind: str) -> bool:
        """Revoke a token at the server (RFC 7009); False if the server has no endpoint for that. Raises `OutboundError`, `SecretError`."""
        server, form = await self.metadata(), self.provider.revocation
        if not server.revocation_url:
            return False
        fields = {"token": token, "token_type_hint": kind}
        if form.fields != "token_and_hint":
            fields = {kind if form.fields == "token_by_type" else "token": token}
        reply = await self._post("", server.revocation_url, fields, headers=form.headers)
        if reply.status not in {200, 204}:
            raise OutboundError(f"it answered {reply.status} when a token was revoked")
        if form.confirmed_by and members_of(reply).get(form.confirmed_by) is not True:
            raise OutboundError("it did not confirm that a token was revoked")
        return True

    async def begin_device(self) -> DeviceAuthorization:
        """Start a device authorization. Raises `OutboundError` and `SecretError`."""
        server = await self.metadata()
        if not server.device_url:
            raise OutboundError("it has no device authorization endpoint")
        more = {"scope": " ".join(self.form.scopes)} if self.form.scopes else {}
        if self.form.authentication == "none":
            more["client_id"] = await self._value(self.form.client_id)
        reply = await self._post("", server.device_url, more)
        said = members_of(reply)
        if reply.status != 200:
            raise OutboundError(f"it answered {reply.status} when a device was to be authorized")
        page = (
            _text(said, "verification_uri_complete")
            or _text(said, "verification_uri")
            or _text(said, "verification_url")
        )
        code, user = _text(said, "device_code", 4096), _text(said, "user_code")
        if not code or not user or not page.startswith(("https://", "http://127.0.0.1", "http://localhost")):
            raise OutboundError("its answer has no device code, or no page to type it at")
        return DeviceAuthorization(
            device_code=code,
            user_code=user,
            page=page,
            seconds=min(_number(said.get("expires_in"), 600.0), _DEVICE_S[1]),
            interval_s=max(_number(said.get("interval"), _DEVICE_S[0]), 1.0),
        )

    async def poll_device(self, device: DeviceAuthorization) -> TokenSet | str:
        """Return the tokens, or `authorization_pending` or `slow_down`. Raises as `redeem`."""
        key = self._new_key()
        reply = await self._token_reply(_DEVICE, {"device_code": device.device_code}, key=key)
        error = members_of(reply).get("error")
        return error if isinstance(error, str) and error in _WAITING else self._read(reply, key)

    async def _tokens(
        self, grant: str, more: Mapping[str, str], refresh_token: str = "", *, key: ProofKey | None
    ) -> TokenSet:
        return self._read(await self._token_reply(grant, more, refresh_token, key=key), key)

    async def _token_reply(
        self, grant: str, more: Mapping[str, str], refresh_token: str = "", *, key: ProofKey | None
    ) -> OutboundResponse:
        server = await self.metadata()
        fields = {**more, **({"resource": self.form.resource} if self.form.resource else {})}
        reply = await self._post(grant, server.token_url, fields, refresh_token, key=key)
        if 300 <= reply.status < 400:
            raise OutboundError("it redirects, which is not followed")
        return reply

    def _read(self, reply: OutboundResponse, key: ProofKey | None = None) -> TokenSet:
        """Return the tokens of an answer, bound to the key if there is one. Errors contain no text of the server."""
        answer = dict(members_of(reply))
        inner = answer.get(self.provider.token_at) if self.provider.token_at else None
        if isinstance(inner, Mapping):
            answer = {**inner, **({"error": answer["error"]} if "error" in answer else {})}
        kind = answer.get("token_type")
        if kind == "user" and self.provider.token_at:
            answer["token_type"] = "bearer"  # noqa: S105 - the type of a token
        if isinstance(code := answer.get("error"), str) and code in _REJECTED and "access_token" not in answer:
            raise RejectedGrantError("it does not accept what it gave out before")
        issued = read_members(reply.status, answer, (), key)
        scope = answer.get("scope")
        if isinstance(scope, list) and all(isinstance(one, str) for one in scope):
            scope = " ".join(scope)  # older applications of Linear
        scopes = tuple(scope.replace(",", " ").split()) if isinstance(scope, str) else self.form.scopes
        seconds = _number(answer.get("expires_in"), 0.0)
        return TokenSet(
            access_token=issued.token,
            refresh_token=issued.refresh_token,
            seconds=max(0.0, min(seconds, _MAX_SECONDS)),
            scopes=scopes,
            proof_key="" if key is None else key.pem(),
        )

    async def _post(
        self,
        grant: str,
        url: str,
        more: Mapping[str, str],
        refresh_token: str = "",
        *,
        key: ProofKey | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> OutboundResponse:
        form = self.form
        held = ResolvedSecrets(
            client_id=await self._value(form.client_id),
            client_secret=await self._value(form.client_secret),
            private_key=await self._value(form.private_key),
            refresh_token=refresh_token,
        )
        client = OAuth(grant=grant, authentication=form.authentication, client_id=form.client_id, key_id=form.key_id)

        def asked() -> OutboundRequest:
            made = request(client, url, held, self._clock.now(), more)
            if self.provider.body == "json":
                made = _as_json(made)
            return replace(made, headers={**made.headers, **headers}) if headers else made

        return await ask_with_proof(asked, await self._via(), key, self._clock)

    async def _via(self) -> Via:
        tls = self.form.tls
        material = TlsMaterial()
        if tls is not None:
            material = TlsMaterial(
                certificate=await self._value(tls.certificate),
                key=await self._value(tls.key),
                authorities=await self._value(tls.authorities),
            )
        destination = Destination(host="", port=0, service="http")
        return Via(permit=self._permit, destination=destination, resolver=self._resolver, tls=material)

    async def _value(self, reference: SecretReference | None) -> str:
        return "" if reference is None else (await self._secrets.fetch(reference)).reveal()

    async def client_name(self) -> str:
        """Return a digest of the configured server and client: tokens of another client or server are never sent.

        No request is made for it, so that calls go on while the server cannot be reached. Raises `SecretError`.
        """
        client = await self._value(self.form.client_id)
        server = [self.form.issuer, self.form.token_url] if not self.form.issuer else [self.form.issuer]
        return hashlib.sha256(json.dumps([server, client]).encode()).hexdigest()


def _as_json(asked: OutboundRequest) -> OutboundRequest:
    fields = dict(parse_qsl(asked.body.decode("ascii"), keep_blank_values=True))
    headers = {**asked.headers, "Content-Type": "application/json"}
    return replace(asked, headers=headers, body=json.dumps(fields).encode())


def _text(said: Mapping[str, object], name: str, longest: int = _MAX_TEXT_LENGTH) -> str:
    value = said.get(name)
    return value if isinstance(value, str) and len(value) <= longest and value.isascii() and value.isprintable() else ""


def _number(value: object, usual: float) -> float:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return usual
    return float(value)


def _origin(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc}"
