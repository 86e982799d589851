"""Introspection of a live GraphQL endpoint, within limits."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from time import monotonic
from types import MappingProxyType
from typing import Any

import httpx
import msgspec
from graphql import get_introspection_query
from msgspec import Struct

from toolgen.connectors.executor import Permit
from toolgen.connectors.graphql.prose import prose
from toolgen.connectors.http.outbound.blocking import blocking_client, failure_of
from toolgen.core.errors import DescriptionError

__all__ = ["introspect"]

_SECONDS = 30.0  # seconds for connecting, and for each read
_BETWEEN = re.compile(r"[\s;,=]+")  # parts of `token abc` and of `session=abc; other=def`
_WHOLE = 60.0  # seconds for one complete answer
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_ACCEPT = {"Accept": "application/graphql-response+json, application/json", "Accept-Encoding": "identity"}
_SAVE = "save the schema to a file if the endpoint does not answer introspection"


class _TooLargeError(Exception):
    """Answer over a limit."""


class _Answer(Struct, frozen=True, kw_only=True):
    """Response of an endpoint to one query. `data` and `errors` are empty if the body is not a GraphQL response."""

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


def introspect(
    url: str, *, largest: int, headers: Mapping[str, str] = _NO_HEADERS, permit: Permit | None = None
) -> Mapping[str, Any]:
    """Return the `{"__schema": …}` of an endpoint. `headers` contain credentials and are never repeated in messages.

    Newer parts of introspection (`isOneOf`, deprecated inputs; GraphQL September 2025) are requested first. If the endpoint does not know
    them, the query is repeated without them. No redirect, no compression, and no proxy but that of `permit`. Raises `DescriptionError`.
    """
    where = url.partition("?")[0]
    modern = get_introspection_query(specified_by_url=True, input_value_deprecation=True, one_of=True)
    try:
        with blocking_client(permit, _SECONDS) as client:
            for question in (modern, get_introspection_query()):
                answer = _asked(client, url, question, headers, largest)
                if not answer.errors:
                    break
    except _TooLargeError:
        message = f"answers with more than {largest // 2**20} MiB, for longer than {_WHOLE:.0f} seconds, or with a compressed body"
        raise DescriptionError(message, where=where) from None
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
        reason, suggestion = failure_of(error)
        raise DescriptionError(
            f"cannot be queried: {reason}", where=where, suggestion=f"{suggestion}, or {_SAVE}"
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
            raise _TooLargeError  # the size of a compressed body is unknown
        for chunk in response.iter_raw():
            body += chunk
            if len(body) > largest or monotonic() > until:
                raise _TooLargeError
        return _Answer.of(response, bytes(body))


def _refused(answer: _Answer, shown: bool) -> str:
    """Describe a response that is not an introspection result, without quoting it: a page may contain anything."""
    status = answer.status
    if status in {401, 403}:
        wanted = (
            "does not accept the credential of `auth:`" if shown else "wants a credential; set `auth:` of the source"
        )
        return f"answers {status}: it {wanted}"
    if "html" in answer.media_type:
        return f"answers {status} with a web page, so it is not a GraphQL endpoint"
    if 300 <= status < 400:
        return f"answers {status}: redirects are not followed; set the URL of the endpoint itself"
    return f"answers {status} with something that is not an introspection result"


def _first(errors: tuple[Any, ...]) -> str:
    message = errors[0].get("message") if isinstance(errors[0], Mapping) else None
    return prose(" ".join(message.split()), limit=200) if isinstance(message, str) else "it reports an error"
