"""Code mode: one tool that runs code of its caller in a sandbox."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toolgen.connectors.base import Connector, ExecutorContext
from toolgen.connectors.executor import Executor
from toolgen.connectors.functions.code.settings import SourceCodeKeys, read_limits
from toolgen.connectors.source import SourceConfig, SourceReading, SourceSettings
from toolgen.connectors.source_entry import ConfiguredSource, SourceEntry
from toolgen.core.errors import ConfigError

__all__ = ["CodeConnector"]


class CodeConnector(Connector):
    """Connector of `code:`."""

    kind = "code"
    keys = SourceCodeKeys
    place = "sandbox"
    failure_advice = "the tools that code calls have their own"
    auth_refusal = "the tools that it calls have theirs"
    reads_files = False
    no_proof = "the tool runs code of its caller, which calls other tools"

    def location(self, given: str, root: Path, where: str) -> str:
        """Return the name of the sandbox."""
        return given

    def configure(self, given: Any, entry: SourceEntry) -> ConfiguredSource:
        """Return the limits of a sandbox."""
        return ConfiguredSource(location=self.place, auth=entry.auth, config={"code": read_limits(given.code, entry)})

    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Make the tool that runs code."""
        from toolgen.connectors.functions.code.read import read_code  # noqa: PLC0415 - if there is such a source

        return read_code(config)

    def make_executor(self, source: SourceSettings, context: ExecutorContext) -> Executor:
        """Return the executor of code. Raises `ConfigError` if the sandbox is not installed."""
        if find_spec("pydantic_monty") is None:
            raise ConfigError(
                "code: needs its sandbox",
                where=f"sources.{source.config.name}.code",
                suggestion='install it with: pip install "toolgen[code]"',
            )
        from toolgen.connectors.functions.code.executor import CodeExecutor  # noqa: PLC0415 - if there is such a source

        return CodeExecutor(context.inner)
