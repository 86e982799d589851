"""Commands `toolgen pause` and `toolgen resume`: pauses in all gateways of the project."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence

import click

from toolgen.audit.entry import timestamp
from toolgen.audit.log import AuditLog
from toolgen.cli.options import as_json, config, operator
from toolgen.cli.output import print_json, print_table
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.core.clock import SystemClock
from toolgen.core.errors import AuditError, ConfigError, StateError, ToolgenError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.policies.pause_control import MAX_REASON_LENGTH, check, entry_of, with_one, without
from toolgen.gateway.state.shared_state import pauses_of, shared_pauses
from toolgen.model.reason import reason_in
from toolgen.state.pauses import Pause, SharedPauses

__all__ = ["command", "resume"]

Edit = Callable[[tuple[Pause, ...]], tuple[Pause, ...]]
_principal = click.option("--principal", metavar="PRINCIPAL", default="", help="All calls of this principal.")
_source = click.option("--source", metavar="SOURCE", default="", help="All tools of this source.")
_tool = click.option("--tool", metavar="GLOB", default="", help="All tools with matching names; '*' for all.")


@click.command()
@_principal
@_source
@_tool
@click.option("--reason", default="", help="Reason; callers see it.")
@as_json
@config
def command(principal: str, source: str, tool: str, reason: str, as_json: bool, config_path: str) -> None:
    """Refuse calls from now on, in every process of the project; without an option, list the pauses."""
    settings = load_settings(config_path)
    given = Pause(principal=principal, source=source, tool=tool, reason=reason_in(reason), since=SystemClock().now())
    if not any(given.target):
        _print(_read(settings), as_json=as_json)
        return
    if sum(map(bool, given.target)) > 1:
        raise click.UsageError("use one of --principal, --source and --tool; each is a separate pause")
    if len(reason) > MAX_REASON_LENGTH:
        raise click.BadParameter(f"has more than {MAX_REASON_LENGTH} characters", param_hint="--reason")
    _check(given, config_path)
    # The pause comes first: it is effective even if it cannot be recorded.
    alone = _pause(settings, with_one(given))
    try:
        _record(settings, "pause", [given])
    except AuditError as error:
        raise AuditError(f"paused, but this is not recorded: {error.message}", where=error.where) from error
    if alone is not None:
        raise StateError(
            f"paused on this machine only: {alone.message}", suggestion="pause again once Redis can be reached"
        )
    now = _read(settings)
    _print(now, as_json=as_json)


@click.command()
@_principal
@_source
@_tool
@as_json
@config
def resume(principal: str, source: str, tool: str, as_json: bool, config_path: str) -> None:
    """Accept calls again: end one pause, or without an option all of them."""
    settings = load_settings(config_path)
    target = (principal, source, tool)
    ended = [item for item in _read(settings) if not any(target) or item.target == target]
    if not ended:
        raise ConfigError("that is not paused", suggestion="`toolgen pause` lists the pauses")
    _record(settings, "resume", ended)
    edit = without(ended)
    _shared(settings, lambda pauses: pauses.change(edit))
    if pauses_of(settings).read():
        pauses_of(settings).change(edit)
    _print(_read(settings), as_json=as_json)


def _pause(settings: Settings, edit: Edit) -> StateError | None:
    """Pause everywhere, or at least on this machine; in that case, return the reason."""
    if settings.state is None:
        pauses_of(settings).change(edit)
        return None
    try:
        _shared(settings, lambda pauses: pauses.change(edit))
    except StateError as error:
        pauses_of(settings).change(edit)
        return error
    return None


def _read(settings: Settings) -> tuple[Pause, ...]:
    """Return the pauses in Redis and in the file of this machine."""
    everywhere = _shared(settings, lambda pauses: pauses.read())
    return tuple({item.target: item for item in (*pauses_of(settings).read(), *everywhere)}.values())


def _shared(
    settings: Settings, ask: Callable[[SharedPauses], Coroutine[object, object, tuple[Pause, ...]]]
) -> tuple[Pause, ...]:
    """Return the answer of `ask` about the pauses in Redis; empty if there is no Redis. Raises `StateError`."""

    async def asked() -> tuple[Pause, ...]:
        pauses = shared_pauses(settings, SystemClock())
        if pauses is None:
            return ()
        try:
            return await ask(pauses)
        finally:
            await pauses.close()

    return asyncio.run(asked())


def _check(given: Pause, config_path: str) -> None:
    """Check that the paused thing exists, to catch typing errors. A project that cannot be loaded now can still be paused."""
    try:
        gateway = Gateway.load(config_path)
    except ToolgenError as error:
        click.echo(f"warning: the names were not checked, because the project cannot be loaded: {error}", err=True)
        return
    check(given, gateway.callers, gateway.manifest)


def _record(settings: Settings, event: str, changed: Sequence[Pause]) -> None:
    async def write() -> None:
        log = AuditLog(settings.audit_dir, SystemClock(), settings.audit.plan)
        log.open()
        try:
            for item in changed:
                await log.append(entry_of(event, item, by=operator(), client="toolgen-cli"))
        finally:
            await log.close()

    asyncio.run(write())


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
