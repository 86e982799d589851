"""How a database server is reached: its name resolved, every address put to the policy, its password resolved just before it is sent."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence

from toolgen.execute.base import Destination, Permit
from toolgen.execute.http.dial import Refusal, Resolver, system_resolver
from toolgen.execute.secrets import Secret, SecretReference, Secrets
from toolgen.model.location import ServerLocation
from toolgen.model.verdict import Allow, Ask, Deny

__all__ = ["Reach"]

_MOST_ADDRESSES = 8


class Reach:
    """`permit` None lets every address through: for a reader of a schema, which the operator starts by hand."""

    def __init__(
        self,
        *,
        password: SecretReference | None,
        secrets: Secrets,
        permit: Permit | None,
        resolver: Resolver = system_resolver,
    ) -> None:
        self._password = password
        self._secrets = secrets
        self._permit = permit
        self._resolver = resolver

    async def password(self) -> Secret | None:
        """Raises `SecretError` when there should be one and it cannot be had."""
        return await self._secrets.fetch(self._password) if self._password is not None else None

    async def addresses(self, location: ServerLocation) -> Sequence[str]:
        """Every address of the server, each of them permitted; none for a Unix socket, which is a file of this machine.

        Raises `Refusal`, and `OSError` when the name has no address.
        """
        if location.socket:
            return ()
        async with asyncio.timeout(location.connect_timeout_s):
            found = (
                [location.host] if _is_literal(location.host) else await self._resolver(location.host, location.port)
            )
        if not found:
            raise OSError("the name has no address")
        for address in found[:_MOST_ADDRESSES]:
            self._check(Destination(host=location.host, port=location.port, address=address, service="database"))
        return found[:_MOST_ADDRESSES]

    def _check(self, destination: Destination) -> None:
        if self._permit is None:
            return
        match self._permit(destination):
            case Allow():
                return
            case Deny() as verdict:
                raise Refusal(verdict)
            case Ask(rule=rule, reason=reason):
                raise Refusal(Deny(rule=rule, reason=reason, code="egress_refused"))


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
