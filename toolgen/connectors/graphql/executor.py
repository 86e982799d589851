"""GraphQL executor: sends an operation with its variables over the transport of the HTTP executor."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import assert_never
from urllib.parse import urlsplit

import msgspec
from graphql import DocumentNode, parse

from toolgen.connectors.executor import FileSource, Permit
from toolgen.connectors.graphql.budget import CostBudget, report_of
from toolgen.connectors.graphql.described_types import describe_types
from toolgen.connectors.graphql.failed_fields import FailedFields, without
from toolgen.connectors.graphql.mutation_outcome import ResponseContext
from toolgen.connectors.graphql.response import explain, read_answer
from toolgen.connectors.graphql.selection import choose_fields
from toolgen.connectors.graphql.subscriptions import SubscriptionListener
from toolgen.connectors.graphql.unread_fields import unread_fields
from toolgen.connectors.graphql.uploads import GraphQLUpload, extract, multipart
from toolgen.connectors.http.connector import Resolver, Timeouts, system_resolver
from toolgen.connectors.http.credentials import CredentialSelector, Provision, Security
from toolgen.connectors.http.executor import HttpExecutor
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.connectors.http.response import MAX_ANSWER_SIZE
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import ToolgenError
from toolgen.model.auth_schemes import with_headers
from toolgen.model.call import Call, Principal
from toolgen.model.graphql_schema import Graph, page_sizes, size_fault
from toolgen.model.manifest import SecurityScheme
from toolgen.model.result import Error, Failed, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import (
    GraphQLBinding,
    GraphQLDocumentBinding,
    GraphQLSchemaBinding,
    HttpBinding,
    HttpBody,
    HttpParameter,
    Tool,
)

__all__ = ["GraphQLExecutor"]


# GraphQL over HTTP, section 5.1: the new media type first, the old one for services without support for it.
_ACCEPT = "application/graphql-response+json, application/json;q=0.9"
_HEADERS = (HttpParameter(argument="accept", in_="header", name="Accept", style="simple", explode=False),)
_BODY = HttpBody(media_type="application/json", argument="request", required=True)
_TIMEOUTS = Timeouts()
_CLOCK = SystemClock()
_MAX_TOOLS = 20_000
_Bound = GraphQLBinding | GraphQLDocumentBinding


class ForbiddenError(ToolgenError):
    """Principal without a value that the tool takes from it."""

    code = "forbidden"


class GraphQLExecutor:
    """Executor of the calls of one GraphQL source.

    `schemes` are the source's security schemes and `auth` its credentials, as for `HttpExecutor`. GraphQL describes neither, so each
    configured credential is sent with every call. `permit` checks every address. `graph` is the schema's index, and `max_page` the largest
    allowed page.
    """

    def __init__(  # noqa: PLR0913 - as HttpExecutor, and what only GraphQL has
        self,
        *,
        schemes: Mapping[str, SecurityScheme],
        auth: Mapping[str, object],
        secrets: SecretResolver,
        permit: Permit,
        graph: Graph | None = None,
        max_page: int | None = None,
        provision: Provision | None = None,
        resolver: Resolver = system_resolver,
        timeouts: Timeouts = _TIMEOUTS,
        clock: Clock = _CLOCK,
        key_header: str = "",
        traces: bool = False,
        http2: bool = False,
        largest: int = MAX_ANSWER_SIZE,
        files: FileSource | None = None,
    ) -> None:
        schemes, auth = with_headers(schemes, auth)
        self._security = (tuple(sorted(auth)),) if auth else ()
        self._provision = provision
        self._graph = graph
        self._http_tools: dict[tuple[str, Security], tuple[Tool, Tool]] = {}
        self._unread: dict[str, Mapping[str, int]] = {}
        self._max_page = max_page
        self._documents: dict[str, DocumentNode] = {}
        self._budgets: dict[str, CostBudget] = {}
        self._failed = FailedFields(clock)
        self._clock = clock
        self._http = HttpExecutor(
            schemes=schemes,
            auth=auth,
            secrets=secrets,
            permit=permit,
            provision=provision,
            resolver=resolver,
            timeouts=timeouts,
            clock=clock,
            key_header=key_header,
            traces=traces,
            http2=http2,
            largest=largest,
            files=files,
        )
        selector = CredentialSelector(schemes=schemes, auth=auth, secrets=secrets, provision=provision, clock=clock)
        self._listener = SubscriptionListener(selector=selector, permit=permit, resolver=resolver, clock=clock)

    async def execute(self, call: Call) -> Success | Failed:
        """Execute a call. `data` of a Success is the `data` of the response; of a Failed, `data` and `errors` of a response with errors.

        Raises `ToolgenError`, as `preview` does, for a call that cannot be sent.
        """
        binding = call.tool.binding
        if isinstance(binding, GraphQLSchemaBinding):
            return Success(data=self.preview(call))
        sent = _bound(call)
        if not sent.endpoint:
            return Failed(
                error=Error(
                    code="upstream_unavailable",
                    message=f"no endpoint is configured for the source {call.tool.source}",
                    suggestion="set `endpoint:` of the source in toolgen.yaml and build again",
                )
            )
        left_out = self._failed.paths(call) if _by_default(call) else frozenset()
        request, files = self._request(call)
        if isinstance(sent, GraphQLBinding) and sent.subscription is not None:
            security = self._security_of(call.principal)
            return await self._listener.listen(sent.subscription, request, security, call.principal)
        arguments: JsonObject = {"accept": _ACCEPT, "request": request}
        security = self._security_of(call.principal)
        if files:
            http, arguments = multipart(_over_http(sent, security), request, files, _ACCEPT)
            tool = msgspec.structs.replace(call.tool, binding=http, output_schema=None)
        else:
            tool = self._http_tool(call.tool, sent, security)
        outcome = await self._affordable(
            request, msgspec.structs.replace(call, tool=tool, arguments=arguments), sent.endpoint
        )
        asked = _asked(sent, call, str(request["query"]))
        answer = read_answer(outcome, asked) if isinstance(outcome, Success) else explain(outcome, asked)
        if isinstance(answer, Success) and isinstance(sent, GraphQLBinding) and sent.fields:
            answer = self._counted(call, sent, answer)
        return self._failed.with_messages(call, answer, left_out) if _by_default(call) else answer

    def _counted(self, call: Call, binding: GraphQLBinding, answer: Success) -> Success:
        """Return a default answer with the number of fields that it omits. An answer without an object is returned unchanged."""
        if isinstance(call.arguments.get(binding.fields), str) or self._graph is None or not _has_object(answer.data):
            return answer
        found = self._unread.get(binding.hash)
        if found is None:
            found = self._unread[binding.hash] = unread_fields(self._graph, binding, self._parsed(binding))
        return msgspec.structs.replace(answer, unread_fields=found) if found else answer

    def preview(self, call: Call) -> JsonObject:
        """Return the request body: `{"query", "variables", "operationName"}`, and `files` if there are any.

        An absent argument is an absent variable, null is null. Raises `UnbindableError` (code `validation`) for arguments that cannot be
        sent, and `ForbiddenError` if the principal has no value for a bound variable.
        """
        if isinstance(call.tool.binding, GraphQLSchemaBinding):
            if call.graph is None:
                raise ToolgenError(f"no guard has decided which types a call to {call.tool.name} may see")
            return describe_types(call.graph, call.arguments)
        request, files = self._request(call)
        shown: list[Json] = [{"path": one.path, **one.about()} for one in files]
        return {**request, "files": shown} if files else request

    async def close(self) -> None:
        """Close all connections."""
        await self._listener.close()
        await self._http.close()

    async def _affordable(self, request: JsonObject, call: Call, endpoint: str) -> Success | Failed:
        """Send the call once the service can afford it. A call that would wait too long is not sent."""
        budget = self._budgets.get(endpoint) or self._budgets.setdefault(endpoint, CostBudget(clock=self._clock))
        wait = budget.wait(request)
        if not budget.affords(wait):
            return Failed(
                error=Error(
                    code="rate_limited",
                    message="the service reported that too little of its budget is left for this call; nothing was sent",
                    suggestion="ask for less",
                    retry_after_s=wait,
                )
            )
        with budget.spending(request) as told:
            if wait > 0:
                await asyncio.sleep(wait)
            outcome = await self._http.execute(call)
            written = call.document.query if call.document is not None else None
            if (report := report_of(outcome.data, self._clock.now(), written)) is not None:
                told.append(report)
            return outcome

    def _request(self, call: Call) -> tuple[JsonObject, tuple[GraphQLUpload, ...]]:
        binding = _bound(call)
        match binding:
            case GraphQLDocumentBinding():
                return _document(call), ()
            case GraphQLBinding():
                return self._stored(call, binding)
            case _:
                assert_never(binding)

    def _stored(self, call: Call, binding: GraphQLBinding) -> tuple[JsonObject, tuple[GraphQLUpload, ...]]:
        given = call.arguments
        self._check_pages(binding, given)
        variables: dict[str, Json] = {
            variable: given[name] for name, variable in binding.variables.items() if name in given
        }
        variables |= {name: _attribute(call.principal, path) for name, path in binding.bound.items()}
        if binding.page and self._max_page is not None and variables.keys().isdisjoint({"first", "last", "before"}):
            variables["first"] = binding.page
        operation = binding.operation
        chosen = given.get(binding.fields) if binding.fields else None
        if isinstance(chosen, str):
            operation, more = self._choose(binding, chosen, variables)
            variables |= more
        elif _by_default(call) and (paths := self._failed.paths(call)):
            operation = without(self._parsed(binding), paths)
        files: tuple[GraphQLUpload, ...] = ()
        if binding.uploads:
            variables, files = extract(call.tool.input_schema, binding.variables, variables)
        return {"query": operation, "variables": variables, "operationName": binding.operation_name}, files

    def _choose(self, binding: GraphQLBinding, fields: str, variables: JsonObject) -> tuple[str, JsonObject]:
        if self._graph is None:
            raise UnbindableError(f"the argument {binding.fields!r} needs the schema's index, which the manifest lacks")
        return choose_fields(self._graph, binding, self._parsed(binding), fields, self._max_page, variables)

    def _parsed(self, binding: GraphQLBinding) -> DocumentNode:
        """Return a stored operation, parsed once per tool. The text is short, because it contains one operation and not the schema."""
        stored = self._documents.get(binding.hash)
        if stored is None:
            stored = self._documents[binding.hash] = parse(binding.operation, no_location=True)
        return stored

    def _check_pages(self, binding: GraphQLBinding, given: JsonObject) -> None:
        for name in binding.pages if self._max_page is not None else ():
            for where, size in page_sizes(given.get(name), name, sized=True):
                if fault := size_fault(size, self._max_page):
                    raise UnbindableError(
                        f"the argument {where!r} {fault}",
                        suggestion="ask for a smaller page, and for the next one with the cursor of the answer",
                    )

    def _http_tool(self, tool: Tool, binding: _Bound, security: Security) -> Tool:
        """Return the tool of the HTTP request of a call, the same object for each call. The output schema is omitted, because it
        describes `data`.
        """
        known = self._http_tools.get((tool.digest, security))
        if known is None or known[0] is not tool:
            if len(self._http_tools) >= _MAX_TOOLS:
                self._http_tools.clear()
            made = msgspec.structs.replace(tool, binding=_over_http(binding, security), output_schema=None)
            known = self._http_tools[tool.digest, security] = (tool, made)
        return known[1]

    def _security_of(self, principal: Principal) -> Security:
        """Return all configured schemes: for this caller by the policy, otherwise for the source."""
        given = None if self._provision is None else self._provision.assigned(principal)
        return self._security if given is None else (tuple(sorted(given)),)


def _over_http(binding: _Bound, security: Security) -> HttpBinding:
    parts = urlsplit(binding.endpoint)
    return HttpBinding(
        method="POST",
        path=f"{parts.path}?{parts.query}" if parts.query else parts.path,
        servers=(f"{parts.scheme}://{parts.netloc}",),
        parameters=_HEADERS,
        body=_BODY,
        security=security,
        html=True,  # a web page instead of a response is recognised
    )


def _has_object(data: Json) -> bool:
    """Return True for data with an object, or a list of objects, below a root field. `data` may come with errors."""
    roots = data.get("data", data) if isinstance(data, Mapping) else None
    return isinstance(roots, Mapping) and any(isinstance(one, Mapping | list) and one for one in roots.values())


def _bound(call: Call) -> _Bound:
    binding = call.tool.binding
    if not isinstance(binding, GraphQLBinding | GraphQLDocumentBinding):
        raise ToolgenError(f"the tool {call.tool.name} is not bound to GraphQL")
    return binding


def _by_default(call: Call) -> bool:
    """Return True if a call reads the default fields of a tool with selectable fields."""
    binding = call.tool.binding
    if not isinstance(binding, GraphQLBinding) or binding.type != "query" or not binding.fields:
        return False
    return not isinstance(call.arguments.get(binding.fields), str)


def _asked(binding: _Bound, call: Call, query: str) -> ResponseContext:
    mutation = binding.type == "mutation"
    if isinstance(binding, GraphQLBinding):
        return ResponseContext(query=query, mutation=mutation, cursor=binding.cursor, rejections=binding.rejections)
    return ResponseContext(query=query, mutation=mutation, rejections=call.document.rejections if call.document else ())


def _document(call: Call) -> JsonObject:
    """Return the document of an agent as the guard rendered it. No other text is ever sent."""
    if call.document is None:
        raise ToolgenError(f"no guard has checked the document of a call to {call.tool.name}")
    document = call.document
    return {"query": document.query, "variables": document.variables, "operationName": document.operation_name}


def _attribute(principal: Principal, path: str) -> Json:
    """Return the principal's value for a bound variable: `principal.id`, `principal.on_behalf_of.attributes.tenant`."""
    steps = path.split(".")[1:]
    party: Principal | None = principal
    if steps[0] == "on_behalf_of":
        party, steps = principal.on_behalf_of, steps[1:]
    if party is None:
        raise ForbiddenError("this tool is only for an agent that acts on behalf of another principal")
    if steps == ["id"]:
        return party.id
    value = party.attributes.get(steps[1])
    if value is None:
        raise ForbiddenError(f"the principal {party.id} has no attribute {steps[1]!r}, which this tool takes from it")
    return value
