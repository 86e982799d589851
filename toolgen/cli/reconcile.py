"""Command `toolgen audit reconcile`: calls with an unknown outcome, and the outcomes that people found."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from toolgen.cli.audit_times import since_option
from toolgen.cli.completed import PRINCIPAL_NAME
from toolgen.cli.options import as_json, config, default_principal
from toolgen.cli.output import print_json, printable
from toolgen.core.errors import ToolgenError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.approvals.requests import MAX_NOTE_LENGTH
from toolgen.gateway.operations.unknown_outcomes import OpenOutcomes
from toolgen.gateway.protocol import Administration

__all__ = ["reconcile"]

_HEAD = (
    "call_id",
    "doubt",
    "time",
    "principal",
    "on_behalf_of",
    "tool",
    "request",
    "idempotency_key",
    "sql",
    "session",
    "client",
)


@click.command()
@click.argument("call_id", required=False)
@click.option("--happened", "found", flag_value="happened", help="The call took effect.")
@click.option(
    "--did-not-happen", "found", flag_value="did_not_happen", help="The call had no effect; its key may be used again."
)
@click.option("--note", default="", help=f"Evidence, for the audit log; up to {MAX_NOTE_LENGTH} characters.")
@click.option(
    "--as",
    "principal",
    type=PRINCIPAL_NAME,
    metavar="PRINCIPAL",
    help="Principal that reports this, with the role reviewer.",
)
@since_option
@as_json
@config
def reconcile(
    call_id: str | None,
    found: str | None,
    note: str,
    principal: str | None,
    since: int | None,
    as_json: bool,
    config_path: str,
) -> None:
    """List the calls with an unknown outcome, with the data to find them in the other system; or, with CALL_ID, record the outcome of one.

    These are calls whose outcome is unknown, that never ended, or that wait in the log but are not stored any more. Reads that never ended
    are counted and not listed: they changed nothing.
    """
    if (call_id is None) is not (found is None):
        raise click.UsageError("name a call and its outcome: CALL_ID --happened, or CALL_ID --did-not-happen")
    if len(note) > MAX_NOTE_LENGTH:
        raise click.BadParameter(f"has more than {MAX_NOTE_LENGTH} characters", param_hint="--note")
    gateway = Gateway.load(config_path)
    begun = (since or 0) / 1e6
    if call_id is None or found is None:
        listed = asyncio.run(_open(gateway, begun))
        if as_json:
            print_json(listed.calls)
        else:
            _print(listed.calls)
        if listed.unfinished_reads:
            click.echo(f"{listed.unfinished_reads} reads never ended; they changed nothing", err=True)
        return
    who = default_principal(_reviewers(gateway), principal)
    asyncio.run(_settle(gateway, call_id, found, who, note, begun))
    click.echo(f"recorded: {call_id} {found.replace('_', ' ')}")


async def _open(gateway: Administration, since: float) -> OpenOutcomes:
    try:
        return await gateway.unknown_outcomes.open(since)
    finally:
        await gateway.unknown_outcomes.close()


async def _settle(gateway: Administration, call_id: str, found: str, who: str, note: str, since: float) -> None:
    if not gateway.callers.may_review(gateway.callers.named(who)):
        raise ToolgenError(
            f"{who} does not have the role reviewer", suggestion="name a principal with this role with --as"
        )
    async with gateway.short_session():
        await gateway.unknown_outcomes.settle(call_id, found, by=who, note=note, since=since)


def _reviewers(gateway: Administration) -> tuple[str, ...]:
    return tuple(name for name in gateway.callers.principals if gateway.callers.may_review(gateway.callers.named(name)))


def _print(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a block for each call; caller input is shown as JSON, with control characters escaped."""
    for number, row in enumerate(rows):
        if number:
            click.echo()
        for name in _HEAD:
            if row.get(name):
                click.echo(f"{name:<15}  {printable(row[name])}")
        for name, value in row.get("arguments", {}).items():
            click.echo(f"  {printable(name)} = {printable(json.dumps(value, ensure_ascii=False))}")
    if not rows:
        click.echo("No calls with an unknown outcome.")
