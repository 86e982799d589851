"""Descriptions from docstrings: of the function and of each argument, in Google's, NumPy's and Sphinx's styles."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["documented"]

_GOOGLE = re.compile(r"\s*(Args|Arguments|Parameters|Returns|Raises|Yields|Example|Examples|Note|Notes):\s*\Z")
_GOOGLE_ENTRY = re.compile(r"\s*\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)\Z")
_NUMPY = re.compile(
    r"(Parameters|Other Parameters|Returns|Yields|Receives|Raises|Warns|Warnings|See Also|Notes|References|Examples)\Z"
)
_UNDERLINE = re.compile(r"\s*-{3,}\s*\Z")
_NUMPY_ENTRY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?\Z")
_SPHINX = re.compile(r"\s*:(\w+)((?:\s+[^\s:]+)*)\s*:\s*(.*)\Z")
_SPHINX_ARGUMENTS = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})
_SPHINX_OTHERS = frozenset({"type", "return", "returns", "rtype", "raise", "raises", "except", "exception", "meta"})
_ARGUMENTS = frozenset({"Args", "Arguments", "Parameters", "Other Parameters"})


def documented(text: str) -> tuple[str, Mapping[str, str]]:
    """Return the description without its sections, and the description of each argument by its name. The text is cleaned, as by
    `inspect.getdoc`.
    """
    said: list[str] = []
    told: dict[str, list[str]] = {}
    section = ""
    names: tuple[str, ...] = ()
    lines = text.splitlines()
    for at, line in enumerate(lines):
        following = lines[at + 1] if at + 1 < len(lines) else ""
        if found := _NUMPY.match(line.strip()) if _UNDERLINE.match(following) else None:
            section, names = f"numpy {found[1]}", ()
        elif found := _GOOGLE.match(line):
            section, names = f"google {found[1]}", ()
        elif field := _sphinx(line):
            section, names = "sphinx", _entered(told, field[0], field[1])
        elif section.startswith("numpy") and _UNDERLINE.match(line):
            continue
        elif section.partition(" ")[2] in _ARGUMENTS:
            names = _argument(told, line, names, numpy=section.startswith("numpy"))
        elif section == "sphinx" and line.strip() and not line.startswith((" ", "\t")):
            section, names = "", ()  # a paragraph after the fields belongs to the description
            said.append(line)
        elif section:
            _more(told, names, line)
        else:
            said.append(line)
    return "\n".join(said).strip(), {name: " ".join(parts) for name, parts in told.items()}


def _argument(told: dict[str, list[str]], line: str, names: tuple[str, ...], *, numpy: bool) -> tuple[str, ...]:
    """Read a line of the section on arguments: the first line of an entry, or the continuation of the last entry."""
    if not line.strip():
        return names
    if numpy:
        found = None if line.startswith((" ", "\t")) else _NUMPY_ENTRY.match(line)
        if found:
            return _entered(told, tuple(name.strip().lstrip("*") for name in found[1].split(",")), "")
    elif found := _GOOGLE_ENTRY.match(line):
        return _entered(told, (found[1],), found[2])
    _more(told, names, line)
    return names


def _entered(told: dict[str, list[str]], names: tuple[str, ...], text: str) -> tuple[str, ...]:
    for name in names:
        told[name] = [text.strip()] if text.strip() else []
    return names


def _more(told: dict[str, list[str]], names: tuple[str, ...], line: str) -> None:
    for name in names:
        if line.strip():
            told[name].append(line.strip())


def _sphinx(line: str) -> tuple[tuple[str, ...], str] | None:
    """Return the argument of a field list's entry, () for an entry about something else; None for any other line."""
    found = _SPHINX.match(line)
    if found is None:
        return None
    words = found[2].split()
    if found[1] in _SPHINX_ARGUMENTS and words:
        return (words[-1].lstrip("*").lstrip("\\*"),), found[3]
    return ((), "") if found[1] in _SPHINX_OTHERS else None
