"""Ids of operations in their own descriptions, by which a model may know a tool: `issues/create`, `listPets`, `approveOrder`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from toolgen.model.tool import Tool

__all__ = ["OperationNames", "no_operation"]

_WORD: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_MAX_LENGTH: Final = 200


def no_operation(tool: Tool) -> str:
    """Return the operation id in a tool's binding."""
    return tool.binding.own_operation


class OperationNames:
    """Tools of one catalog by the ids of their operations, as written or in snake case, with or without the source's name in front.

    An id that several tools of the catalog share, in any spelling, is ambiguous and finds none of them.
    """

    def __init__(self, catalog: Iterable[Tool], operation: Callable[[Tool], str]) -> None:
        self._by_id: dict[str, list[Tool]] = {}
        for tool in catalog:
            if spelt := _snake(operation(tool)):
                self._by_id.setdefault(spelt, []).append(tool)
                self._by_id.setdefault(f"{_snake(tool.source)}_{spelt}", []).append(tool)

    def tool(self, name: str) -> Tool | None:
        """Return the only tool whose operation has this id; None if there is none, or several."""
        found = self._by_id.get(_snake(name), ())
        return found[0] if len(found) == 1 else None


def _snake(identifier: str) -> str:
    return "_".join(_WORD.findall(identifier[:_MAX_LENGTH])).lower()
