"""Fields that failed for a principal before: default selections leave them out for a while, and say so."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    InlineFragmentNode,
    NameNode,
    Node,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    print_ast,
)
from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.connectors.graphql.mutation_outcome import path_of
from toolgen.core.clock import Clock
from toolgen.model.call import Call, parties
from toolgen.model.result import Failed, Shape, Success
from toolgen.model.schema import Json

__all__ = ["FailedFields", "without"]

_SECONDS = 900.0  # after which a field is asked for again
_MAX_CALLERS, _MAX_FIELDS = 10_000, 50
_TOLD = "left out: this field failed for you before, and is asked for again later; ask for it now with the argument that chooses fields"
_AGAIN = "call again: the fields that failed are left out of what is read by default"
_Path = tuple[str, ...]
_Key = tuple[object, ...]


class FailedFields(Struct):
    """In the memory of one process, by caller and tool. A field is left out only after it failed everywhere in an answer.

    It is not shared: a process that does not know of a failure asks for the field, is told of it beside the answer, and knows then. To
    share it, every read of default fields would have to wait for an answer about it, which costs more than that one request in 15 minutes.
    """

    clock: Clock
    _until: OrderedDict[_Key, dict[_Path, float]] = field(default_factory=OrderedDict)

    def paths(self, call: Call) -> frozenset[_Path]:
        """The response names that lead to the fields to leave out of a call."""
        if not self._until:
            return frozenset()
        known = self._until.get(_key(call), {})
        now = self.clock.monotonic()
        return frozenset(path for path, until in known.items() if until > now)

    def noted(self, call: Call, outcome: Success | Failed, left_out: frozenset[_Path]) -> Success | Failed:
        """Return the outcome of a read of default fields, with a message for each omitted field. Remembers the fields that failed."""
        found = dict.fromkeys(_failed(outcome))
        if found:
            self._remember(_key(call), found)
        if isinstance(outcome, Failed):
            error = replace(outcome.error, suggestion=_AGAIN) if found else outcome.error
            return replace(outcome, error=error)
        if not left_out:
            return outcome
        told: list[Json] = [{"message": _TOLD, "path": [*path]} for path in sorted(left_out)]
        data = outcome.data
        if outcome.shape is Shape.GRAPHQL and isinstance(data, Mapping):
            errors = data.get("errors")
            earlier = errors if isinstance(errors, list) else []
            return replace(outcome, data={**data, "errors": [*earlier, *told]})
        return replace(outcome, data={"data": data, "errors": told}, shape=Shape.GRAPHQL)

    def _remember(self, key: _Key, found: Iterable[_Path]) -> None:
        now = self.clock.monotonic()
        known = {path: until for path, until in self._until.get(key, {}).items() if until > now}
        for path in found:
            if path in known or len(known) < _MAX_FIELDS:
                known[path] = now + _SECONDS
        self._until[key] = known
        self._until.move_to_end(key)
        if len(self._until) > _MAX_CALLERS:
            self._until.popitem(last=False)


def _key(call: Call) -> _Key:
    return (*parties(call.principal), call.tool.digest or call.tool.name)


def _failed(outcome: Success | Failed) -> Iterator[_Path]:
    """The fields below the root field that failed wherever they were asked for."""
    told = outcome.data if outcome.shape is Shape.GRAPHQL else None
    errors = told.get("errors") if isinstance(told, Mapping) else None
    if not isinstance(told, Mapping) or not isinstance(errors, list):
        return
    if isinstance(outcome, Failed) and outcome.error.code != "upstream_error":
        return
    for error in errors:
        path = tuple(str(step) for step in path_of(error) if not isinstance(step, int))
        if len(path) > 1 and not _is_there(told.get("data"), path):
            yield path


def _is_there(value: Json, path: _Path) -> bool:
    """Return True if a path leads to a value, in any item of the lists on the way."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(_is_there(one, path) for one in value)
    if not path:
        return value is not None
    return isinstance(value, Mapping) and _is_there(value.get(path[0]), path[1:])


def without(document: DocumentNode, paths: frozenset[_Path]) -> str:
    """A stored operation without the fields at these paths; an object of which nothing is left says its type."""
    [operation] = [one for one in document.definitions if isinstance(one, OperationDefinitionNode)]
    return print_ast(_with(operation, selection_set=_less(operation.selection_set, paths, ())))


def _less(selections: SelectionSetNode, paths: frozenset[_Path], above: _Path) -> SelectionSetNode:
    kept: list[SelectionNode] = []
    for node in selections.selections:
        match node:
            case FieldNode():
                here = (*above, (node.alias or node.name).value)
                if here in paths and above:
                    continue
                below = node.selection_set
                kept.append(node if below is None else _with(node, selection_set=_less(below, paths, here)))
            case InlineFragmentNode():
                kept.append(_with(node, selection_set=_less(node.selection_set, paths, above)))
            case _:
                kept.append(node)
    if not kept:
        kept.append(FieldNode(name=NameNode(value="__typename"), arguments=(), directives=()))
    return SelectionSetNode(selections=tuple(kept))


def _with(node: Any, **changes: Node) -> Any:
    return type(node)(**{**{key: getattr(node, key) for key in node.keys if hasattr(node, key)}, **changes})
