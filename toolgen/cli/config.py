"""Command `toolgen config`: schemas of the project's files, and the settings in force."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import cast

import click

from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table
from toolgen.config.effective import settings_in_force
from toolgen.config.json_schema import json_schema
from toolgen.config.keys import FileKind
from toolgen.config.settings import load, load_tenant, load_tenants


@click.group(cls=CommandGroup)
def command() -> None:
    """Show the settings in force, and JSON Schemas of toolgen.yaml and policies."""


@command.command("schema")
@click.option(
    "--for",
    "kind",
    type=click.Choice(["toolgen.yaml", "policy"]),
    default="toolgen.yaml",
    show_default=True,
    help="File that the schema is for.",
)
def schema(kind: str) -> None:
    """Print the JSON Schema (2020-12) of toolgen.yaml or of a policy file, for editors and checks."""
    print_json(json_schema(cast(FileKind, kind)))


@command.command("show")
@as_json
@config
def show(as_json: bool, config_path: str) -> None:
    """Print the settings in force, each with its origin: a line of the file, a variable of the environment, or the default.

    Secrets are never shown: references are printed unchanged, all other values are masked.
    """
    file = Path(config_path)
    found = settings_in_force(file, os.environ)
    tenants = load_tenants(file)
    if tenants is None:
        load(file)  # the errors that a start would report
    else:
        for tenant in tenants.tenants:
            load_tenant(tenant, tenants)
    if as_json:
        print_json({"settings": [{"key": one.name, "value": one.value, "from": one.origin} for one in found]})
        return
    print_table(("setting", "value", "from"), [(one.name, _text(one.value), one.origin) for one in found])


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
