"""Reader of functions marked with `@prompt` and `@resource`: prompts, resources and problems."""

from __future__ import annotations

from msgspec.structs import replace

from toolgen.connectors.functions.prompts import ContextFunction, PromptMark, ResourceMark, load_context
from toolgen.connectors.functions.signature import Broken
from toolgen.connectors.source import SourceConfig
from toolgen.model.context import Prompt, Resource
from toolgen.model.manifest import Problem
from toolgen.model.names import MAX_NAME_LENGTH, TOOL_NAME, join
from toolgen.model.tool import FunctionBinding

__all__ = ["read_context"]


def read_context(config: SourceConfig) -> tuple[tuple[Prompt | Resource, ...], list[Problem]]:
    """Return the prompts and resources of a module. An unusable function becomes a problem. Raises `DescriptionError`."""
    found: list[Prompt | Resource] = []
    problems: list[Problem] = []
    functions, _ = load_context(config.location, config.root)
    for function, offer in functions.items():
        origin = f"{config.location}.{function}"
        if isinstance(offer, Broken):
            problems.append(
                _problem(config, origin, "bad_function", f"{offer.reason}; the function has no prompt or resource")
            )
            continue
        name = offer.mark.name or function
        name = name if config.prefix == "none" else join(config.name, name)
        if not TOOL_NAME.match(name):
            reason = f"{name} is not a valid name: letters, digits, _ and -, at most {MAX_NAME_LENGTH} of them"
            problems.append(_problem(config, origin, "bad_name", reason))
            continue
        found.append(_made(config, offer, name, origin))
    return tuple(found), problems


def _made(config: SourceConfig, function: ContextFunction, name: str, origin: str) -> Prompt | Resource:
    offer, mark = function.offer, function.mark
    binding = FunctionBinding(
        module=config.location, function=offer.name, code=offer.code, converses=bool(offer.context), content=True
    )
    title = mark.title or offer.name.replace("_", " ").strip().capitalize()
    match mark:
        case PromptMark():
            return Prompt(
                name=name,
                title=title,
                description=offer.summary,
                arguments=function.arguments,
                source=config.name,
                origin=origin,
                binding=binding,
            )
        case ResourceMark():
            return Resource(
                uri=mark.uri,
                name=name,
                title=title,
                description=offer.summary,
                media_type=mark.media_type,
                variables=tuple(replace(one, required=True) for one in function.arguments),
                source=config.name,
                origin=origin,
                binding=binding,
            )


def _problem(config: SourceConfig, origin: str, code: str, message: str) -> Problem:
    return Problem(level="error", source=config.name, origin=origin, code=code, message=message)
