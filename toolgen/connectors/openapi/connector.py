"""OpenAPI sources, and requests declared in a file: their reading and their calls over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from toolgen.connectors.base import Connector, ExecutorContext
from toolgen.connectors.executor import Executor
from toolgen.connectors.locations import file_or_url
from toolgen.connectors.mock_service import MockService
from toolgen.connectors.openapi.options import OpenApiKeys, read_openapi_keys
from toolgen.connectors.original import Original
from toolgen.connectors.proof.verdicts import Prover
from toolgen.connectors.source import SourceConfig, SourceReading, SourceSettings
from toolgen.connectors.source_entry import ConfiguredSource, SourceEntry
from toolgen.model.binding_change import BindingChange
from toolgen.model.manifest import SourceInfo
from toolgen.model.tool import Tool

__all__ = ["OpenApiConnector"]


class OpenApiConnector(Connector):
    """Connector of `openapi:`."""

    kind = "openapi"
    keys = OpenApiKeys
    bindings = frozenset({"http"})
    own_keys = frozenset({"poll", "trace", "http2"})
    failure_keys = frozenset({"timeouts", "retries", "breaker", "concurrency", "idempotency_key", "answers"})
    describes_requests = True
    no_proof = "the tool is declared by its request itself, which is sent as it is written"
    networked = True
    takes_accounts = True
    server_key = "server"
    renewable = True

    def configure(self, given: Any, entry: SourceEntry) -> ConfiguredSource:
        """Return the settings of a description: its servers, overlays, references and constants."""
        header = given.idempotency_key
        config = {**read_openapi_keys(given, entry), "anonymous": entry.anonymous, "key_header": header}
        return ConfiguredSource(location=given.openapi, auth=entry.auth, config=config)

    def location(self, given: str, root: Path, where: str) -> str:
        """Return a file below `root`, or an http(s) URL."""
        return file_or_url(self.kind, given, root, where)

    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Read a description, or the requests of a tool resource."""
        if config.resource:
            from toolgen.connectors.declared.read import read_requests  # noqa: PLC0415 - if there is such a source

            return read_requests(config)
        from toolgen.connectors.openapi.read import read_openapi  # noqa: PLC0415 - if there is such a source

        return read_openapi(config)

    def make_executor(self, source: SourceSettings, context: ExecutorContext) -> Executor:
        """Return an executor over HTTP. It polls long-running operations if toolgen.yaml configures that."""
        from toolgen.connectors.http.source_executor import http_executor, resilient  # noqa: PLC0415 - a gateway's alone

        make = partial(http_executor, source, context)
        followed = [one for one in (source.poll, *source.tool_polls.values()) if one is not None and one.url]
        if not followed:
            return resilient(make(), source)
        from toolgen.connectors.http.polling import PollingExecutor, reader_for  # noqa: PLC0415 - if anything is followed

        schemes = context.info.security_schemes.values()
        hidden = frozenset(one.name for one in schemes if one.type == "apiKey" and one.in_ == "query")
        inner = resilient(make(reader_for(followed)), source)
        return PollingExecutor(inner, default=source.poll, polls=source.tool_polls, hidden=hidden)

    def mock(self, config: SourceConfig) -> MockService:
        """Return a mock that answers with the examples of the description, or with values that its schemas accept."""
        from toolgen.connectors.openapi.mock.description import MockDescription  # noqa: PLC0415 - for mocks alone
        from toolgen.connectors.openapi.mock.server import MockApp  # noqa: PLC0415 - the same

        return MockApp(MockDescription(config))

    def prover(self, config: SourceConfig, info: SourceInfo, *, examples: int, seed: str) -> Prover:
        """Return the prover that compares requests with the description. For declared requests there is nothing to prove."""
        if config.resource:
            return super().prover(config, info, examples=examples, seed=seed)
        from toolgen.connectors.openapi.proof.prover import prove_http_tools  # noqa: PLC0415 - for `toolgen verify` alone

        return prove_http_tools(config, info.security_schemes, examples, seed)

    def original(self, config: SourceConfig, info: SourceInfo) -> Original:
        """Return the summaries and descriptions of operations, and all other texts."""
        from toolgen.connectors.openapi.original import read_original  # noqa: PLC0415 - for `toolgen lint` alone

        return read_original(config)

    def binding_changes(self, before: Tool, after: Tool) -> Iterator[BindingChange]:
        """Yield the changes of a request."""
        from toolgen.connectors.http.binding_changes import request_changes  # noqa: PLC0415 - for a comparison alone

        return request_changes(before, after)
