"""Prompts, resources and skills of files, and resources that tools read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from toolgen.connectors.base import Connector, ExecutorContext
from toolgen.connectors.context.settings import SourceContextKeys, read_files
from toolgen.connectors.executor import Executor
from toolgen.connectors.link_checks import LinkChecks
from toolgen.connectors.source import ContextFiles, SourceConfig, SourceReading, SourceSettings
from toolgen.connectors.source_entry import ConfiguredSource, SourceEntry

__all__ = ["ContextConnector"]


class ContextConnector(Connector):
    """Connector of `context:`."""

    kind = "context"
    keys = SourceContextKeys
    needs_root = True
    links_last = True
    place = "files"
    failure_advice = "files are read in the gateway itself"
    auth_refusal = "files are read without"
    no_proof = "the source has no tools"

    def location(self, given: str, root: Path, where: str) -> str:
        """Return the word that stands for the location."""
        return given

    def configure(self, given: Any, entry: SourceEntry) -> ConfiguredSource:
        """Return the files of prompts, resources and skills."""
        return ConfiguredSource(
            location=self.place, auth=entry.auth, config={"context": read_files(given.context, entry)}
        )

    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Read the files of prompts and skills, and list those of resources."""
        from toolgen.connectors.context.read import read_context_files  # noqa: PLC0415 - if there is such a source

        return read_context_files(config)

    def link(
        self, readings: Mapping[str, SourceReading], configs: Mapping[str, SourceConfig], checks: LinkChecks
    ) -> Mapping[str, SourceReading]:
        """Return the readings with the resources that tools read."""
        from toolgen.connectors.context.tool_resources import link_resources  # noqa: PLC0415 - if there is such a source

        return link_resources(readings, configs, checks)

    def make_executor(self, source: SourceSettings, context: ExecutorContext) -> Executor:
        """Return the executor that reads the files."""
        from toolgen.connectors.context.executor import ContextExecutor  # noqa: PLC0415 - if there is such a source

        files, root = source.config.context or ContextFiles(), Path(source.config.root)
        folders = (root / folder if folder else None for folder in (files.resources, files.skills))
        return ContextExecutor(*folders)
