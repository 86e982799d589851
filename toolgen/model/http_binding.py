"""Binding of HTTP requests: the place of each argument, the credentials, and the constant parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from toolgen.model.binding_properties import BindingProperties

__all__ = ["Constant", "HttpBinding", "HttpBody", "HttpConstant", "HttpKey", "HttpParameter", "HttpPart"]

Constant: TypeAlias = str | bool | int | float


class HttpParameter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Place of one argument in a request. `name` is the wire name; `style` and `explode` are OpenAPI's (3.1, section 4.8.12)."""

    argument: str
    in_: str = msgspec.field(name="in")  # path | query | header | cookie | querystring
    name: str
    style: str
    explode: bool
    allow_reserved: bool = False
    content_type: str | None = None  # set when the parameter has `content` instead of a style
    required: bool = False
    nested: tuple[str, ...] = ()  # styles of nested arrays, the outermost first (2.0, Items Object)
    parts: dict[str, HttpPart] = {}  # by property, if the complete query string is a form


class HttpPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Encoding of one property of a form or multipart body (OpenAPI's Encoding Object)."""

    content_type: str | None = None
    style: str | None = None
    explode: bool | None = None
    allow_reserved: bool = False
    file: bool = False  # an object with `base64` is sent as its file
    headers: dict[str, str] = {}
    nested: tuple[str, ...] = ()  # as in `HttpParameter`


class HttpBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Request body: one argument (`argument`), or an object whose properties are arguments (`properties`: argument -> property)."""

    media_type: str
    argument: str | None = None
    properties: dict[str, str] = {}
    required: bool = False
    parts: dict[str, HttpPart] = {}  # by property, for forms and multipart
    others: HttpPart | None = None  # for properties of a form that its schema does not name
    file: bool = False  # the complete body is one file


class HttpKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Header by which a system recognises a repeated request. The gateway sets it: to its own `text`, or a `uuid` made of it.

    A `required` one is sent with every request, any other with requests that would have an effect twice.
    """

    header: str
    form: str = "text"
    required: bool = False


class HttpConstant(msgspec.Struct, frozen=True, kw_only=True):
    """Parameter with a value from toolgen.yaml, equal in every call; no argument sets it."""

    parameter: HttpParameter  # its `argument` is ""
    value: Constant


class HttpBinding(BindingProperties, frozen=True, kw_only=True, tag_field="kind", tag="http"):
    """HTTP request. `security` is OpenAPI's list of alternatives (OR) of scheme names (AND); `[]` means none is needed, `[[]]` that it is
    optional.

    `scopes`, if there are any, are the same alternatives, each scheme with its scopes. `help_url` is the documentation of the operation.
    `arguments` are as of every binding: the own name of each argument that is listed under another.
    """

    method: str
    path: str
    servers: tuple[str, ...]
    parameters: tuple[HttpParameter, ...]
    body: HttpBody | None
    security: tuple[tuple[str, ...], ...]
    scopes: tuple[dict[str, tuple[str, ...]], ...] | msgspec.UnsetType = msgspec.UNSET
    key: HttpKey | msgspec.UnsetType = msgspec.UNSET
    help_url: str | msgspec.UnsetType = msgspec.UNSET
    constants: tuple[HttpConstant, ...] | msgspec.UnsetType = msgspec.UNSET
    formats: str | msgspec.UnsetType = msgspec.UNSET  # "loose" if toolgen.yaml sets it
    arguments: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    files: bool | msgspec.UnsetType = msgspec.UNSET  # True if a description declares that an answer may be a file
    html: bool | msgspec.UnsetType = (
        msgspec.UNSET
    )  # True if a description declares HTML answers, which are returned unchanged

    @property
    def kind(self) -> str:
        return "http"

    @property
    def key_form(self) -> str:
        """Form of the idempotency key for the system."""
        return self.key.form if isinstance(self.key, HttpKey) else ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """URLs of servers."""
        return self.servers

    @property
    def destination(self) -> str:
        """First server; "" without one, which no rule allows."""
        return self.servers[0] if self.servers else ""

    @property
    def request_line(self) -> str:
        """Method and URL, with the path as its description has it."""
        return f"{self.method} {self.servers[0] if self.servers else ''}{self.path}"

    @property
    def answers_files(self) -> bool:
        """True if a description declares that an answer may be a file."""
        return self.files is True

    @property
    def sends_files(self) -> bool:
        """True if the body, or a part of it, is a file."""
        body = self.body
        return body is not None and (
            body.file or any(part.file for part in (*body.parts.values(), body.others) if part is not None)
        )

    def _renamed_parts(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Return parameters and body."""
        sent = tuple(
            msgspec.structs.replace(one, argument=names.get(one.argument, one.argument)) for one in self.parameters
        )
        body = self.body
        if body is not None:
            properties = {names.get(argument, argument): name for argument, name in body.properties.items()}
            argument = None if body.argument is None else names.get(body.argument, body.argument)
            body = msgspec.structs.replace(body, properties=properties, argument=argument)
        return {"parameters": sent, "body": body}
