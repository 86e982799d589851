"""JSON or YAML bytes into a value, within limits, with whatever key stands twice in one object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import yaml
from msgspec import Struct, field

from toolgen.core.errors import DescriptionError

__all__ = ["MAX_DOCUMENT_SIZE", "ParsedDocument", "Repeated", "escape", "measure", "parse", "read"]

MAX_DOCUMENT_SIZE = 64 * 1024 * 1024
_MAX_DEPTH = 200
_BYTE = re.compile(r"\(byte (\d+)\)\Z")
_MAX_EXPANSION = 5_000_000
_MAX_REPEATED = 50
_MAX_MERGED = 1_000_000
_MERGE = "tag:yaml.org,2002:merge"
_MAX_TOKENS = 5_000_000
_ESCAPED_COLON = re.compile(rb"\\u003[aA]")  # in one pass, which takes a quarter of the time of two searches with `in`
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]|\n', re.DOTALL)


class Repeated(Struct, frozen=True, kw_only=True):
    """A key that stands twice in the object at `pointer` (`#/info`), the second time on `line`; the last one counts."""

    pointer: str
    key: str
    line: int

    @property
    def message(self) -> str:
        """Message for a person."""
        what = f"the key {self.key[:80]!r} stands" if self.key else "a key stands"
        return f"{what} twice in it (line {self.line}); the last one counts"


class ParsedDocument(Struct, frozen=True, kw_only=True):
    """A document's value, and the keys of which it has more than one; at most the first 50 of them."""

    value: Any
    repeated: tuple[Repeated, ...] = field(default=())


class _Loader(yaml.CSafeLoader):
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
        if self._depth > _MAX_DEPTH:
            message = f"it is nested more than {_MAX_DEPTH} levels deep"
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
            if isinstance(key, yaml.ScalarNode) and key.value in seen and len(self.repeating) < _MAX_REPEATED:
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


def _key(loader: _Loader, node: yaml.Node) -> str:
    """The key as it is written: response codes are written as integers, and `null` or `true` as a property name is a name."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    raise yaml.constructor.ConstructorError(None, None, "a mapping key must be text", node.start_mark)


def _construct_map(loader: _Loader, node: yaml.MappingNode) -> Any:
    built: dict[str, Any] = {}
    yield built
    built.update(loader.construct_mapping(node))


def _construct_list(loader: _Loader, node: yaml.SequenceNode) -> Any:
    built: list[Any] = []
    yield built
    built.extend(loader.construct_sequence(node))


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    if len(text) > 1000:
        raise yaml.constructor.ConstructorError(None, None, "a number has more than 1000 digits", node.start_mark)
    return int(text, 0) if text[:2] in {"0x", "0o"} else int(text)


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(str(loader.construct_scalar(node)).replace(".inf", "inf").replace(".nan", "nan"))


def _construct_text(loader: _Loader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)\Z"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"),
    list("-+.0123456789"),
)
_Loader.add_implicit_resolver(_MERGE, re.compile(r"<<\Z"), ["<"])
_Loader.add_constructor("tag:yaml.org,2002:map", _construct_map)
_Loader.add_constructor("tag:yaml.org,2002:set", _construct_map)  # so that every value is one of JSON's
_Loader.add_constructor("tag:yaml.org,2002:omap", _construct_list)
_Loader.add_constructor("tag:yaml.org,2002:pairs", _construct_list)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _construct_text)
_Loader.add_constructor("tag:yaml.org,2002:binary", _construct_text)


def parse(data: bytes, *, where: str) -> Any:
    """The value that `read` finds, for those who do not ask how it is written. Raises as `read` does."""
    return read(data, where=where).value


def read(data: bytes, *, where: str) -> ParsedDocument:
    """The JSON value in `data`, which is JSON or YAML in UTF-8.

    Raises `DescriptionError`, with file and line, for anything else: too large, too deep, another encoding, HTML, a bomb of aliases.
    """
    if len(data) > MAX_DOCUMENT_SIZE:
        raise DescriptionError(f"is larger than {MAX_DOCUMENT_SIZE >> 20} MiB", where=where, suggestion="split it")
    data = data.removeprefix(b"\xef\xbb\xbf")
    start = data[:512].lstrip()
    if not start:
        raise DescriptionError("is empty", where=where)
    json_fault: DescriptionError | None = None
    if start[:1] in b"{[":
        try:
            value = msgspec.json.decode(data)
        except (ValueError, RecursionError) as error:
            json_fault = _json_fault(error, data, where)
        else:
            return ParsedDocument(value=value, repeated=_repeated_in_json(data, value))
    text = _text(data, where)
    if start[:1] == b"<":
        raise DescriptionError(
            "is an HTML or XML page, not a description",
            where=f"{where}:1",
            suggestion="name the description itself: the raw file, or what such a page loads, often …/openapi.json",
        )
    if json_fault is not None and where.endswith(".json"):
        raise json_fault
    return _yaml(text, where)


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DescriptionError("is not UTF-8", where=f"{where}:{line}", suggestion="save it as UTF-8") from error


def _yaml(text: str, where: str) -> ParsedDocument:
    try:
        loader = _Loader(text)
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


def _json_fault(error: Exception, data: bytes, where: str) -> DescriptionError:
    """Description error with the line that a decoder's message (`… (byte 17)`) means; text that ends too early is at fault on its last."""
    found = _BYTE.search(str(error))
    end = int(found[1]) if found else len(data.rstrip()) if "truncated" in str(error) else 0
    line = data.count(b"\n", 0, end) + 1
    return DescriptionError(f"is not JSON: {error}", where=f"{where}:{line}")


def measure(value: Any, where: str) -> None:
    """Aliases share what they repeat, so a small file can stand for billions of nodes; counted here without expanding them."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()
    stack: list[tuple[Any, bool]] = [(value, False)]
    while stack:
        node, done = stack.pop()
        children = list(node.values()) if isinstance(node, dict) else node
        nested = [child for child in children if isinstance(child, (dict, list))]
        if done:
            open_.discard(id(node))
            sizes[id(node)] = 1 + len(children) + sum(sizes[id(child)] for child in nested)
            if sizes[id(node)] > _MAX_EXPANSION:
                raise DescriptionError("repeats itself through aliases without bound", where=where)
            continue
        if id(node) in sizes:
            continue
        if id(node) in open_:
            raise DescriptionError("holds an alias that contains itself", where=where)
        open_.add(id(node))
        if len(open_) > _MAX_DEPTH:
            raise DescriptionError(f"is nested more than {_MAX_DEPTH} levels deep", where=where)
        stack.append((node, True))
        stack.extend((child, False) for child in nested)


def _repeated_in_yaml(
    root: yaml.Node | None, repeating: list[tuple[yaml.MappingNode, yaml.ScalarNode]]
) -> Iterator[Repeated]:
    """Where the mappings stand that were noted: looked for only when there are any, because a node does not know its place."""
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


def _repeated_in_json(data: bytes, value: Any) -> tuple[Repeated, ...]:
    """msgspec lets the last key win and says nothing, so the colons are counted: written again, a value has lost those of lost keys.

    An escaped colon could make up for a lost one, and then, as for what nests too deeply to be written, every key is looked at.
    """
    lost = 0
    if _ESCAPED_COLON.search(data) is None:
        try:
            lost = data.count(b":") - _colons(value, 2)
        except (TypeError, ValueError, RecursionError):
            lost = -1
        if not lost:
            return ()
    found: list[Repeated] = []
    if not _scan(data, found) and lost > 0 and not found:
        found.append(Repeated(pointer="#", key="", line=1))
    return tuple(found)


def _colons(value: Any, levels: int) -> int:
    """How many colons the JSON of a value has; written member by member, as all of it at once would be as large as the file."""
    if levels and isinstance(value, dict):
        return sum(1 + name.count(":") + _colons(item, levels - 1) for name, item in value.items())
    return msgspec.json.encode(value).count(b":")


class _Open(Struct, kw_only=True):
    """An object or a list that is being scanned. `keys` is None for a list; `at` is the last key, or the item's index."""

    pointer: str
    keys: set[str] | None
    at: str
    awaits_key: bool


def _scan(data: bytes, found: list[Repeated]) -> bool:
    """Every key of a valid JSON text; whether it came to the end."""
    line = 1
    stack: list[_Open] = []
    for count, match in enumerate(_TOKEN.finditer(data)):
        if count > _MAX_TOKENS or len(found) >= _MAX_REPEATED:
            return False
        token, top = match[0], stack[-1] if stack else None
        if token == b"\n":
            line += 1
        elif token in b"{[":
            pointer = f"{top.pointer}/{escape(top.at)}" if top else "#"
            is_object = token == b"{"
            stack.append(_Open(pointer=pointer, keys=set() if is_object else None, at="0", awaits_key=is_object))
        elif token in b"}]":
            stack.pop()
        elif top is None:
            continue
        elif token == b",":
            top.awaits_key = top.keys is not None
            if top.keys is None:
                top.at = str(int(top.at) + 1)
        elif top.keys is not None and top.awaits_key:
            top.at, top.awaits_key = msgspec.json.decode(token), False
            if top.at in top.keys:
                found.append(Repeated(pointer=top.pointer, key=top.at, line=line))
            top.keys.add(top.at)
    return True


def escape(token: str) -> str:
    """Escape one token of a JSON pointer (RFC 6901, section 3)."""
    return token.replace("~", "~0").replace("/", "~1")
