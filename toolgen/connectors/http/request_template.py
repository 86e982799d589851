"""Request template: the request of an HTTP tool with all parts that do not depend on its arguments.

A template makes the requests of ordinary calls, with plain values in path, query, headers and a form, and leaves all others to
`request_builder.bind`. Its requests are equal to those of `bind`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from msgspec import UNSET

from toolgen.connectors.http.bodies import encode_body
from toolgen.connectors.http.parameter_styles import UnbindableError, form_text, percent
from toolgen.connectors.http.request_builder import Headers, HttpRequest, bind, free_names, path_pieces, settable_header
from toolgen.model.media_types import JSON
from toolgen.model.parameter_names import described_override
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import HttpBinding, HttpBody, HttpParameter, HttpPart, Tool

__all__ = ["HttpRequestTemplate", "http_request_template"]

_PLAIN = re.compile(r"[A-Za-z0-9_~-]+\Z").match
"""Values that are sent unchanged, and that no server can read as anything else: no dot, no escape, no delimiter."""
_HEADER_TEXT = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\Z").match
_FORM = "application/x-www-form-urlencoded"
_SCALARS = frozenset({str, int, float, bool, type(None)})


class HttpRequestTemplate:
    """Requests of one tool. `url` is a format with a place for each argument in the path."""

    __slots__ = ("_binding", "_form", "_headers", "_in_headers", "_others", "_path", "_query", "_schema", "_url")

    def __init__(self, tool: Tool, binding: HttpBinding) -> None:
        """Prepare the template. Raises `UnbindableError` for a tool whose requests cannot be made from a template."""
        path = {one.name: one for one in binding.parameters if one.in_ == "path"}
        sample = bind(
            HttpBinding(
                method=binding.method,
                path=binding.path,
                servers=binding.servers,
                parameters=tuple(path.values()),
                body=None,
                security=(),
            ),
            dict.fromkeys((one.argument for one in path.values()), "x"),
        )
        pieces = path_pieces(binding.path)
        base = sample.url.removesuffix("".join(plain + ("" if name is None else "x") for plain, name in pieces))
        self._url = base.replace("%", "%%") + "".join(
            plain.replace("%", "%%") + ("" if name is None else "%s") for plain, name in pieces
        )
        self._path = tuple(path[name].argument for _, name in pieces if name is not None)
        self._query = tuple((one.argument, f"{percent(one.name)}=") for one in binding.parameters if one.in_ == "query")
        headers = [one for one in binding.parameters if _is_plain_header(one)]
        self._in_headers = tuple((one.argument, one.name) for one in headers)
        others = [one for one in binding.parameters if one.in_ not in {"path", "query"} and one not in headers]
        self._others = tuple(one.argument for one in others)
        self._headers, self._binding, self._schema = sample.headers, binding, tool.input_schema
        self._form = None if binding.body is None else _form_fields(binding.body)

    def request(self, arguments: JsonObject) -> HttpRequest | None:
        """Return the request of a call, or None if `bind` has to make it. Raises `UnbindableError`, as `bind` does."""
        binding, values = self._binding, []
        for name in self._path:
            value = arguments.get(name)
            text = str(value) if type(value) is int else value
            if type(text) is not str or _PLAIN(text) is None:
                return None
            values.append(text)
        for name in self._others:
            if arguments.get(name) is not None:
                return None
        url = self._url % tuple(values)
        if self._query:
            pairs = _pairs(self._query, arguments, percent)
            if pairs is None:
                return None
            url += "?" + "&".join(pairs) if pairs else ""
        free: tuple[str, ...] = ()
        if not _SCALARS.issuperset(map(type, arguments.values())):
            free = free_names(binding, arguments, self._schema)
        headers, body = self._headers, None
        for name, header in self._in_headers:
            value = arguments.get(name)
            if value is None:
                continue
            if type(value) is not str or _HEADER_TEXT(value) is None:
                return None
            headers = _with_header(headers, header, value)
        if self._form is not None:
            pairs = _pairs(self._form, arguments, form_text)
            if not pairs:
                return None
            headers, body = (*headers, ("Content-Type", _FORM)), "&".join(pairs).encode("ascii")
        elif binding.body is not None and (encoded := encode_body(binding.body, arguments)) is not None:
            if not isinstance(encoded.content, bytes):
                return None
            headers, body = (*headers, ("Content-Type", encoded.media_type)), encoded.content
        return HttpRequest(method=binding.method, url=url, headers=headers, body=body, free_names=free)


def http_request_template(tool: Tool) -> HttpRequestTemplate | None:
    """Return the template of a tool; None if only `bind` can make its requests."""
    binding = tool.binding
    if not isinstance(binding, HttpBinding) or binding.constants is not UNSET or "?" in binding.path:
        return None
    if not all(map(_is_plain, binding.parameters)):
        return None
    body = binding.body
    if body is not None and not _is_json(body) and _form_fields(body) is None:
        return None
    names = [name for _, name in path_pieces(binding.path) if name is not None]
    if len({*names}) != len(names) or sorted(names) != sorted(
        one.name for one in binding.parameters if one.in_ == "path"
    ):
        return None
    try:
        return HttpRequestTemplate(tool, binding)
    except UnbindableError:
        return None


def _is_json(body: HttpBody) -> bool:
    return not body.file and not body.parts and body.others is None and JSON.match(body.media_type) is not None


def _form_fields(body: HttpBody) -> tuple[tuple[str, str], ...] | None:
    """Return the arguments of a flat form, each with its written name and `=`; None for any other body, or if a value is not written as
    plain text."""
    if body.media_type != _FORM or body.argument is not None or body.file or body.others is not None:
        return None
    for name in body.properties.values():
        part = body.parts.get(name)
        if described_override(name) or (part is not None and part != HttpPart()):
            return None
    return tuple((argument, f"{form_text(name)}=") for argument, name in body.properties.items())


def _is_plain(parameter: HttpParameter) -> bool:
    """Return True for a parameter whose plain value is sent unchanged, or for which `bind` makes the request if it is given."""
    if parameter.in_ == "path":
        return parameter.style == "simple" and parameter.content_type is None
    if parameter.in_ == "query":
        plain = parameter.content_type is None and not parameter.allow_reserved
        return plain and not described_override(parameter.name)
    return True


def _is_plain_header(parameter: HttpParameter) -> bool:
    """Return True for a parameter that sets a header to its text, unchanged."""
    plain = parameter.style == "simple" and parameter.content_type is None and not parameter.nested
    return parameter.in_ == "header" and plain and settable_header(parameter.name)


@lru_cache(maxsize=256)
def _with_header(headers: Headers, name: str, text: str) -> Headers:
    """Return the headers with this one in place of others of its name."""
    return (*(header for header in headers if header[0].lower() != name.lower()), (name, text))


def _pairs(fields: Sequence[tuple[str, str]], arguments: JsonObject, escape: Callable[[str], str]) -> list[str] | None:
    """Return the pairs of a query or a form that arguments are given for; None if one needs `bind`."""
    pairs = []
    for name, written in fields:
        if (value := arguments.get(name)) is None:
            continue
        text = _scalar(value)
        if text is None:
            return None
        pairs.append(written + (text if _PLAIN(text) is not None else escape(text)))
    return pairs


def _scalar(value: Json) -> str | None:
    """Return a value of the query as text; None for one that is written in the general way."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[return-value]
    if kind is bool:
        return "true" if value else "false"
    return str(value) if kind is int else None
