"""Progress of long work: a line on a terminal that disappears at the end, and nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["counted", "portion", "progress"]


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function that is called with the name of each of `total` steps; it draws on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    # Imported here, because the import takes as long as a small build.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as shown:
        task = shown.add_task("starting", total=total)
        begun = False

        def step(what: str) -> None:
            nonlocal begun
            shown.update(task, description=what, advance=1 if begun else 0)
            begun = True

        yield step


@contextmanager
def portion() -> Iterator[Callable[[int, int], None]]:
    """Yield a function that is called with the finished and the total amount; it draws on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


@contextmanager
def counted(what: str) -> Iterator[Callable[[int], None]]:
    """Yield a function that is called with a count and the name of the counted things, without a total; it draws like the others."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.completed:,.0f} {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True, markup=False), transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done: shown.update(task, completed=done)
