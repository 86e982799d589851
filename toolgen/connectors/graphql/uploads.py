"""Files in variables, sent by the GraphQL multipart request specification: null in the variables, and a part for each file."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.model.file_arguments import is_file_schema
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import HttpBinding, HttpBody, HttpParameter, HttpPart

__all__ = ["GraphQLUpload", "extract", "multipart"]

_MAX_FILES = 20
_CONTENTS = frozenset({"base64", "uri"})
# Servers with protection against cross-site requests require a header that an HTML form cannot send.
_PREFLIGHT = HttpParameter(
    argument="preflight", in_="header", name="Apollo-Require-Preflight", style="simple", explode=False
)


class GraphQLUpload(Struct, frozen=True, kw_only=True):
    """File to upload and its place in the request, such as `variables.input.files.0`."""

    path: str
    content: JsonObject

    def about(self) -> dict[str, Json]:
        """Return the description of the file for a dry run."""
        shown: dict[str, Json] = {
            key: value
            for key in ("filename", "media_type", "size", "sha256")
            if (value := self.content.get(key)) is not None
        }
        encoded = self.content.get("base64")
        return {**shown, "base64_characters": len(encoded)} if isinstance(encoded, str) else shown


class _Finder(Struct):
    definitions: Mapping[str, Schema]
    found: list[GraphQLUpload] = []

    def take(self, schema: Schema, value: Json, path: str) -> Json:
        """Return the value with null in place of every file."""
        if isinstance(value, Mapping) and value.keys() & _CONTENTS and is_file_schema(schema):
            if len(self.found) >= _MAX_FILES:
                raise UnbindableError(f"the arguments hold more than {_MAX_FILES} files")
            self.found.append(GraphQLUpload(path=path, content=value))
            return None
        if reference := schema.get("$ref"):
            return self.take(self.definitions[str(reference).rpartition("/")[2]], value, path)
        for option in schema.get("anyOf", ()):
            if value is not None and option.get("type") != "null":
                return self.take(option, value, path)
        if isinstance(value, Mapping):
            known = schema.get("properties", {})
            return {
                key: self.take(known[key], one, f"{path}.{key}") if key in known else one for key, one in value.items()
            }
        if isinstance(value, list) and "items" in schema:
            return [self.take(schema["items"], one, f"{path}.{index}") for index, one in enumerate(value)]
        return value


def extract(
    schema: Schema, names: Mapping[str, str], variables: JsonObject
) -> tuple[dict[str, Json], tuple[GraphQLUpload, ...]]:
    """Return the variables with null in place of each file, and the files. `names` maps argument -> variable, `schema` is the tool's."""
    finder = _Finder(schema.get("$defs", {}))
    by_variable = {variable: schema["properties"][name] for name, variable in names.items()}
    kept = {
        name: finder.take(by_variable[name], value, f"variables.{name}") if name in by_variable else value
        for name, value in variables.items()
    }
    return kept, tuple(finder.found)


def multipart(
    binding: HttpBinding, request: JsonObject, files: tuple[GraphQLUpload, ...], accept: str
) -> tuple[HttpBinding, JsonObject]:
    """Return the request as a form: `operations`, `map` and then the files, in the order of the specification."""
    places = {str(index): [one.path] for index, one in enumerate(files)}
    arguments: dict[str, Json] = {
        "accept": accept,
        "preflight": "true",
        "operations": msgspec.json.encode(request, enc_hook=dict).decode(),
        "map": msgspec.json.encode(places).decode(),
        **{str(index): one.content for index, one in enumerate(files)},
    }
    names = ("operations", "map", *places)
    body = HttpBody(
        media_type="multipart/form-data",
        properties={name: name for name in names},
        parts={name: HttpPart(file=True) for name in places},
        required=True,
    )
    return msgspec.structs.replace(binding, body=body, parameters=(*binding.parameters, _PREFLIGHT)), arguments
