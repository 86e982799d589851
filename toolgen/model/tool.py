"""Tool: its description for agents, and the binding that maps a call to a request."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from toolgen.core.canonical import Canonical, schema_digest
from toolgen.model.apps import ToolApp
from toolgen.model.binding_properties import BindingProperties
from toolgen.model.caller_requests import RequestKind
from toolgen.model.context_bindings import FolderBinding, SkillFileBinding, TextPromptBinding, ToolResourceBinding
from toolgen.model.database import DialectName
from toolgen.model.device import DeviceBinding
from toolgen.model.graphql_binding import (
    GraphQLBinding,
    GraphQLDocumentBinding,
    GraphQLSchemaBinding,
    GraphQLSubscription,
)
from toolgen.model.http_binding import Constant, HttpBinding, HttpBody, HttpConstant, HttpKey, HttpParameter, HttpPart
from toolgen.model.schema import Schema
from toolgen.model.shared_definitions import Closure
from toolgen.model.stored_schemas import unshared
from toolgen.model.workflow import CodeBinding, WorkflowBinding

__all__ = [
    "Binding",
    "CodeBinding",
    "Constant",
    "DeviceBinding",
    "Effect",
    "FolderBinding",
    "FunctionBinding",
    "GraphQLBinding",
    "GraphQLDocumentBinding",
    "GraphQLSchemaBinding",
    "GraphQLSubscription",
    "HttpBinding",
    "HttpBody",
    "HttpConstant",
    "HttpKey",
    "HttpParameter",
    "HttpPart",
    "McpBinding",
    "McpContextBinding",
    "McpResourceBinding",
    "NoBinding",
    "OperationBinding",
    "OutputForm",
    "Seals",
    "SkillFileBinding",
    "SqlBinding",
    "TextPromptBinding",
    "Tool",
    "ToolResourceBinding",
    "WorkflowBinding",
    "absent",
    "seal",
]


class Effect(StrEnum):
    """Effect of a call on the system behind it."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"


class SqlBinding(BindingProperties, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="sql"):
    """Binding of an operation of a database. The tables are in the source of the manifest.

    `statement` is the query of a trusted file and `parameters` are the arguments of its placeholders, in order; only the operation `named`
    has them. `files`: rows may contain bytes, because a table has a column of a binary type.
    """

    dialect: DialectName
    operation: str  # query | explain | list_tables | search_schema | describe_table | change | named
    statement: str = ""
    parameters: tuple[str, ...] = ()
    arguments: dict[str, str] = msgspec.field(default_factory=dict)
    files: bool = False

    inspected_as: ClassVar = "statement"

    @property
    def kind(self) -> str:
        return "sql"

    @property
    def code_argument(self) -> str:
        """Argument with the statement; "" if that comes from a trusted file."""
        return "" if self.operation == "named" else "sql"

    @property
    def cursor_argument(self) -> str:
        """Argument of the cursor of rows."""
        return "cursor"

    @property
    def keeps_values(self) -> bool:
        """True: values are parameters of a statement."""
        return True

    @property
    def answers_lists(self) -> bool:
        """True for statements that answer with rows."""
        return self.operation in {"query", "named"}

    @property
    def answers_files(self) -> bool:
        """True if rows may contain bytes."""
        return self.files

    def _renamed_parts(self, names: Mapping[str, str]) -> dict[str, Any]:
        """Return the arguments of placeholders."""
        return {"parameters": tuple(names.get(name, name) for name in self.parameters)}


class FunctionBinding(
    BindingProperties, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="function"
):
    """Binding of a Python function in the project's code: `function` of `module`. `code` is the SHA-256 of its source text: after a change
    of the function its calls are refused until the next build.

    `converses`: it may report progress and ask its caller questions. `content`: it answers with pictures, recordings or documents.
    `requires` are the capabilities that the caller's client must have: `elicitation`, `roots`, `sampling`, and `tasks` for a client that
    fetches the result later. `arguments` maps listed names of arguments to those of the function, where they differ.
    """

    module: str
    function: str
    code: str
    converses: bool = False
    content: bool = False
    requires: tuple[str, ...] = ()
    arguments: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def kind(self) -> str:
        return "function"

    @property
    def answers_files(self) -> bool:
        """True if the function returns pictures, recordings or documents."""
        return self.content

    @property
    def keeps_values(self) -> bool:
        """True: values are arguments of Python."""
        return True


class McpBinding(BindingProperties, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="mcp"):
    """Binding of a tool of an MCP server. `tool` is its name there, and `url` the address of the server, "" for a command that the gateway
    starts and reaches by pipes.

    `parts` are the digests of the tool's description at the build, by part: the tool is not called while the server describes it
    differently. `apps`: the tool's app is one of the compared parts. `open_world` is False if a trusted server declares that the tool does
    not reach outside systems (`openWorldHint`). `task`: the server runs the tool only as a task. `requests` are the kinds of requests that
    the server may send to callers (`allow:` of its source). `arguments` maps listed names of arguments to the server's, where they differ.
    """

    tool: str
    url: str
    parts: dict[str, str]
    open_world: bool = True
    arguments: dict[str, str] = msgspec.field(default_factory=dict)
    task: bool = False
    requests: tuple[RequestKind, ...] = ()
    apps: bool = False

    @property
    def kind(self) -> str:
        return "mcp"

    @property
    def addresses(self) -> tuple[str, ...]:
        """URL of the server; "" for a command."""
        return (self.url,)

    @property
    def destination(self) -> str | None:
        """URL of the server; None for a command, which is the operator's own program."""
        return self.url or None

    @property
    def own_operation(self) -> str:
        """Name of the tool at the server."""
        return self.tool

    @property
    def answers_files(self) -> bool:
        """True: any content of MCP may be a file."""
        return True

    @property
    def answers_lists(self) -> bool:
        """True: a text of MCP may be JSON."""
        return True


class McpResourceBinding(
    McpBinding, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="mcp_resource"
):
    """Binding of the read of a resource of an MCP server that an answer of one of its tools links to: `tool` and `parts` are that tool's.

    Only calls have this binding, never a tool of a manifest.
    """

    @property
    def kind(self) -> str:
        return "mcp_resource"


class McpContextBinding(McpBinding, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="mcp_context"):
    """Binding of a prompt or resource of an MCP server: `tool` is its name or URI there, `parts` are the digests of its listing by the
    server. `page` is the digest of the content of an app's page, which need not be listed, and `content` that of the bytes of a file of a
    skill; `front_matter` is the digest of the front matter of a skill's document.
    """

    method: str  # prompts/get | resources/read | completion/complete
    about: str  # prompt | resource
    argument: str = ""  # the argument whose values are completed
    page: str = ""
    content: str = ""
    front_matter: str = ""

    @property
    def kind(self) -> str:
        return "mcp_context"

    @property
    def converses(self) -> bool:
        """True if the server may send requests to the caller."""
        return bool(self.requests)

    @property
    def reports_progress(self) -> bool:
        """True: any server may report progress."""
        return True


class OperationBinding(
    BindingProperties, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="operation"
):
    """Binding for kinds of systems without a specific binding: an operation, with values from its description.

    `address` is the URL that calls go to, which the egress rules judge; "" for calls that stay on the machine.
    """

    operation: str
    values: dict[str, Any] = msgspec.field(default_factory=dict)
    address: str = ""

    @property
    def kind(self) -> str:
        return "operation"

    @property
    def addresses(self) -> tuple[str, ...]:
        """URL that calls go to."""
        return (self.address,) if self.address else ()


class NoBinding(BindingProperties, frozen=True, kw_only=True, tag_field="kind", tag="none"):
    """Binding of a tool that does not exist, so that a call to it passes the same stages as any other and ends refused."""

    @property
    def kind(self) -> str:
        return "none"


Binding: TypeAlias = (
    HttpBinding
    | GraphQLBinding
    | GraphQLDocumentBinding
    | GraphQLSchemaBinding
    | SqlBinding
    | FunctionBinding
    | McpBinding
    | McpContextBinding
    | WorkflowBinding
    | DeviceBinding
    | CodeBinding
    | FolderBinding
    | SkillFileBinding
    | TextPromptBinding
    | ToolResourceBinding
    | OperationBinding
    | NoBinding
)


OutputForm: TypeAlias = Literal["", "none", "lenient", "strict"]
"""Form of an output schema in MCP listings: none, lenient or strict; "" for the default of this kind of tool."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """Tool of a catalog, created with `seal`, which computes the digest.

    `listed_output` is the source's setting for the output schema that MCP clients see, "" without one. `strict_arguments`: a call
    with an unknown argument is refused, even if the tool only reads. `exact_schema`: the input schema is listed unchanged, and not in the
    form that every client accepts. `tags` and `operation` (operationId, root field, the server's own name) come from the description, for
    policies that select by them. `icons` and `app` are in the form of MCP.
    """

    name: str
    title: str
    description: str
    input_schema: Schema
    output_schema: Schema | None
    effect: Effect
    idempotent: bool
    source: str
    origin: str
    binding: Binding
    digest: str = ""
    listed_output: OutputForm = ""
    strict_arguments: bool = False
    exact_schema: bool = False
    tags: tuple[str, ...] = ()
    operation: str = ""
    icons: tuple[dict[str, Any], ...] = ()
    app: ToolApp | None = None

    @property
    def is_bridged(self) -> bool:
        """True for a tool of an MCP server."""
        return isinstance(self.binding, McpBinding)

    @property
    def for_apps(self) -> bool:
        """True for a tool that only apps may call: it is not listed for models."""
        return self.app is not None and self.app.hidden

    @property
    def caller_requests(self) -> tuple[RequestKind, ...]:
        """Kinds of requests that the MCP server of the tool may send to callers, if the policy allows them too."""
        return self.binding.requests if isinstance(self.binding, McpBinding) else ()

    @property
    def reports_progress(self) -> bool:
        """True if the system behind the tool can report progress: an MCP server, or an API with a streamed answer."""
        return isinstance(self.binding, HttpBinding | McpBinding)

    @property
    def converses(self) -> bool:
        """True for a function that asks its caller questions, or reports progress."""
        return isinstance(self.binding, FunctionBinding) and self.binding.converses

    @property
    def required_capabilities(self) -> frozenset[str]:
        """Capabilities that a client of the tool must have, including calls as a task."""
        return frozenset(self.binding.requires) if isinstance(self.binding, FunctionBinding) else frozenset()

    @property
    def runs_function(self) -> bool:
        """True if a call runs a Python function of the project."""
        return isinstance(self.binding, FunctionBinding)

    @property
    def asks_database(self) -> bool:
        """True if calls are statements for a database."""
        return isinstance(self.binding, SqlBinding)

    @property
    def sends_request(self) -> bool:
        """True if a call is one HTTP request that the binding describes."""
        return isinstance(self.binding, HttpBinding)

    @property
    def http(self) -> HttpBinding | None:
        """HTTP request of a call, if the binding has one."""
        return self.binding if isinstance(self.binding, HttpBinding) else None

    @property
    def steps(self) -> WorkflowBinding | None:
        """Calls of other tools, if a call consists of them."""
        return self.binding if isinstance(self.binding, WorkflowBinding) else None

    @property
    def device_request(self) -> DeviceBinding | None:
        """Request to a device of the caller, if a call is one."""
        return self.binding if isinstance(self.binding, DeviceBinding) else None

    @property
    def linked_resource(self) -> McpResourceBinding | None:
        """Read of a resource of a server that an answer links to, if a call is one."""
        if not isinstance(self.binding, McpBinding):
            return None
        return McpResourceBinding(**msgspec.structs.asdict(self.binding))

    @property
    def selects_fields(self) -> bool:
        """True if a call selects fields of an object, fixed by the build or chosen by the caller."""
        return isinstance(self.binding, GraphQLBinding)

    @property
    def listens(self) -> bool:
        """True if a call waits for events."""
        return isinstance(self.binding, GraphQLBinding) and self.binding.subscription is not None

    @property
    def shows_schema(self) -> bool:
        """True if a call shows the types for documents of the source, and sends nothing."""
        return isinstance(self.binding, GraphQLSchemaBinding)

    @property
    def takes_documents(self) -> bool:
        """True if callers write documents in a query language, each field of which is a call."""
        return isinstance(self.binding, GraphQLDocumentBinding)

    @property
    def runs_steps(self) -> bool:
        """True if a call makes calls of other tools, according to its binding."""
        return isinstance(self.binding, WorkflowBinding)

    @property
    def runs_on_device(self) -> bool:
        """True if a device of the user executes the call."""
        return isinstance(self.binding, DeviceBinding)

    @property
    def requires_tasks(self) -> bool:
        """True if a client must be able to wait for the answer."""
        return isinstance(self.binding, FunctionBinding) and "tasks" in self.binding.requires

    @property
    def open_world(self) -> bool:
        """True unless the system behind the tool declares that it uses only a closed world."""
        return not isinstance(self.binding, McpBinding) or self.binding.open_world

    @property
    def answers_its_schema(self) -> bool:
        """True if the code that made an answer has validated it against the output schema."""
        return isinstance(self.binding, FunctionBinding)

    @property
    def checks_formats(self) -> bool:
        """True if arguments must have the format of their schema: those of an HTTP API, unless toolgen.yaml sets `formats: loose`.

        Other systems accept dates and similar values in more forms, and check them themselves: databases, functions, GraphQL scalars, MCP
        servers.
        """
        return isinstance(self.binding, HttpBinding) and self.binding.formats != "loose"

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, with the JSON's names (`in`, not `in_`). Its schemas are the tool's own.

        In a schema of a large source, references stand for shared definitions; `stored_schemas.complete` has them all.
        """
        built = _fields(self)
        built |= {"input_schema": unshared(self.input_schema), "digest": self.digest}
        return {name: built[name] for name in self.__struct_fields__ if name in built}


class Seals:
    """Calculator of the digests of tools. A definition that several of them share is processed once."""

    def __init__(self, *, repeated: bool = False) -> None:
        self._repeated = repeated  # complete schemas too, which the tools of a file share
        self._known: dict[int, tuple[object, Canonical]] = {}
        self.sizes: dict[str, int] = {}
        """Bytes of own definitions of the sealed tools, by source, repeated ones included."""

    def seal(self, tool: Tool) -> Tool:
        """Return the tool with its digest. Raises `KeyError` if its schema refers to a definition that does not exist."""
        content = _fields(tool)
        if tool.output_schema is not None:
            content["output_schema"] = self._part(tool.output_schema, tool.source)
        if isinstance(tool.binding, GraphQLBinding) and tool.binding.whole:
            del content["input_schema"]  # the binding contains its digest
        else:
            content["input_schema"] = self._part(tool.input_schema, tool.source)
        return msgspec.structs.replace(tool, digest=schema_digest(content))

    def _part(self, schema: Schema, source: str) -> object:
        match schema.get("$defs"):
            case Closure() as shared:
                # No `$defs` is a text, so no other schema has this digest.
                return {**schema, "$defs": shared.digest}
            case dict() as definitions:
                written = {name: self._written(one) for name, one in definitions.items()}
                self.sizes[source] = self.sizes.get(source, 0) + sum(len(one.raw) for one in written.values())
                return {**schema, "$defs": written}
            case _:
                return self._written(schema) if self._repeated else schema

    def _written(self, value: object) -> Canonical:
        known = self._known.get(id(value))
        if known is None:
            # kept alive, so that no other object has its id
            known = self._known[id(value)] = (value, Canonical(value))
        return known[1]


def seal(tool: Tool) -> Tool:
    """Return the tool with the digest of all its other fields: approvals, pins and the audit log refer to it."""
    return Seals().seal(tool)


def _fields(tool: Tool) -> dict[str, object]:
    """Return all fields except the digest, as JSON; the schemas unchanged."""
    content = {name: getattr(tool, name) for name in tool.__struct_fields__ if name != "digest"}
    for name in ("listed_output", "strict_arguments", "exact_schema", "tags", "operation", "icons", "app"):
        if not content[name]:  # a tool without the new fields keeps its digest
            del content[name]
    if tool.app is not None:
        content["app"] = msgspec.to_builtins(tool.app)
    return content | {"effect": tool.effect.value, "binding": msgspec.to_builtins(tool.binding)}


def absent(name: str) -> Tool:
    """Return the tool for an unknown name: visible to no principal, bound to nothing."""
    return Tool(
        name=name,
        title="",
        description="",
        input_schema={"type": "object"},
        output_schema=None,
        effect=Effect.DESTRUCTIVE,
        idempotent=False,
        source="",
        origin="",
        binding=NoBinding(),
    )
