"""Key-encryption keys of services that never hand them out: AWS KMS and the transit engine of Vault.

The service is asked once for each data key that is wrapped. Opened data keys are remembered for five minutes: calls do not wait for it.
"""

from __future__ import annotations

import base64
import binascii
from collections import OrderedDict
from collections.abc import Mapping
from typing import Protocol

from toolgen.connectors.cloud_secrets import CloudRequests, aws_request
from toolgen.connectors.executor import Permit
from toolgen.connectors.http.outbound.request import OutboundError
from toolgen.connectors.secrets import VaultClient
from toolgen.core.clock import Clock
from toolgen.core.errors import StateError, StateUnavailableError

__all__ = ["AwsKms", "KeyService", "ServiceKeys", "VaultTransit", "key_service"]

_REMEMBERED_S = 300.0
_MAX_REMEMBERED = 20_000
_VERSION_S = 60.0


class KeyService(Protocol):
    """Service that wraps data keys with a key of its own. Each method raises `OutboundError`."""

    name: str

    async def version(self) -> str:
        """Return the version of the key that wraps, "" if the service keeps versions to itself."""

    async def encrypt(self, data_key: bytes, about: str) -> bytes:
        """Return a data key, wrapped for `about` alone."""

    async def decrypt(self, wrapped: bytes, about: str) -> bytes:
        """Return the data key."""


class AwsKms:
    """Key of AWS KMS, by id, ARN or alias. `about` is its encryption context. KMS finds the version of a rotated key by itself."""

    def __init__(self, key: str, requests: CloudRequests) -> None:
        self.name, self._key, self._requests = f"aws:{key}", key, requests

    async def version(self) -> str:
        return ""

    async def encrypt(self, data_key: bytes, about: str) -> bytes:
        members = {"KeyId": self._key, "Plaintext": _text(data_key), "EncryptionContext": {"toolgen": about}}
        return _bytes(await aws_request(self._requests, "kms", "TrentService.Encrypt", members), "CiphertextBlob")

    async def decrypt(self, wrapped: bytes, about: str) -> bytes:
        members = {"KeyId": self._key, "CiphertextBlob": _text(wrapped), "EncryptionContext": {"toolgen": about}}
        return _bytes(await aws_request(self._requests, "kms", "TrentService.Decrypt", members), "Plaintext")


class VaultTransit:
    """Key of Vault's transit engine, `mount/name`. `about` is the associated data, for which the key has to be an AEAD key."""

    def __init__(self, key: str, vault: VaultClient, clock: Clock) -> None:
        self.name, self._vault, self._clock = f"vault:{key}", vault, clock
        self._mount, _, self._key = key.rpartition("/")
        self._version: tuple[str, float] = ("", 0.0)

    async def version(self) -> str:
        version, until = self._version
        if not version or self._clock.monotonic() >= until:
            latest = (await self._vault.call("GET", f"{self._mount}/keys/{self._key}")).get("latest_version")
            if not isinstance(latest, int) or isinstance(latest, bool):
                raise OutboundError("Vault does not say which version the key has")
            version = f"v{latest}"
            self._version = (version, self._clock.monotonic() + _VERSION_S)
        return version

    async def encrypt(self, data_key: bytes, about: str) -> bytes:
        members = {"plaintext": _text(data_key), "associated_data": _text(about.encode())}
        found = (await self._vault.call("POST", f"{self._mount}/encrypt/{self._key}", members)).get("ciphertext")
        if not isinstance(found, str) or not found.startswith("vault:v"):
            raise OutboundError("Vault did not wrap the key")
        return found.encode()

    async def decrypt(self, wrapped: bytes, about: str) -> bytes:
        members = {"ciphertext": wrapped.decode("ascii", "replace"), "associated_data": _text(about.encode())}
        return _bytes(await self._vault.call("POST", f"{self._mount}/decrypt/{self._key}", members), "plaintext")


class LocalKeys(Protocol):
    """Key-encryption keys that are here: they open what was wrapped before the service took over."""

    async def unwrap(self, key_id: str, wrapped: bytes, about: str) -> bytes: ...


class ServiceKeys:
    """Key-encryption keys of a service (`KeyEncryption`). `former` opens records that were wrapped without it."""

    def __init__(self, service: KeyService, former: LocalKeys, clock: Clock) -> None:
        self._service, self._former, self._clock = service, former, clock
        self._opened: OrderedDict[tuple[str, bytes, str], tuple[bytes, float]] = OrderedDict()

    def __repr__(self) -> str:
        return f"ServiceKeys({self._service.name})"

    async def current(self) -> str:
        try:
            version = await self._service.version()
        except OutboundError as error:
            raise self._failure(error) from None
        return f"{self._service.name}:{version}" if version else self._service.name

    async def wrap(self, data_key: bytes, about: str) -> bytes:
        try:
            return await self._service.encrypt(data_key, about)
        except OutboundError as error:
            raise self._failure(error) from None

    async def unwrap(self, key_id: str, wrapped: bytes, about: str) -> bytes:
        if key_id != self._service.name and not key_id.startswith(f"{self._service.name}:"):
            return await self._former.unwrap(key_id, wrapped, about)
        now = self._clock.monotonic()
        known = self._opened.get((key_id, wrapped, about))
        if known is not None and now < known[1]:
            return known[0]
        try:
            found = await self._service.decrypt(wrapped, about)
        except OutboundError as error:
            raise self._failure(error) from None
        if len(found) != 32:
            raise StateError("what the key service opened is no data key")
        self._opened[key_id, wrapped, about] = (found, now + _REMEMBERED_S)
        if len(self._opened) > _MAX_REMEMBERED:
            self._opened.popitem(last=False)
        return found

    def _failure(self, error: OutboundError) -> StateUnavailableError:
        return StateUnavailableError(
            f"the key service {self._service.name} cannot be used: {error}",
            suggestion="see the variables of its provider in docs/how-to/credentials.md",
        )


def key_service(written: str, environment: Mapping[str, str], *, permit: Permit | None, clock: Clock) -> KeyService:
    """Return the service that `accounts.kms` names: `aws:KEY` or `vault:MOUNT/KEY`."""
    kind, _, key = written.partition(":")
    if kind == "aws":
        return AwsKms(key, CloudRequests(environment=environment, permit=permit, clock=clock))
    return VaultTransit(key, VaultClient(environment, permit=permit, clock=clock), clock)


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _bytes(answer: Mapping[str, object], name: str) -> bytes:
    value = answer.get(name)
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        raise OutboundError("what it answered is not what was asked for") from None
