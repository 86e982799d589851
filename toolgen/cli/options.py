"""Options that several commands share."""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
import msgspec

from toolgen.cli.output import print_json
from toolgen.core.errors import ConfigError, ToolgenError
from toolgen.frontends.server.logs import LEVELS, configure, form_of

__all__ = ["KEY_VARIABLE", "as_json", "config", "default_principal", "json_object", "logs", "operator"]

F = TypeVar("F", bound=Callable[..., Any])

KEY_VARIABLE = "TOOLGEN_KEY"
"""Environment variable from which clients read a principal's key."""


def config(function: F) -> F:
    """Add `--config FILE`: the project to work on."""
    return click.option(
        "--config",
        "config_path",
        default="toolgen.yaml",
        show_default=True,
        metavar="FILE",
        help="File of the project.",
    )(function)


def logs(function: F) -> F:
    """Add `--log-format` and `--log-level`: `logs` configures the logging of the process."""

    @wraps(function)
    def run(*args: Any, log_format: str | None, log_level: str, **given: Any) -> Any:
        chosen = (form_of(log_format), log_level)
        configure(chosen)
        return function(*args, logs=chosen, **given)

    form = click.option(
        "--log-format", type=click.Choice(["text", "json"]), help="Default: text on a terminal and JSON in a pipe."
    )
    level = click.option(
        "--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="Minimum log level."
    )
    return cast(F, form(level(run)))


def as_json(function: F) -> F:
    """Add `--json`: output for programs, errors too; errors are also printed for people on standard error."""

    @wraps(function)
    def run(*args: Any, **given: Any) -> Any:
        try:
            return function(*args, **given)
        except ToolgenError as error:
            if given["as_json"]:
                said = {
                    "code": error.code,
                    "message": error.message,
                    "where": error.where,
                    "suggestion": error.suggestion,
                }
                print_json({"error": {key: text for key, text in said.items() if text}})
            raise

    return cast(F, click.option("--json", "as_json", is_flag=True, help="Print JSON.")(run))


def default_principal(names: tuple[str, ...], given: str | None) -> str:
    """Return the principal that the command line acts as: the named one, or the policy's only principal. Raises `ConfigError` if it is
    ambiguous."""
    if given is not None:
        return given
    if len(names) == 1:
        return names[0]
    known = ", ".join(names) or "none"
    raise ConfigError(f"name the principal with --as; the policy's principals are: {known}")


def json_object(given: str | None, option: str) -> dict[str, Any]:
    """Return the JSON object of an option, or of the file that it names (`@FILE`, `-` for standard input); {} for none."""
    if given is None:
        return {}
    try:
        text: str | bytes = given
        if given == "-":
            text = sys.stdin.buffer.read()
        elif given.startswith("@"):
            text = Path(given[1:]).read_bytes()
        decoded = msgspec.json.decode(text)
    except OSError as error:
        raise click.BadParameter(f"{given[1:]} cannot be read: {error.strerror}", param_hint=option) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.BadParameter(f"is not JSON: {error}", param_hint=option) from error
    if not isinstance(decoded, dict):
        raise click.BadParameter("must be a JSON object", param_hint=option)
    return decoded


def operator() -> str:
    """Return the user who runs the command, by their name on the machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
