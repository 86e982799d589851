"""Command `toolgen workflow`: it shows tools that consist of other tools."""

from __future__ import annotations

import click

from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import config
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.gateway.catalog.served_catalog import catalog_of
from toolgen.generator.emit.mermaid import flowchart


@click.group(cls=CommandGroup)
def command() -> None:
    """Draw workflows."""


@command.command()
@click.argument("names", nargs=-1, metavar="[TOOL]...")
@config
def draw(names: tuple[str, ...], config_path: str) -> None:
    """Print workflows as Mermaid flowcharts: those of TOOL, or all of the project.

    Steps of a stage are beside each other; a dotted line leads to the step that undoes another.
    """
    tools = catalog_of(load_settings(config_path)).tools
    known = {name: tool for name, tool in tools.items() if tool.runs_steps}
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no workflow {name}{nearest(name, known)}", where=config_path)
    if not known:
        raise ConfigError(
            "the project has no workflow", where=config_path, suggestion="add a source with workflow: FILE"
        )
    for name in names or known:
        click.echo(flowchart(known[name], tools), nl=False)
