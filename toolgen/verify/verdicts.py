"""What a proof ends with, for one argument of one call and for a whole tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

__all__ = ["Failed", "NotApplicable", "Proven", "ToolReport", "Unproven", "Verdict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """Every argument was read back as it was given. `reader` says why an argument was judged by our own reader alone."""

    examples: int
    openapi_core: tuple[str, ...] = ()  # arguments that openapi-core read back as well
    reader: Mapping[str, str]  # argument -> why openapi-core could not judge it


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The smallest arguments found that come out differently, what became of them, and where the description says otherwise.

    `pointer` is a JSON pointer, or a reference that ends in one; empty where the whole operation is meant.
    """

    arguments: Mapping[str, Any]
    reason: str
    sent: str
    pointer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unproven:
    """Nothing was found wrong, but something could not be judged. `reasons` are sentences."""

    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicable:
    """There is no description to prove the tool against."""

    reason: str


Verdict: TypeAlias = Proven | Failed | Unproven | NotApplicable


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReport:
    """One tool and what its proof ended with."""

    tool: str
    origin: str
    verdict: Verdict

    def to_dict(self) -> dict[str, object]:
        """The JSON form: `status` is proven, failed, unproven or not_applicable."""
        head: dict[str, object] = {"tool": self.tool, "origin": self.origin}
        match self.verdict:
            case Proven(examples=examples, openapi_core=core, reader=reader):
                return {**head, "status": "proven", "examples": examples, "openapi_core": core, "reader": dict(reader)}
            case Failed(arguments=arguments, reason=reason, sent=sent, pointer=pointer):
                where = {"pointer": pointer} if pointer else {}
                return {
                    **head,
                    "status": "failed",
                    "reason": reason,
                    **where,
                    "arguments": dict(arguments),
                    "sent": sent,
                }
            case Unproven(reasons=reasons):
                return {**head, "status": "unproven", "reasons": reasons}
            case NotApplicable(reason=reason):
                return {**head, "status": "not_applicable", "reasons": (reason,)}
