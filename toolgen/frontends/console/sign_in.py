"""Sign-in to the console with a key or at an identity provider, and sign-out."""

from __future__ import annotations

import hmac
import re
import secrets

from toolgen.core.clock import Clock
from toolgen.frontends.console.http import Cookie, Person, check_origin, cookie_header, cookies, form_of, person_of
from toolgen.frontends.console.id_tokens import sealed_id_token
from toolgen.frontends.console.identity_provider import Provider, ProviderError
from toolgen.frontends.console.rendering import Header, page, redirect
from toolgen.frontends.http.authentication import Authentication
from toolgen.frontends.http.request import LOOPBACK_HOSTS, Rejected, Request, Response
from toolgen.gateway.identity.jwt import RefusedTokenError, read_token
from toolgen.gateway.operations.kept_principals import party_of
from toolgen.gateway.protocol import Administration
from toolgen.model.call import Principal
from toolgen.state.sessions import SignInAttempt, SignInSession, SignInSessions

__all__ = ["SignInPages", "page_asked"]


_SESSION = Cookie(name="toolgen_session", path="/console")
_FORM = Cookie(name="toolgen_form", path="/console/sign-in")
_ATTEMPT = Cookie(name="toolgen_attempt", path="/console/oidc", lax=True)
_FORM_S = 3600.0
_MAX_KEY_LENGTH = 16_384


class SignInPages:
    """Pages that start and end sessions. Attempts with unknown keys are limited for each address, as everywhere in the gateway."""

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
        return cookies(request).get(self._session.sent_name, "")

    async def answer(self, request: Request, path: str) -> Response | None:
        """Return the answer to a request that needs no session; None for a path that needs one."""
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
        """Return the answer for a person who is not signed in, or not any more. The request had no effect."""
        headers = (cookie_header(self._session, ""),) if self.token_of(request) else ()
        if request.method == "GET" and request.text(b"sec-fetch-dest") in {"", "document"}:
            to = page_asked(_address_of(request))
            if to and _from_elsewhere(request):
                # Browsers send no Strict cookies with a link of another site. This page loads the address again, as a request of this site.
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
        """Sign the person out."""
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
        held = cookies(request).get(self._form_held.sent_name, "")
        if not held or not hmac.compare_digest(held.encode(), form.get("form_token", "").encode()):
            return self._form(request, status=403, fault="This form was too old. Try again.", to=to)
        if not self._open(request):
            raise Rejected(403, "forbidden", "sign-in needs https, except on this machine")
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
        self, request: Request, principal: Principal, *, until: float = float("inf"), to: str = "", id_token: str = ""
    ) -> Response:
        """Start a session, until a time at most, with a new token, which nobody could have set in the browser before (OWASP: session
        fixation)."""
        if not person_of(self._gateway, self._settings, principal).welcome:
            await self._gateway.callers.note_session("sign_in_refused", principal.id, request.client)
            return self._form(
                request, status=403, fault="You were recognised, but none of your roles opens the console."
            )
        now = self._clock.now()
        expires = min(now + self._settings.expires_s, self._key_expires(principal), until)
        form_token = secrets.token_urlsafe(24)
        session = SignInSession(
            principal=party_of(principal),
            form_token=form_token,
            begun=now,
            expires=expires,
            id_token=await sealed_id_token(self._gateway, id_token, form_token),
        )
        before = self.token_of(request)
        if before:
            await self._sessions.end(before)
        token = await self._sessions.begin(session)
        await self._gateway.callers.note_session("sign_in", principal.id, request.client)
        # A page instead of a redirect: a redirect after a provider counts as a request of its site, so browsers send no Strict cookie.
        cookie = cookie_header(self._session, token, age_s=expires - now)
        gone = cookie_header(self._form_held, ""), cookie_header(self._attempt, "")
        return page("welcome.html", headers=(cookie, *gone), who=principal.id, to=to or "/console")

    def _key_expires(self, principal: Principal) -> float:
        """Return the time at which the used key expires; infinity if it does not."""
        entry = self._gateway.policy.principals.get(principal.id)
        shown = principal.proof.key if principal.proof is not None else ""
        ends = [key.expires for key in entry.keys if key.sha256 == shown] if entry is not None else []
        return min((end for end in ends if end is not None), default=float("inf"))

    async def _elsewhere(self, request: Request, to: str) -> Response:
        """Redirect the browser to the provider (OpenID Connect Core 1.0, section 3.1.2.1; RFC 7636)."""
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
        """Handle the return of the browser with a code, which is accepted once, only from the browser that was redirected."""
        provider = self._configured()
        answer = request.parameters(
            "code", "state", "iss", "error", "error_description", "error_uri", "session_state", "scope"
        )
        held = cookies(request).get(self._attempt.sent_name, "")
        attempt = await self._sessions.take(held) if held else None
        if attempt is None or not hmac.compare_digest(attempt.state.encode(), answer.get("state", "").encode()):
            return self._form(
                request, status=403, fault="This sign-in was not begun here, or took too long. Try again."
            )
        if "code" not in answer:
            return self._form(request, status=403, fault=f"{provider.name} did not sign you in.")
        try:
            await provider.check_issuer(answer.get("iss", ""))
            token = await provider.token(answer["code"], attempt)
        except ProviderError as error:
            return self._form(request, status=502, fault=f"{provider.name} did not sign you in: {error}.")
        try:
            principal = self._authentication.accepted(request, await self._gateway.callers.signed_in(token))
        except Rejected:
            return self._form(
                request, status=403, fault=f"The gateway's policy does not accept who {provider.name} says you are."
            )
        return await self._begin(request, principal, to=page_asked(attempt.to), id_token=token)

    def _configured(self) -> Provider:
        if self._provider is None:
            raise Rejected(404, "not_found", "there is nothing at this path")
        return self._provider


# Only pages of the console, in characters without a special meaning: no other origin, no credential, only a path and a query.
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
    """Return the address of a page of the console that may follow the sign-in; "" for any other address."""
    if len(text) > _MAX_PAGE_LENGTH or not _PAGE.match(text) or "/.." in text or text.startswith(_NO_PAGES):
        return ""
    return text


def _address_of(request: Request) -> str:
    query = request.query.decode("ascii", "replace")
    return f"{request.path}?{query}" if query else request.path


def _from_elsewhere(request: Request) -> bool:
    """Return True if a page of another site led to this page (W3C Fetch Metadata); a reloaded page has a referrer of this
    site."""
    return request.text(b"sec-fetch-site") in {"cross-site", "same-site"} and not request.text(b"referer").partition(
        "://"
    )[2].startswith(f"{request.text(b'host')}/")


def _ends(credential: str) -> float:
    """Return the time at which an accepted token expires, in seconds since the epoch; infinity for a key, whose expiry is in the policy."""
    try:
        return float(read_token(credential).claims["exp"])
    except (RefusedTokenError, KeyError, TypeError, ValueError):
        return float("inf")
