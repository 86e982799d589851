"""toolgen: descriptions of APIs become tools for LLM agents, and every call to them is governed and recorded."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolgen.build import build
    from toolgen.functions import Audio, EmbeddedResource, Image, ToolContext, ToolError, tool
    from toolgen.gateway.service import Gateway
    from toolgen.pipeline.preview import preview
    from toolgen.pipeline.search import ToolIndex

__version__ = "0.1.0"
__all__ = [
    "Audio",
    "EmbeddedResource",
    "Gateway",
    "Image",
    "ToolContext",
    "ToolError",
    "ToolIndex",
    "build",
    "preview",
    "tool",
]

# Loaded on first use, so that `import toolgen.model` and a short command line pay for nothing they do not need.
_HOMES = {
    "Audio": "toolgen.functions",
    "EmbeddedResource": "toolgen.functions",
    "Gateway": "toolgen.gateway.service",
    "Image": "toolgen.functions",
    "ToolContext": "toolgen.functions",
    "ToolError": "toolgen.functions",
    "ToolIndex": "toolgen.pipeline.search",
    "build": "toolgen.build",
    "preview": "toolgen.pipeline.preview",
    "tool": "toolgen.functions",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value
    raise AttributeError(f"module 'toolgen' has no attribute '{name}'")


class _Package(ModuleType):
    """Keeps `toolgen.build` the function: an import of the module of that name would put the module in its place."""

    def __setattr__(self, name: str, value: object) -> None:
        public = name in _HOMES and isinstance(value, ModuleType)
        super().__setattr__(name, getattr(value, name) if public else value)


sys.modules[__name__].__class__ = _Package
