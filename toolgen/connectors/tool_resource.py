"""A tool resource: a YAML file that declares tools (`kind: Tool`) by functions, requests, statements or expressions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from toolgen.core.errors import DescriptionError
from toolgen.core.files import read_file
from toolgen.core.yaml_file import YamlDocument, apart, decode, read
from toolgen.model.excerpt import MAX_MESSAGE_LENGTH, bounded

__all__ = ["Export", "ExportFault", "FunctionResource", "RequestTemplate", "ResourceKind", "read_resource"]

ResourceKind: TypeAlias = Literal["entry", "http", "sql", "transform"]
_EXPORT = re.compile(r"[a-z](?:_?[a-z0-9])*\Z")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z", re.ASCII)
_MAX_EXPORTS = 500
_MAX_DESCRIPTION_LENGTH = 1024
_MAX_SIZE = 4 * 1024 * 1024
_OWN: Mapping[ResourceKind, str] = {"entry": "function", "http": "request", "sql": "statement", "transform": "result"}


class RequestTemplate(msgspec.Struct, forbid_unknown_fields=True):
    """HTTP request of a tool, with `{argument}` in place of each argument."""

    path: str
    method: str = "GET"
    query: dict[str, str | int | float | bool] = {}
    headers: dict[str, str | int | float | bool] = {}
    body: str | dict[str, str] = ""


class _Http(msgspec.Struct, forbid_unknown_fields=True):
    server: str


class _Export(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    description: str = ""
    title: str = ""
    parameters: dict[str, Any] | None = None
    output: dict[str, Any] | None = None
    effect: Literal["", "read", "write", "destructive"] = ""
    idempotent: bool | None = None
    errorMessageLimit: int | None = None  # noqa: N815 - the file's own word
    function: str = ""
    request: RequestTemplate | None = None
    statement: str = ""
    result: Any = msgspec.UNSET


class _ResourceFile(msgspec.Struct, forbid_unknown_fields=True):
    kind: Literal["Tool"]
    exports: list[Annotated[Any, apart(_Export)]]
    name: str = ""
    description: str = ""
    entry: str = ""
    http: _Http | None = None
    sql: str = ""
    errorMessageLimit: int | None = None  # noqa: N815 - the file's own word


class Export(Struct, frozen=True, kw_only=True):
    """Tool of a resource. `where` is its `file:line`; its kind decides which of `function`, `request`, `statement` and `result` are set."""

    name: str
    where: str
    description: str
    title: str = ""
    parameters: Mapping[str, Any] | None = None
    output: Mapping[str, Any] | None = None
    effect: str = ""
    idempotent: bool | None = None
    error_message_limit: int = MAX_MESSAGE_LENGTH
    function: str = ""
    request: RequestTemplate | None = None
    statement: str = ""
    result: Any = None


class ExportFault(Struct, frozen=True, kw_only=True):
    """Fault of one export, which therefore becomes no tool."""

    where: str
    message: str


class FunctionResource(Struct, frozen=True, kw_only=True):
    """`base` is the module of functions, the URL that requests begin with, or the database; "" for transforms."""

    path: Path
    kind: ResourceKind
    base: str
    digest: str
    exports: tuple[Export, ...]
    faults: tuple[ExportFault, ...] = field(default=())


def read_resource(path: Path, source: str) -> FunctionResource:
    """Reads the file of a source. Raises `DescriptionError`, with the line, for what is no resource; an export that is wrong is a fault."""
    document = read(path, path.name, DescriptionError)
    given = decode(document, (), _ResourceFile, DescriptionError)
    kind, base = _kind(given, document)
    if given.name not in {"", source}:
        raise DescriptionError(
            f"is the resource {bounded(given.name, 40)}, and the source of toolgen.yaml is called {source}",
            where=document.where("name"),
        )
    if not 1 <= len(given.exports) <= _MAX_EXPORTS:
        raise DescriptionError(f"exports: takes 1 to {_MAX_EXPORTS} tools", where=document.where("exports"))
    found: dict[str, Export] = {}
    faults: list[ExportFault] = []
    for index in range(len(given.exports)):
        where = document.where("exports", index)
        try:
            export = _read(document, index, kind, _limit(given.errorMessageLimit, document, "errorMessageLimit"))
            if export.name in found:
                message = f"name: {export.name} is exported already, at {found[export.name].where}"
                faults.append(ExportFault(where=where, message=message))
            else:
                found[export.name] = export
        except DescriptionError as error:
            message = error.message + (f" ({error.suggestion})" if error.suggestion else "")
            faults.append(ExportFault(where=error.where or where, message=message))
    return FunctionResource(
        path=path,
        kind=kind,
        base=base,
        digest="sha256:" + hashlib.sha256(read_file(path, _MAX_SIZE)).hexdigest(),
        exports=tuple(found.values()),
        faults=tuple(faults),
    )


def _kind(given: _ResourceFile, document: YamlDocument) -> tuple[ResourceKind, str]:
    named: dict[ResourceKind, str] = {
        "entry": given.entry,
        "http": "" if given.http is None else given.http.server,
        "sql": given.sql,
    }
    said = [name for name, value in named.items() if value]
    if len(said) > 1:
        raise DescriptionError(
            f"has {' and '.join(said)}: a resource takes one of them", where=document.where(said[-1])
        )
    if not said:
        return "transform", ""
    if said[0] == "entry" and not _MODULE.match(given.entry):
        raise DescriptionError(
            f"entry: '{bounded(given.entry, 40)}' is no module like my_package.tools", where=document.where("entry")
        )
    return said[0], named[said[0]].rstrip("/") if said[0] == "http" else named[said[0]]


def _read(document: YamlDocument, index: int, kind: ResourceKind, limit: int) -> Export:
    path = ("exports", index)
    one = decode(document, path, _Export, DescriptionError)
    document.check_numbers(path, DescriptionError)
    if "__" in one.name or not _EXPORT.match(one.name):
        raise DescriptionError(
            f"name: '{bounded(one.name, 40)}' is no name of an export",
            where=document.where(*path, "name"),
            suggestion="use lower-case letters, digits and single _; what stands behind the first __ of a tool's name is its export",
        )
    if not one.description.strip() and kind != "entry":
        raise DescriptionError(f"{one.name}: has no description", where=document.where(*path))
    if len(one.description) > _MAX_DESCRIPTION_LENGTH:
        raise DescriptionError(
            f"description: has more than {_MAX_DESCRIPTION_LENGTH} characters",
            where=document.where(*path, "description"),
        )
    said = {
        "function": bool(one.function),
        "request": one.request is not None,
        "statement": bool(one.statement.strip()),
        "result": one.result is not msgspec.UNSET,
    }
    own = _OWN[kind]
    for key in (key for key, given in said.items() if given and key != own):
        message = f"{key}: does not belong to a resource with {kind}"
        if kind == "transform":
            message = f"{key}: needs the entry, http or sql that it belongs to, at the top of the file"
        raise DescriptionError(message, where=document.where(*path, key))
    if not said[own] and kind != "entry":
        raise DescriptionError(f"{one.name}: has no {own}", where=document.where(*path))
    _check_parameters(one, kind, document, path)
    return Export(
        name=one.name,
        where=document.where(*path),
        description=one.description.strip(),
        title=one.title,
        parameters=one.parameters,
        output=one.output,
        effect=one.effect,
        idempotent=one.idempotent,
        error_message_limit=limit
        if one.errorMessageLimit is None
        else _limit(one.errorMessageLimit, document, *path, "errorMessageLimit"),
        function=one.function or one.name,
        request=one.request,
        statement=one.statement,
        result=None if one.result is msgspec.UNSET else one.result,
    )


def _limit(given: int | None, document: YamlDocument, *path: str | int) -> int:
    if given is None:
        return MAX_MESSAGE_LENGTH
    if not 1 <= given <= MAX_MESSAGE_LENGTH:
        raise DescriptionError(
            f"errorMessageLimit: takes 1 to {MAX_MESSAGE_LENGTH} characters", where=document.where(*path)
        )
    return given


def _check_parameters(one: _Export, kind: ResourceKind, document: YamlDocument, path: tuple[str | int, ...]) -> None:
    if one.parameters is None:
        if kind != "entry":
            raise DescriptionError(
                f"{one.name}: has no parameters",
                where=document.where(*path),
                suggestion="write `parameters: {type: object, properties: {}}` where it takes none",
            )
        return
    where = document.where(*path, "parameters")
    properties = one.parameters.get("properties", {})
    if one.parameters.get("type") != "object" or not isinstance(properties, dict):
        raise DescriptionError("parameters: takes a JSON Schema of the type object, with properties", where=where)
    required = one.parameters.get("required", [])
    if not isinstance(required, list) or not set(map(str, required)) <= properties.keys():
        raise DescriptionError("parameters: required names what properties do not have", where=where)
