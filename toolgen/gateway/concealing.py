"""What the record holds of a call's arguments and statement: digests in place of what the policy, or a schema, calls sensitive."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toolgen.model.call import Call
from toolgen.model.manifest import Manifest
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import GraphQLBinding, GraphQLDocumentBinding, Tool
from toolgen.policy.document import Policy
from toolgen.policy.plain import all_but
from toolgen.policy.redact import conceal, conceal_texts, has_secrets, replace_at

__all__ = ["Concealing"]

_STATEMENT = "sql"


class Concealing:
    """By one policy. `digest` makes what stands in a value's place."""

    def __init__(self, policy: Policy, manifest: Manifest, digest: Callable[[Json], Json]) -> None:
        self._policy = policy
        self._tools = manifest.tools
        self._sources = manifest.sources
        self._digest = digest
        self._secretive: dict[str, bool] = {}

    def arguments(self, call: Call) -> JsonObject:
        """The call's arguments as the record keeps them. Of a tool that does not exist nothing says what is sensitive, so all of it is;
        one that exists, and that this caller may not know of, has its own schema to say so."""
        tool = self._tools.get(call.tool.name)
        if tool is None:
            return all_but(call.arguments, call.arguments, (), self._digest)
        concealed = self._by_name(call.arguments, tool)
        if self._policy.plain is None:
            return concealed
        return all_but(call.arguments, concealed, self._plain(tool), self._digest)

    def statement(self, call: Call, statement: Json) -> Json:
        """The statement that ran, which holds what the agent wrote into it: as plain as the argument it was written in."""
        written = call.arguments.get(_STATEMENT)
        if written is None or (self._policy.plain is None and not self._policy.sensitive):
            return statement
        return statement if self.arguments(call).get(_STATEMENT) == written else self._digest(statement)

    def said(self, said: JsonObject) -> JsonObject:
        """What is said of a user, without what is sensitive in it."""
        return _object(replace_at(said, self._policy.sensitive, self._digest))

    def _plain(self, tool: Tool) -> tuple[str, ...]:
        return tuple(path for item in self._policy.plain or () if item.covers(tool.name) for path in item.fields)

    def _by_name(self, arguments: JsonObject, tool: Tool) -> JsonObject:
        """With digests in place of what `sensitive:` names, and what the tool's schema calls secret."""
        secret = self._secretive.get(tool.digest)
        if secret is None:
            secret = self._secretive[tool.digest] = has_secrets(tool.input_schema)
        concealed: Json = arguments
        sensitive = self._policy.sensitive
        if written := (*sensitive, *self._secrets_written(tool)):
            concealed = conceal_texts(arguments, tool, written, self._digest)
            # The arguments of other tools are concealed by their own schemas.
            paths = written if isinstance(tool.binding, GraphQLDocumentBinding) else sensitive
            concealed = replace_at(concealed, paths, self._digest)
        if secret:
            concealed = conceal(concealed, tool.input_schema, self._digest)
        return _object(concealed)

    def _secrets_written(self, tool: Tool) -> tuple[str, ...]:
        """Where secrets stand in what an agent writes for a GraphQL tool, as the scalars of its source say."""
        if not isinstance(tool.binding, GraphQLDocumentBinding | GraphQLBinding):
            return ()
        graph = self._sources[tool.source].graph
        return tuple(f"$..{name}" for name in graph.secrets) if graph is not None else ()


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}
