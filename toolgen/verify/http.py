"""The tools of one OpenAPI source proved: first that each says what its operation says, then that its requests do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from toolgen.model.manifest import SecurityScheme
from toolgen.model.tool import HttpBinding, Tool
from toolgen.sources.base import SourceConfig
from toolgen.sources.documents import Documents
from toolgen.verify.agreement import Difference
from toolgen.verify.demands import broken_demands
from toolgen.verify.described import Described, Descriptions
from toolgen.verify.reader import Absent
from toolgen.verify.requests import prove_request
from toolgen.verify.shape import Shape
from toolgen.verify.verdicts import Failed, Unproven, Verdict
from toolgen.verify.witness import placed

__all__ = ["HttpProver"]


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
        self._shape = Shape(documents, self._descriptions.version)
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
        if isinstance(verdict, Failed) and not verdict.pointer:
            return replace(verdict, pointer=described.origin)
        return verdict

    def described(self, tool: Tool) -> Described:
        """The operation that a tool was made from."""
        return self._descriptions.operation(tool.origin)

    def disagreement(self, tool: Tool, binding: HttpBinding, described: Described) -> Failed | None:
        """What the tool says otherwise than its operation, without a request."""
        for reason, pointer in broken_demands(tool, binding, described, self._schemes, self._documents, self._config):
            return Failed(arguments={}, reason=reason, sent="", pointer=pointer)
        if found := self._shape.difference(tool, binding, described):
            return Failed(arguments=_example(found), reason=_where(found), sent="", pointer=found.pointer)
        if found := self._shape.answer(tool, described):
            example = "" if isinstance(found.value, Absent) else f"; {placed(found.path, found.value)!r} shows it"
            return Failed(arguments={}, reason=f"the answer: {_where(found)}{example}", sent="", pointer=found.pointer)
        return None


def _example(found: Difference) -> Mapping[str, object]:
    """The smallest arguments that the tool and the description disagree about."""
    if isinstance(found.value, Absent):
        return {}
    arguments = placed(found.path, found.value)
    return arguments if isinstance(arguments, dict) else {}


def _where(found: Difference) -> str:
    return f"{'/'.join(map(str, found.path))} {found.what}".strip()
