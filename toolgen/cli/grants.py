"""`toolgen grants`: what people allowed for some time, on the gateway's machine or over its REST interface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click

from toolgen.cli.approvals import approvers
from toolgen.cli.options import as_json, config, default_principal
from toolgen.cli.output import print_json, printable
from toolgen.cli.remote_gateway import alone, request, url_option
from toolgen.errors import ToolgenError
from toolgen.gateway.approval_grants import grant_json
from toolgen.gateway.protocol import Administration
from toolgen.gateway.service import Gateway
from toolgen.model.result import Error

__all__ = ["command"]

_HEAD = ("id", "tool", "principal", "on_behalf_of", "session", "rules", "approvers", "created", "expires")


@click.group()
def command() -> None:
    """List what people allowed for some time, and revoke it."""


@command.command("list")
@click.option("--as", "principal", metavar="PRINCIPAL", help="Only those that PRINCIPAL may revoke.")
@url_option
@as_json
@config
def list_grants(principal: str | None, url: str | None, as_json: bool, config_path: str) -> None:
    """List the grants in force, by when they expire."""
    if url is not None:
        alone(principal)
        found = request("GET", url, "/v1/grants")["grants"]
    else:
        found = asyncio.run(_in_force(Gateway.load(config_path), principal))
    if as_json:
        print_json(found)
    else:
        _print(found)


@command.command("revoke")
@click.argument("grant_id", metavar="ID")
@click.option("--as", "principal", metavar="PRINCIPAL", help="Who revokes it, on the gateway's own machine.")
@url_option
@config
def revoke(grant_id: str, principal: str | None, url: str | None, config_path: str) -> None:
    """End the grant ID, for every gateway at once."""
    if url is not None:
        alone(principal)
        request("DELETE", url, f"/v1/grants/{quote(grant_id, safe='')}")
    else:
        gateway = Gateway.load(config_path)
        asyncio.run(_end(gateway, grant_id, default_principal(approvers(gateway), principal)))
    click.echo("revoked; the next call asks again")


async def _in_force(gateway: Administration, principal: str | None) -> list[dict[str, Any]]:
    grants = gateway.tool_calls.approvals.grants
    if grants is None:
        return []
    try:
        who = None if principal is None else gateway.callers.named(principal)
        return [grant_json(one) for one in await grants.listed(who)]
    finally:
        await grants.store.close()


async def _end(gateway: Administration, grant_id: str, who: str) -> None:
    async with gateway.short_session():
        grants = gateway.tool_calls.approvals.grants
        ended = None if grants is None else await grants.end(grant_id, gateway.callers.named(who))
        if isinstance(ended, Error):
            raise ToolgenError(ended.message)


def _print(grants: Sequence[Mapping[str, Any]]) -> None:
    """One block a grant, without anything a terminal would act on."""
    for number, item in enumerate(grants):
        if number:
            click.echo()
        for name in _HEAD:
            value = item.get(name)
            if value:
                click.echo(f"{name:<12}  {printable(', '.join(value) if isinstance(value, list) else value)}")
        click.echo(f"{'calls':<12}  {item['used']} of {item['calls']}")
        if item["any_arguments"]:
            click.echo("  whatever the arguments")
        for name, value in item.get("arguments", {}).items():
            click.echo(f"  {printable(name)} = {printable(json.dumps(value, ensure_ascii=False))}")
    if not grants:
        click.echo("nothing is granted")
