"""Memory of fields that failed for a principal: default selections omit them for a while, and report that."""

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

_SECONDS = 900.0  # seconds until a field is requested again
_MAX_CALLERS, _MAX_FIELDS = 10_000, 50
_TOLD = "left out: this field failed for you before. It will be read again later; to read it now, use the argument that selects fields"
_AGAIN = "call again: the default selection now leaves out the fields that failed"
_Path = tuple[str, ...]
_Key = tuple[object, ...]


class FailedFields(Struct):
    """Failed fields by caller and tool, in the memory of one process. A field is omitted only after it failed in all items of an answer.

    The memory is not shared: another process requests the field, gets the error with the answer, and then knows it too. A shared memory
    would delay every read with default fields, which costs more than that one request in 15 minutes.
    """

    clock: Clock
    _until: OrderedDict[_Key, dict[_Path, float]] = field(default_factory=OrderedDict)

    def paths(self, call: Call) -> frozenset[_Path]:
        """Return the response names that lead to the fields to omit from a call."""
        if not self._until:
            return frozenset()
        known = self._until.get(_key(call), {})
        now = self.clock.monotonic()
        return frozenset(path for path, until in known.items() if until > now)

    def with_messages(self, call: Call, outcome: Success | Failed, left_out: frozenset[_Path]) -> Success | Failed:
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
    """Yield the fields below the root field that failed in all places."""
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
    """Return a stored operation without the fields at these paths; an object without remaining fields gets `__typename`."""
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
