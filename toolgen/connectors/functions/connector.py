"""Python functions as tools: their modules, and their execution in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from toolgen.connectors.base import Connector, ExecutorContext
from toolgen.connectors.executor import Executor
from toolgen.connectors.source import SourceConfig, SourceReading, SourceSettings

if TYPE_CHECKING:
    from toolgen.connectors.functions.signature import Broken, FunctionTool
from toolgen.model.binding_change import BindingChange
from toolgen.model.tool import Tool

__all__ = ["FunctionConnector"]


class FunctionConnector(Connector):
    """Connector of `python:`."""

    kind = "python"
    bindings = frozenset({"function"})
    needs_root = True
    has_description = False
    failure_advice = "a function runs in the gateway itself"
    auth_refusal = "a function has its credentials from its own surroundings"
    renewable = True
    runs_functions = True
    shares_executors = True
    no_proof = "the tool is a function of the project, whose annotations are its description"

    def location(self, given: str, root: Path, where: str) -> str:
        """Return the module as it is written."""
        return given

    def read(self, config: SourceConfig, password: Callable[[], str] = str) -> SourceReading:
        """Import the module and read its marked functions."""
        from toolgen.connectors.functions.read import read_python  # noqa: PLC0415 - if there is such a source

        return read_python(config)

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
