"""Command `toolgen init`: a new project, from descriptions or as a sample."""

from __future__ import annotations

import os
from pathlib import Path

import click

from toolgen.cli.greeting import unaddressed
from toolgen.cli.new_project import NewProject, is_description, make_project, make_sample
from toolgen.generator.credential_arguments import credential_arguments
from toolgen.generator.starter import PRINCIPAL
from toolgen.model.tool import Effect

__all__ = ["describe"]


@click.command()
@click.argument("given", nargs=-1, metavar="[FILE|URL|DATABASE]... | [DIR]")
@click.option("--dir", "directory", metavar="DIR", help="Folder of the project; default: the current folder.")
@click.option("--name", default="", help="Name of the source (default: from the title of its description).")
@click.option("--server", default="", metavar="URL", help="Base URL of the API (default: from the description).")
def command(given: tuple[str, ...], directory: str | None, name: str, server: str) -> None:
    """Make a project: toolgen.yaml, a policy that allows reads, and a key.

    From OpenAPI documents, GraphQL schemas, databases (postgresql://…, shop.db) or URLs of them. Without any, a sample project in DIR. The
    key of the principal is printed once, on standard output; the policy has its SHA-256. No file is overwritten.
    """
    described = any(map(is_description, given))
    if not described and (len(given) > 1 or name or server):
        raise click.UsageError("--name and --server need a description, and a sample project has one folder")
    if len(given) > 1 and (name or server):
        raise click.UsageError("--name and --server are for one description; edit toolgen.yaml for several")
    if not described and directory and given:
        raise click.UsageError(
            f"'{given[0]}' is a folder or not a description; use only --dir for the folder of a sample project"
        )
    root = Path(directory or ("." if described or not given else given[0]))
    made = make_project(root, given, name=name, server=server) if described else make_sample(root)
    describe(made)
    click.echo(f"key of {PRINCIPAL}, shown this once:", err=True)
    click.echo(made.key)
    here = "" if root.resolve() == Path.cwd() else f"cd {root} && "
    click.echo(f"next: {here}toolgen up", err=True)


def describe(made: NewProject, *, wants: bool = True) -> None:
    """Print the contents of a new project on standard error and, if somebody `wants` it, what calls still need."""
    files = ("toolgen.yaml", "policies/policy.yaml", *((".gitignore",) if made.ignored else ()))
    click.echo(f"made {', '.join(str(made.root / name) for name in files)}", err=True)
    if not made.ignored:
        click.echo("keep var/ and *.key out of version control: the existing .gitignore was not changed", err=True)
    for name, info in made.manifest.sources.items():
        own = [tool for tool in made.manifest.tools.values() if tool.source == name]
        reads = sum(tool.effect is Effect.READ for tool in own)
        click.echo(
            f"source {name} ({info.kind}): {len(own)} tools; {PRINCIPAL} may call the {reads} read-only ones", err=True
        )
    for line in unaddressed(made.manifest) if wants else ():
        click.echo(f"set before calls: {line}", err=True)
    for carried in credential_arguments(made.manifest):
        click.echo(carried, err=True)
    for name, wanted in made.variables.items() if wants else ():
        if unset := [variable for variable in wanted if variable not in os.environ]:
            click.echo(f"set before calls to {name}: {', '.join(unset)}", err=True)
    click.echo(f"the audit log is signed from its first entry; {made.public} verifies it", err=True)
