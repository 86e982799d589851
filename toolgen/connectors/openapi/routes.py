"""Operations of a description, found before any of them is parsed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.openapi.operation import METHODS, FaultError
from toolgen.connectors.syntax import escape

__all__ = ["Route", "opened_object", "routes"]

_NEWEST_ONLY = frozenset({"query"})
_OF_A_PATH = frozenset({"$ref", "summary", "description", "servers", "parameters", "additionalOperations", *METHODS})
_MARKS = ("responses", "operationId", "requestBody")


class Route(Struct, frozen=True, kw_only=True):
    """Operation as written, with its path item and the document's version (`2.0`, `3.0`, `3.1`, `3.2`)."""

    origin: str
    method: str
    path: str
    item: Mapping[str, Any]
    raw: Mapping[str, Any]
    version: str

    @property
    def above(self) -> str:
        """Origin of its path item, or of the reference to the path item."""
        return "/".join(self.origin.split("/", 3)[:3])

    def opened(self, documents: Documents) -> Route:
        """Return the route with every reference of its operation followed, except those of schemas. Raises `FaultError`."""
        raw = opened_object(documents, self.raw, "operation", self.origin)
        return replace(self, item=opened_object(documents, self.item, "path", self.above), raw=raw)

    def parameters(self, documents: Documents) -> dict[tuple[str, str], tuple[str, dict[str, Any]]]:
        """Return (place, name) -> (origin, parameter), with the operation's own parameters over those of its path. Raises `FaultError`."""
        merged: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
        for holder, base in ((self.item, self.above), (self.raw, self.origin)):
            written = holder.get("parameters")
            if written is None:
                continue
            if not isinstance(written, list):
                raise FaultError("bad_parameter", f"{base}/parameters", "its parameters are not a list")
            for index, one in enumerate(written):
                origin = f"{base}/parameters/{index}"
                raw = opened_object(documents, one, "parameter", origin)
                if (
                    not isinstance(raw, dict)
                    or not isinstance(raw.get("name"), str)
                    or not isinstance(raw.get("in"), str)
                ):
                    raise FaultError("bad_parameter", origin, "a parameter has no `name` or no `in`")
                merged[raw["in"], raw["name"]] = (origin, raw)
        return merged


# Fields of each kind of object that contain further objects, and the kind of those; `*` is each member. Schemas are not included.
_HELD: Mapping[str, Mapping[str, str]] = {
    "path": {"parameters": "parameters", "servers": "servers", "summary": "", "description": ""},
    "operation": {
        "parameters": "parameters",
        "requestBody": "body",
        "responses": "",  # A fault below it removes the answer's schema, but not the tool.
        "servers": "servers",
        "security": "list",
        **dict.fromkeys(("tags", "consumes", "produces", "schemes", "summary", "description", "operationId"), ""),
    },
    "parameters": {"*": "parameter"},
    "parameter": {"content": "content", "examples": "list"},
    "body": {"content": "content"},
    "response": {"content": "content"},
    "content": {"*": "media"},
    "media": {"encoding": "encoding", "examples": "list"},
    "encoding": {"*": "part"},
    "part": {"headers": "headers"},
    "headers": {"*": "header"},
    "header": {"schema": ""},
    "servers": {"*": "server"},
    "server": {"variables": "list"},
    "list": {"*": ""},
    "": {},
}
# Kinds of objects in which only a reference in place of the whole object is followed.
_WHOLE = frozenset(kind for kind, held in _HELD.items() if not held)
# The specification has a Reference Object here: keywords beside its `$ref` have no effect (3.0.4, section 4.7.23).
_REFERABLE = frozenset({"parameter", "body", "response", "media"})
# Objects outside the request and the answer. A fault in them does not cost the tool.
_DISPENSABLE = frozenset({"summary", "description", "examples", "operationId", "tags"})


def opened_object(documents: Documents, written: Any, kind: str, origin: str) -> Any:
    """Return an object of a kind with all references to objects in it followed, or the object itself if it has none."""
    ref = written.get("$ref") if kind in _REFERABLE and isinstance(written, dict) else None
    if not isinstance(ref, str):
        return _opened(documents, written, kind, origin)
    if (kind, ref) not in documents.opened_objects:
        documents.opened_objects[kind, ref] = _opened(documents, written, kind, origin)
    return documents.opened_objects[kind, ref]


def _opened(documents: Documents, written: Any, kind: str, origin: str) -> Any:
    try:
        node = documents.follow(written) if kind in _REFERABLE else documents.opened(written)
    except UnresolvedRefError as error:
        raise FaultError(error.code, origin, str(error)) from error
    held = _HELD[kind]
    if not held or not isinstance(node, (dict, list)):
        return node
    members: Any = enumerate(node) if isinstance(node, list) else node.items()
    changed: dict[Any, Any] = {}
    for key, value in members:
        if not isinstance(value, (dict, list)):
            continue
        below = held.get("*") if "*" in held else held.get(key) if isinstance(key, str) else None
        if below is None or (below in _WHOLE and "$ref" not in value):
            continue
        try:
            found = opened_object(documents, value, below, f"{origin}/{escape(str(key))}")
        except FaultError:
            if key not in _DISPENSABLE:
                raise
            found = None
        if found is not value:
            changed[key] = found
    if not changed:
        return node
    if isinstance(node, list):
        return [changed.get(index, value) for index, value in enumerate(node)]
    return {key: changed.get(key, value) for key, value in node.items()}


def routes(documents: Documents, version: str) -> Iterator[Route | FaultError]:
    """Yield each operation in the document's order; an unreadable path or operation is yielded as a fault."""
    try:
        paths = documents.opened(documents.root.get("paths"))
    except UnresolvedRefError as error:
        yield FaultError(error.code, "#/paths", f"{error}; its operations are left out")
        return
    if not isinstance(paths, dict):
        if paths is not None:
            yield FaultError("bad_paths", "#/paths", "`paths` is not an object")
        return
    for path, written in paths.items():
        if path.startswith("x-"):
            continue
        origin = f"#/paths/{escape(path)}"
        try:
            item = documents.opened(written)
        except UnresolvedRefError as error:
            yield FaultError(error.code, origin, f"{error}; its operations are left out")
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
            here = f"{origin}/{place}"
            try:
                found = documents.opened(raw)
            except UnresolvedRefError as error:
                yield FaultError(error.code, here, str(error))
                continue
            if isinstance(found, dict):
                yield Route(origin=here, method=method, path=path, item=item, raw=found, version=version)
            else:
                yield FaultError("bad_operation", here, "an operation is not an object")


def _operations(item: dict[str, Any], version: str) -> Iterator[tuple[str, str, Any]]:
    for method in METHODS:
        if method in item and (version == "3.2" or method not in _NEWEST_ONLY):
            yield method.upper(), method, item[method]
    more = item.get("additionalOperations")
    if version == "3.2" and isinstance(more, dict):
        for method, raw in more.items():
            yield method, f"additionalOperations/{escape(method)}", raw


def _misplaced(item: dict[str, Any], version: str) -> Iterator[tuple[str, str]]:
    """Yield fields of a path item that look like misplaced operations, each with the reason."""
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
            yield escape(key), f"{key[:40]!r} is not a method of a path{lower}"
    more = item.get("additionalOperations")
    for method in more if version == "3.2" and isinstance(more, dict) else ():
        if method.lower() in METHODS:
            # A second operation of one method, or one with a misleading effect.
            yield f"additionalOperations/{escape(method)}", f"{method!r} has a field of its own in a path item"
