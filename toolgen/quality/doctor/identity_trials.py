"""Trials of identities: keys and tokens that must be rejected."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from toolgen.gateway.identity import Identity, KeySets, TokenRejected, principals, token_claims
from toolgen.quality.doctor.scratch_gateway import KEY, scratch
from toolgen.quality.doctor.trial import RefusalChecks, UselessError

__all__ = ["IDENTITY_ATTEMPTS"]

IDENTITY_ATTEMPTS: Final = RefusalChecks()
"""Trials, each with credentials that are valid except for one fault."""

_ISSUER: Final = "https://issuer.invalid"
_AUDIENCE: Final = "doctor"
_HEADER: Final = {"alg": "EdDSA", "typ": "JWT", "kid": "one"}
_PAST, _FUTURE = "2001-01-01T00:00:00Z", "2201-01-01T00:00:00Z"


async def _verifies(*_: object) -> None:
    """Accept every signature."""


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
