"""Authorization endpoint: the request of a client, the person's way through the identity provider, and their consent."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.clock import Clock
from toolgen.gateway.identity.jwt import LEEWAY_S
from toolgen.gateway.sign_in.clients import Clients
from toolgen.gateway.sign_in.errors import OAuthError
from toolgen.gateway.sign_in.records import (
    SCOPE,
    AuthorizationAttempt,
    ConsentQuestion,
    HostedClient,
    IssuedCode,
    RememberedConsent,
)
from toolgen.gateway.sign_in.resources import Resources
from toolgen.gateway.sign_in.sign_in_log import SignInLog
from toolgen.model.redirect_uris import redirect_fits, redirect_host
from toolgen.state.sign_in import SignInStore

__all__ = ["Authorization", "ClientRequest", "SignedInPerson", "consent_key", "use_code"]

_ATTEMPT_S = 600.0
_CODE_S = 60.0
_KEPT_CODE_S = 3600.0
_CONSENT_S = 90 * 86_400.0
_MAX_ATTEMPTS = 5000
_MAX_CONSENTS = 200
_MAX_STATE_LENGTH = 2048
_MAX_AGE = re.compile(r"[0-9]{1,8}\Z")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}\Z")  # base64url of a SHA-256
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class ClientRequest(Struct, frozen=True, kw_only=True):
    """Valid authorization request. `max_age` is the time in seconds since which the person must have authenticated, -1 for any."""

    client: HostedClient
    redirect: str
    state: str
    challenge: str
    resource: str
    max_age: int = -1

    def __repr__(self) -> str:
        return f"ClientRequest({self.client.id})"


class SignedInPerson(Struct, frozen=True, kw_only=True):
    """Person who came back from the identity provider, with the claims of their id token. `id_token` is "" if no source needs it."""

    principal: str
    claims: Mapping[str, Any]
    id_token: str = ""

    def __repr__(self) -> str:
        return f"SignedInPerson({self.principal})"


class Authorization:
    """Authorization endpoint of the issuer."""

    def __init__(
        self, issuer: str, clients: Clients, resources: Resources, store: SignInStore, log: SignInLog, clock: Clock
    ) -> None:
        self._issuer = issuer
        self._clients = clients
        self.resources = resources
        self._store = store
        self._log = log
        self._clock = clock

    async def read(self, pairs: Sequence[tuple[str, str]]) -> ClientRequest:
        """Return the request of a client. Raises `OAuthError`, which is only shown to the person: a redirect that a stranger can
        cause is an open redirector (RFC 9700 section 4.11.2)."""
        query = _single(pairs)
        client_id = query.get("client_id", "")
        client = await self._clients.find(client_id) if client_id else None
        if client is None:
            raise OAuthError("invalid_client", "this client is not registered here; it has to register again")
        redirect = query.get("redirect_uri", "")
        if not any(redirect_fits(one, redirect) for one in client.redirects):
            known = ", ".join(sorted({redirect_host(one) for one in client.redirects}))
            raise OAuthError(
                "invalid_request",
                f"the redirect_uri is not one that the client registered; expected exactly one of its {len(client.redirects)}, at {known}",
            )
        if query.get("response_type") != "code":
            raise OAuthError("unsupported_response_type", "expected response_type=code")
        if query.get("response_mode", "query") != "query" or "request" in query or "request_uri" in query:
            raise OAuthError("invalid_request", "request objects and response modes other than query are not taken")
        if query.get("code_challenge_method") != "S256" or not _CHALLENGE.match(query.get("code_challenge", "")):
            raise OAuthError(
                "invalid_request", "PKCE is needed: expected code_challenge_method=S256 and its code_challenge"
            )
        state = query.get("state", "")
        if len(state) > _MAX_STATE_LENGTH:
            raise OAuthError("invalid_request", f"state: takes up to {_MAX_STATE_LENGTH} characters")
        resource = self.resources.chosen([value for name, value in pairs if name == "resource"])
        return ClientRequest(
            client=client,
            redirect=redirect,
            state=state,
            challenge=query["code_challenge"],
            resource=resource,
            max_age=_max_age(query),
        )

    async def begin(self, request: ClientRequest) -> tuple[str, AuthorizationAttempt]:
        """Store a request while the person signs in; returns the token for the cookie of their browser. Raises `StateError`."""
        token = secrets.token_urlsafe(32)
        attempt = AuthorizationAttempt(
            client=request.client.id,
            redirect=request.redirect,
            state=request.state,
            challenge=request.challenge,
            resource=request.resource,
            max_age=request.max_age,
            idp_state=secrets.token_urlsafe(24),
            nonce=secrets.token_urlsafe(24),
            verifier=secrets.token_urlsafe(48),
        )
        # Anybody can begin one: abandoned attempts are replaced, and lock nobody out.
        await self._store.put(attempt, token, seconds=_ATTEMPT_S, group="attempts", most=_MAX_ATTEMPTS)
        return token, attempt

    async def returned(self, token: str, state: str) -> AuthorizationAttempt | None:
        """Return the attempt of a returning browser, once; None for another browser or another state. Raises `StateError`."""
        attempt = await self._store.take(AuthorizationAttempt, token) if token else None
        if attempt is None or not hmac.compare_digest(attempt.idp_state.encode(), state.encode("utf-8", "replace")):
            return None
        return attempt

    def is_fresh(self, attempt: AuthorizationAttempt, claims: Mapping[str, Any]) -> bool:
        """Return True if the person authenticated as lately as the client demanded (OpenID Connect Core 1.0, section 2, `auth_time`).

        An id token that does not say when counts as old.
        """
        at = claims.get("auth_time")
        if attempt.max_age < 0:
            return True
        if isinstance(at, bool) or not isinstance(at, int | float):
            return False
        return -LEEWAY_S <= self._clock.now() - at <= attempt.max_age + LEEWAY_S

    async def question(
        self, attempt: AuthorizationAttempt, person: SignedInPerson, address: str
    ) -> tuple[str, ConsentQuestion]:
        """Store the question to a person who has signed in; returns the token for the cookie of their browser, which is a new one.

        Raises `AuditError` and `StateError`.
        """
        await self._log.note(
            "signed_in", principal=person.principal, client=attempt.client, address=address, resource=attempt.resource
        )
        token = secrets.token_urlsafe(32)
        question = ConsentQuestion(
            attempt=attempt,
            principal=person.principal,
            claims=dict(person.claims),
            id_token=person.id_token,
            form_token=secrets.token_urlsafe(24),
            at=self._clock.now(),
        )
        await self._store.put(question, token, seconds=_ATTEMPT_S, group="questions", most=_MAX_ATTEMPTS)
        return token, question

    async def client_of(self, attempt: AuthorizationAttempt) -> HostedClient:
        """Return the client of an attempt in its current version. Raises `OAuthError`."""
        client = await self._clients.find(attempt.client)
        if client is None or not any(redirect_fits(one, attempt.redirect) for one in client.redirects):
            raise OAuthError("invalid_client", "the client is not what it was when the sign-in began")
        return client

    async def has_agreed(self, question: ConsentQuestion) -> bool:
        """Return True if the person agreed to exactly this before, and no other program can receive the answer.

        Any program of a machine can be behind a loopback address or a private scheme (RFC 8252 section 8.6), so these are asked about
        each time. Raises `StateError`.
        """
        if not _is_remembered(question.attempt):
            return False
        return await self._store.get(RememberedConsent, _consent_key(question)) is not None

    async def take(self, token: str, form_token: str) -> ConsentQuestion | None:
        """Return the question that a form answers, once; None for the form of another browser or session. Raises `StateError`."""
        question = await self._store.take(ConsentQuestion, token) if token else None
        if question is None:
            return None
        fits = hmac.compare_digest(question.form_token.encode(), form_token.encode("utf-8", "replace"))
        return question if fits else None

    async def agree(
        self, question: ConsentQuestion, address: str, *, remember: bool = False, again: bool = False
    ) -> str:
        """Issue a code for the client, and return the address for the browser. `again`: the person agreed before.

        Raises `AuditError`, `OAuthError` and `StateError`.
        """
        attempt = question.attempt
        client = await self.client_of(attempt)
        await self._log.note(
            "consent_remembered" if again else "consented",
            principal=question.principal,
            client=client.id,
            address=address,
            client_name=client.name,
            redirect_host=redirect_host(attempt.redirect),
            resource=attempt.resource,
        )
        if remember and _is_remembered(attempt):
            consent = RememberedConsent(
                client=client.id, at=self._clock.now(), redirect=attempt.redirect, resource=attempt.resource
            )
            key = _consent_key(question)
            await self._store.put(consent, key, seconds=_CONSENT_S, group=_person(question), most=_MAX_CONSENTS)
        code = secrets.token_urlsafe(32)
        record = IssuedCode(
            client=client.id,
            redirect=attempt.redirect,
            challenge=attempt.challenge,
            resource=attempt.resource,
            principal=question.principal,
            claims=question.claims,
            at=question.at,
            id_token=question.id_token,
        )
        await self._store.put(record, code, seconds=_CODE_S)
        await self._clients.used(client)
        return self._back(attempt, code=code)

    async def deny(self, question: ConsentQuestion, address: str) -> str:
        """Return the address for the browser after a refusal. Raises `AuditError`."""
        attempt = question.attempt
        await self._log.note("consent_denied", principal=question.principal, client=attempt.client, address=address)
        return self._back(attempt, error="access_denied", error_description="the person did not agree")

    def _back(self, attempt: AuthorizationAttempt, **answer: str) -> str:
        """Return the redirect URI with the answer, and with `iss` (RFC 9207)."""
        answer |= {"iss": self._issuer, **({"state": attempt.state} if attempt.state else {})}
        return f"{attempt.redirect}{'&' if '?' in attempt.redirect else '?'}{urlencode(answer)}"


async def use_code(store: SignInStore, code: str, grant: str) -> bool:
    """Mark a code as exchanged for a grant; returns False for a used or unknown code. It is stored for some time, to detect a second use.

    Raises `StateError`.
    """
    kept = await store.get(IssuedCode, code)
    if kept is None or kept.value.used:
        return False
    return await store.put(replace(kept.value, used=grant), code, seconds=_KEPT_CODE_S, version=kept.version)


def _single(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    found = dict(pairs)
    names = [name for name, _ in pairs if name != "resource"]
    if len(names) != len(set(names)):
        raise OAuthError("invalid_request", "a parameter was sent more than once")
    return found


def _is_remembered(attempt: AuthorizationAttempt) -> bool:
    return attempt.redirect.startswith("https://") and redirect_host(attempt.redirect) not in _LOOPBACK


def _person(question: ConsentQuestion) -> str:
    return f"{question.claims.get('iss', '')}\0{question.claims.get('sub', '')}"


def _consent_key(question: ConsentQuestion) -> str:
    attempt = question.attempt
    return consent_key(_person(question), attempt.client, attempt.redirect, attempt.resource)


def consent_key(person: str, client: str, redirect: str, resource: str) -> str:
    """Return the key of a remembered consent in the store."""
    return "\0".join((person, client, redirect, resource, SCOPE))


def _max_age(query: Mapping[str, str]) -> int:
    """Return `max_age` of a request, 0 for `prompt=login`, and -1 for neither (RFC 9470 section 4). Raises `OAuthError`."""
    if "login" in query.get("prompt", "").split():
        return 0
    written = query.get("max_age")
    if written is None:
        return -1
    if not _MAX_AGE.match(written):
        raise OAuthError("invalid_request", "max_age: takes a number of seconds")
    return int(written)
