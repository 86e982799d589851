"""What `--help` says of every command: whole sentences, within 80 columns, of every command there is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from toolgen.cli.lazy import LazyCommand
from toolgen.cli.main import cli


def commands(found: click.Command, path: tuple[str, ...] = ("toolgen",)) -> Iterator[tuple[str, click.Command]]:
    if isinstance(found, LazyCommand):
        found = found.load()
    yield " ".join(path), found
    if isinstance(found, click.Group):
        for name, inner in sorted(found.commands.items()):
            yield from commands(inner, (*path, name))


COMMANDS = dict(commands(cli))


def shown(name: str) -> list[str]:
    command = COMMANDS[name]
    context = click.Context(command, info_name=name, terminal_width=80, max_content_width=80)
    return command.get_help(context).splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns_and_is_never_cut(name: str) -> None:
    lines = shown(name)
    assert [line for line in lines if len(line) > 80] == []
    bare = [re.sub(r"\]?\.\.\.", "", line) if line.startswith("Usage:") or "[ARGS]" in line else line for line in lines]
    assert [line for line in bare if "..." in line] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_list_has_the_first_sentence_of_each_command(name: str) -> None:
    command = COMMANDS[name]
    if isinstance(command, click.Group):
        told = " ".join(" ".join(shown(name)).split())
        for inner in command.commands:
            sentence = " ".join((COMMANDS[f"{name} {inner}"].help or "").split("\n\n")[0].split())
            first = re.split(r"(?<=\.) (?=[A-Z])", sentence)[0].removesuffix(".")
            assert f"{inner} {first}" in told, inner
