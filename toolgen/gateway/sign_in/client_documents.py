"""Client ID metadata documents: a client whose id is the https address of its metadata, which is fetched, checked and kept for minutes.

The sender of a sign-in request chooses the address. So the egress rules decide about every connection, an inner address needs an entry of
its own there, redirects are not followed, and size, time and number of requests are bounded.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import OrderedDict
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from toolgen.config.sign_in import ClientSettings
from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, Via
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.core.clock import Clock
from toolgen.gateway.identity.identity_providers import fetch_key_set
from toolgen.gateway.identity.jwks import MAX_KEY_SET_SIZE
from toolgen.gateway.sign_in.client_metadata import client_of
from toolgen.gateway.sign_in.errors import OAuthError
from toolgen.gateway.sign_in.records import HostedClient
from toolgen.model.verdict import Allow, Deny, Verdict

__all__ = ["ClientDocuments", "is_document_address"]

_ADDRESS = re.compile(r"https://[a-z0-9.-]+(?::[0-9]{1,5})?/[\x21-\x7e]*\Z")
_JSON = re.compile(r"application/(?:[a-z0-9.-]+\+)?json(?:\s*;|\Z)", re.IGNORECASE)
_MAX_ADDRESS_LENGTH = 1024
_MAX_SIZE = 16_384
_FRESH_S = 300.0
_FAILED_S = 30.0
_FRESH_KEYS_S = 60.0
_MAX_KNOWN = 500
_TOTAL_S = 5.0
_AT_ONCE = 4

log = logging.getLogger("toolgen.sign_in")


class _Fetched(Struct, frozen=True):
    client: HostedClient | None
    fault: str
    until: float


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
    """Clients by the addresses of their documents."""

    def __init__(
        self, settings: ClientSettings, permit: Permit, clock: Clock, *, resolver: Resolver = system_resolver
    ) -> None:
        self._settings = settings
        self._permit = permit
        self._clock = clock
        self._resolver = resolver
        self._known: OrderedDict[str, _Fetched] = OrderedDict()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._key_sets: dict[str, tuple[Mapping[str, Any], float]] = {}

    async def client(self, client_id: str) -> HostedClient:
        """Return the client of a document. Raises `OAuthError`."""
        if not self._settings.allows(urlsplit(client_id).hostname or ""):
            raise OAuthError("invalid_client", "the operator did not allow clients of this host")
        known, now = self._known.get(client_id), self._clock.monotonic()
        if known is None or known.until <= now:
            async with self._turns:
                known = self._known[client_id] = await self._fetched(client_id)
            self._known.move_to_end(client_id)
            while len(self._known) > _MAX_KNOWN:
                self._known.popitem(last=False)
        if known.client is None:
            raise OAuthError("invalid_client", f"the metadata document of the client {known.fault}")
        return known.client

    async def key_set(self, client: HostedClient) -> Mapping[str, Any]:
        """Return the public keys of a client, from its metadata or the address in it. Raises `OAuthError`."""
        if client.jwks is not None:
            return client.jwks
        if client.configured:
            return await self._configured_keys(client.jwks_uri)
        if not is_document_address(client.jwks_uri):
            raise OAuthError("invalid_client", "the jwks_uri of the client is not an https address")
        try:
            return await self._object(client.jwks_uri)
        except _DocumentError as error:
            raise OAuthError("invalid_client", f"the key set of the client {error}") from None

    async def _configured_keys(self, location: str) -> Mapping[str, Any]:
        """Return the keys at an address or path of the settings, which a client cannot choose. Raises `OAuthError`."""
        now, known = self._clock.monotonic(), self._key_sets.get(location)
        if known is None or known[1] <= now:
            try:
                found = json.loads(
                    await fetch_key_set(location, MAX_KEY_SET_SIZE, permit=self._permit, resolver=self._resolver)
                )
            except (OSError, ValueError, RecursionError) as error:
                log.error("the key set %s of a client cannot be used: %s", location, error)  # noqa: TRY400 - it says all
                raise OAuthError(
                    "temporarily_unavailable", "the key set of the client cannot be read now", status=503
                ) from None
            known = self._key_sets[location] = (found if isinstance(found, dict) else {}, now + _FRESH_KEYS_S)
        return known[0]

    async def _fetched(self, client_id: str) -> _Fetched:
        now = self._clock.monotonic()
        try:
            said = _own(await self._object(client_id), client_id)
            return _Fetched(client_of(client_id, said, self._settings, document=True), "", now + _FRESH_S)
        except _DocumentError as error:
            return _Fetched(None, str(error), now + _FAILED_S)
        except OAuthError as error:
            return _Fetched(None, f"is not accepted: {error.text}", now + _FAILED_S)

    async def _object(self, url: str) -> Mapping[str, Any]:
        via = Via(
            permit=self._permitted,
            destination=Destination(host="", port=0, service="http"),
            resolver=self._resolver,
            total_s=_TOTAL_S,
        )
        try:
            reply = await ask(OutboundRequest(method="GET", url=url, headers={"accept": "application/json"}), via)
        except OutboundError as error:
            log.warning("a document of a client was not fetched: %s", error)
            raise _DocumentError("cannot be fetched from here") from None
        if reply.status != 200:
            raise _DocumentError("is not there, or redirects, which is not followed")
        if not _JSON.match(reply.content_type.strip()):
            raise _DocumentError("is not sent as application/json")
        if len(reply.body) > _MAX_SIZE:
            raise _DocumentError(f"is larger than {_MAX_SIZE} bytes")
        try:
            found = json.loads(reply.body, object_pairs_hook=_unique)
        except (ValueError, RecursionError):
            raise _DocumentError("is not JSON with one meaning") from None
        if not isinstance(found, dict):
            raise _DocumentError("is not a JSON object")
        return found

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


class _DocumentError(Exception):
    """Fault of a document. The text is a fixed sentence, without any part of the document."""


def _own(said: Mapping[str, Any], client_id: str) -> Mapping[str, Any]:
    """Return a document if its client id is its own address. Raises `_DocumentError`."""
    if said.get("client_id") != client_id:
        raise _DocumentError("names another client_id than its own address")
    if any(name in said for name in ("client_secret", "client_secret_expires_at")):
        raise _DocumentError("has a secret in it")
    return said


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found
