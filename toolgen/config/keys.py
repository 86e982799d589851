"""Keys of toolgen.yaml and of policy files: types from the types that read them, meanings and examples from described/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, inspect

from toolgen.config.settings import GivenFile
from toolgen.config.structure import alternatives, default_of, structure_of
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.errors import ConfigError
from toolgen.core.yaml_file import read
from toolgen.policy.document.schema import FileShape

__all__ = ["FORMS", "ConfigKey", "FileKind", "described", "name_of", "places", "root_of", "structures"]

FileKind: TypeAlias = Literal["toolgen.yaml", "policy"]
FORMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "duration": (r"^[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h)$", "a time like 500ms, 30s, 5m or 1h"),
        "age": ("^0*[1-9][0-9]{0,6}(?:s|m|h|d)$", "a time like 60s, 12h or 400d"),
        "size": ("^0*[1-9][0-9]{0,8} ?(?:KiB|MiB|GiB|TiB)$", "a size like 64KiB or 4MiB"),
        "share": (r"^[0-9]{1,3}(?:\.[0-9]{1,3})?%$", "a share like 20%"),
    }
)
"""Forms of text: the pattern, and its name."""
_ROOTS: Mapping[FileKind, type[msgspec.Struct]] = {"toolgen.yaml": GivenFile, "policy": FileShape}
_TEXTS: Mapping[FileKind, tuple[str, ...]] = {
    "toolgen.yaml": ("toolgen_yaml.yaml", "credential.yaml"),
    "policy": ("policy.yaml", "credential.yaml"),
}
_FOLDER = Path(__file__).parent / "described"
_OWN = frozenset({"text", "example", "is", "for", "with", "least", "most"})
_EXCEPTIONS = {
    "GivenFile": "File",
    "GivenSource": "Source",
    "CredentialKeys": "Credential",
    "McpKeys": "Mcp",
    "CodeKeys": "Code",
    "ContextKeys": "Context",
    "ToolResourceKeys": "ToolResource",
    "PollKeys": "Poll",
    "StatusPostKeys": "StatusPost",
    "PythonKeys": "Python",
    "TimeoutKeys": "Timeouts",
    "RetryKeys": "Retries",
    "BreakerKeys": "Breaker",
    "AnswerKeys": "Answers",
    "FilterKeys": "Filter",
    "ToolKeys": "Override",
}


class ConfigKey(Struct, frozen=True, kw_only=True):
    """Key of a mapping.

    `form` is one of `FORMS` or "". `kinds` are the kinds of sources that have it, () for all. `needs` are keys that its example needs
    beside it. `least` and `most` are limits as written in the file. `keywords` are of JSON Schema.
    """

    name: str
    type: inspect.Type
    required: bool
    default: Any
    text: str
    example: Any
    form: str = ""
    kinds: tuple[str, ...] = ()
    needs: Mapping[str, Any] = {}
    least: str = ""
    most: str = ""
    keywords: Mapping[str, Any] = {}


def root_of(kind: FileKind) -> inspect.StructType:
    """Return the type that reads a file of this kind."""
    return structure_of(_ROOTS[kind])


def name_of(structure: inspect.StructType) -> str:
    """Return the name of a mapping in described/ and in schemas."""
    name = structure.cls.__name__.lstrip("_")
    return _EXCEPTIONS.get(name, name.removesuffix("Shape").removeprefix("Given"))


def structures(kind: FileKind) -> Iterator[inspect.StructType]:
    """Yield every mapping with its own keys, the file first, each once."""
    waiting: list[inspect.Type] = [root_of(kind)]
    seen: set[type] = set()
    while waiting:
        for one in alternatives(waiting.pop(0)):
            if isinstance(one, inspect.StructType) and one.cls not in seen:
                seen.add(one.cls)
                yield one
                waiting += [item.type for item in one.fields]
            elif isinstance(one, inspect.DictType):
                waiting.append(one.value_type)
            elif isinstance(one, inspect.ListType):
                waiting.append(one.item_type)


def places(kind: FileKind) -> Mapping[str, tuple[str, ...]]:
    """Return the paths of each mapping, by its name, as people write it: `gateway`, `sources.NAME.timeouts`, `rules[].bind`."""
    found: dict[str, tuple[str, ...]] = {name_of(root_of(kind)): ("",)}
    for structure in structures(kind):
        for item in structure.fields:
            ways = [(item.type, item.encode_name)]
            while ways:
                info, path = ways.pop()
                for one in alternatives(info):
                    if isinstance(one, inspect.DictType):
                        ways.append((one.value_type, f"{path}.NAME"))
                    elif isinstance(one, inspect.ListType):
                        ways.append((one.item_type, f"{path}[]"))
                    elif isinstance(one, inspect.StructType):
                        above = found[name_of(structure)]
                        own = found.get(name_of(one), ())
                        found[name_of(one)] = (*own, *(f"{base}.{path}".lstrip(".") for base in above))
    return MappingProxyType(found)


@cache
def described(kind: FileKind) -> Mapping[str, tuple[ConfigKey, ...]]:
    """Return the keys of every mapping, by the name of the mapping.

    Raises `ConfigError` for a key without a text, or a text without a key: the texts are part of the program, and a test reads them all.
    """
    texts: dict[str, dict[str, dict[str, Any]]] = {}
    for name in _TEXTS[kind]:
        texts |= read(_FOLDER / name, name, ConfigError).data
    if kind == "toolgen.yaml":
        for connector in CONNECTORS.values():
            for structure_name, keys in connector.described.items():
                texts.setdefault(structure_name, {}).update(keys)
    found: dict[str, tuple[ConfigKey, ...]] = {}
    for structure in structures(kind):
        name = name_of(structure)
        said = texts.pop(name, {})
        found[name] = tuple(_key(name, one, said.pop(one.encode_name, None)) for one in structure.fields)
        if said:
            raise ConfigError(f"{name} has no key {', '.join(said)}", where="described/")
    if texts:
        raise ConfigError(f"nothing is read as {', '.join(texts)}", where="described/")
    return MappingProxyType(found)


def _key(name: str, one: inspect.Field, said: dict[str, Any] | None) -> ConfigKey:
    if not said or "text" not in said or "example" not in said:
        raise ConfigError(f"{name}.{one.encode_name} has no text and example", where="described/")
    return ConfigKey(
        name=one.encode_name,
        type=one.type,
        required=one.required,
        default=default_of(one),
        text=said["text"],
        example=said["example"],
        form=said.get("is", ""),
        kinds=tuple(said.get("for", ())),
        needs=MappingProxyType(said.get("with", {})),
        least=said.get("least", ""),
        most=said.get("most", ""),
        keywords=MappingProxyType({key: value for key, value in said.items() if key not in _OWN}),
    )
