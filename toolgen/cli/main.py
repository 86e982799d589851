"""The `toolgen` command: finds the subcommand, and turns our errors into one sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from toolgen import __version__
from toolgen.cli.lazy import LazyCommand
from toolgen.core_dumps import forbid_core_dumps
from toolgen.errors import ToolgenError

__all__ = ["main"]

_COMMANDS = (
    LazyCommand("approvals", "toolgen.cli.approvals", "List calls that wait for approval, and approve or deny them."),
    LazyCommand("audit", "toolgen.cli.audit", "Read and verify the audit log of every call."),
    LazyCommand("build", "toolgen.cli.build", "Build tools from descriptions."),
    LazyCommand(
        "call",
        "toolgen.cli.call",
        "Call TOOL.",
    ),
    LazyCommand(
        "diff", "toolgen.cli.diff", "Say what changed from OLD to NEW, tool by tool; exit 1 when something breaks."
    ),
    LazyCommand(
        "doctor",
        "toolgen.cli.doctor",
        "Try what must not be possible, and hold every database's account against the policy.",
    ),
    LazyCommand(
        "init",
        "toolgen.cli.init",
        "Make a working project in DIR: toolgen.yaml, specs/ and policies/, with one principal and its key.",
    ),
    LazyCommand(
        "keys",
        "toolgen.cli.keys",
        "Give out API keys, list them, and revoke keys, tokens and client certificates.",
    ),
    LazyCommand("lint", "toolgen.cli.lint", "Report what makes descriptions poor or unsafe for agents."),
    LazyCommand(
        "mock",
        "toolgen.cli.mock",
        "Serve the OpenAPI description SPEC, or that of a SOURCE of toolgen.yaml, without the system it describes.",
    ),
    LazyCommand(
        "pause",
        "toolgen.cli.pause",
        "Refuse calls from now on, in every process of the project; without an option, list what is paused.",
    ),
    LazyCommand("policy", "toolgen.cli.policy", "Check, explain, rehearse and extend the policy."),
    LazyCommand(
        "resume",
        "toolgen.cli.pause",
        "Take calls again: those of one pause, or without an option all.",
        attribute="resume",
    ),
    LazyCommand(
        "serve",
        "toolgen.cli.serve",
        "Serve the project's tools over MCP (/mcp) and REST (/v1).",
    ),
    LazyCommand("sql", "toolgen.cli.sql", "Ask the SQL guard."),
    LazyCommand(
        "tools",
        "toolgen.cli.tools",
        "List tools, or search them.",
    ),
    LazyCommand("verify", "toolgen.cli.verify", "Prove tools against their descriptions; nothing is sent."),
)


@click.group(commands=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
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
