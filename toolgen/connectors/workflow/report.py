"""Reports about workflows whose step failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.model.result import Error
from toolgen.model.workflow import Step

__all__ = ["brief", "called_as", "failure", "fault", "said"]


def fault(message: str, code: str = "step_failed") -> dict[str, Any]:
    return {"status": "failed", "data": None, "outputs": {}, "error": {"code": code, "message": message}}


def called_as(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"call_id": found["call_id"]} if found.get("call_id") else {}


def brief(error: Mapping[str, Any]) -> dict[str, Any]:
    return {name: error[name] for name in ("code", "message", "rule", "suggestion") if error.get(name)}


def said(error: Error | None) -> dict[str, Any]:
    return {} if error is None else {"code": error.code, "message": error.message}


def failure(step: Step | None, error: Mapping[str, Any]) -> Error:
    """The error of a workflow whose step failed; None for a step whose tool its caller may not see."""
    unknown = error.get("code") == "outcome_unknown"
    return Error(
        code="outcome_unknown" if unknown else "step_failed",
        message=f"{'a step' if step is None else f'step {step.id}'} failed: {error.get('message') or 'without a word'}",
        suggestion="its data says what was done, what was taken back and what was not; do not make the whole call again before you looked",
    )
