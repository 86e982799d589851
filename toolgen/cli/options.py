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
"""The environment variable that clients read a principal's key from."""


def config(function: F) -> F:
    """`--config FILE`: the project to work on."""
    return click.option(
        "--config", "config_path", default="toolgen.yaml", show_default=True, metavar="FILE", help="The project's file."
    )(function)


def logs(function: F) -> F:
    """`--log-format` and `--log-level`: `logs` is how the process logs from now on."""

    @wraps(function)
    def run(*args: Any, log_format: str | None, log_level: str, **given: Any) -> Any:
        chosen = (form_of(log_format), log_level)
        configure(chosen)
        return function(*args, logs=chosen, **given)

    form = click.option(
        "--log-format", type=click.Choice(["text", "json"]), help="Text on a terminal and JSON in a pipe by default."
    )
    level = click.option(
        "--log-level", type=click.Choice(LEVELS), default="info", show_default=True, help="The least that is logged."
    )
    return cast(F, form(level(run)))


def as_json(function: F) -> F:
    """`--json`: output for programs, errors too; those are told to people on standard error as well."""

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
    """Principal that the command line acts as: who was named, or the policy's only principal. Raises `ConfigError` when that is not
    clear."""
    if given is not None:
        return given
    if len(names) == 1:
        return names[0]
    known = ", ".join(names) or "none"
    raise ConfigError(f"say as whom with --as; the policy's principals are: {known}")


def json_object(given: str | None, option: str) -> dict[str, Any]:
    """The JSON object that an option holds, or that stands in the file it names (`@FILE`, `-` for standard input); {} for none."""
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
    """User who runs the command, as the machine knows them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown"
