"""Command `toolgen diff`: changes between two manifests, and whether they are compatible."""

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
from toolgen.generator.emit.diff_groups import grouped_lines
from toolgen.generator.emit.writer import MANIFEST
from toolgen.model.manifest import Manifest
from toolgen.model.manifest import load as load_manifest

__all__ = ["MAX_LINES", "command", "print_difference"]

MAX_LINES = 40
"""Maximum lines of a difference, including the line of counts."""

_SECONDS = 60


@click.command()
@click.argument("old")
@click.argument("new")
@click.option("--all", "whole", is_flag=True, help="List every change of every tool.")
@as_json
def command(old: str, new: str, whole: bool, as_json: bool) -> None:
    """List the changes from OLD to NEW, breaking changes first; exit 1 if there is a breaking change.

    Each is a manifest.json, a generated/ folder, or one of those in a git revision: HEAD:generated. Equal changes of several tools are one
    line, and no more than 40 lines are shown, unless --all.
    """
    difference = compare(_manifest(old), _manifest(new))
    if as_json:
        print_json(difference.to_dict())
    else:
        print_difference(difference, whole=whole)
    if difference.breaking:
        sys.exit(1)


def print_difference(difference: ManifestDiff, *, err: bool = False, whole: bool = False) -> None:
    """Print the changes and a line with the counts; on standard error if the command prints another result.

    Equal changes are one line, and the first 40 lines are printed, unless the `whole` difference is asked for.
    """
    told = sorted(lines(difference), key=_is_compatible) if whole else list(grouped_lines(difference))
    shown = told if whole or len(told) < MAX_LINES else told[: MAX_LINES - 2]
    for line in shown:
        click.echo(line, err=err)
    if len(shown) < len(told):
        click.echo(
            f"… and {len(told) - len(shown)} lines more; `toolgen diff OLD NEW --all` lists every change", err=err
        )
    if difference.breaking or difference.compatible:
        click.echo(f"{difference.breaking} breaking, {difference.compatible} compatible", err=err)
    else:
        click.echo("no tool changed", err=err)


def _is_compatible(line: str) -> bool:
    return not line.startswith("breaking")


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
    """Return the bytes of a manifest in a revision; paths are relative to this folder, like all other arguments."""
    git = shutil.which("git")
    if git is None:
        raise ManifestError("is a git revision, but git is not installed", where=given)
    base = f"./{below}".rstrip("/")
    for path in (base, f"{base}/{MANIFEST}"):
        name = f"{revision}:{path}"
        if name.startswith("-"):  # git would treat it as an option
            break
        ended = subprocess.run(  # noqa: S603 - no shell, and the one argument is held to be an object's name
            [git, "cat-file", "blob", name], capture_output=True, check=False, timeout=_SECONDS
        )
        if ended.returncode == 0:
            return ended.stdout
    kept = "if generated/ is not under version control, copy it before `toolgen build`, or use `git diff toolgen.lock`"
    raise ManifestError("is not a manifest in git", where=given, suggestion=kept)
