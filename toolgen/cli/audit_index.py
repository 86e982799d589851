"""`toolgen audit index`: updates, rebuilds or checks the index of the audit log."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

import click

from toolgen.audit.index.database import remove
from toolgen.audit.index.index import RecordIndex
from toolgen.cli.audit_filters import opened
from toolgen.cli.options import config
from toolgen.cli.output import printable
from toolgen.cli.progress import counted
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import AuditError
from toolgen.gateway.audit.reader import index_file

__all__ = ["index"]

_LOOK_S = 1.0


@click.command("index")
@click.option("--rebuild", "way", flag_value="rebuild", help="Rebuild the index from the log.")
@click.option("--check", "way", flag_value="check", help="Compare the index with the log; exit 1 if they differ.")
@click.option("--follow", "way", flag_value="follow", help="Continue with new entries, until interrupted.")
@config
def index(way: str | None, config_path: str) -> None:
    """Update the index of the log. Every command that reads it does so itself; this is for continuous updates."""
    with ExitStack() as held:
        found = held.enter_context(_index(config_path, rebuild=way == "rebuild"))
        with counted("entries") as step:
            filled = found.rebuild(step) if way == "rebuild" else found.fill(step)
        faults = filled.faults
        if way == "check":
            with counted("entries") as step:
                faults = [*faults, *found.check(step)]
        entries, calls = found.count()
        # Entries that a running gateway indexes meanwhile count as new: after a rebuild all entries are new.
        new = entries if way == "rebuild" else filled.entries
        click.echo(f"{new} new entries; {entries} entries of {calls} calls are indexed")
        for fault in faults:
            click.echo(printable(fault), err=way != "check")
        if way == "follow":
            held.close()
            _follow(config_path)
    sys.exit(1 if faults else 0)


def _index(config_path: str, *, rebuild: bool) -> RecordIndex:
    """Rebuild the index, or fill it. A file that is not an index cannot be opened, but can be rebuilt."""
    try:
        return opened(None, config_path)
    except AuditError:
        settings = load_settings(config_path)
        if not rebuild or settings.audit.index is not None:
            raise
        remove(index_file(settings))
        return opened(None, config_path)


def _follow(config_path: str) -> None:
    """Update once a second, until interrupted. An error is printed once; a lost database is connected to again."""
    told: set[str] = set()

    def tell(faults: Sequence[str]) -> None:
        for fault in faults:
            if fault not in told:
                told.add(fault)
                click.echo(f"toolgen: {printable(fault)}", err=True)

    with suppress(KeyboardInterrupt):
        while True:
            try:
                with opened(None, config_path) as found:
                    while True:
                        tell(found.fill().faults)
                        time.sleep(_LOOK_S)
            except AuditError as error:
                tell([str(error)])
            time.sleep(_LOOK_S)
