"""Reports about workflows whose step failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.model.result import Error
from toolgen.model.workflow import Step

__all__ = ["brief", "called_as", "error_fields", "failure", "fault"]


def fault(message: str, code: str = "step_failed") -> dict[str, Any]:
    return {"status": "failed", "data": None, "outputs": {}, "error": {"code": code, "message": message}}


def called_as(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"call_id": found["call_id"]} if found.get("call_id") else {}


def brief(error: Mapping[str, Any]) -> dict[str, Any]:
    return {name: error[name] for name in ("code", "message", "rule", "suggestion") if error.get(name)}


def error_fields(error: Error | None) -> dict[str, Any]:
    return {} if error is None else {"code": error.code, "message": error.message}


def failure(step: Step | None, error: Mapping[str, Any]) -> Error:
    """Return the error of a workflow whose step failed. `step` is None if the caller may not see the step's tool."""
    unknown = error.get("code") == "outcome_unknown"
    return Error(
        code="outcome_unknown" if unknown else "step_failed",
        message=f"{'a step' if step is None else f'step {step.id}'} failed: {error.get('message') or 'no reason given'}",
        suggestion="its data lists the completed, the undone and the remaining steps; check it before you repeat the call",
    )
