"""Webhooks that miss notifications of approvals: the policy forbids their address, or messages could not be delivered."""

from __future__ import annotations

from toolgen.config.settings import Settings
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import SystemClock
from toolgen.core.errors import SecretError, StateError
from toolgen.gateway.state.shared_state import outbox_of
from toolgen.model.verdict import Allow
from toolgen.policy.document.policy import Policy
from toolgen.policy.egress import destination_of

__all__ = ["webhook_faults"]


async def webhook_faults(settings: Settings, policy: Policy) -> tuple[str, ...]:
    """Return a sentence for each fault. Nothing is sent, and no name is resolved: an address is judged by its name and port."""
    if not settings.notify:
        return ()
    found: list[str] = []
    outbox = outbox_of(settings, SystemClock())
    try:
        for name, webhook in settings.notify.webhooks.items():
            try:
                url = (await SecretResolver().fetch(webhook.url)).reveal()
                verdict = destination_of(policy.egress, url, "")
                if not isinstance(verdict, Allow):
                    found.append(f"webhook {name}: {verdict.reason}")
            except SecretError:
                pass  # reported with all other references
            counts = await outbox.counts(name)
            if counts.dead:
                found.append(f"webhook {name}: {counts.dead} messages could not be delivered (toolgen notify list)")
            if counts.waiting:
                found.append(f"webhook {name}: {counts.waiting} messages wait, the oldest for {counts.oldest_s:.0f} s")
    except StateError as error:
        found.append(f"the messages for webhooks cannot be read: {error.message}")
    finally:
        await outbox.close()
    return tuple(found)
