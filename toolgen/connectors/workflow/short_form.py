"""Short form of workflows: steps that name tools, one after the other, or several in parallel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.connectors.workflow.draft import (
    MAX_AT_ONCE,
    MAX_ATTEMPTS,
    MAX_EACH,
    MAX_STEPS,
    MAX_WAIT_S,
    DraftUse,
    WorkflowDraft,
    checked,
    checked_criterion,
    fault,
    timeout_of,
)
from toolgen.core.errors import DescriptionError
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.schema import Schema
from toolgen.model.workflow import Criterion, Step, ToolUse

__all__ = ["GivenCriterion", "GivenRetry", "GivenStep", "GivenUse", "GivenWorkflow", "read_short_form"]

_DEFAULT_EACH = 20
_Path = tuple[str | int, ...]


class GivenCriterion(msgspec.Struct, forbid_unknown_fields=True):
    """Condition other than a text: a JSONPath that must select a value, or a regular expression that must match."""

    jsonpath: str = ""
    regex: str = ""
    of: str = ""


class GivenUse(msgspec.Struct, forbid_unknown_fields=True):
    """Call that undoes a step."""

    call: str
    arguments: dict[str, Any] = msgspec.field(name="with", default_factory=dict)


class GivenRetry(msgspec.Struct, forbid_unknown_fields=True):
    """Number of attempts of a step."""

    attempts: int = 3
    wait: str = "1s"


class GivenStep(msgspec.Struct, forbid_unknown_fields=True):
    """Step as it is written."""

    id: str = ""
    call: str = ""
    arguments: dict[str, Any] = msgspec.field(name="with", default_factory=dict)
    when: str | list[str | GivenCriterion] = ""
    for_each: Any = None
    at_most: int = _DEFAULT_EACH
    at_once: int = 1
    retry: GivenRetry | None = None
    expect: str | list[str | GivenCriterion] = ""
    outputs: dict[str, Any] = msgspec.field(default_factory=dict)
    undo: GivenUse | None = None
    parallel: list[Any] = msgspec.field(default_factory=list)


class GivenWorkflow(msgspec.Struct, forbid_unknown_fields=True):
    """Workflow as it is written."""

    steps: list[Any]
    title: str = ""
    description: str = ""
    inputs: dict[str, Any] = msgspec.field(default_factory=dict)
    outputs: dict[str, Any] = msgspec.field(default_factory=dict)
    timeout: str = ""


def read_short_form(document: YamlDocument) -> Iterator[tuple[str, WorkflowDraft | DescriptionError]]:
    """Return each workflow of a file, or its fault, by its name. Raises `DescriptionError` if there is none."""
    found = document.data.get("workflows")
    if not isinstance(found, dict) or not found:
        raise fault("has no workflow under workflows:", document.where("workflows"))
    if unknown := document.data.keys() - {"workflows"}:
        raise fault(f"unknown key '{min(unknown)}' (valid keys: workflows)", document.where(min(unknown)))
    for name in found:
        try:
            yield name, _ShortFormReader(document, name).draft()
        except DescriptionError as error:
            yield name, error


class _ShortFormReader(Struct):
    document: YamlDocument
    name: str
    uses: dict[str, DraftUse] = {}
    undos: dict[str, DraftUse] = {}
    where: dict[str, str] = {}

    def draft(self) -> WorkflowDraft:
        """Return the draft. Raises `DescriptionError` for the first fault."""
        path = ("workflows", self.name)
        given = decode(self.document, path, GivenWorkflow, DescriptionError)
        here = self.where[""] = self.document.where(*path)
        stages = tuple(self._stage((*path, "steps", index)) for index in range(len(given.steps)))
        if not self.uses:
            raise fault("has no step", here)
        if len(self.uses) > MAX_STEPS:
            raise fault(f"has {len(self.uses)} steps, and {MAX_STEPS} are the limit", here)
        for key, value in given.outputs.items():
            where = self.where[f"outputs {key}"] = self.document.where(*path, "outputs", key)
            checked(value, where)
        return WorkflowDraft(
            id=self.name,
            title=given.title,
            description=given.description,
            inputs=inputs_of(given.inputs, self.document.where(*path, "inputs")),
            stages=stages,
            outputs=given.outputs,
            uses=self.uses,
            undos=self.undos,
            where=self.where,
            timeout_s=timeout_of(given.timeout, self.document.where(*path, "timeout")),
        )

    def _stage(self, path: _Path) -> tuple[Step, ...]:
        given = decode(self.document, path, GivenStep, DescriptionError)
        if not given.parallel:
            return (self._step(given, path),)
        if given != GivenStep(parallel=given.parallel):
            raise fault(
                "parallel: cannot be combined with other keys; put them into its steps", self.document.where(*path)
            )
        if len(given.parallel) > MAX_AT_ONCE:
            raise fault(f"parallel: takes at most {MAX_AT_ONCE} steps", self.document.where(*path))
        steps = []
        for index in range(len(given.parallel)):
            inner = (*path, "parallel", index)
            one = decode(self.document, inner, GivenStep, DescriptionError)
            if one.parallel:
                raise fault(
                    "parallel: cannot be nested in parallel: move these steps to the outer one",
                    self.document.where(*inner),
                )
            steps.append(self._step(one, inner))
        return tuple(steps)

    def _step(self, given: GivenStep, path: _Path) -> Step:
        here = self.document.where(*path)
        if not given.id or not given.call:
            raise fault("a step needs an id and the tool that it calls (call:)", here)
        if given.id in self.uses:
            raise fault(f"there are two steps {given.id}", here)
        self.where[given.id] = here
        self.uses[given.id] = self._use(given.call, given.arguments, path)
        if given.undo is not None:
            self.undos[given.id] = self._use(given.undo.call, given.undo.arguments, (*path, "undo"))
        if given.for_each is not None:
            checked(given.for_each, self.document.where(*path, "for_each"))
        for key, value in given.outputs.items():
            checked(value, self.document.where(*path, "outputs", key))
        attempts, wait_s = self._retry(given.retry, path)
        each = given.for_each is not None
        return Step(
            id=given.id,
            use=ToolUse(tool=given.call),
            when=self._criteria(given.when, (*path, "when")),
            each=given.for_each,
            at_most=self._bounded(given.at_most, MAX_EACH, (*path, "at_most")) if each else 0,
            at_once=self._bounded(given.at_once, MAX_AT_ONCE, (*path, "at_once")),
            attempts=attempts,
            wait_s=wait_s,
            expect=self._criteria(given.expect, (*path, "expect")),
            outputs=given.outputs,
        )

    def _use(self, tool: str, arguments: Mapping[str, Any], path: _Path) -> DraftUse:
        places = {}
        for name, value in arguments.items():
            places[name] = self.document.where(*path, "with", name)
            checked(value, places[name])
        return DraftUse(where=self.document.where(*path, "call"), tool=tool, arguments=arguments, places=places)

    def _criteria(self, given: str | list[str | GivenCriterion], path: _Path) -> tuple[Criterion, ...]:
        where = self.document.where(*path)
        listed = ([given] if given else []) if isinstance(given, str) else given
        return tuple(checked_criterion(_criterion(one, where), where) for one in listed)

    def _retry(self, given: GivenRetry | None, path: _Path) -> tuple[int, float]:
        if given is None:
            return 1, 0.0
        wait_s = parse_duration(given.wait)
        if wait_s is None or wait_s > MAX_WAIT_S:
            where = self.document.where(*path, "retry", "wait")
            raise fault(f"wait: takes a time like 500ms or 2s, {MAX_WAIT_S:g}s at most", where)
        return self._bounded(given.attempts, MAX_ATTEMPTS, (*path, "retry", "attempts")), wait_s

    def _bounded(self, value: int, most: int, path: _Path) -> int:
        if not 1 <= value <= most:
            raise fault(f"{path[-1]}: takes 1 to {most}", self.document.where(*path))
        return value


def _criterion(given: str | GivenCriterion, where: str) -> Criterion:
    if isinstance(given, str):
        return Criterion(condition=given)
    if bool(given.jsonpath) == bool(given.regex):
        raise fault("a condition is a text, or has one of jsonpath: and regex:, and of:", where)
    if given.jsonpath:
        return Criterion(condition=given.jsonpath, type="jsonpath", context=given.of)
    return Criterion(condition=given.regex, type="regex", context=given.of)


def inputs_of(given: Mapping[str, Any], where: str) -> Schema:
    """Return the schema of a workflow's inputs: complete, or only its properties, of which those without a default are required."""
    if given.get("type") == "object" and isinstance(given.get("properties"), dict):
        return dict(given)
    for name, schema in given.items():
        if not isinstance(schema, dict):
            raise fault(f"inputs: {name}: takes a JSON Schema, like {{type: string}}", where)
    required = [name for name, schema in given.items() if "default" not in schema]
    made: dict[str, Any] = {"type": "object", "properties": dict(given), "additionalProperties": False}
    return {**made, "required": required} if required else made
