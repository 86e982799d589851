"""Address and password of a database server: every resolved address is checked by the policy, the password is resolved last."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.connector import EgressRefusal, Resolver, system_resolver
from toolgen.connectors.secrets import Secret, SecretReference, SecretResolver
from toolgen.model.database_url import ServerLocation
from toolgen.model.verdict import Allow, Ask, Deny, Verdict

if TYPE_CHECKING:
    from toolgen.connectors.http.outbound.request import Via

__all__ = ["Reach"]

_MAX_ADDRESSES = 8


class Reach:
    """Resolver of a server's addresses and password. `permit` None permits every address: for a schema reader, which the operator starts
    by hand.
    """

    def __init__(
        self,
        *,
        password: SecretReference | None,
        secrets: SecretResolver,
        permit: Permit | None,
        resolver: Resolver = system_resolver,
    ) -> None:
        self._password = password
        self._secrets = secrets
        self._permit = permit
        self._resolver = resolver

    @property
    def permit(self) -> Permit | None:
        """Permit of addresses, for an engine with its own connections."""
        return self._permit

    async def password(self) -> Secret | None:
        """Return the password. Raises `SecretError` when it is configured and cannot be resolved."""
        return await self._secrets.fetch(self._password) if self._password is not None else None

    async def addresses(self, location: ServerLocation) -> Sequence[str]:
        """Return all addresses of the server, each permitted; none for a Unix socket, which is a local file.

        Raises `EgressRefusal`, and `OSError` when the name has no address.
        """
        if location.socket:
            return ()
        async with asyncio.timeout(location.connect_timeout_s):
            found = (
                [location.host] if _is_literal(location.host) else await self._resolver(location.host, location.port)
            )
        if not found:
            raise OSError("the name has no address")
        for address in found[:_MAX_ADDRESSES]:
            self._check(Destination(host=location.host, port=location.port, address=address, service="database"))
        return found[:_MAX_ADDRESSES]

    def via(self, location: ServerLocation, *, authorities: str, refusals: list[Deny]) -> Via:
        """Return the route of a server that speaks HTTP. The policy decides about every address, and each refusal is added to `refusals`.

        `authorities` are certificates to trust besides the system's.
        """
        from toolgen.connectors.http.outbound.request import TlsMaterial, Via  # noqa: PLC0415 - for servers that speak HTTP

        def noted(permit: Permit, destination: Destination) -> Verdict:
            verdict = permit(destination)
            match verdict:
                case Deny():
                    refusals.append(verdict)
                case Ask(rule=rule, reason=reason):
                    refusals.append(Deny(rule=rule, reason=reason, code="egress_refused"))
            return verdict

        return Via(
            permit=None if self._permit is None else partial(noted, self._permit),
            destination=Destination(host=location.host, port=location.port, service="database"),
            resolver=self._resolver,
            tls=TlsMaterial(authorities=authorities),
        )

    def _check(self, destination: Destination) -> None:
        if self._permit is None:
            return
        match self._permit(destination):
            case Allow():
                return
            case Deny() as verdict:
                raise EgressRefusal(verdict)
            case Ask(rule=rule, reason=reason):
                raise EgressRefusal(Deny(rule=rule, reason=reason, code="egress_refused"))


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
