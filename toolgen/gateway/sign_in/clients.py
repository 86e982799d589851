"""Clients of the authorization server: those of the settings, of metadata documents, and those that registered themselves (RFC 7591)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from toolgen.config.registered_clients import RegisteredClient
from toolgen.config.sign_in import JWT_BEARER, ClientSettings
from toolgen.core.clock import Clock
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.gateway.sign_in.client_documents import ClientDocuments, is_document_address
from toolgen.gateway.sign_in.client_metadata import client_of, plain_name
from toolgen.gateway.sign_in.errors import OAuthError
from toolgen.gateway.sign_in.records import HostedClient
from toolgen.state.sign_in import SignInStore

__all__ = ["Clients", "digest_of"]

MAX_UNUSED = 200
"""Maximum number of registered clients with which nobody has signed in yet."""
MAX_EACH = 20
"""Maximum number of clients that one address may register within an hour."""
_UNUSED_S = 3600.0
_USED_S = 180 * 86_400.0
_MAX_ADDRESSES = 10_000


class Clients:
    """Clients by their ids. `store` keeps those that registered themselves: for an hour, and for half a year after each sign-in."""

    def __init__(self, settings: ClientSettings, store: SignInStore, documents: ClientDocuments, clock: Clock) -> None:
        self.settings = settings
        self._store = store
        self._clock = clock
        self._documents = documents
        self._registered: dict[str, list[float]] = {}
        self._configured = {name: _configured(one) for name, one in settings.registered.items()}

    def configured(self, client_id: str) -> HostedClient | None:
        """Return a client of the settings; None for any other."""
        return self._configured.get(client_id)

    def check(self, principals: Collection[str]) -> None:
        """Raise `ConfigError` for a client of the settings that would act as a principal that the policy does not have."""
        for client in self._configured.values():
            if client.principal and client.principal not in principals:
                raise ConfigError(
                    f"gateway.sign_in.clients.registered: {client.id} names the principal '{client.principal}', which the policy does "
                    f"not have{nearest(client.principal, tuple(principals))}",
                    suggestion="add it under principals: of the policy",
                )

    @property
    def all_configured(self) -> tuple[HostedClient, ...]:
        """Return the clients of the settings."""
        return tuple(self._configured.values())

    async def find(self, client_id: str) -> HostedClient | None:
        """Return a client; None for an unknown id. Raises `OAuthError` for a document that cannot be used, and `StateError`."""
        if (known := self._configured.get(client_id)) is not None:
            return known
        if is_document_address(client_id):
            return await self._documents.client(client_id) if self.settings.metadata_documents else None
        if not self.settings.registration:
            return None
        kept = await self._store.get(HostedClient, client_id)
        return None if kept is None else kept.value

    async def key_set(self, client: HostedClient, key_id: str = "") -> Mapping[str, Any]:
        """Return the public keys of a client, among them the one with a key id if there is such a key. Raises `OAuthError`."""
        return await self._documents.key_set(client, key_id)

    async def close(self) -> None:
        """Cancel the fetches that run."""
        await self._documents.close()

    async def register(self, said: Mapping[str, Any], address: str) -> tuple[HostedClient, dict[str, Any]]:
        """Store a client that registers itself; returns it, and the answer, which alone contains its secret.

        Raises `OAuthError` and `StateError`.
        """
        client = client_of(secrets.token_urlsafe(18), said, self.settings, document=False)
        self._count(address)
        if await self._store.count(HostedClient, "unused") >= MAX_UNUSED:
            raise OAuthError(
                "temporarily_unavailable",
                "too many clients were registered and not used; try again in an hour",
                status=503,
            )
        secret = ""
        if client.method.startswith("client_secret"):
            secret = secrets.token_urlsafe(32)
            client = replace(client, secret=digest_of(secret))
        await self._store.put(client, client.id, seconds=_UNUSED_S, group="unused")
        answer = {
            "client_id": client.id,
            "client_id_issued_at": int(self._clock.now()),
            "client_name": client.name,
            "redirect_uris": list(client.redirects),
            "token_endpoint_auth_method": client.method,
            "grant_types": list(client.grants),
            "response_types": ["code"],
            **({"client_secret": secret, "client_secret_expires_at": 0} if secret else {}),
            **({"jwks": client.jwks} if client.jwks is not None else {}),
            **({"jwks_uri": client.jwks_uri} if client.jwks_uri else {}),
        }
        return client, answer

    async def used(self, client: HostedClient) -> None:
        """Store a client for longer, because somebody has signed in with it. Raises `StateError`."""
        if client.document or client.configured:
            return
        kept = await self._store.get(HostedClient, client.id)
        if kept is not None:
            await self._store.put(kept.value, client.id, seconds=_USED_S, version=kept.version, group="used")

    def _count(self, address: str) -> None:
        now = self._clock.monotonic()
        recent = [at for at in self._registered.get(address, ()) if at > now - _UNUSED_S]
        if len(recent) >= MAX_EACH:
            raise OAuthError(
                "temporarily_unavailable", "too many clients were registered from this address", status=429
            )
        if address not in self._registered and len(self._registered) >= _MAX_ADDRESSES:
            self._registered.pop(next(iter(self._registered)))
        self._registered[address] = [*recent, now]


def _configured(client: RegisteredClient) -> HostedClient:
    """Return a client of the settings. Its grants follow from what it has: redirect URIs, a principal of its own, and a way to
    prove who it is."""
    method = "none"
    if client.confidential:
        method = "private_key_jwt" if client.jwks else "client_secret_basic"
    people = ("authorization_code", "refresh_token") if client.redirects else ()
    itself = ("client_credentials",) if client.principal else ()
    return HostedClient(
        id=client.id,
        name=plain_name(client.name),
        redirects=client.redirects,
        method=method,
        grants=(*people, *itself, *((JWT_BEARER,) if client.confidential else ())),
        jwks_uri=client.jwks,
        configured=True,
        secrets=client.secrets,
        principal=client.principal,
    )


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret with many random bits, in hex."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
