"""Operation as written, alone in an OpenAPI 3 document, read without the code that makes tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from msgspec import Struct, field

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.openapi.proof.known_differences import carried
from toolgen.connectors.openapi.proof.spec_references import References
from toolgen.connectors.openapi.proof.well_formed import type_of, well_formed

__all__ = ["ONE_FILE", "SERVER", "Descriptions", "SpecOperation"]

_T = TypeVar("_T")
SERVER = "http://server.test/base"
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_CONTAINERS = _SCHEMA_MAPS | {"allOf", "anyOf", "oneOf", "prefixItems", "enum", "required"}
# Keywords with values, which may look like schemas and are copied unchanged.
_KEPT = frozenset({"enum", "const", "required"})
# Keywords with texts, and `default`, which a reader would insert for an absent value.
_DROPPED = frozenset(
    {"default", "description", "example", "examples", "externalDocs", "title", "xml", "$schema", "$id", "deprecated"}
)
# Swagger 2.0's collectionFormat -> OpenAPI 3's style and explode (3.0.4, appendix of the migration from 2.0); tsv has no successor.
_COLLECTIONS: Mapping[str, tuple[str, bool]] = {
    "ssv": ("spaceDelimited", False),
    "pipes": ("pipeDelimited", False),
    "tsv": ("tabDelimited", False),
    "multi": ("form", True),
}
_MAX_DEPTH = 20
_OF_ALL = frozenset({"parameters", "servers"})  # fields of a path that apply to each of its operations
ONE_FILE: Mapping[str, Any] = {
    "type": "object",
    "properties": {"file": {"type": "string", "format": "binary"}},
    "required": ["file"],
}
"""Schema of a multipart form whose parts the description does not name."""
_NOT_A_SCHEMA = frozenset({"name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "schema"})
_FORM, _MULTIPART, _JSON = "application/x-www-form-urlencoded", "multipart/form-data", "application/json"


class SpecOperation(Struct, frozen=True, kw_only=True):
    """Operation as described. `document` is an OpenAPI 3 document with only this operation; `parameters` and `body` are its own.

    `operation`, `item` (its path item) and `written` (its parameters, including those of its path item) are as the description has them.
    """

    origin: str
    version: str  # version of the description: 2.0, 3.0, 3.1 or 3.2
    method: str
    path: str
    parameters: tuple[Mapping[str, Any], ...]
    body: Mapping[str, Any] | None
    document: Mapping[str, Any]
    operation: Mapping[str, Any]
    item: Mapping[str, Any]
    written: tuple[Mapping[str, Any], ...]
    media: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  # the body by media type, as written; empty in 2.0

    def schema(self, written: Any) -> Any:
        """Return a schema with its own `$ref`s followed and the keywords beside them merged."""
        for _ in range(50):
            if not isinstance(written, dict) or "$ref" not in written:
                return written
            target = self.document["components"]["schemas"].get(written["$ref"].rpartition("/")[2], {})
            beside = {key: value for key, value in written.items() if key != "$ref"}
            written = {**target, **beside} if isinstance(target, dict) else target
        return {}


class Descriptions:
    """Operations of one description. Schemas are copied once and shared."""

    def __init__(self, documents: Documents, *, hides: str = "readOnly") -> None:
        """Store the documents. `hides` is the keyword of properties of the other direction; `writeOnly` for answers."""
        self._documents = documents
        self._hides = hides
        self._references = References(documents)
        root = documents.root
        written = str(root.get("openapi", root.get("swagger", "")))
        self.version = "2.0" if "swagger" in root else written[:3]
        self._schemas: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._refs: dict[str, str] = {}  # reference in the document -> reference in the description
        self._waiting: list[str] = []

    def operation(self, origin: str) -> SpecOperation:
        """Return the operation at a JSON pointer such as `#/paths/~1pet/get`. Raises `UnresolvedRefError`."""
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in origin.split("/")[2:]]
        path, method = tokens[0], tokens[-1]
        item = self._references.follow(self._references.follow(self._documents.root["paths"])[path])
        raw: Any = item
        for token in tokens[1:]:
            raw = self._references.follow(raw[token])
        raw = self._references.opened(raw)
        item = {key: self._references.opened(one) if key in _OF_ALL else one for key, one in item.items()}
        merged = self._parameters(item, raw)
        media: dict[str, Mapping[str, Any]] = {}
        if self.version == "2.0":
            parameters, body = self._from_2(merged, raw)
        else:
            parameters = [self._parameter(one) for one in merged]
            media, body = self._body(raw)
        self._drain()
        operation: dict[str, Any] = {"parameters": parameters, "responses": {"200": {"description": "ok"}}}
        if body is not None:
            operation["requestBody"] = body
        return SpecOperation(
            origin=origin,
            operation=raw,
            item=item,
            written=tuple(merged),
            version=self.version,
            method=method if len(tokens) > 2 else method.upper(),
            path=path,
            parameters=tuple(parameters),
            body=body,
            media=media,
            document={
                "openapi": {"3.1": "3.1.0", "3.2": "3.2.0"}.get(self.version, "3.0.3"),
                "info": {"title": "t", "version": "1"},
                "servers": [{"url": SERVER}],
                "paths": {path: {method.lower(): operation}},
                "components": {"schemas": self._schemas},
            },
        )

    def schema(self, written: Any) -> tuple[Any, Mapping[str, Any]]:
        """Return a schema in the form of the document, and by name all schemas that it and earlier ones refer to there."""
        built = self._schema(written)
        self._drain()
        return built, self._schemas

    def _parameters(self, item: Mapping[str, Any], raw: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the operation's own parameters merged over those of its path (3.1.1, section 4.8.10.1)."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for holder in (item, raw):
            for written in holder.get("parameters") or ():
                one = self._documents.follow(written)
                found[one["in"], one["name"]] = one
        return list(found.values())

    def _parameter(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        kept = {key: raw[key] for key in ("name", "in", "style", "explode", "allowReserved") if key in raw}
        kept["required"] = raw.get("required") is True or raw["in"] == "path"
        content = raw.get("content")
        if isinstance(content, dict) and content:
            return {**kept, "content": self._content(content)}
        return {**kept, "schema": self._schema(raw.get("schema", {}))}

    def _content(self, content: Mapping[str, Any]) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for media_type, written in content.items():
            media = self._documents.follow(written)
            media = media if isinstance(media, dict) else {}
            built[media_type] = {"schema": self._schema(media.get("schema", {}))}
            if isinstance(media.get("encoding"), dict):
                built[media_type]["encoding"] = {
                    name: {key: one[key] for key in ("contentType", "style", "explode", "allowReserved") if key in one}
                    for name, one in media["encoding"].items()
                    if isinstance(one, dict)
                }
        return built

    def _body(self, raw: Mapping[str, Any]) -> tuple[dict[str, Mapping[str, Any]], dict[str, Any] | None]:
        written = self._documents.follow(raw.get("requestBody"))
        if not isinstance(written, dict) or not written.get("content"):
            return {}, None
        required = written.get("required") is True
        media = {kind: self._media(kind, one, required) for kind, one in written["content"].items()}
        return media, {"required": required, "content": self._content(media)}

    def _media(self, kind: str, written: Any, required: bool) -> Mapping[str, Any]:
        """Return a media type as it is sent. Multipart without named parts is one file, unless it is optional and declares no parts."""
        media = self._documents.follow(written)
        media = media if isinstance(media, dict) else {}
        unknown = kind.strip().lower().startswith("multipart/") and not media.get("encoding")
        schema = self._references.follow(media.get("schema"))
        if isinstance(schema, dict) and schema.get("properties") == {} and not required:
            return media
        return {"schema": ONE_FILE} if unknown and not self._has_members(media.get("schema")) else media

    def _has_members(self, written: Any) -> bool:
        todo, seen = [written], set[int]()
        while todo:
            try:
                schema = self._references.follow(todo.pop())
            except UnresolvedRefError:
                continue
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            more = schema.get("additionalProperties")
            if schema.get("properties") or schema.get("patternProperties") or more is True or isinstance(more, dict):
                return True
            todo += [
                one for key in ("allOf", "anyOf", "oneOf") for one in self._references.follow(schema.get(key)) or ()
            ]
        return False

    def _from_2(
        self, merged: list[dict[str, Any]], raw: Mapping[str, Any]
    ) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """Convert Swagger 2.0's parameters to the form of OpenAPI 3."""
        written = raw.get("consumes", self._references.opened(self._documents.root.get("consumes")))
        consumes = [kind for kind in written if isinstance(kind, str)] if isinstance(written, list) else []
        parameters: list[dict[str, Any]] = []
        form: list[dict[str, Any]] = []
        body = None
        for one in merged:
            if one["in"] == "formData":
                form.append(one)
            elif one["in"] == "body":
                plain = [kind for kind in consumes if kind not in {_FORM, _MULTIPART}]
                media = {"schema": self._schema(one.get("schema", {}))}
                body = {"required": one.get("required") is True, "content": dict.fromkeys(plain or [_JSON], media)}
            else:
                style = self._collection(one)
                parameters.append(
                    {
                        "name": one["name"],
                        "in": one["in"],
                        "required": one.get("required") is True or one["in"] == "path",
                        "schema": self._schema({key: one[key] for key in one if key not in _NOT_A_SCHEMA}),
                        **style,
                    }
                )
        return parameters, self._form(form, consumes) if form and body is None else body

    def _collection(self, one: Mapping[str, Any]) -> dict[str, Any]:
        """Return style and explode. A single value has none; csv is the default of path, query and header without explode."""
        if one.get("type") != "array":
            single = one["in"] == "formData" or type_of(one.get("type")) in ("string", "number", "integer", "boolean")
            return {} if single else {"explode": False}
        found = _COLLECTIONS.get(one.get("collectionFormat", "csv"))
        if found is None or (one["in"] != "query" and one["in"] != "formData" and found[1]):
            return {"explode": False}
        return {"style": found[0], "explode": found[1]}

    def _form(self, form: list[dict[str, Any]], consumes: list[str]) -> dict[str, Any]:
        files = any(one.get("type") == "file" for one in form)
        schema = {
            "type": "object",
            "properties": {
                one["name"]: self._schema({key: one[key] for key in one if key not in _NOT_A_SCHEMA}) for one in form
            },
            "required": [one["name"] for one in form if one.get("required") is True],
        }
        encoding = {one["name"]: self._collection(one) for one in form if self._collection(one)}
        kinds = [kind for kind in consumes if kind in {_FORM, _MULTIPART}] or [_FORM]
        return {
            "required": any(one.get("required") is True for one in form),
            "content": {kind: {"schema": schema, "encoding": encoding} for kind in ([_MULTIPART] if files else kinds)},
        }

    def _schema(self, written: Any) -> Any:
        if isinstance(written, list):
            return [self._schema(item) for item in written]
        if not isinstance(written, dict):
            return written
        ref = written.get("$ref")
        if isinstance(ref, str):
            pointed = {"$ref": f"#/components/schemas/{self._name(ref)}"}
            if self.version in {"2.0", "3.0"}:
                return pointed
            return {**pointed, **self._schema({key: value for key, value in written.items() if key != "$ref"})}
        built: dict[str, Any] = {}
        for key, value in written.items():
            if key in _DROPPED or (key.startswith("x-") and key != "x-nullable"):
                continue
            if isinstance(value, dict) and key in _CONTAINERS and isinstance(value.get("$ref"), str):
                value = self._references.follow(value)  # noqa: PLW2901 - a reference in place of what holds schemas, or names
            if key in _SCHEMA_MAPS and isinstance(value, dict):
                built[key] = {name: self._schema(one) for name, one in value.items()}
            elif key in _KEPT:
                built |= {key: value} if key == "required" or carried(value) else {}
            elif key == "discriminator":
                if isinstance(value, dict) and self.version != "2.0":
                    built[key] = self._discriminator(value)
            elif key == "x-nullable":
                built["nullable"] = value
            else:
                built[key] = self._schema(value)
        if built.get("type") == "file":
            built = {**built, "type": "string", "format": "binary"}
        built = well_formed(built)
        return self._nullable(built) if built.get("nullable") is True else self._sendable(built)

    def _nullable(self, built: dict[str, Any]) -> dict[str, Any]:
        """Apply `nullable` as authors mean it. In 3.0.4 (section 4.7.24.1) it has no effect without a `type` or against an `enum`."""
        if self.version not in {"2.0", "3.0"}:
            return built
        if None not in built.get("enum", [None]):
            built = {**built, "enum": [*built["enum"], None]}
        if "type" in built:
            return self._sendable(built)
        return {"anyOf": [built, {"type": "string", "nullable": True, "enum": [None]}]}

    def _sendable(self, built: dict[str, Any]) -> dict[str, Any]:
        """Drop the requirement of properties that are not sent in this direction.

        Read-only properties are required only of answers (3.0.4, section 4.7.24.2); 3.1 leaves this rule to JSON Schema, which cannot
        express it.
        """
        hidden = self._hidden_names(built)
        if not hidden:
            return built
        parts = built.get("allOf")
        if isinstance(parts, list):
            built = {**built, "allOf": [_without_demand(one, hidden) for one in parts]}
        return _without_demand(built, hidden)

    def _hidden_names(self, written: Any, depth: int = 0) -> frozenset[str]:
        """Return the properties of an object, or of its composition, that belong to the other direction."""
        schema = self._opened(written)
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return frozenset()
        properties = schema.get("properties")
        own = properties if isinstance(properties, dict) else {}
        names = {name for name, one in own.items() if self._hidden(one)}
        parts = schema.get("allOf")
        return frozenset(names).union(
            *(self._hidden_names(one, depth + 1) for one in (parts if isinstance(parts, list) else ()))
        )

    def _hidden(self, written: Any, depth: int = 0) -> bool:
        schema = self._opened(written)
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return False
        parts = schema.get("allOf")
        return schema.get(self._hides) is True or any(
            self._hidden(one, depth + 1) for one in (parts if isinstance(parts, list) else ())
        )

    def _opened(self, written: Any) -> Any:
        """Return the schema that a schema of the document, or of the description, refers to."""
        if not isinstance(written, dict) or not isinstance(ref := written.get("$ref"), str):
            return written
        try:
            return self._documents.follow({"$ref": self._refs.get(ref, ref)})
        except UnresolvedRefError:
            return None

    def _discriminator(self, written: dict[str, Any]) -> dict[str, Any]:
        mapping = written.get("mapping")
        if not isinstance(mapping, dict):
            return written
        kept = {}
        for value, target in mapping.items():
            if not isinstance(target, str):
                continue
            ref = target if "#" in target or "/" in target else f"#/components/schemas/{target}"
            kept[value] = f"#/components/schemas/{self._name(ref)}"
        return {"propertyName": written.get("propertyName"), "mapping": kept}

    def _name(self, ref: str) -> str:
        """Return a name for the target of a reference: its own name if that is free, because a discriminator may use it."""
        if ref not in self._names:
            base = "".join(c if c.isalnum() or c in "._-" else "_" for c in ref.rpartition("/")[2]) or "schema"
            name, count = base, 2
            while name in self._schemas:
                name, count = f"{base}_{count}", count + 1
            self._names[ref] = name
            self._refs[f"#/components/schemas/{name}"] = ref
            self._schemas[name] = {}
            self._waiting.append(ref)
        return self._names[ref]

    def _drain(self) -> None:
        while self._waiting:
            ref = self._waiting.pop()
            try:
                self._schemas[self._names[ref]] = self._schema(self._documents.lookup(ref))
            except UnresolvedRefError:
                continue  # without a target the schema stays open; a tool that requires it does not exist


def _without_demand(schema: _T, names: frozenset[str]) -> _T:
    """Return a schema that does not require certain names."""
    if not isinstance(schema, dict) or not isinstance(required := schema.get("required"), list):
        return schema
    return cast("_T", {**schema, "required": [name for name in required if name not in names]})
