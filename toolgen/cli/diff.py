"""`toolgen diff`: what changed between two manifests, and whether it breaks anybody."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click

from toolgen.cli.options import as_json
from toolgen.cli.output import print_json
from toolgen.core.errors import ManifestError
from toolgen.generator.emit.diff import ManifestDiff, compare, lines
from toolgen.generator.emit.writer import MANIFEST
from toolgen.model.manifest import Manifest
from toolgen.model.manifest import load as load_manifest

__all__ = ["command", "print_difference"]

_SECONDS = 60


@click.command()
@click.argument("old")
@click.argument("new")
@as_json
def command(old: str, new: str, as_json: bool) -> None:
    """Say what changed from OLD to NEW, tool by tool; exit 1 when something breaks.

    Each is a manifest.json, a generated/ folder, or one of those in a git revision: HEAD:generated.
    """
    difference = compare(_manifest(old), _manifest(new))
    if as_json:
        print_json(difference.to_dict())
    else:
        print_difference(difference)
    if difference.breaking:
        sys.exit(1)


def print_difference(difference: ManifestDiff, *, err: bool = False) -> None:
    """Print a line for each change and a line with the counts; on standard error if the command prints another result."""
    for line in lines(difference):
        click.echo(line, err=err)
    if difference.breaking or difference.compatible:
        click.echo(f"{difference.breaking} breaking, {difference.compatible} compatible", err=err)
    else:
        click.echo("no tool changed", err=err)


def _manifest(given: str) -> Manifest:
    path = Path(given)
    revision, colon, below = given.partition(":")
    if colon and not path.exists():
        return load_manifest(_from_git(revision, below, given), where=given)
    if path.is_dir():
        path /= MANIFEST
    try:
        return load_manifest(path.read_bytes(), where=str(path))
    except OSError as error:
        message = (
            "there is no such file" if isinstance(error, FileNotFoundError) else f"cannot be read: {error.strerror}"
        )
        raise ManifestError(
            message, where=str(path), suggestion="name a manifest.json, a generated/ folder or REVISION:generated"
        ) from error


def _from_git(revision: str, below: str, given: str) -> bytes:
    """The bytes of a manifest as a revision has it; paths are relative to this folder, as they are for every other argument."""
    git = shutil.which("git")
    if git is None:
        raise ManifestError("names a git revision, and there is no git here", where=given)
    base = f"./{below}".rstrip("/")
    for path in (base, f"{base}/{MANIFEST}"):
        name = f"{revision}:{path}"
        if name.startswith("-"):  # git would take it for an option
            break
        ended = subprocess.run(  # noqa: S603 - no shell, and the one argument is held to be an object's name
            [git, "cat-file", "blob", name], capture_output=True, check=False, timeout=_SECONDS
        )
        if ended.returncode == 0:
            return ended.stdout
    raise ManifestError("is no manifest that git knows", where=given, suggestion="for example HEAD:generated")
