"""Checks of descriptions: what is listed, which calls are accepted, and the request that would be sent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import toolgen
from conformance.reports.served import built
from toolgen.generator.emit.formats import FORMATS, render

__all__ = [
    "arrays",
    "callable_tools",
    "closed_bases",
    "framework_names",
    "overlaps",
    "scripts",
    "texts_of_json",
    "wrapped_bodies",
]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


def arrays(folder: Path) -> Iterator[str]:
    """Every array of every format has `items`."""
    manifest = built(folder / "spec.yaml")
    for name in FORMATS:
        for place in _without_items(render(name, manifest.tools.values()), name):
            yield f"{place} is an array without items"


def overlaps(folder: Path) -> Iterator[str]:
    """Branches of `oneOf` that overlap for every value: each branch is accepted."""
    manifest = built(folder / "spec.yaml")
    for tool in manifest.tools.values():
        for name, schema in tool.input_schema["properties"].items():
            branches = schema.get("oneOf") or schema.get("anyOf") or ()
            if not branches:
                yield f"{tool.name}: {name} has no branches"
        required = {"target": {"room": "4b"}}
        for given in (
            {"target": {"room": "4b"}}, {"target": {"shelf": "b"}}, {"target": {}}, {"target": {"room": "4b", "shelf": "b"}},
            {**required, "weight": 3}, {**required, "weight": 2.5}, {**required, "until": "2027-01-01"}, {**required, "until": "later"},
        ):  # fmt: skip
            yield from _sends(manifest, tool.name, given, given)


def closed_bases(folder: Path) -> Iterator[str]:
    """A base that `allOf` extends and that closes itself takes the properties of its siblings, and no others."""
    manifest = built(folder / "spec.yaml")
    cat = {"label": "Tom", "purrs": True}
    if "t__add_pet" in manifest.tools:
        whole = "body" in manifest.tools["t__add_pet"].input_schema["properties"]
        yield from _sends(manifest, "t__add_pet", {"body": cat} if whole else cat, cat)
        yield from _refused(manifest, "t__add_pet", {"body": {"label": "Tom"}} if whole else {"label": "Tom"})
        more = {**cat, "claws": 4}
        yield from _refused(manifest, "t__add_pet", {"body": more} if whole else more)
    yield from _sends(manifest, "t__add_owner", {"cat": cat}, {"cat": cat})


def scripts(folder: Path) -> Iterator[str]:
    """Names in other scripts are ASCII that tells them apart, and what they are in the API is told."""
    manifest = built(folder / "spec.yaml")
    document = _read(folder / "spec.yaml")
    identifiers = {one["operationId"] for item in document["paths"].values() for one in item.values()}
    for tool in manifest.tools.values():
        if not _NAME.match(tool.name) or re.fullmatch(r"t__(?:get|create|update|delete)(?:_by|_root)?", tool.name):
            yield f"{tool.name} says nothing of its operation"
        if not any(one in tool.title for one in identifiers):
            yield f"the title {tool.title!r} of {tool.name} has no operationId"
        sent = {one.argument: one.name for one in tool.binding.parameters}
        if tool.binding.body is not None:
            sent |= tool.binding.body.properties
        for argument, name in sent.items():
            said = str(tool.input_schema["properties"][argument].get("description", ""))
            if not _NAME.match(argument) or re.fullmatch(r"(?:path|query|body|header|cookie)(?:_.*)?", argument):
                yield f"{tool.name}: {argument} says nothing of {name}"
            if not name.isascii() and name not in said:
                yield f"{tool.name}: the description of {argument} does not tell {name}"


def wrapped_bodies(folder: Path) -> Iterator[str]:
    """A body in the other form is unwrapped or refused, and nothing that would narrow a change is left out."""
    manifest = built(folder / "spec.yaml")
    yield from _sends(manifest, "t__purge_items", {"body": {"ids": [1]}}, {"ids": [1]})
    yield from _sends(manifest, "t__change_items", {"body": {"status": "x"}}, {"status": "x"})
    yield from _sends(manifest, "t__remove_members", {"ids": [1, 2]}, {"ids": [1, 2]})
    for tool, given in (
        ("t__purge_items", {"filter": {"ids": [1]}}),
        ("t__purge_items", {"dry_run": True}),
        ("t__change_items", {"query": "a"}),
        ("t__change_items", {"status": "x", "confirm": False}),
        ("t__remove_members", {"body": {"ids": [1], "only_if_empty": True}, "only_if_empty": True}),
    ):
        yield from _refused(manifest, tool, given)


def texts_of_json(folder: Path) -> Iterator[str]:
    """JSON that is written as text is read wherever the schema is an object, a list or a number."""
    manifest = built(folder / "spec.yaml")
    values: Mapping[str, Any] = {
        "inline": {"n": 1}, "ids": [1, 2], "byref": {"city": "Rome"}, "refs": [{"city": "Rome"}], "allof": {"city": "Rome"},
        "nullable": {"n": 1}, "anyof": {"n": 1}, "count": 7, "deep": {"inner": {"n": 1}},
    }  # fmt: skip
    for name, value in values.items():
        yield from _sends(manifest, "t__note", {"title": "x", name: json.dumps(value)}, {"title": "x", name: value})
    inner = {"title": "x", "deep": {"inner": '{"n": 1}'}}
    yield from _sends(manifest, "t__note", inner, {"title": "x", "deep": {"inner": {"n": 1}}})


def framework_names(folder: Path) -> Iterator[str]:
    """The table of the case: file, operationId, and the names that are right."""
    rows = re.findall(
        r"^\| (\S+) \| `([^`]+)` \| ([^|]+) \|$", (folder / "case.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    if not rows:
        yield "the case has no table"
    manifests = {file: built(folder / file) for file in sorted({file for file, _, _ in rows})}
    for file, identifier, right in rows:
        named = [
            tool.name.removeprefix("t__") for tool in manifests[file].tools.values() if tool.operation == identifier
        ]
        if named[:1] != [name for name in right.strip().split(" or ") if name in named]:
            yield f"{file}: {identifier} is {', '.join(named) or 'no tool'}, and {right.strip()} is right"


def _read(path: Path) -> Any:
    from toolgen.connectors.syntax import parse  # noqa: PLC0415 - for one check

    return parse(path.read_bytes(), where=path.name)


def _without_items(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        kind = value.get("type")
        kinds = {one.lower() for one in (kind if isinstance(kind, list) else [kind]) if isinstance(one, str)}
        if "array" in kinds and "items" not in value:
            yield place
        for name, item in value.items():
            yield from _without_items(item, f"{place}/{name}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _without_items(item, f"{place}/{index}")


def _preview(manifest: Any, tool: str, given: Mapping[str, Any]) -> Any:
    return toolgen.preview(manifest, tool, dict(given))


def _sends(manifest: Any, tool: str, given: Mapping[str, Any], body: Any) -> Iterable[str]:
    sent = _preview(manifest, tool, given)
    if "body" not in sent or json.loads(sent["body"] or "null") != body:
        yield f"{tool} {json.dumps(given)}: {sent.get('error') or sent}"


def _refused(manifest: Any, tool: str, given: Mapping[str, Any]) -> Iterable[str]:
    sent = _preview(manifest, tool, given)
    if (sent.get("error") or {}).get("code") != "validation":
        yield f"{tool} {json.dumps(given)} is not refused: {sent}"


def callable_tools(folder: Path) -> Iterator[str]:
    """What holds for every description: it builds, each tool has a call that is accepted, and `verify` finds nothing."""
    for path in sorted((*folder.glob("*.yaml"), *folder.glob("*.json"))):
        manifest = built(path)
        for problem in manifest.problems:
            if problem.level == "error" or problem.code == "uncallable":
                yield f"{path.name} {problem.origin}: {problem.message}"
