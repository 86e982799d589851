"""`toolgen audit index`: fills the index, makes it anew, holds it against the log."""

from __future__ import annotations

import sys
import time

import click

from toolgen.audit.index import Index
from toolgen.audit.index_sqlite import remove
from toolgen.cli.audit_filter import opened
from toolgen.cli.options import config
from toolgen.cli.output import printable
from toolgen.cli.progress import counted
from toolgen.errors import AuditError
from toolgen.gateway.project import index_file
from toolgen.settings import load as load_settings

__all__ = ["index"]

_LOOK_S = 1.0


@click.command("index")
@click.option("--rebuild", "way", flag_value="rebuild", help="Make it anew from the log.")
@click.option("--check", "way", flag_value="check", help="Hold all of it against the log; exit 1 when they differ.")
@click.option(
    "--follow", "way", flag_value="follow", help="Go on with what is recorded from now on, until interrupted."
)
@config
def index(way: str | None, config_path: str) -> None:
    """Bring the index of the log up to date. Every command that reads it does so itself; this is for what follows a log all the time."""
    with _index(config_path, anew=way == "rebuild") as found:
        with counted("entries") as step:
            filled = found.rebuild(step) if way == "rebuild" else found.fill(step)
        faults = filled.faults
        if way == "check":
            with counted("entries") as step:
                faults = [*faults, *found.check(step)]
        entries, calls = found.count()
        click.echo(f"{filled.entries} new entries; {entries} entries of {calls} calls are indexed")
        for fault in faults:
            click.echo(printable(fault), err=way != "check")
        if way == "follow":
            _follow(found)
    sys.exit(1 if faults else 0)


def _index(config_path: str, *, anew: bool) -> Index:
    """A file that is no index cannot be opened; made anew, it need not be."""
    try:
        return opened(None, config_path)
    except AuditError:
        settings = load_settings(config_path)
        if not anew or settings.audit.index is not None:
            raise
        remove(index_file(settings))
        return opened(None, config_path)


def _follow(found: Index) -> None:
    told: set[str] = set()
    try:
        while True:
            time.sleep(_LOOK_S)
            try:
                faults = found.fill().faults
            except AuditError as error:
                faults = [str(error)]
            for fault in faults:
                if fault not in told:
                    told.add(fault)
                    click.echo(f"toolgen: {printable(fault)}", err=True)
    except KeyboardInterrupt:
        return
