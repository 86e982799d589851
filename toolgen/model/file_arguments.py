"""File arguments: their places by the schema of a tool, and their form in the audit log.

A file is an object with one of `uri` (an answer's or an upload's), `path` (on the machine of a caller in the same process, or over stdio)
and `base64`, and with `filename` and `media_type` if they are known. Before a call is judged the gateway adds `size` and `sha256`, so that
rules and approvers see what is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from toolgen.model.schema import Json, JsonObject, Schema

__all__ = [
    "FILE_SCHEMA",
    "file_places",
    "is_file_schema",
    "is_text_file",
    "recorded_files",
    "replaced_at",
    "says_base64",
    "takes_files",
    "with_files",
    "with_text_files",
]

FILE_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "uri": {
            "type": "string",
            "description": "The toolgen:// URI of a file that another tool answered with, or that was uploaded. Better than base64.",
        },
        "base64": {
            "type": "string",
            "contentEncoding": "base64",
            "description": "The content in base64, up to 64 KiB.",
        },
        "filename": {"type": "string"},
        "media_type": {"type": "string"},
    },
    "minProperties": 1,
}
"""Schema of a file argument in tools of described systems."""

_TEXT_FILE: Mapping[str, Any] = {
    "uri": {"type": "string", "description": "toolgen:// URI of a file to send instead."},
    "text": {"type": "string", "description": "Plain text; it is sent in base64."},
    "base64": {"type": "string", "contentEncoding": "base64"},
}
_SAYS_BASE64 = re.compile(
    r"\bbase-?64[- ]?encod(?:ed|ing)\b|\b(?:encoded|sent|given|supplied) (?:in|as|with|using) base-?64\b"
    r"|\b(?:in|using|as|with) (?:a )?base-?64(?: encod(?:ing|ed)| format| string)?\b",
    re.IGNORECASE,
)
_OTHERWISE = re.compile(
    r"base-?64[- ]?url|url[- ]?safe|\b(?:or|either|may be|can be|could be|optional(?:ly)?|if|when|unless|plain|token|cursor|opaque|tag|id"
    r"|digest|hash(?:ed)?|checksum|md5|sha-?\d+|signature|signed|hmac|encrypt(?:ed|ion)?|gzip(?:ped)?|compress(?:ed)?|zip(?:ped)?|tarball"
    r"|archive|username|password|credentials?|concatenat\w*|jwt|protobuf|protocol buffers?|seriali[sz]ed)\b",
    re.IGNORECASE,
)
_Path = tuple[str | int, ...]
_IsFile = Callable[[Any], bool]
_VALUES = frozenset({"const", "default", "enum", "example", "examples"})
_CHOICES = ("anyOf", "oneOf", "allOf")
_MAX_DEPTH = 40
# checked first, because most parts of a schema are of these types
_PLAIN = frozenset({str, bool, int, float, type(None)})
_NAMES = ("filename", "media_type", "size", "sha256")
_MAX_REFERENCE_LENGTH = 200


def is_file_schema(schema: Any) -> bool:
    """Return True if a schema is that of a file."""
    properties = schema.get("properties") if isinstance(schema, (dict, Mapping)) else None
    if properties is None:
        return False
    inner = properties.get("base64") if isinstance(properties, (dict, Mapping)) else None
    return inner is not None and isinstance(inner, (dict, Mapping)) and inner.get("contentEncoding") == "base64"


def is_text_file(schema: Any) -> bool:
    """Return True for the schema of a base64 text that may be given as a file (`with_text_files`)."""
    return is_file_schema(schema) and schema.get("contentEncoding") == "base64"


def with_text_files(schema: Any, known: dict[int, Any] | None = None) -> Any:
    """Return the schema in which base64 texts accept files and plain texts too: texts with `contentEncoding`, OpenAPI's `format: byte`, or
    a description that says so of the complete value. Unchanged if it has none. The system receives the text in base64.

    `known` caches converted definitions by `id`, for tools that share them; they must live as long as the cache.
    """
    if not isinstance(schema, dict):
        if type(schema) in _PLAIN:
            return schema
        if isinstance(schema, list | tuple):
            listed = [with_text_files(one) for one in schema]
            return listed if any(one is not before for one, before in zip(listed, schema, strict=True)) else schema
        if not isinstance(schema, Mapping):
            return schema
    if is_file_schema(schema):
        return schema
    if _is_encoded(schema):
        written = schema["type"]
        kinds = [written] if isinstance(written, str) else list(written)
        form = {"properties": _TEXT_FILE, "minProperties": 1, "contentEncoding": "base64"}
        return {**schema, **form, "type": ["object", *kinds]}
    changed: dict[str, Any] = {}
    for key, one in schema.items():
        if isinstance(one, str) or key in _VALUES:
            continue
        made = _definitions(one, known) if key == "$defs" and known is not None else with_text_files(one)
        if made is not one:
            changed[key] = made
    return {**schema, **changed} if changed else schema


def _definitions(definitions: Any, known: dict[int, Any]) -> Any:
    """Return definitions with text files; a shared definition is converted once and stays one object."""
    if type(definitions) is not dict:
        return with_text_files(definitions)
    changed: dict[str, Any] = {}
    for name, one in definitions.items():
        made = known.get(id(one))
        if made is None:
            made = known[id(one)] = with_text_files(one)
        if made is not one:
            changed[name] = made
    return {**definitions, **changed} if changed else definitions


def _is_encoded(schema: Mapping[str, Any]) -> bool:
    """Return True if values of a schema are base64 texts without a fixed set of values."""
    written = schema.get("type")
    kinds = {written} if isinstance(written, str) else set(written) if isinstance(written, list | tuple) else set()
    if "string" not in kinds or not kinds <= {"string", "null"} or schema.keys() & {"enum", "const"}:
        return False
    if "contentEncoding" in schema:
        return bool(schema["contentEncoding"] == "base64")
    written_as, said = schema.get("format"), schema.get("description")
    return written_as in ("byte", "base64") or (written_as is None and isinstance(said, str) and says_base64(said))


def says_base64(description: str) -> bool:
    """Return True for the description of a text that a caller would have to encode in base64.

    Tokens, digests and cursors come from the system, packed or encrypted data is not plain text, and a text with several possible forms is
    not certainly base64.
    """
    return _SAYS_BASE64.search(description) is not None and _OTHERWISE.search(description) is None


def takes_files(schema: Any, is_file: _IsFile = is_file_schema) -> bool:
    """Return True if an argument at any depth of a schema is a file."""
    todo = [schema]
    while todo:
        match todo.pop():
            case Mapping() as part:
                if is_file(part):
                    return True
                todo += part.values()
            case list() | tuple() as parts:
                todo += parts
    return False


def file_places(
    schema: Schema, arguments: JsonObject, is_file: _IsFile = is_file_schema
) -> Iterator[tuple[_Path, Mapping[str, Json]]]:
    """Yield each file among arguments, with its path of keys."""
    for path, file in _places(schema, arguments, is_file):
        if isinstance(file, Mapping):
            yield path, file


def _places(
    schema: Schema, arguments: JsonObject, is_file: _IsFile = is_file_schema
) -> Iterator[tuple[_Path, Mapping[str, Json] | str]]:
    """Yield each file among arguments, and each text in the place of a file."""
    definitions = schema.get("$defs")
    yield from _below(schema, arguments, (), definitions if isinstance(definitions, Mapping) else {}, is_file)


def _below(
    schema: Any,
    value: Json,
    path: _Path,
    definitions: Mapping[str, Any],
    is_file: _IsFile,
    depth: int = 0,
) -> Iterator[tuple[_Path, Mapping[str, Json] | str]]:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or not isinstance(value, Mapping | list | tuple | str):
        return
    if isinstance(value, Mapping | str) and is_file(schema):
        yield path, value
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        name = reference.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
        yield from _below(definitions.get(name), value, path, definitions, is_file, depth + 1)
    found: set[_Path] = set()
    for key in _CHOICES:
        options = schema.get(key)
        for option in options if isinstance(options, list | tuple) else ():
            for place, file in _below(option, value, path, definitions, is_file, depth + 1):
                if place not in found:
                    found.add(place)
                    yield place, file
    if isinstance(value, str):
        return
    if isinstance(value, Mapping):
        known = schema.get("properties")
        others = schema.get("additionalProperties")
        for name, one in value.items():
            inner = known.get(name, others) if isinstance(known, Mapping) else others
            if (*path, name) not in found:
                yield from _below(inner, one, (*path, name), definitions, is_file, depth + 1)
    else:
        for index, one in enumerate(value):
            yield from _below(schema.get("items"), one, (*path, index), definitions, is_file, depth + 1)


def with_files(
    schema: Schema,
    arguments: JsonObject,
    change: Callable[[Mapping[str, Json]], Json],
    is_file: _IsFile = is_file_schema,
) -> JsonObject:
    """Return the arguments with every file changed; unchanged if there is none."""
    changed: Any = arguments
    for path, file in list(file_places(schema, arguments, is_file)):
        changed = replaced_at(changed, path, change(file))
    found: JsonObject = changed
    return found


def replaced_at(value: Any, path: _Path, by: Json) -> Any:
    """Return the value with another part at the end of these keys."""
    if not path:
        return by
    step, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        return {**value, str(step): replaced_at(value[str(step)], rest, by)}
    listed = list(value)
    listed[int(step)] = replaced_at(listed[int(step)], rest, by)
    return listed


def recorded_files(schema: Schema, arguments: JsonObject) -> JsonObject:
    """Return the arguments for the audit log: without the bytes of files and the keys in their URIs, also for a file sent as a text."""
    changed: Any = arguments
    for path, file in list(_places(schema, arguments)):
        changed = replaced_at(changed, path, _recorded_text(file) if isinstance(file, str) else _recorded_file(file))
    found: JsonObject = changed
    return found


def _recorded_text(text: str) -> Json:
    """Return the record of a text in the place of a file: some systems accept a file's name, and any other text is a file in an
    unsupported form.
    """
    if len(text) <= _MAX_REFERENCE_LENGTH and "toolgen://" not in text:
        return text
    return {"characters": len(text), "sha256": sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}


def _recorded_file(file: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the members of a file for the audit log: name, media type, size and digest."""
    return {name: file[name] for name in _NAMES if name in file}
