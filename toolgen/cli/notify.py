"""Command `toolgen notify`: waiting messages of each webhook, dead letters, and retries."""

from __future__ import annotations

import asyncio

import click

from toolgen.audit.entry import timestamp
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.core.clock import SystemClock
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.gateway.state.shared_state import outbox_of
from toolgen.state.outbox import DeadLetter, OutboxCounts

__all__ = ["command"]


@click.group()
def command() -> None:
    """List messages that wait for delivery to webhooks, and those that could not be delivered."""


@command.command("list")
@as_json
@config
def list_messages(as_json: bool, config_path: str) -> None:
    """List the webhooks, and the waiting messages of each.

    The newest hundred dead letters of each follow: messages that are not tried again.
    """
    settings = load_settings(config_path)
    found = asyncio.run(_standing(settings))
    if as_json:
        print_json(
            [
                {
                    "webhook": name,
                    "waiting": counts.waiting,
                    "oldest_s": round(counts.oldest_s, 1),
                    "dead": counts.dead,
                    "dead_letters": [_letter(one) for one in letters],
                }
                for name, (counts, letters) in found.items()
            ]
        )
        return
    print_table(
        ("WEBHOOK", "WAITING", "DEAD"), [(name, counts.waiting, counts.dead) for name, (counts, _) in found.items()]
    )
    letters = [one for _, several in found.values() for one in several]
    if letters:
        click.echo()
        print_table(
            ("DEAD SINCE", "WEBHOOK", "EVENT", "CALL", "ATTEMPTS", "WHY"),
            [(timestamp(one.at), one.receiver, one.event, one.call_id, one.attempts, one.why) for one in letters],
        )


@command.command("retry")
@click.argument("webhook")
@config
def retry(webhook: str, config_path: str) -> None:
    """Retry the dead letters of WEBHOOK.

    A gateway of the project delivers them, with their former ids.
    """
    settings = load_settings(config_path)
    if webhook not in settings.notify.webhooks:
        near = nearest(webhook, settings.notify.webhooks)
        raise ConfigError(f"there is no webhook '{webhook[:60]}'{near}", where=str(settings.path))
    count = asyncio.run(_revive(settings, webhook))
    click.echo(f"{count} messages to {webhook} are tried again")


async def _standing(settings: Settings) -> dict[str, tuple[OutboxCounts, tuple[DeadLetter, ...]]]:
    outbox = outbox_of(settings, SystemClock())
    try:
        return {name: (await outbox.counts(name), await outbox.dead(name)) for name in settings.notify.webhooks}
    finally:
        await outbox.close()


async def _revive(settings: Settings, webhook: str) -> int:
    outbox = outbox_of(settings, SystemClock())
    try:
        return await outbox.revive(webhook)
    finally:
        await outbox.close()


def _letter(one: DeadLetter) -> dict[str, object]:
    return {
        "id": one.id,
        "event": one.event,
        "call_id": one.call_id,
        "since": timestamp(one.at),
        "attempts": one.attempts,
        "why": one.why,
    }
