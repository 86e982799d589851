"""Workflows as tools: their files, and the engine that runs their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from toolgen.connectors.base import Connector, ExecutorContext
from toolgen.connectors.executor import Executor
from toolgen.connectors.link_checks import LinkChecks
from toolgen.connectors.source import SourceConfig, SourceReading, SourceSettings
from toolgen.model.binding_change import BindingChange
from toolgen.model.tool import Tool

__all__ = ["WorkflowConnector"]


class WorkflowKeys(Struct):
    """Keys of a source in toolgen.yaml."""

    workflow: str | None = None


class WorkflowConnector(Connector):
    """Connector of `workflow:`."""

    kind = "workflow"
    keys = WorkflowKeys
    bindings = frozenset({"workflow"})
    failure_advice = "the tools that its steps call have their own; use retry: of a step"
    auth_refusal = "the tools that its steps call have theirs"
    no_proof = "the tool calls other tools, which have their own proofs"

    def location(self, given: str, root: Path, where: str) -> str:
        """Return the path of a file. An empty one is found to be a folder when it is read."""
        return super().location(given, root, where) if given else str(root / given)

    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Read the workflows of a file."""
        from toolgen.connectors.workflow.read import read_workflow  # noqa: PLC0415 - if there is such a source

        return read_workflow(config)

    def link(
        self, readings: Mapping[str, SourceReading], configs: Mapping[str, SourceConfig], checks: LinkChecks
    ) -> Mapping[str, SourceReading]:
        """Return the readings with every workflow completed."""
        from toolgen.connectors.workflow.linker import link_workflows  # noqa: PLC0415 - if there is such a source

        return link_workflows(readings, configs, checks)

    def make_executor(self, source: SourceSettings, context: ExecutorContext) -> Executor:
        """Return the engine that calls the tools of the steps."""
        from toolgen.connectors.workflow.executor import WorkflowExecutor  # noqa: PLC0415 - if there is such a source

        return WorkflowExecutor(context.inner, clock=context.clock)

    def binding_changes(self, before: Tool, after: Tool) -> Iterator[BindingChange]:
        """Yield the changes of the steps."""
        from toolgen.connectors.workflow.binding_changes import step_changes  # noqa: PLC0415 - for a comparison alone

        return step_changes(before, after)
