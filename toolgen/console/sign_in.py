"""Signing in to the console, with a key or at an identity provider, and out of it."""

from __future__ import annotations

import hmac
import secrets

from toolgen.clock import Clock
from toolgen.console.answers import Cookie, Header, cookie_header, cookies, form_of, page, redirect
from toolgen.console.oidc import Provider, ProviderError
from toolgen.console.visit import Person, person_of
from toolgen.gateway.approvals import party_of
from toolgen.gateway.door import Door
from toolgen.gateway.http import LOOPBACK_HOSTS, Rejected, Request, Response
from toolgen.gateway.identity.outcome import RefusedTokenError
from toolgen.gateway.identity.tokens import read_token
from toolgen.gateway.service import Gateway
from toolgen.model.call import Principal
from toolgen.state.sessions_sqlite import Attempt, Session, Sessions

__all__ = ["SignInDesk"]

_SESSION = Cookie(name="toolgen_session", path="/console")
_FORM = Cookie(name="toolgen_form", path="/console/sign-in")
_ATTEMPT = Cookie(name="toolgen_attempt", path="/console/oidc", lax=True)
_FORM_S = 3600.0
_LONGEST_KEY = 16_384


class SignInDesk:
    """Begins and ends sessions. Attempts with keys that nobody has are held back as everywhere in the gateway, address by address."""

    def __init__(
        self, gateway: Gateway, door: Door, sessions: Sessions, *, provider: Provider | None, clock: Clock
    ) -> None:
        self._gateway = gateway
        self._settings = gateway.settings.console
        self._door = door
        self._sessions = sessions
        self._provider = provider
        self._clock = clock
        self._secure = self._settings.url.startswith("https://")
        ours = (_SESSION, _FORM, _ATTEMPT)
        self._session, self._form_held, self._attempt = (it.over_tls() for it in ours) if self._secure else ours

    def token_of(self, request: Request) -> str:
        """What the browser shows of its session; "" where it shows nothing."""
        return cookies(request).get(self._session.name, "")

    async def answer(self, request: Request, path: str) -> Response | None:
        """The answer to a request that needs no session; None for a path that needs one."""
        match path:
            case "/sign-in" if request.method == "POST":
                return await self._by_key(request)
            case "/sign-in":
                request.take("GET")
                request.parameters()
                return self._form(request)
            case "/oidc":
                request.take("GET")
                request.parameters()
                return await self._elsewhere(request)
            case "/oidc/callback":
                request.take("GET")
                return await self._back(request)
            case _:
                return None

    def ended(self, request: Request) -> Response:
        """The answer to somebody who is not signed in, or not any more. Nothing was done."""
        headers = (cookie_header(self._session, ""),) if self.token_of(request) else ()
        return page(
            "message.html",
            status=401,
            headers=headers,
            title="Sign in first",
            message="You are not signed in, or your session has ended. Nothing was done.",
            suggestion="",
        )

    async def leave(self, request: Request, person: Person) -> Response:
        """Signs somebody out."""
        await self._sessions.end(self.token_of(request))
        await self._gateway.note_session("sign_out", person.principal.id, request.client)
        return redirect("/console/sign-in", cookie_header(self._session, ""))

    def _form(
        self, request: Request, *, status: int = 200, fault: str = "", headers: tuple[Header, ...] = ()
    ) -> Response:
        token = secrets.token_urlsafe(24)
        return page(
            "sign_in.html",
            status=status,
            headers=(*headers, cookie_header(self._form_held, token, age_s=_FORM_S)),
            form_token=token,
            fault=fault,
            open=self._open(request),
            elsewhere=self._provider.name if self._provider is not None else "",
        )

    def _open(self, request: Request) -> bool:
        """Whether what is typed here can be read by nobody on the way: over https, or on this machine."""
        host = request.text(b"host").rpartition(":")[0] or request.text(b"host")
        return self._secure or host.strip("[]").lower() in LOOPBACK_HOSTS

    async def _by_key(self, request: Request) -> Response:
        form = await form_of(request)
        held = cookies(request).get(self._form_held.name, "")
        if not held or not hmac.compare_digest(held.encode(), form.get("form_token", "").encode()):
            return self._form(request, status=403, fault="This form was too old. Try again.")
        if not self._open(request):
            raise Rejected(403, "forbidden", "nobody signs in here without https")
        credential = form.get("credential", "").strip()
        if not 0 < len(credential) <= _LONGEST_KEY:
            return self._form(request, status=400, fault="Type your key.")
        try:
            principal = await self._door.admit(request, credential)
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
                fault=fault.get(rejected.status, "This cannot be checked now. Try again in a while."),
            )
        return await self._begin(request, principal, until=_ends(credential))

    async def _begin(self, request: Request, principal: Principal, *, until: float = float("inf")) -> Response:
        """A new session, until a time at most, under a name that nobody could have given the browser before (OWASP: session fixation)."""
        if not person_of(self._gateway, self._settings, principal).welcome:
            await self._gateway.note_session("sign_in_refused", principal.id, request.client)
            return self._form(
                request, status=403, fault="You were recognised, but none of your roles opens the console."
            )
        now = self._clock.now()
        expires = min(now + self._settings.expires_s, self._key_expires(principal), until)
        session = Session(
            principal=party_of(principal), form_token=secrets.token_urlsafe(24), begun=now, expires=expires
        )
        before = self.token_of(request)
        if before:
            await self._sessions.end(before)
        token = await self._sessions.begin(session)
        await self._gateway.note_session("sign_in", principal.id, request.client)
        # A page and no redirect: coming from a provider, a redirect would count as that site's, and show no Strict cookie.
        cookie = cookie_header(self._session, token, age_s=expires - now)
        gone = cookie_header(self._form_held, ""), cookie_header(self._attempt, "")
        return page("welcome.html", headers=(cookie, *gone), who=principal.id)

    def _key_expires(self, principal: Principal) -> float:
        """When the key that somebody shows stops working; never, where it does not."""
        entry = self._gateway.policy.principals.get(principal.id)
        shown = principal.proof.key if principal.proof is not None else ""
        ends = [key.expires for key in entry.keys if key.sha256 == shown] if entry is not None else []
        return min((end for end in ends if end is not None), default=float("inf"))

    async def _elsewhere(self, request: Request) -> Response:
        """Sends the browser to the provider (OpenID Connect Core 1.0, section 3.1.2.1; RFC 7636)."""
        provider = self._configured()
        attempt = Attempt(
            state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
            redirect=f"{self._settings.url}/console/oidc/callback",
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
            principal = self._door.accepted(request, await self._gateway.signed_in(token))
        except Rejected:
            return self._form(
                request, status=403, fault=f"The gateway's policy does not accept who {provider.name} says you are."
            )
        return await self._begin(request, principal)

    def _configured(self) -> Provider:
        if self._provider is None:
            raise Rejected(404, "not_found", "there is nothing at this path")
        return self._provider


def _ends(credential: str) -> float:
    """When a token that was accepted is good no more, in seconds since the epoch; never, of a key: the policy says when that ends."""
    try:
        return float(read_token(credential).claims["exp"])
    except (RefusedTokenError, KeyError, TypeError, ValueError):
        return float("inf")
