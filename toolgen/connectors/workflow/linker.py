"""Linker of workflows: steps are connected to the tools that they call, without circles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.link_checks import LinkChecks
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.connectors.workflow.draft import DraftUse, WorkflowDraft
from toolgen.connectors.workflow.read import Drafts
from toolgen.connectors.workflow.reference_check import check_references
from toolgen.connectors.workflow.step_arguments import StepCall, step_call
from toolgen.core.errors import DescriptionError
from toolgen.core.spelling import nearest
from toolgen.model.argument_names import with_listed_arguments
from toolgen.model.manifest import Problem
from toolgen.model.tool import Effect, Tool, WorkflowBinding
from toolgen.model.workflow import Step

__all__ = ["link_workflows"]

MAX_DEPTH = 5
"""Maximum nesting of workflows, equal to the gateway's limit on nested calls."""
_STRENGTH = {Effect.READ: 0, Effect.WRITE: 1, Effect.DESTRUCTIVE: 2}


class _Linked(Struct):
    """Workflow during linking."""

    source: str
    draft: WorkflowDraft
    tool: Tool
    faults: list[DescriptionError] = []
    remarks: list[str] = []
    calls: list[str] = []  # called workflows, by the names of their tools
    depth: int = 1
    done: bool = False


def link_workflows(
    readings: Mapping[str, SourceReading], configs: Mapping[str, SourceConfig], checks: LinkChecks
) -> Mapping[str, SourceReading]:
    """Return the readings with every workflow completed. A workflow with a fault has no tool, but a problem with the line."""
    drafts = {name: reading.drafts for name, reading in readings.items() if isinstance(reading.drafts, Drafts)}
    linker = _Linker(readings, drafts, configs, checks)
    made = linker.all()
    changed = dict(readings)
    for source in drafts:
        reading, own = readings[source], [one for one in made if one.source == source]
        changed[source] = replace(
            reading,
            tools=tuple(one.tool for one in own if not one.faults),
            problems=(*reading.problems, *(problem for one in own for problem in _problems(one))),
        )
    return changed


def _problems(one: _Linked) -> Iterator[Problem]:
    for fault in one.faults:
        message = f"{fault}; the workflow has no tool"
        yield Problem(level="error", source=one.source, origin=one.draft.id, code="bad_workflow", message=message)
    for remark in dict.fromkeys(one.remarks):
        yield Problem(level="warning", source=one.source, origin=one.draft.id, code="workflow", message=remark)


class _Linker:
    def __init__(
        self,
        readings: Mapping[str, SourceReading],
        drafts: Mapping[str, Drafts],
        configs: Mapping[str, SourceConfig],
        checks: LinkChecks,
    ) -> None:
        self._readings, self._drafts, self._configs, self._checks = readings, drafts, configs, checks
        self._tools = {
            tool.name: tool for name, reading in readings.items() if name not in drafts for tool in reading.tools
        }
        self._workflows = {
            tool.name: _Linked(source, drafts[source].workflows[tool.origin], tool)
            for source in drafts
            for tool in readings[source].tools
        }
        self._path: list[str] = []

    def all(self) -> tuple[_Linked, ...]:
        """Link all workflows, called ones before their callers."""
        for name in self._workflows:
            self._link(name)
        return tuple(self._workflows.values())

    def _link(self, name: str) -> None:
        one = self._workflows[name]
        if one.done or name in self._path:
            return
        self._path.append(name)
        uses = [(step, draft, False) for step, draft in one.draft.uses.items()]
        uses += [(step, draft, True) for step, draft in one.draft.undos.items()]
        found: dict[tuple[str, bool], StepCall] = {}
        for step, draft, undoes in uses:
            try:
                tool = self._target(one, draft)
                found[step, undoes] = step_call(draft, tool, self._checks)
                one.remarks += found[step, undoes].remarks
            except DescriptionError as error:
                one.faults.append(error)
        self._path.pop()
        one.done = True
        if one.depth > MAX_DEPTH:
            message = f"{one.depth} workflows are nested, and {MAX_DEPTH} are the limit"
            one.faults.append(DescriptionError(message, where=one.draft.where[""]))
        stages = tuple(tuple(_completed(step, found) for step in stage) for stage in one.draft.stages)
        tools = {step: made.tool for (step, undoes), made in found.items() if not undoes}
        faults, remarks = check_references(one.draft, stages, tools)
        one.faults += faults
        one.remarks += remarks
        if not one.faults:
            one.tool = _sealed(one, stages, [made.tool for made in found.values()])

    def _target(self, one: _Linked, use: DraftUse) -> Tool:
        """Return the tool of a step. Raises `DescriptionError`."""
        tool = self._by_name(use) if use.tool else self._of_arazzo(one, use)
        inner = self._workflows.get(tool.name)
        if inner is None:
            return tool
        if tool.name in self._path:
            circle = " -> ".join((*self._path[self._path.index(tool.name) :], tool.name))
            raise DescriptionError(f"the workflows call each other in a circle: {circle}", where=use.where)
        self._link(tool.name)
        if inner.faults:
            raise DescriptionError(f"{tool.name} is a workflow without a tool", where=use.where)
        one.depth = max(one.depth, inner.depth + 1)
        return inner.tool

    def _by_name(self, use: DraftUse) -> Tool:
        if (found := self._tools.get(use.tool)) is not None:
            return found
        if (inner := self._workflows.get(use.tool)) is not None:
            return inner.tool
        known = (*self._tools, *self._workflows)
        raise DescriptionError(f"there is no tool {use.tool[:80]}{nearest(use.tool, known)}", where=use.where)

    def _of_arazzo(self, one: _Linked, use: DraftUse) -> Tool:
        if use.workflow and not use.source:
            names = {inner.draft.id: name for name, inner in self._workflows.items() if inner.source == one.source}
            if use.workflow not in names:
                raise DescriptionError(f"the workflow {use.workflow} has no tool", where=use.where)
            return self._workflows[names[use.workflow]].tool
        sources = self._sources(one, use)
        word = use.operation or use.origin or use.workflow
        found = [tool for source in sources for tool in self._offered(source) if word in self._words(source, tool)]
        if len(found) == 1:
            return found[0]
        if found:
            raise DescriptionError(
                f"{word} is an operation of {len(found)} tools: {', '.join(tool.name for tool in found[:5])}",
                where=use.where,
                suggestion=f"name the source: $sourceDescriptions.NAME.{word}",
            )
        known = {key for source in sources for tool in self._offered(source) for key in self._words(source, tool)}
        raise DescriptionError(
            f"{', '.join(sources)} has no operation {word[:80]} with a tool{nearest(word, known)}", where=use.where
        )

    def _offered(self, source: str) -> Sequence[Tool]:
        return self._readings[source].tools

    def _words(self, source: str, tool: Tool) -> tuple[str, str]:
        """Return the names of an operation in an Arazzo document: its operationId, and its pointer in its own document."""
        return self._readings[source].identifiers.get(tool.origin, ""), tool.origin

    def _sources(self, one: _Linked, use: DraftUse) -> tuple[str, ...]:
        """Return the sources of toolgen.yaml for a source description: the one with its name, or those with the same file or URL."""
        described = self._drafts[one.source].sources
        names = (use.source,) if use.source else tuple(described)
        if use.source and use.source not in described:
            raise DescriptionError(
                f"there is no source description {use.source}{nearest(use.source, described)}", where=use.where
            )
        found: list[str] = []
        for name in names:
            found += [name] if name in self._readings else self._sources_at(described[name])
        if not found:
            raise DescriptionError(
                f"no source of toolgen.yaml is called {' or '.join(names)}, or reads the same description",
                where=use.where,
                suggestion=f"name the source description as one of {', '.join(sorted(self._readings))}",
            )
        return tuple(dict.fromkeys(found))

    def _sources_at(self, url: str) -> list[str]:
        name = PurePosixPath(url.partition("?")[0]).name
        return [
            source
            for source, config in self._configs.items()
            if config.location == url or (source not in self._drafts and Path(config.location).name == name)
        ]


def _completed(step: Step, found: Mapping[tuple[str, bool], StepCall]) -> Step:
    made, undo = found.get((step.id, False)), found.get((step.id, True))
    changes: dict[str, Any] = {} if made is None else {"use": made.use}
    if undo is not None:
        changes["undo"] = undo.use
    return msgspec.structs.replace(step, **changes)


def _sealed(one: _Linked, stages: tuple[tuple[Step, ...], ...], called: Sequence[Tool]) -> Tool:
    """Return the tool of a valid workflow. Its effect is the strongest effect of the tools that it calls."""
    effect = max((one.tool.effect, *(tool.effect for tool in called)), key=_STRENGTH.__getitem__)
    binding = WorkflowBinding(
        workflow=one.draft.id, stages=stages, outputs=dict(one.draft.outputs), timeout_s=one.draft.timeout_s
    )
    idempotent = all(tool.idempotent for tool in called)
    made = msgspec.structs.replace(
        one.tool, effect=effect, idempotent=idempotent, input_schema=one.draft.inputs, binding=binding
    )
    return with_listed_arguments(made)
