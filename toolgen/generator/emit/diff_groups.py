"""Grouped changes between two manifests: breaking ones first, equal changes of several tools as one line."""

from __future__ import annotations

import re
from collections.abc import Iterator

from toolgen.generator.emit.diff import ManifestDiff, change_line, printable
from toolgen.model.binding_change import BindingChange

__all__ = ["grouped_lines"]

_LEVELS = ("breaking", "compatible")
_NAMED = 3
_PLACE = re.compile(r"`([^`]+)`")
_LAST_NAME = re.compile(r"[^.\[\]{}]+\Z")


def grouped_lines(difference: ManifestDiff) -> Iterator[str]:
    """Yield a line for each change, or for each change that several tools have: breaking ones first, then those of most tools.

    Changes at several places that end in the same property count as one (`owner.type` and `[].owner.type` as `…type`).
    """
    for level in _LEVELS:
        for name, changes in difference.sources.items():
            yield from (change_line(f"source {name}", one) for one in changes if one.level == level)
        groups: dict[tuple[str, str], dict[str, BindingChange]] = {}
        for tool in difference.tools:
            for change in tool.changes:
                if change.level == level:
                    groups.setdefault((change.code, _anywhere(change.message)), {}).setdefault(tool.name, change)
        for (_, message), tools in sorted(groups.items(), key=lambda group: -len(group[1])):
            if len(tools) == 1:
                ((name, change),) = tools.items()
                yield change_line(name, change)
            else:
                yield f"{level:<10}  {len(tools)} tools: {_told(message, tools)} ({_some(list(tools))})"


def _told(message: str, tools: dict[str, BindingChange]) -> str:
    """Return the message of a group: the common one, or the one for a property in several places."""
    said = {change.message for change in tools.values()}
    return printable(said.pop() if len(said) == 1 else message)


def _anywhere(message: str) -> str:
    """Return a message in which the path of a property is reduced to its last name."""

    def last(found: re.Match[str]) -> str:
        name = _LAST_NAME.search(found[1])
        return found[0] if name is None or name[0] == found[1] else f"`…{name[0]}`"

    return _PLACE.sub(last, message, count=1)


def _some(names: list[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
