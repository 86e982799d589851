"""Command `toolgen grants`: standing approvals and temporary roles, on the gateway's machine or over its REST interface."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click

from toolgen.cli.approvals import approvers
from toolgen.cli.completed import PRINCIPAL_NAME
from toolgen.cli.options import as_json, config, default_principal
from toolgen.cli.output import print_json, printable
from toolgen.cli.remote_gateway import alone, request, url_option
from toolgen.core.errors import ToolgenError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.approvals.grants import grant_json
from toolgen.gateway.approvals.role_grants import role_grant_json
from toolgen.gateway.protocol import Administration
from toolgen.model.result import Error

__all__ = ["command", "give_names", "in_force", "printed"]

_HEADS = {
    "approval": ("id", "tool", "principal", "on_behalf_of", "session", "rules", "approvers", "created", "expires"),
    "role": ("id", "role", "principal", "status", "reason", "asked_by", "agreed_by", "created", "expires"),
}
_as = click.option(
    "--as",
    "principal",
    type=PRINCIPAL_NAME,
    metavar="PRINCIPAL",
    help="Principal that acts, on the gateway's own machine.",
)


@click.group()
def command() -> None:
    """List standing approvals and temporary roles, and revoke them."""


@command.command("list")
@click.option(
    "--as", "principal", type=PRINCIPAL_NAME, metavar="PRINCIPAL", help="Only those that PRINCIPAL may revoke."
)
@url_option
@as_json
@config
def list_grants(principal: str | None, url: str | None, as_json: bool, config_path: str) -> None:
    """List the grants in force, and roles that wait for a second person."""
    if url is not None:
        alone(principal)
        found = request("GET", url, "/v1/grants")["grants"]
    else:
        found = asyncio.run(in_force(Gateway.load(config_path), principal))
    if as_json:
        print_json(found)
    else:
        printed(found)


@command.command("revoke")
@click.argument("grant_id", metavar="ID")
@_as
@url_option
@config
def revoke(grant_id: str, principal: str | None, url: str | None, config_path: str) -> None:
    """End the grant ID, for all gateways at once."""
    if url is not None:
        alone(principal)
        request("DELETE", url, f"/v1/grants/{quote(grant_id, safe='')}")
    else:
        gateway = Gateway.load(config_path)
        names = give_names(gateway) if grant_id.startswith("role_") else approvers(gateway)
        asyncio.run(_end(gateway, grant_id, default_principal(names, principal)))
    click.echo("revoked")


@command.command("approve")
@click.argument("grant_id", metavar="ID")
@_as
@url_option
@config
def approve(grant_id: str, principal: str | None, url: str | None, config_path: str) -> None:
    """Approve the role ID, as the second person."""
    until = _decide(grant_id, "approve", principal, url, config_path)
    click.echo(f"given until {until}; `toolgen grants revoke {printable(grant_id)}` revokes it")


@command.command("deny")
@click.argument("grant_id", metavar="ID")
@_as
@url_option
@config
def deny(grant_id: str, principal: str | None, url: str | None, config_path: str) -> None:
    """Deny the requested role ID."""
    _decide(grant_id, "deny", principal, url, config_path)
    click.echo("denied")


def _decide(grant_id: str, decision: str, principal: str | None, url: str | None, config_path: str) -> str:
    """Decide about a role; returns the time until which it is given."""
    if url is not None:
        alone(principal)
        told = request("POST", url, f"/v1/grants/{quote(grant_id, safe='')}", {"decision": decision})
        return printable(str(told["expires"]))
    gateway = Gateway.load(config_path)
    who = default_principal(give_names(gateway), principal)
    return asyncio.run(_answer(gateway, grant_id, who, approve=decision == "approve"))


async def _answer(gateway: Administration, grant_id: str, who: str, *, approve: bool) -> str:
    async with gateway.short_session():
        found = await gateway.role_grants.decide(grant_id, approve=approve, principal=gateway.callers.named(who))
    if isinstance(found, Error):
        raise ToolgenError(found.message, suggestion=found.suggestion)
    return str(role_grant_json(found)["expires"])


async def in_force(gateway: Administration, principal: str | None) -> list[dict[str, Any]]:
    """Return the grants and roles in force, or those that a principal may revoke."""
    grants, roles = gateway.tool_calls.approvals.grants, gateway.role_grants
    found: list[dict[str, Any]] = []
    try:
        await roles.refresh()
        who = None if principal is None else gateway.callers.named(principal)
        found += [grant_json(one) for one in await grants.listed(who)]
        return found + [role_grant_json(one) for one in await roles.listed(who)]
    finally:
        await roles.store.close()
        await grants.store.close()


async def _end(gateway: Administration, grant_id: str, who: str) -> None:
    async with gateway.short_session():
        principal, grants = gateway.callers.named(who), gateway.tool_calls.approvals.grants
        ended: object
        if grant_id.startswith("role_"):
            ended = await gateway.role_grants.end(grant_id, principal)
        else:
            ended = await grants.end(grant_id, principal)
        if isinstance(ended, Error):
            raise ToolgenError(ended.message, suggestion=ended.suggestion)


def give_names(gateway: Administration) -> tuple[str, ...]:
    """Return the principals that could give a role."""
    roles = gateway.role_grants
    return tuple(name for name in gateway.callers.principals if roles.may_give(gateway.callers.named(name)))


def printed(grants: Sequence[Mapping[str, Any]]) -> None:
    """Print a block for each grant, with control characters escaped."""
    for number, item in enumerate(grants):
        if number:
            click.echo()
        for name in _HEADS[item["kind"]]:
            value = item.get(name)
            if value:
                click.echo(f"{name:<12}  {printable(', '.join(value) if isinstance(value, list) else value)}")
        if item["kind"] == "role":
            continue
        click.echo(f"{'calls':<12}  {item['used']} of {item['calls']}")
        if item["any_arguments"]:
            click.echo("  with any arguments")
        for name, value in item.get("arguments", {}).items():
            click.echo(f"  {printable(name)} = {printable(json.dumps(value, ensure_ascii=False))}")
    if not grants:
        click.echo("no grants")
