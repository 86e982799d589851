"""A very large description, as Microsoft Graph's is: 11,422 operations, some 20 MB of JSON, 5,000 schemas.

`python -m bench.large FILE` writes it; `--measure` builds it and prints CPU seconds, peak memory and the size of what was written, with
`--operations` for a part of it. Exits 1 where that is more than 15 s, 600 MB or three times the document.

The description is made up: nothing of it is anybody's. It imitates what OData services that are converted to OpenAPI have in common:

- entities of their own type in an order of inheritance (`allOf` of the base and an object), complex types, enumerations, and a response
  type for each collection, all below one namespace. Navigation properties, two or three an entity, make nearly all entities one strongly
  connected part, so that the schema of most bodies leads to thousands of others; one in six entities leads into it and is not led to;
- paths that follow the navigation from a few sets, up to four steps deep: a collection is listed, counted and added to, an item read,
  changed and deleted, and some items have an action with a body of its own or a function with a response of its own;
- parameters, request bodies and responses as references to components, the key of an item at its path, and texts that repeat.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from bench.build import measured

OPERATIONS = 11_422
_ENTITIES = 1_500
_COMPLEX = 1_200
_ENUMS = 700
_MAX_STEPS = 4
_NOUNS = (
    "plan",
    "device",
    "message",
    "group",
    "site",
    "team",
    "policy",
    "report",
    "agreement",
    "task",
    "event",
    "risk",
)
_KINDS = ("setting", "member", "summary", "state", "reference", "profile", "request", "record", "channel", "schedule")
_SAID = "The property that says what it is for, when it was set and by whom. Read-only. Supports $filter and $orderby."
_LEFT = (
    "This API is available in all deployments, with an account of work or school; what is nested is read with $expand, and what is "
    "written there is ignored. Needs one of the permissions of its kind, of which the least privileged is preferred."
)
_COMMON = ("top", "skip", "search", "filter", "count")
_LISTED = ("$orderby", "$select", "$expand")


def _name(number: int, prefix: str = "") -> str:
    noun, kind = _NOUNS[number % len(_NOUNS)], _KINDS[number // len(_NOUNS) % len(_KINDS)]
    return f"{prefix}{noun}{kind.capitalize()}{number}"


def _to(name: str, part: str = "schemas") -> dict[str, Any]:
    return {"$ref": f"#/components/{part}/graph.{name}"}


def _nullable(name: str) -> dict[str, Any]:
    return {"anyOf": [_to(name), {"type": "object", "nullable": True}]}


def _navigation(number: int) -> list[tuple[str, int, bool]]:
    """The navigation properties of an entity: name, the entity that each leads to, and whether it holds many.

    One in six is led to by nothing but its path.
    """
    targets = [(number * 7 + 1) % _ENTITIES, (number * 13 + 5) % _ENTITIES, (number * 29 + 11) % _ENTITIES]
    targets = [one + 1 if one % 6 == 5 else one for one in targets][: 2 + number % 2]
    return [
        (f"{_NOUNS[(number + at) % 12]}{'s' if at else ''}{at}", one % _ENTITIES, at > 0)
        for at, one in enumerate(targets)
    ]


def schemas() -> dict[str, Any]:
    """The entities, complex types, enumerations and the responses' types of collections."""
    base = {"id": {"type": "string", "description": "The unique identifier."}, "@odata.type": {"type": "string"}}
    made: dict[str, Any] = {"graph.entity": {"title": "entity", "type": "object", "properties": base}}
    for number in range(_ENUMS):
        values = [f"{word}{number}" for word in ("unknown", "active", "inactive", "pending", "unknownFutureValue")]
        made[f"graph.{_name(number, 'kindOf')}"] = {"title": "kind", "type": "string", "enum": values}
    for number in range(_COMPLEX):
        fields: dict[str, Any] = {
            f"{word}Text": {"type": "string", "nullable": True, "description": _SAID} for word in _KINDS[:3]
        }
        fields["kind"] = _nullable(_name(number % _ENUMS, "kindOf"))
        if number % 3 == 0:
            fields["inner"] = _nullable(_name((number + 1) % _COMPLEX, "part"))
        made[f"graph.{_name(number, 'part')}"] = {
            "title": "part",
            "type": "object",
            "description": f"A part. {_SAID}",
            "properties": fields,
        }
    for number in range(_ENTITIES):
        made[f"graph.{_name(number)}"] = _entity(number)
        value = {"type": "array", "items": _to(_name(number))}
        parts = [{"$ref": "#/components/schemas/graph.page"}, {"type": "object", "properties": {"value": value}}]
        made[f"graph.{_name(number)}CollectionResponse"] = {"title": "Collection", "type": "object", "allOf": parts}
    more = {
        "@odata.count": {"type": "integer", "format": "int64", "nullable": True},
        "@odata.nextLink": {"type": "string"},
    }
    made["graph.page"] = {"title": "Page", "type": "object", "properties": more}
    return made


def _entity(number: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for at in range(3 + number % 8):
        fields[f"{_KINDS[at]}Name"] = {"type": "string", "nullable": True, "description": f"{_SAID[: 40 + at * 9]}"}
    fields["createdDateTime"] = {"type": "string", "format": "date-time", "pattern": "^[0-9]{4}-", "nullable": True}
    for at in range(1 + number % 3):
        fields[f"part{at}"] = _nullable(_name((number * 3 + at) % _COMPLEX, "part"))
    fields["kind"] = _nullable(_name(number % _ENUMS, "kindOf"))
    for name, target, many in _navigation(number):
        leads = {"type": "array", "items": _to(_name(target))} if many else _nullable(_name(target))
        fields[name] = {**leads, "description": _SAID[:60], "x-ms-navigationProperty": True}
    base = "entity" if number % 4 == 0 else _name(number - 1)
    own = {"title": _name(number), "type": "object", "properties": fields}
    return {"allOf": [_to(base), own], "x-ms-discriminator-value": f"#graph.{_name(number)}"}


def _paths() -> Iterator[tuple[str, list[dict[str, Any]], str, int, bool]]:
    """Path, the keys in it, its tag, the entity at its end, and whether that is many: breadth first along the navigation."""
    waiting = deque(
        (f"/{_name(root)}s", list[dict[str, Any]](), f"{_name(root)}s", root, True, 1)
        for root in range(5, _ENTITIES, 6)
    )
    while waiting:
        path, keys, tag, number, many, steps = waiting.popleft()
        yield path, keys, tag, number, many
        if many:
            key = f"{_name(number)}-id"
            if any(one["name"] == key for one in keys):
                continue
            said = {"description": f"The unique identifier of {_name(number)}", "schema": {"type": "string"}}
            keys = [*keys, {"name": key, "in": "path", "required": True, **said, "x-ms-docs-key-type": _name(number)}]
            path = f"{path}/{{{key}}}"
            yield path, keys, tag, number, False
        for name, target, holds in _navigation(number) if steps < _MAX_STEPS else ():
            waiting.append((f"{path}/{name}", keys, f"{tag.partition('.')[0]}.{name}", target, holds, steps + 1))


def _answer(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "Retrieved", "content": {"application/json": {"schema": schema}}}


def _item(number: int, many: bool) -> dict[str, dict[str, Any]]:
    """The operations at the end of a path, by method."""
    name = _name(number)
    listed = [
        {
            "name": one,
            "in": "query",
            "description": f"{one[1:].capitalize()} what is returned",
            "style": "form",
            "explode": False,
            "schema": {"uniqueItems": True, "type": "array", "items": {"type": "string"}},
        }
        for one in _LISTED[0 if many else 1 :]
    ]
    body = {"description": "New values", "required": True, "content": {"application/json": {"schema": _to(name)}}}
    if many:
        common = [{"$ref": f"#/components/parameters/{one}"} for one in _COMMON]
        return {
            "get": {
                "parameters": [*common, *listed],
                "responses": {"2XX": _to(f"{name}CollectionResponse", "responses")},
                "x-ms-pageable": {"nextLinkName": "@odata.nextLink", "itemName": "value"},
            },
            "post": {"requestBody": body, "responses": {"2XX": _answer(_to(name))}},
        }
    return {
        "get": {"parameters": listed, "responses": {"2XX": _answer(_to(name))}},
        "patch": {"requestBody": body, "responses": {"2XX": _answer(_to(name))}},
        "delete": {
            "parameters": [{"name": "If-Match", "in": "header", "description": "ETag", "schema": {"type": "string"}}],
            "responses": {"204": {"description": "Success"}},
        },
    }


def _more(path: str, number: int, many: bool) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Further operations of a path: the count of a collection, and an action and a function of some items."""
    if many:
        common = [{"$ref": f"#/components/parameters/{one}"} for one in ("search", "filter")]
        whole = {
            "description": "The count",
            "content": {"text/plain": {"schema": {"type": "integer", "format": "int32"}}},
        }
        yield f"{path}/$count", "get", {"parameters": common, "responses": {"2XX": whole}}
    elif number % 5 == 0:
        takes = {
            "comment": {"type": "string", "nullable": True},
            "to": {"type": "array", "items": _to(_name(number, "part"))},
        }
        if number >= _COMPLEX:
            del takes["to"]
        schema = {"type": "object", "properties": takes}
        body = {
            "description": "Action parameters",
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
        yield f"{path}/graph.send", "post", {"requestBody": body, "responses": {"204": {"description": "Success"}}}
    elif number % 5 == 1:
        value = {"value": {"type": "array", "items": _to(_name(number))}}
        answer = {"title": "Changes", "type": "object", "allOf": [_to("page"), {"type": "object", "properties": value}]}
        yield f"{path}/graph.delta()", "get", {"responses": {"2XX": _answer(answer)}}


def description(operations: int = OPERATIONS) -> dict[str, Any]:
    """The document."""
    paths: dict[str, Any] = {}
    made = 0
    for path, keys, tag, number, many in _paths():
        here = [(path, method, one) for method, one in _item(number, many).items()]
        for where, method, one in (*here, *_more(path, number, many)):
            if made == operations:
                break
            made += 1
            verb = {"get": "List" if many else "Get", "post": "Create", "patch": "Update", "delete": "Delete"}[method]
            item = paths.setdefault(where, {"parameters": keys} if keys else {})
            item.setdefault(
                "description", f"Provides operations to manage the {tag} of the graph.{_name(number)} entity."
            )
            said = {
                "summary": f"{verb} {tag.rpartition('.')[2]} of {_name(number)}",
                "description": f"{verb} what {_name(number)} leads to. {_SAID} {_LEFT}",
                "externalDocs": {"description": "Find more", "url": f"https://docs.graph.test/{_name(number)}-{verb}"},
                "operationId": f"{where.strip('/').replace('/', '.').replace('{', '').replace('}', '')}.{verb}",
            }
            answers = {**one["responses"], "default": {"$ref": "#/components/responses/error"}}
            item[method] = {"tags": [tag], **said, **one, "responses": answers}
        if made == operations:
            break
    return {
        "openapi": "3.0.4",
        "info": {"title": "Large Graph", "version": "v1.0"},
        "servers": [{"url": "https://graph.test/v1.0"}],
        "paths": paths,
        "components": _components(),
    }


def _components() -> dict[str, Any]:
    numbers = ("top", "skip")
    parameters = {
        one: {
            "name": f"${one}",
            "in": "query",
            "description": f"What {one} does to the items",
            "schema": {"type": "boolean"} if one == "count" else {"type": "integer" if one in numbers else "string"},
        }
        for one in _COMMON
    }
    responses = {
        f"graph.{_name(number)}CollectionResponse": _answer(_to(f"{_name(number)}CollectionResponse"))
        for number in range(_ENTITIES)
    }
    failed = {"type": "object", "properties": {"error": {"type": "object", "properties": {"code": {"type": "string"}}}}}
    error = {"description": "error", "content": {"application/json": {"schema": failed}}}
    return {"schemas": schemas(), "responses": {**responses, "error": error}, "parameters": parameters}


def main() -> int:
    """Exits 1 where a build costs more than it may: 15 s of CPU, 600 MB, three times the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--operations", type=int, default=OPERATIONS)
    options = parser.parse_args()
    document = description(options.operations)
    options.file.write_bytes(msgspec.json.encode(document))
    size = options.file.stat().st_size
    print(f"{options.operations} operations, {len(document['components']['schemas'])} schemas, {size / 1e6:.1f} MB")
    if not options.measure:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "toolgen", "build", str(options.file.resolve()), "-o", "out", "--json"]
        seconds, memory = measured(command, Path(folder))
        again, _ = measured(command, Path(folder))
        written = sum(path.stat().st_size for path in (Path(folder) / "out").rglob("*") if path.is_file())
    print(
        f"{seconds:.1f} s CPU ({again:.1f} s unchanged), {memory:.0f} MB, generated/ {written / size:.1f} times the document"
    )
    return 0 if seconds <= 15 and memory <= 600 and written <= 3 * size else 1


if __name__ == "__main__":
    sys.exit(main())
