"""Internal model of operations, common to Swagger 2.0 and OpenAPI 3.0, 3.1 and 3.2. Schemas are still as written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolgen.connectors.openapi.servers import Servers

__all__ = ["METHODS", "FaultError", "Operation", "Parameter", "Part", "RequestBody"]


METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")


class FaultError(Exception):
    """Reason why one operation cannot become a tool. `origin` is a JSON pointer; `code` is stable."""

    def __init__(self, code: str, origin: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.origin = origin
        self.message = message


class Parameter(Struct, frozen=True, kw_only=True):
    """Parameter with its style and explode resolved. `schema` and `example` are as written."""

    name: str
    in_: str  # path | query | header | cookie | querystring
    required: bool
    schema: Any
    description: str
    style: str
    explode: bool
    allow_reserved: bool = False
    content_type: str | None = None
    examples: tuple[Any, ...] = ()
    deprecated: bool = False
    nested: tuple[str, ...] = ()  # styles of nested arrays, the outermost first
    parts: Mapping[str, Part] = {}  # for a form in the querystring


class Part(Struct, frozen=True, kw_only=True):
    """Encoding Object as written; `None` means absent."""

    content_type: str | None = None
    style: str | None = None
    explode: bool | None = None
    allow_reserved: bool = False
    headers: Mapping[str, str]
    nested: tuple[str, ...] = ()  # as in `Parameter`


class RequestBody(Struct, frozen=True, kw_only=True):
    """Request body in the media type that is sent, of those that the operation offers."""

    media_type: str
    schema: Any
    required: bool
    description: str
    parts: Mapping[str, Part]
    examples: tuple[Any, ...] = ()
    others: tuple[RequestBody, ...] = ()  # the other media types of the operation, the best fit first


class Operation(Struct, frozen=True, kw_only=True):
    """Operation combined with its path item. `security` is a list of alternatives (OR) of lists of scheme names (AND)."""

    origin: str
    method: str
    path: str
    identifier: str
    summary: str
    description: str
    tags: tuple[str, ...]
    deprecated: bool
    hint: str  # x-toolgen-effect
    parameters: tuple[Parameter, ...]
    body: RequestBody | None
    servers: Servers
    security: tuple[tuple[str, ...], ...]
    outputs: tuple[Any, ...]
    files: bool = False  # True if a successful answer may be neither JSON nor text
    html: bool = False  # True if a successful answer is described as HTML
    scopes: tuple[Mapping[str, tuple[str, ...]], ...] = ()  # scopes of the same alternatives; empty if none has scopes
