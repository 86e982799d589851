"""Prover of the tools of one OpenAPI source. It compares schemas with the operation first, then proves requests."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.overlay import apply_overlays
from toolgen.connectors.openapi.proof.agreement import SchemaDisagreement
from toolgen.connectors.openapi.proof.reader import Absent
from toolgen.connectors.openapi.proof.requests import prove_request
from toolgen.connectors.openapi.proof.security_checks import security_faults
from toolgen.connectors.openapi.proof.shape import ShapeComparison
from toolgen.connectors.openapi.proof.spec_operation import Descriptions, SpecOperation
from toolgen.connectors.openapi.read import open_documents
from toolgen.connectors.proof.counterexample import placed
from toolgen.connectors.proof.verdicts import FailedTool, ProvenTool, Unproven, Verdict
from toolgen.connectors.source import SourceConfig
from toolgen.model.manifest import SecurityScheme
from toolgen.model.tool import HttpBinding, Tool

__all__ = ["HttpProver", "prove_http_tools"]


class HttpProver:
    """Prover for any tool of one source. The tool is the generated one, before `tools:` of toolgen.yaml overrides it."""

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
                return Unproven(
                    reasons=(
                        f"its description refuses values that toolgen accepts after a repair of the schema: {reason}",
                    )
                )
            case FailedTool(pointer=""):
                return replace(verdict, pointer=described.origin)
            case Unproven(reasons=reasons) if disputed:
                return Unproven(reasons=(*disputed, *reasons))
            case ProvenTool() if disputed:
                return Unproven(reasons=disputed)
            case _:
                return verdict

    def described(self, tool: Tool) -> SpecOperation:
        """Return the operation of a tool."""
        return self._descriptions.operation(tool.origin)

    def disagreement(self, tool: Tool, binding: HttpBinding, described: SpecOperation) -> FailedTool | None:
        """Compare a tool with its operation, without a request."""
        for reason, pointer in security_faults(tool, binding, described, self._schemes, self._documents, self._config):
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
    """Return the smallest arguments that show the disagreement between the tool and the description."""
    if isinstance(found.value, Absent):
        return {}
    arguments = placed(found.path, found.value)
    return arguments if isinstance(arguments, dict) else {}


def _where(found: SchemaDisagreement) -> str:
    return f"{'/'.join(map(str, found.path))} {found.what}".strip()


def prove_http_tools(
    config: SourceConfig, schemes: Mapping[str, SecurityScheme], examples: int, seed: str
) -> HttpProver:
    """Return the prover for the tools of one OpenAPI source."""
    documents = open_documents(config)
    apply_overlays(
        documents, config.overlay, config.location, lambda *_: None
    )  # the reader reported the faults of the schemes
    return HttpProver(documents, config, schemes, examples=examples, seed=seed)
