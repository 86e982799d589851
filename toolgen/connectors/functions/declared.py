"""Functions of a tool resource: those of its Python module, or JSONPath templates of arguments."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from toolgen.connectors.functions.adopted import load_adopted
from toolgen.connectors.functions.context import ToolContext
from toolgen.connectors.functions.decorator import MARK, ToolMark
from toolgen.connectors.functions.signature import Broken, FunctionTool, imported, load_offers, offer_of
from toolgen.connectors.functions.transforms import transform
from toolgen.connectors.tool_resource import Export, read_resource
from toolgen.core.canonical import canonical

__all__ = ["load_tools"]

_TRANSFORM_S = 5.0


def load_tools(
    place: str, root: str, source: str, *, framework: Literal["", "fastmcp", "langchain"] = "", resource: str = ""
) -> Mapping[str, FunctionTool | Broken]:
    """Return the tools of a module: its functions marked with `@tool`, tools of another framework, or the exports of a resource.

    Raises `DescriptionError`.
    """
    if resource:
        return _declared(resource, root, source)
    return load_adopted(framework, place, root) if framework else load_offers(place, root)


def _declared(path: str, root: str, source: str) -> Mapping[str, FunctionTool | Broken]:
    """Return the tools by export. Imports the module of a resource if it has one. Raises `DescriptionError`."""
    resource = read_resource(Path(path), source)
    if resource.kind == "transform":
        return {export.name: _loaded(export, _transform) for export in resource.exports}
    module = imported(resource.base, root)

    def make(export: Export) -> FunctionTool:
        function = getattr(module, export.function, None)
        if not inspect.isfunction(function):
            raise TypeError(f"{resource.base} has no function {export.function}")
        return _function(export, function)

    return {export.name: _loaded(export, make) for export in resource.exports}


def _loaded(export: Export, make: Callable[[Export], FunctionTool]) -> FunctionTool | Broken:
    try:
        return make(export)
    except (AttributeError, TypeError, ValueError) as error:
        return Broken(name=export.name, reason=str(error), line=_line(export))


def _line(export: Export) -> int:
    return int(export.where.rpartition(":")[2])


def _transform(export: Export) -> FunctionTool:
    made = transform(export.result)

    def answer(**arguments: Any) -> Any:
        return made(arguments)

    schema = dict(export.parameters or {})
    return FunctionTool(
        name=export.name,
        function=answer,
        mark=ToolMark(effect=export.effect or "read", title=export.title, idempotent=True, timeout_s=_TRANSFORM_S),
        summary=export.description,
        input_schema=schema,
        output_schema=export.output,
        struct=None,
        context="",
        content=False,
        code=hashlib.sha256(canonical([export.result, schema])).hexdigest(),
        line=_line(export),
    )


def _function(export: Export, function: Any) -> FunctionTool:
    """Return the function, with the resource's texts in place of its own."""
    own = getattr(function, MARK, None)
    mark = own if isinstance(own, ToolMark) else ToolMark(effect="write")
    mark = replace(
        mark,
        name="",
        effect=export.effect or mark.effect,
        title=export.title or mark.title,
        idempotent=mark.idempotent if export.idempotent is None else export.idempotent,
    )
    if export.parameters is not None:
        _check_names(export, function)
    made = _untyped_tool(export, function, mark) if _is_untyped(function) else offer_of(export.name, function, mark)
    if isinstance(made, Broken):
        raise TypeError(made.reason)
    said = canonical([export.parameters, export.output])
    return replace(
        made,
        summary=export.description or made.summary,
        input_schema=made.input_schema if export.parameters is None else dict(export.parameters),
        output_schema=made.output_schema if export.output is None else dict(export.output),
        code=hashlib.sha256(made.code.encode() + said).hexdigest(),
        line=_line(export),
    )


def _is_untyped(function: Any) -> bool:
    return any(one.annotation is one.empty for one in inspect.signature(function).parameters.values())


def _untyped_tool(export: Export, function: Any, mark: ToolMark) -> FunctionTool:
    """Return a function without types: only the resource's schema describes its arguments."""
    if export.parameters is None:
        raise TypeError("a parameter has no type, and the export has no parameters")
    hints = inspect.get_annotations(function, eval_str=True)
    context = next((name for name, kind in hints.items() if kind is ToolContext), "")
    return FunctionTool(
        name=export.name,
        function=function,
        mark=mark,
        summary=inspect.getdoc(function) or "",
        input_schema=export.parameters,
        output_schema=export.output,
        struct=None,
        context=context,
        content=False,
        code=hashlib.sha256(inspect.getsource(function).encode()).hexdigest(),
        line=_line(export),
    )


def _check_names(export: Export, function: Any) -> None:
    """Raise `TypeError` if a valid call by the resource's schema would not fit the function."""
    taken = inspect.signature(function).parameters.values()
    named = {one.name for one in taken if one.kind in {one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY}}
    properties = set((export.parameters or {}).get("properties", {}))
    if not any(one.kind is one.VAR_KEYWORD for one in taken) and (unknown := properties - named):
        raise TypeError(f"{export.function} takes no {min(unknown)}")
    always = set((export.parameters or {}).get("required", []))
    hints = inspect.get_annotations(function, eval_str=True)
    for one in taken:
        needed = one.default is one.empty and one.kind not in {one.VAR_KEYWORD, one.VAR_POSITIONAL}
        if needed and hints.get(one.name) is not ToolContext and one.name not in always:
            raise TypeError(f"{export.function} needs {one.name}, which the parameters do not require")
