"""Attempts to be somebody: with keys and tokens that nobody should take.

Attempts at the console: forms that another site sends in the name of the person who is signed in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import tempfile
import time
from collections.abc import Iterable, Mapping, MutableMapping
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from toolgen.frontends.console import app as console_app
from toolgen.frontends.console.app import console_of
from toolgen.frontends.http.app import App
from toolgen.gateway.identity import Identity, KeySets, TokenRejected, principals, token_claims
from toolgen.quality.doctor.scratch_gateway import KEY, RefusalChecks, UselessError, scratch

__all__ = ["CONSOLE_ATTEMPTS", "IDENTITY_ATTEMPTS"]

IDENTITY_ATTEMPTS: Final = RefusalChecks()
"""Each with credentials that are good but for one thing."""
CONSOLE_ATTEMPTS: Final = RefusalChecks()

_ISSUER: Final = "https://issuer.invalid"
_AUDIENCE: Final = "doctor"
_HEADER: Final = {"alg": "EdDSA", "typ": "JWT", "kid": "one"}
_PAST, _FUTURE = "2001-01-01T00:00:00Z", "2201-01-01T00:00:00Z"


async def _verifies(*_: object) -> None:
    """Every signature is good."""


@IDENTITY_ATTEMPTS.add(
    "bad key",
    "keys that are wrong, expired or revoked opened nothing",
    Identity,
    "_known",
    lambda self, _: self.named("agent"),
)
async def _bad_keys() -> str:
    def hashed(key: str) -> str:
        return f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"

    keys = [hashed(KEY), {"hash": hashed("late"), "expires": _PAST}, {"hash": hashed("gone"), "expires": _FUTURE}]
    agent = {"agent": {"api_key": keys, "roles": ["agent"]}}
    revoked = [{"key": hashed("gone")}]
    tried = {
        "": "no key",
        "wrong": "a wrong key",
        KEY[:-1]: "part of a key",
        "late": "an expired key",
        "gone": "a revoked key",
    }
    async with scratch(policy={"principals": agent, "revoked": revoked, **_NO_RULES}) as place:
        for key, what in tried.items():
            if not isinstance(await place.gateway.callers.authenticate(key), TokenRejected):
                return f"{what} was taken"
        if isinstance(await place.gateway.callers.authenticate(KEY), TokenRejected):
            raise UselessError("a good key was refused too")
    return ""


_NO_RULES: Final[Mapping[str, Any]] = {"rules": [], "approvals": None}


@IDENTITY_ATTEMPTS.add(
    "forged token", "tokens without a good signature of their issuer opened nothing", KeySets, "verify", _verifies
)
async def _forged_tokens() -> str:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    good = _token(key)
    head, _, signature = good.split(".")
    public = key.public_key().public_bytes_raw()
    by_secret = f"{_part({**_HEADER, 'alg': 'HS256'})}.{_part(_claims())}"
    own_key = {**_HEADER, "jwk": _jwk(other)}
    forged = {
        "a token signed by another key": _token(other),
        "a token that brings its own key": _token(other, header=own_key),
        "a token changed after it was signed": f"{head}.{_part(_claims(scope='all'))}.{signature}",
        "a token with a signature cut short": good[:-4],
        "a token of algorithm none": f"{_part({**_HEADER, 'alg': 'none'})}.{_part(_claims())}.AA",
        "a token signed with the public key as a secret": (
            f"{by_secret}.{_coded(hmac.new(public, by_secret.encode(), hashlib.sha256).digest())}"
        ),
    }
    return await _taken(key, forged.items(), good)


@IDENTITY_ATTEMPTS.add(
    "expired token",
    "tokens that have expired, are not valid yet or never end opened nothing",
    principals,
    "check_claims",
    lambda _, now: now + 60,
)
async def _untimely_tokens() -> str:
    key, now = Ed25519PrivateKey.generate(), int(time.time())
    untimely = {
        "an expired token": _token(key, exp=now - 3600),
        "a token that is not valid yet": _token(key, nbf=now + 3600),
        "a token that never ends": _token(key, exp=None),
    }
    return await _taken(key, untimely.items(), _token(key))


@IDENTITY_ATTEMPTS.add(
    "token for another", "tokens for another audience opened nothing", token_claims, "audience_fits", lambda *_: True
)
async def _tokens_for_others() -> str:
    key = Ed25519PrivateKey.generate()
    others = {
        "a token for another audience": _token(key, aud="another"),
        "a token for no audience": _token(key, aud=None),
    }
    return await _taken(key, others.items(), _token(key))


async def _taken(key: Ed25519PrivateKey, forged: Iterable[tuple[str, str]], good: str) -> str:
    with tempfile.TemporaryDirectory(prefix="toolgen-doctor-") as folder:
        keys = Path(folder) / "keys.json"
        keys.write_text(json.dumps({"keys": [_jwk(key)]}), encoding="utf-8")
        jwt = {"issuer": _ISSUER, "audience": _AUDIENCE, "jwks": str(keys), "subject": "agent"}
        policy = {"principals": {"agent": {"jwt": jwt, "roles": ["agent"]}}, **_NO_RULES}
        async with scratch(policy=policy) as place:
            for what, token in forged:
                if not isinstance(await place.gateway.callers.authenticate(token), TokenRejected):
                    return f"{what} was taken"
            if isinstance(await place.gateway.callers.authenticate(good), TokenRejected):
                raise UselessError("a good token was refused too")
    return ""


def _token(key: Ed25519PrivateKey, *, header: Mapping[str, Any] = _HEADER, **changes: Any) -> str:
    text = f"{_part(header)}.{_part(_claims(**changes))}"
    return f"{text}.{_coded(key.sign(text.encode()))}"


def _claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    whole = {"iss": _ISSUER, "aud": _AUDIENCE, "sub": "agent", "iat": now, "exp": now + 600} | changes
    return {name: value for name, value in whole.items() if value is not None}


def _jwk(key: Ed25519PrivateKey) -> dict[str, str]:
    public = _coded(key.public_key().public_bytes_raw())
    return {"kty": "OKP", "crv": "Ed25519", "x": public, "kid": "one", "use": "sig"}


def _part(value: object) -> str:
    return _coded(json.dumps(value).encode())


def _coded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


_KEY: Final = "admins-own-key"
_ADMIN: Final = {"api_key": f"sha256:{hashlib.sha256(_KEY.encode()).hexdigest()}", "roles": ["admin"]}
_FORGED: Final = {
    "/console/pauses": {"principal": "admin", "reason": "forged"},
    "/console/sign-out": {},
}


@CONSOLE_ATTEMPTS.add(
    "CSRF",
    "forms without the token of their session were refused",
    console_app,
    "_check_form",
    lambda _, form: dict(form),
)
async def _forged_forms() -> str:
    policy: dict[str, Any] = {"principals": {"admin": _ADMIN}, "rules": [], "approvals": None}
    async with scratch(policy=policy, console={"admins": ["admin"]}) as place:
        app = App(place.gateway)
        app.open_console(lambda authentication: console_of(place.gateway, authentication))
        browser = _Browser(app)
        try:
            await browser.sign_in(_KEY)
            for path, form in _FORGED.items():
                for token in ({}, {"form_token": ""}, {"form_token": "forged"}):
                    status, _ = await browser.post(path, {**form, **token})
                    if status != 403:
                        return f"a form without its session's token was taken at {path} (status {status})"
        finally:
            await app.close()
    return ""


class _Browser:
    """Sends requests to an application in this process, and keeps its cookies."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._cookies: dict[str, str] = {}

    async def sign_in(self, key: str) -> None:
        """Raises `UselessError` where that does not open the console."""
        _, page = await self._ask("GET", "/console/sign-in", {})
        token = page.partition('name="form_token" value="')[2].partition('"')[0]
        status, _ = await self.post("/console/sign-in", {"credential": key, "form_token": token})
        shown, _ = await self._ask("GET", "/console/pauses", {})
        if (status, shown) != (200, 200):
            raise UselessError(f"nobody could sign in to the console (status {status}, then {shown})")

    async def post(self, path: str, form: dict[str, str]) -> tuple[int, str]:
        """The status and the page that a form is answered with."""
        return await self._ask("POST", path, form)

    async def _ask(self, method: str, path: str, form: dict[str, str]) -> tuple[int, str]:
        body = urlencode(form).encode()
        cookie = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        headers = [(b"host", b"localhost"), (b"content-type", b"application/x-www-form-urlencoded")]
        headers += [(b"content-length", str(len(body)).encode()), (b"cookie", cookie.encode())]
        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        await self._app({**scope, "client": ("127.0.0.1", 1)}, receive, send)
        for name, value in sent[0]["headers"]:
            if name == b"set-cookie":
                self._cookies |= {one.key: one.value for one in SimpleCookie(value.decode()).values()}
        page = b"".join(message.get("body", b"") for message in sent[1:])
        return int(sent[0]["status"]), page.decode("utf-8", "replace")
