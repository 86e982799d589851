"""Comparison of a tool's arguments and answers with its operation: all described values are present, no others, and each has an equal
schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.proof.agreement import Agreement, SchemaDisagreement, Side
from toolgen.connectors.openapi.proof.bodies import media_of
from toolgen.connectors.openapi.proof.known_differences import fills_token, is_file_argument
from toolgen.connectors.openapi.proof.reader import ABSENT, is_json, style_of
from toolgen.connectors.openapi.proof.second_judge import Validators
from toolgen.connectors.openapi.proof.spec_operation import SpecOperation
from toolgen.connectors.openapi.proof.spec_schemas import (
    SpecBody,
    SpecResponse,
    answers,
    body_of,
    parameter_pointers,
    parameter_schema,
)
from toolgen.model.tool import HttpBinding, HttpBody, HttpParameter, Tool

__all__ = ["ShapeComparison"]

_IN = Side(hides="readOnly")
_PARTS = Side(hides="readOnly", files=True)
_FORM = "application/x-www-form-urlencoded"
_VALUES = frozenset({"string", "array", "number", "integer", "boolean", "null"})
_PRIMITIVES = _VALUES - {"array"}
_TEXT: Mapping[str, Any] = {"type": frozenset({"string"})}
_TOP = frozenset({"type", "properties", "required", "additionalProperties", "$defs", "description", "title"})
_OBJECT = frozenset({"type", "properties", "required", "additionalProperties"})
_MAX_DEPTH = 60


class ShapeComparison:
    """Comparison for the tools of one description."""

    def __init__(self, documents: Documents, version: str) -> None:
        self._documents = documents
        self._agreement = Agreement(documents, version, Validators(documents))
        self._made: dict[
            int, tuple[Any, Any]
        ] = {}  # schemas of 2.0 parameters that are not written as schemas, each with its parameter

    def disputed(self) -> tuple[str, ...]:
        """Return, and forget, the differences found since the last call that the second judge does not confirm."""
        found = tuple(self._agreement.disputed)
        self._agreement.disputed.clear()
        return found

    def repaired(self) -> bool:
        """Return True if a schema compared since the last call had been repaired."""
        found, self._agreement.repaired = self._agreement.repaired, False
        return found

    def difference(self, tool: Tool, binding: HttpBinding, described: SpecOperation) -> SchemaDisagreement | None:
        """Return the first difference between the tool's arguments and the operation, or None."""
        return next(self._differences(tool, binding, described), None)

    def _differences(self, tool: Tool, binding: HttpBinding, described: SpecOperation) -> Iterator[SchemaDisagreement]:
        schema = tool.input_schema
        for key in schema.keys() - _TOP:
            yield SchemaDisagreement(
                path=(), pointer=described.origin, what=f"the arguments have `{key}`, which the description does not"
            )
        if schema.get("type") != "object":
            yield SchemaDisagreement(path=(), pointer=described.origin, what="the arguments are not an object")
        required: dict[str, str] = {}
        pointers = parameter_pointers(described, self._documents)
        written = {(one["in"], one["name"]): one for one in described.written}
        read = {(one["in"], one["name"]): one for one in described.parameters}
        for one in binding.parameters:
            place = (one.in_, one.name)
            pointer = pointers.get(place, described.origin)
            if place not in read or place not in written:
                yield from self._undeclared(one, schema, described)
                required[one.argument] = pointer
                continue
            if read[place].get("required") is True:
                required[one.argument] = pointer
            yield from _sending(one, read[place], written[place], described, pointer)
            yield from self._parameter(one, written[place], schema, pointer, described.version)
        body = body_of(
            described, self._agreement.deliberate.demanded, binding.body.media_type if binding.body is not None else ""
        )
        if binding.body is not None and body is None:
            yield SchemaDisagreement(
                path=(), pointer=described.origin, what="a body is sent, which the description does not have"
            )
        elif binding.body is not None and body is not None:
            body = self._without_tokens(body, binding, described, schema)
            yield from self._body(binding.body, body, schema, required, described)
        elif schema.get("additionalProperties") is not None:
            yield SchemaDisagreement(
                path=(), pointer=described.origin, what="the arguments forbid others, which the description does not"
            )
        yield from _required(schema, required, described)

    def _without_tokens(
        self, body: SpecBody, binding: HttpBinding, described: SpecOperation, schema: Mapping[str, Any]
    ) -> SpecBody:
        """Return the body without properties that contain a credential of the gateway and that have no argument."""
        raw = self._agreement.resolved(body.schema)
        properties = raw.get("properties") if isinstance(raw, dict) else None
        if not isinstance(properties, dict):
            return body
        said = {one["name"]: one for one in described.written if one["in"] == "formData"} or properties
        sent = binding.body
        offered = set(sent.properties.values()) if sent is not None else set()
        if sent is not None and sent.argument is not None:
            argument = (schema.get("properties") or {}).get(sent.argument)
            offered |= (self._argument_schema(argument, schema).get("properties") or {}).keys()
        tokens = {name for name in properties.keys() - offered if fills_token(name, said.get(name), binding)}
        if not tokens:
            return body
        kept = {name: one for name, one in properties.items() if name not in tokens}
        required = [name for name in raw.get("required") or () if name not in tokens]
        return replace(body, schema={**raw, "properties": kept, "required": required})

    def _undeclared(
        self, one: HttpParameter, schema: Mapping[str, Any], described: SpecOperation
    ) -> Iterator[SchemaDisagreement]:
        """Yield a difference for a parameter that the description does not declare: only a variable of the path is allowed, as any text."""
        argument = (schema.get("properties") or {}).get(one.argument)
        if one.in_ != "path" or f"{{{one.name}}}" not in described.path:
            what = f"the {one.in_} {one.name!r} is sent, which the description does not have"
            yield SchemaDisagreement(path=(one.argument,), pointer=described.origin, what=what, value="text")
        elif self._argument_schema(argument, schema) != _TEXT:
            yield SchemaDisagreement(
                path=(one.argument,),
                pointer=described.origin,
                what="is not plain text, which an undeclared variable of the path accepts",
            )

    def _parameter(
        self, one: HttpParameter, written: Mapping[str, Any], schema: Mapping[str, Any], pointer: str, version: str
    ) -> Iterator[SchemaDisagreement]:
        argument = (schema.get("properties") or {}).get(one.argument)
        if argument is None:
            what = f"lacks the argument {one.argument!r}, which is the {one.in_} {one.name!r}"
            yield SchemaDisagreement(path=(), pointer=pointer, what=what, value={})
            return
        raw, below = parameter_schema(written, version, self._documents, self._made)
        kind = _plain(one.content_type or "")
        if kind and not is_json(kind) and kind != _FORM and not self._types(raw) <= _PRIMITIVES:
            if self._argument_schema(argument, schema) != _TEXT:
                yield SchemaDisagreement(
                    path=(one.argument,),
                    pointer=pointer,
                    what=f"is not text, although its media type is {kind}",
                )
            return
        yield from self._compared(argument, schema, raw, f"{pointer}{below}", (one.argument,), _IN)

    def _compared(
        self, tool: Any, schema: Mapping[str, Any], raw: Any, pointer: str, path: tuple[str | int, ...], side: Side
    ) -> Iterator[SchemaDisagreement]:
        found = self._agreement.difference(tool, schema.get("$defs") or {}, raw, pointer=pointer, path=path, side=side)
        if found is not None:
            yield found

    def _argument_schema(self, argument: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a tool's schema of one argument with its reference followed."""
        definitions = schema.get("$defs") or {}
        for _ in range(_MAX_DEPTH):
            said = self._agreement.tools.of(argument)
            if said.keys() != {"$ref"}:
                return said
            argument = definitions.get(said["$ref"].removeprefix("#/$defs/"), {})
        return {}

    def _types(self, raw: Any) -> frozenset[str]:
        """Return the types in a schema as written; an empty set means any type."""
        resolved = self._agreement.resolved(raw)
        written = resolved.get("type") if isinstance(resolved, dict) else None
        return frozenset(written if isinstance(written, list) else [str(written)])

    def _body(
        self,
        binding: HttpBody,
        body: SpecBody,
        schema: Mapping[str, Any],
        required: dict[str, str],
        described: SpecOperation,
    ) -> Iterator[SchemaDisagreement]:
        if binding.required is not body.required:
            what = f"the body is {'' if binding.required else 'not '}required, but in the description it is{' not' * binding.required}"
            yield SchemaDisagreement(path=(), pointer=body.pointer, what=what)
        if not body.listed:
            what = f"the body is sent as {binding.media_type!r}, which the description does not list"
            yield SchemaDisagreement(path=(), pointer=body.pointer, what=what)
            return
        kind = _plain(binding.media_type)
        form = kind == _FORM or kind.startswith("multipart/")
        if kind == _FORM:
            yield from _parts(binding, described, body)
        properties = schema.get("properties") or {}
        if binding.argument is None:
            yield from self._spread(binding, body, schema, required, _PARTS if kind.startswith("multipart/") else _IN)
            return
        if binding.required:
            required[binding.argument] = body.pointer
        if schema.get("additionalProperties") is not None:
            yield SchemaDisagreement(
                path=(), pointer=body.pointer, what="the arguments forbid others, which the description does not"
            )
        argument = properties.get(binding.argument)
        one_value = form and bool(self._types(body.schema) & _VALUES)
        if argument is None:
            yield SchemaDisagreement(path=(binding.argument,), pointer=body.pointer, what="no argument is the body")
        elif one_value or not (form or is_json(kind)):
            said = self._argument_schema(argument, schema)
            # In a form the fields are compared, so that their names are checked.
            fields = kind == _FORM and self._argument_schema(said.get("additionalProperties"), schema) == _TEXT
            if not fields and (kind == _FORM or (said != _TEXT and not (binding.file and is_file_argument(said)))):
                yield SchemaDisagreement(
                    path=(binding.argument,),
                    pointer=body.pointer,
                    what=f"is neither the text nor the file that {kind} is",
                )
        else:
            side = _PARTS if kind.startswith("multipart/") else _IN
            yield from self._compared(
                argument, schema, body.schema, f"{body.pointer}{body.below}", (binding.argument,), side
            )

    def _spread(
        self, binding: HttpBody, body: SpecBody, schema: Mapping[str, Any], required: dict[str, str], side: Side
    ) -> Iterator[SchemaDisagreement]:
        """Compare a body whose properties are arguments: all are present, and nothing else of the body's schema is lost."""
        raw = self._agreement.resolved(body.schema)
        said = self._agreement.words.of(raw)
        pointer = f"{body.pointer}{body.below}"
        wanted = said.get("properties") or {}
        for word in said.keys() - _OBJECT:
            yield SchemaDisagreement(
                path=(), pointer=f"{pointer}/{word}", what=f"lacks `{word}` of the body, which the description has"
            )
        if wanted and (said.get("additionalProperties") is False) != (schema.get("additionalProperties") is False):
            yield SchemaDisagreement(
                path=(),
                pointer=pointer,
                what="further properties of the body are not treated as described",
                value="text",
            )
        bound = {name: argument for argument, name in binding.properties.items()}
        hidden = {name for name, one in wanted.items() if self._agreement.deliberate.hidden(one, "readOnly")}
        for name in bound.keys() - wanted.keys():
            what = f"is sent as the body's property {name!r}, which the description does not have"
            yield SchemaDisagreement(path=(bound[name],), pointer=f"{pointer}/properties", what=what, value="text")
        for name in wanted.keys() - bound.keys() - hidden:
            yield SchemaDisagreement(
                path=(), pointer=f"{pointer}/properties/{name}", what=f"no argument is the body's property {name!r}"
            )
        for name, argument in bound.items():
            if name in hidden:
                yield SchemaDisagreement(
                    path=(argument,),
                    pointer=f"{pointer}/properties/{name}",
                    what="is read-only, and is sent",
                    value="text",
                )
            if name in said.get("required", ()):
                required[argument] = f"{pointer}/required"
            tool = (schema.get("properties") or {}).get(argument)
            if tool is None:
                what = f"lacks the argument {argument!r}, which is the body's {name!r}"
                yield SchemaDisagreement(path=(), pointer=f"{pointer}/properties/{name}", what=what, value={})
            elif name in wanted:
                yield from self._compared(tool, schema, wanted[name], f"{pointer}/properties/{name}", (argument,), side)

    def answer(self, tool: Tool, described: SpecOperation) -> SchemaDisagreement | None:
        """Return the first difference between the tool's answers and the operation's successful responses, or None."""
        found: list[SpecResponse] = answers(described, self._documents)
        schema = tool.output_schema
        if schema is None:
            if not found or self._agreement.deliberate.too_deep([one.schema for one in found]):
                return None
            return SchemaDisagreement(path=(), pointer=found[0].pointer, what="the answer's schema is missing")
        if not found:
            return SchemaDisagreement(
                path=(), pointer=f"{described.origin}/responses", what="the description has no schema of an answer"
            )
        definitions = schema.get("$defs") or {}
        open_ = any(isinstance(one, dict) and one.keys() == {"description"} for one in definitions.values())
        cut = open_ and self._agreement.deliberate.too_large([one.schema for one in found])
        side = Side(hides="writeOnly", cut=cut)
        branches = [schema] if len(found) == 1 else schema.get("anyOf")
        if not isinstance(branches, list) or len(branches) != len(found):
            return SchemaDisagreement(
                path=(), pointer=found[0].pointer, what=f"the answer is not one of {len(found)} schemas"
            )
        for branch, one in zip(branches, found, strict=True):
            if difference := self._agreement.difference(
                branch, definitions, one.schema, pointer=one.pointer, path=(), side=side
            ):
                return difference
        return None


def _sending(
    one: HttpParameter, read: Mapping[str, Any], written: Mapping[str, Any], described: SpecOperation, pointer: str
) -> Iterator[SchemaDisagreement]:
    """Compare how the binding sends a parameter with the description."""
    found: list[tuple[str, Any, Any]] = [("required", one.required, read.get("required") is True)]
    content = read.get("content")
    found.append(("content", one.content_type, next(iter(content)) if content else None))
    if not content and one.in_ != "querystring" and (described.version != "2.0" or written.get("type") == "array"):
        style, explode = style_of(read)
        found += [("style", one.style, style), ("explode", one.explode, explode)]
        reserved = written.get("allowReserved") is True and (one.in_ == "query" or described.version == "3.2")
        found.append(("allowReserved", one.allow_reserved, reserved))
    for word, ours, wanted in found:
        if ours != wanted:
            what = f"the {one.in_} {one.name!r} is sent with {word} {ours}, the description says {wanted}"
            yield SchemaDisagreement(path=(one.argument,), pointer=pointer, what=what)


def _parts(binding: HttpBody, described: SpecOperation, body: SpecBody) -> Iterator[SchemaDisagreement]:
    """Compare how the binding sends the properties of a form with the description's encoding."""
    encoding = (media_of(described, binding.media_type) or {}).get("encoding") or {}
    for name in sorted({*binding.parts, *encoding}):
        part, how = binding.parts.get(name), encoding.get(name) or {}
        ours = (part.style, part.explode, part.allow_reserved) if part is not None else (None, None, False)
        wanted = (how.get("style"), how.get("explode"), how.get("allowReserved") is True)
        if _as_sent(*ours) != _as_sent(*wanted):
            what = f"the property {name!r} is sent with style {ours[0]}, explode {ours[1]}, the description says {wanted[0]}, {wanted[1]}"
            yield SchemaDisagreement(path=(), pointer=body.pointer, what=what)


def _as_sent(style: str | None, explode: bool | None, reserved: bool) -> object:
    """Return an encoding with its defaults (3.1.1, section 4.8.15.1.2), or None if it sets nothing."""
    if style is None and explode is None and not reserved:
        return None
    return style or "form", explode if explode is not None else style in {None, "form"}, reserved


def _required(
    schema: Mapping[str, Any], wanted: Mapping[str, str], described: SpecOperation
) -> Iterator[SchemaDisagreement]:
    found = set(schema.get("required") or ())
    for argument in sorted(found - wanted.keys()):
        what = f"requires the argument {argument!r}, which the description does not"
        yield SchemaDisagreement(path=(), pointer=described.origin, what=what, value=ABSENT)
    for argument in sorted(wanted.keys() - found):
        what = f"does not require the argument {argument!r}, which the description does"
        yield SchemaDisagreement(path=(), pointer=wanted[argument], what=what, value={})


def _plain(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()
