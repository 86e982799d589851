"""Command `toolgen`: it finds the subcommand, and prints errors as one sentence with an exit code."""

from __future__ import annotations

import codecs
import difflib
import json
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Any

import click

from toolgen import __version__
from toolgen.cli.lazy import CommandGroup, LazyCommand
from toolgen.core.core_dumps import forbid_core_dumps
from toolgen.core.errors import ToolgenError

__all__ = ["EXIT_CODES", "main"]

EXIT_CODES = {
    0: "Success: no problem was found.",
    1: "Failure: a call that did not succeed, a check that found a problem, a file that cannot be used.",
    2: "Misuse: a command, an option or an argument is unknown, missing or invalid. Nothing was done.",
}
"""Exit codes of all commands, as in docs/reference/cli.md."""

_ASKED = "toolgen.cli.json"

_COMMANDS = (
    LazyCommand(
        "accounts",
        "toolgen.cli.accounts",
        "List, link and unlink the accounts of people at the systems that agents call.",
    ),
    LazyCommand("approvals", "toolgen.cli.approvals", "List calls that wait for approval, and approve or deny them."),
    LazyCommand("audit", "toolgen.cli.audit", "Read and verify the audit log of every call."),
    LazyCommand("build", "toolgen.cli.build", "Build tools from descriptions."),
    LazyCommand(
        "call",
        "toolgen.cli.call",
        "Call TOOL.",
    ),
    LazyCommand(
        "backup", "toolgen.cli.backup", "Back up the audit log and the state into DIR, also while the gateway runs."
    ),
    LazyCommand("completion", "toolgen.cli.completion", "Print the script that completes commands in a shell."),
    LazyCommand(
        "config",
        "toolgen.cli.config",
        "Show the settings in force, and JSON Schemas of toolgen.yaml and policies.",
    ),
    LazyCommand(
        "demo",
        "toolgen.cli.demo.command",
        "Play a small shop, its gateway and an agent that is not always well-behaved, on this machine only.",
    ),
    LazyCommand(
        "diff",
        "toolgen.cli.diff",
        "List the changes from OLD to NEW, breaking changes first; exit 1 if there is a breaking change.",
    ),
    LazyCommand(
        "doctor",
        "toolgen.cli.doctor",
        "Test that forbidden actions fail, and compare the account of every database with the policy.",
    ),
    LazyCommand(
        "grant",
        "toolgen.cli.grant",
        "Give ROLE to a principal for some time, or request one that needs two people; `toolgen grants` lists and revokes.",
    ),
    LazyCommand("grants", "toolgen.cli.grants", "List standing approvals and temporary roles, and revoke them."),
    LazyCommand(
        "init",
        "toolgen.cli.init",
        "Make a project: toolgen.yaml, a policy that allows reads, and a key.",
    ),
    LazyCommand("install", "toolgen.cli.install", "Add the gateway to the servers of an MCP client."),
    LazyCommand(
        "keys",
        "toolgen.cli.keys",
        "Create, list and revoke API keys, and revoke tokens and client certificates.",
    ),
    LazyCommand("lint", "toolgen.cli.lint", "Report faults that make descriptions poor or unsafe for agents."),
    LazyCommand(
        "mock",
        "toolgen.cli.mock",
        "Serve the OpenAPI description SPEC, or that of a SOURCE of toolgen.yaml, without the system it describes.",
    ),
    LazyCommand(
        "notify",
        "toolgen.cli.notify",
        "List messages that wait for delivery to webhooks, and those that could not be delivered.",
    ),
    LazyCommand(
        "pause",
        "toolgen.cli.pause",
        "Refuse calls from now on, in every process of the project; without an option, list the pauses.",
    ),
    LazyCommand("policy", "toolgen.cli.policy", "Check, explain, replay and extend the policy."),
    LazyCommand("registry", "toolgen.cli.registry", "Describe the gateway for the MCP registry."),
    LazyCommand(
        "restore",
        "toolgen.cli.backup",
        "Restore the backup in DIR to the project's audit log and state, and verify it.",
        attribute="restore_command",
    ),
    LazyCommand(
        "resume",
        "toolgen.cli.pause",
        "Accept calls again: end one pause, or without an option all of them.",
        attribute="resume",
    ),
    LazyCommand(
        "serve",
        "toolgen.cli.serve",
        "Serve the project's tools over MCP (/mcp) and REST (/v1).",
    ),
    LazyCommand(
        "sign-ins",
        "toolgen.cli.sign_ins",
        "List and revoke the sign-ins of people and clients through the gateway, and remove clients.",
    ),
    LazyCommand("sql", "toolgen.cli.sql", "Check statements with the SQL guard."),
    LazyCommand(
        "tools",
        "toolgen.cli.tools",
        "List tools, or search them.",
    ),
    LazyCommand("up", "toolgen.cli.up", "Build the project and serve it, with a key that is valid while it runs."),
    LazyCommand("verify", "toolgen.cli.verify", "Prove tools against their descriptions; nothing is sent."),
    LazyCommand("workflow", "toolgen.cli.workflow", "Draw workflows."),
)


class _Commands(CommandGroup):
    """Group of all commands. With --json, misuse is also reported as JSON; an unknown command is reported with the most similar one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = args[: args.index("--")] if "--" in args else args
        ctx.meta[_ASKED] = "--json" in options
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            self._told(ctx, error)
            raise

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            self._told(ctx, error)
            raise

    def _told(self, ctx: click.Context, error: click.UsageError) -> None:
        command = error.ctx.command if error.ctx is not None else self
        has_json = any(option.name == "as_json" for option in command.params)
        if ctx.meta[_ASKED] and (has_json or isinstance(command, click.Group)):
            click.echo(json.dumps({"error": {"code": "usage", "message": error.format_message()}}, indent=2))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = difflib.get_close_matches(args[0], self.commands, n=1)
            if not close:
                raise
            raise click.UsageError(f"{error.message} Did you mean '{close[0]}'?", ctx) from error


@click.group(cls=_Commands, commands=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="toolgen")
def cli() -> None:
    """Turn API descriptions into tools for LLM agents, and govern every call to them."""


def _write_every_character() -> None:
    """Write UTF-8 into pipes and files, and escapes for characters that a terminal cannot show: the encoding of Windows (cp1252) has
    few."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and codecs.lookup(stream.encoding).name != "utf-8":
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> Any:
    """Run the command line. Exits 0 on success, 1 if a problem was found, 2 on misuse."""
    if arguments is None:  # this is the program, not a test of it
        forbid_core_dumps()
        _write_every_character()
    try:
        return cli.main(args=arguments, prog_name="toolgen")
    except ToolgenError as error:
        click.echo(f"toolgen: {error}", err=True)
    except (
        OSError
    ) as error:  # errors of the machine that no command expects: a full disk, a closed pipe, an unreadable folder
        place = f"{error.filename}: " if isinstance(error.filename, str) else ""
        click.echo(f"toolgen: {place}{error.strerror or type(error).__name__}", err=True)
    sys.exit(1)
