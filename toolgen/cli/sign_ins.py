"""`toolgen sign-ins`: sign-ins of people through the gateway, and the clients that they use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table, printable
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.protocol import Administration
from toolgen.gateway.sign_in.records import SignInGrant
from toolgen.gateway.sign_in.server import SignInServer
from toolgen.gateway.sign_in.sign_ins import ClientEntry, SignIns

__all__ = ["command"]

R = TypeVar("R")
_OPERATOR = "operator"
_principal = click.option("--principal", metavar="PRINCIPAL", help="Sign-ins of this principal, like staff:ann.")
_client = click.option("--client", metavar="ID", help="Sign-ins with this client.")


@click.group(cls=CommandGroup)
def command() -> None:
    """List and revoke the sign-ins of people and clients through the gateway, and remove clients.

    Other workers follow within 30 seconds.
    """


@command.command("list")
@_principal
@_client
@as_json
@config
def list_sign_ins(principal: str | None, client: str | None, as_json: bool, config_path: str) -> None:
    """List sign-ins: everybody's, or those of one principal or client. Tokens are never shown."""
    gateway = Gateway.load(config_path)

    async def listed() -> Sequence[SignInGrant]:
        server = _server(gateway)
        try:
            return _selected(await server.sign_ins.all(), principal, client)
        finally:
            await server.close()

    found = asyncio.run(listed())
    if as_json:
        print_json([_row(one) for one in found])
    elif found:
        heads = ("id", "principal", "client", "resource", "since", "until")
        print_table(heads, [[printable(str(_row(one)[head])) for head in heads] for one in found])
    else:
        click.echo("nobody is signed in")


@command.command("revoke")
@click.argument("sign_in", required=False)
@_principal
@_client
@config
def revoke(sign_in: str | None, principal: str | None, client: str | None, config_path: str) -> None:
    """End SIGN_IN and its tokens, or all of a principal or client. The person is asked for consent again."""
    if sign_in is None and principal is None and client is None:
        raise click.UsageError("name a sign-in, or select some by --principal or --client")

    async def done(sign_ins: SignIns) -> int:
        found = _selected(await sign_ins.all(), principal, client)
        chosen = [one for one in found if sign_in in {None, one.id}]
        if sign_in is not None and not chosen:
            raise ConfigError(f"there is no sign-in {printable(sign_in)}", suggestion="see `toolgen sign-ins list`")
        return sum([await sign_ins.revoke(one, _OPERATOR) for one in chosen])

    click.echo(f"ended {_with(config_path, done)}")


@command.command("clients")
@as_json
@config
def clients(as_json: bool, config_path: str) -> None:
    """List the clients of the settings, those that registered themselves, and those with a document that is in use."""
    gateway = Gateway.load(config_path)

    async def listed() -> Sequence[ClientEntry]:
        server = _server(gateway)
        try:
            return await server.sign_ins.clients()
        finally:
            await server.close()

    found = asyncio.run(listed())
    heads = ("id", "name", "origin", "sign_ins")
    rows = [{head: getattr(one, head) for head in heads} for one in found]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(heads, [[printable(str(row[head])) for head in heads] for row in rows])
    else:
        click.echo("no client is known")


@command.command("remove-client")
@click.argument("client")
@config
def remove_client(client: str, config_path: str) -> None:
    """Remove CLIENT, which registered itself, and end its sign-ins."""

    async def done(sign_ins: SignIns) -> int:
        count = await sign_ins.remove_client(client, _OPERATOR)
        if count is None:
            raise ConfigError(
                f"no client {printable(client)} registered itself",
                suggestion="remove a client of the settings there, and end sign-ins by `toolgen sign-ins revoke --client ID`",
            )
        return count

    click.echo(f"removed, and ended {_with(config_path, done)}")


def _with(config_path: str, work: Callable[[SignIns], Awaitable[R]]) -> R:
    """Run work that is recorded, like a running gateway would do it."""
    gateway = Gateway.load(config_path)
    server = _server(gateway)

    async def done() -> R:
        async with gateway.short_session():
            return await work(server.sign_ins)

    return asyncio.run(done())


def _server(gateway: Administration) -> SignInServer:
    if gateway.sign_in is None:
        raise ConfigError(
            "people do not sign in through this gateway", suggestion="add gateway.sign_in to toolgen.yaml"
        )
    return gateway.sign_in


def _selected(found: Sequence[SignInGrant], principal: str | None, client: str | None) -> Sequence[SignInGrant]:
    return [one for one in found if principal in {None, one.principal} and client in {None, one.client}]


def _row(grant: SignInGrant) -> dict[str, Any]:
    return {
        "id": grant.id,
        "principal": grant.principal,
        "client": grant.client,
        "client_name": grant.client_name,
        "resource": grant.resource,
        "since": _moment(grant.at),
        "until": _moment(grant.expires),
    }


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
