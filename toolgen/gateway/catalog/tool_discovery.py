"""Discovery of tools in a catalog that is too long to be listed: the implementation of search_tools, describe_tool, run_tool and
run_read_tool."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import takewhile

import msgspec
from msgspec import Struct, field

from toolgen.core.clock import Clock
from toolgen.gateway.calls.file_reading import with_file_tool
from toolgen.gateway.calls.inner_call import InnerCall, InnerCallError, inner_call
from toolgen.gateway.calls.search_answers import FoundTool, entries, is_poor
from toolgen.gateway.catalog.operation_names import OperationNames, no_operation
from toolgen.gateway.catalog.search.bm25 import RankedTool, ToolIndex
from toolgen.gateway.catalog.search.hybrid import HybridIndex, SemanticSearch
from toolgen.gateway.catalog.search.intents import Intent, intent_of
from toolgen.gateway.catalog.search.tokenizer import terms
from toolgen.gateway.catalog.search_tools import DEFAULT_HITS, DESCRIBE, INPUTS, RUN, RUN_READ, SEARCH, meta_tools
from toolgen.generator.emit.schema_budget import UnknownFieldError, cost, described, is_cut
from toolgen.model.call import Principal
from toolgen.model.graphql_fields import answer_fields
from toolgen.model.graphql_schema import Graph
from toolgen.model.result import Error, Refused, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Effect, Tool
from toolgen.model.verdict import Deny
from toolgen.pipeline.middleware import refused as refusal_of
from toolgen.policy.access import UNKNOWN
from toolgen.policy.arguments import Validator, excess, repair
from toolgen.policy.limits import Limit, LimitCharge
from toolgen.policy.null_arguments import without_null
from toolgen.state.rate_limits import MemoryBuckets

__all__ = ["MAX_QUERY_LENGTH", "NOTHING_CLOSED", "Closed", "Discovery", "static_cost"]


MAX_QUERY_LENGTH = 1_000  # maximum characters of a query; the rest is ignored
_MAX_CATALOGS = 16
_MAX_AHEAD = 3  # maximum closed tools in an answer
_SEARCHES = Limit(id="discovery", per=("principal",), per_second=50.0, burst=1_000)


def no_graph(_tool: Tool) -> Graph | None:
    """Return None, for a catalog without GraphQL tools."""
    return None


class _CatalogEntry(Struct):
    """Cache entry of a catalog with data derived from it. It holds the catalog, whose identity is its key. `whole` also has the tools that
    are `closed` to its callers."""

    catalog: tuple[Tool, ...]
    offered: tuple[Tool, ...]
    stands_in: bool
    by_name: Mapping[str, Tool]
    index: ToolIndex | None = None
    meant: HybridIndex | None = None
    operations: OperationNames | None = None
    closed: tuple[Tool, ...] = ()
    whole: _CatalogEntry | None = None
    building: asyncio.Lock = field(default_factory=asyncio.Lock)


class Closed(Struct, frozen=True):
    """Closed tools that are disclosed to a caller, and the function that returns the refusal of one of them."""

    tools: tuple[Tool, ...] = ()
    refusal: Callable[[str], Deny | None] = lambda _: None


NOTHING_CLOSED = Closed()


class Discovery:
    """Discovery of tools within a given catalog: that of one principal, so it reveals nothing that the principal may not see.

    Principals with the same catalog share an index, because it has exactly what each of them may see. `above` is the number of tokens that
    a listed catalog may cost before the meta tools replace it; with `meaning`, requests are also searched by meaning. `operation` returns
    the operation id in a tool's own description, `graph` the schema of a GraphQL tool.
    """

    def __init__(
        self,
        *,
        above: float,
        clock: Clock,
        meaning: SemanticSearch | None = None,
        operation: Callable[[Tool], str] = no_operation,
        graph: Callable[[Tool], Graph | None] = no_graph,
    ) -> None:
        self._above = above
        self._operation = operation
        self._graph = graph
        self._meaning = meaning
        self._buckets = MemoryBuckets(clock)
        self._shelves: dict[int, _CatalogEntry] = {}
        self._validators = {name: Validator(schema) for name, schema in INPUTS.items()}

    def offered(self, catalog: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """Return the tools listed for a catalog: the catalog itself, or the three search tools. The object is the same until the catalog
        changes."""
        return self._shelf(catalog).offered

    def stands_in(self, catalog: tuple[Tool, ...]) -> bool:
        """Return True if the search tools are listed in place of this catalog."""
        return self._shelf(catalog).stands_in

    def answers(self, name: str, catalog: tuple[Tool, ...]) -> bool:
        """Return True if the search tool of this name works for callers with this catalog, whether or not it is listed now.

        A client keeps a list as long as it likes, and another worker may have sent it: if an edit of the policy makes a catalog short
        enough to be listed, clients that search can still do so. If no catalog is ever too long, only `describe_tool` exists, if a tool is
        listed without its deep parts.
        """
        if math.isfinite(self._above):
            return bool(catalog)
        return name == DESCRIBE and any(tool.name == DESCRIBE for tool in self._shelf(catalog).offered)

    async def find(
        self, principal: Principal, catalog: tuple[Tool, ...], query: str, limit: int
    ) -> tuple[Tool, ...] | Error:
        """Return the tools that match a query best, best first; an error if this principal has searched too often. A long query is
        shortened."""
        found = await self._found(principal, catalog, query, limit)
        return found if isinstance(found, Error) else tuple(one.tool for one in found)

    async def _found(
        self, principal: Principal, catalog: tuple[Tool, ...], query: str, limit: int
    ) -> list[FoundTool] | Error:
        if refused := self._counted(principal):
            return refused
        shelf, query = self._shelf(catalog), query[:MAX_QUERY_LENGTH]
        index = await self._index(shelf)
        hits = await self._meant(shelf, query, limit)
        if hits is None:
            hits = index.search(query, limit)
        shares = index.shares(query, [hit.id for hit in hits])
        return [FoundTool(shelf.by_name[hit.id], hit.score, share) for hit, share in zip(hits, shares, strict=True)]

    async def answer(
        self,
        name: str,
        arguments: JsonObject,
        principal: Principal,
        catalog: tuple[Tool, ...],
        closed: Closed = NOTHING_CLOSED,
    ) -> Success | Refused:
        """Answer a call of `search_tools` or `describe_tool` from the catalog, without access to other systems."""
        checked = self._checked(name, arguments)
        if isinstance(checked, Refused):
            return checked
        if name == SEARCH:
            limit = checked.get("limit", DEFAULT_HITS)
            assert isinstance(limit, int)  # noqa: S101 - the schema says so
            return await self._searched(principal, catalog, str(checked["query"]), limit, closed)
        if refused := self._counted(principal):
            return Refused(error=refused)
        tool = self._tool(str(checked["name"]), self._shelf(catalog))
        if tool is None and (deny := closed.refusal(str(checked["name"]))) is not None:
            return refusal_of(deny)
        if tool is None:
            suggestion = await self.suggestion(str(checked["name"]), catalog)
            return Refused(
                error=Error(code="unknown_tool", message=UNKNOWN.reason, suggestion=suggestion, rule=UNKNOWN.rule)
            )
        try:
            shown = described(tool, checked)
        except UnknownFieldError as error:
            return _invalid(f"/fields: {str(error)!a} is not a field of the arguments of {tool.name}")
        graph = self._graph(tool)
        if graph is not None and not checked.get("fields") and (fields := answer_fields(tool, graph)):
            shown["answer_fields"] = fields
        return Success(data=shown)

    async def _searched(
        self, principal: Principal, catalog: tuple[Tool, ...], query: str, limit: int, closed: Closed
    ) -> Success | Refused:
        found = await self._found(principal, catalog, query, limit)
        if isinstance(found, Error):
            return Refused(error=found)
        data: dict[str, Json] = {"tools": entries(found, self._shelf(catalog).by_name)}
        ahead = await self._closed_ahead(self._shelf(catalog), closed.tools, query) if closed.tools else []
        if ahead and (deny := closed.refusal(ahead[0])) is not None:
            data["not_open"] = [*ahead]
            data["note"] = (
                f"the tools that fit best are not open to this caller ({', '.join(ahead)}): {deny.suggestion}"
            )
        elif not terms(query[:MAX_QUERY_LENGTH]):
            data["note"] = "these words do not describe a tool: name an action and an object, such as 'close an issue'"
        elif not found:
            data["note"] = "no tool has these words: try others, or fewer"
        elif is_poor(found):
            data["note"] = (
                "none of these fits well: try other words for the action and its object; there may be no tool for it"
            )
        elif len(query) > MAX_QUERY_LENGTH:
            data["note"] = f"only the first {MAX_QUERY_LENGTH} characters were used"
        return Success(data=data)

    async def _closed_ahead(self, shelf: _CatalogEntry, closed: tuple[Tool, ...], query: str) -> list[str]:
        """Return the names of closed tools that fit a request better than every open one, best first."""
        if shelf.whole is None or shelf.closed is not closed:
            shelf.closed, tools = closed, (*shelf.catalog, *closed)
            by_name = {tool.name: tool for tool in tools}
            shelf.whole = _CatalogEntry(catalog=tools, offered=(), stands_in=True, by_name=by_name)
        index = await self._index(shelf.whole)
        hits = [hit.id for hit in index.search(query[:MAX_QUERY_LENGTH], _MAX_AHEAD)]
        ahead = list(takewhile(lambda name: name not in shelf.by_name, hits))
        shares = index.shares(query[:MAX_QUERY_LENGTH], ahead)
        fitting = [FoundTool(shelf.whole.by_name[name], fit=share) for name, share in zip(ahead, shares, strict=True)]
        return [one.tool.name for one in fitting if not is_poor([one])]

    def inner(self, name: str, arguments: JsonObject, catalog: tuple[Tool, ...]) -> InnerCall | Refused:
        """Return the call within a `run_tool` or `run_read_tool`."""
        if fault := excess(arguments):
            return _invalid(fault)
        shelf = self._shelf(catalog)
        by_name = shelf.by_name
        try:
            inner = inner_call(arguments, by_name)
            if inner.name not in by_name and (meant := self._tool(inner.name, shelf)) is not None:
                inner = inner_call(arguments, {inner.name: meant})
                inner = msgspec.structs.replace(inner, name=meant.name)
        except InnerCallError as error:
            return _invalid(
                str(error), f'call again with {{"name": …, "arguments": {{…}}}}; {DESCRIBE} shows the arguments'
            )
        if faults := self._validators[name].faults({"name": inner.name, "arguments": inner.arguments}):
            return _invalid("; ".join(faults))
        tool = by_name.get(inner.name) if name == RUN_READ else None
        if tool is not None and tool.effect is not Effect.READ:
            message = f"/name: {inner.name} does more than read (its effect is {tool.effect})"
            return _invalid(message, f"call it with {RUN}")
        return inner

    async def guided(self, name: str, result: Refused, catalog: tuple[Tool, ...]) -> Refused:
        """Return the refusal of an unknown tool with a suggestion of the nearest ones."""
        return Refused(error=msgspec.structs.replace(result.error, suggestion=await self.suggestion(name, catalog)))

    async def suggestion(self, name: str, catalog: tuple[Tool, ...]) -> str:
        """Suggest what to do about an unknown tool name, from the catalog alone: a forbidden name and a free one get the same text."""
        shelf = self._shelf(catalog)
        index = await self._index(shelf)
        intent = intent_of(name[:MAX_QUERY_LENGTH].replace("_", " "))
        close = sorted(
            (
                hit.id
                for hit in index.search(name[:MAX_QUERY_LENGTH], 20)
                if _may_suggest(intent, name, shelf.by_name[hit.id])
            ),
            key=lambda id_: (-SequenceMatcher(None, name[:128], id_).ratio(), id_),
        )
        said = f"did you mean {', '.join(close[:3])}? " if close else ""
        return f"{said}{SEARCH} finds the exact names"

    def _tool(self, name: str, shelf: _CatalogEntry) -> Tool | None:
        """Return the tool with this name, or the only one whose operation has this id in its own description."""
        tool = shelf.by_name.get(name)
        if tool is None:
            if shelf.operations is None:
                shelf.operations = OperationNames(shelf.catalog, self._operation)
            tool = shelf.operations.tool(name)
        return tool

    def _shelf(self, catalog: tuple[Tool, ...]) -> _CatalogEntry:
        shelf = self._shelves.pop(id(catalog), None)
        if shelf is None:
            stand_in = _costs_more(catalog, self._above)
            shelf = _CatalogEntry(
                catalog=catalog,
                offered=with_file_tool(meta_tools(catalog) if stand_in else _with_description(catalog), catalog),
                stands_in=stand_in,
                by_name={tool.name: tool for tool in catalog},
            )
        self._shelves[id(catalog)] = shelf  # moved to the end: the least recently used is first
        if len(self._shelves) > _MAX_CATALOGS:
            del self._shelves[next(iter(self._shelves))]
        return shelf

    async def _meant(self, shelf: _CatalogEntry, query: str, limit: int) -> list[RankedTool] | None:
        """Return hits by words and meaning; None if only words can be searched."""
        if self._meaning is None:
            return None
        index = shelf.meant or await self._meaning.index(shelf.catalog)
        if index is None:
            return None
        shelf.meant = index
        return await self._meaning.search(index, query, limit)

    async def _index(self, shelf: _CatalogEntry) -> ToolIndex:
        """Return the index of a catalog, made in a thread at its first search: a thousand tools take a tenth of a second."""
        if shelf.index is None:
            async with shelf.building:
                if shelf.index is None:
                    shelf.index = await asyncio.to_thread(ToolIndex, shelf.catalog)
        return shelf.index

    def _counted(self, principal: Principal) -> Error | None:
        charge = LimitCharge(_SEARCHES, (_SEARCHES.id, principal.id))
        refusal = self._buckets.take((charge,))
        if refusal is None:
            return None
        return Error(
            code="rate_limited",
            message="too many searches",
            retry_after_s=refusal.retry_after_s,
            rule=refusal.limit,
        )

    def _checked(self, name: str, arguments: JsonObject) -> JsonObject | Refused:
        schema = INPUTS[name]
        if fault := excess(arguments):
            return _invalid(fault)
        repaired = repair(schema, without_null(schema, arguments)).arguments
        faults = self._validators[name].faults(repaired)
        return _invalid("; ".join(faults)) if faults else repaired


_CORRECT = "correct the arguments by the tool's input schema and call again"


def _invalid(message: str, suggestion: str = _CORRECT) -> Refused:
    return Refused(error=Error(code="validation", message=message, suggestion=suggestion, rule="arguments"))


def _may_suggest(intent: Intent, name: str, tool: Tool) -> bool:
    """Return False for a tool with a stronger effect than the unknown name asks for, and for a destructive one that is not this very name
    in another spelling: after a refusal, no other tool with the same damage is suggested."""
    if tool.effect is Effect.DESTRUCTIVE:
        return _letters(name) in {_letters(tool.name), _letters(tool.name.removeprefix(f"{tool.source}__"))}
    return intent.writes is not False or tool.effect is Effect.READ


def _letters(name: str) -> str:
    """Return a name without the differences of spellings: `deletePet`, `delete-pet` and `delete_pet` are equal."""
    return "".join(sign for sign in name[:MAX_QUERY_LENGTH].lower() if sign.isalnum())


def _with_description(catalog: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """Return the catalog itself, or with `describe_tool` if a listed tool has parts that are left open."""
    if not any(is_cut(tool) for tool in catalog):
        return catalog
    (describe,) = (tool for tool in meta_tools(catalog) if tool.name == DESCRIBE)
    return tuple(sorted((*catalog, describe), key=lambda tool: tool.name))


def static_cost(tools: Sequence[Tool]) -> int:
    """Return the tokens that a list of tools costs a model before its first word."""
    return sum(map(cost, tools))


def _costs_more(catalog: Sequence[Tool], above: float) -> bool:
    """Return True if a catalog costs more than this many tokens; stops counting there. An empty catalog is never too long."""
    spent = 0
    for tool in catalog if math.isfinite(above) else ():
        spent += cost(tool)
        if spent > above:
            return True
    return False
