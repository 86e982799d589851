"""Command `toolgen audit keys`: keys that sign checkpoints of the audit log."""

from __future__ import annotations

from pathlib import Path

import click

from toolgen.audit.keys import PRIVATE, make_key, public_keys, signing_key
from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table
from toolgen.config.settings import load as load_settings

__all__ = ["keys"]


@click.group("keys", cls=CommandGroup)
def keys() -> None:
    """Make and list the keys that sign checkpoints of the log."""


@keys.command("new")
@as_json
@config
def new(as_json: bool, config_path: str) -> None:
    """Make a new key. The private key signs from the next checkpoint on; the former private key is deleted, its public key stays.

    Give the public file to those who verify the log, and keep a copy where nobody who can write the log can write.
    """
    private, directory = _places(config_path)
    identifier, public = make_key(private, directory)
    if as_json:
        print_json({"key": identifier, "public": str(public), "private": str(private)})
    else:
        click.echo(f"key {identifier}\npublic  {public}\nprivate {private} (readable only by its owner)")


@keys.command("list")
@as_json
@config
def list_keys(as_json: bool, config_path: str) -> None:
    """List the public keys beside the log, and the one that signs."""
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
