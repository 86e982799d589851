"""OpenAPI Overlay 1.0: actions that update or remove parts of a description before it is read."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.syntax import MAX_DOCUMENT_SIZE, read
from toolgen.core.errors import DescriptionError
from toolgen.core.files import read_file
from toolgen.core.json_path import JsonPath, JsonPathError
from toolgen.core.spelling import nearest

__all__ = ["apply_overlays"]

Warn = Callable[[str, str, str], None]
"""Callback with an origin, a code and a message."""

_VERSION = re.compile(r"1\.0\.[0-9]+\Z")
_KEYS = ("overlay", "info", "extends", "actions")
_ACTION_KEYS = ("target", "description", "update", "remove")
_MAX_DEPTH = 200
_MAX_WARNINGS = 5  # warnings of one kind for one action


class _Action(Struct, frozen=True, kw_only=True):
    origin: str  # file.yaml#/actions/0
    target: JsonPath
    update: Any
    remove: bool
    updates: bool


class _Overlay(Struct, frozen=True, kw_only=True):
    name: str
    extends: str
    actions: tuple[_Action, ...]


def apply_overlays(documents: Documents, paths: Iterable[str], location: str, warn: Warn) -> None:
    """Apply overlays, in order, to the first file of a description before any reference in it is resolved.

    An action without effect (a target that selects nothing, an update of a value) is a warning at `file#/actions/N`; `location` is the
    expected value of `extends`. Raises `DescriptionError` for a file that is not an Overlay 1.0 document.
    """
    files = tuple(paths)
    if not files:
        return
    warn = _once(warn)
    root = _unshared(documents.root, 0)
    digests: dict[str, bytes] = {}
    for path in files:
        data = _bytes(path)
        digests[path] = hashlib.sha256(data).digest()
        parsed = read(data, where=Path(path).name)
        overlay = _overlay(parsed.value, Path(path).name)
        for one in parsed.repeated:
            warn(f"{overlay.name}{one.pointer}", "duplicate_key", one.message)
        if overlay.extends and not _extends(overlay.extends, Path(path), location):
            message = f"it extends {overlay.extends[:200]!r}, and is applied to {documents.name}"
            warn(f"{overlay.name}#/extends", "overlay_extends", message)
        for action in overlay.actions:
            _apply(root, action, warn)
    # An overlay may add levels of nesting.
    documents.amend(_unshared(root, 0), digests)


def _once(warn: Warn) -> Warn:
    """Return a callback that reports the first few equal failures of an action, and then one summary."""
    told: Counter[tuple[str, str]] = Counter()

    def warn_once(origin: str, code: str, message: str) -> None:
        told[origin, code] += 1
        if told[origin, code] <= _MAX_WARNINGS:
            warn(origin, code, message)
        elif told[origin, code] == _MAX_WARNINGS + 1:
            warn(origin, code, "and likewise at further matches")

    return warn_once


def _bytes(path: str) -> bytes:
    try:
        return read_file(path, MAX_DOCUMENT_SIZE)
    except OSError as error:
        raise DescriptionError(
            f"the overlay cannot be read: {error.strerror}", where=path, suggestion="check the path in toolgen.yaml"
        ) from error


def _overlay(value: Any, name: str) -> _Overlay:
    if not isinstance(value, dict):
        raise DescriptionError("is not an overlay: it contains a list", where=name)
    _known(value, _KEYS, name)
    version = value.get("overlay")
    if not isinstance(version, str) or not _VERSION.match(version):
        found = "has no `overlay: 1.0.0`" if version is None else f"is Overlay {str(version)[:20]!r}"
        raise DescriptionError(f"{found}; toolgen applies OpenAPI Overlay 1.0", where=f"{name}#/overlay")
    info = value.get("info")
    if not isinstance(info, dict) or not all(isinstance(info.get(key), str) for key in ("title", "version")):
        raise DescriptionError("has no `info` with a title and a version, both texts", where=f"{name}#/info")
    extends = value.get("extends", "")
    if not isinstance(extends, str):
        raise DescriptionError("is not text", where=f"{name}#/extends")
    actions = value.get("actions")
    if not isinstance(actions, list) or not actions:
        raise DescriptionError("must list at least one action", where=f"{name}#/actions")
    found_actions = tuple(_action(action, f"{name}#/actions/{index}") for index, action in enumerate(actions))
    return _Overlay(name=name, extends=extends, actions=found_actions)


def _action(value: Any, origin: str) -> _Action:
    if not isinstance(value, dict):
        raise DescriptionError("is not an action: it must be an object with a target", where=origin)
    _known(value, _ACTION_KEYS, origin)
    target, remove = value.get("target"), value.get("remove", False)
    if not isinstance(target, str) or not target.startswith("$"):
        raise DescriptionError("must be a JSONPath that begins with $", where=f"{origin}/target")
    if not isinstance(remove, bool):
        raise DescriptionError("must be true or false", where=f"{origin}/remove")
    if not remove and "update" not in value:
        raise DescriptionError("has neither `update` nor `remove: true`", where=origin)
    try:
        compiled = JsonPath(target)
    except JsonPathError as error:
        raise DescriptionError(
            f"{target[:200]!r} {error}",
            where=f"{origin}/target",
            suggestion="names with other characters than letters, digits and _ take brackets: $.paths['/pets']",
        ) from error
    return _Action(origin=origin, target=compiled, update=value.get("update"), remove=remove, updates="update" in value)


def _known(value: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for key in value:
        if key not in keys and not key.startswith("x-"):
            raise DescriptionError(f"unknown key {key[:80]!r}{nearest(key, keys)}", where=where)


def _apply(root: dict[str, Any], action: _Action, warn: Warn) -> None:
    try:
        found = action.target.select(root)
    except JsonPathError as error:
        raise DescriptionError(f"the target {error}", where=f"{action.origin}/target") from error
    if not found:
        warn(action.origin, "overlay_no_match", f"the overlay's target {action.target.text[:200]!r} selects nothing")
        return
    if action.remove:
        _remove(root, [parts for parts, _ in found], action, warn)
        return
    for parts, node in found:
        _update(node, parts, action, warn)


def _remove(root: Any, found: list[tuple[int | str, ...]], action: _Action, warn: Warn) -> None:
    """Remove matches from the last to the first, so that a removal does not move later ones."""
    for parts in sorted(set(found), key=lambda parts: [(isinstance(part, int), part) for part in parts], reverse=True):
        if not parts:
            warn(action.origin, "overlay_mismatch", "the whole description cannot be removed")
            continue
        holder = root
        for part in parts[:-1]:
            holder = holder[part]
        del holder[parts[-1]]


def _update(node: Any, parts: Sequence[int | str], action: _Action, warn: Warn) -> None:
    if isinstance(node, list):
        node.append(_unshared(action.update, 0))
    elif isinstance(node, dict) and isinstance(action.update, dict):
        _merge(node, action.update, parts, action, warn)
    else:
        what = "an object, and the update is none" if isinstance(node, dict) else "a single value; select what holds it"
        warn(action.origin, "overlay_mismatch", f"{_shown(parts)} is {what}")


def _merge(
    target: dict[str, Any], update: Mapping[str, Any], parts: Sequence[int | str], action: _Action, warn: Warn
) -> None:
    for key, value in update.items():
        old = target.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            _merge(old, value, (*parts, key), action, warn)
        elif isinstance(old, list) and isinstance(value, list):
            # 1.0 does not define updates of lists; 1.1 (section 4.4.3) specifies the existing behaviour of tools.
            old.extend(_unshared(value, 0))
        elif isinstance(old, (dict, list)) and value is None:
            continue  # The specification's own example leaves `components:` empty to mean "nothing".
        else:
            if key in target and isinstance(old, (dict, list)) != isinstance(value, (dict, list)):
                message = f"{_shown((*parts, key))} was replaced by a value of another shape"
                warn(action.origin, "overlay_mismatch", message)
            target[key] = _unshared(value, 0)


def _extends(extends: str, overlay: Path, location: str) -> bool:
    """Return True if an overlay extends this description: same URL, or same file relative to the overlay's folder (RFC 3986, section 5)."""
    parts = urlsplit(extends)
    if parts.scheme in {"http", "https"}:
        return extends.partition("#")[0] == location.partition("#")[0]
    if parts.scheme not in {"", "file"}:
        return False
    return (overlay.parent / unquote(parts.path)).resolve() == Path(location).resolve()


def _unshared(value: Any, depth: int) -> Any:
    """Return a copy without shared parts. YAML aliases share parts, and an update of one must not change the other."""
    if depth > _MAX_DEPTH:
        raise DescriptionError(f"with its overlays it is nested more than {_MAX_DEPTH} levels deep")
    if isinstance(value, dict):
        return {key: _unshared(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_unshared(item, depth + 1) for item in value]
    return value


def _shown(parts: Sequence[int | str]) -> str:
    return "#" + "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)[:300]
