"""Logging of the gateway's processes: lines with time and level, as text for people or JSON for programs, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from toolgen.core.errors import place_of
from toolgen.core.tenant import current_tenant

__all__ = ["LEVELS", "Logs", "configure", "form_of"]

Form: TypeAlias = Literal["text", "json"]
Logs: TypeAlias = tuple[Form, str]
"""Format of the lines, and the minimum log level."""

LEVELS = ("debug", "info", "warning", "error")


def form_of(given: str | None) -> Form:
    """Return the requested format, or text if standard error is a terminal and otherwise JSON."""
    if given is not None:
        return "text" if given == "text" else "json"
    return "text" if sys.stderr.isatty() else "json"


def configure(logs: Logs) -> None:
    """Configure the logs of this process. The level is for toolgen; of libraries only warnings are logged, because their messages may quote
    URLs."""
    form, level = logs
    handler = logging.StreamHandler()
    handler.setFormatter(_TextFormatter() if form == "text" else _JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("toolgen").setLevel(level.upper())


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        tenant = current_tenant()
        place = (f"[{tenant}]",) if tenant else ()
        return " ".join((_time(record), record.levelname.lower().ljust(7), *place, _message(record)))


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if tenant := current_tenant():
            said["tenant"] = tenant
        return json.dumps(said)


def _time(record: logging.LogRecord) -> str:
    """Return RFC 3339, in UTC, with milliseconds."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    """Return the message on one line. An error is logged by its type and place, never by its text, which may quote data of callers."""
    error = record.exc_info[1] if record.exc_info else None
    text = record.getMessage().strip() + (f": {place_of(error)}" if error is not None else "")
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
