"""Every tool of one source proved against the description it was made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from toolgen.model.manifest import SecurityScheme
from toolgen.model.tool import Tool
from toolgen.queries import read_database
from toolgen.sources.base import SourceConfig
from toolgen.sources.graphql import read_graphql
from toolgen.sources.graphql.description import load_description
from toolgen.sources.mcp import read_mcp
from toolgen.sources.openapi import read_openapi
from toolgen.sources.openapi.overlay import apply_overlays
from toolgen.sources.openapi.read import open_documents
from toolgen.sources.python import read_python
from toolgen.verify.http import HttpProver
from toolgen.verify.operations import prove_operation
from toolgen.verify.verdicts import NotApplicable, ToolReport, Verdict

__all__ = ["SourceReport", "prove_http_tools", "verify_source"]

Progress = Callable[[ToolReport], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """One source's tools, in the order of their names."""

    source: str
    tools: tuple[ToolReport, ...]

    def counts(self) -> Mapping[str, int]:
        """How many tools ended as `proven`, `failed`, `unproven` and `not_applicable`."""
        return Counter(str(report.to_dict()["status"]) for report in self.tools)


def verify_source(
    config: SourceConfig,
    *,
    examples: int = 20,
    seed: str = "0",
    password: str = "",
    progress: Progress | None = None,
) -> SourceReport:
    """Reads the source and proves each of its tools with up to `examples` generated calls; nothing is sent.

    `password` is a database's, whose schema is read.

    Raises `DescriptionError` and `ConfigError` as a build does. The same seed makes the same calls.
    """
    prover = _prover(config, examples, seed, password)
    reports = []
    for tool in sorted(prover[0], key=lambda tool: tool.name):
        report = ToolReport(tool=tool.name, origin=tool.origin, verdict=prover[1](tool))
        reports.append(report)
        if progress is not None:
            progress(report)
    return SourceReport(source=config.name, tools=tuple(reports))


def _prover(
    config: SourceConfig, examples: int, seed: str, password: str
) -> tuple[tuple[Tool, ...], Callable[[Tool], Verdict]]:
    match config.kind:
        case "openapi":
            reading = read_openapi(config)
            prove = prove_http_tools(config, reading.info.security_schemes, examples, seed)
            return reading.tools, prove
        case "graphql":
            reading = read_graphql(config)
            schema = load_description(config.file).schema
            return reading.tools, lambda tool: prove_operation(
                tool, schema, graph=reading.info.graph, examples=examples, seed=seed
            )
        case "sql":
            return read_database(config, password).tools, _no_description
        case "python":
            return read_python(config).tools, _own_code
        case "mcp":
            return read_mcp(config).tools, _no_requests
        case _:
            assert_never(config.kind)


def prove_http_tools(
    config: SourceConfig, schemes: Mapping[str, SecurityScheme], examples: int, seed: str
) -> HttpProver:
    """What proves any tool of one OpenAPI source."""
    documents = open_documents(config)
    apply_overlays(
        documents, config.overlay, config.location, lambda *_: None
    )  # the reading has said what is wrong with them
    return HttpProver(documents, config, schemes, examples=examples, seed=seed)


def _own_code(tool: Tool) -> Verdict:
    return NotApplicable(reason="the tool is a function of the project, whose annotations are its description")


def _no_requests(tool: Tool) -> Verdict:
    return NotApplicable(reason="the tool is an MCP server's: its arguments are sent as they are")


def _no_description(tool: Tool) -> Verdict:
    return NotApplicable(reason="the tool was made from the database itself, which describes no requests")
