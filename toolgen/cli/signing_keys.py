"""Command `toolgen keys rotate-signing`: the keys that sign access tokens of hosted clients."""

from __future__ import annotations

import asyncio

import click

from toolgen.cli.options import config
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.protocol import Administration
from toolgen.gateway.sign_in.server import SignInServer

__all__ = ["rotate_signing"]


@click.command("rotate-signing")
@click.option(
    "--at-once", is_flag=True, help="Sign with the new key now, and accept no token of a former key any more."
)
@config
def rotate_signing(config_path: str, at_once: bool) -> None:
    """Make another key that access tokens of hosted clients are signed with.

    The new key is published for an hour before it signs. Gateways do this by themselves every 30 days. After a leak, use --at-once:
    clients refresh their tokens, and nobody has to sign in again.
    """
    settings: Settings = load_settings(config_path)
    if settings.sign_in is None:
        raise ConfigError(
            "this project has no sign-in through the gateway",
            suggestion="set gateway.sign_in in toolgen.yaml, or use `toolgen keys rotate`",
        )
    gateway = Gateway.load(config_path)
    asyncio.run(_rotated(gateway, gateway.sign_in, at_once=at_once))
    click.echo("the new key signs now" if at_once else "the new key is published, and signs in an hour")


async def _rotated(gateway: Administration, server: SignInServer | None, *, at_once: bool) -> None:
    async with gateway.short_session():
        if server is not None:
            await server.log.note("keys_rotated", by="operator", how="at once" if at_once else "in an hour")
            await server.keys.rotate(at_once=at_once)
