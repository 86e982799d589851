"""The `toolgen` command: finds the subcommand, and turns our errors into one sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from toolgen import __version__
from toolgen.core_dumps import forbid_core_dumps
from toolgen.errors import ToolgenError

__all__ = ["main"]

_COMMANDS = {
    "approvals": "toolgen.cli.approvals",
    "audit": "toolgen.cli.audit",
    "build": "toolgen.cli.build",
    "call": "toolgen.cli.call",
    "diff": "toolgen.cli.diff",
    "doctor": "toolgen.cli.doctor",
    "init": "toolgen.cli.init",
    "keys": "toolgen.cli.keys",
    "lint": "toolgen.cli.lint",
    "mock": "toolgen.cli.mock",
    "pause": "toolgen.cli.pause",
    "policy": "toolgen.cli.policy",
    "resume": "toolgen.cli.pause",
    "serve": "toolgen.cli.serve",
    "sql": "toolgen.cli.sql",
    "tools": "toolgen.cli.tools",
    "verify": "toolgen.cli.verify",
}


class _Commands(click.Group):
    """Imports a command's module only when that command is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(_COMMANDS[name]).command
        return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="toolgen")
def cli() -> None:
    """Turn API descriptions into tools for LLM agents, and govern every call to them."""


def main(arguments: Sequence[str] | None = None) -> Any:
    """Runs the command line. Exits 0 when all is well, 1 when a problem was found, 2 when it was misused."""
    if arguments is None:  # this is the program, and no test of it
        forbid_core_dumps()
    try:
        return cli.main(args=arguments, prog_name="toolgen")
    except ToolgenError as error:
        click.echo(f"toolgen: {error}", err=True)
    except (
        OSError
    ) as error:  # what no command expected of the machine: a full disk, a closed pipe, a folder nobody may read
        place = f"{error.filename}: " if isinstance(error.filename, str) else ""
        click.echo(f"toolgen: {place}{error.strerror or type(error).__name__}", err=True)
    sys.exit(1)
