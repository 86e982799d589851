"""Asking a live GraphQL endpoint what it offers, within bounds.

The answer to the introspection query (spec October 2021, section 4), parsed: after this nothing in it is of another shape.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

import httpx
import msgspec
from graphql import GraphQLError, get_introspection_query, parse_const_value
from msgspec import Struct

from toolgen.connectors.graphql.prose import prose
from toolgen.connectors.graphql.repair import DescriptionFault
from toolgen.core.errors import DescriptionError, connection_failure

__all__ = ["introspect", "parse_introspection"]

_SECONDS = 30.0  # for connecting, and for each read
_BETWEEN = re.compile(r"[\s;,=]+")  # the parts of `token abc` and of `session=abc; other=def`
_WHOLE = 60.0  # for all of one answer
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_ACCEPT = {"Accept": "application/graphql-response+json, application/json", "Accept-Encoding": "identity"}
_SAVE = "save the schema to a file where the endpoint answers no introspection"


class _TooLargeError(Exception):
    """The answer was cut off."""


class _Answer(Struct, frozen=True, kw_only=True):
    """Response of an endpoint to one query. `data` and `errors` are empty if the body is no GraphQL response."""

    status: int
    media_type: str
    data: Mapping[str, Any] | None = None
    errors: tuple[Any, ...] = ()

    @classmethod
    def of(cls, response: httpx.Response, body: bytes) -> _Answer:
        try:
            payload = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            payload = None
        given = payload if isinstance(payload, dict) else {}
        data, errors = given.get("data"), given.get("errors")
        return cls(
            status=response.status_code,
            media_type=response.headers.get("content-type", "").partition(";")[0].strip().lower(),
            data=data if isinstance(data, dict) else None,
            errors=tuple(errors) if isinstance(errors, list) else (),
        )


def introspect(url: str, *, largest: int, headers: Mapping[str, str] = _NO_HEADERS) -> Mapping[str, Any]:
    """The `{"__schema": …}` of an endpoint that answers introspection. `headers` hold credentials, and are never repeated.

    Newer parts of introspection (`isOneOf`, deprecated inputs; GraphQL September 2025) are asked for first, and without them when the
    endpoint does not know them. No proxy, no redirect, no compression. Raises `DescriptionError`.
    """
    where = url.partition("?")[0]
    modern = get_introspection_query(specified_by_url=True, input_value_deprecation=True, one_of=True)
    try:
        tls = ssl.create_default_context()
        with httpx.Client(verify=tls, trust_env=False, follow_redirects=False, timeout=_SECONDS) as client:
            for question in (modern, get_introspection_query()):
                answer = _asked(client, url, question, headers, largest)
                if not answer.errors:
                    break
    except _TooLargeError:
        message = f"answers with more than {largest // 2**20} MiB, for longer than {_WHOLE:.0f} seconds, or with a compressed body"
        raise DescriptionError(message, where=where) from None
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
        reason, suggestion = connection_failure(error)
        raise DescriptionError(
            f"cannot be asked: {reason}", where=where, suggestion=f"{suggestion}, or {_SAVE}"
        ) from None
    if answer.status not in {401, 403} and answer.errors:
        told = _first(answer.errors)
        secrets = [word for value in headers.values() for word in (value, *_BETWEEN.split(value)) if word]
        reason = "" if any(secret in told for secret in secrets) else f": {told}"
        raise DescriptionError(f"does not answer introspection{reason}", where=where, suggestion=_SAVE)
    if answer.errors or answer.data is None:
        raise DescriptionError(_refused(answer, bool(headers)), where=where, suggestion=_SAVE)
    return answer.data


def _asked(client: httpx.Client, url: str, question: str, headers: Mapping[str, str], largest: int) -> _Answer:
    """Send one query over HTTP (GraphQL over HTTP, section 5). Raises `_TooLargeError` and httpx's errors."""
    body, until = bytearray(), monotonic() + _WHOLE
    asked = {"query": question}
    with client.stream("POST", url, json=asked, headers={**headers, **_ACCEPT}) as response:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise _TooLargeError  # a compressed body has no size that can be trusted
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > largest or monotonic() > until:
                raise _TooLargeError
        return _Answer.of(response, bytes(body))


def _refused(answer: _Answer, shown: bool) -> str:
    """Describe a response that is no introspection result, without quoting it: a page may contain anything."""
    status = answer.status
    if status in {401, 403}:
        wanted = (
            "does not accept the credential of `auth:`" if shown else "wants a credential; set `auth:` of the source"
        )
        return f"answers {status}: it {wanted}"
    if "html" in answer.media_type:
        return f"answers {status} with a web page, so it is no GraphQL endpoint"
    if 300 <= status < 400:
        return f"answers {status}: redirects are not followed; name where the endpoint really is"
    return f"answers {status} with something that is no introspection result"


def _first(errors: tuple[Any, ...]) -> str:
    message = errors[0].get("message") if isinstance(errors[0], Mapping) else None
    return prose(" ".join(message.split()), limit=200) if isinstance(message, str) else "it reports an error"


# SDL's grammar guarantees its names; JSON guarantees nothing, and a name goes into the text of operations.
_Name: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[_A-Za-z][_0-9A-Za-z]*\Z")]


class _Ref(msgspec.Struct, rename="camel"):
    kind: str = "OBJECT"
    name: _Name | None = None
    of_type: _Ref | None = None


class _Deprecable(msgspec.Struct, rename="camel"):
    name: _Name
    description: str | None = None
    is_deprecated: bool | None = False
    deprecation_reason: str | None = None


class _IntrospectedInput(_Deprecable, rename="camel", kw_only=True):
    type: _Ref
    default_value: str | None = None


class _Field(_Deprecable, rename="camel", kw_only=True):
    type: _Ref
    args: list[_IntrospectedInput] = []


class _Type(msgspec.Struct, rename="camel"):
    kind: str
    name: _Name
    description: str | None = None
    fields: list[_Field] | None = None
    input_fields: list[_IntrospectedInput] | None = None
    interfaces: list[_Ref] | None = None
    enum_values: list[_Deprecable] | None = None
    possible_types: list[_Ref] | None = None
    specified_by_url: str | None = msgspec.field(name="specifiedByURL", default=None)
    is_one_of: bool | None = None


class _Directive(msgspec.Struct, rename="camel"):
    name: _Name
    locations: list[str]
    description: str | None = None
    args: list[_IntrospectedInput] = []
    is_repeatable: bool | None = False


class _Schema(msgspec.Struct, rename="camel"):
    types: list[_Type]
    query_type: _Ref | None = None
    mutation_type: _Ref | None = None
    subscription_type: _Ref | None = None
    directives: list[_Directive] = []
    description: str | None = None


def parse_introspection(schema: object) -> tuple[Any, tuple[DescriptionFault, ...]]:
    """The value of `__schema`, as graphql-core's `build_client_schema` takes it, and what was left out of it.

    Raises `msgspec.ValidationError`, which names the place, for another shape.
    """
    parsed = msgspec.convert(schema, type=_Schema)
    faults = tuple(_drop_defaults(parsed))
    return msgspec.to_builtins(parsed), faults


def _drop_defaults(schema: _Schema) -> Iterator[DescriptionFault]:
    """Takes out default values that are no GraphQL: some services print those of their own language."""
    for type_ in schema.types:
        yield from _drop_from(type_.input_fields or (), type_.name)
        for field in type_.fields or ():
            yield from _drop_from(field.args, f"{type_.name}.{field.name}")
    for directive in schema.directives:
        yield from _drop_from(directive.args, f"@{directive.name}")


def _drop_from(inputs: Iterable[_IntrospectedInput], owner: str) -> Iterator[DescriptionFault]:
    for one in inputs:
        if one.default_value is None:
            continue
        try:
            parse_const_value(one.default_value, no_location=True)
        except GraphQLError:
            one.default_value = None
            message = f"the default value of {one.name} is no GraphQL and was left out"
            yield DescriptionFault(code="invalid_default", origin=owner, message=message)
