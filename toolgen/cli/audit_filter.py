"""The options that say which calls: shared by every view of the record."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from toolgen.audit.index import Index
from toolgen.audit.index_filter import STATUSES, VERDICTS, Filter
from toolgen.audit.index_sqlite import SqliteDatabase
from toolgen.cli.output import printable
from toolgen.cli.progress import counted
from toolgen.clock import SystemClock
from toolgen.gateway.project import index_of
from toolgen.settings import load as load_settings

__all__ = ["dir_option", "filled", "filters", "opened"]

F = TypeVar("F", bound=Callable[..., Any])
_AGE = re.compile(r"(\d{1,9})(s|m|h|d)\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

dir_option = click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Another log's directory; it is indexed for this command alone.",
)


def _moment(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """An age (30m, 7d), a date or a time; without a zone it is UTC. Microseconds since the epoch."""
    if text is None:
        return None
    if found := _AGE.match(text):
        return int((SystemClock().now() - int(found[1]) * _SECONDS[found[2]]) * 1e6)
    try:
        moment = datetime.fromisoformat(text)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e6)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            "is no moment like 30m, 7d, 2026-01-31 or 2026-01-31T12:00:00Z", ctx=context, param=parameter
        ) from None


_OPTIONS = (
    click.option(
        "--since", callback=_moment, metavar="WHEN", help="From then on: 30m or 7d ago, 2026-01-31, or a time (UTC)."
    ),
    click.option("--until", callback=_moment, metavar="WHEN", help="Before then."),
    click.option("--principal", default="", help="Whose calls."),
    click.option("--for", "on_behalf_of", default="", metavar="USER", help="Whom they were made for."),
    click.option("--tool", default="", metavar="NAME|GLOB", help="Of which tools: shop__query, or 'shop__*'."),
    click.option("--verdict", type=click.Choice(["", *VERDICTS]), default="", help="How the policy decided."),
    click.option("--rule", default="", help="Which rule spoke."),
    click.option("--status", type=click.Choice(["", *STATUSES]), default="", help="How they ended."),
    click.option("--code", default="", help="With which code: forbidden, upstream_timeout, …"),
    click.option("--session", default="", help="Of which conversation."),
    click.option("--call", "call_id", default="", metavar="ID", help="That one call."),
    click.option("--text", default="", help="With this in an entry, letter case aside; searched without an index."),
)


def filters(function: F) -> F:
    """The options, given to the command as one `wanted`."""

    def command(*arguments: Any, **given: Any) -> Any:
        names = ("since", "until", "principal", "on_behalf_of", "tool", "verdict", "rule", "status", "code", "session")
        wanted = Filter(**{name: given.pop(name) for name in (*names, "call_id", "text")})
        return function(*arguments, wanted=wanted, **given)

    command.__doc__ = function.__doc__
    command.__name__ = function.__name__
    command.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]


def opened(directory: Path | None, config_path: str) -> Index:
    """The index of the project's log, or of another directory's, not yet filled."""
    if directory is not None:
        return Index(SqliteDatabase(None), directory)
    return index_of(load_settings(config_path))


@contextmanager
def filled(directory: Path | None, config_path: str) -> Iterator[Index]:
    """The index, brought up to date. What keeps it from showing all there is goes to standard error, and makes the exit code 1."""
    with opened(directory, config_path) as index:
        with counted("entries indexed") as step:
            faults = index.fill(step).faults
        for fault in faults:
            click.echo(f"toolgen: {printable(fault)}", err=True)
        yield index
    if faults:
        sys.exit(1)
