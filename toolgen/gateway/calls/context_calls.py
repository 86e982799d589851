"""Prompts and resources of a caller, and reads of them: `context` of the gateway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from toolgen.config.mcp_servers import McpServerSettings
from toolgen.core.errors import StateError
from toolgen.gateway.calls.call_preparation import GONE
from toolgen.gateway.calls.call_service import Calls
from toolgen.gateway.calls.changed_roots import ChangedRoots
from toolgen.gateway.calls.context_policy import Reader, ReadingCall
from toolgen.gateway.calls.context_updates import ResourceUpdates
from toolgen.gateway.calls.file_links import OWN_SCHEME
from toolgen.gateway.calls.followed_resources import FollowedResources
from toolgen.gateway.calls.linked_resources import held_in
from toolgen.gateway.calls.skills import Skills
from toolgen.gateway.catalog.mcp_servers import DEFAULT_SERVERS, McpServers
from toolgen.gateway.policies.compiled_policy import CompiledPolicy, CurrentPolicy
from toolgen.model.apps import APP_TYPE
from toolgen.model.binding_properties import BindingProperties
from toolgen.model.call import Call, Principal
from toolgen.model.context import MAX_ARGUMENT_LENGTH, PROMPT, RESOURCE, Prompt, PromptArgument, Resource
from toolgen.model.result import PIN_RULE, Error, Refused, Success, file_bytes, file_data
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool
from toolgen.model.unavailable import fault_error
from toolgen.model.uri_template import MAX_URI_LENGTH
from toolgen.pipeline.input_validation import no_ids, no_json, no_text
from toolgen.pipeline.middleware import CallContext, InFlightCalls, Next

__all__ = ["NO_PROMPT", "NO_RESOURCE", "Completions", "ContextCalls", "PromptMessages", "ReadContent"]

NO_PROMPT = Error(code="not_found", message="there is no such prompt", suggestion="list the prompts to see their names")
NO_RESOURCE = Error(
    code="not_found", message="there is no such resource", suggestion="list the resources and their templates"
)
_MAX_SIZE = 8 * 1024 * 1024
_TOO_LARGE = Error(
    code="response_too_large",
    message=f"the resource is longer than the {_MAX_SIZE} bytes of one message",
)
_MAX_VALUES = 100
COMPLETED = "completion"
"""Rule that allows completions for an argument: the policy shows the prompt or template to the caller."""
_HIDING = frozenset({"unknown_tool", "forbidden"})
"""Codes of refusals that are replaced by "there is no such resource". A resource that the policy allows and that is not as it was pinned is
no secret: its reader is told."""


class PromptMessages(Struct, frozen=True, kw_only=True):
    """Answer of a prompt: `messages` with `role` and `content`, which is a text, a document, a file, or a block of MCP."""

    call_id: str
    description: str
    messages: tuple[Mapping[str, Json], ...]


class ReadContent(Struct, frozen=True, kw_only=True):
    """Content of a resource. `text` is None if it is bytes. `meta` is what the page of an app may load, in the form of MCP."""

    uri: str
    media_type: str
    body: bytes
    text: str | None
    meta: JsonObject = {}


class Completions(Struct, frozen=True, kw_only=True):
    """Values proposed for an argument, at most a hundred; `total` is None if it is unknown."""

    values: tuple[str, ...] = ()
    total: int | None = None
    has_more: bool = False


class ContextCalls:
    """Prompts and resources of callers. Each read passes the stages of a call: policy, limits, record, checks, redaction. `servers` are the
    MCP servers that offer them. A resource that a tool reads is read by one of `calls`."""

    def __init__(
        self,
        current: CurrentPolicy,
        running: InFlightCalls,
        updates: ResourceUpdates,
        followed: FollowedResources,
        calls: Calls,
        roots: ChangedRoots,
        servers: Mapping[str, McpServerSettings] = DEFAULT_SERVERS,
    ) -> None:
        self._current, self._running = current, running
        self.updates, self.followed, self.roots, self._tool_calls = updates, followed, roots, calls
        self.skills = Skills(current)
        self.servers = McpServers(
            servers,
            sources=lambda: current.manifest().sources,
            toolsets=lambda: current.compiled_policy.policy.toolsets,
        )

    @property
    def offered(self) -> tuple[bool, bool]:
        """Return, for prompts and for resources, whether the project has any, for any principal."""
        context = self._current.compiled_policy.context
        return bool(context.prompts), bool(context.resources)

    def prompts(self, principal: Principal) -> tuple[Prompt, ...]:
        """Return the prompts this principal may get, in name order, without the arguments that the gateway sets."""
        context = self._current.compiled_policy.context
        seen = (one for one in context.prompts.values() if context.sees_prompt(principal, one))
        return tuple(context.shown(principal, one) for one in seen)

    def resources(self, principal: Principal) -> tuple[Resource, ...]:
        """Return the resources this principal may read, by URI."""
        return tuple(one for one in self._visible(principal) if not one.is_template)

    def templates(self, principal: Principal) -> tuple[Resource, ...]:
        """Return the templates of which this principal may read some resource, by URI."""
        context = self._current.compiled_policy.context
        return tuple(context.shown_resource(principal, one) for one in self._visible(principal) if one.is_template)

    def converses(self, *, prompt: object = None, resource: object = None) -> bool:
        """Return True if the function or MCP server of a prompt or resource may ask its caller."""
        binding = self._binding(prompt, resource)
        return binding is not None and binding.converses

    def reports_progress(self, *, prompt: object = None, resource: object = None) -> bool:
        """Return True if the system behind a prompt or resource may report progress, or send log messages."""
        binding = self._binding(prompt, resource)
        return binding is not None and binding.reports_progress

    def _binding(self, prompt: object, resource: object) -> BindingProperties | None:
        """Return the binding of a prompt or resource, or of the tool that reads it."""
        context = self._current.compiled_policy.context
        found = context.prompts.get(prompt) if isinstance(prompt, str) else None
        one = found or (context.resource_of(resource) if isinstance(resource, str) else None)
        if one is None:
            return None
        tool = self._current.compiled_policy.tools.get(one.binding.reading_tool)
        return one.binding if tool is None else tool.binding

    def app_tools(self, principal: Principal) -> tuple[Tool, ...]:
        """Return the tools this principal may call that are only for apps, in name order: clients that show apps get them in lists."""
        return self._current.compiled_policy.app_tools(principal)

    def server_asks(self, *, prompt: object = None, resource: object = None) -> bool:
        """Return True if the MCP server of a prompt or resource may request something of the caller. The server is asked once, so only a
        caller that can answer during the read can be asked."""
        context = self._current.compiled_policy.context
        found = context.prompts.get(prompt) if isinstance(prompt, str) else None
        one = found or (context.resource_of(resource) if isinstance(resource, str) else None)
        tool = None if one is None else context.tools.get(f"{PROMPT if found else RESOURCE}{_key(one)}")
        return tool is not None and bool(tool.caller_requests)

    def may_read(self, principal: Principal, uri: str) -> bool:
        """Return True if the principal may read this URI now."""
        return self._current.compiled_policy.context.sees_uri(principal, uri)

    def source_changes(self, principal: Principal) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the numbers of list changes that the sources of a principal's prompts and resources reported."""
        changes = self.updates.list_changes
        prompts = sorted({one.source for one in self.prompts(principal)})
        resources = sorted({one.source for one in self._visible(principal)})
        return tuple(changes(one, "prompts") for one in prompts), tuple(changes(one, "resources") for one in resources)

    async def close(self) -> None:
        """End subscriptions at other systems."""
        await self.roots.close()
        await self.followed.close()
        await self.updates.close()

    async def get(self, name: str, arguments: Mapping[str, Json], reader: Reader) -> PromptMessages | Error:
        """Return the messages of a prompt, or the reason why there are none."""
        compiled_policy = self._current.compiled_policy
        if fault := no_text(name) or no_json(dict(arguments)) or no_ids(session=reader.session, client=reader.client):
            return Error(code="validation", message=f"the request {fault}")
        who = compiled_policy.by_now(reader.principal)
        if not isinstance(who, Principal):
            return GONE
        call = compiled_policy.context.prompt_call(name, arguments, replace(reader, principal=who))
        call_context = CallContext(caller_connection=reader.caller_connection)
        reader.caller_connection.under_way = call
        result = await self._run(compiled_policy.read_context, call, call_context)
        if not isinstance(result, Success):
            error = result if isinstance(result, Error) else result.error
            return NO_PROMPT if error.code == "unknown_tool" else error
        data = result.data if isinstance(result.data, Mapping) else {}
        messages, said = data.get("messages"), data.get("description")
        if not isinstance(messages, list | tuple):
            messages = [{"role": "user", "content": _as_text(result.data)}]
        prompt = compiled_policy.context.prompts[name]
        return PromptMessages(
            call_id=call.id,
            description=said if isinstance(said, str) else prompt.description,
            messages=tuple(one for one in messages if isinstance(one, Mapping)),
        )

    async def read(self, uri: str, reader: Reader) -> tuple[ReadContent, ...] | Error:
        """Return the content of a resource, or the reason why there is none. A resource that the policy hides gets the same answer as one
        that does not exist."""
        compiled_policy = self._current.compiled_policy
        if len(uri) > MAX_URI_LENGTH or no_text(uri) or no_ids(session=reader.session, client=reader.client):
            return NO_RESOURCE
        who = compiled_policy.by_now(reader.principal)
        if not isinstance(who, Principal):
            return GONE
        if (reading := compiled_policy.context.reading_call(who, uri)) is not None:
            return await self._read_by_tool(reading, uri, replace(reader, principal=who))
        call = compiled_policy.context.resource_call(uri, replace(reader, principal=who))
        call_context = CallContext(caller_connection=reader.caller_connection)
        reader.caller_connection.under_way = call
        result = await self._run(compiled_policy.read_context, call, call_context)
        if not isinstance(result, Success):
            error = result if isinstance(result, Error) else result.error
            pinned = error.rule == PIN_RULE and call_context.verdict == "allow"
            return NO_RESOURCE if isinstance(result, Refused) and error.code in _HIDING and not pinned else error
        resource = compiled_policy.context.resource_of(uri)
        found = _contents(result.data, uri, "" if resource is None else resource.media_type)
        if resource is None or resource.app is None or isinstance(found, Error):
            return found
        return tuple(replace(one, media_type=APP_TYPE, meta=resource.app.meta) for one in found)

    async def complete(
        self,
        reference: Mapping[str, Json],
        argument: str,
        value: str,
        context: Mapping[str, str],
        reader: Reader,
    ) -> Completions | Error:
        """Return values for an argument of a prompt (`{"prompt": name}`) or a template (`{"resource": uri}`), or the reason why there are
        none."""
        compiled_policy = self._current.compiled_policy
        who = compiled_policy.by_now(reader.principal)
        if not isinstance(who, Principal):
            return GONE
        reader = replace(reader, principal=who)
        found = self._referred(compiled_policy, reference, who)
        if found is None:
            return NO_PROMPT if "prompt" in reference else NO_RESOURCE
        if (
            len(value) > MAX_ARGUMENT_LENGTH
            or no_text(value)
            or no_json(dict(context))
            or no_ids(session=reader.session, client=reader.client)
        ):
            return Error(code="validation", message="the value is not a text, or too long")
        arguments = found.arguments if isinstance(found, Prompt) else found.variables
        known = next((one for one in arguments if one.name == argument), None)
        if known is None:
            return Error(code="validation", message="there is no such argument")
        if known.completer is None:
            return _starting(known, value)
        call = compiled_policy.context.completion_call(found, known, value, context, reader)
        call_context = CallContext(caller_connection=reader.caller_connection, verdict="allow", rule=COMPLETED)
        result = await self._run(compiled_policy.read_resource, call, call_context)
        if not isinstance(result, Success):
            return result if isinstance(result, Error) else result.error
        data = result.data if isinstance(result.data, Mapping) else {}
        values, total = data.get("values"), data.get("total")
        texts = [one for one in values if isinstance(one, str)] if isinstance(values, list | tuple) else []
        return Completions(
            values=_first(texts),
            total=total if isinstance(total, int) else None,
            has_more=data.get("has_more") is True or len(texts) > _MAX_VALUES,
        )

    def _referred(
        self, compiled_policy: CompiledPolicy, reference: Mapping[str, Json], principal: Principal
    ) -> Prompt | Resource | None:
        context = compiled_policy.context
        prompt = context.prompts.get(str(reference.get("prompt", "")))
        if prompt is not None and context.sees_prompt(principal, prompt):
            return context.shown(principal, prompt)
        resource = context.resources.get(str(reference.get("resource", "")))
        if resource is None or not context.sees_resource(principal, resource):
            return None
        return context.shown_resource(principal, resource)

    async def _read_by_tool(self, reading: ReadingCall, uri: str, reader: Reader) -> tuple[ReadContent, ...] | Error:
        """Return the content of a resource that a tool reads: the answer of the call."""
        envelope = await self._tool_calls.call(
            reading.tool,
            reading.arguments,
            principal=reader.principal,
            session=reader.conversation,
            connection=reader.session,
            client=reader.client,
            caller_connection=reader.caller_connection,
        )
        if envelope.status != "ok":
            error = envelope.error or Error(code="cancelled", message=f"the call is {envelope.status}")
            return NO_RESOURCE if error.code == "unknown_tool" else error
        if envelope.meta.truncated:
            return Error(
                code="response_too_large",
                message="the resource is longer than one message",
                suggestion=f"call {reading.tool}, whose answer tells how to read the rest",
            )
        resource = self._current.compiled_policy.context.resource_of(uri)
        data = await self._file_in(envelope.data, reader)
        if isinstance(data, Error):
            return data
        return _contents(data, uri, "" if resource is None else resource.media_type)

    async def _file_in(self, data: Json, reader: Reader) -> Json | Error:
        """Return the data of an answer; if it is a link to a file of this gateway, the file."""
        linked = data.get("resource") if isinstance(data, Mapping) and len(data) == 1 else None
        uri = linked.get("uri") if isinstance(linked, Mapping) else None
        if not isinstance(uri, str) or not uri.startswith(OWN_SCHEME):
            return data
        found = await self._tool_calls.files.read(
            reader.principal, uri, session=reader.session, caller_connection=reader.caller_connection
        )
        if isinstance(found, Error):
            return found
        if sum(one.info.size for one in found) > _MAX_SIZE:
            return _TOO_LARGE
        try:
            return [file_data(await one.read(), one.info.media_type) for one in found]
        except StateError as error:
            return fault_error(error)

    def _visible(self, principal: Principal) -> Sequence[Resource]:
        context = self._current.compiled_policy.context
        return [one for one in context.resources.values() if context.sees_resource(principal, one)]

    async def _run(self, pipeline: Next, call: Call, call_context: CallContext) -> Success | Refused | Error:
        result = await self._running.run(pipeline, call, call_context)
        if isinstance(result, Success | Refused):
            return result
        return result.error


def _key(one: Prompt | Resource) -> str:
    return one.name if isinstance(one, Prompt) else one.uri


def _starting(argument: PromptArgument, value: str) -> Completions:
    """Return the values of an argument that begin with the typed text."""
    fitting = [one for one in argument.values if one.lower().startswith(value.lower())]
    return Completions(values=_first(fitting), total=len(fitting), has_more=len(fitting) > _MAX_VALUES)


def _first(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(islice(values, _MAX_VALUES))


def _as_text(data: Json) -> str:
    return next((body.decode("utf-8", "replace") for _, body in held_in(data)), "")


def _contents(data: Json, uri: str, media_type: str) -> tuple[ReadContent, ...] | Error:
    """Return the parts of an answer: texts are texts, files are bytes, anything else is JSON."""
    parts = data if isinstance(data, list | tuple) and data and all(_is_part(one) for one in data) else [data]
    found: list[ReadContent] = []
    for part in parts:
        kind, body = next(held_in([part]))
        is_file = file_bytes(part) is not None or (isinstance(part, Mapping) and part.get("form") == "blob")
        default = "text/plain" if isinstance(part, str) else "application/json"
        own = part.get("uri") if isinstance(part, Mapping) and _is_part(part) else None
        # Of the URIs that a system returns, only those below the requested one count: others could point to foreign resources.
        below = isinstance(own, str) and own.startswith(f"{uri.rstrip('/')}/")
        found.append(
            ReadContent(
                uri=str(own) if below else uri,
                media_type=kind if isinstance(part, Mapping) and _is_part(part) else media_type or default,
                body=body,
                text=None if is_file else body.decode("utf-8", "replace"),
            )
        )
    if sum(len(one.body) for one in found) > _MAX_SIZE:
        return _TOO_LARGE
    return tuple(found)


def _is_part(part: Json) -> bool:
    """Return True for a text part with a URI, a file, or a text."""
    if isinstance(part, str):
        return True
    return isinstance(part, Mapping) and (
        file_bytes(part) is not None or ({"uri", "media_type", "text"} <= part.keys())
    )
