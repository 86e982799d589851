"""Limits of a sandbox for callers' code: time, memory, calls and size of the output."""

from __future__ import annotations

import msgspec

from toolgen.connectors.source_entry import SourceEntry
from toolgen.core.errors import ConfigError
from toolgen.core.units import parse_duration, parse_size
from toolgen.model.tool import CodeBinding

__all__ = ["CodeKeys", "SourceCodeKeys", "read_limits"]

_MAX_TIME_S = 300.0
_MIN_MEMORY, _MAX_MEMORY = 1_048_576, 1_073_741_824
_MAX_CALLS = 1000
_MIN_OUTPUT, _MAX_OUTPUT = 1024, 1_048_576


class CodeKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Keys below `code:`."""

    time: str = "30s"
    memory: str = "64MiB"
    calls: int = 100
    output: str = "64KiB"


class SourceCodeKeys(msgspec.Struct):
    """Keys of a source."""

    code: CodeKeys | None = None


def read_limits(keys: CodeKeys, entry: SourceEntry) -> CodeBinding:
    """Return the limits of a sandbox. Raises `ConfigError`, with the line, for an invalid one."""
    time_s, memory, output = parse_duration(keys.time), parse_size(keys.memory), parse_size(keys.output)
    for key, fits, takes in (
        ("time", time_s is not None and 0 < time_s <= _MAX_TIME_S, f"a time like 10s, {_MAX_TIME_S:g}s at most"),
        ("memory", memory is not None and _MIN_MEMORY <= memory <= _MAX_MEMORY, "a size from 1MiB to 1GiB"),
        ("calls", 0 <= keys.calls <= _MAX_CALLS, f"0 to {_MAX_CALLS}"),
        ("output", output is not None and _MIN_OUTPUT <= output <= _MAX_OUTPUT, "a size from 1KiB to 1MiB"),
    ):
        if not fits:
            raise ConfigError(f"{key}: takes {takes}", where=entry.where("code", key))
    return CodeBinding(time_s=time_s or 0.0, memory=memory or 0, calls=keys.calls, output=output or 0)
