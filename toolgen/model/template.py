"""JSON templates with paths: `{"accuracy": "$.accuracy", "kind": "coarse"}` derives one value from another.

A text that begins with `$` is a path: `$` is the complete value, `$.coords.latitude` and `$.places[0]` are parts. `$$` begins a text with a
`$`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json, Schema

__all__ = ["PLACEHOLDER", "Path", "derived", "parse_path", "paths", "rendered"]

Path: TypeAlias = tuple[str | int, ...]
PLACEHOLDER: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""Placeholder of an argument in a sentence for people: `{name}`."""
_PATH: Final = re.compile(r"\$(?:\.[A-Za-z_][A-Za-z0-9_-]*|\[[0-9]{1,5}\])*\Z")
_STEP: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[([0-9]+)\]")
_MAX_REFERENCES: Final = 16


class _Nothing:
    """Marker for a missing part."""


_NOTHING: Final = _Nothing()
_ANY: Final[Schema] = {}


def parse_path(text: str) -> Path | None:
    """Return the steps of a path; None for other text. Raises `ValueError` for an invalid path."""
    if not text.startswith("$") or text.startswith("$$"):
        return None
    if not _PATH.match(text):
        raise ValueError(
            f"'{bounded(text, 60)}' is not a path like $.name or $.places[0].name (a text with a $ begins with $$)"
        )
    return tuple(name or int(index) for name, index in _STEP.findall(text))


def paths(template: Json) -> Iterator[tuple[str, Path]]:
    """Yield every path of a template, as text and as steps. Raises as `parse_path` does."""
    match template:
        case str():
            if (path := parse_path(template)) is not None:
                yield template, path
        case Mapping():
            for item in template.values():
                yield from paths(item)
        case list() | tuple():
            for item in template:
                yield from paths(item)
        case _:
            pass


def rendered(template: Json, value: Json) -> Json:
    """Return the template with the values of its paths. A member with a missing part is left out; in a list, and alone, it is null."""
    made = _rendered(template, value)
    return None if isinstance(made, _Nothing) else made


def _rendered(template: Json, value: Json) -> Json | _Nothing:
    match template:
        case str():
            path = parse_path(template)
            return (template[1:] if template.startswith("$$") else template) if path is None else _at(value, path)
        case Mapping():
            made = {name: _rendered(item, value) for name, item in template.items()}
            return {name: item for name, item in made.items() if not isinstance(item, _Nothing)}
        case list() | tuple():
            return [rendered(item, value) for item in template]
        case _:
            return template


def _at(value: Json, path: Path) -> Json | _Nothing:
    for step in path:
        if isinstance(step, str):
            if not isinstance(value, Mapping) or step not in value:
                return _NOTHING
            value = value[step]
        else:
            if not isinstance(value, list | tuple) or step >= len(value):
                return _NOTHING
            value = value[step]
    return value


def derived(template: Json, schema: Schema) -> dict[str, Any]:
    """Return the schema of a template's results for values of another schema. Raises `ValueError` for a path to a part that no value
    has.
    """
    found = dict(_derived(template, schema)[0])
    return {**found, "$defs": schema["$defs"]} if "$defs" in schema else found


def _derived(template: Json, schema: Schema) -> tuple[Schema, bool]:
    """Return its schema, and True if the value always exists."""
    match template:
        case str() if (path := parse_path(template)) is not None:
            return _schema_at(schema, path, template)
        case str():
            return {"const": template[1:] if template.startswith("$$") else template}, True
        case Mapping():
            made = {name: _derived(item, schema) for name, item in template.items()}
            shaped: dict[str, Any] = {"type": "object", "properties": {name: one for name, (one, _) in made.items()}}
            if always := [name for name, (_, there) in made.items() if there]:
                shaped["required"] = always
            return shaped, True
        case list() | tuple():
            items = [_derived(item, schema) for item in template]
            shown = [one if there else {"anyOf": [one, {"type": "null"}]} for one, there in items]
            return {"type": "array", **({"prefixItems": shown} if shown else {}), "items": False}, True
        case _:
            return {"const": template}, True


def _schema_at(schema: Schema, path: Path, text: str) -> tuple[Schema, bool]:
    """Return the schema at a path, and whether the value always exists. If the schema does not determine it, any value may be there."""
    root, always = schema, True
    for step in path:
        schema = _resolved(schema, root)
        if any(word in schema for word in ("anyOf", "oneOf", "allOf", "if", "$dynamicRef")):
            return _ANY, False
        if isinstance(step, int):
            items = schema.get("prefixItems", ())
            below = items[step] if step < len(items) else schema.get("items", True)
            always = always and schema.get("type") == "array" and schema.get("minItems", 0) > step
        else:
            below = schema.get("properties", {}).get(step, None)
            if below is None:
                below = False if "properties" in schema else schema.get("additionalProperties", True)
            always = always and schema.get("type") == "object" and step in schema.get("required", ())
        if below is False:
            raise ValueError(f"{text} leads to a part that the schema does not have")
        if not isinstance(below, Mapping):
            return _ANY, False
        schema = below
    return {key: part for key, part in schema.items() if key != "$defs"}, always


def _resolved(schema: Schema, root: Schema) -> Schema:
    """Follow references within the schema; any other reference accepts any value."""
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        name = reference.removeprefix("#/$defs/")
        found = root.get("$defs", {}).get(name)
        if not isinstance(found, Mapping):
            return _ANY
        schema = found
    return _ANY
