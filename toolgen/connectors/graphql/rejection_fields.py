"""Fields of a stored mutation in which the service explains a rejection, added to the fields that a caller selected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from graphql import FieldNode, InlineFragmentNode, Node, SelectionNode
from graphql.language import SelectionSetNode

__all__ = ["with_rejections"]

_AnyNode = TypeVar("_AnyNode", bound=Node)


def with_rejections(
    chosen: SelectionSetNode, stored: SelectionSetNode, paths: Iterable[tuple[str, ...]]
) -> SelectionSetNode:
    """Add the fields that explain a rejection to a selection. Clients that do not select them take a rejection for success.

    Fields with the same name are merged (spec, section 5.3.2), so a path may be added beside the selection of the same field, unless that
    field has arguments.
    """
    there = {one.name.value: one for one in chosen.selections if isinstance(one, FieldNode)}
    added: list[SelectionNode] = []
    for path in dict.fromkeys(paths):
        mine = there.get(path[0]) if path else None
        if path and (mine is None or (len(path) > 1 and not mine.arguments)):
            added += _leading(stored, path)
    return _with(chosen, selections=(*chosen.selections, *added))


def _leading(stored: SelectionSetNode, path: tuple[str, ...]) -> list[SelectionNode]:
    """Return the part of a stored selection along a path."""
    found: list[SelectionNode] = []
    for node in stored.selections:
        if isinstance(node, InlineFragmentNode):
            inner = _leading(node.selection_set, path)
        elif isinstance(node, FieldNode) and (node.alias or node.name).value == path[0]:
            if len(path) == 1:
                found.append(node)
                continue
            inner = [] if node.selection_set is None else _leading(node.selection_set, path[1:])
        else:
            continue
        if inner:
            found.append(_with(node, selection_set=SelectionSetNode(selections=tuple(inner))))
    return found


def _with(node: _AnyNode, **changes: object) -> _AnyNode:
    return type(node)(**{**{key: getattr(node, key) for key in node.keys if hasattr(node, key)}, **changes})
