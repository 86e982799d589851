"""Prompts and resources: context for a model that a server offers besides tools (MCP, server/prompts and server/resources).

Each is a read for policy, limits, audit log and redaction: a `Tool` with a reserved name represents that read there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from toolgen.core.canonical import schema_digest
from toolgen.model.apps import AppRights
from toolgen.model.schema import Json, JsonObject
from toolgen.model.skills import SkillEntry
from toolgen.model.tool import Binding, Effect, Tool
from toolgen.model.uri_template import UriTemplate, canonical_uri, parse_template

__all__ = [
    "COMPLETION",
    "MAX_ARGUMENT_LENGTH",
    "PROMPT",
    "RESOURCE",
    "Prompt",
    "PromptArgument",
    "Resource",
    "completion_tool",
    "prompt_tool",
    "resolved_context",
    "resource_tool",
    "with_digest",
]

PROMPT = "prompt:"
RESOURCE = "resource:"
COMPLETION = "#"
"""Separator between the name of a prompt or resource and the completed argument, in the audit log."""
MAX_ARGUMENT_LENGTH = 65_536


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Argument of a prompt or variable of a template: always a text. `values` are the possible ones, if they are known; `completer` is
    the function that proposes some.
    """

    name: str
    title: str = ""
    description: str = ""
    required: bool = False
    values: tuple[str, ...] = ()
    completer: Binding | None = None

    @property
    def schema(self) -> JsonObject:
        """Return its JSON Schema."""
        made: dict[str, Json] = {"type": "string", "maxLength": MAX_ARGUMENT_LENGTH}
        made |= {"enum": list(self.values)} if self.values else {}
        return made | ({"description": self.description} if self.description else {})


class Prompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Prompt: messages for a model, made from arguments."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()
    source: str
    origin: str
    binding: Binding
    icons: tuple[dict[str, Any], ...] = ()
    digest: str = ""


class Resource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Resource, or a template of resources if its URI has variables. `lists`: the source can list the resources of the template. `app`
    are the rights of an app's page, and `skill` is the skill that the resource is the document of; None for other resources.
    """

    uri: str
    name: str
    title: str = ""
    description: str = ""
    media_type: str = ""
    size: int | None = None
    variables: tuple[PromptArgument, ...] = ()
    annotations: dict[str, Any] = {}
    source: str
    origin: str
    binding: Binding
    lists: bool = False
    icons: tuple[dict[str, Any], ...] = ()
    app: AppRights | None = None
    skill: SkillEntry | None = None
    digest: str = ""

    @property
    def is_template(self) -> bool:
        """True if its URI has variables."""
        return "{" in self.uri

    @property
    def template(self) -> UriTemplate:
        """Return its parsed URI."""
        return _template(self.uri)


@lru_cache(maxsize=4096)
def _template(uri: str) -> UriTemplate:
    return parse_template(uri)


class OfferedContext(Protocol):
    """Prompts by name, resources and templates by URI, and the tools that read some of them."""

    @property
    def prompts(self) -> Mapping[str, Prompt]: ...
    @property
    def resources(self) -> Mapping[str, Resource]: ...
    @property
    def tools(self) -> Mapping[str, Tool]: ...


_T = TypeVar("_T", bound=Prompt | Resource)


def with_digest(one: _T) -> _T:
    """Return the record with the digest of all its other fields."""
    content = msgspec.to_builtins(replace(one, digest=""))
    return replace(one, digest=schema_digest(content))


def prompt_tool(prompt: Prompt) -> Tool:
    """Return the tool for getting a prompt."""
    return _read(
        prompt, f"{PROMPT}{prompt.name}", _schema({argument.name: argument for argument in prompt.arguments}, {})
    )


def resource_tool(resource: Resource) -> Tool:
    """Return the tool for reading a resource. Its arguments are the canonical URI and the values of the variables."""
    uri = {"uri": {"type": "string"}}
    variables = {one.name: replace(one, required=True) for one in resource.variables}
    return _read(resource, f"{RESOURCE}{resource.uri}", _schema(variables, uri))


def completion_tool(one: Prompt | Resource, argument: PromptArgument, binding: Binding) -> Tool:
    """Return the tool for requesting values of an argument: `value` is the text so far, `context` the other arguments."""
    whole = prompt_tool(one) if isinstance(one, Prompt) else resource_tool(one)
    context = {"type": "object", "additionalProperties": {"type": "string"}}
    properties = {"value": {"type": "string", "maxLength": MAX_ARGUMENT_LENGTH}, "context": context}
    return replace(
        whole,
        name=f"{whole.name}{COMPLETION}{argument.name}",
        input_schema={"type": "object", "properties": properties, "required": ["value"]},
        binding=binding,
    )


def resolved_context(
    manifest: OfferedContext, prompt: str, uri: str, arguments: JsonObject
) -> tuple[Tool | None, JsonObject]:
    """Return the tool of a prompt by its name, or of a resource by a URI, with the arguments of the read; None if there is none.

    Of two templates that match a URI, the one with more fixed characters is used. If a tool reads the resource, its call is returned.
    """
    if prompt:
        found = manifest.prompts.get(prompt)
        return (None if found is None else prompt_tool(found)), arguments
    canonical = canonical_uri(uri)
    if canonical is None:
        return None, {}
    templates = sorted(
        (one for one in manifest.resources.values() if one.is_template),
        key=lambda one: (-one.template.literal_length, one.uri),
    )
    for one in manifest.resources.values():
        if not one.is_template and canonical_uri(one.uri) == canonical:
            return _read_of(manifest, one, canonical, {})
    for one in templates:
        if (values := one.template.match(canonical)) is not None:
            return _read_of(manifest, one, canonical, values)
    return None, {}


def _read_of(
    manifest: OfferedContext, one: Resource, uri: str, variables: JsonObject
) -> tuple[Tool | None, JsonObject]:
    if not one.binding.reading_tool:
        return resource_tool(one), {"uri": uri, **variables}
    tool = manifest.tools.get(one.binding.reading_tool)
    return tool, {} if tool is None else one.binding.reading_arguments(variables, tool.input_schema)


def _schema(arguments: Mapping[str, PromptArgument], others: Mapping[str, JsonObject]) -> dict[str, Any]:
    properties = {**others, **{name: one.schema for name, one in arguments.items()}}
    required = [*others, *(name for name, one in arguments.items() if one.required)]
    made: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return made | ({"required": required} if required else {})


def _read(one: Prompt | Resource, name: str, schema: dict[str, Any]) -> Tool:
    return Tool(
        name=name,
        title=one.title or one.name,
        description=one.description,
        input_schema=schema,
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source=one.source,
        origin=one.origin,
        binding=one.binding,
        digest=one.digest,
        strict_arguments=True,
    )
