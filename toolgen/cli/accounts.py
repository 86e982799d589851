"""`toolgen accounts`: accounts that people linked, on the gateway's machine or over its REST interface, and the rotation of their keys."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import click

from toolgen.cli.completed import PRINCIPAL_NAME
from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import as_json, config, default_principal
from toolgen.cli.output import print_json, print_table, printable
from toolgen.cli.remote_gateway import alone, request, url_option
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.core.clock import SystemClock
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.rest.accounts import account_json
from toolgen.gateway.accounts.accounts import ACCOUNT_NAME, DEFAULT_NAME
from toolgen.gateway.accounts.assembled import account_keys, account_store
from toolgen.gateway.protocol import Administration
from toolgen.gateway.sign_in.assembled import sign_in_store
from toolgen.gateway.sign_in.records import KINDS
from toolgen.state.accounts import Account, AccountStore
from toolgen.state.key_encryption import FileKeys
from toolgen.state.wrapped_keys import WrappedKeys

__all__ = ["command", "rotate"]

_as = click.option(
    "--as",
    "principal",
    type=PRINCIPAL_NAME,
    metavar="PRINCIPAL",
    help="Principal that owns the account, on the gateway's own machine.",
)
_name = click.option("--name", default=DEFAULT_NAME, show_default=True, metavar="NAME", help="Name of the account.")


@click.group(cls=CommandGroup)
def command() -> None:
    """List, link and unlink the accounts of people at the systems that agents call."""


@command.command("list")
@_as
@url_option
@as_json
@config
def list_accounts(principal: str | None, url: str | None, as_json: bool, config_path: str) -> None:
    """List linked accounts: everybody's, or those of one principal. Tokens are never shown."""
    if url is not None:
        alone(principal)
        rows = request("GET", url, "/v1/accounts")["accounts"]
    else:
        rows = asyncio.run(_listed(Gateway.load(config_path), principal))
    if as_json:
        print_json(rows)
        return
    heads = ("principal", "source", "name", "state", "linked")
    if rows:
        print_table(heads, [[_cell(row, head) for head in heads] for row in rows])
    else:
        click.echo("no account is linked")


@command.command("link")
@click.argument("source")
@_name
@_as
@url_option
@config
def link(source: str, name: str, principal: str | None, url: str | None, config_path: str) -> None:
    """Link an account at SOURCE: here with a code that is typed on another device, with --url on the gateway's page."""
    if not ACCOUNT_NAME.match(name):
        raise click.BadParameter("must be up to 32 lower-case letters, digits, - and _", param_hint="--name")
    if url is not None:
        alone(principal)
        page = request("POST", url, "/v1/accounts", {"source": source, "name": name})["page"]
        click.echo(f"open this page, signed in as yourself: {printable(str(page))}")
        return
    account = asyncio.run(_link(Gateway.load(config_path), source, name, principal))
    click.echo(f"linked {printable(account.name)} at {printable(account.source)} for {printable(account.principal)}")


@command.command("unlink")
@click.argument("source")
@_name
@_as
@url_option
@config
def unlink(source: str, name: str, principal: str | None, url: str | None, config_path: str) -> None:
    """Remove an account at SOURCE, for all workers at once, and revoke its tokens there."""
    if url is not None:
        alone(principal)
        told = request("DELETE", url, f"/v1/accounts/{quote(source, safe='')}/{quote(name, safe='')}")
        revoked = told["revoked"] is True
    else:
        revoked = asyncio.run(_unlink(Gateway.load(config_path), source, name, principal))
    click.echo("unlinked, and revoked" if revoked else "unlinked; the tokens could not be revoked at the system")


@command.command("revoke")
@click.option(
    "--principal", metavar="PRINCIPAL", help="Accounts of this principal, even if the policy does not have it any more."
)
@click.option("--source", metavar="SOURCE", help="Accounts at this source.")
@click.option("--removed", is_flag=True, help="Accounts of principals that the policy does not have any more.")
@config
def revoke(principal: str | None, source: str | None, removed: bool, config_path: str) -> None:
    """Remove and revoke all accounts of a principal, of a source, or of principals that the policy does not have any more."""
    gateway = Gateway.load(config_path)
    if principal is None and source is None and not removed:
        raise click.UsageError("select accounts by --principal, --removed or --source")
    done, revoked = asyncio.run(_revoke(gateway, principal, source, removed=removed))
    click.echo(f"removed {done}, revoked {revoked} of them at the systems")


@click.command("rotate")
@config
def rotate(config_path: str) -> None:
    """Encrypt the accounts of people with a new key: their data keys are wrapped again, for all gateways at once.

    Sign-ins of hosted clients are encrypted with it too. A key in the project's own file is replaced. Keys under accounts.keys are the
    operator's: first put the new one before the others. With accounts.kms the service rotates its own key, and data keys are wrapped with
    its newest version.
    """
    settings = load_settings(config_path)
    click.echo(f"{asyncio.run(_rotate(settings))} accounts are encrypted with the new key")


async def _listed(gateway: Administration, principal: str | None) -> list[dict[str, Any]]:
    accounts = gateway.accounts
    try:
        found = await (accounts.all() if principal is None else accounts.of(gateway.callers.named(principal)))
        return [{"principal": one.principal, **account_json(one)} for one in found]
    finally:
        await accounts.close()


async def _link(gateway: Administration, source: str, name: str, principal: str | None) -> Account:
    who = gateway.callers.named(default_principal(gateway.callers.principals, principal))

    def show(page: str, code: str) -> None:
        click.echo(f"open {printable(page)} and type the code {printable(code)}")

    async with gateway.short_session():
        return await gateway.accounts.link_device(who, source, name, show)


async def _unlink(gateway: Administration, source: str, name: str, principal: str | None) -> bool:
    who = gateway.callers.named(default_principal(gateway.callers.principals, principal))
    async with gateway.short_session():
        for account in await gateway.accounts.of(who):
            if (account.source, account.name) == (source, name):
                return await gateway.accounts.unlink(account, by=who.id)
    raise ConfigError(f"{who.id} has no account {name} at {source}", suggestion="see `toolgen accounts list`")


async def _revoke(
    gateway: Administration, principal: str | None, source: str | None, *, removed: bool
) -> tuple[int, int]:
    callers, done, revoked = gateway.callers, 0, 0

    def is_removed(name: str) -> bool:
        """Return True if the policy has neither this principal nor an issuer of such users."""
        return name not in callers.principals and name.partition(":")[0] not in callers.issuers

    async with gateway.short_session():
        for account in await gateway.accounts.all():
            asked = principal in {None, account.principal} and source in {None, account.source}
            if asked and (not removed or is_removed(account.principal)):
                done += 1
                revoked += await gateway.accounts.unlink(account, by="operator")
    return done, revoked


async def _rotate(settings: Settings) -> int:
    keys = account_keys(settings)
    own = isinstance(keys, FileKeys) and not settings.accounts.kms
    if own and isinstance(keys, FileKeys):
        keys.add()
    store: AccountStore = account_store(settings, SystemClock())
    sign_ins = sign_in_store(settings, SystemClock())
    try:
        count = 0
        while more := await store.rotate():
            count += more
        wrapped = sign_ins.keys if isinstance(sign_ins.keys, WrappedKeys) and settings.sign_in is not None else None
        if wrapped is not None:
            await wrapped.add()
        while await sign_ins.rotate(KINDS):
            pass
        if wrapped is not None:
            await wrapped.drop_older()
        if own and isinstance(keys, FileKeys):
            keys.drop_older()
        return count
    finally:
        await store.close()
        await sign_ins.close()


def _cell(row: dict[str, Any], head: str) -> str:
    if head == "state":
        return ("default" if row["default"] else "kept") if row["usable"] else "must be linked again"
    return str(row.get(head, ""))
