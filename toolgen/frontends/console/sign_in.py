"""Signing in to the console, with a key or at an identity provider, and out of it.

What signing in at an identity provider asks of it: where to send the browser, and the token for the code it comes back with.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlencode, urlsplit

from toolgen.config.console import SignIn
from toolgen.core.clock import Clock
from toolgen.frontends.console.http import (
    Cookie,
    Header,
    Person,
    check_origin,
    cookie_header,
    cookies,
    form_of,
    page,
    person_of,
    redirect,
)
from toolgen.frontends.http.authentication import Authentication
from toolgen.frontends.http.request import LOOPBACK_HOSTS, Rejected, Request, Response
from toolgen.gateway.identity.jwt import RefusedTokenError, read_token
from toolgen.gateway.operations.kept_principals import party_of
from toolgen.gateway.protocol import Administration
from toolgen.model.call import Principal
from toolgen.model.secret import Secret
from toolgen.state.sessions import SignInAttempt, SignInSession, SignInSessions

__all__ = ["Ask", "Provider", "SignInPages", "page_asked"]

Ask: TypeAlias = Callable[[str, bytes | None, Mapping[str, str]], Awaitable[tuple[int, bytes]]]
"""A URL, a form or None to get it, and headers in; status and body out. Raises `OSError` when there is no answer."""

_MAX_CODE_LENGTH = 4096


class ProviderError(Exception):
    """A provider that cannot be used. The text is for the person who signs in, and holds nothing the provider sent."""


class Provider:
    """An OpenID provider, found by its issuer (OpenID Connect Discovery 1.0, section 4). `secret` is resolved when it is sent."""

    def __init__(self, settings: SignIn, ask: Ask, secret: Callable[[], Awaitable[Secret | None]]) -> None:
        self._settings = settings
        self._ask = ask
        self._secret = secret
        self._found: Mapping[str, str] | None = None
        self.name = urlsplit(settings.issuer).hostname or settings.issuer

    async def begin(self, attempt: SignInAttempt) -> str:
        """The address to send the browser to. Raises `ProviderError`."""
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
        }
        return f"{where}{'&' if '?' in where else '?'}{urlencode(query)}"

    def check_issuer(self, said: str) -> None:
        """Refuses an answer that says it is another provider's (RFC 9207). Raises `ProviderError`."""
        if said and said != self._settings.issuer:
            raise ProviderError("the answer came from somebody else")

    async def token(self, code: str, attempt: SignInAttempt) -> str:
        """The id token for a code, which is this attempt's; whose it is, is for `Identity` to verify. Raises `ProviderError`."""
        where = (await self._endpoints())["token_endpoint"]
        if len(code) > _MAX_CODE_LENGTH:
            raise ProviderError("its code is longer than any")
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
            raise ProviderError("the gateway's own secret for it cannot be had") from error
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
            raise ProviderError("its id token is by somebody else")
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if client not in audiences or (len(audiences) > 1 and claims.get("azp") != client):
            raise ProviderError("its id token is for somebody else")
        if claims.get("azp", client) != client:
            raise ProviderError("its id token is for somebody else")

    async def _endpoints(self) -> Mapping[str, str]:
        if self._found is None:
            address = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
            said = await self._object(address, None, {"accept": "application/json"})
            if said.get("issuer") != self._settings.issuer:
                raise ProviderError("it describes itself as another issuer")
            self._found = {name: _address(said, name) for name in ("authorization_endpoint", "token_endpoint")}
        return self._found

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
            raise ProviderError("its answer is no JSON") from error
        if not isinstance(found, dict):
            raise ProviderError("its answer is no JSON object")
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


_SESSION = Cookie(name="toolgen_session", path="/console")
_FORM = Cookie(name="toolgen_form", path="/console/sign-in")
_ATTEMPT = Cookie(name="toolgen_attempt", path="/console/oidc", lax=True)
_FORM_S = 3600.0
_MAX_KEY_LENGTH = 16_384


class SignInPages:
    """Begins and ends sessions. Attempts with keys that nobody has are held back as everywhere in the gateway, address by address."""

    def __init__(
        self,
        gateway: Administration,
        authentication: Authentication,
        sessions: SignInSessions,
        *,
        provider: Provider | None,
        clock: Clock,
    ) -> None:
        self._gateway = gateway
        self._settings = gateway.settings.console
        self._authentication = authentication
        self._sessions = sessions
        self._provider = provider
        self._clock = clock
        self._secure = self._settings.secure
        ours = (_SESSION, _FORM, _ATTEMPT)
        self._session, self._form_held, self._attempt = (it.over_tls() for it in ours) if self._secure else ours

    def token_of(self, request: Request) -> str:
        """Return the session token from the browser's cookie, or ""."""
        return cookies(request).get(self._session.name, "")

    async def answer(self, request: Request, path: str) -> Response | None:
        """The answer to a request that needs no session; None for a path that needs one."""
        match path:
            case "/sign-in" if request.method == "POST":
                return await self._by_key(request)
            case "/sign-in":
                request.take("GET")
                return self._form(request, to=page_asked(request.parameters("to").get("to", "")))
            case "/oidc":
                request.take("GET")
                return await self._elsewhere(request, page_asked(request.parameters("to").get("to", "")))
            case "/oidc/callback":
                request.take("GET")
                return await self._back(request)
            case _:
                return None

    def ended(self, request: Request) -> Response:
        """The answer to somebody who is not signed in, or not any more. Nothing was done."""
        headers = (cookie_header(self._session, ""),) if self.token_of(request) else ()
        if request.method == "GET" and request.text(b"sec-fetch-dest") in {"", "document"}:
            to = page_asked(_address_of(request))
            if to and _from_elsewhere(request):
                # Strict cookies are not sent with a link of another site. The page goes on by itself, as a request of this one.
                return page("reload.html", to=to)
            return self._form(request, status=401, asked=True, to=to, headers=headers)
        return page(
            "message.html",
            status=401,
            headers=headers,
            person=None,
            title="Sign in first",
            message="You are not signed in, or your session has ended. Nothing was done.",
            suggestion="",
        )

    async def leave(self, request: Request, person: Person) -> Response:
        """Signs somebody out."""
        await self._sessions.end(self.token_of(request))
        await self._gateway.callers.note_session("sign_out", person.principal.id, request.client)
        return redirect("/console/sign-in", cookie_header(self._session, ""))

    def _form(
        self,
        request: Request,
        *,
        status: int = 200,
        fault: str = "",
        headers: tuple[Header, ...] = (),
        asked: bool = False,
        to: str = "",
    ) -> Response:
        token = secrets.token_urlsafe(24)
        return page(
            "sign_in.html",
            status=status,
            headers=(*headers, cookie_header(self._form_held, token, age_s=_FORM_S)),
            form_token=token,
            fault=fault,
            asked=asked,
            to=to,
            open=self._open(request),
            elsewhere=self._provider.name if self._provider is not None else "",
        )

    def _open(self, request: Request) -> bool:
        """Return True if typed secrets cannot be read on the way: the console is used over https or on this machine."""
        host = request.text(b"host").rpartition(":")[0] or request.text(b"host")
        return self._secure or host.strip("[]").lower() in LOOPBACK_HOSTS

    async def _by_key(self, request: Request) -> Response:
        check_origin(request)
        form = await form_of(request)
        to = page_asked(form.get("to", ""))
        held = cookies(request).get(self._form_held.name, "")
        if not held or not hmac.compare_digest(held.encode(), form.get("form_token", "").encode()):
            return self._form(request, status=403, fault="This form was too old. Try again.", to=to)
        if not self._open(request):
            raise Rejected(403, "forbidden", "nobody signs in here without https")
        credential = form.get("credential", "").strip()
        if not 0 < len(credential) <= _MAX_KEY_LENGTH:
            return self._form(request, status=400, fault="Type your key.", to=to)
        try:
            principal = await self._authentication.admit(request, credential)
        except Rejected as rejected:
            wait = tuple(item for item in rejected.headers if item[0] == b"retry-after")
            fault = {
                401: "This key or token is not accepted.",
                429: "Too many attempts from this address. Wait a while.",
            }
            return self._form(
                request,
                status=rejected.status,
                headers=wait,
                to=to,
                fault=fault.get(rejected.status, "This cannot be checked now. Try again in a while."),
            )
        return await self._begin(request, principal, until=_ends(credential), to=to)

    async def _begin(
        self, request: Request, principal: Principal, *, until: float = float("inf"), to: str = ""
    ) -> Response:
        """A new session, until a time at most, under a name that nobody could have given the browser before (OWASP: session fixation)."""
        if not person_of(self._gateway, self._settings, principal).welcome:
            await self._gateway.callers.note_session("sign_in_refused", principal.id, request.client)
            return self._form(
                request, status=403, fault="You were recognised, but none of your roles opens the console."
            )
        now = self._clock.now()
        expires = min(now + self._settings.expires_s, self._key_expires(principal), until)
        session = SignInSession(
            principal=party_of(principal), form_token=secrets.token_urlsafe(24), begun=now, expires=expires
        )
        before = self.token_of(request)
        if before:
            await self._sessions.end(before)
        token = await self._sessions.begin(session)
        await self._gateway.callers.note_session("sign_in", principal.id, request.client)
        # A page and no redirect: coming from a provider, a redirect would count as that site's, and show no Strict cookie.
        cookie = cookie_header(self._session, token, age_s=expires - now)
        gone = cookie_header(self._form_held, ""), cookie_header(self._attempt, "")
        return page("welcome.html", headers=(cookie, *gone), who=principal.id, to=to or "/console")

    def _key_expires(self, principal: Principal) -> float:
        """Time at which the key that somebody shows stops working; never, where it does not."""
        entry = self._gateway.policy.principals.get(principal.id)
        shown = principal.proof.key if principal.proof is not None else ""
        ends = [key.expires for key in entry.keys if key.sha256 == shown] if entry is not None else []
        return min((end for end in ends if end is not None), default=float("inf"))

    async def _elsewhere(self, request: Request, to: str) -> Response:
        """Sends the browser to the provider (OpenID Connect Core 1.0, section 3.1.2.1; RFC 7636)."""
        provider = self._configured()
        attempt = SignInAttempt(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            redirect=f"{self._settings.url}/console/oidc/callback",
            to=to,
        )
        try:
            location = await provider.begin(attempt)
        except ProviderError as error:
            return self._form(request, status=502, fault=f"{provider.name} cannot be asked now: {error}.")
        token = await self._sessions.attempt(attempt)
        return redirect(location, cookie_header(self._attempt, token, age_s=600.0))

    async def _back(self, request: Request) -> Response:
        """The browser comes back with a code, which counts once, for the browser that was sent away."""
        provider = self._configured()
        answer = request.parameters(
            "code", "state", "iss", "error", "error_description", "error_uri", "session_state", "scope"
        )
        held = cookies(request).get(self._attempt.name, "")
        attempt = await self._sessions.take(held) if held else None
        if attempt is None or not hmac.compare_digest(attempt.state.encode(), answer.get("state", "").encode()):
            return self._form(
                request, status=403, fault="This sign-in was not begun here, or took too long. Try again."
            )
        if "code" not in answer:
            return self._form(request, status=403, fault=f"{provider.name} did not sign you in.")
        try:
            provider.check_issuer(answer.get("iss", ""))
            token = await provider.token(answer["code"], attempt)
        except ProviderError as error:
            return self._form(request, status=502, fault=f"{provider.name} did not sign you in: {error}.")
        try:
            principal = self._authentication.accepted(request, await self._gateway.callers.signed_in(token))
        except Rejected:
            return self._form(
                request, status=403, fault=f"The gateway's policy does not accept who {provider.name} says you are."
            )
        return await self._begin(request, principal, to=page_asked(attempt.to))

    def _configured(self) -> Provider:
        if self._provider is None:
            raise Rejected(404, "not_found", "there is nothing at this path")
        return self._provider


# Pages of the console alone, in characters that mean nothing else anywhere: no other origin, no credential, and nothing but a path.
_PAGE = re.compile(r"/console(?:/[A-Za-z0-9_.:-]+)*(?:\?[A-Za-z0-9_.:%&=+*,~/-]*)?\Z")
_MAX_PAGE_LENGTH = 1000
_NO_PAGES = (
    "/console/sign-in",
    "/console/sign-out",
    "/console/oidc",
    "/console/waiting",
    "/console/live/events",
    "/console/accounts/callback",
)


def page_asked(text: str) -> str:
    """Return the address of a page of the console that a sign-in may go on to; "" for anything else."""
    if len(text) > _MAX_PAGE_LENGTH or not _PAGE.match(text) or "/.." in text or text.startswith(_NO_PAGES):
        return ""
    return text


def _address_of(request: Request) -> str:
    query = request.query.decode("ascii", "replace")
    return f"{request.path}?{query}" if query else request.path


def _from_elsewhere(request: Request) -> bool:
    """Return True if a page of another site led to this page (W3C Fetch Metadata); a page that was reloaded here has a referrer of ours."""
    return request.text(b"sec-fetch-site") in {"cross-site", "same-site"} and not request.text(b"referer").partition(
        "://"
    )[2].startswith(f"{request.text(b'host')}/")


def _ends(credential: str) -> float:
    """Time at which a token that was accepted expires, in seconds since the epoch; never, of a key: the policy says when that ends."""
    try:
        return float(read_token(credential).claims["exp"])
    except (RefusedTokenError, KeyError, TypeError, ValueError):
        return float("inf")
