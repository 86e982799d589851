"""Identity provider of the console: the address of its sign-in page, and the token for the code with which the browser returns."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlencode, urlsplit

from toolgen.config.console import SignIn
from toolgen.gateway.identity.jwt import RefusedTokenError, read_token
from toolgen.model.secret import Secret
from toolgen.state.sessions import SignInAttempt

__all__ = ["Ask", "Provider", "ProviderError"]

Ask: TypeAlias = Callable[[str, bytes | None, Mapping[str, str]], Awaitable[tuple[int, bytes]]]
"""Function that sends a form (None for GET) and headers to a URL, and returns status and body. Raises `OSError` without an answer."""
_MAX_CODE_LENGTH = 4096


class ProviderError(Exception):
    """Failure of a provider. The text is for the person who signs in, and contains nothing that the provider sent."""


class Provider:
    """OpenID provider, found by its issuer (OpenID Connect Discovery 1.0, section 4). `secret` is resolved each time it is sent."""

    def __init__(self, settings: SignIn, ask: Ask, secret: Callable[[], Awaitable[Secret | None]]) -> None:
        self._settings = settings
        self._ask = ask
        self._secret = secret
        self._found: Mapping[str, str] | None = None
        self._says_issuer = False
        self.name = urlsplit(settings.issuer).hostname or settings.issuer

    async def begin(self, attempt: SignInAttempt, *, max_age: int = -1) -> str:
        """Return the address to which the browser is sent. Raises `ProviderError`.

        With `max_age`, the person has to authenticate anew unless they did within that many seconds.
        """
        where = (await self._endpoints())["authorization_endpoint"]
        challenge = base64.urlsafe_b64encode(hashlib.sha256(attempt.verifier.encode("ascii")).digest()).rstrip(b"=")
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": attempt.redirect,
            "scope": " ".join(self._settings.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge.decode("ascii"),
            "code_challenge_method": "S256",
            **({"max_age": str(max_age)} if max_age >= 0 else {}),
            **({"prompt": "login"} if max_age == 0 else {}),
        }
        return f"{where}{'&' if '?' in where else '?'}{urlencode(query)}"

    async def check_issuer(self, said: str) -> None:
        """Refuse an answer with another issuer, or without an issuer if the provider's metadata promises one (RFC 9207).

        Raises `ProviderError`.
        """
        await self._endpoints()
        if said != self._settings.issuer and (said or self._says_issuer):
            raise ProviderError(f"the answer came from somebody else; expected iss={self._settings.issuer}")

    async def token(self, code: str, attempt: SignInAttempt) -> str:
        """Return the id token for a code, after checking that it belongs to this attempt; `Identity` verifies its signature and its owner.

        Raises `ProviderError`.
        """
        where = (await self._endpoints())["token_endpoint"]
        if len(code) > _MAX_CODE_LENGTH:
            raise ProviderError("its code is too long")
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect,
            "client_id": self._settings.client_id,
            "code_verifier": attempt.verifier,
        }
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        try:
            secret = await self._secret()
        except OSError as error:
            raise ProviderError("the gateway's own secret for it cannot be read") from error
        if secret is not None:  # RFC 6749, section 2.3.1
            pair = urlencode({"": self._settings.client_id})[1:] + ":" + urlencode({"": secret.reveal()})[1:]
            headers["authorization"] = "Basic " + base64.b64encode(pair.encode("ascii")).decode("ascii")
        answer = await self._object(where, urlencode(form).encode("ascii"), headers)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise ProviderError("its answer has no id token")
        try:
            claims = read_token(token).claims
        except RefusedTokenError as error:
            raise ProviderError("its id token cannot be read") from error
        self._check(claims, attempt)
        return token

    def _check(self, claims: Mapping[str, Any], attempt: SignInAttempt) -> None:
        """Check the claims that `Identity` does not check: nonce, issuer, audience and authorized party of the ID token.

        The token came from the provider itself; its signature is verified afterwards (OpenID Connect Core 1.0, section 3.1.3.7).
        """
        nonce, client = claims.get("nonce"), self._settings.client_id
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), attempt.nonce.encode()):
            raise ProviderError("its id token answers another attempt")
        if claims.get("iss") != self._settings.issuer:
            raise ProviderError("its id token has another issuer")
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if client not in audiences or (len(audiences) > 1 and claims.get("azp") != client):
            raise ProviderError("its id token is for another client")
        if claims.get("azp", client) != client:
            raise ProviderError("its id token is for another client")

    async def _endpoints(self) -> Mapping[str, str]:
        if self._found is None:
            address = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            said = await self._object(address, None, {"accept": "application/json"})
            if said.get("issuer") != self._settings.issuer:
                raise ProviderError(self._another_issuer(said.get("issuer")))
            self._says_issuer = said.get("authorization_response_iss_parameter_supported") is True
            self._found = {name: _address(said, name) for name in ("authorization_endpoint", "token_endpoint")}
        return self._found

    def _another_issuer(self, issuer: object) -> str:
        """Return the fault of an issuer; for the usual difference, a slash at the end, the text has the other spelling."""
        own = self._settings.issuer
        other = own.removesuffix("/") if own.endswith("/") else f"{own}/"
        if issuer == other:
            return f"it describes itself as {other}, which differs from the configured issuer by the slash at its end"
        return "it describes itself as another issuer"

    async def _object(self, url: str, form: bytes | None, headers: Mapping[str, str]) -> Mapping[str, Any]:
        try:
            status, body = await self._ask(url, form, headers)
        except OSError as error:
            raise ProviderError("there was no answer") from error
        if status != 200:
            raise ProviderError(f"it answered with status {status}")
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ProviderError("its answer is not JSON") from error
        if not isinstance(found, dict):
            raise ProviderError("its answer is not a JSON object")
        return found


def _address(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        parts = None
    plain = parts is not None and (parts.scheme == "https" or parts.hostname in {"localhost", "127.0.0.1", "::1"})
    if not isinstance(value, str) or not plain or not value.isascii() or not value.isprintable() or "#" in value:
        raise ProviderError("it does not say over https where to sign in")
    return value
