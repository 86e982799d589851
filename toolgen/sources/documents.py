"""Reads descriptions, JSON or YAML, one file or several, within limits and within one folder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import orjson
import yaml

from toolgen.errors import DescriptionError

__all__ = ["LARGEST_DOCUMENT", "Documents", "UnresolvedRefError", "escape", "parse", "pointer"]

LARGEST_DOCUMENT = 64 * 1024 * 1024
_DEEPEST = 200
_LARGEST_EXPANSION = 5_000_000
_MOST_FILES = 500
_LONGEST_REF_CHAIN = 50
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


class UnresolvedRefError(Exception):
    """A `$ref` that leads nowhere, in circles, out of the description's folder or onto the network."""

    def __init__(self, ref: str, reason: str) -> None:
        super().__init__(f"the reference {ref[:200]!r} {reason}")
        self.ref = ref


class _Loader(yaml.CSafeLoader):
    """YAML 1.2's core schema (what OpenAPI asks for): `on`, `no`, `010` and dates stay text; keys are always text."""

    # Of its own, or the resolvers added below would be added to PyYAML's.
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}  # type: ignore[misc]

    _depth = 0

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """Called before each node is composed, which libyaml's binding does recursively in C: too deep is a crash, not an error."""
        self._depth += 1
        if self._depth > _DEEPEST:
            message = f"it is nested more than {_DEEPEST} levels deep"
            raise yaml.composer.ComposerError(None, None, message, current_node.start_mark if current_node else None)

    def ascend_resolver(self) -> None:
        """Called after each node."""
        self._depth -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        return {_key(self, key): self.construct_object(value, deep=deep) for key, value in node.value}


def _key(loader: _Loader, node: yaml.Node) -> str:
    """The key as it is written: response codes are written as integers, and `null` or `true` as a property name is a name."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    raise yaml.constructor.ConstructorError(None, None, "a mapping key must be text", node.start_mark)


def _construct_map(loader: _Loader, node: yaml.MappingNode) -> Any:
    built: dict[str, Any] = {}
    yield built
    built.update(loader.construct_mapping(node))


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
_Loader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"<<\Z"), ["<"])
_Loader.add_constructor("tag:yaml.org,2002:map", _construct_map)
_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _construct_text)
_Loader.add_constructor("tag:yaml.org,2002:binary", _construct_text)


def parse(data: bytes, *, where: str) -> Any:
    """The JSON value in `data`, which is JSON or YAML in UTF-8.

    Raises `DescriptionError`, with file and line, for anything else: too large, too deep, another encoding, HTML, a bomb of aliases.
    """
    if len(data) > LARGEST_DOCUMENT:
        raise DescriptionError(f"is larger than {LARGEST_DOCUMENT >> 20} MiB", where=where, suggestion="split it")
    data = data.removeprefix(b"\xef\xbb\xbf")
    start = data[:512].lstrip()
    if not start:
        raise DescriptionError("is empty", where=where)
    json_fault: DescriptionError | None = None
    if start[:1] in b"{[":
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as error:
            json_fault = DescriptionError(f"is not JSON: {error.msg}", where=f"{where}:{error.lineno}")
    text = _text(data, where)
    if start[:1] == b"<":
        raise DescriptionError(
            "is an HTML or XML page, not a description", where=f"{where}:1", suggestion="download the raw file"
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


def _yaml(text: str, where: str) -> Any:
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader, see above
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise DescriptionError(f"is not YAML: {error.problem}", where=f"{where}:{line}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DescriptionError("is not YAML that can be read", where=where) from error
    if not isinstance(value, (dict, list)):
        raise DescriptionError("holds a single value, not a description", where=f"{where}:1")
    _measure(value, where)
    return value


def _measure(value: Any, where: str) -> None:
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
            if sizes[id(node)] > _LARGEST_EXPANSION:
                raise DescriptionError("repeats itself through aliases without bound", where=where)
            continue
        if id(node) in sizes:
            continue
        if id(node) in open_:
            raise DescriptionError("holds an alias that contains itself", where=where)
        open_.add(id(node))
        if len(open_) > _DEEPEST:
            raise DescriptionError(f"is nested more than {_DEEPEST} levels deep", where=where)
        stack.append((node, True))
        stack.extend((child, False) for child in nested)


class Documents:
    """One description and the files it refers to, all below the folder of the first.

    References are written in one form: `#/…` in the first file, `folder/file.yaml#/…`, relative to it, in any other. Files that are
    referred to are rewritten to that form as they are read, so that a reference means the same wherever it is copied to.
    """

    def __init__(self, path: Path) -> None:
        """Raises `DescriptionError` when the file cannot be read or does not hold an object."""
        self._path = path.resolve()
        self._folder = self._path.parent
        self._where = path.name
        self._digests: dict[str, bytes] = {}
        self._amendments: dict[str, bytes] = {}
        self._lacking = False  # whether a file that was referred to could not be read
        self._files: dict[str, Any] = {}
        self._resolved: dict[str, Any] = {}
        try:
            root = self._load(self._path, "")
        except OSError as error:
            raise DescriptionError(
                f"cannot be read: {error.strerror}", where=str(path), suggestion="check the path in toolgen.yaml"
            ) from error
        if not isinstance(root, dict):
            raise DescriptionError("holds a list, not a description", where=f"{self._where}:1")
        self._files[""] = root
        self.root: Mapping[str, Any] = root

    @property
    def name(self) -> str:
        """The first file's name, for messages."""
        return self._where

    @property
    def digest(self) -> str:
        """`sha256:` over the names and bytes of every file read so far."""
        if len(self._digests) == 1 and not self._amendments:
            return "sha256:" + self._digests[""].hex()
        total = hashlib.sha256()
        for name in sorted(self._digests):
            total.update(name.encode() + b"\0" + self._digests[name])
        for digest in self._amendments.values():
            total.update(b"overlay\0" + digest)
        return "sha256:" + total.hexdigest()

    @property
    def files(self) -> Mapping[str, str]:
        """Every file read so far, as path -> `sha256:…` of its bytes, under each name it was read by."""
        found = {str(self._path): self._digests[""]}
        for name in self._files:
            canonical = (self._folder / unquote(name)).resolve()
            key = canonical.relative_to(self._folder).as_posix() if name else ""
            if key in self._digests:
                found[str(self._folder / unquote(name)) if name else str(self._path)] = self._digests[key]
        found |= self._amendments
        return {path: f"sha256:{digest.hex()}" for path, digest in found.items()}

    @property
    def complete(self) -> bool:
        """Whether every file that was referred to could be read; one that could not may be there tomorrow."""
        return not self._lacking

    def amend(self, root: Mapping[str, Any], amendments: Mapping[str, bytes]) -> None:
        """Puts an amended description in the first file's place, before anything is looked up in it.

        `amendments` are the files that amended it, in order, as path -> SHA-256: they are part of the digest.
        """
        self.root = self._files[""] = root
        self._amendments = dict(amendments)

    def follow(self, node: Any) -> Any:
        """The node itself, or what its `$ref` leads to in the end. Raises `UnresolvedRefError`."""
        ref = ""
        for _ in range(_LONGEST_REF_CHAIN):
            following = node.get("$ref") if isinstance(node, dict) else None
            if not isinstance(following, str):
                return node
            ref = following
            node = self.lookup(ref)
        raise UnresolvedRefError(ref, "leads in circles")

    def lookup(self, ref: str) -> Any:
        """What one reference points at, without following it further. Raises `UnresolvedRefError`."""
        found = self._resolved.get(ref, self)
        if found is self:
            found = self._resolved[ref] = self._lookup(ref)
        return found

    def _lookup(self, ref: str) -> Any:
        name, _, fragment = ref.partition("#")
        if _REMOTE.match(name):
            raise UnresolvedRefError(ref, "is remote, and remote references are not followed")
        node = self._file(name, ref)
        if fragment and not fragment.startswith("/"):
            raise UnresolvedRefError(ref, "is not a JSON pointer")
        for token in fragment.split("/")[1:]:
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and isinstance(node.get("$ref"), str) and key not in node:
                node = self.follow(node)
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(node):
                node = node[int(key[:9])]
            else:
                raise UnresolvedRefError(ref, "points at nothing")
        return node

    def _file(self, name: str, ref: str) -> Any:
        if name in self._files:
            return self._files[name]
        path = (self._folder / unquote(name)).resolve()
        if path == self._path:
            return self._files[""]
        if not path.is_relative_to(self._folder):
            raise UnresolvedRefError(ref, "leads out of the description's folder")
        canonical = path.relative_to(self._folder).as_posix()
        if canonical not in self._files:
            if len(self._files) >= _MOST_FILES:
                raise UnresolvedRefError(ref, f"is one file too many (more than {_MOST_FILES})")
            try:
                self._files[canonical] = self._rewrite(self._load(path, canonical), canonical)
            except OSError as error:
                self._lacking = True
                raise UnresolvedRefError(ref, "names a file that cannot be read") from error
            except DescriptionError as error:
                self._lacking = True
                raise UnresolvedRefError(ref, f"names a file that {error.message}") from error
        self._files[name] = self._files[canonical]
        return self._files[canonical]

    def _load(self, path: Path, name: str) -> Any:
        with path.open("rb") as file:
            data = file.read(LARGEST_DOCUMENT + 1)
        value = parse(data, where=name or self._where)
        if name:
            _measure(value, name)  # JSON cannot repeat itself, but it can be deep
        self._digests[name] = hashlib.sha256(data).digest()
        return value

    def _rewrite(self, value: Any, name: str) -> Any:
        if isinstance(value, list):
            return [self._rewrite(item, name) for item in value]
        if isinstance(value, dict):
            return {
                key: self._canonical(item, name)
                if key == "$ref" and isinstance(item, str)
                else self._rewrite(item, name)
                for key, item in value.items()
            }
        return value

    def _canonical(self, ref: str, name: str) -> str:
        target, _, fragment = ref.partition("#")
        if _REMOTE.match(target):
            return ref
        if not target:
            return f"{name}#{fragment}"
        path = (self._folder / name).parent / unquote(target)
        resolved = path.resolve()
        if resolved == self._path:
            return f"#{fragment}"
        if not resolved.is_relative_to(self._folder):
            return ref  # refused when it is followed
        return f"{resolved.relative_to(self._folder).as_posix()}#{fragment}"


def escape(token: str) -> str:
    """One token of a JSON pointer (RFC 6901, section 3)."""
    return token.replace("~", "~0").replace("/", "~1")


def pointer(*tokens: str | int) -> str:
    """`#/paths/~1pet/get` for `paths`, `/pet`, `get`."""
    return "#" + "".join(f"/{escape(str(token))}" for token in tokens)
