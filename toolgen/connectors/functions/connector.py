"""Python functions as tools: their modules, and their execution in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolgen.connectors.base import Connector, ExecutorContext
from toolgen.connectors.executor import Executor
from toolgen.connectors.functions.settings import SourcePythonKeys, read_python
from toolgen.connectors.source import SourceConfig, SourceReading, SourceSettings
from toolgen.connectors.source_entry import ConfiguredSource, SourceEntry
from toolgen.core.errors import ConfigError
from toolgen.model.binding_change import BindingChange
from toolgen.model.tool import FunctionBinding, Tool

if TYPE_CHECKING:
    from toolgen.connectors.functions.runtime import FunctionRuntime
    from toolgen.connectors.functions.signature import Broken, FunctionTool

__all__ = ["FunctionConnector"]


class FunctionConnector(Connector):
    """Connector of `python:`."""

    kind = "python"
    keys = SourcePythonKeys
    bindings = frozenset({"function"})
    needs_root = True
    has_description = False
    failure_advice = "a function runs in the gateway itself"
    auth_refusal = "a function takes its credentials from its own environment"
    renewable = True
    runs_functions = True
    shares_executors = True
    no_proof = "the tool is a function of the project, whose annotations are its description"

    def configure(self, given: Any, entry: SourceEntry) -> ConfiguredSource:
        """Return the module, or the object of another framework."""
        if given.prefix not in {"", "none"}:
            raise ConfigError("prefix: takes none", where=entry.where("prefix"))
        location, adopted = ("", "") if entry.resource and not given.python else read_python(given.python, entry)
        config = {"adopted": adopted, "prefix": given.prefix}
        return ConfiguredSource(location=location, auth=entry.auth, config=config)

    def location(self, given: str, root: Path, where: str) -> str:
        """Return the module as it is written."""
        return given

    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Import the module and read its marked functions."""
        from toolgen.connectors.functions.read import read_python as read_module  # noqa: PLC0415 - if there is such a source

        return read_module(config)

    async def changed_functions(
        self, config: SourceConfig, tools: Sequence[Tool], functions: FunctionRuntime
    ) -> list[str]:
        """Load the module as a call does, and compare each function with the built one."""
        from toolgen.connectors.functions.declared import load_tools  # noqa: PLC0415 - if there is such a source

        load = partial(
            load_tools, config.location, config.root, config.name, framework=config.adopted, resource=config.resource
        )
        offers = await functions.apart("doctor", config.name, load)
        return [tool.name for tool in tools if not _is_built(tool, offers)]

    def make_executor(self, source: SourceSettings, context: ExecutorContext) -> Executor:
        """Return an executor of the module's functions, which are imported at the first call."""
        from toolgen.connectors.functions.declared import load_tools  # noqa: PLC0415 - if there is such a source
        from toolgen.connectors.functions.executor import FunctionExecutor  # noqa: PLC0415

        config = source.config
        load = partial(
            load_tools, config.location, config.root, config.name, framework=config.adopted, resource=config.resource
        )
        if not config.adopted and not config.resource:
            load = partial(_functions_of, config.location, config.root, load)
        return FunctionExecutor(config.location, config.root, context.functions, load)

    def binding_changes(self, before: Tool, after: Tool) -> Iterator[BindingChange]:
        """Yield the changes of a function."""
        from toolgen.connectors.functions.binding_changes import function_changes  # noqa: PLC0415 - for a comparison alone

        return function_changes(before, after)


def _functions_of(
    module: str, root: str, tools: Callable[[], Mapping[str, FunctionTool | Broken]]
) -> Mapping[str, FunctionTool | Broken]:
    """Return the functions of a module that are tools, prompts, resources or completers. Raises `DescriptionError`."""
    from toolgen.connectors.functions.prompts import load_context_offers  # noqa: PLC0415 - if there is such a source

    return {**tools(), **load_context_offers(module, root)}


def _is_built(tool: Tool, offers: Mapping[str, FunctionTool | Broken]) -> bool:
    from toolgen.connectors.functions.signature import FunctionTool  # noqa: PLC0415 - if there is such a source

    binding = tool.binding
    offer = offers.get(binding.function) if isinstance(binding, FunctionBinding) else None
    return isinstance(offer, FunctionTool) and isinstance(binding, FunctionBinding) and offer.code == binding.code
