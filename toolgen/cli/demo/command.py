"""Command `toolgen demo`: real calls, one of each kind. Every line is an actual result; an unexpected result ends it with 1."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import click

from toolgen.audit.index.row import RecordFilter
from toolgen.audit.verify import verify
from toolgen.cli.audit_filters import filled
from toolgen.cli.audit_list import print_calls, short_ids
from toolgen.cli.build import build_project
from toolgen.cli.demo.services import HIDDEN, Shop, shop
from toolgen.cli.demo.story import DemoFailure, tell
from toolgen.cli.greeting import source_lines
from toolgen.core.errors import ToolgenError
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.http import serve


@click.command()
@click.option(
    "--stay/--no-stay", default=None, help="Keep serving at the end, for the console (default: on a terminal)."
)
def command(stay: bool | None) -> None:
    """Play a small shop, its gateway and an agent that is not always well-behaved, on this machine only.

    A REST service, a GraphQL service and, where the extra `sql` is installed, a database; reads, a DELETE hidden in SQL, a call too many,
    an approval, a workflow from an issue to its fix, a description that changed, and the record of exactly these calls, verified.
    Everything is in a folder that is removed at the end. Exits 1 when something did not go as it must.
    """
    began = time.perf_counter()
    stays = sys.stdout.isatty() if stay is None else stay
    with tempfile.TemporaryDirectory(prefix="toolgen-demo-") as folder, shop(Path(folder)) as made:
        with contextlib.redirect_stderr(io.StringIO()) as told:
            complete = build_project(made.config)
        click.echo(told.getvalue(), nl=False)
        if not complete:
            raise SystemExit(1)
        if not made.has_sql:
            click.echo(
                'the database and the workflow are left out: install what reads SQL with: pip install "toolgen[sql]"'
            )
        gateway = Gateway.load(made.config)
        for line in source_lines(gateway):
            click.echo(f"built {line}")
        played = _Play(made, stays=stays, began=began)
        serve(gateway, port=0, ready=played.begin)
        sys.exit(0 if played.fine else 1)


class _Play:
    """Demo story in a thread beside the gateway, which serves in the main thread; the gateway ends with the story."""

    def __init__(self, made: Shop, *, stays: bool, began: float) -> None:
        self._shop = made
        self._stays = stays
        self._began = began
        self.fine = False

    def begin(self, url: str) -> None:
        """Start the story when the gateway accepts connections."""
        click.echo(f"the gateway listens on {url}")
        threading.Thread(target=self._run, args=(url,), name="toolgen-demo", daemon=True).start()

    def _run(self, url: str) -> None:
        try:
            made = tell(url, self._shop.keys, click.echo, has_sql=self._shop.has_sql)
            _changed(self._shop)
            _review(self._shop, made)
            click.echo(f"\nthe console: {url}/console   key of the lead: {self._shop.keys['lead']}")
            self.fine = True
            click.echo(f"done in {time.perf_counter() - self._began:.1f} s")
        except (DemoFailure, ToolgenError, OSError, ValueError, KeyError) as error:
            click.echo(f"\nthe demo failed: {error}", err=True)
        if self._stays and self.fine:
            click.echo("Ctrl-C ends it and removes its folder")
        else:
            signal.raise_signal(signal.SIGTERM)  # not os.kill, which on Windows ends a process at once


def _changed(made: Shop) -> None:
    """Change a tool of the REST service: a build prints the change with its hidden text, and is refused."""
    made.tamper()
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        try:
            accepted = build_project(made.config)
        except ToolgenError as error:
            accepted = False
            told.write(f"refused: {error}\n")
    click.echo("\n> a service adds an invisible sentence to a description, and the tools are built again")
    for line in told.getvalue().splitlines():
        click.echo(f"  {line}")
    click.echo(f"  hidden in it: {HIDDEN!r}")
    if accepted:
        raise DemoFailure("a description that changed was accepted")


def _review(made: Shop, calls: Sequence[tuple[str, str]]) -> None:
    """Compare the audit log with the calls that were made, and verify it."""
    click.echo(f"\nthe record of these {len(calls)} calls:")
    with filled(None, made.config) as index:
        rows = index.calls(RecordFilter(), limit=100).rows[::-1]
        ids = short_ids(index, rows)
    print_calls(rows, ids)
    recorded = [(str(row["tool"]), str(row.get("code") or row["status"])) for row in rows]
    if recorded != list(calls):
        raise DemoFailure(f"the record has {recorded}, the calls were {list(calls)}")
    report = verify(made.folder / "var" / "audit")
    click.echo(f"verified: {report.entries} entries, {'intact' if report.ok else 'BROKEN'}")
    if not report.ok:
        raise DemoFailure("the record does not verify")
