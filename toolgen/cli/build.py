"""`toolgen build`: descriptions in, generated/ out."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import click

from toolgen.build import Built, build_sources
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table
from toolgen.emit.formats import DEFAULT_FORMATS, FORMATS
from toolgen.emit.writer import check, render_all, write
from toolgen.model.manifest import Manifest
from toolgen.settings import from_specs
from toolgen.settings import load as load_settings

_SHOWN = 20


@click.command()
@click.argument("specs", nargs=-1, metavar="[SPEC]...")
@click.option("-o", "--output", metavar="DIR", help="Where to write; generated/ by default.")
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit 1 when the files are not what they should be."
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(sorted(FORMATS)),
    help=f"Besides the manifest; {', '.join(DEFAULT_FORMATS)} by default.",
)
@as_json
@config
def command(
    specs: tuple[str, ...],
    output: str | None,
    only_check: bool,
    formats: tuple[str, ...],
    as_json: bool,
    config_path: str,
) -> None:
    """Build tools from descriptions.

    Without SPEC, builds the sources of toolgen.yaml. With SPECs (OpenAPI documents, GraphQL schemas, database URLs) no project is needed.
    """
    if specs:
        sources, target = from_specs(specs, Path.cwd()), Path(output or "generated")
    else:
        settings = load_settings(config_path)
        for warning in settings.warnings:
            click.echo(f"warning: {warning}", err=True)
        sources, target = settings.sources, Path(output) if output else settings.generated
    built = build_sources(sources)
    files = render_all(built.manifest, formats or DEFAULT_FORMATS)
    changed = check(target, files) if only_check else write(target, files)
    if as_json:
        print_json(_summary(built, changed))
    else:
        _print(built, changed, target, only_check)
    if only_check and changed:
        click.echo(f"toolgen: {_shown(target)}/ is not what these descriptions build: {', '.join(changed)}", err=True)
        sys.exit(1)


def _summary(built: Built, changed: list[str]) -> dict[str, object]:
    manifest = built.manifest
    return {
        "digest": manifest.digest,
        "sources": [
            dict(zip(("source", "operations", "tools", "skipped", "problems"), row, strict=True))
            for row in _rows(built)
        ],
        "problems": manifest.to_dict()["problems"],
        "changed": changed,
    }


def _rows(built: Built) -> list[tuple[str, int, int, int, int]]:
    tools = Counter(tool.source for tool in built.manifest.tools.values())
    problems = Counter(problem.source for problem in built.manifest.problems)
    return [
        (name, operations, tools[name], operations - tools[name], problems[name])
        for name, operations in sorted(built.operations.items())
    ]


def _print(built: Built, changed: list[str], target: Path, only_check: bool) -> None:
    print_table(("source", "operations", "tools", "skipped", "problems"), _rows(built))
    _print_problems(built.manifest)
    if not only_check:
        name = _shown(target)
        click.echo(f"{name}/: {len(changed)} file(s) written" if changed else f"{name}/ is up to date")


def _print_problems(manifest: Manifest) -> None:
    order = {"error": 0, "warning": 1, "info": 2}
    ranked = sorted(manifest.problems, key=lambda problem: order.get(problem.level, 3))
    for problem in ranked[:_SHOWN]:
        click.echo(f"{problem.level}: {problem.source} {problem.origin}: {problem.message} [{problem.code}]")
    if len(ranked) > _SHOWN:
        click.echo(f"... and {len(ranked) - _SHOWN} more problems, all in manifest.json")


def _shown(target: Path) -> Path:
    """A path as a person in this folder would write it."""
    absolute, here = target.resolve(), Path.cwd()
    return absolute.relative_to(here) if absolute.is_relative_to(here) else target
