"""How the console asks an identity provider: over httpx, with the policy's word on every address it dials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolgen.errors import SecretError
from toolgen.execute.base import Destination, Permit
from toolgen.execute.outbound.client import ask
from toolgen.execute.outbound.request import Asked, RareError, Via
from toolgen.execute.secrets.resolver import Secrets
from toolgen.model.secret import Secret, SecretReference

__all__ = ["Asker", "make_asker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Asks one provider. `reference` is where the client's secret is, None for a client without one."""

    via: Via
    secrets: Secrets
    reference: SecretReference | None

    async def ask(self, url: str, form: bytes | None, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Status and body. Raises `OSError` when there is no answer."""
        asked = Asked(method="GET" if form is None else "POST", url=url, headers=headers, body=form or b"")
        try:
            replied = await ask(asked, self.via)
        except RareError as error:
            raise OSError(str(error)) from error
        return replied.status, replied.body

    async def secret(self) -> Secret | None:
        """The client's secret. Raises `OSError` when it cannot be had."""
        if self.reference is None:
            return None
        try:
            return await self.secrets.fetch(self.reference)
        except SecretError as error:
            raise OSError(error.message) from error


def make_asker(permit: Permit, reference: SecretReference | None) -> Asker:
    """Under the same egress rules as the key sets of identity providers."""
    via = Via(permit=permit, destination=Destination(host="", port=0, service="keys"))
    return Asker(via=via, secrets=Secrets(permit=permit), reference=reference)
