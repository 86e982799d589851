"""YAML text of a description into a value: YAML 1.2's core schema, without tags of other kinds, and with whatever key stands twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import yaml

from toolgen.connectors.parsed_document import MAX_DEPTH, MAX_REPEATED, ParsedDocument, Repeated, escape, measure
from toolgen.core.errors import DescriptionError

__all__ = ["read_yaml"]

_MAX_MERGED = 1_000_000
_MERGE = "tag:yaml.org,2002:merge"


class _SyntaxLoader(yaml.CSafeLoader):
    """YAML 1.2's core schema (what OpenAPI asks for): `on`, `no`, `010` and dates stay text; keys are always text."""

    # Of its own, or the resolvers added below would be added to PyYAML's.
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}  # type: ignore[misc]

    _depth = 0

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.repeating: list[tuple[yaml.MappingNode, yaml.ScalarNode]] = []
        self._merging = 0
        self._own: dict[int, list[tuple[yaml.Node, yaml.Node]]] = {}

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """Called before each node is composed, which libyaml's binding does recursively in C: too deep is a crash, not an error."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            message = f"it is nested more than {MAX_DEPTH} levels deep"
            raise yaml.composer.ComposerError(None, None, message, current_node.start_mark if current_node else None)

    def ascend_resolver(self) -> None:
        """Called after each node."""
        self._depth -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        built = {_key(self, key): self.construct_object(value, deep=deep) for key, value in node.value}
        if len(built) != len(node.value):
            self._note_repeated(node)
        return built

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Puts what is merged in (`<<`) before a mapping's own keys, which may say the same again.

        Each key once: PyYAML keeps all of them, and nine merges of ten aliases each are a thousand million pairs.
        """
        merging = [value for key, value in node.value if key.tag == _MERGE]
        if not merging:
            return
        own = node.value = [pair for pair in node.value if pair[0].tag != _MERGE]
        merged: dict[object, tuple[yaml.Node, yaml.Node]] = {}
        for part in _merged(node, merging):
            self.flatten_mapping(part)
            self._merging += len(part.value)
            if self._merging > _MAX_MERGED:
                raise yaml.constructor.ConstructorError(None, None, "it merges too many keys", node.start_mark)
            for pair in part.value:
                merged[pair[0].value if isinstance(pair[0], yaml.ScalarNode) else id(pair[0])] = pair
        self._own[id(node)] = own
        node.value = [*merged.values(), *own]

    def _note_repeated(self, node: yaml.MappingNode) -> None:
        seen: set[str] = set()
        own: list[tuple[yaml.Node, yaml.Node]] = self._own.get(id(node)) or node.value
        for key, _ in own:
            if isinstance(key, yaml.ScalarNode) and key.value in seen and len(self.repeating) < MAX_REPEATED:
                self.repeating.append((node, key))
            seen.add(key.value)


def _merged(node: yaml.MappingNode, merging: list[yaml.Node]) -> Iterator[yaml.MappingNode]:
    """The mappings that a mapping merges, the one that counts most last (YAML's merge key, "earlier ... override")."""
    for value in merging:
        for part in reversed(value.value) if isinstance(value, yaml.SequenceNode) else [value]:
            if not isinstance(part, yaml.MappingNode):
                message = "expected a mapping or a list of mappings for merging"
                raise yaml.constructor.ConstructorError(None, None, message, node.start_mark)
            yield part


def _key(loader: _SyntaxLoader, node: yaml.Node) -> str:
    """The key as it is written: response codes are written as integers, and `null` or `true` as a property name is a name."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    raise yaml.constructor.ConstructorError(None, None, "a mapping key must be text", node.start_mark)


def _construct_map(loader: _SyntaxLoader, node: yaml.MappingNode) -> Any:
    built: dict[str, Any] = {}
    yield built
    built.update(loader.construct_mapping(node))


def _construct_list(loader: _SyntaxLoader, node: yaml.SequenceNode) -> Any:
    built: list[Any] = []
    yield built
    built.extend(loader.construct_sequence(node))


def _construct_int(loader: _SyntaxLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    if len(text) > 1000:
        raise yaml.constructor.ConstructorError(None, None, "a number has more than 1000 digits", node.start_mark)
    return int(text, 0) if text[:2] in {"0x", "0o"} else int(text)


def _construct_float(loader: _SyntaxLoader, node: yaml.ScalarNode) -> float:
    return float(str(loader.construct_scalar(node)).replace(".inf", "inf").replace(".nan", "nan"))


def _construct_text(loader: _SyntaxLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_SyntaxLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")
)
_SyntaxLoader.add_implicit_resolver(
    "tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]
)
_SyntaxLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"), list("-+0123456789")
)
_SyntaxLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"),
    list("-+.0123456789"),
)
_SyntaxLoader.add_implicit_resolver(_MERGE, re.compile(r"<<\Z"), ["<"])
_SyntaxLoader.add_constructor("tag:yaml.org,2002:map", _construct_map)
_SyntaxLoader.add_constructor("tag:yaml.org,2002:set", _construct_map)  # so that every value is one of JSON's
_SyntaxLoader.add_constructor("tag:yaml.org,2002:omap", _construct_list)
_SyntaxLoader.add_constructor("tag:yaml.org,2002:pairs", _construct_list)
_SyntaxLoader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_SyntaxLoader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_SyntaxLoader.add_constructor("tag:yaml.org,2002:timestamp", _construct_text)
_SyntaxLoader.add_constructor("tag:yaml.org,2002:binary", _construct_text)


def read_yaml(text: str, where: str) -> ParsedDocument:
    """The value of a YAML text. Raises `DescriptionError`, with file and line, for what is none."""
    try:
        loader = _SyntaxLoader(text)
        try:
            node = loader.get_single_node()
            value = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise DescriptionError(f"is not YAML: {error.problem}", where=f"{where}:{line}") from error
    except (yaml.YAMLError, ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        # The last three are what PyYAML does with a tag that its value does not fit: `!!bool maybe`, `!!map [a]`.
        raise DescriptionError("is not YAML that can be read", where=where) from error
    if not isinstance(value, (dict, list)):
        raise DescriptionError("holds a single value, not a description", where=f"{where}:1")
    measure(value, where)
    return ParsedDocument(value=value, repeated=tuple(_repeated_in_yaml(node, loader.repeating)))


def _repeated_in_yaml(
    root: yaml.Node | None, repeating: list[tuple[yaml.MappingNode, yaml.ScalarNode]]
) -> Iterator[Repeated]:
    """Places of the mappings that were noted: looked for only when there are any, because a node does not know its place."""
    wanted = {id(node) for node, _ in repeating}
    places: dict[int, str] = {}
    seen: set[int] = set()
    todo: list[tuple[yaml.Node | None, str]] = [(root, "#")]
    while todo and len(places) < len(wanted):
        node, pointer = todo.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if id(node) in wanted:
            places[id(node)] = pointer
        if isinstance(node, yaml.MappingNode):
            todo += [(item, f"{pointer}/{escape(str(key.value))}") for key, item in reversed(node.value)]
        else:
            todo += reversed([(item, f"{pointer}/{index}") for index, item in enumerate(node.value)])
    for node, key in repeating:
        yield Repeated(pointer=places.get(id(node), "#"), key=key.value, line=key.start_mark.line + 1)
