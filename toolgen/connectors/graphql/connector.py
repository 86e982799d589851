"""GraphQL sources: reading of schemas and trusted operations, and their calls over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from toolgen.connectors.base import Connector, ExecutorContext
from toolgen.connectors.document_guard import DocumentGuard, DocumentRules
from toolgen.connectors.executor import Executor, Permit
from toolgen.connectors.graphql.options import DEFAULT_MAX_PAGE, GraphKeys, GraphOptions, graph_options
from toolgen.connectors.locations import file_or_url, last_step
from toolgen.connectors.original import Original
from toolgen.connectors.proof.verdicts import Prover
from toolgen.connectors.source import SourceConfig, SourceReading, SourceSettings
from toolgen.connectors.source_entry import ConfiguredSource, SourceEntry
from toolgen.model.binding_change import BindingChange
from toolgen.model.graphql_schema import MAX_INT
from toolgen.model.manifest import Manifest, SourceInfo
from toolgen.model.tool import Tool

__all__ = ["GraphQLConnector"]


class GraphQLConnector(Connector):
    """Connector of `graphql:`."""

    kind = "graphql"
    keys = GraphKeys
    bindings = frozenset({"graphql"})
    free_headers = True
    networked = True
    takes_accounts = True
    server_key = "endpoint"
    own_keys = frozenset({"trace", "http2"})
    failure_keys = frozenset({"timeouts", "retries", "breaker", "concurrency", "idempotency_key", "answers"})
    renewable = True

    def configure(self, given: Any, entry: SourceEntry) -> ConfiguredSource:
        """Return the settings of a schema: its endpoint, and what its tools select and accept."""
        options = graph_options(given, entry.document, entry.path, entry.root)
        config = {"endpoint": given.endpoint, "graph": options}
        return ConfiguredSource(location=given.graphql, auth=entry.auth, config=config)

    def location(self, given: str, root: Path, where: str) -> str:
        """Return a file below `root`, or the http(s) URL of an endpoint."""
        return file_or_url(self.kind, given, root, where)

    def description_headers(self, source: SourceSettings, permit: Permit | None = None) -> Mapping[str, str]:
        """Return the headers with the source's credentials, because an endpoint requires them for introspection too."""
        from toolgen.connectors.http.source_executor import headers_of  # noqa: PLC0415 - a tenth of a second, for an endpoint alone

        return headers_of(source, permit)

    def recognize(self, spec: str, head: Callable[[], bytes]) -> str:
        """Return `spec` if it is a URL that ends with /graphql, a schema, or the answer to an introspection query; else ""."""
        if spec.startswith(("http://", "https://")):
            return spec if last_step(spec) == self.kind else ""
        answer = spec.endswith(".json") and b'"__schema"' in head()
        return spec if answer or spec.endswith((".graphql", ".graphqls", ".gql")) else ""

    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Read SDL, an introspection result, or the pinned introspection result of a live endpoint."""
        from toolgen.connectors.graphql.read import read_graphql  # noqa: PLC0415 - its library is a tenth of a large build

        return read_graphql(config)

    def document_guard(
        self, config: SourceConfig | None, source: str, manifest: Manifest, rules: DocumentRules
    ) -> DocumentGuard | None:
        """Return the guard of documents and of the part of a schema that a caller may see."""
        from toolgen.connectors.graphql.document_guard import guard_of  # noqa: PLC0415 - a tenth of a start

        return guard_of(config, source, manifest, rules)

    def prover(self, config: SourceConfig, info: SourceInfo, *, examples: int, seed: str) -> Prover:
        """Return the prover that checks operations against the schema."""
        from toolgen.connectors.graphql.description import load_description  # noqa: PLC0415 - as above
        from toolgen.connectors.graphql.proof import prove_operation  # noqa: PLC0415 - for `toolgen verify` alone

        schema = load_description(config.file).schema
        return partial(prove_operation, schema=schema, graph=info.graph, examples=examples, seed=seed)

    def preview_config(self, name: str, info: SourceInfo) -> SourceConfig:
        """Return a configuration with pages of any size, because a limit belongs to a project."""
        return SourceConfig(name=name, kind=self.kind, location="", graph=GraphOptions(max_page=MAX_INT))

    def original(self, config: SourceConfig, info: SourceInfo) -> Original:
        """Read the descriptions of a schema."""
        from toolgen.connectors.graphql.original import read_original  # noqa: PLC0415 - for `toolgen lint` alone

        return read_original(config)

    def binding_changes(self, before: Tool, after: Tool) -> Iterator[BindingChange]:
        """Yield the changes of an operation."""
        from toolgen.connectors.graphql.binding_changes import operation_changes  # noqa: PLC0415 - for a comparison alone

        return operation_changes(before, after)

    def make_executor(self, source: SourceSettings, context: ExecutorContext) -> Executor:
        """Return an executor of operations over HTTP, and of subscriptions."""
        from toolgen.connectors.graphql.executor import GraphQLExecutor  # noqa: PLC0415 - if there is such a source
        from toolgen.connectors.http.source_executor import resilient  # noqa: PLC0415 - a gateway's alone

        executor = GraphQLExecutor(
            schemes=context.info.security_schemes,
            auth=source.auth,
            secrets=context.secrets,
            permit=context.permit,
            graph=context.info.graph,
            max_page=source.config.graph.max_page or DEFAULT_MAX_PAGE,
            timeouts=source.resilience.timeouts,
            key_header=source.resilience.key_header,
            traces=source.trace,
            http2=source.http2,
            largest=source.resilience.largest,
            provision=context.provision,
            files=context.files,
        )
        return resilient(executor, source)
