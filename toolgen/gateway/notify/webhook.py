"""Sender of messages to webhooks: signed, only to addresses that the policy opens, and without following redirects."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

from toolgen.config.notify import Webhook
from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import (
    OutboundError,
    OutboundRequest,
    OutboundResponse,
    RefusedError,
    TlsMaterial,
    Via,
)
from toolgen.connectors.http.response import retry_after
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.errors import SecretError
from toolgen.model.webhook import key_of, signed_headers, url_fault

__all__ = ["MAX_WAIT_S", "DeliveryError", "WebhookSender"]

MAX_WAIT_S = 3600.0
"""Maximum pause that a receiver may request (Retry-After); a longer one is shortened."""
_TOTAL_S = 10.0
_GONE = 410
_HOLDING = frozenset({429, 503})


@dataclass(kw_only=True, eq=False)
class DeliveryError(Exception):
    """Failure of a delivery attempt. Its reason contains neither the address nor a secret.

    `lasting`: every other attempt would fail too. `wait_s` is the pause that the receiver asked for; `holds` is True if it applies to all
    messages to this receiver. `code` is the code in records.
    """

    why: str
    lasting: bool = False
    wait_s: float = 0.0
    holds: bool = False
    code: str = "upstream_error"


class WebhookSender:
    """Sender for one webhook. Its address and its secrets are read again for each message, so they may change."""

    def __init__(self, webhook: Webhook, permit: Permit, resolver: Resolver = system_resolver) -> None:
        self._webhook = webhook
        self._permit = permit
        self._resolver = resolver
        self._secrets = SecretResolver(permit=permit)

    async def send(self, message_id: str, body: bytes, now: float) -> None:
        """Send a message, until the receiver confirms it (any 2xx). `now` is signed: seconds since the epoch. Raises `DeliveryError`.

        The policy checks the resolved address as for a tool call.
        """
        url, keys, tls = await self._target()
        headers = {
            "content-type": "application/json",
            "user-agent": f"toolgen/{version('toolgen')}",
            **signed_headers(message_id, now, body, keys),
        }
        asked = OutboundRequest(method="POST", url=url, headers=headers, body=body, reads=False)
        anywhere = Destination(host="", port=0)
        via = Via(permit=self._permit, destination=anywhere, resolver=self._resolver, tls=tls, total_s=_TOTAL_S)
        try:
            answer = await ask(asked, via)
        except RefusedError as error:
            raise DeliveryError(why=str(error), lasting=True, code="egress_refused") from None
        except OutboundError as error:
            raise DeliveryError(why=str(error)) from None
        if not 200 <= answer.status < 300:
            raise _refused(answer, now)

    async def _target(self) -> tuple[str, tuple[bytes, ...], TlsMaterial]:
        """Return the current URL, the signing keys, and the trusted certificate authorities."""
        try:
            url = (await self._secrets.fetch(self._webhook.url)).reveal()
            texts = [(await self._secrets.fetch(one)).reveal() for one in self._webhook.secrets]
            believed = self._webhook.authorities
            authorities = "" if believed is None else (await self._secrets.fetch(believed)).reveal()
        except SecretError as error:
            raise DeliveryError(why=error.message, code="secret_unavailable") from None
        if fault := url_fault(url):
            raise DeliveryError(why=f"url: {fault}", code="secret_unavailable")
        keys = [key_of(text) for text in texts]
        if None in keys:
            raise DeliveryError(why="secret: is not whsec_ and the base64 of 24 to 64 bytes", code="secret_unavailable")
        return url, tuple(key for key in keys if key is not None), TlsMaterial(authorities=authorities)


def _refused(answer: OutboundResponse, now: float) -> DeliveryError:
    """Return the error for an answer that is not 2xx: whether it is permanent (410), and how long to pause deliveries."""
    wait_s = min(retry_after(answer.retry_after, now) or 0.0, MAX_WAIT_S) if answer.retry_after else 0.0
    if 300 <= answer.status < 400:
        return DeliveryError(why=f"the answer is {answer.status}, and redirects are not followed", wait_s=wait_s)
    return DeliveryError(
        why=f"the answer is {answer.status}",
        lasting=answer.status == _GONE,
        wait_s=wait_s,
        holds=answer.status in _HOLDING and wait_s > 0,
    )
