"""Asking a live GraphQL endpoint what it offers, within bounds.

The answer to the introspection query (spec October 2021, section 4), parsed: after this nothing in it is of another shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from types import MappingProxyType
from typing import Annotated, Any, TypeAlias

import msgspec
from gql import Client, gql
from gql.transport.exceptions import TransportError, TransportQueryError
from gql.transport.httpx import HTTPXTransport, httpx  # type: ignore[attr-defined]  # httpx2 or httpx, as gql itself chose
from graphql import GraphQLError, get_introspection_query, parse_const_value

from toolgen.errors import DescriptionError
from toolgen.sources.graphql.repair import Fault, prose

__all__ = ["introspect", "parse_introspection"]

_SECONDS = 30.0  # for connecting, and for each read
_BETWEEN = re.compile(r"[\s;,=]+")  # the parts of `token abc` and of `session=abc; other=def`
_WHOLE = 60.0  # for all of one answer
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_ACCEPT = {"Accept": "application/graphql-response+json, application/json", "Accept-Encoding": "identity"}
_SAVE = "save the schema to a file where the endpoint answers no introspection"


class _TooLargeError(Exception):
    """The answer was cut off."""


class _Bounded(httpx.SyncByteStream):
    """A body that stops being read once it is larger, or takes longer, than anybody needs."""

    def __init__(self, stream: Any, largest: int) -> None:
        self._stream = stream
        self._largest = largest
        self._until = monotonic() + _WHOLE

    def __iter__(self) -> Iterator[bytes]:
        seen = 0
        for chunk in self._stream:
            seen += len(chunk)
            if seen > self._largest or monotonic() > self._until:
                raise _TooLargeError
            yield chunk

    def close(self) -> None:
        self._stream.close()


def introspect(url: str, *, largest: int, headers: Mapping[str, str] = _NO_HEADERS) -> Mapping[str, Any]:
    """The `{"__schema": …}` of an endpoint that answers introspection. `headers` hold credentials, and are never repeated.

    Newer parts of introspection (`isOneOf`, deprecated inputs; GraphQL September 2025) are asked for first, and without them when the
    endpoint does not know them. No proxy, no redirect, no compression. Raises `DescriptionError`.
    """

    seen: dict[str, Any] = {}

    def bound(response: Any) -> None:
        seen.update(status=response.status_code, kind=response.headers.get("content-type", ""))
        if response.headers.get("content-encoding", "identity") != "identity":
            raise _TooLargeError  # a compressed body has no size that can be trusted
        response.stream = _Bounded(response.stream, largest)

    transport = HTTPXTransport(
        url,
        timeout=_SECONDS,
        trust_env=False,
        follow_redirects=False,
        headers={**headers, **_ACCEPT},
        event_hooks={"response": [bound]},
    )
    where = url.partition("?")[0]
    modern = get_introspection_query(specified_by_url=True, input_value_deprecation=True, one_of=True)
    try:
        with Client(transport=transport) as session:
            try:
                answer: Mapping[str, Any] = session.execute(gql(modern))
            except TransportQueryError:
                answer = session.execute(gql(get_introspection_query()))
            return answer
    except TransportQueryError as error:
        if seen.get("status") in {401, 403}:
            raise DescriptionError(*_refused(seen, error, bool(headers)), where=where, suggestion=_SAVE) from None
        told = _first(error)
        secrets = [word for value in headers.values() for word in (value, *_BETWEEN.split(value)) if word]
        reason = "" if any(secret in told for secret in secrets) else f": {told}"
        raise DescriptionError(f"does not answer introspection{reason}", where=where, suggestion=_SAVE) from None
    except TransportError as error:
        if isinstance(error.__cause__, _TooLargeError):
            message = f"answers with more than {largest // 2**20} MiB, for longer than {_WHOLE:.0f} seconds, or with a compressed body"
            raise DescriptionError(message, where=where) from None
        raise DescriptionError(*_refused(seen, error, bool(headers)), where=where, suggestion=_SAVE) from None


def _refused(seen: Mapping[str, Any], error: TransportError, shown: bool) -> tuple[str]:
    """What an endpoint did instead of answering, without a word of what it said: a page may hold anything."""
    status, kind = seen.get("status"), str(seen.get("kind", "")).partition(";")[0].strip().lower()
    if status is None:
        return (f"cannot be asked: {type(error.__cause__ or error).__name__}",)
    if status in {401, 403}:
        wanted = (
            "does not accept the credential of `auth:`" if shown else "wants a credential; set `auth:` of the source"
        )
        return (f"answers {status}: it {wanted}",)
    if "html" in kind:
        return (f"answers {status} with a web page, so it is no GraphQL endpoint",)
    if 300 <= status < 400:
        return (f"answers {status}: redirects are not followed; name where the endpoint really is",)
    return (f"answers {status} with something that is no introspection result",)


def _first(error: TransportQueryError) -> str:
    first = (error.errors or [{}])[0]
    message = first.get("message") if isinstance(first, Mapping) else None
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


class _Input(_Deprecable, rename="camel", kw_only=True):
    type: _Ref
    default_value: str | None = None


class _Field(_Deprecable, rename="camel", kw_only=True):
    type: _Ref
    args: list[_Input] = []


class _Type(msgspec.Struct, rename="camel"):
    kind: str
    name: _Name
    description: str | None = None
    fields: list[_Field] | None = None
    input_fields: list[_Input] | None = None
    interfaces: list[_Ref] | None = None
    enum_values: list[_Deprecable] | None = None
    possible_types: list[_Ref] | None = None
    specified_by_url: str | None = msgspec.field(name="specifiedByURL", default=None)
    is_one_of: bool | None = None


class _Directive(msgspec.Struct, rename="camel"):
    name: _Name
    locations: list[str]
    description: str | None = None
    args: list[_Input] = []
    is_repeatable: bool | None = False


class _Schema(msgspec.Struct, rename="camel"):
    types: list[_Type]
    query_type: _Ref | None = None
    mutation_type: _Ref | None = None
    subscription_type: _Ref | None = None
    directives: list[_Directive] = []
    description: str | None = None


def parse_introspection(schema: object) -> tuple[Any, tuple[Fault, ...]]:
    """The value of `__schema`, as graphql-core's `build_client_schema` takes it, and what was left out of it.

    Raises `msgspec.ValidationError`, which names the place, for another shape.
    """
    parsed = msgspec.convert(schema, type=_Schema)
    faults = tuple(_drop_defaults(parsed))
    return msgspec.to_builtins(parsed), faults


def _drop_defaults(schema: _Schema) -> Iterator[Fault]:
    """Takes out default values that are no GraphQL: some services print those of their own language."""
    for type_ in schema.types:
        yield from _drop_from(type_.input_fields or (), type_.name)
        for field in type_.fields or ():
            yield from _drop_from(field.args, f"{type_.name}.{field.name}")
    for directive in schema.directives:
        yield from _drop_from(directive.args, f"@{directive.name}")


def _drop_from(inputs: Iterable[_Input], owner: str) -> Iterator[Fault]:
    for one in inputs:
        if one.default_value is None:
            continue
        try:
            parse_const_value(one.default_value, no_location=True)
        except GraphQLError:
            one.default_value = None
            message = f"the default value of {one.name} is no GraphQL and was left out"
            yield Fault(code="invalid_default", origin=owner, message=message)
