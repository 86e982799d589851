"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from toolgen.errors import ConfigError

__all__ = ["as_json", "config", "default_principal"]

F = TypeVar("F", bound=Callable[..., Any])


def config(function: F) -> F:
    """`--config FILE`: the project to work on."""
    return click.option(
        "--config", "config_path", default="toolgen.yaml", show_default=True, metavar="FILE", help="The project's file."
    )(function)


def as_json(function: F) -> F:
    """`--json`: output for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def default_principal(names: tuple[str, ...], given: str | None) -> str:
    """Who the command line acts as: who was named, or the policy's only principal. Raises `ConfigError` when that is not clear."""
    if given is not None:
        return given
    if len(names) == 1:
        return names[0]
    known = ", ".join(names) or "none"
    raise ConfigError(f"say as whom with --as; the policy's principals are: {known}")
