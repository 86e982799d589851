"""Command `toolgen grant`: temporary roles, on the gateway's machine or over its REST interface."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from toolgen.cli.completed import PRINCIPAL_NAME
from toolgen.cli.grants import give_names, in_force, printed
from toolgen.cli.options import as_json, config, default_principal
from toolgen.cli.output import print_json, printable
from toolgen.cli.remote_gateway import alone, request, url_option
from toolgen.core.errors import ToolgenError
from toolgen.core.units import parse_duration
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.approvals.role_grants import RoleWish, role_grant_json
from toolgen.gateway.protocol import Administration
from toolgen.model.reason import reason_in
from toolgen.model.result import Error

__all__ = ["command"]


@click.command()
@click.argument("role", metavar="[ROLE]", required=False)
@click.option("--to", metavar="PRINCIPAL", help="Principal that gets the role.")
@click.option("--for", "time", metavar="TIME", help="Duration, like 2h.")
@click.option("--reason", help="Reason, for the audit log.")
@click.option("--list", "listing", is_flag=True, help="List temporary roles in force, and those that wait.")
@click.option(
    "--as",
    "principal",
    type=PRINCIPAL_NAME,
    metavar="PRINCIPAL",
    help="Principal that gives the role, on the gateway's own machine.",
)
@url_option
@as_json
@config
def command(
    role: str | None,
    to: str | None,
    time: str | None,
    reason: str | None,
    listing: bool,
    principal: str | None,
    url: str | None,
    as_json: bool,
    config_path: str,
) -> None:
    """Give ROLE to a principal for some time, or request one that needs two people; `toolgen grants` lists and revokes."""
    if listing:
        _list(role, principal, url, as_json=as_json, config_path=config_path)
        return
    if not (role and to and time and reason):
        raise click.UsageError("needs a role, --to, --for and --reason; or --list")
    if not reason_in(reason):
        raise click.BadParameter("must have visible characters", param_hint="--reason")
    seconds = parse_duration(time)
    if seconds is None:
        raise click.BadParameter("must be like 30m or 2h", param_hint="--for")
    if url is not None:
        alone(principal)
        found = request(
            "POST", url, "/v1/grants", {"role": role, "to": to, "for": f"{int(seconds)}s", "reason": reason}
        )
    else:
        gateway = Gateway.load(config_path)
        grant_request = RoleWish(role=role, to=to, seconds=seconds, reason=reason)
        found = asyncio.run(_give(gateway, grant_request, default_principal(give_names(gateway), principal)))
    if as_json:
        print_json(found)
        return
    name = printable(str(found["id"]))
    if found["status"] == "pending":
        click.echo(
            f"requested; another person approves it with `toolgen grants approve {name}` until {found['expires']}"
        )
    else:
        click.echo(f"given until {found['expires']}; `toolgen grants revoke {name}` revokes it")


def _list(role: str | None, principal: str | None, url: str | None, *, as_json: bool, config_path: str) -> None:
    if url is not None:
        alone(principal)
        found = request("GET", url, "/v1/grants")["grants"]
    else:
        found = asyncio.run(in_force(Gateway.load(config_path), principal))
    found = [one for one in found if one["kind"] == "role" and role in {None, one["role"]}]
    if as_json:
        print_json(found)
    else:
        printed(found)


async def _give(gateway: Administration, grant_request: RoleWish, who: str) -> dict[str, Any]:
    async with gateway.short_session():
        given = await gateway.role_grants.ask(grant_request, gateway.callers.named(who))
    if isinstance(given, Error):
        raise ToolgenError(given.message, suggestion=given.suggestion)
    return role_grant_json(given)
