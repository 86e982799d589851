"""Options of the commands that read the audit log: filters for calls, the log, and its index."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from toolgen.audit.index.database import SqliteDatabase
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.index.row import STATUSES, VERDICTS, RecordFilter
from toolgen.cli.audit_times import Zone, between_option, since_option, tz_option, until_option
from toolgen.cli.output import printable
from toolgen.cli.progress import counted
from toolgen.config.settings import load as load_settings
from toolgen.gateway.audit.reader import index_of

__all__ = ["dir_option", "filled", "filters", "opened"]


F = TypeVar("F", bound=Callable[..., Any])
dir_option = click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory of another audit log; it is indexed for this command only.",
)
_OPTIONS = (
    tz_option,
    since_option,
    until_option,
    between_option,
    click.option("--principal", default="", help="Principal that made the call."),
    click.option("--for", "on_behalf_of", default="", metavar="USER", help="User that the call was made for."),
    click.option("--tool", default="", metavar="NAME|GLOB", help="Tool name or pattern: shop__query, or 'shop__*'."),
    click.option("--verdict", type=click.Choice(["", *VERDICTS]), default="", help="Verdict of the policy."),
    click.option("--rule", default="", help="Rule that decided."),
    click.option("--status", type=click.Choice(["", *STATUSES]), default="", help="Status of the call."),
    click.option("--code", default="", help="Error code: forbidden, upstream_timeout, …"),
    click.option("--session", default="", help="Conversation of the call."),
    click.option("--call", "call_id", default="", metavar="ID", help="Call id."),
    click.option("--text", default="", help="Text in an entry, ignoring case; searched without an index."),
)


def filters(function: F) -> F:
    """Add the filter options; the command gets them as one `wanted`."""

    def command(*arguments: Any, zone: Zone, between: tuple[int, int] | None, **given: Any) -> Any:
        if between is not None:
            if given["since"] is not None or given["until"] is not None:
                raise click.UsageError("--between replaces --since and --until: use only one of both ways")
            given["since"], given["until"] = between
        names = ("since", "until", "principal", "on_behalf_of", "tool", "verdict", "rule", "status", "code", "session")
        wanted = RecordFilter(**{name: given.pop(name) for name in (*names, "call_id", "text")})
        return function(*arguments, wanted=wanted, **given)

    command.__doc__ = function.__doc__
    command.__name__ = function.__name__
    command.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]


def opened(directory: Path | None, config_path: str) -> RecordIndex:
    """Open the index of the project's log, or of another directory's, without filling it."""
    if directory is not None:
        return RecordIndex(SqliteDatabase(None), directory)
    return index_of(load_settings(config_path))


@contextmanager
def filled(directory: Path | None, config_path: str) -> Iterator[RecordIndex]:
    """Open the index and update it. Reasons why it is incomplete go to standard error, and make the exit code 1."""
    with opened(directory, config_path) as index:
        with counted("entries indexed") as step:
            faults = index.fill(step).faults
        for fault in faults:
            click.echo(f"toolgen: {printable(fault)}", err=True)
        yield index
    if faults:
        sys.exit(1)
