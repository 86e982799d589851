"""Reader of a module of functions marked with `@tool`, or of tools of another framework: a Tool for each."""

from __future__ import annotations

import hashlib
from pathlib import Path

from toolgen.connectors.declared.read import problem_of
from toolgen.connectors.functions.declared import load_tools
from toolgen.connectors.functions.read_context import read_context
from toolgen.connectors.functions.signature import Broken, FunctionTool, module_file
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.connectors.tool_resource import read_resource
from toolgen.core.canonical import digest
from toolgen.core.errors import DescriptionError
from toolgen.core.files import read_file
from toolgen.model.context import Prompt, Resource
from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.names import MAX_NAME_LENGTH, TOOL_NAME, join
from toolgen.model.tool import Effect, FunctionBinding, Tool

__all__ = ["read_python", "tool_of"]

_MAX_SIZE = 16 * 1024 * 1024


def read_python(config: SourceConfig) -> SourceReading:
    """Import the module and read its marked functions. A module that cannot be imported has no tools, but a problem with the reason.

    Its own imports are not checked, so a build never treats it as unchanged.
    """
    module = config.location.partition(":")[0]
    try:
        offers = load_tools(
            config.location, config.root, config.name, framework=config.adopted, resource=config.resource
        )
        faults = read_resource(Path(config.resource), config.name).faults if config.resource else ()
    except DescriptionError as error:
        return _unread(config, error)
    tools: list[Tool] = []
    problems: list[Problem] = [problem_of(config.name, fault) for fault in faults]
    places: dict[str, str] = {}
    file, dot = (Path(config.resource).name, "#") if config.resource else (f"{module.replace('.', '/')}.py", ".")
    for offer in offers.values():
        origin = f"{file if config.resource else config.location}{dot}{offer.name}"
        places[origin] = f"{file}:{offer.line}"
        if isinstance(offer, Broken):
            problems.append(
                _problem(config, origin, "bad_function", f"{places[origin]}: {offer.reason}; the function has no tool")
            )
            continue
        name = offer.mark.name or offer.name
        name = name if config.prefix == "none" else join(config.name, name)
        if not TOOL_NAME.match(name):
            reason = (
                f"{name} is not a valid name of a tool: letters, digits, _ and -, at most {MAX_NAME_LENGTH} of them"
            )
            problems.append(_problem(config, origin, "bad_name", reason))
            continue
        tools.append(tool_of(config.name, config.location, offer, name, origin))
    context: tuple[Prompt | Resource, ...] = ()
    if not config.resource and not config.adopted:
        context, wrong = read_context(config)
        problems += wrong
    path = module_file(module, config.root) if module != Path(config.resource).name else Path(config.resource)
    files = {} if path is None else {str(path): "sha256:" + hashlib.sha256(read_file(path, _MAX_SIZE)).hexdigest()}
    info = SourceInfo(
        kind="python",
        digest=digest(
            {one.origin: one.binding.code for one in (*tools, *context) if isinstance(one.binding, FunctionBinding)}
        ),
        title=config.location,
        version="",
    )
    return SourceReading(
        info=info,
        tools=tuple(tools),
        problems=tuple(problems),
        operations=len(offers) + len(faults),
        identifiers={origin: origin.rpartition(dot)[2] for origin in places},
        files=files,
        complete=False,
        places=places,
        context=context,
    )


def _unread(config: SourceConfig, error: DescriptionError) -> SourceReading:
    message = f"{error.message}; it has no tools until that is corrected"
    return SourceReading(
        info=SourceInfo(kind="python", digest=digest({}), title=config.location, version=""),
        tools=(),
        problems=(_problem(config, config.location, "bad_module", message),),
        operations=1,
        complete=False,
    )


def tool_of(source: str, module: str, offer: FunctionTool, name: str, origin: str) -> Tool:
    """Return the tool of a function, with this name; not sealed."""
    effect = Effect(offer.mark.effect)
    idempotent = offer.mark.idempotent
    return Tool(
        name=name,
        title=offer.mark.title or offer.name.replace("_", " ").strip().capitalize(),
        description=offer.summary or f"Calls {offer.name}.",
        input_schema=offer.input_schema,
        output_schema=offer.output_schema,
        effect=effect,
        idempotent=effect is Effect.READ if idempotent is None else idempotent,
        source=source,
        origin=origin,
        binding=FunctionBinding(
            module=module,
            function=offer.name,
            code=offer.code,
            converses=bool(offer.context),
            content=offer.content,
            requires=tuple(sorted(offer.mark.requires)),
        ),
    )


def _problem(config: SourceConfig, origin: str, code: str, message: str) -> Problem:
    return Problem(level="error", source=config.name, origin=origin, code=code, message=message)
