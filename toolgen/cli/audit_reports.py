"""The options that say which calls: shared by every view of the record.

`toolgen audit stats`: how many calls, how they ended, and how long they took, in figures and as a picture.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from toolgen.audit.index.database import SqliteDatabase
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.index.row import STATUSES, VERDICTS, RecordFilter
from toolgen.audit.reports import Group, Stats, stats_of
from toolgen.cli.audit_times import Zone, between_option, shown_zone, since_option, tz_option, until_option
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table, printable
from toolgen.cli.progress import counted
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import ConfigError
from toolgen.gateway.audit.reader import index_of

__all__ = ["dir_option", "filled", "filters", "opened", "stats"]

F = TypeVar("F", bound=Callable[..., Any])
dir_option = click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory of another audit log; it is indexed for this command only.",
)


_OPTIONS = (
    tz_option,
    since_option,
    until_option,
    between_option,
    click.option("--principal", default="", help="Principal that made the call."),
    click.option("--for", "on_behalf_of", default="", metavar="USER", help="User that the call was made for."),
    click.option("--tool", default="", metavar="NAME|GLOB", help="Tool name or pattern: shop__query, or 'shop__*'."),
    click.option("--verdict", type=click.Choice(["", *VERDICTS]), default="", help="Verdict of the policy."),
    click.option("--rule", default="", help="Rule that decided."),
    click.option("--status", type=click.Choice(["", *STATUSES]), default="", help="Status of the call."),
    click.option("--code", default="", help="Error code: forbidden, upstream_timeout, …"),
    click.option("--session", default="", help="Conversation of the call."),
    click.option("--call", "call_id", default="", metavar="ID", help="Call id."),
    click.option("--text", default="", help="Text in an entry, ignoring case; searched without an index."),
)


def filters(function: F) -> F:
    """The options, given to the command as one `wanted`."""

    def command(*arguments: Any, zone: Zone, between: tuple[int, int] | None, **given: Any) -> Any:
        if between is not None:
            if given["since"] is not None or given["until"] is not None:
                raise click.UsageError("--between stands in place of --since and --until")
            given["since"], given["until"] = between
        names = ("since", "until", "principal", "on_behalf_of", "tool", "verdict", "rule", "status", "code", "session")
        wanted = RecordFilter(**{name: given.pop(name) for name in (*names, "call_id", "text")})
        return function(*arguments, wanted=wanted, **given)

    command.__doc__ = function.__doc__
    command.__name__ = function.__name__
    command.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    for option in reversed(_OPTIONS):
        command = option(command)
    return command  # type: ignore[return-value]


def opened(directory: Path | None, config_path: str) -> RecordIndex:
    """The index of the project's log, or of another directory's, not yet filled."""
    if directory is not None:
        return RecordIndex(SqliteDatabase(None), directory)
    return index_of(load_settings(config_path))


@contextmanager
def filled(directory: Path | None, config_path: str) -> Iterator[RecordIndex]:
    """The index, brought up to date. What keeps it from showing all there is goes to standard error, and makes the exit code 1."""
    with opened(directory, config_path) as index:
        with counted("entries indexed") as step:
            faults = index.fill(step).faults
        for fault in faults:
            click.echo(f"toolgen: {printable(fault)}", err=True)
        yield index
    if faults:
        sys.exit(1)


_HEAD = ("calls", "ok", "refused", "errors", "p50 ms", "p90 ms", "p99 ms", "max ms")
_MAX_BARS = 12
_MAX_LABEL_LENGTH = 40


@click.command("stats")
@click.option(
    "--plot",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw it too: a PNG or SVG file, by its ending. Needs toolgen[plot].",
)
@filters
@dir_option
@as_json
@config
def stats(plot: Path | None, wanted: RecordFilter, directory: Path | None, as_json: bool, config_path: str) -> None:
    """Count calls and their endings, with percentiles of how long they took, by tool and by principal."""
    if plot is not None and plot.suffix.lower() not in {".png", ".svg"}:
        raise click.BadParameter("takes a file that ends with .png or .svg", param_hint="--plot")
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
    """Calls by ending, and percentiles of their times, of the tools and principals with the most calls."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            "a picture needs matplotlib, which is not installed",
            where="--plot",
            suggestion='install it with: pip install "toolgen[plot]"',
        ) from error
    figure = Figure(figsize=(12, 8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2)
    for row, (title, groups) in enumerate((("tool", found.tools), ("principal", found.principals))):
        shown = groups[:_MAX_BARS][::-1]
        # A dollar sign would begin mathematics.
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
