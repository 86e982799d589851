"""Check of workflow expressions: each refers to an earlier step, to an existing output of a step, or to an input of the workflow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from toolgen.connectors.workflow.draft import WorkflowDraft
from toolgen.core.errors import DescriptionError
from toolgen.core.spelling import nearest
from toolgen.model.conditions import condition_references, parse_condition
from toolgen.model.expressions import PathQuery, ValueReference, parse, parse_reference, references
from toolgen.model.tool import Tool
from toolgen.model.workflow import Criterion, Step, ToolUse

__all__ = ["check_references"]

_PARTS = ("call_id", "data", "error", "http_status", "outputs", "status")
_PATH_STEP = re.compile(r"\$(?:\.|\[['\"])(steps|inputs)(?:\.|['\"]\]\[['\"]|\[['\"])([A-Za-z0-9_-]+)")
_OWN = frozenset({"data", "http_status"})
_ITEM = frozenset({"item", "index"})


def check_references(
    draft: WorkflowDraft, stages: tuple[tuple[Step, ...], ...], tools: Mapping[str, Tool]
) -> tuple[list[DescriptionError], list[str]]:
    """Return references without a target, with their lines, and remarks about references that probably have none."""
    checker = _Checker(draft, {step.id: step for stage in stages for step in stage}, tools)
    before: set[str] = set()
    for stage in stages:
        for step in stage:
            checker.step(step, frozenset(before))
        before |= {step.id for step in stage}
    for name, value in draft.outputs.items():
        checker.value(value, draft.where.get(f"outputs {name}", draft.where[""]), _KnownReferences(frozenset(before)))
    return checker.faults, checker.remarks


class _KnownReferences(Struct, frozen=True):
    """Allowed targets of an expression: steps, and roots other than `inputs` and `steps`."""

    steps: frozenset[str]
    roots: frozenset[str] = frozenset()


class _Checker(Struct):
    draft: WorkflowDraft
    steps: Mapping[str, Step]
    tools: Mapping[str, Tool]
    faults: list[DescriptionError] = []
    remarks: list[str] = []

    def step(self, step: Step, before: frozenset[str]) -> None:
        """Check every expression of a step against its allowed targets."""
        where, item = self.draft.where[step.id], _ITEM if step.each is not None else frozenset()
        own = item | (_OWN if (called := self.tools.get(step.id)) is not None and called.sends_request else {"data"})
        self.criteria(step.when, where, _KnownReferences(before))
        if step.each is not None:
            self.value(step.each, where, _KnownReferences(before))
        self.use(step.use, self.draft.uses[step.id].places, where, _KnownReferences(before, item))
        self.criteria(step.expect, where, _KnownReferences(before, own))
        for value in step.outputs.values():
            self.value(value, where, _KnownReferences(before, own))
        if step.undo is not None:
            undo = self.draft.undos[step.id]
            self.use(step.undo, undo.places, undo.where, _KnownReferences(before | {step.id}, own))
        for action in (*step.on_success, *step.on_failure):
            self.criteria(action.criteria, where, _KnownReferences(before, own))

    def use(self, use: ToolUse, places: Mapping[str, str], where: str, allowed: _KnownReferences) -> None:
        for name, value in use.arguments.items():
            self.value(value, places.get(name, where), allowed)
        if use.spread is not None:
            self.value(use.spread, where, allowed)

    def value(self, value: Any, where: str, allowed: _KnownReferences) -> None:
        for one in references(parse(value)):
            self._check(one, where, allowed)

    def criteria(self, criteria: tuple[Criterion, ...], where: str, allowed: _KnownReferences) -> None:
        for one in criteria:
            for reference in _of_criterion(one):
                self._check(reference, where, allowed)

    def _check(self, one: ValueReference | PathQuery, where: str, allowed: _KnownReferences) -> None:
        if isinstance(one, PathQuery):
            if (found := _PATH_STEP.match(one.text)) is not None:
                path: tuple[str | int, ...] = (found[2],)
                self._check(ValueReference(one.text[:60], found[1], path), where, allowed)
            return
        match one.root:
            case "inputs":
                self._input(one, where)
            case "steps":
                self._earlier(one, where, allowed)
            case root if root not in allowed.roots:
                self._fault(f"{one.text} {_MISPLACED[root]}", where)

    def _input(self, one: ValueReference, where: str) -> None:
        schema = self.draft.inputs
        known = schema.get("properties") or {}
        if one.path and one.path[0] not in known and not schema.get("additionalProperties"):
            self._fault(f"{one.text}: there is no input {one.path[0]}{nearest(str(one.path[0]), known)}", where)

    def _earlier(self, one: ValueReference, where: str, allowed: _KnownReferences) -> None:
        if not one.path:
            return self._fault(f"{one.text} names no step", where)
        name = str(one.path[0])
        if name not in self.steps:
            return self._fault(f"{one.text}: there is no step {name}{nearest(name, self.steps)}", where)
        if name not in allowed.steps:
            return self._fault(f"{one.text}: step {name} is not executed before this", where)
        if len(one.path) < 2:
            return None
        part, step = str(one.path[1]), self.steps[name]
        if part not in _PARTS:
            return self._fault(f"{one.text}: a step has no {part}{nearest(part, _PARTS)}", where)
        if part == "outputs" and len(one.path) > 2 and one.path[2] not in step.outputs:
            output = str(one.path[2])
            return self._fault(f"{one.text}: step {name} has no output {output}{nearest(output, step.outputs)}", where)
        if part == "data" and step.each is None:
            self._member(one, name, where)
        return None

    def _member(self, one: ValueReference, name: str, where: str) -> None:
        """Add a remark on a member of an answer that the answer's schema does not have, if the schema lists its members."""
        tool = self.tools.get(name)
        schema = tool.output_schema if tool is not None else None
        if tool is None or schema is None or len(one.path) < 3 or not isinstance(one.path[2], str):
            return
        known = schema.get("properties")
        if schema.keys() & {"$ref", "allOf", "anyOf", "oneOf"} or not isinstance(known, Mapping):
            return
        if schema.get("type") == "object" and one.path[2] not in known:
            close = nearest(one.path[2], known)
            self.remarks.append(
                f"{where}: {one.text}: the schema of {tool.name}'s answers does not have {one.path[2]}{close}"
            )

    def _fault(self, message: str, where: str) -> None:
        self.faults.append(DescriptionError(message, where=where))


_MISPLACED = {
    "data": "exists only after the call: in outputs, expect and undo",
    "http_status": "exists only after a call over HTTP",
    "item": "exists only with for_each",
    "index": "exists only with for_each",
}


def _of_criterion(one: Criterion) -> Iterator[ValueReference]:
    if one.type == "simple":
        yield from condition_references(parse_condition(one.condition))
    elif one.context:
        yield parse_reference(one.context)
