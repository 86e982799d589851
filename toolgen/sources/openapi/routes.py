"""Every operation of a description, found before anything about it is understood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolgen.sources.documents import Documents, UnresolvedRefError
from toolgen.sources.openapi.operation import METHODS, FaultError
from toolgen.sources.syntax import escape

__all__ = ["Route", "routes"]

_NEWEST_ONLY = frozenset({"query"})
_OF_A_PATH = frozenset({"$ref", "summary", "description", "servers", "parameters", "additionalOperations", *METHODS})
_MARKS = ("responses", "operationId", "requestBody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """An operation as written, the path item it stands in, and the document's version (`2.0`, `3.0`, `3.1`, `3.2`)."""

    origin: str
    method: str
    path: str
    item: Mapping[str, Any]
    raw: Mapping[str, Any]
    version: str

    @property
    def above(self) -> str:
        """The origin of its path item; where that is a `$ref`, of what refers to it."""
        return "/".join(self.origin.split("/", 3)[:3])

    def parameters(self, documents: Documents) -> dict[tuple[str, str], tuple[str, dict[str, Any]]]:
        """(place, name) -> (origin, parameter), the operation's own over those of its path. Raises `FaultError`."""
        merged: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
        for holder, base in ((self.item, self.above), (self.raw, self.origin)):
            written = holder.get("parameters")
            if written is None:
                continue
            if not isinstance(written, list):
                raise FaultError("bad_parameter", f"{base}/parameters", "its parameters are not a list")
            for index, one in enumerate(written):
                origin = f"{base}/parameters/{index}"
                try:
                    raw = documents.follow(one)
                except UnresolvedRefError as error:
                    raise FaultError("unresolved_ref", origin, str(error)) from error
                if (
                    not isinstance(raw, dict)
                    or not isinstance(raw.get("name"), str)
                    or not isinstance(raw.get("in"), str)
                ):
                    raise FaultError("bad_parameter", origin, "a parameter has no `name` or no `in`")
                merged[raw["in"], raw["name"]] = (origin, raw)
        return merged


def routes(documents: Documents, version: str) -> Iterator[Route | FaultError]:
    """Each operation in the document's order; a path or an operation that is none comes as the fault it is."""
    paths = documents.root.get("paths")
    if not isinstance(paths, dict):
        if paths is not None:
            yield FaultError("bad_paths", "#/paths", "`paths` is not an object")
        return
    for path, written in paths.items():
        if path.startswith("x-"):
            continue
        origin = f"#/paths/{escape(path)}"
        try:
            item = _item(documents, written)
        except UnresolvedRefError as error:
            yield FaultError("unresolved_ref", origin, f"{error}; whatever operations it holds are left out")
            continue
        if not isinstance(item, dict):
            yield FaultError("bad_path", origin, "a path item is not an object")
            continue
        misplaced = dict(_misplaced(item, version))
        for place, reason in misplaced.items():
            yield FaultError("bad_method", f"{origin}/{place}", reason)
        for method, place, raw in _operations(item, version):
            if place in misplaced:
                continue
            if isinstance(raw, dict):
                yield Route(origin=f"{origin}/{place}", method=method, path=path, item=item, raw=raw, version=version)
            else:
                yield FaultError("bad_operation", f"{origin}/{place}", "an operation is not an object")


def _item(documents: Documents, written: Any) -> Any:
    """A path item, with what stands beside its `$ref` laid over what that leads to."""
    item = documents.follow(written)
    if item is written or not isinstance(item, dict):
        return item
    return {**item, **{key: value for key, value in written.items() if key != "$ref"}}


def _operations(item: dict[str, Any], version: str) -> Iterator[tuple[str, str, Any]]:
    for method in METHODS:
        if method in item and (version == "3.2" or method not in _NEWEST_ONLY):
            yield method.upper(), method, item[method]
    more = item.get("additionalOperations")
    if version == "3.2" and isinstance(more, dict):
        for method, raw in more.items():
            yield method, f"additionalOperations/{escape(method)}", raw


def _misplaced(item: dict[str, Any], version: str) -> Iterator[tuple[str, str]]:
    """Where else in a path item an operation seems to be meant, and why it is none."""
    for key, value in item.items():
        if key in _NEWEST_ONLY and version != "3.2":
            yield key, f"`{key}` is a method since OpenAPI 3.2, and this is {version}"
        elif key == "additionalOperations" and (version != "3.2" or not isinstance(value, dict)):
            why = f"exist since OpenAPI 3.2, and this is {version}" if version != "3.2" else "are an object"
            yield key, f"`additionalOperations` {why}"
        elif (
            key not in _OF_A_PATH
            and not key.startswith("x-")
            and isinstance(value, dict)
            and any(mark in value for mark in _MARKS)
        ):
            lower = "; methods are written in lower case" if key.lower() in METHODS else ""
            yield escape(key), f"{key[:40]!r} is no method of a path{lower}"
    more = item.get("additionalOperations")
    for method in more if version == "3.2" and isinstance(more, dict) else ():
        if method.lower() in METHODS:
            # A second operation of one method, or one whose effect would be taken for another's.
            yield f"additionalOperations/{escape(method)}", f"{method!r} has a field of its own in a path item"
