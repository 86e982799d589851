"""`toolgen pause` and `toolgen resume`: what every gateway of the project holds back."""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase

import click

from toolgen.audit.log import AuditLog
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table
from toolgen.clock import SystemClock, timestamp
from toolgen.errors import AuditError, ConfigError, ToolgenError
from toolgen.gateway.project import pauses_of
from toolgen.gateway.service import Gateway
from toolgen.model.names import nearest
from toolgen.settings import Settings
from toolgen.settings import load as load_settings
from toolgen.state.pauses import Pause

__all__ = ["command", "resume"]

_LONGEST_REASON = 500
_principal = click.option("--principal", metavar="PRINCIPAL", default="", help="Everything this principal calls.")
_source = click.option("--source", metavar="SOURCE", default="", help="Every tool of this source.")
_tool = click.option("--tool", metavar="GLOB", default="", help="The tools whose names match; '*' for all.")


@click.command()
@_principal
@_source
@_tool
@click.option("--reason", default="", help="Why; whoever calls is told.")
@as_json
@config
def command(principal: str, source: str, tool: str, reason: str, as_json: bool, config_path: str) -> None:
    """Refuse calls from now on, in every process of the project; without an option, list what is paused."""
    settings = load_settings(config_path)
    pauses = pauses_of(settings)
    given = Pause(principal=principal, source=source, tool=tool, reason=reason, since=SystemClock().now())
    if not any(given.target):
        _print(pauses.read(), as_json=as_json)
        return
    if sum(map(bool, given.target)) > 1:
        raise click.UsageError("name one of --principal, --source and --tool; each is a pause of its own")
    if len(reason) > _LONGEST_REASON:
        raise click.BadParameter(f"has more than {_LONGEST_REASON} characters", param_hint="--reason")
    _check(given, config_path)
    # First what matters most: a pause holds even where it cannot be recorded.
    now = pauses.change(lambda known: (*(item for item in known if item.target != given.target), given))
    try:
        _record(settings, "pause", [given])
    except AuditError as error:
        raise AuditError(f"paused, but this is not on record: {error.message}", where=error.where) from error
    _print(now, as_json=as_json)


@click.command()
@_principal
@_source
@_tool
@as_json
@config
def resume(principal: str, source: str, tool: str, as_json: bool, config_path: str) -> None:
    """Take calls again: those of one pause, or without an option all."""
    settings = load_settings(config_path)
    pauses = pauses_of(settings)
    target = (principal, source, tool)
    ended = [item for item in pauses.read() if not any(target) or item.target == target]
    if not ended:
        raise ConfigError("that is not paused", suggestion="`toolgen pause` lists what is")
    _record(settings, "resume", ended)
    gone = {item.target for item in ended}
    _print(pauses.change(lambda known: tuple(item for item in known if item.target not in gone)), as_json=as_json)


def _check(given: Pause, config_path: str) -> None:
    """What is paused has to exist, or somebody mistyped it. A project that cannot be loaded now can be paused all the same."""
    try:
        gateway = Gateway.load(config_path)
    except ToolgenError as error:
        click.echo(f"warning: not checked against the project, which cannot be loaded: {error}", err=True)
        return
    tools, sources = gateway.manifest.tools, gateway.manifest.sources
    issuer, colon, subject = given.principal.partition(":")
    of_issuer = bool(colon and subject) and issuer in gateway.policy.credentials.issuers
    if given.principal and given.principal not in gateway.principals and not of_issuer:
        known = nearest(given.principal, gateway.principals)
        raise ConfigError(f"the policy has no principal '{given.principal}'{known}")
    if given.source and given.source not in sources:
        raise ConfigError(f"there is no source '{given.source}'{nearest(given.source, sources)}")
    if given.tool and not any(fnmatchcase(name, given.tool) for name in tools):
        raise ConfigError(f"'{given.tool}' matches no tool{nearest(given.tool, tools)}")


def _record(settings: Settings, event: str, changed: Sequence[Pause]) -> None:
    async def write() -> None:
        log = AuditLog(settings.audit_dir, SystemClock())
        log.open()
        try:
            for item in changed:
                about = {"principal": item.principal, "source": item.source, "tool": item.tool, "reason": item.reason}
                arguments = {name: value for name, value in about.items() if value} | {"by": _user()}
                await log.append({"event": event, "client": "toolgen-cli", "arguments": arguments, "status": "ok"})
        finally:
            await log.close()

    asyncio.run(write())


def _user() -> str:
    """Whoever runs this, as the machine knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def _print(pauses: Sequence[Pause], *, as_json: bool) -> None:
    rows = [
        {
            "principal": item.principal,
            "source": item.source,
            "tool": item.tool,
            "reason": item.reason,
            "since": timestamp(item.since),
        }
        for item in pauses
    ]
    if as_json:
        print_json([{name: value for name, value in row.items() if value} for row in rows])
    elif rows:
        print_table(tuple(rows[0]), [tuple(row.values()) for row in rows])
    else:
        click.echo("nothing is paused")
