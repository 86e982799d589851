"""Changes of the steps of a workflow."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.model.binding_change import BindingChange, breaking, change
from toolgen.model.tool import Tool, WorkflowBinding
from toolgen.model.workflow import steps_of

__all__ = ["step_changes"]


def step_changes(earlier: Tool, later: Tool) -> Iterator[BindingChange]:
    """Yield changes of a workflow. Reviewers look for the tools it calls; all other differences of its steps are one change."""
    old, new = earlier.binding, later.binding
    if not isinstance(old, WorkflowBinding) or not isinstance(new, WorkflowBinding):
        return
    before, after = ([step.use.tool for step in steps_of(one.stages)] for one in (old, new))
    for tool in dict.fromkeys(name for name in after if name not in before):
        yield breaking("steps", f"now calls {tool}")
    for tool in dict.fromkeys(name for name in before if name not in after):
        yield breaking("steps", f"no longer calls {tool}")
    if set(before) == set(after) and (old.stages, old.outputs) != (new.stages, new.outputs):
        yield breaking("steps", "its steps have changed")
    if old.timeout_s != new.timeout_s:
        times = [f"{one.timeout_s:g} s" if one.timeout_s else "no limit" for one in (old, new)]
        shorter = bool(new.timeout_s) and (not old.timeout_s or new.timeout_s < old.timeout_s)
        yield change(shorter, "timeout", f"the complete run may take {times[1]} (before: {times[0]})")
