"""Settings in force, one line for each: the value and its origin, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct, inspect

from toolgen.config.environment import InForce, is_secret
from toolgen.config.keys import described, root_of
from toolgen.config.settings import read_file
from toolgen.config.structure import alternatives, default_of, fields_of, inner
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.errors import SecretError
from toolgen.model.auth import UNSECRET
from toolgen.model.database_url import part_password
from toolgen.model.secret import MASK, parse_reference

__all__ = ["Setting", "settings_in_force"]

_Path: TypeAlias = tuple[str | int, ...]
_CREDENTIAL = re.compile(
    r"((?:^|[?&;\s])[A-Za-z0-9_.-]*(?:key|token|secret|password|credential|signature|sig)s?=)([^&;\s]+)", re.IGNORECASE
)
_FLAG = re.compile(r"--?[A-Za-z0-9_.-]*(?:key|token|secret|password|credential)s?\Z", re.IGNORECASE)
_KINDS = frozenset({*CONNECTORS, "resource"})
_RETRIED = frozenset({"retries", "breaker", "concurrency"})
# Defaults of missing keys of a source; for a mapping, the defaults of its own keys.
_IMPLIED: Mapping[str | int, Any] = {
    **{key: {"": ""} for key in ("timeouts", "retries", "breaker", "answers")},
    "concurrency": 100,
    "max_page": 100,
    "first_byte": "30s",
    "total": "60s",
}
_FOLLOWS = {"first_byte": "total"}
"""Keys with the value of another key, if only that one is written."""


class Setting(Struct, frozen=True, kw_only=True):
    """Value in force. `origin` is a place (`toolgen.yaml:7`), `default`, or the variable (`environment TOOLGEN_GATEWAY__PORT`)."""

    path: _Path
    value: Any
    origin: str

    @property
    def name(self) -> str:
        """Path as people write it: `audit.checkpoints.to[0].post`."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).removeprefix(".")


def settings_in_force(file: Path, environment: Mapping[str, str]) -> tuple[Setting, ...]:
    """Return every setting of a project, in the order of the reference. Raises `ConfigError` for an invalid file."""
    found = read_file(file, environment)
    return tuple(_settings(found, (), root_of("toolgen.yaml"), found.document.data))


def _settings(found: InForce, path: _Path, info: inspect.Type, value: Any) -> Iterator[Setting]:
    fields = fields_of(info)
    if isinstance(value, dict) and (fields or value):
        for name in (*fields, *(key for key in value if key not in fields)):
            if name in value:
                yield from _settings(found, (*path, name), inner(info, name) or inspect.AnyType(), value[name])
            elif (leading := _FOLLOWS.get(name)) is not None and leading in value:
                yield Setting(path=(*path, name), value=value[leading], origin="default")
            elif "auth" not in path and _has_effect(path, name, value):
                yield from _defaults((*path, name), fields[name])
    elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        for index, one in enumerate(value):
            yield from _settings(found, (*path, index), inner(info, index) or inspect.AnyType(), one)
    else:
        yield Setting(path=path, value=_shown(path, value), origin=_origin(found, path))


def _has_effect(path: _Path, name: str, value: Mapping[str, Any]) -> bool:
    """Return True if the default of a missing key has an effect there: keys of a source belong to kinds of sources."""
    if len(path) != 2 or path[0] != "sources":
        return True
    kinds = next(one.kinds for one in described("toolgen.yaml")["Source"] if one.name == name)
    command = isinstance(value.get("mcp"), dict) and "command" in value["mcp"]
    return (
        name not in _KINDS and (not kinds or not value.keys().isdisjoint(kinds)) and not (command and name in _RETRIED)
    )


def _defaults(path: _Path, field: inspect.Field) -> Iterator[Setting]:
    value = default_of(field) if path[-1] not in _IMPLIED else _IMPLIED[path[-1]]
    parts = [one for one in alternatives(field.type) if isinstance(one, inspect.StructType)]
    if isinstance(value, dict) and value and parts:
        for inside in parts[0].fields:
            yield from _defaults((*path, inside.encode_name), inside)
    elif value not in (None, "", [], {}, False) or isinstance(value, bool):
        yield Setting(path=path, value=value, origin="default")


def _origin(found: InForce, path: _Path) -> str:
    where = found.document.where(*path)
    for length in range(len(path), 0, -1):
        if name := found.origins.get(path[:length]):
            return f"environment {name}" if name == where else f"{where}, environment {name}"
    return where


def _shown(path: _Path, value: Any) -> Any:
    """Return a value without its secrets. References are not secrets, and stay."""
    if isinstance(value, list):
        flags = ("", *(one if isinstance(one, str) else "" for one in value))
        return [MASK if _FLAG.match(flag) else _shown(path, one) for flag, one in zip(flags, value, strict=False)]
    if not isinstance(value, str):
        return MASK if is_secret(path) and value is not None and not isinstance(value, dict | bool) else value
    if is_secret(path):
        if path[-1] in UNSECRET or (path[-1], value) == ("auth", "none"):
            return value
        return value if _is_reference(value) else MASK
    return _CREDENTIAL.sub(rf"\g<1>{MASK}", _without_password(value))


def _is_reference(text: str) -> bool:
    try:
        return parse_reference(text).provider != "literal"
    except SecretError:
        return False


def _without_password(text: str) -> str:
    """Return a URL without the password between user and host."""
    location, password = part_password(text)
    if password:
        return text if _is_reference(password) else location.replace("@", f":{MASK}@", 1)
    try:
        given = urlsplit(text).password
    except ValueError:
        return text
    return text.replace(f":{given}@", f":{MASK}@", 1) if given else text
