"""Flowchart of a workflow, in the language of Mermaid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from toolgen.model.tool import Tool
from toolgen.model.workflow import Step

__all__ = ["flowchart"]

_MAX_LENGTH = 80
_ESCAPES = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "\\": "#92;", "`": "#96;"}


def flowchart(tool: Tool, tools: Mapping[str, Tool]) -> str:
    """Return the steps of a workflow from top to bottom: those of a stage beside each other, an undo with a dotted line.

    Raises `ValueError` for a tool that is not a workflow. `tools` are all tools, for their effects.
    """
    steps = tool.steps
    if steps is None:
        raise ValueError(tool.name)
    return (
        "\n".join(("flowchart TD", *(f"  {line}" for line in _lines(tool, steps.stages, steps.outputs, tools)))) + "\n"
    )


def _lines(
    tool: Tool, stages: tuple[tuple[Step, ...], ...], outputs: Iterable[str], tools: Mapping[str, Tool]
) -> Iterator[str]:
    inputs = ", ".join(tool.input_schema.get("properties") or {})
    yield f'start(["{_text(tool.name)}{f"<br/>{_text(inputs)}" if inputs else ""}"])'
    ids = {step.id: f"s{index}_{number}" for index, stage in enumerate(stages) for number, step in enumerate(stage)}
    before = ["start"]
    for index, stage in enumerate(stages):
        if len(before) > 1 and len(stage) > 1:
            yield f"j{index}(( ))"
            yield from (f"{one} --> j{index}" for one in before)
            before = [f"j{index}"]
        for step in stage:
            yield _node(step, ids[step.id], tools)
            label = " && ".join(one.condition for one in step.when)
            arrow = f'-->|"{_text(label)}"|' if label else "-->"
            yield from (f"{one} {arrow} {ids[step.id]}" for one in before)
            yield from _beside(step, ids, tools)
        before = [ids[step.id] for step in stage]
    yield f'end_(["{_text(", ".join(outputs)) or "done"}"])'
    yield from (f"{one} --> end_" for one in before)


def _node(step: Step, name: str, tools: Mapping[str, Tool]) -> str:
    called = tools.get(step.use.tool)
    effect = "" if called is None else f" ({called.effect.value})"
    label = f"{_text(step.id)}<br/>{_text(step.use.tool)}{effect}"
    if step.each is not None:
        return f'{name}[["{label}<br/>for each, at most {step.at_most}"]]'
    return f'{name}["{label}"]'


def _beside(step: Step, ids: Mapping[str, str], tools: Mapping[str, Tool]) -> Iterator[str]:
    """Yield the lines of a step's undo and of its success and failure actions."""
    name = ids[step.id]
    if step.undo is not None:
        yield f'{name}_u["{_text(step.undo.tool)}"]'
        yield f"{name} -. undo .-> {name}_u"
    for actions, says in ((step.on_success, "then"), (step.on_failure, "on failure")):
        for action in actions:
            if action.does == "retry":
                continue
            label = " && ".join((says, *(one.condition for one in action.criteria)))
            target = ids[action.step] if action.does == "goto" else "end_"
            yield f'{name} -. "{_text(label)}" .-> {target}'


def _text(text: str) -> str:
    """Return a text escaped for Mermaid, without meaning in its syntax."""
    shown = " ".join(text.split())
    shown = shown if len(shown) <= _MAX_LENGTH else shown[: _MAX_LENGTH - 1] + "…"
    return "".join(_ESCAPES.get(one, one if one.isprintable() else "?") for one in shown)
