"""Renamed operations in a build, by toolgen.lock, and, with --rename, the effect on the project's policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from toolgen.connectors.assigned_names import Assignments
from toolgen.core.errors import PolicyError
from toolgen.core.yaml_file import YamlDocument, parse_bytes
from toolgen.policy.document.policy_files import read_files

__all__ = ["Renaming", "new_words", "policy_documents", "print_renames", "renames"]

_SHOWN = 5
Names = Mapping[str, Assignments]
"""Names of the tools of each source."""


class Renaming(Struct, frozen=True, kw_only=True):
    """Operation that exists before and after a build, with its old and new name."""

    source: str
    identity: str
    old: str
    new: str


def new_words(old: Names, new: Names) -> tuple[str, ...]:
    """Return a sentence for each operation that was renamed in its description, and whose tool keeps its name."""
    said = []
    for source, names in new.items():
        before = old.get(source, {})
        for identity, one in names.items():
            was = before.get(identity)
            if was is not None and was.word and one.digest and one.word != was.word and one.name == was.name:
                now = f"{one.word} now" if one.word else "without a name now"
                said.append(f"{source}: {identity} was {was.word} and is {now}; its tool is still {one.name}")
    return tuple(said)


def renames(old: Names, new: Names) -> tuple[Renaming, ...]:
    """Return the operations whose tools have other names after names were assigned again."""
    return tuple(
        Renaming(source=source, identity=identity, old=before.name, new=names[identity].name)
        for source, names in sorted(new.items())
        for identity, before in sorted(old.get(source, {}).items())
        if identity in names and names[identity].name != before.name
    )


def print_renames(found: Iterable[Renaming], old: Names, new: Names, documents: Iterable[YamlDocument]) -> None:
    """Print renamed tools, names that moved to other operations, and the lines of policies and toolgen.yaml that mean other tools now."""
    listed = tuple(found)
    before = {one.name: f"{source}: {identity}" for source, names in old.items() for identity, one in names.items()}
    for one in listed:
        click.echo(f"renamed {one.old} to {one.new} ({one.identity})", err=True)
    for source, names in sorted(new.items()):
        for identity, given in sorted(names.items()):
            place = f"{source}: {identity}"
            if given.name in before and before[given.name] != place:
                click.echo(f"{given.name} was the tool of {before[given.name]}, and is that of {place}", err=True)
    after = {one.name: f"{source}: {identity}" for source, names in new.items() for identity, one in names.items()}
    for document in documents:
        for where, pattern, lost, gained in _changed(document, before, after):
            told = []
            if lost:
                told.append(f"no longer means {_short(lost)}")
            if gained:
                told.append(f"now means {_short(gained)}")
            click.echo(f"{where}: {pattern[:100]} {' and '.join(told)}", err=True)
    if not listed:
        click.echo("no tool has another name", err=True)


def policy_documents(directory: Path) -> list[YamlDocument]:
    """Return the files of a policy directory, as far as they can be read."""
    try:
        files = read_files(directory)
        return [
            parse_bytes(content, f"{files.directory}/{name}", PolicyError)
            for name, content in sorted(files.contents.items())
        ]
    except PolicyError as error:
        click.echo(f"warning: {error}; its lines about tools are not listed", err=True)
        return []


def _changed(
    document: YamlDocument, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Yield texts of a document that are a tool's name, or a glob for tools, and mean other tools than before: place, text, lost,
    gained."""
    moved = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    for path, text in _texts((), document.data):
        names = [name for name in moved if fnmatchcase(name, text)]
        was = {before[name]: name for name in names if name in before}
        now = {after[name]: name for name in names if name in after}
        lost = sorted(f"{was[place]} ({place})" for place in was.keys() - now.keys())
        gained = sorted(f"{now[place]} ({place})" for place in now.keys() - was.keys())
        if lost or gained:
            yield document.where(*path), text, lost, gained


def _texts(path: tuple[str | int, ...], value: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the keys and values of a document that may mean tools: a name has two underscores, and a glob a star."""
    if isinstance(value, str):
        if "__" in value or (value.endswith("*") and value != "*" and " " not in value):
            yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str) and "__" in key:
                yield (*path, key), key
            yield from _texts((*path, key), item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts((*path, index), item)


def _short(places: list[str]) -> str:
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more
