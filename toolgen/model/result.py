"""How a call ends. A call never raises: every ending is one of five, and an `Envelope` is what the caller is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from toolgen.model.schema import Json

__all__ = ["Cancelled", "Envelope", "Error", "Failed", "Meta", "Pending", "Refused", "Result", "Success", "bounded"]

LONGEST_MESSAGE = 1000
_NOTHING: Mapping[str, Json] = MappingProxyType({})


class Error(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What went wrong, as data: a stable code of contracts.md, a message for the agent and what to do about it."""

    code: str
    message: str
    suggestion: str = ""
    help_url: str = ""
    retry_after_s: float | None = None
    rule: str = ""

    def __post_init__(self) -> None:
        if len(self.message) > LONGEST_MESSAGE:
            msgspec.structs.force_setattr(self, "message", bounded(self.message))


def bounded(text: str, limit: int = LONGEST_MESSAGE) -> str:
    """The text, cut with an ellipsis when it is longer than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The system answered. `facts` are what the executor learned; the record keeps `sql`, `rows`, `bytes` and `attempts` of them.

    `age_s`: it answered so many seconds ago, to the same question. `cut_at` is the JSONPath at which the rest of a long answer begins.
    """

    data: Json
    truncated: bool = False
    next_cursor: str = ""
    cut_at: str = ""
    facts: Mapping[str, Json] = field(default_factory=lambda: _NOTHING)
    age_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """The call waits for somebody: a person's approval, a device, an authorization."""

    error: Error


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The gateway did not let the call through; nothing was sent."""

    error: Error


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The call was let through and did not succeed. `data` is what the system said, when it said something worth reading."""

    error: Error
    data: Json = None
    facts: Mapping[str, Json] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """Somebody called it off, or nobody was there to agree."""

    error: Error


Result: TypeAlias = Success | Pending | Refused | Failed | Cancelled


class Meta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Measurements of one call. `audit_seq` is the sequence number of its outcome entry, `age_s` the age of an answer that was kept."""

    duration_ms: float
    truncated: bool
    next_cursor: str = ""
    cut_at: str = ""
    audit_seq: int | None = None
    age_s: float | None = None


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What REST, the CLI and Python callers get: contracts.md, section Envelope."""

    status: str  # ok | error | refused | pending | cancelled
    tool: str
    call_id: str
    data: Json
    error: Error | None
    meta: Meta

    def to_dict(self) -> dict[str, object]:
        """The JSON form; `data` and `error` are left out where there is none."""
        built: dict[str, object] = msgspec.to_builtins(self)
        return {key: value for key, value in built.items() if value is not None or key not in {"data", "error"}}
