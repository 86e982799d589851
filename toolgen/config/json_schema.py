"""JSON Schema (2020-12) of toolgen.yaml and of policy files, made from the types that read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import inspect

from toolgen.config.keys import FORMS, ConfigKey, FileKind, described, name_of, root_of, structures
from toolgen.config.structure import alternatives
from toolgen.connectors.registry import CONNECTORS

__all__ = ["json_schema"]

_Schema: TypeAlias = dict[str, Any]
_TITLES: Mapping[FileKind, str] = {"toolgen.yaml": "toolgen.yaml", "policy": "A file of a toolgen policy"}
_ENVIRONMENT = "environment"
_READ_AS_TEXT = frozenset(
    {"Credential", "CredentialServer", "CredentialTls"}
)  # mappings with secrets: a reference there is resolved when it is used
_KEYWORDS: Mapping[str, frozenset[str]] = {
    "number": frozenset({"minimum", "maximum", "exclusiveMinimum"}),
    "string": frozenset({"pattern", "enum", "minLength", "maxLength"}),
    "array": frozenset({"minItems", "items"}),
    "object": frozenset({"minProperties", "propertyNames"}),
}
_KINDS = {"integer": "number", "number": "number", "string": "string", "array": "array", "object": "object"}


def json_schema(kind: FileKind) -> _Schema:
    """Return the schema of a file of this kind. A gateway does not start with a file that it refuses; the start makes further checks."""
    builder = _Builder(kind)
    definitions = {name_of(one): builder.structure(one) for one in structures(kind)}
    if kind == "toolgen.yaml":
        definitions[_ENVIRONMENT] = {
            "description": "A value of the environment: ${env:NAME}, or ${env:NAME:-default}.",
            "type": "string",
            "pattern": r"\$\{env:[A-Za-z_][A-Za-z0-9_]*(?::-[^}]*)?\}",
        }
    root = definitions.pop(name_of(root_of(kind)))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": _TITLES[kind],
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


class _Builder:
    def __init__(self, kind: FileKind) -> None:
        self._kind = kind
        self._keys = described(kind)

    def structure(self, info: inspect.StructType) -> _Schema:
        """Return the schema of one mapping."""
        name = name_of(info)
        built: _Schema = {
            "type": "object",
            "properties": {key.name: self._key(name, key) for key in self._keys[name]},
            "additionalProperties": False,
        }
        if required := [key.name for key in self._keys[name] if key.required]:
            built["required"] = required
        if name == "Source":  # exactly one of these keys
            present = {kind: {"type": ["string", "object"]} for kind in (*CONNECTORS, "resource")}
            built["oneOf"] = [{"required": [kind], "properties": {kind: is_one}} for kind, is_one in present.items()]
        return built

    def _key(self, structure: str, key: ConfigKey) -> _Schema:
        takes_environment = self._kind == "toolgen.yaml" and structure not in _READ_AS_TEXT
        options = [_narrowed(self._type(one), key) for one in alternatives(key.type)]
        if takes_environment and any(_is_narrow(one) for one in options):
            options.append({"$ref": f"#/$defs/{_ENVIRONMENT}"})
        schema = options[0] if len(options) == 1 else {"anyOf": options}
        default = {} if key.required or key.default is None else {"default": key.default}
        return {"description": _description(key), **schema, **default, "examples": [key.example]}

    def _type(self, info: inspect.Type) -> _Schema:
        match info:
            case inspect.StructType():
                return {"$ref": f"#/$defs/{name_of(info)}"}
            case inspect.DictType():
                return {
                    "type": "object",
                    **_given(minProperties=info.min_length),
                    "additionalProperties": self._any_of(info.value_type),
                }
            case inspect.ListType():
                return {"type": "array", **_given(minItems=info.min_length), "items": self._any_of(info.item_type)}
            case inspect.StrType():
                pattern = info.pattern and info.pattern.replace(r"\A", "^").replace(r"\Z", "$")
                return {
                    "type": "string",
                    **_given(pattern=pattern, minLength=info.min_length, maxLength=info.max_length),
                }
            case inspect.IntType():
                return {"type": "integer", **_given(minimum=info.ge, maximum=info.le)}
            case inspect.FloatType():
                return {"type": "number"}
            case inspect.BoolType():
                return {"type": "boolean"}
            case inspect.NoneType():
                return {"type": "null"}
            case inspect.LiteralType():
                return {"enum": list(info.values)}
            case inspect.EnumType():
                return {"enum": [one.value for one in info.cls]}
            case inspect.AnyType():
                return {}
        raise TypeError(f"{type(info).__name__} has no schema")

    def _any_of(self, info: inspect.Type) -> _Schema:
        options = [self._type(one) for one in alternatives(info)]
        return options[0] if len(options) == 1 else {"anyOf": options}


def _given(**keywords: object) -> _Schema:
    return {name: value for name, value in keywords.items() if value is not None}


def _is_narrow(schema: _Schema) -> bool:
    """Return True if the schema accepts a scalar, but not every text."""
    return schema.get("type") in {"integer", "number", "boolean"} or "enum" in schema or "pattern" in schema


def _narrowed(schema: _Schema, key: ConfigKey) -> _Schema:
    """Return a type with the limits of the key."""
    kind = _KINDS.get(schema.get("type", ""), "")
    narrow = {name: value for name, value in key.keywords.items() if name in _KEYWORDS.get(kind, ())}
    if isinstance(narrow.get("items"), dict):
        narrow["items"] = {**schema["items"], **narrow["items"]}
    form = {"pattern": FORMS[key.form][0]} if key.form and kind == "string" else {}
    return {**schema, **form, **narrow}


def _description(key: ConfigKey) -> str:
    limits = [f"from {key.least}" if key.least else "", f"to {key.most}" if key.most else ""]
    said = " ".join(part for part in limits if part)
    kinds = f"Of {' and '.join(key.kinds)} sources." if key.kinds else ""
    form = f"Takes {FORMS[key.form][1]}{', ' + said if said else ''}." if key.form else ""
    return " ".join(part for part in (key.text, form, kinds) if part)
