"""Proof of every tool of one source against the description it was made from.

For the tools of one OpenAPI source, the schemas are compared with the operation first, then the requests are proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.graphql.description import load_description
from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.overlay import apply_overlays
from toolgen.connectors.openapi.read import open_documents
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import ToolgenError, place_of
from toolgen.model.manifest import SecurityScheme, SourceInfo
from toolgen.model.tool import HttpBinding, Tool
from toolgen.quality.verify.agreement import SchemaDisagreement
from toolgen.quality.verify.counterexample import placed
from toolgen.quality.verify.graphql import prove_operation
from toolgen.quality.verify.reader import Absent
from toolgen.quality.verify.requests import prove_request
from toolgen.quality.verify.security_checks import broken_demands
from toolgen.quality.verify.shape import ShapeComparison
from toolgen.quality.verify.spec_operation import Descriptions, SpecOperation
from toolgen.quality.verify.verdicts import FailedTool, NotApplicable, ProvenTool, ToolReport, Unproven, Verdict

__all__ = ["SourceReport", "prove_http_tools", "verify_source"]


class HttpProver:
    """Proves any tool of one source. The tool is as the source makes it: what `tools:` of toolgen.yaml overrides comes later."""

    def __init__(
        self,
        documents: Documents,
        config: SourceConfig,
        schemes: Mapping[str, SecurityScheme],
        *,
        examples: int,
        seed: str,
    ) -> None:
        self._documents = documents
        self._config = config
        self._schemes = schemes
        self._descriptions = Descriptions(documents)
        self._shape = ShapeComparison(documents, self._descriptions.version)
        self._examples = examples
        self._seed = seed

    def __call__(self, tool: Tool) -> Verdict:
        binding = tool.binding
        if not isinstance(binding, HttpBinding):
            return Unproven(reasons=("the tool is not bound to HTTP",))
        described = self.described(tool)
        verdict = self.disagreement(tool, binding, described) or prove_request(
            tool,
            described,
            self._schemes,
            examples=self._examples,
            seed=self._seed,
            key_header=self._config.key_header,
        )
        disputed, repaired = self._shape.disputed(), self._shape.repaired()
        match verdict:
            case FailedTool(reason=reason) if repaired and reason.startswith("openapi-core refuses"):
                return Unproven(reasons=(f"its description refuses values that were taken for meant: {reason}",))
            case FailedTool(pointer=""):
                return replace(verdict, pointer=described.origin)
            case Unproven(reasons=reasons) if disputed:
                return Unproven(reasons=(*disputed, *reasons))
            case ProvenTool() if disputed:
                return Unproven(reasons=disputed)
            case _:
                return verdict

    def described(self, tool: Tool) -> SpecOperation:
        """The operation that a tool was made from."""
        return self._descriptions.operation(tool.origin)

    def disagreement(self, tool: Tool, binding: HttpBinding, described: SpecOperation) -> FailedTool | None:
        """Compare a tool with its operation, without a request."""
        for reason, pointer in broken_demands(tool, binding, described, self._schemes, self._documents, self._config):
            return FailedTool(arguments={}, reason=reason, sent="", pointer=pointer)
        if found := self._shape.difference(tool, binding, described):
            return FailedTool(arguments=_example(found), reason=_where(found), sent="", pointer=found.pointer)
        if found := self._shape.answer(tool, described):
            example = "" if isinstance(found.value, Absent) else f"; {placed(found.path, found.value)!r} shows it"
            return FailedTool(
                arguments={}, reason=f"the answer: {_where(found)}{example}", sent="", pointer=found.pointer
            )
        return None


def _example(found: SchemaDisagreement) -> Mapping[str, object]:
    """The smallest arguments that the tool and the description disagree about."""
    if isinstance(found.value, Absent):
        return {}
    arguments = placed(found.path, found.value)
    return arguments if isinstance(arguments, dict) else {}


def _where(found: SchemaDisagreement) -> str:
    return f"{'/'.join(map(str, found.path))} {found.what}".strip()


Progress = Callable[[ToolReport], None]
Prover: TypeAlias = Callable[[Tool], Verdict]


class SourceReport(Struct, frozen=True, kw_only=True):
    """Proof results of one source's tools, in the order of their names."""

    source: str
    tools: tuple[ToolReport, ...]

    def counts(self) -> Mapping[str, int]:
        """Count the tools that ended as `proven`, `failed`, `unproven` and `not_applicable`."""
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
        report = ToolReport(tool=tool.name, origin=tool.origin, verdict=_judged(prover[1], tool))
        reports.append(report)
        if progress is not None:
            progress(report)
    return SourceReport(source=config.name, tools=tuple(reports))


def _judged(prove: Callable[[Tool], Verdict], tool: Tool) -> Verdict:
    """Return the verdict on one tool. An unexpected exception makes this tool unproven, and the other tools keep their results."""
    try:
        return prove(tool)
    except ToolgenError:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        return Unproven(reasons=(f"it could not be judged: {place_of(error)}",))


def _prover(config: SourceConfig, examples: int, seed: str, password: str) -> tuple[tuple[Tool, ...], Prover]:
    connector = CONNECTORS[config.kind]
    reading = connector.read(config, lambda: password)
    if reason := connector.no_proof or (_DECLARED if config.resource else ""):
        return reading.tools, lambda _: NotApplicable(reason=reason)
    return reading.tools, _PROVERS[config.kind](config, reading.info, examples, seed)


def _graphql_prover(config: SourceConfig, info: SourceInfo, examples: int, seed: str) -> Prover:
    schema = load_description(config.file).schema
    return lambda tool: prove_operation(tool, schema, graph=info.graph, examples=examples, seed=seed)


def _http_prover(config: SourceConfig, info: SourceInfo, examples: int, seed: str) -> Prover:
    return prove_http_tools(config, info.security_schemes, examples, seed)


_PROVERS: Mapping[str, Callable[[SourceConfig, SourceInfo, int, str], Prover]] = {
    "openapi": _http_prover,
    "graphql": _graphql_prover,
}
_DECLARED = "the tool is declared by its request itself, which is sent as it is written"


def prove_http_tools(
    config: SourceConfig, schemes: Mapping[str, SecurityScheme], examples: int, seed: str
) -> HttpProver:
    """Return the prover for the tools of one OpenAPI source."""
    documents = open_documents(config)
    apply_overlays(
        documents, config.overlay, config.location, lambda *_: None
    )  # the reading has said what is wrong with them
    return HttpProver(documents, config, schemes, examples=examples, seed=seed)
