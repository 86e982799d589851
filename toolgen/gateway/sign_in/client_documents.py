"""Client ID metadata documents and key sets of clients: fetched, checked, and kept as long as their servers permit.

The sender of a request chooses the address. So the egress rules decide about every connection, an inner address needs an entry of its own
there, redirects are not followed, and size, time and number of requests to each host are bounded.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from toolgen.config.sign_in import ClientSettings
from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, Via
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.core.clock import Clock
from toolgen.gateway.identity.identity_providers import fetch_key_set
from toolgen.gateway.identity.jwks import MAX_KEY_SET_SIZE
from toolgen.gateway.sign_in.client_metadata import client_of
from toolgen.gateway.sign_in.document_cache import (
    ClientDocumentCache,
    DocumentError,
    HostLimits,
    LoadedDocument,
    lifetime_of,
)
from toolgen.gateway.sign_in.errors import OAuthError
from toolgen.gateway.sign_in.records import HostedClient
from toolgen.model.verdict import Allow, Deny, Verdict

__all__ = ["ClientDocuments", "is_document_address"]

_ADDRESS = re.compile(r"https://[a-z0-9.-]+(?::[0-9]{1,5})?/[\x21-\x7e]*\Z")
_JSON = re.compile(r"application/(?:[a-z0-9.-]+\+)?json(?:\s*;|\Z)", re.IGNORECASE)
_MAX_ADDRESS_LENGTH = 1024
_MAX_SIZE = 16_384
_USUAL_S, _LONGEST_S = 300.0, 3600.0
_USUAL_KEYS_S, _LONGEST_KEYS_S = 60.0, 600.0  # for which a key works that its owner removed
_RETRY_CONFIGURED_S = 5.0
_TOTAL_S = 5.0
_AT_ONCE = 4

log = logging.getLogger("toolgen.sign_in")


def is_document_address(client_id: str) -> bool:
    """Return True if a client id is the address of a metadata document: https, with a path, and without parts that hide its target."""
    if len(client_id) > _MAX_ADDRESS_LENGTH or not _ADDRESS.match(client_id):
        return False
    try:
        parts = urlsplit(client_id)
        parts.port  # noqa: B018 - raises for what is none
    except ValueError:
        return False
    segments = parts.path.split("/")
    dots = {".", "..", "%2e", "%2e%2e", ".%2e", "%2e."}
    return (
        parts.path != "/"
        and not any(segment.lower() in dots for segment in segments)
        and "#" not in client_id
        and "\\" not in client_id
        and "@" not in parts.netloc
    )


class ClientDocuments:
    """Clients by the addresses of their documents, and key sets of clients."""

    def __init__(
        self, settings: ClientSettings, permit: Permit, clock: Clock, *, resolver: Resolver = system_resolver
    ) -> None:
        self._settings = settings
        self._permit = permit
        self._resolver = resolver
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._limits = HostLimits(clock)
        self._clients = ClientDocumentCache(self._load_client, clock)
        self._key_sets = ClientDocumentCache(self._load_keys, clock)
        self._configured_keys = ClientDocumentCache(self._load_configured_keys, clock, failed_s=_RETRY_CONFIGURED_S)

    async def client(self, client_id: str) -> HostedClient:
        """Return the client of a document. Raises `OAuthError`."""
        if not self._settings.allows(urlsplit(client_id).hostname or ""):
            raise OAuthError("invalid_client", "the operator did not allow clients of this host")
        try:
            return await self._clients.get(client_id)
        except DocumentError as error:
            raise _refusal("the metadata document of the client", error) from None

    async def key_set(self, client: HostedClient, key_id: str = "") -> Mapping[str, Any]:
        """Return the public keys of a client, from its metadata or the address in it, read again for a key id that they lack.

        Raises `OAuthError`.
        """
        if client.jwks is not None:
            return client.jwks
        try:
            if client.configured:
                return await self._configured_keys.get(client.jwks_uri, lambda keys: _has_key(keys, key_id))
            if not is_document_address(client.jwks_uri):
                raise OAuthError("invalid_client", "the jwks_uri of the client is not an https address")
            return await self._key_sets.get(client.jwks_uri, lambda keys: _has_key(keys, key_id))
        except DocumentError as error:
            if client.configured:
                raise OAuthError(
                    "temporarily_unavailable", "the key set of the client cannot be read now", status=503
                ) from None
            raise _refusal("the key set of the client", error) from None

    async def close(self) -> None:
        """Cancel the fetches that run."""
        for cache in (self._clients, self._key_sets, self._configured_keys):
            await cache.close()

    async def _load_client(self, client_id: str) -> LoadedDocument[HostedClient]:
        said, seconds = await self._object(client_id, usual_s=_USUAL_S, longest_s=_LONGEST_S)
        try:
            client = client_of(client_id, _own(said, client_id), self._settings, document=True)
        except OAuthError as error:
            raise DocumentError(f"is not accepted: {error.text}") from None
        return LoadedDocument(client, seconds)

    async def _load_keys(self, address: str) -> LoadedDocument[Mapping[str, Any]]:
        keys, seconds = await self._object(address, usual_s=_USUAL_KEYS_S, longest_s=_LONGEST_KEYS_S)
        return LoadedDocument(keys, seconds)

    async def _load_configured_keys(self, location: str) -> LoadedDocument[Mapping[str, Any]]:
        """Read the keys at an address or path of the settings, which a client cannot choose."""
        try:
            found = json.loads(
                await fetch_key_set(location, MAX_KEY_SET_SIZE, permit=self._permit, resolver=self._resolver)
            )
        except (OSError, ValueError, RecursionError) as error:
            log.error("the key set %s of a client cannot be used: %s", location, error)  # noqa: TRY400 - it says all
            raise DocumentError("cannot be read") from None
        return LoadedDocument(found if isinstance(found, dict) else {}, _USUAL_KEYS_S)

    async def _object(self, url: str, *, usual_s: float, longest_s: float) -> tuple[Mapping[str, Any], float]:
        """Return the JSON object at an address, and the seconds for which it may be kept. Raises `DocumentError`."""
        if not self._limits.take(urlsplit(url).netloc):
            raise DocumentError("was asked for too often, try again in a minute", busy=True)
        via = Via(
            permit=self._permitted,
            destination=Destination(host="", port=0, service="http"),
            resolver=self._resolver,
            total_s=_TOTAL_S,
        )
        try:
            async with self._turns:
                reply = await ask(OutboundRequest(method="GET", url=url, headers={"accept": "application/json"}), via)
        except OutboundError as error:
            log.warning("a document of a client was not fetched: %s", error)
            raise DocumentError("cannot be fetched from here") from None
        if reply.status != 200:
            raise DocumentError("is not there, or redirects, which is not followed")
        if not _JSON.match(reply.content_type.strip()):
            raise DocumentError("is not sent as application/json")
        if len(reply.body) > _MAX_SIZE:
            raise DocumentError(f"is larger than {_MAX_SIZE} bytes")
        try:
            found = json.loads(reply.body, object_pairs_hook=_unique)
        except (ValueError, RecursionError):
            raise DocumentError("is not JSON with one meaning") from None
        if not isinstance(found, dict):
            raise DocumentError("is not a JSON object")
        return found, lifetime_of(reply.cache_control, reply.age, usual_s=usual_s, longest_s=longest_s)

    def _permitted(self, destination: Destination) -> Verdict:
        """Return the verdict of the policy; an address that is not public needs an entry of its own, whatever `private_networks` says.

        A name comes before its addresses. Where a proxy resolves it, no address is ever checked here, so it needs an entry as well.
        """
        verdict = self._permit(destination)
        if not isinstance(verdict, Allow) or verdict.rule == "egress.allow":
            return verdict
        if not destination.address:
            if verdict.proxy is None or verdict.proxy.resolve == "local":
                return verdict
            return Deny(
                rule="egress", code="egress_refused", reason="the proxy would resolve the name that a client chose"
            )
        address = ip_address(destination.address)
        inner = getattr(address, "ipv4_mapped", None) or address
        if inner.is_global and not inner.is_multicast and verdict.rule == "egress":
            return verdict
        return Deny(rule="egress", code="egress_refused", reason="a client named a document at an inner address")


def _own(said: Mapping[str, Any], client_id: str) -> Mapping[str, Any]:
    """Return a document if its client id is its own address. Raises `DocumentError`."""
    if said.get("client_id") != client_id:
        raise DocumentError("names another client_id than its own address")
    if any(name in said for name in ("client_secret", "client_secret_expires_at")):
        raise DocumentError("has a secret in it")
    return said


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _has_key(keys: Mapping[str, Any], key_id: str) -> bool:
    """Return True if a key set has a key of this id, or if none is asked for."""
    listed = keys.get("keys")
    return not key_id or (
        isinstance(listed, list) and any(isinstance(one, dict) and one.get("kid") == key_id for one in listed)
    )


def _refusal(what: str, error: DocumentError) -> OAuthError:
    if error.busy:
        return OAuthError("temporarily_unavailable", f"{what} {error}", status=503)
    return OAuthError("invalid_client", f"{what} {error}")
