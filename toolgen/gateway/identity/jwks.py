"""Public keys of identity providers (RFC 7517): fetched on demand, cached while they are fresh, with a minimum time between fetches."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from toolgen.core.background import cancel
from toolgen.core.clock import Clock
from toolgen.gateway.identity.issued_tokens import IssuedTokens
from toolgen.gateway.identity.jwt import DisclosedReason, RefusedTokenError, SignedToken

if TYPE_CHECKING:
    from jwt import PyJWK

__all__ = ["FRESH_S", "MAX_KEY_SET_SIZE", "RETRY_S", "STALE_S", "Fetch", "KeySets", "parse_key_set"]

Fetch: TypeAlias = Callable[[str, int], Awaitable[bytes]]
"""Function that returns the bytes of a URL or an absolute path, up to a maximum. Raises `OSError` if they cannot be read."""

FRESH_S = 300.0
"""Time after which a set is fetched again, so that a key that its owner removed stops working."""

STALE_S = 3600.0
"""Time for which the last set is used if a new one cannot be fetched."""

RETRY_S = 10.0
"""Minimum time between two fetches: an attacker could invent unknown key ids to cause requests."""

MAX_KEY_SET_SIZE = 262_144
_MAX_KEYS = 100
_RSA_BITS = range(2048, 8193)
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_FITTING: Mapping[object, tuple[str, ...]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}

_logger = logging.getLogger(__name__)

KeySet: TypeAlias = "Mapping[tuple[str, str], PyJWK]"
"""Verification keys by key id and algorithm."""


class _KnownKeys(Struct):
    keys: KeySet | None = None
    fetched: float = 0.0
    tried: float = float("-inf")
    failed: bool = False
    task: asyncio.Task[None] | None = None


class KeySets:
    """Key sets of a gateway, by their locations. They outlive a policy. `issued` reads the tokens that the gateway issues itself, or is
    None if it issues none."""

    def __init__(self, fetch: Fetch, clock: Clock, issued: IssuedTokens | None = None) -> None:
        self.issued = issued
        self._fetch = fetch
        self._clock = clock
        self._known: dict[str, _KnownKeys] = {}

    async def verify(self, token: SignedToken, location: str) -> None:
        """Verify a token's signature with the key that it names. Raises `RefusedTokenError`.

        A key id may be reused for another key: a wrong signature causes an early fetch of the set, like an unknown id.
        """
        key = await self._key(token, location)
        if _signed_by(key, token):
            return
        known = self._known[location]
        await self._refresh(location, known)
        again = _chosen(known.keys, token) if known.keys is not None else None
        if again is None or again is key or not _signed_by(again, token):
            raise RefusedTokenError("its signature is wrong")

    async def _key(self, token: SignedToken, location: str) -> PyJWK:
        known = self._known.setdefault(location, _KnownKeys())
        now = self._clock.monotonic()
        if known.keys is None or now - known.fetched >= FRESH_S or _chosen(known.keys, token) is None:
            await self._refresh(location, known)
        if known.keys is None or self._clock.monotonic() - known.fetched >= STALE_S:
            raise RefusedTokenError("the keys of its issuer cannot be fetched", DisclosedReason.UNAVAILABLE)
        key = _chosen(known.keys, token)
        if key is None:
            raise RefusedTokenError("no key of its issuer has its key id and algorithm")
        return key

    async def _refresh(self, location: str, known: _KnownKeys) -> None:
        """Fetch the keys: one fetch at a time, at most one in `RETRY_S` seconds. All callers wait for the same fetch."""
        if known.task is None:
            if self._clock.monotonic() - known.tried < RETRY_S:
                return
            known.tried = self._clock.monotonic()
            known.task = asyncio.create_task(self._fetched(location, known))
        if known.failed and known.keys is not None:
            return  # callers that the last set serves need not wait for an unresponsive provider
        await asyncio.shield(known.task)

    async def close(self) -> None:
        """Cancel the running fetches."""
        tasks = [known.task for known in self._known.values() if known.task is not None]
        await cancel(*tasks)

    async def _fetched(self, location: str, known: _KnownKeys) -> None:
        try:
            known.keys = parse_key_set(await self._fetch(location, MAX_KEY_SET_SIZE))
            known.fetched, known.failed = self._clock.monotonic(), False
        except (OSError, ValueError) as error:
            _logger.error("the key set %s cannot be used: %s", location, error)  # noqa: TRY400 - the error says all
            known.failed = True
        finally:
            known.task = None


def parse_key_set(data: bytes) -> KeySet:
    """Return the usable public keys of a JWK set. Raises `ValueError` if it is not one, or has no such key.

    A key is left out if it is not for signatures, is symmetric or weak, has an unsupported type, or shares its key id and algorithm with
    another.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not JSON") from error
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > _MAX_KEYS:
        raise ValueError(f"it is not a JWK set of at most {_MAX_KEYS} keys")
    named = [pair for item in listed for pair in _usable(item)]
    count = Counter(name for name, _ in named)
    found = {name: key for name, key in named if count[name] == 1}
    if not found:
        raise ValueError("it has no key that could verify a token")
    return found


def _signed_by(key: PyJWK, token: SignedToken) -> bool:
    from jwt import PyJWTError  # noqa: PLC0415 - where tokens are signed by somebody

    try:
        return bool(key.Algorithm.verify(token.signed, key.key, token.signature))
    except (PyJWTError, ValueError, TypeError):
        return False


def _usable(item: Any) -> list[tuple[tuple[str, str], PyJWK]]:
    from jwt import PyJWK, PyJWTError  # noqa: PLC0415 - as above

    if not isinstance(item, dict) or item.get("use", "sig") != "sig":
        return []
    operations = item.get("key_ops", ["verify"])
    key_id = item.get("kid", "")
    if not isinstance(key_id, str) or not isinstance(operations, list) or "verify" not in operations:
        return []
    kind, curve = item.get("kty"), item.get("crv")
    fitting = _FITTING.get((kind, curve), ()) if isinstance(curve, (str, type(None))) and isinstance(kind, str) else ()
    public = {name: value for name, value in item.items() if name not in _PRIVATE}
    found = []
    for algorithm in fitting:
        if item.get("alg", algorithm) != algorithm:
            continue
        try:
            key = PyJWK(public, algorithm)
        except (PyJWTError, ValueError, TypeError, KeyError):
            return []
        if kind == "RSA" and key.key.key_size not in _RSA_BITS:
            return []
        found.append(((key_id, algorithm), key))
    return found


def _chosen(keys: KeySet, token: SignedToken) -> PyJWK | None:
    """Return the key by key id and algorithm; without a key id, the only key for the algorithm."""
    if token.key_id:
        return keys.get((token.key_id, token.algorithm))
    fitting = [key for (_, algorithm), key in keys.items() if algorithm == token.algorithm]
    return fitting[0] if len(fitting) == 1 else None
