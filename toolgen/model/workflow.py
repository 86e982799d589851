"""Tools made of tools: the steps of a workflow, as a build checked them and as an executor goes through them.

Values are written as a workflow's file has them: what in them stands for others is read by `expressions.py` and `conditions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

__all__ = ["Action", "CodeBinding", "Criterion", "Step", "ToolUse", "WorkflowBinding", "steps_of"]


class Criterion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What has to hold. `context` is the expression that a regular expression or a JSONPath is held against; with `fold`, the case of
    letters makes no difference in a simple condition."""

    condition: str
    type: Literal["simple", "regex", "jsonpath"] = "simple"
    context: str = ""
    fold: bool = False


class ToolUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call to a tool. The members of the object that `spread` stands for become arguments too, under the names that `names` has."""

    tool: str
    arguments: dict[str, Any] = {}
    spread: Any = None
    names: dict[str, str] = {}


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What follows a step where all `criteria` hold: the workflow ends, goes on at another step, or the step is tried again."""

    does: Literal["end", "goto", "retry"]
    step: str = ""
    criteria: tuple[Criterion, ...] = ()
    after_s: float = 0.0
    limit: int = 1


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step. It is left out unless all of `when` hold, and succeeded where all of `expect` do, or the call itself where there is none.

    With `each` it is made for each element of a list, of `at_most` elements, `at_once` at a time. `attempts` counts the first.
    `undo` takes back what it did, where a later step fails.
    """

    id: str
    use: ToolUse
    when: tuple[Criterion, ...] = ()
    each: Any = None
    at_most: int = 0
    at_once: int = 1
    attempts: int = 1
    wait_s: float = 0.0
    expect: tuple[Criterion, ...] = ()
    outputs: dict[str, Any] = {}
    undo: ToolUse | None = None
    on_success: tuple[Action, ...] = ()
    on_failure: tuple[Action, ...] = ()


class WorkflowBinding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="workflow"):
    """Calls to other tools, by the name that its file gives the workflow. Steps of one stage are made at the same time, and stages one
    after the other; `outputs` is what the tool answers with. After `timeout_s` seconds nothing more is begun, and it fails; 0: no limit."""

    workflow: str
    stages: tuple[tuple[Step, ...], ...]
    outputs: dict[str, Any] = {}
    timeout_s: float = 0.0
    arguments: dict[str, str] = {}

    @property
    def kind(self) -> str:
        return "workflow"


class CodeBinding(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="code"):
    """Python that the caller writes, in a sandbox whose only way out is the caller's own tools: for so long, with so much memory, so many
    calls and so large an answer (bytes)."""

    time_s: float
    memory: int
    calls: int
    output: int

    @property
    def kind(self) -> str:
        return "code"


def steps_of(stages: tuple[tuple[Step, ...], ...]) -> Iterator[Step]:
    """All steps, in their order."""
    for stage in stages:
        yield from stage
