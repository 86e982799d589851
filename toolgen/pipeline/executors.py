"""Who carries out the calls of what: one executor a source, and the reader of key sets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import assert_never

from toolgen.clock import Clock
from toolgen.errors import ConfigError
from toolgen.execute.base import Executor, Permit
from toolgen.execute.graphql import GraphQLExecutor
from toolgen.execute.http import HttpExecutor
from toolgen.execute.http.credentials import Credentials
from toolgen.execute.http.wire import Request
from toolgen.execute.key_set import fetch_key_set
from toolgen.execute.secrets import SecretReference, Secrets
from toolgen.execute.sql import SqlExecutor
from toolgen.model.graph_auth import HEADERS, SCHEMES, with_headers
from toolgen.model.manifest import Manifest
from toolgen.model.names import nearest
from toolgen.settings import SourceSettings
from toolgen.sources.graph_options import DEFAULT_MAX_PAGE

__all__ = ["headers_of", "make_executors", "make_fetch"]


def make_executors(sources: Mapping[str, SourceSettings], manifest: Manifest, permit: Permit) -> Mapping[str, Executor]:
    """The executors of a project, by source. They open nothing before the first call.

    Raises `ConfigError` for a credential whose security scheme the description does not have: it would never be sent.
    """
    secrets = Secrets()
    for name, source in sources.items():
        schemes = manifest.sources[name].security_schemes
        for scheme in source.auth if source.config.kind != "sql" else ():
            if scheme not in schemes and (source.config.kind, scheme) != ("graphql", HEADERS):
                known = nearest(scheme, schemes) or f" (it has: {', '.join(schemes) or 'none'})"
                raise ConfigError(
                    f"the description has no security scheme '{scheme}'{known}", where=f"sources.{name}.auth.{scheme}"
                )
    return {name: _make(source, manifest, secrets, permit) for name, source in sources.items()}


def make_fetch(permit: Permit, clock: Clock) -> Callable[[str, int], Awaitable[bytes]]:
    """How the keys of identity providers are had: a URL or an absolute path and the most bytes it may be; raises `OSError`."""
    return partial(fetch_key_set, permit=permit, clock=clock)


def _make(source: SourceSettings, manifest: Manifest, secrets: Secrets, permit: Permit) -> Executor:
    config = source.config
    match config.kind:
        case "openapi":
            schemes = manifest.sources[config.name].security_schemes
            return HttpExecutor(schemes=schemes, auth=source.auth, secrets=secrets, permit=permit)
        case "graphql":
            schemes = manifest.sources[config.name].security_schemes
            return GraphQLExecutor(
                schemes=schemes,
                auth=source.auth,
                secrets=secrets,
                permit=permit,
                graph=manifest.sources[config.name].graph,
                max_page=config.graph.max_page or DEFAULT_MAX_PAGE,
            )
        case "sql":
            password = source.auth.get("password")
            reference = password if isinstance(password, SecretReference) else None
            return SqlExecutor(config.location, password=reference, secrets=secrets, permit=permit)
        case _:
            assert_never(config.kind)


def headers_of(source: SourceSettings) -> Mapping[str, str]:
    """The headers that the calls of a GraphQL source show its credentials in. Raises `SecretError`."""
    schemes, auth = with_headers(SCHEMES, source.auth)
    credentials = Credentials(schemes=schemes, auth=auth, secrets=Secrets())
    asked = Request(method="POST", url=source.config.location, headers=(), body=None)
    return dict(credentials.sign(asked, credentials.choose((tuple(sorted(auth)),) if auth else ())).request.headers)
