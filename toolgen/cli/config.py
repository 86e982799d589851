"""`toolgen config`: what may be written in the project's files, and what is in force."""

from __future__ import annotations

from typing import cast

import click

from toolgen.cli.output import print_json
from toolgen.config.json_schema import json_schema
from toolgen.config.keys import FileKind


@click.group()
def command() -> None:
    """Show the settings in force, and JSON Schemas of toolgen.yaml and policies."""


@command.command("schema")
@click.option(
    "--for",
    "kind",
    type=click.Choice(["toolgen.yaml", "policy"]),
    default="toolgen.yaml",
    show_default=True,
    help="The file that is described.",
)
def schema(kind: str) -> None:
    """Print the JSON Schema (2020-12) of toolgen.yaml or of a policy file, for editors and checks."""
    print_json(json_schema(cast(FileKind, kind)))
