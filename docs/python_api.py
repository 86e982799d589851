"""The reference page of the Python package, made from signatures, fields and docstrings of its public names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from types import FunctionType, MemberDescriptorType
from typing import Any, get_args, get_overloads

import toolgen

__all__ = ["MODULES", "SKIPPED", "api_page", "members", "public_names"]

# Modules besides `toolgen` whose names are public, and classes of the objects that public functions return.
MODULES = {
    "toolgen.frontends.adapters.pydantic_ai": ("GatewayToolset",),
    "toolgen.frontends.adapters.langgraph": ("tools",),
    "toolgen.frontends.adapters.openai_agents": ("tools",),
}
RETURNED = {
    "toolgen.model.result": ("Envelope", "Error", "Meta"),
    "toolgen.frontends.python.synchronous": ("SyncGateway",),
    "toolgen.gateway.catalog.gateway_tools": ("GatewayTools",),
    "toolgen.model.call": ("Principal",),
    "toolgen.model.manifest": ("Manifest",),
    "toolgen.model.tool": ("Tool",),
}
# Members for the gateway and its front ends.
SKIPPED = {"Gateway.short_session", "ToolContext.end", "ToolContext.limited", "SyncGateway.opened", "ToolIndex.scored"}
# Records whose fields alone are of interest to a program.
RECORDS = {"Principal", "Tool"}
# Classes whose objects a program receives and does not make.
RECEIVED = {"Gateway", "SyncGateway", "GatewayTools", "ToolContext", "Envelope", "Manifest", "Tool", "GatewayToolset"}
GROUPS = {
    "A gateway in a program": ("Gateway", "serve", "build", "preview", "ToolIndex", "CallError"),
    "Functions as tools": ("tool", "ToolContext", "ToolError", "Retry", "Image", "Audio", "EmbeddedResource"),
    "Prompts and resources": ("prompt", "resource", "completes", "Message"),
    "Middleware": ("Middleware", "CallView", "ToolView", "StepView", "ResultView", "Narrow", "Refuse", "Change"),
    "Detectors": ("Detector", "Finding"),
}
INTRO = """\
Every public name of the package: signature, fields, meaning and errors, from its docstrings. How they are used together is in
[In Python, without files](../how-to/python.md), [Python functions](../how-to/functions.md) and [Middleware](../how-to/middleware.md).
Names that are not here are not public ([versions](versioning.md)).
"""
EXAMPLE = """\
## Try it

```sh
python -c 'import toolgen; help(toolgen.Gateway.from_openapi)'
```
"""


def public_names() -> Iterator[tuple[str, str, object]]:
    """Yield heading, import path and object of each name that has an entry, in the order of the page."""
    for name in (name for group in GROUPS.values() for name in group):
        yield name, f"toolgen.{name}", getattr(toolgen, name)
    for module, names in RETURNED.items():
        for name in names:
            yield _heading(name), f"{module}.{name}", getattr(import_module(module), name)
    for module, names in MODULES.items():
        for name in names:
            yield f"{module.rpartition('.')[2]}.{name}", f"{module}.{name}", getattr(import_module(module), name)


def members(name: str, owner: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties of a class by their names, in the order of its source."""
    for member, value in vars(owner).items():
        plain = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        shown = not member.startswith("_") and f"{name}.{member}" not in SKIPPED and name not in RECORDS
        if shown and isinstance(plain, FunctionType | property):
            yield member, plain


def fields(owner: type) -> dict[str, str]:
    """Return the types of the fields of a record by name, as they are written."""
    slots = {name for name, value in vars(owner).items() if isinstance(value, MemberDescriptorType)}
    found = {name: str(kind) for name, kind in vars(owner).get("__annotations__", {}).items()}
    shown = {name: kind for name, kind in found.items() if name in slots and not name.startswith("_")}
    return {name: _written_out(kind, owner) for name, kind in shown.items()}


def _written_out(kind: str, owner: type) -> str:
    """Return the values of a type that is a short list of them, and else its name."""
    values = get_args(getattr(import_module(owner.__module__), kind, None)) if kind.isidentifier() else ()
    listed = all(isinstance(value, str) for value in values) and 0 < len(values) <= 8
    return f"Literal[{', '.join(map(_literal, values))}]" if listed else kind


def _defaults(owner: type) -> dict[str, str]:
    """Return the defaults of the fields of a record by name, as code, where they are literals."""
    names, given = getattr(owner, "__struct_fields__", ()), getattr(owner, "__struct_defaults__", ())
    pairs = zip(names[len(names) - len(given) :], given, strict=True)
    return {
        name: f"`{_literal(value)}`"
        for name, value in pairs
        if value is None or isinstance(value, str | int | float | tuple)
    }


def signatures(name: str, function: Callable[..., Any], *, bound: bool) -> str:
    """Return the signature of a function as code; that of each form where it has several."""
    lines = []
    for form in get_overloads(function) or [function]:
        known = inspect.signature(form)
        given = [*known.parameters.values()][1 if bound else 0 :]
        shown = known.replace(parameters=[_plain(one) for one in given])
        word = "async def" if inspect.iscoroutinefunction(function) else "def"
        lines.append(f"{word} {name}{_text(shown)}: ...")
    return "```python\n" + "\n".join(lines) + "\n```\n"


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Replace a default that is no literal by dots."""
    literal = isinstance(parameter.default, str | int | float | tuple | None | type(inspect.Parameter.empty))
    return parameter if literal else parameter.replace(default=...)


def _text(signature: inspect.Signature) -> str:
    """Return a signature without quotation marks around its types, a parameter a line if it is long."""
    parts, last = [], None
    for one in signature.parameters.values():
        if last == inspect.Parameter.POSITIONAL_ONLY and one.kind != last:
            parts.append("/")
        if one.kind == inspect.Parameter.KEYWORD_ONLY and last not in {
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
        }:
            parts.append("*")
        last = one.kind
        star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = "" if one.annotation is inspect.Parameter.empty else f": {one.annotation}"
        default = "..." if one.default is ... else _literal(one.default)
        given = "" if one.default is inspect.Parameter.empty else f" = {default}" if kind else f"={default}"
        parts.append(f"{star}{one.name}{kind}{given}")
    if last == inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    answer = "" if signature.return_annotation is inspect.Signature.empty else f" -> {signature.return_annotation}"
    answer = answer.replace("'", '"')
    parts = [one.replace("'", '"') for one in parts]
    line = f"({', '.join(parts)}){answer}"
    return line if len(line) < 90 else "(\n    " + ",\n    ".join(parts) + f",\n){answer}"


def _literal(value: object) -> str:
    """Return a literal as code, its texts between double quotation marks."""
    return repr(value).replace("'", '"')


def prose(text: object) -> str:
    """Return a docstring as Markdown, with what it raises in a paragraph of its own."""
    paragraphs = [" ".join(part.split()) for part in (inspect.getdoc(text) or "").split("\n\n")]
    raised = [one for part in paragraphs for one in re.findall(r"(?:^|(?<=[.:] ))(Raises .*?)\.(?= |$)", part)]
    for one in raised:
        paragraphs = [part.replace(f"{one}.", "").strip() for part in paragraphs]
    shown = [re.sub(r"docs/(?:reference/)?([\w/-]+\.md)", r"[\1](\1)", part) for part in paragraphs if part]
    return "\n\n".join(re.sub(r"(?<!`)\*\*(?!`)", r"\\*\\*", part) for part in [*shown, *(f"{one}." for one in raised)])


def _class_entry(name: str, owner: type) -> str:
    parts = []
    if name not in RECEIVED and not fields(owner) and "__init__" in vars(owner):
        parts.append(signatures(name, owner.__init__, bound=True).replace(" -> None", "").replace("def ", "class ", 1))
    parts.append(f"{prose(owner)}\n")
    if known := fields(owner):
        given = _defaults(owner)
        rows = [(f"`{field}`", f"`{kind}`", given.get(field, "")) for field, kind in known.items()]
        cells = [" | ".join(one.replace("|", "\\|") for one in row) for row in [("Field", "Type", "Default"), *rows]]
        parts.append("\n".join(f"| {row} |" for row in [cells[0], "--- | --- | ---", *cells[1:]]) + "\n")
    for member, value in members(name, owner):
        parts.append(f"### {name}.{member}\n")
        if isinstance(value, property):
            kind = value.fget.__annotations__.get("return", "") if value.fget else ""
            parts.append(f"```python\n{member}: {kind}\n```\n")
        elif callable(value):
            parts.append(signatures(member, value, bound=True))
        parts.append(f"{prose(value)}\n")
    return "\n".join(parts)


def _entry(name: str, path: str, value: object) -> str:
    module = path.rpartition(".")[0]
    source = "" if module == "toolgen" else f"From `{module}`.\n\n"
    if isinstance(value, type):
        return f"## {name}\n\n{source}{_class_entry(value.__name__, value)}"
    if not callable(value):
        raise TypeError(f"{path} is neither a class nor a function")
    return f"## {name}\n\n{source}{signatures(name.rpartition('.')[2], value, bound=False)}\n{prose(value)}\n"


def api_page(note: str) -> str:
    """Return the page."""
    entries = {name: _entry(name, path, value) for name, path, value in public_names()}
    listed = [
        f"- {group}: {', '.join(f'[{name}](#{_anchor(name)})' for name in names)}" for group, names in GROUPS.items()
    ]
    returned = [_heading(name) for names in RETURNED.values() for name in names]
    listed.append(f"- Objects that they return: {', '.join(f'[{name}](#{_anchor(name)})' for name in returned)}")
    adapters = [name for name in entries if "." in name]
    listed.append(f"- Agent frameworks: {', '.join(f'[{name}](#{_anchor(name)})' for name in adapters)}")
    return "\n".join(["# The Python package\n", note, INTRO, *listed, "", *entries.values(), EXAMPLE])


def _heading(name: str) -> str:
    """Return the heading of a class; two headings that differ in the case of letters would have one anchor."""
    taken = {one.lower() for names in GROUPS.values() for one in names}
    return f"{name} (class)" if name.lower() in taken else name


def _anchor(heading: str) -> str:
    return re.sub(r"[.()]", "", heading.lower()).replace(" ", "-")
