"""Commands `toolgen backup` and `toolgen restore`: the audit log and the state of a project."""

from __future__ import annotations

from pathlib import Path

import click

from toolgen.audit.verify import VerificationReport
from toolgen.cli.options import config
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.gateway.state.backup import BackupContents, back_up, restore

_folder = click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))


@click.command()
@_folder
@config
def command(folder: Path, config_path: str) -> None:
    """Back up the audit log and the state into DIR, also while the gateway runs.

    DIR must be empty or missing. Private keys are listed but not copied: keep them with your other secrets.
    """
    settings = load_settings(config_path)
    kept, report = back_up(settings, folder)
    click.echo(f"{folder}: {_counted(kept)}, {len(kept.files)} files")
    for key in kept.keys:
        click.echo(f"not in the backup: {settings.audit_dir / key.file}; keep this key separately")
    _say_where_redis_is(settings)
    _judge(report)


@click.command()
@_folder
@config
def restore_command(folder: Path, config_path: str) -> None:
    """Restore the backup in DIR to the project's audit log and state, and verify it.

    The destination must be empty, except for private keys, or an audit log that continues that of the backup: it is kept. No gateway may
    run. Calls that the log shows as executed or closed do not wait again.
    """
    settings = load_settings(config_path)
    restored = restore(settings, folder)
    kept, report = restored.kept, restored.report
    if restored.record_in_place:
        click.echo(
            f"restored from {kept.time}: the state; the existing audit log continues that of the backup and is kept"
        )
    else:
        click.echo(f"restored from {kept.time}: {_counted(kept)}")
    if restored.ended_calls:
        click.echo(f"{restored.ended_calls} calls that waited in the backup are over, as the audit log shows")
    for name in restored.missing_keys:
        click.echo(f"put this key there before the gateway starts: {settings.audit_dir / name}", err=True)
    _say_where_redis_is(settings)
    _judge(report)


def _counted(kept: BackupContents) -> str:
    return f"{kept.entries} entries in {kept.streams} stream{'' if kept.streams == 1 else 's'}"


def _say_where_redis_is(settings: Settings) -> None:
    if settings.state is not None:
        click.echo("warning: what is in Redis (waiting calls, counts) is backed up by Redis itself", err=True)


def _judge(report: VerificationReport) -> None:
    for fault in report.faults:
        click.echo(f"toolgen: {fault.to_dict()}", err=True)
    if not report.ok:
        raise SystemExit(1)
    click.echo("verified: run `toolgen audit verify` whenever you like")
