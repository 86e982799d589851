"""Command `toolgen lint`: faults that make descriptions poor or unsafe for agents."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from toolgen import __version__
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json
from toolgen.config.settings import from_specs
from toolgen.config.settings import load as load_settings
from toolgen.connectors.overrides import ToolOverride
from toolgen.connectors.source import SourceSettings
from toolgen.core.errors import ConfigError
from toolgen.model.names import SOURCE_NAME
from toolgen.quality.lint.check import LintFinding, check
from toolgen.quality.lint.report import accepted, render
from toolgen.quality.lint.rule import Level
from toolgen.quality.lint.sarif import sarif

_SHOWN = 200


@click.command()
@click.argument("specs", nargs=-1, metavar="[SPEC|SOURCE]...")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF 2.1.0.")
@click.option("--baseline", metavar="FILE", help="Findings in this file are known and do not fail.")
@click.option("--write-baseline", is_flag=True, help="Write all findings to the file of --baseline, and exit 0.")
@click.option(
    "--fail-on", type=click.Choice([level.value for level in Level]), default="warning", show_default=True,
    help="Minimum level of findings that fail.",
)  # fmt: skip
@as_json
@config
def command(
    specs: tuple[str, ...],
    as_sarif: bool,
    baseline: str | None,
    write_baseline: bool,
    fail_on: str,
    as_json: bool,
    config_path: str,
) -> None:
    """Report faults that make descriptions poor or unsafe for agents.

    Without arguments, checks the sources of toolgen.yaml; with names, only those; with SPECs (files, database URLs), these. Exits with 1 if
    there are findings that are not in the baseline, of the level --fail-on or above it.
    """
    if as_sarif and as_json:
        raise click.UsageError("--json and --sarif are two forms; choose one")
    if write_baseline and baseline is None:
        raise click.UsageError("--write-baseline needs --baseline FILE")
    findings = check(*_sources(specs, config_path))
    if write_baseline and baseline is not None:
        Path(baseline).write_bytes(render(findings))
        click.echo(f"{baseline}: {len({one.fingerprint for one in findings})} finding(s) accepted")
        return
    known = accepted(Path(baseline)) if baseline is not None else None
    new = [finding for finding in findings if known is None or finding.fingerprint not in known]
    if as_sarif:
        print_json(sarif(findings, known, version=__version__))
    elif as_json:
        print_json({"findings": [one.to_dict() for one in new], "known": len(findings) - len(new)})
    else:
        _print(new, len(findings) - len(new))
    if any(finding.level.rank <= Level(fail_on).rank for finding in new):
        sys.exit(1)


def _sources(specs: Sequence[str], config_path: str) -> tuple[Mapping[str, SourceSettings], tuple[ToolOverride, ...]]:
    """Return names of sources if every argument can be one and is no file; otherwise descriptions."""
    named = all(SOURCE_NAME.match(spec) and not Path(spec).exists() for spec in specs)
    if not named:
        return from_specs(tuple(specs), Path.cwd()), ()
    settings = load_settings(config_path)
    unknown = [spec for spec in specs if spec not in settings.sources]
    if unknown:
        known = ", ".join(settings.sources)
        raise ConfigError(f"{unknown[0]!r} is neither a file nor a source; the sources are: {known}", where=config_path)
    wanted = specs or list(settings.sources)
    return {name: settings.sources[name] for name in wanted}, settings.overrides


def _print(findings: Sequence[LintFinding], known: int) -> None:
    """Print findings by rule: place and finding for each, the remedy once."""
    groups: dict[str, list[LintFinding]] = {}
    for finding in findings:
        groups.setdefault(finding.rule, []).append(finding)
    shown = 0
    for rule, members in groups.items():
        click.echo(f"{members[0].level.value}: {rule} ({len(members)})\n  {members[0].advice}")
        for finding in members:
            if shown == _SHOWN:
                break
            shown += 1
            click.echo(f"    {_where(finding)}: {_clean(finding.message)}")
    if len(findings) > shown:
        click.echo(f"... and {len(findings) - shown} more; see them all with --json")
    counts = Counter(finding.level for finding in findings)
    total = ", ".join(f"{counts[level]} {level.value}(s)" for level in Level)
    click.echo(f"{total}{f', and {known} known' if known else ''}")


def _where(finding: LintFinding) -> str:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file or finding.source
    return _clean(" ".join(part for part in (place, finding.tool or finding.origin) if part))


def _clean(text: str) -> str:
    """Return text without control sequences of a terminal, for content of a description."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
