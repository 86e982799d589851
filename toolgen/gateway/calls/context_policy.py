"""Prompts and resources under one policy: their visibility for a principal, and the pipeline of a read."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.core.clock import Clock
from toolgen.model.argument_names import listed_arguments
from toolgen.model.call import Call, Principal
from toolgen.model.context import PROMPT, RESOURCE, Prompt, PromptArgument, Resource, completion_tool, resource_tool
from toolgen.model.excerpt import bounded
from toolgen.model.manifest import Manifest
from toolgen.model.result import Error
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool, absent
from toolgen.model.uri_template import canonical_uri
from toolgen.model.uri_variables import allowed_texts
from toolgen.model.verdict import Allow
from toolgen.pipeline.middleware import CallerConnection
from toolgen.pipeline.stages.approve import STALE
from toolgen.policy.access import Access, EvaluationContext
from toolgen.policy.document.context_selectors import context_tools
from toolgen.policy.document.policy import Policy
from toolgen.policy.narrowing import NarrowedAccess
from toolgen.policy.toolsets import Toolset

__all__ = ["ContextPolicy", "Reader", "ReadingCall"]

_MAX_RECORDED_LENGTH = 200


class Reader(Struct, frozen=True, kw_only=True):
    """Caller that reads prompts and resources: its connection, and what is recorded of its session and client. `conversation` is the one
    that the caller named, whose turns are counted."""

    principal: Principal
    caller_connection: CallerConnection = field(default_factory=CallerConnection)
    session: str = ""
    client: str = ""
    conversation: str = ""


class ReadingCall(Struct, frozen=True):
    """Call of a tool that is the read of a resource."""

    tool: str
    arguments: JsonObject


class ContextPolicy:
    """Prompts and resources under one policy. `edited` has those under an edit of the policy that is not in force yet, to which this
    one is narrowed; `counterpart` finds a principal in the edit. `current` is the policy in force. `calls` decides about calls of tools,
    and so about resources that tools read."""

    def __init__(
        self,
        policy: Policy,
        manifest: Manifest,
        clock: Clock,
        *,
        current: Callable[[], ContextPolicy],
        calls: Access,
        edited: ContextPolicy | None = None,
        counterpart: Callable[[Principal], Principal | None] | None = None,
    ) -> None:
        self._clock, self._current = clock, current
        self._calls, self._called = calls, manifest.tools
        self.prompts: Mapping[str, Prompt] = manifest.prompts
        self.resources: Mapping[str, Resource] = manifest.resources
        self._exact = {canonical_uri(one.uri): one for one in manifest.resources.values() if not one.is_template}
        # If two templates match a URI, the more specific one is used, even if the caller may not see it.
        templates = [one for one in manifest.resources.values() if one.is_template]
        self._templates = sorted(templates, key=lambda one: (-one.template.literal_length, one.uri))
        # Rules are about these objects, also those of an edit.
        self.tools: Mapping[str, Tool] = context_tools(manifest) if edited is None else edited.tools
        toolsets = {name: Toolset(tools=one.context, roles=one.roles) for name, one in policy.toolsets.items()}
        self.access: Access
        if edited is None or counterpart is None:
            self.access = Access(policy.context_rules, self.tools, toolsets)
        else:
            self.access = NarrowedAccess(
                policy.context_rules, self.tools, toolsets, other=edited.access, counterpart=counterpart
            )

    def sees_prompt(self, principal: Principal, prompt: Prompt) -> bool:
        """Return True if the principal may get the prompt, with some arguments."""
        return self.access.visible(principal, self.tools[f"{PROMPT}{prompt.name}"])

    def sees_resource(self, principal: Principal, resource: Resource) -> bool:
        """Return True if the principal may read the resource, or some resource of the template."""
        if resource.binding.reading_tool:
            return self._reading_tool(principal, resource) is not None
        tool = self.tools[f"{RESOURCE}{resource.uri}"]
        if resource.is_template:
            return self.access.visible(principal, tool)
        return self._allows(principal, tool, {"uri": canonical_uri(resource.uri) or resource.uri})

    def sees_uri(self, principal: Principal, uri: str) -> bool:
        """Return True if the principal may read the resource of a canonical URI now."""
        found = self._found(uri)
        if found is None:
            return False
        if found[0].binding.reading_tool:
            return self._may_call(principal, *found)
        return self._allows(principal, self.tools[f"{RESOURCE}{found[0].uri}"], found[1])

    def shown(self, principal: Principal, prompt: Prompt) -> Prompt:
        """Return the prompt as the principal sees it, without the arguments that the gateway sets."""
        tool = self.tools[f"{PROMPT}{prompt.name}"]
        bound = {one.argument for one in self.access.bound(principal, tool)}
        if not bound:
            return prompt
        return replace(prompt, arguments=tuple(one for one in prompt.arguments if one.name not in bound))

    def shown_resource(self, principal: Principal, resource: Resource) -> Resource:
        """Return the resource as the principal sees it: values of variables are those that its tool accepts from this principal."""
        tool = self._reading_tool(principal, resource)
        if tool is None or not resource.variables:
            return resource
        schema = self._calls.shown(principal, tool).input_schema
        variables = (replace(one, values=allowed_texts(schema, one.name)) for one in resource.variables)
        return replace(resource, variables=tuple(variables))

    def reading_call(self, principal: Principal, uri: str) -> ReadingCall | None:
        """Return the call of a tool that reads a URI; None if no tool reads it, or one that the principal does not see."""
        canonical = canonical_uri(uri)
        found = None if canonical is None else self._found(canonical)
        tool = None if found is None else self._reading_tool(principal, found[0])
        return None if found is None or tool is None else ReadingCall(tool.name, _arguments(tool, *found))

    def followed_call(self, uri: str, reader: Reader) -> Call | None:
        """Return the read whose resource is followed for a principal that may read it, by the credentials of `reader`; None if there is
        none, or if a tool reads it."""
        found = self._found(uri)
        tool = None if found is None else self.tools.get(f"{RESOURCE}{found[0].uri}")
        return None if found is None or tool is None else self._call(tool, found[1], reader, tool)

    def resource_of(self, uri: str) -> Resource | None:
        """Return the resource or template that a URI belongs to."""
        canonical = canonical_uri(uri)
        found = None if canonical is None else self._found(canonical)
        return None if found is None else found[0]

    def prompt_call(self, name: str, arguments: JsonObject, reader: Reader) -> Call:
        """Return the read of a prompt. A prompt that the principal may not see is treated like one that does not exist."""
        tool = self.tools.get(f"{PROMPT}{name}")
        if tool is None or not self.access.visible(reader.principal, tool):
            return self._call(_unknown(PROMPT, name), arguments, reader, tool)
        given, _ = listed_arguments(tool, arguments)
        bound = self.access.bind(reader.principal, tool, given)
        call = self._call(tool, bound.arguments, reader, tool)
        return replace(call, bound=bound.names, denied=bound.denied)

    def resource_call(self, uri: str, reader: Reader) -> Call:
        """Return the read of a resource. A resource that the principal may not see is treated like one that does not exist."""
        canonical = canonical_uri(uri)
        found = None if canonical is None else self._found(canonical)
        tool = None if found is None else self.tools.get(f"{RESOURCE}{found[0].uri}")
        if found is not None and tool is None:  # a tool reads it, which the principal does not see
            return self._call(_unknown(RESOURCE, uri), {"uri": uri}, reader, resource_tool(found[0]))
        if found is None or tool is None or not self.access.visible(reader.principal, tool):
            return self._call(_unknown(RESOURCE, uri), {"uri": uri}, reader, tool)
        return self._call(tool, found[1], reader, tool)

    def completion_call(
        self,
        one: Prompt | Resource,
        argument: PromptArgument,
        value: str,
        context: Mapping[str, str],
        reader: Reader,
    ) -> Call:
        """Return the query for values of an argument. The visibility of the prompt or template was checked before."""
        binding = one.binding if argument.completer is None else argument.completer
        tool = completion_tool(one, argument, binding)
        given: dict[str, Json] = {"value": value, **({"context": dict(context)} if context else {})}
        return self._call(tool, given, reader, tool)

    def _call(self, tool: Tool, arguments: JsonObject, reader: Reader, known: Tool | None) -> Call:
        connection = reader.caller_connection
        return Call(
            id=f"call_{secrets.token_hex(12)}",
            tool=tool,
            arguments=arguments,
            principal=reader.principal,
            session=reader.session,
            client=reader.client,
            hidden=known is not None and tool is not known,
            trace=connection.trace,
            line=connection.line or connection,
            withheld=self._withheld,
        )

    def _found(self, uri: str) -> tuple[Resource, JsonObject] | None:
        """Return the resource or template of a canonical URI, and the arguments of a read of it."""
        exact = self._exact.get(uri)
        if exact is not None:
            return exact, {"uri": uri}
        for template in self._templates:
            if (values := template.template.match(uri)) is not None:
                return template, {"uri": uri, **values}
        return None

    def _allows(self, principal: Principal, tool: Tool, arguments: JsonObject) -> bool:
        if not self.access.visible(principal, tool):
            return False
        return isinstance(
            self.access.decide(principal, tool, arguments, EvaluationContext(now=self._clock.now())), Allow
        )

    def _reading_tool(self, principal: Principal, resource: Resource) -> Tool | None:
        """Return the tool that reads a resource, if the principal sees it."""
        tool = self._called.get(resource.binding.reading_tool)
        return tool if tool is not None and self._calls.visible(principal, tool) else None

    def _may_call(self, principal: Principal, resource: Resource, variables: JsonObject) -> bool:
        tool = self._reading_tool(principal, resource)
        if tool is None:
            return False
        bound = self._calls.bind(principal, tool, _arguments(tool, resource, variables))
        now = EvaluationContext(now=self._clock.now())
        return bound.denied is None and isinstance(self._calls.decide(principal, tool, bound.arguments, now), Allow)

    def stands(self, call: Call) -> bool:
        """Return True if the policy in force lets the principal see what is read, with the description that was decided about."""
        now = self._current()
        if now is self:
            return True
        tool = now.tools.get(call.tool.name)
        return (
            tool is not None and tool.digest == call.tool.digest and now._allows(call.principal, tool, call.arguments)
        )

    async def _withheld(self, call: Call) -> Error | None:
        return None if self.stands(call) else Error(code="expired", message=STALE, rule="current")


def _arguments(tool: Tool, resource: Resource, variables: JsonObject) -> JsonObject:
    """Return the arguments of the call that reads a resource of a template."""
    given = {name: value for name, value in variables.items() if name != "uri"}
    return resource.binding.reading_arguments(given, tool.input_schema)


def _unknown(kind: str, name: str) -> Tool:
    return absent(f"{kind}{bounded(name, _MAX_RECORDED_LENGTH)}")
