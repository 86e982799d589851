"""`toolgen audit index`: fills the index, rebuilds it, holds it against the log.

`toolgen audit keys`: the key that checkpoints of the log are signed with.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import click

from toolgen.audit.index.database import remove
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.keys import PRIVATE, make_key, public_keys, signing_key
from toolgen.cli.audit_reports import opened
from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table, printable
from toolgen.cli.progress import counted
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import AuditError
from toolgen.gateway.audit.reader import index_file

__all__ = ["index", "keys"]

_LOOK_S = 1.0


@click.command("index")
@click.option("--rebuild", "way", flag_value="rebuild", help="Rebuild the index from the log.")
@click.option("--check", "way", flag_value="check", help="Hold all of it against the log; exit 1 when they differ.")
@click.option(
    "--follow", "way", flag_value="follow", help="Go on with what is recorded from now on, until interrupted."
)
@config
def index(way: str | None, config_path: str) -> None:
    """Bring the index of the log up to date. Every command that reads it does so itself; this is for what follows a log all the time."""
    with ExitStack() as held:
        found = held.enter_context(_index(config_path, rebuild=way == "rebuild"))
        with counted("entries") as step:
            filled = found.rebuild(step) if way == "rebuild" else found.fill(step)
        faults = filled.faults
        if way == "check":
            with counted("entries") as step:
                faults = [*faults, *found.check(step)]
        entries, calls = found.count()
        # What a running gateway takes over meanwhile is no less new: after a rebuild all that is there is.
        new = entries if way == "rebuild" else filled.entries
        click.echo(f"{new} new entries; {entries} entries of {calls} calls are indexed")
        for fault in faults:
            click.echo(printable(fault), err=way != "check")
        if way == "follow":
            held.close()
            _follow(config_path)
    sys.exit(1 if faults else 0)


def _index(config_path: str, *, rebuild: bool) -> RecordIndex:
    """A file that is no index cannot be opened; made again, it need not be."""
    try:
        return opened(None, config_path)
    except AuditError:
        settings = load_settings(config_path)
        if not rebuild or settings.audit.index is not None:
            raise
        remove(index_file(settings))
        return opened(None, config_path)


def _follow(config_path: str) -> None:
    """Once a second, until interrupted. What goes wrong is told once; a database that was lost is connected to again."""
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


@click.group("keys", cls=CommandGroup)
def keys() -> None:
    """Make and list the keys that checkpoints of the log are signed with."""


@keys.command("new")
@as_json
@config
def new(as_json: bool, config_path: str) -> None:
    """Make a new key. The private one signs from the next checkpoint on; one that was there before is gone, its public half stays.

    Give the public file to those who verify the log, and keep a copy where nobody who can write the log can write.
    """
    private, directory = _places(config_path)
    identifier, public = make_key(private, directory)
    if as_json:
        print_json({"key": identifier, "public": str(public), "private": str(private)})
    else:
        click.echo(f"key {identifier}\npublic  {public}\nprivate {private} (readable by its owner alone)")


@keys.command("list")
@as_json
@config
def list_keys(as_json: bool, config_path: str) -> None:
    """List the public keys beside the log, and which of them signs."""
    private, directory = _places(config_path)
    signing = signing_key(private)
    known = set(public_keys((), directory)) | ({signing.id} if signing else set())
    rows = [{"key": name, "signs": signing is not None and signing.id == name} for name in sorted(known)]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(("key", "signs"), [(row["key"], "yes" if row["signs"] else "no") for row in rows])
    else:
        click.echo("there is no key; `toolgen audit keys new` makes one")


def _places(config_path: str) -> tuple[Path, Path]:
    settings = load_settings(config_path)
    return settings.audit.plan.key or settings.audit_dir / PRIVATE, settings.audit_dir
