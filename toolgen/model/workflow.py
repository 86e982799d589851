"""Workflow tools: the steps of a workflow, as a build checked them and as an executor runs them.

Values are written as in the workflow's file; `expressions.py` and `conditions.py` parse the references in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from toolgen.model.binding_properties import BindingProperties

__all__ = ["Action", "CodeBinding", "Criterion", "Step", "ToolUse", "WorkflowBinding", "steps_of"]


class Criterion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Condition. `context` is the expression whose value a regular expression or a JSONPath is matched with; with `fold`, a simple
    condition ignores case.
    """

    condition: str
    type: Literal["simple", "regex", "jsonpath"] = "simple"
    context: str = ""
    fold: bool = False


class ToolUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Call to a tool. The members of the object in `spread` become arguments too, under the names in `names`."""

    tool: str
    arguments: dict[str, Any] = {}
    spread: Any = None
    names: dict[str, str] = {}


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Action after a step if all `criteria` are true: end the workflow, continue at another step, or retry the step."""

    does: Literal["end", "goto", "retry"]
    step: str = ""
    criteria: tuple[Criterion, ...] = ()
    after_s: float = 0.0
    limit: int = 1


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step. It is skipped unless all of `when` are true, and succeeds if all of `expect` are true, or without any, if the call succeeds.

    With `each` it runs for each element of a list, of `at_most` elements, `at_once` at a time. `attempts` counts the first.
    `undo` reverts it if a later step fails.
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


class WorkflowBinding(
    BindingProperties, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="workflow"
):
    """Calls to other tools, with the workflow's name in its file. Steps of one stage run at the same time, and stages one after the
    other; `outputs` is the tool's answer. After `timeout_s` seconds no further step starts, and it fails; 0: no limit.
    """

    workflow: str
    stages: tuple[tuple[Step, ...], ...]
    outputs: dict[str, Any] = msgspec.field(default_factory=dict)
    timeout_s: float = 0.0
    arguments: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def kind(self) -> str:
        return "workflow"

    @property
    def makes_calls(self) -> bool:
        """True: each step is a call."""
        return True

    @property
    def keeps_values(self) -> bool:
        """True: values are those of the calls that are made."""
        return True


class CodeBinding(BindingProperties, frozen=True, kw_only=True, tag_field="kind", tag="code"):
    """Python that the caller writes, in a sandbox that can only call the caller's own tools, with limits of time, memory, calls and size
    of the answer (bytes).
    """

    time_s: float
    memory: int
    calls: int
    output: int

    @property
    def kind(self) -> str:
        return "code"

    @property
    def takes_code(self) -> bool:
        """True: the program is an argument."""
        return True

    @property
    def makes_calls(self) -> bool:
        """True: the program may call any tool of its caller."""
        return True

    @property
    def keeps_values(self) -> bool:
        """True: values are those of the calls that are made."""
        return True


def steps_of(stages: tuple[tuple[Step, ...], ...]) -> Iterator[Step]:
    """All steps, in their order."""
    for stage in stages:
        yield from stage
