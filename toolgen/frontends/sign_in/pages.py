"""Pages of a sign-in: the browser is sent to the identity provider, returns to the page of consent, and is sent to the client.

Nobody is kept signed in: each request of a client leads through the identity provider, and its answer counts only for the browser
that was sent there.
"""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from toolgen.frontends.console.http import Cookie, check_origin, cookie_header, cookies, form_of
from toolgen.frontends.console.identity_provider import Provider, ProviderError
from toolgen.frontends.console.rendering import HEADERS, Header, page, render
from toolgen.frontends.http.request import Rejected, Request, Response
from toolgen.gateway.identity.jwt import TokenRejected, read_token
from toolgen.gateway.protocol import Administration
from toolgen.gateway.sign_in.authorization import SignedInPerson
from toolgen.gateway.sign_in.errors import OAuthError
from toolgen.gateway.sign_in.records import AuthorizationAttempt, ConsentQuestion, HostedClient
from toolgen.gateway.sign_in.server import SignInServer
from toolgen.model.call import Principal
from toolgen.model.redirect_uris import redirect_host
from toolgen.state.sessions import SignInAttempt

__all__ = ["ConsentPages"]

_ATTEMPT = Cookie(name="toolgen_authorization", path="/oauth", lax=True)
_ATTEMPT_S = 600.0
_MAX_SHOWN = 30
_MAX_FIELDS = 50


class ConsentPages:
    """Pages of the authorization endpoint."""

    def __init__(self, server: SignInServer, gateway: Administration, provider: Provider) -> None:
        self._server = server
        self._gateway = gateway
        self._provider = provider
        secure = server.issuer.startswith("https://")
        self._cookie = _ATTEMPT.over_tls() if secure else _ATTEMPT

    async def authorize(self, request: Request) -> Response:
        """Begin a sign-in: check the request of the client, and send the browser to the identity provider."""
        try:
            asked = await self._server.authorization.read(_pairs(request))
        except OAuthError as error:
            await self._server.log.refused(
                "authorization_refused", address=request.client, error=error.code, why=error.text
            )
            return _message(400, "This client cannot sign you in", error.text)
        token, attempt = await self._server.authorization.begin(asked)
        try:
            location = await self._provider.begin(self._own_attempt(attempt), max_age=attempt.max_age)
        except ProviderError as error:
            return _message(502, "You cannot sign in now", f"{self._provider.name} cannot be asked: {error}")
        return Response(
            status=303,
            headers=(
                *HEADERS,
                (b"location", location.encode("ascii")),
                cookie_header(self._cookie, token, age_s=_ATTEMPT_S),
            ),
        )

    async def callback(self, request: Request) -> Response:
        """Accept the answer of the identity provider, once, from the browser that was sent there; then ask the person for consent."""
        query = dict(_pairs(request))
        held = cookies(request).get(self._cookie.sent_name, "")
        attempt = await self._server.authorization.returned(held, query.get("state", ""))
        if attempt is None:
            return await self._refused(request, "this sign-in was not begun in this browser, or took too long")
        if "code" not in query:
            return await self._refused(request, f"{self._provider.name} did not sign you in", attempt)
        try:
            await self._provider.check_issuer(query.get("iss", ""))
            token = await self._provider.token(query["code"], self._own_attempt(attempt))
        except ProviderError as error:
            return await self._refused(request, f"{self._provider.name} did not sign you in: {error}", attempt)
        principal = await self._gateway.callers.signed_in(token)
        if isinstance(principal, TokenRejected):
            why = f"the policy of the gateway does not accept who {self._provider.name} says you are"
            return await self._refused(request, why, attempt)
        claims = read_token(token).claims
        if not self._server.authorization.is_fresh(attempt, claims):
            why = f"{self._provider.name} did not ask you to sign in anew, as the client demands"
            return await self._refused(request, why, attempt)
        try:
            client = await self._server.authorization.client_of(attempt)
        except OAuthError as error:
            return await self._refused(request, error.text, attempt)
        person = SignedInPerson(
            principal=principal.id,
            claims=claims,
            id_token=token if self._gateway.callers.exchange_tokens else "",
        )
        cookie, question = await self._server.authorization.question(attempt, person, request.client)
        if await self._server.authorization.has_agreed(question):
            await self._server.authorization.take(cookie, question.form_token)
            location = await self._server.authorization.agree(question, request.client, again=True)
            return self._leave(location)
        return self._consent_page(question, client, principal, cookie)

    async def consent(self, request: Request) -> Response:
        """Accept the person's answer to the question for consent."""
        check_origin(request)
        form = await form_of(request)
        held = cookies(request).get(self._cookie.sent_name, "")
        question = await self._server.authorization.take(held, form.get("form_token", ""))
        if question is None:
            return await self._refused(request, "this form is not of your browser, or is too old")
        if form.get("answer") != "allow":
            return self._leave(await self._server.authorization.deny(question, request.client))
        try:
            remember = form.get("remember") == "yes"
            location = await self._server.authorization.agree(question, request.client, remember=remember)
        except OAuthError as error:
            return await self._refused(request, error.text, question.attempt)
        return self._leave(location)

    def _own_attempt(self, attempt: AuthorizationAttempt) -> SignInAttempt:
        return SignInAttempt(
            state=attempt.idp_state,
            nonce=attempt.nonce,
            verifier=attempt.verifier,
            redirect=f"{self._server.issuer}/oauth/callback",
        )

    def _consent_page(
        self, question: ConsentQuestion, client: HostedClient, principal: Principal, cookie: str
    ) -> Response:
        attempt = question.attempt
        toolsets = self._server.authorization.resources.toolsets(attempt.resource) or frozenset()
        seen = [] if self._is_elsewhere(attempt.resource) else self._tools(principal, toolsets)
        body = render(
            "consent.html",
            client=client.name,
            client_host=client.host,
            is_configured=client.configured,
            redirect_host=redirect_host(attempt.redirect),
            is_local=redirect_host(attempt.redirect).endswith(":") or attempt.redirect.startswith("http://"),
            remembered=attempt.redirect.startswith("https://"),
            who=principal.id,
            resource=attempt.resource,
            toolsets=sorted(name for one in toolsets for name in one.split("|")),
            tools=seen[:_MAX_SHOWN],
            more=max(0, len(seen) - _MAX_SHOWN),
            form_token=question.form_token,
        )
        return Response(
            body=body.encode("utf-8", "replace"),
            headers=(*_headers(attempt.redirect), cookie_header(self._cookie, cookie, age_s=_ATTEMPT_S)),
            media_type=b"text/html; charset=utf-8",
        )

    def _is_elsewhere(self, resource: str) -> bool:
        return self._server.authorization.resources.toolsets(resource) is None

    def _tools(self, principal: Principal, toolsets: frozenset[str]) -> list[tuple[str, str]]:
        narrowed = replace(principal, toolsets=toolsets)
        return [(tool.name, tool.effect.value) for tool in self._gateway.tool_calls.catalog(narrowed)]

    async def _refused(self, request: Request, why: str, attempt: AuthorizationAttempt | None = None) -> Response:
        """Tell a person why they were not signed in. Nothing is sent to the client."""
        client = "" if attempt is None else attempt.client
        await self._server.log.refused("sign_in_refused", client=client, address=request.client, why=why)
        return _message(403, "You were not signed in", why, cookie_header(self._cookie, ""))

    def _leave(self, location: str) -> Response:
        """Send the browser to the client, with GET (RFC 9700 section 4.12)."""
        place = (b"location", location.encode("ascii"))
        return Response(status=303, headers=(*HEADERS, place, cookie_header(self._cookie, "")))


def _pairs(request: Request) -> list[tuple[str, str]]:
    try:
        text = request.query.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise Rejected(400, "bad_request", "the query is not form-encoded text") from None


def _message(status: int, title: str, message: str, *headers: Header) -> Response:
    return page("sign_in_message.html", status=status, headers=headers, title=title, message=message)


def _headers(redirect: str) -> tuple[Header, ...]:
    """Return the headers of a page whose form leads to a client in the end: browsers check where a form is redirected to."""
    parts = urlsplit(redirect)
    place = f"{parts.scheme}://{parts.netloc}" if parts.scheme in {"http", "https"} else f"{parts.scheme}:"
    own, wider = b"form-action 'self'", f"form-action 'self' {place}".encode("ascii")
    return tuple(
        (name, value.replace(own, wider) if name == b"content-security-policy" else value) for name, value in HEADERS
    )
