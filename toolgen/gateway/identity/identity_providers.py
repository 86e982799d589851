"""Requests to identity providers, for key sets and by the console's sign-in. Each dialled address is checked like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, Via
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.errors import SecretError
from toolgen.core.files import read_file
from toolgen.model.secret import Secret, SecretReference

__all__ = ["Asker", "fetch_key_set", "make_asker"]


class Asker(Struct, frozen=True, kw_only=True):
    """Client of one identity provider. `reference` locates the client's secret, None for a client without one."""

    via: Via
    secrets: SecretResolver
    reference: SecretReference | None

    async def ask(self, url: str, form: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Return status and body. Raises `OSError` if there is no answer."""
        asked = OutboundRequest(method="GET" if form is None else "POST", url=url, headers=headers, body=form or b"")
        try:
            replied = await ask(asked, self.via)
        except OutboundError as error:
            raise OSError(str(error)) from error
        return replied.status, replied.body

    async def secret(self) -> Secret | None:
        """Return the client's secret. Raises `OSError` if it cannot be read."""
        if self.reference is None:
            return None
        try:
            return await self.secrets.fetch(self.reference)
        except SecretError as error:
            raise OSError(error.message) from error


def make_asker(permit: Permit, reference: SecretReference | None) -> Asker:
    """Return a client for an identity provider, under the same egress rules as key sets."""
    via = Via(permit=permit, destination=Destination(host="", port=0, service="keys"))
    return Asker(via=via, secrets=SecretResolver(permit=permit), reference=reference)


_TOTAL_S = 5.0
_ACCEPTED = {"accept": "application/jwk-set+json, application/json"}


async def fetch_key_set(location: str, largest: int, *, permit: Permit, resolver: Resolver = system_resolver) -> bytes:
    """Return the bytes at a URL, or of the file at an absolute path. Raises `OSError` if they cannot be read, or are more than
    `largest`."""
    if "://" not in location:
        found = await asyncio.to_thread(read_file, location, largest)
    else:
        destination = Destination(host="", port=0, service="keys")
        via = Via(permit=permit, destination=destination, resolver=resolver, total_s=_TOTAL_S)
        try:
            answer = await ask(OutboundRequest(method="GET", url=location, headers=_ACCEPTED), via)
        except OutboundError as error:
            raise OSError(str(error)) from None
        if answer.status != 200:
            raise OSError(f"the answer is {answer.status}, not 200")
        found = answer.body
    if len(found) > largest:
        raise OSError(f"it is larger than {largest} bytes")
    return found
