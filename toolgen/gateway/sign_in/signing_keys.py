"""Signing keys of the gateway's tokens (ES256): shared by all workers and gateways, published before they sign, replaced every month."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from msgspec.structs import replace

from toolgen.core.clock import Clock
from toolgen.core.errors import StateError
from toolgen.gateway.sign_in.records import TokenSigningKey, TokenSigningKeys
from toolgen.state.sign_in import SignInStore

__all__ = ["ALGORITHM", "SigningKeys"]

ALGORITHM = "ES256"
_RING = "ring"
_LIFETIME_S = 30 * 86_400.0
_AHEAD_S = 3600.0
"""Time for which a key is published before it signs: readers of the key set read it again within that time."""
_LOOK_S = 5.0
_KEPT_S = 10 * 366 * 86_400.0


class SigningKeys:
    """Signing keys in the shared state. `after_s` is the time for which a former key is still published: a little longer than the lifetime
    of tokens."""

    def __init__(self, store: SignInStore, clock: Clock, *, after_s: float) -> None:
        self._store = store
        self._clock = clock
        self._after_s = after_s + 300.0
        self._ring = TokenSigningKeys(keys=())
        self._looked = float("-inf")
        self._made: dict[str, ec.EllipticCurvePrivateKey] = {}

    async def signer(self) -> TokenSigningKey:
        """Return the key that signs now. The first one is made on demand, and the next one when it is due. Raises `StateError`."""
        ring, now = await self._current(), self._clock.now()
        if not ring.keys:
            ring = await self._change(lambda keys: keys or (_new_key(now),))
        elif ring.keys[-1].begins + _LIFETIME_S <= now:
            ring = await self._change(
                lambda keys: self._with_next(keys, now + _AHEAD_S) if keys[-1].begins + _LIFETIME_S <= now else keys
            )
        signing = [key for key in ring.keys if key.begins <= now]
        return (signing or list(ring.keys))[-1]

    async def rotate(self, *, at_once: bool) -> None:
        """Make another key. With `at_once` it signs now, and no token of the former keys is accepted any more. Raises `StateError`."""
        now = self._clock.now()
        await self._change(lambda keys: (_new_key(now),) if at_once else self._with_next(keys, now + _AHEAD_S))

    async def published(self) -> Mapping[str, Any]:
        """Return the JWK set (RFC 7517). Raises `StateError`."""
        await self.signer()
        return {"keys": [self._jwk(key) for key in self._valid(self._ring.keys)]}

    async def verifies(self, key_id: str, signed: bytes, signature: bytes) -> bool:
        """Return True if this is the signature of a published key. Raises `StateError`."""
        known = self._find(key_id)
        if known is None:
            await self._current(fresh=True)
            known = self._find(key_id)
        else:
            await self._current()
            known = self._find(key_id)
        return known is not None and self._fits(known, signed, signature)

    def pem_of(self, key: TokenSigningKey) -> ec.EllipticCurvePrivateKey:
        """Return the private key, ready to sign."""
        made = self._made.get(key.id)
        if made is None:
            loaded = load_pem_private_key(key.pem.encode("ascii"), password=None)
            if not isinstance(loaded, ec.EllipticCurvePrivateKey):
                raise StateError("a stored signing key is of another kind")
            made = self._made[key.id] = loaded
        return made

    def _find(self, key_id: str) -> TokenSigningKey | None:
        return next((key for key in self._valid(self._ring.keys) if key.id == key_id), None)

    def _fits(self, key: TokenSigningKey, signed: bytes, signature: bytes) -> bool:
        if len(signature) != 64:
            return False
        numbers = (int.from_bytes(part, "big") for part in (signature[:32], signature[32:]))
        try:
            self.pem_of(key).public_key().verify(encode_dss_signature(*numbers), signed, ec.ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True

    def _jwk(self, key: TokenSigningKey) -> dict[str, Any]:
        from jwt.algorithms import ECAlgorithm  # noqa: PLC0415 - where people sign in through the gateway

        public = ECAlgorithm.to_jwk(self.pem_of(key).public_key(), as_dict=True)
        return {**public, "kid": key.id, "use": "sig", "alg": ALGORITHM}

    def _valid(self, keys: tuple[TokenSigningKey, ...]) -> list[TokenSigningKey]:
        now = self._clock.now()
        return [key for key in keys if not key.ends or key.ends > now]

    def _with_next(self, keys: tuple[TokenSigningKey, ...], begins: float) -> tuple[TokenSigningKey, ...]:
        ended = (key if key.ends else replace(key, ends=begins + self._after_s) for key in self._valid(keys))
        return (*ended, _new_key(begins))

    async def _current(self, *, fresh: bool = False) -> TokenSigningKeys:
        now = self._clock.monotonic()
        if fresh or now - self._looked >= _LOOK_S:
            kept = await self._store.get(TokenSigningKeys, _RING)
            self._ring, self._looked = TokenSigningKeys(keys=()) if kept is None else kept.value, now
        return self._ring

    async def _change(
        self, change: Callable[[tuple[TokenSigningKey, ...]], tuple[TokenSigningKey, ...]]
    ) -> TokenSigningKeys:
        while True:
            kept = await self._store.get(TokenSigningKeys, _RING)
            before = () if kept is None else kept.value.keys
            after = change(before)
            if after is not before:
                version = 0 if kept is None else kept.version
                record = TokenSigningKeys(keys=after)
                if not await self._store.put(record, _RING, seconds=_KEPT_S, version=version):
                    continue
            return await self._current(fresh=True)


def _new_key(begins: float) -> TokenSigningKey:
    private = ec.generate_private_key(ec.SECP256R1())
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
    return TokenSigningKey(id=secrets.token_urlsafe(12), pem=pem, begins=begins)
