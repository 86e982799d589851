"""toolgen: descriptions of APIs become tools for LLM agents, and every call to them is governed and recorded."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolgen.connectors.functions.context import ToolContext
    from toolgen.connectors.functions.decorator import Audio, EmbeddedResource, Image, Retry, ToolError, tool
    from toolgen.connectors.functions.prompts import Message, completes, prompt, resource
    from toolgen.core.errors import CallError
    from toolgen.frontends.python.gateway import Gateway
    from toolgen.frontends.server.http import serve
    from toolgen.gateway.calls.preview import preview
    from toolgen.gateway.catalog.search.bm25 import ToolIndex
    from toolgen.generator.build import build
    from toolgen.model.detection import Detector, Finding
    from toolgen.model.middleware import CallView, Change, Middleware, Narrow, Refuse, ResultView, StepView, ToolView

__version__ = "1.0.0rc1"
__all__ = [
    "Audio",
    "CallError",
    "CallView",
    "Change",
    "Detector",
    "EmbeddedResource",
    "Finding",
    "Gateway",
    "Image",
    "Message",
    "Middleware",
    "Narrow",
    "Refuse",
    "ResultView",
    "Retry",
    "StepView",
    "ToolContext",
    "ToolError",
    "ToolIndex",
    "ToolView",
    "build",
    "completes",
    "preview",
    "prompt",
    "resource",
    "serve",
    "tool",
]

# Loaded on first use, so that `import toolgen.model` and a short command line pay for nothing they do not need.
_HOMES = {
    "Audio": "toolgen.connectors.functions.decorator",
    "CallError": "toolgen.core.errors",
    "CallView": "toolgen.model.middleware",
    "Change": "toolgen.model.middleware",
    "Detector": "toolgen.model.detection",
    "EmbeddedResource": "toolgen.connectors.functions.decorator",
    "Finding": "toolgen.model.detection",
    "Gateway": "toolgen.frontends.python.gateway",
    "Image": "toolgen.connectors.functions.decorator",
    "Message": "toolgen.connectors.functions.prompts",
    "Middleware": "toolgen.model.middleware",
    "Narrow": "toolgen.model.middleware",
    "Refuse": "toolgen.model.middleware",
    "ResultView": "toolgen.model.middleware",
    "Retry": "toolgen.connectors.functions.decorator",
    "StepView": "toolgen.model.middleware",
    "ToolContext": "toolgen.connectors.functions.context",
    "ToolError": "toolgen.connectors.functions.decorator",
    "ToolIndex": "toolgen.gateway.catalog.search.bm25",
    "ToolView": "toolgen.model.middleware",
    "build": "toolgen.generator.build",
    "completes": "toolgen.connectors.functions.prompts",
    "preview": "toolgen.gateway.calls.preview",
    "prompt": "toolgen.connectors.functions.prompts",
    "resource": "toolgen.connectors.functions.prompts",
    "serve": "toolgen.frontends.server.http",
    "tool": "toolgen.connectors.functions.decorator",
}


if not TYPE_CHECKING:  # else a type checker takes every name for one of ours

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            globals()[name] = value = getattr(import_module(_HOMES[name]), name)
            return value
        raise AttributeError(f"module 'toolgen' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
