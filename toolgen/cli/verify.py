"""Command `toolgen verify`: it proves tools against the descriptions that they were made from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import click

from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table
from toolgen.config.settings import from_specs
from toolgen.config.settings import load as load_settings
from toolgen.connectors.source import SourceSettings, password_of
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.quality.verify import FailedTool, SourceReport, Unproven, verify_source

_SHOWN = 20


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option(
    "--examples",
    default=20,
    show_default=True,
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Calls to generate for each tool.",
)
@click.option("--seed", default="0", show_default=True, help="The same seed generates the same calls.")
@as_json
@config
def command(sources: tuple[str, ...], examples: int, seed: str, as_json: bool, config_path: str) -> None:
    """Prove tools against their descriptions; nothing is sent.

    Every tool is compared with its operation: arguments, answer, server, credentials, effect; overrides under `tools:` of toolgen.yaml are
    not compared. Then arguments are generated and a request is built; openapi-core, and a second reader written from the specification,
    must read the same arguments from it. GraphQL operations are checked with graphql-core. A tool fails if two readers agree on the fault;
    a fault that only one finds is unproven, with the reason. SOURCE is a source of toolgen.yaml or a description's file; without one, every
    source is proved. Exits 1 if a tool failed.
    """
    reports = [
        verify_source(source.config, examples=examples, seed=seed, password=password_of(source))
        for source in _chosen(sources, config_path).values()
    ]
    if as_json:
        print_json(_summary(reports))
    else:
        _print(reports)
    sys.exit(1 if any(report.counts()["failed"] for report in reports) else 0)


def _chosen(names: tuple[str, ...], config_path: str) -> Mapping[str, SourceSettings]:
    if names and all(Path(name).is_file() for name in names):
        return from_specs(names, Path.cwd())
    known = load_settings(config_path).sources
    for name in names:
        if name not in known:
            raise ConfigError(
                f"there is no source {name!r}{nearest(name, tuple(known))}",
                where=config_path,
                suggestion="name a source of toolgen.yaml or a description's file",
            )
    return {name: known[name] for name in names or known}


def _summary(reports: list[SourceReport]) -> dict[str, object]:
    return {
        "ok": not any(report.counts()["failed"] for report in reports),
        "sources": [
            {"source": report.source, "counts": report.counts(), "tools": [one.to_dict() for one in report.tools]}
            for report in reports
        ],
    }


def _print(reports: list[SourceReport]) -> None:
    columns = ("proven", "failed", "unproven", "not_applicable")
    rows = [
        (report.source, len(report.tools), *(report.counts().get(column, 0) for column in columns))
        for report in reports
    ]
    print_table(("source", "tools", "proven", "failed", "unproven", "not applicable"), rows)
    unproven = []
    for report in reports:
        for one in report.tools:
            match one.verdict:
                case FailedTool(arguments=arguments, reason=reason, sent=sent, pointer=pointer):
                    click.echo(f"\n{one.tool} ({_line(pointer or one.origin)}): {_line(reason)}")
                    click.echo(f"  arguments  {_line(repr(dict(arguments)))}")
                    if sent:
                        click.echo(f"  sent       {_line(sent)}")
                case Unproven(reasons=reasons):
                    unproven.append(f"unproven: {one.tool}: {_line('; '.join(reasons))}")
                case _:
                    pass
    for line in unproven[:_SHOWN]:
        click.echo(line)
    if len(unproven) > _SHOWN:
        click.echo(f"... and {len(unproven) - _SHOWN} more that are unproven, all with --json")


def _line(text: str) -> str:
    """Return text on one line, without control characters, which descriptions may contain."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)[:1000]
