"""Executor over HTTP for a source, and the handling of failures around it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from toolgen.connectors.base import ExecutorContext
from toolgen.connectors.executor import Executor, Permit
from toolgen.connectors.http.credentials import SourceCredentials
from toolgen.connectors.http.executor import HttpExecutor, Reader, pieces_of
from toolgen.connectors.http.request_builder import HttpRequest, repeatable
from toolgen.connectors.http.response import result
from toolgen.connectors.resilience import ResilientExecutor
from toolgen.connectors.secrets import SecretResolver
from toolgen.connectors.source import SourceSettings
from toolgen.core.clock import SystemClock
from toolgen.model.auth_schemes import SCHEMES, with_headers

__all__ = ["headers_of", "http_executor", "resilient"]

_CLOCK = SystemClock()


def http_executor(source: SourceSettings, context: ExecutorContext, reader: Reader = result) -> HttpExecutor:
    """Return the executor of a source's HTTP requests. `reader` makes results of answers."""
    known, auth = with_headers(context.info.security_schemes, source.auth)
    return HttpExecutor(
        schemes=known,
        auth=auth,
        secrets=context.secrets,
        permit=context.permit,
        provision=context.provision,
        timeouts=source.resilience.timeouts,
        key_header=source.resilience.key_header,
        traces=source.trace,
        http2=source.http2,
        largest=source.resilience.largest,
        listen=pieces_of,
        reader=reader,
        files=context.files,
        downloads=True,
        app=context.app,
    )


def resilient(inner: Executor, source: SourceSettings) -> Executor:
    """Return an executor with the retries, circuit breaker and concurrency limit of its source."""
    resilience = source.resilience
    return ResilientExecutor(
        inner,
        resilience=resilience,
        repeatable=lambda call: repeatable(call, resilience.key_header),
        source=source.config.name,
        clock=_CLOCK,
    )


def headers_of(source: SourceSettings, permit: Permit | None = None) -> Mapping[str, str]:
    """Return the headers that show a source's credentials to its endpoint. Raises `SecretError`."""
    schemes, auth = with_headers(SCHEMES, source.auth)
    credentials = SourceCredentials(schemes=schemes, auth=auth, secrets=SecretResolver(permit=permit))
    asked = HttpRequest(method="POST", url=source.config.location, headers=(), body=None)
    signed = asyncio.run(credentials.sign(asked, credentials.choose((tuple(sorted(auth)),) if auth else ())))
    return dict(signed.request.headers)
