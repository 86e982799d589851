"""Command `toolgen tools`: the tools of a principal, or all tools."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import click

from toolgen.cli.caller_options import CommandCaller, caller
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import ManifestError, StateError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.catalog.gateway_tools import apply_changes
from toolgen.gateway.catalog.search.bm25 import ToolIndex
from toolgen.gateway.catalog.search.hybrid import index_of
from toolgen.gateway.catalog.served_catalog import catalog_of
from toolgen.gateway.catalog.shared_functions import SharedFunctions
from toolgen.gateway.catalog.tool_discovery import MAX_QUERY_LENGTH
from toolgen.gateway.catalog.tool_overlay import Overlay
from toolgen.gateway.state.shared_state import tool_changes_of
from toolgen.generator.emit.formats import FORMATS, render
from toolgen.generator.emit.writer import MANIFEST
from toolgen.model.manifest import Manifest
from toolgen.model.manifest import load as load_manifest
from toolgen.model.tool import Tool

_MAX_HITS = 10
_MAX_NAMED = 20
_FORMATS = ("manifest", *sorted(FORMATS))
_MIN_DESCRIPTION = 11  # as wide as its title


@click.command()
@caller
@click.option(
    "--all", "everything", is_flag=True, help="With --as: all tools that it may call, even if the list is long."
)
@click.option("--search", "text", metavar="TEXT", help="Only the ten tools that match a text best, best first.")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(_FORMATS),
    metavar="FORMAT",
    help=f"Print the JSON of this format: {', '.join(_FORMATS)}.",
)
@click.option("--manifest", "directory", metavar="DIR", help="Folder to read instead of the project's generated/.")
@as_json
@config
def command(
    caller: CommandCaller,
    everything: bool,
    text: str | None,
    format_name: str | None,
    directory: str | None,
    as_json: bool,
    config_path: str,
) -> None:
    """List tools, or search them. With --as, only those that the gateway lists for this principal."""
    if caller.name and directory:
        raise click.UsageError("--as needs the project's policy and cannot be combined with --manifest")
    if everything and not caller.name:
        raise click.UsageError("--all needs --as: without it, all tools are listed anyway")
    settings, manifest, tools, hidden = _load(caller, directory, config_path, whole=everything or text is not None)
    if text is not None:
        tools = _found(settings, tools, text)
    if format_name == "manifest":
        print_json({**manifest.to_dict(), "tools": [tool.to_dict() for tool in tools]})
    elif format_name is not None:
        print_json(render(format_name, tools))
    elif as_json:
        print_json([{"name": tool.name, "effect": tool.effect, "description": tool.description} for tool in tools])
    else:
        _print(tools)
    if hidden:
        click.echo(f"the policy hides {hidden} of {len(manifest.tools)} tools from {caller.name}", err=True)


def _load(
    caller: CommandCaller, directory: str | None, config_path: str, *, whole: bool
) -> tuple[Settings | None, Manifest, Sequence[Tool], int]:
    """Return the tools to print, and the number of others that the policy hides from the caller."""
    if directory is not None:
        path = Path(directory) / MANIFEST
        if not path.is_file():
            raise ManifestError("there is no such file", where=str(path), suggestion="run `toolgen build` first")
        manifest = load_manifest(path.read_bytes(), where=str(path))
        return None, manifest, list(manifest.tools.values()), 0
    if caller.name is None:
        settings = load_settings(config_path)
        manifest = _changed(settings, catalog_of(settings))
        return settings, manifest, list(manifest.tools.values()), 0
    gateway = Gateway.load(config_path)
    built, faults = gateway.manifest, asyncio.run(apply_changes(gateway.tools))
    _say(gateway.tools.added, gateway.tools.removed & built.tools.keys(), faults)
    who = caller.by_now(gateway)
    catalog = gateway.tool_calls.catalog(who)
    hidden = len(gateway.manifest.tools) - len(catalog)
    return gateway.settings, gateway.manifest, catalog if whole else gateway.tool_calls.offered(who), hidden


def _changed(settings: Settings, built: Manifest) -> Manifest:
    """Return the catalog of running gateways: with tools that were added and removed at run time."""
    store = tool_changes_of(settings)

    async def read() -> tuple[Overlay, dict[str, str]]:
        try:
            return await SharedFunctions(settings, in_process=False).overlay(await store.read(), built, {})
        finally:
            await store.close()

    try:
        overlay, faults = asyncio.run(read())
    except StateError as error:
        click.echo(f"changes at run time are not shown: {error}", err=True)
        return built
    _say(overlay.added, overlay.removed & built.tools.keys(), faults.values())
    return overlay.in_force(built)


def _say(added: Collection[str], removed: Collection[str], faults: Iterable[str]) -> None:
    for names, what in ((added, "added while a gateway ran"), (removed, "removed while a gateway ran, and not listed")):
        if names:
            more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
            click.echo(f"{what}: {', '.join(sorted(names)[:_MAX_NAMED])}{more}", err=True)
    for fault in faults:
        click.echo(f"warning: {fault}", err=True)


def _found(settings: Settings | None, tools: Sequence[Tool], text: str) -> Sequence[Tool]:
    if not text:
        raise click.BadParameter("must not be empty", param_hint="--search")
    by_name = {tool.name: tool for tool in tools}
    index = None if settings is None else index_of(settings, tools)
    return [by_name[hit.id] for hit in (index or ToolIndex(tools)).search(text[:MAX_QUERY_LENGTH], _MAX_HITS)]


def _print(tools: Sequence[Tool]) -> None:
    """Print a line for each tool in the width of the terminal; the description is shortened, the name is not."""
    taken = (
        max((len(tool.name) for tool in tools), default=0) + max((len(tool.effect) for tool in tools), default=0) + 4
    )
    room = max(_MIN_DESCRIPTION, shutil.get_terminal_size().columns - taken)
    print_table(("tool", "effect", "description"), [(tool.name, tool.effect, _line(tool, room)) for tool in tools])


def _line(tool: Tool, room: int) -> str:
    first = tool.description.splitlines()[0] if tool.description else ""
    return first if len(first) <= room else first[: room - 1].rstrip() + "…"
