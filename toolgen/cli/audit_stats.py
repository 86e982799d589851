"""Command `toolgen audit stats`: number, outcomes and duration of calls, as tables and as a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from toolgen.audit.index.row import RecordFilter
from toolgen.audit.reports import Group, Stats, stats_of
from toolgen.cli.audit_filters import dir_option, filled, filters
from toolgen.cli.audit_times import shown_zone
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table, printable
from toolgen.core.errors import ConfigError

__all__ = ["stats"]


_HEAD = ("calls", "ok", "refused", "errors", "p50 ms", "p90 ms", "p99 ms", "max ms")
_MAX_BARS = 12
_MAX_LABEL_LENGTH = 40


@click.command("stats")
@click.option(
    "--plot",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also draw a chart: a PNG or SVG file, by its extension. Needs toolgen[plot].",
)
@filters
@dir_option
@as_json
@config
def stats(plot: Path | None, wanted: RecordFilter, directory: Path | None, as_json: bool, config_path: str) -> None:
    """Count calls by outcome, with percentiles of their durations, by tool and by principal."""
    if plot is not None and plot.suffix.lower() not in {".png", ".svg"}:
        raise click.BadParameter("must be a file that ends with .png or .svg", param_hint="--plot")
    with filled(directory, config_path) as index:
        found = stats_of(index.samples(wanted))
        if plot is not None:
            _draw(found, plot)
        if as_json:
            print_json(found.to_dict())
        else:
            _tell(found)


def _tell(found: Stats) -> None:
    if found.first is not None and found.last is not None:
        click.echo(f"{found.total.calls} calls, begun {_step_label(found.first)} to {_step_label(found.last)}")
    else:
        click.echo("no calls")
        return
    for title, counts in (("status", found.statuses), ("code", found.codes), ("rule", found.rules)):
        _print_counts(title, counts)
    for title, groups in (("tool", found.tools), ("principal", found.principals)):
        click.echo()
        print_table((title, *_HEAD), [_row(group) for group in (*groups, found.total)])


def _print_counts(title: str, counts: Mapping[str, int]) -> None:
    if counts:
        click.echo(f"by {title}: " + ", ".join(f"{printable(name)} {count}" for name, count in counts.items()))


def _row(group: Group) -> Sequence[object]:
    times = [None if time is None else f"{time:.1f}" for time in (group.p50, group.p90, group.p99, group.slowest)]
    return (group.name, group.calls, group.ok, group.refused, group.errors, *times)


def _step_label(micros: int) -> str:
    return datetime.fromtimestamp(micros / 1e6, UTC).astimezone(shown_zone()).isoformat(timespec="seconds")


def _draw(found: Stats, path: Path) -> None:
    """Draw the tools and principals with the most calls: calls by outcome, and percentiles of durations."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "a chart needs matplotlib, which is not installed",
            where="--plot",
            suggestion='install it with: pip install "toolgen[plot]"',
        ) from error
    figure = Figure(figsize=(12, 8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2)
    for row, (title, groups) in enumerate((("tool", found.tools), ("principal", found.principals))):
        shown = groups[:_MAX_BARS][::-1]
        # A dollar sign would start mathematics.
        names = [printable(group.name)[:_MAX_LABEL_LENGTH].replace("$", r"\$") or "(none)" for group in shown]
        places = range(len(shown))
        ending, times = axes[row]
        left = [0] * len(shown)
        for label, colour, counts in (
            ("ok", "#2a7f62", [group.ok for group in shown]),
            ("refused", "#d9a441", [group.refused for group in shown]),
            ("error", "#b33a3a", [group.errors for group in shown]),
            ("other", "#8a8f98", [group.calls - group.ok - group.refused - group.errors for group in shown]),
        ):
            ending.barh(places, counts, left=left, label=label, color=colour)
            left = [before + count for before, count in zip(left, counts, strict=True)]
        ending.set_yticks(places, names)
        ending.set_title(f"calls by {title}")
        for label, marker, values in (
            ("p50", "o", [group.p50 for group in shown]),
            ("p90", "s", [group.p90 for group in shown]),
            ("p99", "^", [group.p99 for group in shown]),
        ):
            known = [(value, place) for value, place in zip(values, places, strict=True) if value is not None]
            times.plot([value for value, _ in known], [place for _, place in known], marker, label=label)
        times.set_yticks(places, names)
        times.set_xlabel("ms")
        times.set_title(f"time by {title}")
        for one in (ending, times):
            one.grid(axis="x", alpha=0.3)
    axes[0][0].legend(loc="lower right")
    axes[0][1].legend(loc="lower right")
    figure.suptitle(f"{found.total.calls} calls")
    figure.savefig(path, format=path.suffix[1:].lower(), dpi=120)
