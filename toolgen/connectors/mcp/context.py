"""The prompts, resources and templates of a pinned listing of an MCP server -> prompts and resources that can be governed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from toolgen.connectors.mcp.skills import read_listed_skills
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import CanonicalError
from toolgen.model.apps import APP_TYPE
from toolgen.model.context import Prompt, PromptArgument, Resource
from toolgen.model.excerpt import bounded
from toolgen.model.icons import icons_in
from toolgen.model.injected_orders import order_in
from toolgen.model.manifest import Problem
from toolgen.model.mcp import ServerTools
from toolgen.model.mcp_context import ListedContext, ListedPrompt, ListedResource, ListedTemplate, context_parts, key_of
from toolgen.model.names import TOOL_NAME, join
from toolgen.model.prompt_injection import visible
from toolgen.model.tool import McpContextBinding
from toolgen.model.uri_template import canonical_uri, parse_template

__all__ = ["CONTEXT_FILTERS", "read_listed_context"]

CONTEXT_FILTERS = ("prompts", "resources")
"""Keys of `include` and `exclude` that are about prompts and resources, and about no tool."""

_MAX_TITLE_LENGTH = 120
_MAX_DESCRIPTION_LENGTH = 4096
_MAX_SHOWN_LENGTH = 128
_MAX_ARGUMENTS = 50
_OTHERS = re.compile(r"[^A-Za-z0-9_-]+")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")


class _UnusableContextError(Exception):
    """A prompt or resource cannot be served; the text says why."""


def read_listed_context(
    config: SourceConfig, listing: ServerTools
) -> tuple[tuple[Prompt | Resource, ...], list[Problem]]:
    """The prompts and resources of a listing that can be served, and a problem for each of the others."""
    found: list[Prompt | Resource] = []
    problems: list[Problem] = []
    times = Counter((type(one), key_of(one)) for one in listing.context)
    skills, unusable = read_listed_skills(config, listing)
    problems += unusable
    files = {one.uri for one in skills}
    for one in listing.context:
        origin = _text(key_of(one), _MAX_SHOWN_LENGTH)
        if not _wanted(config, one) or _is_page(one) or (isinstance(one, ListedResource) and one.uri in files):
            continue
        try:
            _check_once(times[type(one), key_of(one)])
            made = _made(config, one, completes=listing.completes)
        except (_UnusableContextError, CanonicalError, ValueError) as error:
            message = f"{error}; it is not served"
            problems.append(_problem(config, "error", origin, "unusable_context", message))
            continue
        found.append(made)
        if order := order_in(f"{one.title}\n{one.description}"):
            message = f"it speaks to the model, not to a reader: {bounded(order, 80)!a}"
            problems.append(_problem(config, "warning", origin, "suspicious_text", message))
    return (*found, *skills, *_pages(config, listing)), problems


def _is_page(one: ListedContext) -> bool:
    """Return True for the page of an app: those that tools refer to are served where the source allows apps, and no other."""
    return isinstance(one, ListedResource) and (one.uri.startswith("ui://") or one.mime_type == APP_TYPE)


def _pages(config: SourceConfig, listing: ServerTools) -> Iterator[Resource]:
    """The pages of the apps of a listing."""
    listed = {one.uri: one for one in listing.resources}
    for page in listing.apps if config.apps else ():
        one = listed.get(page.uri)
        yield Resource(
            uri=page.uri,
            name=_text(one.name if one else "", _MAX_TITLE_LENGTH) or config.name,
            title=_text(one.title if one else "", _MAX_TITLE_LENGTH),
            description=_text(one.description if one else "", _MAX_DESCRIPTION_LENGTH),
            media_type=APP_TYPE,
            source=config.name,
            origin=page.uri,
            binding=McpContextBinding(
                tool=page.uri,
                url="" if config.command else config.location,
                parts={},
                method="resources/read",
                about="resource",
                page=page.digest,
            ),
            app=page.rights,
        )


def _wanted(config: SourceConfig, one: ListedContext) -> bool:
    """Return True if `include` and `exclude` of the source leave a prompt or resource in: by its name or URI there."""
    kind = "prompts" if isinstance(one, ListedPrompt) else "resources"

    def fits(globs: Sequence[str]) -> bool:
        return any(fnmatchcase(key_of(one), glob) for glob in globs)

    included, excluded = config.include.get(kind), config.exclude.get(kind, ())
    return (included is None or fits(included)) and not fits(excluded)


def _check_once(times: int) -> None:
    if times > 1:
        raise _UnusableContextError("the server lists it more than once")


def _made(config: SourceConfig, one: ListedContext, *, completes: bool) -> Prompt | Resource:
    binding = McpContextBinding(
        tool=key_of(one),
        url="" if config.command else config.endpoint or config.location,
        parts=context_parts(one),
        method="prompts/get" if isinstance(one, ListedPrompt) else "resources/read",
        about="prompt" if isinstance(one, ListedPrompt) else "resource",
        requests=config.allow,
    )
    match one:
        case ListedPrompt():
            return _prompt(config, one, binding, completes=completes)
        case ListedResource(uri=uri):
            if canonical_uri(uri) is None:
                raise _UnusableContextError("its URI is none, or has dot segments")
            return _resource(config, one, binding, uri, ())
        case ListedTemplate(uri_template=uri):
            template = parse_template(uri)
            if "uri" in template.variables:
                raise _UnusableContextError("its variable uri has the name that the record gives the whole URI")
            arguments = tuple(
                _argument(name, "", "", binding, completes=completes, required=True) for name in template.variables
            )
            return _resource(config, one, binding, uri, arguments)


def _prompt(config: SourceConfig, one: ListedPrompt, binding: McpContextBinding, *, completes: bool) -> Prompt:
    local = _OTHERS.sub("_", one.name).strip("_")
    name = join(config.name, local)
    if not local or not TOOL_NAME.match(name):
        raise _UnusableContextError("its name has too many characters, or none that a name may have")
    if len(one.arguments) > _MAX_ARGUMENTS or len({argument.name for argument in one.arguments}) < len(one.arguments):
        raise _UnusableContextError(f"it has more than {_MAX_ARGUMENTS} arguments, or two of one name")
    arguments = tuple(
        _argument(
            argument.name,
            argument.title,
            argument.description,
            binding,
            completes=completes,
            required=argument.required,
        )
        for argument in one.arguments
    )
    return Prompt(
        name=name,
        title=_text(one.title, _MAX_TITLE_LENGTH) or _text(one.name, _MAX_TITLE_LENGTH),
        description=_text(one.description, _MAX_DESCRIPTION_LENGTH),
        arguments=arguments,
        source=config.name,
        origin=one.name,
        binding=binding,
        icons=icons_in(one.icons),
    )


def _resource(
    config: SourceConfig,
    one: ListedResource | ListedTemplate,
    binding: McpContextBinding,
    uri: str,
    variables: tuple[PromptArgument, ...],
) -> Resource:
    return Resource(
        uri=uri,
        name=_text(one.name, _MAX_TITLE_LENGTH) or config.name,
        title=_text(one.title, _MAX_TITLE_LENGTH),
        description=_text(one.description, _MAX_DESCRIPTION_LENGTH),
        media_type=_text(one.mime_type, _MAX_TITLE_LENGTH),
        variables=variables,
        source=config.name,
        origin=uri,
        binding=binding,
        icons=icons_in(one.icons),
    )


def _argument(
    name: str, title: str, description: str, binding: McpContextBinding, *, completes: bool, required: bool
) -> PromptArgument:
    if not _ARGUMENT.match(name):
        raise _UnusableContextError("an argument has a name with other characters than letters, digits, _, . and -")
    completer = McpContextBinding(
        tool=binding.tool,
        url=binding.url,
        parts=binding.parts,
        method="completion/complete",
        about=binding.about,
        argument=name,
    )
    return PromptArgument(
        name=name,
        title=_text(title, _MAX_TITLE_LENGTH),
        description=_text(description, _MAX_DESCRIPTION_LENGTH),
        required=required,
        completer=completer if completes else None,
    )


def _text(text: str, limit: int) -> str:
    return bounded(visible(text).strip(), limit)


def _problem(config: SourceConfig, level: str, origin: str, code: str, message: str) -> Problem:
    return Problem(level=level, source=config.name, origin=origin, code=code, message=message)
