"""Project settings from the environment: `TOOLGEN_GATEWAY__PORT=9000`, and `${env:NAME}` in place of values."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct, field, inspect
from msgspec.structs import replace

from toolgen.config.structure import accepts, alternatives, inner, structure_of
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument, parse
from toolgen.model.auth import PLAIN
from toolgen.model.auth_schemes import HEADERS
from toolgen.model.database_url import part_password

__all__ = ["PREFIX", "InForce", "in_force", "is_secret"]

PREFIX = "TOOLGEN_"
_Path: TypeAlias = tuple[str | int, ...]
_REFERENCE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_BROKEN = re.compile(r"\$\{env:[^}]*\}?")
_CREDENTIAL = re.compile(r"(?:key|token|secret|password|credential)s?\Z", re.IGNORECASE)
_ANY = "*"
# Places of secrets: a value there, or below, is a reference that is resolved when it is used.
_SECRETS: tuple[_Path, ...] = (
    ("sources", _ANY, "auth"),
    ("sources", _ANY, "mcp", "env"),
    ("audit", "checkpoints", "to", _ANY, "headers"),
    ("audit", "checkpoints", "to", _ANY, "aws"),
    ("audit", "stream", _ANY, "headers"),
    ("audit", "stream", _ANY, "s3", "aws"),
    ("audit", "stream", _ANY, "sasl", "password"),
    ("console", "sign_in", "client_secret"),
    ("gateway", "sign_in", "client_secret"),
    ("accounts", "keys"),
    ("middleware", _ANY, "authzen", "token"),
    ("middleware", _ANY, "opa", "token"),
    ("notify", _ANY, "url"),
    ("notify", _ANY, "secret"),
    ("notify", _ANY, "authorities"),
    ("telemetry", "headers"),
)
# Values without substitution: no variable of the environment may become part of them.
_AS_WRITTEN: tuple[_Path, ...] = (("sources", _ANY, "constants"), ("sources", _ANY, "scalars"))
# Values that become part of the tools, which agents read and generated/ contains.
_BUILT: tuple[_Path, ...] = (
    *_AS_WRITTEN,
    ("tools", _ANY, "name"),
    ("tools", _ANY, "title"),
    ("tools", _ANY, "description"),
)
_LOCATIONS: tuple[_Path, ...] = (("state",), ("audit", "index"), ("sources", _ANY, "sql"))  # may contain a password


class InForce(Struct, frozen=True, kw_only=True):
    """File with the values of the environment. `origins` are the variables of values, by path."""

    document: YamlDocument
    origins: Mapping[_Path, str] = field(default_factory=lambda: MappingProxyType({}))

    def outside(self, warnings: Sequence[str]) -> tuple[str, ...]:
        """Return these warnings without those about literal secrets that came from the environment."""
        places = [
            path[:length] for path in self.origins if _below(path, _LOCATIONS) for length in (len(path), len(path) - 1)
        ]
        said = {f"{self.document.where(*path)}: a secret is written out" for path in places if path}
        return tuple(one for one in warnings if not one.startswith(tuple(said)))


def is_secret(path: _Path) -> bool:
    """Return True if the value at a path of toolgen.yaml is a credential, or a part of one."""
    if len(path) in {5, 6} and path[2] == "auth" and path[3] != HEADERS and path[-1] in PLAIN:
        return False
    return _below(path, _SECRETS) and path[-2:] != ("aws", "region")


def in_force(document: YamlDocument, root: type[msgspec.Struct], environment: Mapping[str, str]) -> InForce:
    """Return the file with the values of the environment. Raises `ConfigError` with the faulty line or variable."""
    if not isinstance(document.data, dict):
        return InForce(document=document)
    reader = _EnvironmentReader(document, structure_of(root), environment)
    reader.override()
    reader.fill((), reader.data)
    lines = {path: line for path, line in document.lines.items() if path not in reader.placed}
    changed = replace(document, data=reader.data, lines=lines, origins=MappingProxyType(dict(reader.placed)))
    return InForce(document=changed, origins=MappingProxyType({**reader.filled, **reader.placed}))


class _EnvironmentReader:
    """Reader of the environment. `placed` are the paths set by a `TOOLGEN_` variable, `filled` those with a `${env:…}`."""

    def __init__(self, document: YamlDocument, root: inspect.StructType, environment: Mapping[str, str]) -> None:
        self._document = document
        self._root = root
        self._environment = environment
        self.data: dict[str, Any] = copy.deepcopy(document.data)
        self.placed: dict[_Path, str] = {}
        self.filled: dict[_Path, str] = {}

    def override(self) -> None:
        """Insert the values of `TOOLGEN_…` variables."""
        for name in sorted(self._environment):
            if not name.startswith(PREFIX):
                continue
            words = name.removeprefix(PREFIX)
            if "__" in words or self._is_meant(name, words):
                self._place(name, words)

    def _is_meant(self, name: str, words: str) -> bool:
        """Return True if a name without `__` is a key of the file: other programs, and toolgen itself, have variables with this prefix too.

        Raises `ConfigError` for a misspelt key.
        """
        keys = {one.encode_name.upper() for one in self._root.fields if _is_leaf(one.type)}
        if words not in keys and (close := get_close_matches(words, keys, n=1, cutoff=0.8)):
            raise ConfigError(f"there is no such setting (did you mean '{PREFIX}{close[0]}'?)", where=name)
        return words in keys

    def _place(self, name: str, words: str) -> None:
        path, info = self._path(name, words)
        value = self._value(name, path, info)
        part: Any = self.data
        for step, following in pairwise(path):
            if isinstance(step, str) and not isinstance(part.get(step), dict | list):
                part[step] = {} if isinstance(following, str) else []
            part = part[step]
        part[path[-1]] = value
        self.placed[path] = name

    def _path(self, name: str, words: str) -> tuple[_Path, inspect.Type]:
        """Return the keys that the words of a variable name, and the type of the value there."""
        path: _Path = ()
        info: inspect.Type = self._root
        value: Any = self.data
        rest = words
        while rest:
            known = self._known(info, value)
            step = max((key for key in known if rest == key or rest.startswith(f"{key}__")), key=len, default=None)
            if step is None:
                first = rest.partition("__")[0]
                where = ".".join(map(str, path)) or "toolgen.yaml"
                near = nearest(first, known) or (f" (known: {', '.join(sorted(known))})" if known else "")
                raise ConfigError(f"there is no '{first[:60]}' in {where}{near}", where=name)
            key = known[step]
            path, rest = (*path, key), rest.removeprefix(step).removeprefix("__")
            info = inner(info, key) or inspect.AnyType()
            value = _at(value, key)
        if not _is_leaf(info):
            below = "__, ".join(sorted(self._known(info, value)))
            raise ConfigError(
                f"{'.'.join(map(str, path))} has its own keys",
                where=name,
                suggestion=f"add one of them: {below}" if below else "",
            )
        return path, info

    def _known(self, info: inspect.Type, value: Any) -> dict[str, str | int]:
        """Return the keys that may follow, by their spelling in a variable: the keys of a type, and for a mapping those in the file."""
        keys: list[str | int] = [
            one.encode_name
            for part in alternatives(info)
            if isinstance(part, inspect.StructType)
            for one in part.fields
        ]
        if isinstance(value, dict):
            keys += [key for key in value if key not in keys]
        if isinstance(value, list):
            keys += range(len(value))
        return {re.sub(r"[^A-Z0-9_]", "_", str(key).upper()): key for key in keys}

    def _value(self, name: str, path: _Path, info: inspect.Type) -> Any:
        text = self._environment[name]
        if _below(path, _BUILT):
            raise ConfigError(
                f"{path[-1]} is part of the built files", where=name, suggestion="write it in toolgen.yaml"
            )
        if is_secret(path) and "${" not in text and text != "none":
            return f"${{env:{name}}}"  # resolved only when it is used
        return _typed(text, info)

    def fill(self, path: _Path, value: Any) -> Any:
        """Replace the `${env:…}` below a path by their values."""
        if isinstance(value, dict):
            known = self._type(path)
            for key in value:
                if (
                    isinstance(known, inspect.AnyType) or inner(known, key) is not None
                ):  # an unknown key is left as it is: the file is refused because of it later
                    value[key] = self.fill((*path, key), value[key])
        elif isinstance(value, list):
            for index, one in enumerate(value):
                value[index] = self.fill((*path, index), one)
        elif isinstance(value, str) and "${env:" in value and not is_secret(path) and not _below(path, _AS_WRITTEN):
            return self._filled(path, value)
        return value

    def _filled(self, path: _Path, text: str) -> Any:
        where = self._document.where(*path) if path not in self.placed else self.placed[path]
        if _below(path, _BUILT):
            raise ConfigError(
                f"{path[-1]}: does not accept ${{env:…}}, because the built files would show it to agents", where=where
            )
        kept = _password_at(text) if _below(path, _LOCATIONS) else range(0)
        names: list[str] = []
        whole = _REFERENCE.fullmatch(text)

        def value(found: re.Match[str]) -> str:
            if found.start() in kept:
                return found[0]
            names.append(found[1])
            return self._variable(found, where)

        for found in _BROKEN.finditer(text):
            if found.start() not in kept and not _REFERENCE.fullmatch(found[0]):
                raise ConfigError(
                    f"'{found[0][:60]}' is not a reference to a variable",
                    where=where,
                    suggestion="write ${env:NAME} or ${env:NAME:-default}",
                )
        written = _REFERENCE.sub(value, text)
        if names:
            self.filled[path] = ", ".join(dict.fromkeys(names))
        return _typed(written, self._type(path)) if whole and names else written

    def _variable(self, found: re.Match[str], where: str) -> str:
        name, default = found[1], found[2]
        if _CREDENTIAL.search(name):
            raise ConfigError(
                f"${{env:{name}}} is named like a credential, and would be readable by everybody here",
                where=where,
                suggestion="credentials belong in auth:, in env: of a command, in headers: and as the password of a URL",
            )
        given = self._environment.get(name, "")
        if not given and default is None:
            raise ConfigError(
                f"the environment variable {name} is not set",
                where=where,
                suggestion=f"set it, or write ${{env:{name}:-default}}",
            )
        return given or default

    def _type(self, path: _Path) -> inspect.Type:
        info: inspect.Type = self._root
        for step in path:
            info = inner(info, step) or inspect.AnyType()
        return info


def _typed(text: str, info: inspect.Type) -> Any:
    """Parse text as YAML if a value of the allowed type results; else return the text."""
    try:
        value = parse(f"value: {text}", "value", ConfigError).data["value"]
    except (ConfigError, KeyError):
        return text
    return value if not isinstance(value, str) and value is not None and accepts(info, value) else text


def _is_leaf(info: inspect.Type) -> bool:
    """Return True if a plain value is allowed there, and not only a mapping."""
    return any(
        not isinstance(one, (inspect.StructType, inspect.DictType, inspect.NoneType)) for one in alternatives(info)
    )


def _at(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(str(key))
    return value[key] if isinstance(value, list) and isinstance(key, int) and key < len(value) else None


def _below(path: _Path, patterns: tuple[_Path, ...]) -> bool:
    """Return True if a path begins with one of these patterns."""
    return any(
        len(path) >= len(pattern) and all(one in (_ANY, step) for one, step in zip(pattern, path, strict=False))
        for pattern in patterns
    )


def _password_at(text: str) -> range:
    """Place of the password of a URL, if it is a reference."""
    flat = re.sub(r"\$\{[^}]*\}", lambda found: "_" * len(found[0]), text)
    without, _ = part_password(flat)
    if without == flat:
        return range(0)
    start = next(index for index, (left, right) in enumerate(zip(flat, without, strict=False)) if left != right)
    return range(start, start + len(flat) - len(without))
