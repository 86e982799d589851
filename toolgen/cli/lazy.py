"""Groups of commands: each is listed with its first sentence, and may be imported only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from toolgen.core.garbage import uncollected

__all__ = ["CommandGroup", "LazyCommand"]

_WHOLE = 1_000  # characters; click cuts a sentence at the width of the terminal


class CommandGroup(click.Group):
    """Group that lists its commands with complete sentences, wrapped at the width of the terminal."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands with whole sentences; click's own method cuts them with `...`."""
        found = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, one.get_short_help_str(_WHOLE)) for name, one in found if one is not None and not one.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class LazyCommand(click.Command):
    """Placeholder in a group for the command `attribute` of a module.

    `help` is the first sentence of the command's own help: a listing and shell completion show no more than that. click runs and completes
    the command of the context it is given, so the module is imported when that context is made.
    """

    def __init__(self, name: str, module: str, help: str, *, attribute: str = "command") -> None:  # noqa: A002 - click's name for it
        super().__init__(name, help=help)
        self.module = module
        self.attribute = attribute

    def load(self) -> click.Command:
        """Return the command itself."""
        with uncollected():
            command: click.Command = getattr(import_module(self.module), self.attribute)
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of the command itself."""
        return self.load().make_context(info_name, args, parent, **extra)
