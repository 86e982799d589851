"""What the record holds of a call's arguments and statement: digests in place of what the policy, or a schema, calls sensitive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolgen.canonical import encodable
from toolgen.model.call import Call
from toolgen.model.graphql_schema import named
from toolgen.model.manifest import Manifest
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import GraphQLBinding, GraphQLDocumentBinding, Tool
from toolgen.policy.document.policy import Policy
from toolgen.policy.graphql.hidden import fits, last_names
from toolgen.policy.redact import (
    Place,
    above,
    all_but,
    as_text,
    closed,
    conceal_texts,
    opened,
    places_of,
    replace_at,
    replace_places,
)
from toolgen.policy.sensitive_arguments import Concealer, concealed_whole, digests_in, has_secrets, rewritten, union

__all__ = ["Concealing"]

_STATEMENT = "sql"


class Concealing:
    """By one policy. `digest` makes what stands in a value's place.

    Whatever calls a value sensitive, the digest is of what was sent: values concealed so far remember it (`StandIn`).
    """

    def __init__(self, policy: Policy, manifest: Manifest, digest: Callable[[Json], Json]) -> None:
        self._policy = policy
        self._tools = manifest.tools
        self._sources = manifest.sources
        self._keyed = digest
        self._concealers: dict[str, Concealer | None] = {}

    def arguments(self, call: Call) -> JsonObject:
        """The call's arguments as the record keeps them. Of a tool that does not exist nothing says what is sensitive, so all of it is;
        one that exists, and that this caller may not know of, has its own schema to say so."""
        return _recorded(self._concealed(call))

    def statement(self, call: Call, statement: Json) -> Json:
        """The statement that ran, which holds what the agent wrote into it: as plain as the argument it was written in."""
        argument = call.arguments.get(_STATEMENT)
        if argument is None or (self._policy.plain is None and not self._policy.sensitive):
            return statement
        return statement if self._concealed(call).get(_STATEMENT) == argument else self._keyed(statement)

    def said(self, said: JsonObject) -> JsonObject:
        """What is said of a user, without what is sensitive in it."""
        paths = self._policy.sensitive
        own = replace_at(said, (), self._digest)  # a copy
        return _recorded(_object(replace_places(own, _places(own, paths), self._digest)))

    def _digest(self, value: Json) -> Json:
        return concealed_whole(value, self._keyed)

    def _concealed(self, call: Call) -> JsonObject:
        tool = self._tools.get(call.tool.name)
        if tool is None:
            return all_but(call.arguments, call.arguments, (), self._digest)
        concealed = self._by_name(call.arguments, tool)
        if self._policy.plain is None:
            return concealed
        plainly = all_but(call.arguments, concealed, self._plain(tool), self._digest)
        return _object(union(plainly, concealed, self._keyed))

    def _plain(self, tool: Tool) -> tuple[str, ...]:
        return tuple(path for item in self._policy.plain or () if item.covers(tool.name) for path in item.fields)

    def _by_name(self, arguments: JsonObject, tool: Tool) -> JsonObject:
        """With digests in place of what `sensitive:` names, and what the tool's schema calls secret."""
        if tool.digest not in self._concealers:
            schema = tool.input_schema
            self._concealers[tool.digest] = Concealer(schema, self._digest) if has_secrets(schema) else None
        concealer = self._concealers[tool.digest]
        concealed: Json = arguments
        sensitive = self._policy.sensitive
        if named := (*sensitive, *self._secrets_written(tool)):
            if not isinstance(tool.binding, GraphQLDocumentBinding | GraphQLBinding):
                concealed = self._at_paths(arguments, sensitive)
            elif self._fits(arguments, tool):
                # The arguments of other tools are concealed by their own schemas.
                paths = named if isinstance(tool.binding, GraphQLDocumentBinding) else sensitive
                own = replace_at(self._in_texts(arguments, tool, named), (), self._digest)  # a copy
                concealed = replace_places(own, _places(own, paths), self._digest)
            else:
                concealed = all_but(arguments, arguments, (), self._digest)
        if concealer is None:
            return _object(concealed)
        by_schema = concealer(arguments)
        if not isinstance(by_schema, Mapping):
            by_schema = {name: self._digest(item) for name, item in arguments.items()}
        return _object(union(concealed, by_schema, self._keyed))

    def _in_texts(self, arguments: JsonObject, tool: Tool, named: tuple[str, ...]) -> JsonObject:
        """With digests inside of the GraphQL that an agent wrote, and for its variables."""
        made: set[str] = set()

        def digest(value: Json) -> Json:
            concealed = concealed_whole(value, self._keyed)
            made.update(concealed.digests)
            return concealed

        concealed = conceal_texts(arguments, tool, named, digest)
        return {
            name: rewritten(item, sent, frozenset(made))
            if isinstance(item, str) and isinstance(sent := arguments[name], str) and item != sent
            else item
            for name, item in concealed.items()
        }

    def _at_paths(self, arguments: JsonObject, paths: tuple[str, ...]) -> Json:
        """With digests for what the paths find, also in JSON that stands in a text, and for text where they find nothing to go on in."""
        names = [last_names(path) for path in paths]

        def unread(text: str) -> Json:
            suspect = any(known is None or any(name in text for name in known) for known in names)
            return self._digest(text) if suspect else text

        def scalar(value: Json) -> Json:
            return value if value is None or isinstance(value, bool | Mapping | list | tuple) else self._digest(value)

        inside = opened(arguments, unread, self._digest)
        through = places_of(inside, [one for path in paths for one in above(path)])
        places = _places(inside, paths)
        inside = replace_places(replace_places(inside, through - places, scalar), places, self._digest)
        return closed(inside, _rewritten_json)

    def _fits(self, arguments: JsonObject, tool: Tool) -> bool:
        """Whether what an agent wrote for GraphQL says nothing but what the schema has: of the rest nobody knows what is secret."""
        binding, graph = tool.binding, self._sources[tool.source].graph
        if isinstance(binding, GraphQLDocumentBinding):
            text, variables, start = arguments.get("query"), arguments.get("variables"), ""
        else:
            text, variables = arguments.get(binding.fields) if isinstance(binding, GraphQLBinding) else None, None
            root = graph.root(binding.type) if graph is not None and isinstance(binding, GraphQLBinding) else None
            field = root.fields.get(binding.field) if root is not None and isinstance(binding, GraphQLBinding) else None
            start = "" if field is None else named(field.type)
        if text is None:
            return variables is None
        return isinstance(text, str) and (graph is None or fits(graph, text, variables, start))

    def _secrets_written(self, tool: Tool) -> tuple[str, ...]:
        """Where secrets stand in what an agent writes for a GraphQL tool, as the scalars of its source say."""
        if not isinstance(tool.binding, GraphQLDocumentBinding | GraphQLBinding):
            return ()
        graph = self._sources[tool.source].graph
        return tuple(f"$..{name}" for name in graph.secrets) if graph is not None else ()


def _places(arguments: Any, paths: tuple[str, ...]) -> frozenset[Place]:
    """What the paths find. Where that is all of the arguments it is each of them, because their names stay readable."""
    found = places_of(arguments, paths)
    return found if () not in found else found.union((name,) for name in arguments) - {()}


def _rewritten_json(value: Json, text: str, layers: int) -> Json:
    """The JSON of a text in which something is concealed; what else is in it is told apart from digests."""
    plainly = as_text(encodable(value), text, layers)
    return rewritten(plainly if isinstance(plainly, str) else "", text, digests_in(value))


def _recorded(arguments: JsonObject) -> JsonObject:
    """With the record's own forms told apart from what was sent like them. An argument's own name is never taken for one."""
    recorded: dict[str, Json] = {}
    for name, item in arguments.items():
        recorded[name] = encodable(item)
    return recorded


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}
