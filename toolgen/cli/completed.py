"""Completion of names by the shell: built tools of a project, and principals of its policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import ToolgenError
from toolgen.generator.emit.writer import MANIFEST
from toolgen.model.manifest import tool_names
from toolgen.policy.document.policy import load_credentials

__all__ = ["PRINCIPAL_NAME", "TOOL_NAME"]


class _OfProject(click.types.StringParamType):
    """Argument whose values are completed from the project; without completion if there is no readable project.

    `names` returns the values; it may raise `ToolgenError` or `OSError`.
    """

    def __init__(self, names: Callable[[Settings], Iterable[str]]) -> None:
        self._names = names

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin with the typed text."""
        with suppress(ToolgenError, OSError):
            found = self._names(load_settings(ctx.params.get("config_path") or "toolgen.yaml"))
            return [CompletionItem(name) for name in sorted(found) if name.startswith(incomplete)]
        return []


TOOL_NAME = _OfProject(lambda settings: tool_names((settings.generated / MANIFEST).read_bytes()))
PRINCIPAL_NAME = _OfProject(lambda settings: load_credentials(settings.policies).principals)
