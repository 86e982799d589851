"""Asking a live GraphQL endpoint what it offers, within bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import monotonic
from typing import Any

from gql import Client, gql
from gql.transport.exceptions import TransportError, TransportQueryError
from gql.transport.httpx import HTTPXTransport, httpx  # type: ignore[attr-defined]  # httpx2 or httpx, as gql itself chose
from graphql import get_introspection_query

from toolgen.errors import DescriptionError

__all__ = ["introspect"]

_SECONDS = 30.0  # for connecting, and for each read
_WHOLE = 60.0  # for all of one answer


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


def introspect(url: str, *, largest: int) -> Mapping[str, Any]:
    """The `{"__schema": …}` of an endpoint that answers introspection without a credential.

    Newer parts of introspection (`isOneOf`, deprecated inputs; GraphQL September 2025) are asked for first, and without them when the
    endpoint does not know them. No proxy, no redirect, no compression. Raises `DescriptionError`.
    """

    def bound(response: Any) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise _TooLargeError  # a compressed body has no size that can be trusted
        response.stream = _Bounded(response.stream, largest)

    transport = HTTPXTransport(
        url,
        timeout=_SECONDS,
        trust_env=False,
        follow_redirects=False,
        headers={"Accept": "application/graphql-response+json, application/json", "Accept-Encoding": "identity"},
        event_hooks={"response": [bound]},
    )
    modern = get_introspection_query(specified_by_url=True, input_value_deprecation=True, one_of=True)
    suggestion = "save the schema to a file when the endpoint needs a credential or answers no introspection"
    try:
        with Client(transport=transport) as session:
            try:
                answer: Mapping[str, Any] = session.execute(gql(modern))
            except TransportQueryError:
                answer = session.execute(gql(get_introspection_query()))
            return answer
    except TransportError as error:
        if isinstance(error.__cause__, _TooLargeError):
            message = f"answers with more than {largest // 2**20} MiB, for longer than {_WHOLE:.0f} seconds, or with a compressed body"
            raise DescriptionError(message, where=url) from None
        raise DescriptionError(f"cannot be asked: {type(error).__name__}", where=url, suggestion=suggestion) from error
