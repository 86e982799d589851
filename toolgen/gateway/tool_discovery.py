"""Finding tools in a catalog that is too long to be read: what search_tools, describe_tool and call_tool are, and do."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from types import MappingProxyType

from toolgen.clock import Clock
from toolgen.emit.schema_budget import DEEPEST, UnknownFieldError, cost, described, listed
from toolgen.model.call import Principal
from toolgen.model.result import Error, Refused, Success, bounded
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import Effect, NoBinding, Tool, seal
from toolgen.policy.access import UNKNOWN
from toolgen.policy.arguments import Validator, excess, repair
from toolgen.policy.limits import Charge, Limit
from toolgen.search.bm25 import Hit, ToolIndex
from toolgen.search.hybrid import HybridIndex, Meaning
from toolgen.state.rate_limits import MemoryBuckets

__all__ = [
    "CALL",
    "DEFAULT_HITS",
    "DESCRIBE",
    "INPUTS",
    "MAX_HITS",
    "MAX_QUERY_LENGTH",
    "SEARCH",
    "Discovery",
    "Inner",
    "stand_ins",
    "static_cost",
]

# A source's tools have `__` in their names, so these are never taken.
SEARCH, DESCRIBE, CALL = "search_tools", "describe_tool", "call_tool"
MAX_QUERY_LENGTH = 1_000
MAX_HITS = 50
DEFAULT_HITS = 10
_MAX_SOURCES = 40

_EFFECT: Schema = {"enum": [str(effect) for effect in Effect]}
_TEXT: Schema = {"type": "string"}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 128, "description": "The tool's exact name."}


def _object(properties: Mapping[str, Schema], *required: str) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


_SEARCH_INPUT = _object(
    {
        "query": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_QUERY_LENGTH,
            "description": "What the tool should do, in a few words: action and object, such as 'close an issue'.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_HITS,
            "default": DEFAULT_HITS,
            "description": "How many tools to show.",
        },
    },
    "query",
)
_SEARCH_OUTPUT = _object(
    {
        "tools": {
            "type": "array",
            "items": _object(
                {"name": _TEXT, "title": _TEXT, "summary": _TEXT, "effect": _EFFECT},
                "name",
                "title",
                "summary",
                "effect",
            ),
        }
    },
    "tools",
)
_DESCRIBE_INPUT = _object(
    {
        "name": _NAME,
        "output_schema": {
            "type": "boolean",
            "default": False,
            "description": "Whether to add the schema of the tool's answers.",
        },
        "fields": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 300},
            "maxItems": 20,
            "description": "Show these parts of the arguments alone, by path, such as 'spec.template'; `more` names those left out.",
        },
        "depth": {
            "type": "integer",
            "minimum": 1,
            "maximum": DEEPEST,
            "description": "How many levels of fields to show.",
        },
    },
    "name",
)
_DESCRIBE_OUTPUT = _object(
    {
        "name": _TEXT,
        "title": _TEXT,
        "description": _TEXT,
        "effect": _EFFECT,
        "idempotent": {"type": "boolean"},
        "input_schema": {"type": "object"},
        "output_schema": {"type": "object"},
        "more": {"type": "array", "items": _TEXT},
    },
    *("name", "title", "description", "effect", "idempotent", "input_schema"),
)
_CALL_INPUT = _object(
    {
        "name": _NAME,
        "arguments": {
            "type": "object",
            "description": "The tool's arguments, as its input schema says (describe_tool shows it).",
        },
    },
    "name",
)
_CALL_OUTPUT = _object(
    {
        "status": {"enum": ["ok", "error", "refused", "pending", "cancelled"]},
        "tool": _TEXT,
        "call_id": _TEXT,
        "data": {},
        "error": {"type": "object"},
        "meta": {"type": "object"},
    },
    *("status", "tool", "call_id", "meta"),
)
INPUTS: Mapping[str, Schema] = MappingProxyType({SEARCH: _SEARCH_INPUT, DESCRIBE: _DESCRIBE_INPUT, CALL: _CALL_INPUT})
"""What each of them takes."""


def stand_ins(catalog: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools that stand for a catalog, in name order. The effect of `call_tool` is the worst of what it may call."""
    sources = sorted({tool.source for tool in catalog})
    listed = ", ".join(sources[:_MAX_SOURCES]) + (", …" if len(sources) > _MAX_SOURCES else "")
    worst = max((tool.effect for tool in catalog), key=list(Effect).index)
    return (
        _tool(
            CALL,
            "Call a tool",
            f"Calls one of the tools that {SEARCH} finds, by its exact name, with the arguments its input schema asks for. "
            f"When in doubt about the arguments, use {DESCRIBE} first. Answers with the call's envelope: status, data or error.",
            (_CALL_INPUT, _CALL_OUTPUT),
            worst,
        ),
        _tool(
            DESCRIBE,
            "Describe a tool",
            f"Shows a tool that {SEARCH} found: its whole description and the schema of its arguments. "
            f"Use it before {CALL}, and for parts of arguments that are listed as an object without fields.",
            (_DESCRIBE_INPUT, _DESCRIBE_OUTPUT),
            Effect.READ,
        ),
        _tool(
            SEARCH,
            "Search the tools",
            f"Finds tools by what they do, among {len(catalog)} tools of {listed}. Use it first, whenever something has to be looked up "
            f"or done there. Then {DESCRIBE} shows how one is called, and {CALL} calls it.",
            (_SEARCH_INPUT, _SEARCH_OUTPUT),
            Effect.READ,
        ),
    )


def _tool(name: str, title: str, description: str, schemas: tuple[Schema, Schema], effect: Effect) -> Tool:
    return seal(
        Tool(
            name=name,
            title=title,
            description=description,
            input_schema=schemas[0],
            output_schema=schemas[1],
            effect=effect,
            idempotent=effect is Effect.READ,
            source="",
            origin="",
            binding=NoBinding(),
        )
    )


_MAX_SUMMARY_LENGTH = 200
_MAX_CATALOGS = 16
_SEARCHES = Limit(id="discovery", per=("principal",), per_second=50.0, burst=1_000)
_SENTENCE = re.compile(r".+?[.!?](?=\s|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """What `call_tool` was asked to call."""

    name: str
    arguments: JsonObject


@dataclass(slots=True)
class _Shelf:
    """One catalog and what was derived from it. It holds the catalog, whose identity is its key."""

    catalog: tuple[Tool, ...]
    offered: tuple[Tool, ...]
    stands_in: bool
    by_name: Mapping[str, Tool]
    index: ToolIndex | None = None
    meant: HybridIndex | None = None
    building: asyncio.Lock = field(default_factory=asyncio.Lock)


class Discovery:
    """Finds tools within the catalog it is given: one principal's, and so nothing of what that principal may not see.

    Principals with the same catalog share an index, because it holds exactly what each of them may see. `above` is how many tokens a
    catalog may cost before the three tools stand in its place; with `meaning`, requests find what they mean, too.
    """

    def __init__(self, *, above: float, clock: Clock, meaning: Meaning | None = None) -> None:
        self._above = above
        self._meaning = meaning
        self._buckets = MemoryBuckets(clock)
        self._shelves: dict[int, _Shelf] = {}
        self._validators = {name: Validator(schema) for name, schema in INPUTS.items()}

    def offered(self, catalog: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """What is listed for a catalog: the catalog itself, or the three tools. The same object until the catalog changes."""
        return self._shelf(catalog).offered

    def stands_in(self, catalog: tuple[Tool, ...]) -> bool:
        """Whether the three tools stand in this catalog's place."""
        return self._shelf(catalog).stands_in

    def answers(self, name: str, catalog: tuple[Tool, ...]) -> bool:
        """Whether one of the three is listed under this name; `describe_tool` alone where a tool is listed without its deep parts."""
        shelf = self._shelf(catalog)
        return name in INPUTS and (shelf.stands_in or (name == DESCRIBE and shelf.offered is not catalog))

    async def find(
        self, principal: Principal, catalog: tuple[Tool, ...], query: str, limit: int
    ) -> tuple[Tool, ...] | Error:
        """The tools that fit a query best, best first; an error where this principal has searched too often."""
        if refused := self._counted(principal):
            return refused
        shelf = self._shelf(catalog)
        hits = await self._meant(shelf, query, limit)
        if hits is None:
            hits = (await self._index(shelf)).search(query, limit)
        return tuple(shelf.by_name[hit.id] for hit in hits)

    async def answer(
        self, name: str, arguments: JsonObject, principal: Principal, catalog: tuple[Tool, ...]
    ) -> Success | Refused:
        """What `search_tools` or `describe_tool` says. It reads the catalog and reaches no other system."""
        checked = self._checked(name, arguments)
        if isinstance(checked, Refused):
            return checked
        if name == SEARCH:
            limit = checked.get("limit", DEFAULT_HITS)
            assert isinstance(limit, int)  # noqa: S101 - the schema says so
            found = await self.find(principal, catalog, str(checked["query"]), limit)
            return Refused(error=found) if isinstance(found, Error) else Success(data={"tools": [*map(_entry, found)]})
        if refused := self._counted(principal):
            return Refused(error=refused)
        tool = self._shelf(catalog).by_name.get(str(checked["name"]))
        if tool is None:
            suggestion = await self.suggestion(str(checked["name"]), catalog)
            return Refused(
                error=Error(code="unknown_tool", message=UNKNOWN.reason, suggestion=suggestion, rule=UNKNOWN.rule)
            )
        try:
            return Success(data=described(tool, checked))
        except UnknownFieldError as error:
            return _invalid(f"/fields: {str(error)!a} is no field of the arguments of {tool.name}")

    def inner(self, arguments: JsonObject) -> Inner | Refused:
        """The call inside a `call_tool`."""
        checked = self._checked(CALL, arguments)
        if isinstance(checked, Refused):
            return checked
        given = checked.get("arguments", {})
        return Inner(name=str(checked["name"]), arguments=given if isinstance(given, Mapping) else {})

    async def suggestion(self, name: str, catalog: tuple[Tool, ...]) -> str:
        """What to do about a name that is no tool's, from the catalog alone: a forbidden name and a free one get the same."""
        index = await self._index(self._shelf(catalog))
        close = sorted(
            (hit.id for hit in index.search(name[:MAX_QUERY_LENGTH], 20)),
            key=lambda id_: (-SequenceMatcher(None, name[:128], id_).ratio(), id_),
        )
        said = f"did you mean {', '.join(close[:3])}? " if close else ""
        return f"{said}{SEARCH} finds the exact names"

    def _shelf(self, catalog: tuple[Tool, ...]) -> _Shelf:
        shelf = self._shelves.pop(id(catalog), None)
        if shelf is None:
            stand_in = _costs_more(catalog, self._above)
            shelf = _Shelf(
                catalog=catalog,
                offered=stand_ins(catalog) if stand_in else _with_description(catalog),
                stands_in=stand_in,
                by_name={tool.name: tool for tool in catalog},
            )
        self._shelves[id(catalog)] = shelf  # last again: what was used least lately stands first
        if len(self._shelves) > _MAX_CATALOGS:
            del self._shelves[next(iter(self._shelves))]
        return shelf

    async def _meant(self, shelf: _Shelf, query: str, limit: int) -> list[Hit] | None:
        """What fits by words and meaning; None where words alone have to do."""
        if self._meaning is None:
            return None
        index = shelf.meant or await self._meaning.index(shelf.catalog)
        if index is None:
            return None
        shelf.meant = index
        return await self._meaning.search(index, query, limit)

    async def _index(self, shelf: _Shelf) -> ToolIndex:
        """The index of a catalog, made in a thread at its first search: a thousand tools take a tenth of a second."""
        if shelf.index is None:
            async with shelf.building:
                if shelf.index is None:
                    shelf.index = await asyncio.to_thread(ToolIndex, shelf.catalog)
        return shelf.index

    def _counted(self, principal: Principal) -> Error | None:
        charge = Charge(_SEARCHES, (_SEARCHES.id, principal.id))
        refusal = self._buckets.take((charge,))
        if refusal is None:
            return None
        return Error(
            code="rate_limited",
            message="too many searches",
            suggestion=f"wait {refusal.retry_after_s:g} s before searching again",
            retry_after_s=refusal.retry_after_s,
            rule=refusal.limit,
        )

    def _checked(self, name: str, arguments: JsonObject) -> JsonObject | Refused:
        schema = INPUTS[name]
        fault = excess(arguments)
        faults: tuple[str, ...] = (fault,) if fault else ()
        repaired: JsonObject = {}
        if not faults:
            repaired = repair(schema, arguments).arguments
            faults = self._validators[name].faults(repaired)
        if not faults:
            return repaired
        return _invalid("; ".join(faults))


def _invalid(message: str) -> Refused:
    suggestion = "correct the arguments and call again; the tool's input schema says what it takes"
    return Refused(error=Error(code="validation", message=message, suggestion=suggestion, rule="arguments"))


def _with_description(catalog: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """The catalog itself, with `describe_tool` among it where a tool is too large to be listed whole."""
    if all(listed(tool) is tool for tool in catalog):
        return catalog
    (describe,) = (tool for tool in stand_ins(catalog) if tool.name == DESCRIBE)
    return tuple(sorted((*catalog, describe), key=lambda tool: tool.name))


def static_cost(tools: Sequence[Tool]) -> int:
    """What a list of tools costs a model before its first word, in tokens."""
    return sum(map(cost, tools))


def _costs_more(catalog: Sequence[Tool], above: float) -> bool:
    """Whether a catalog costs more than so many tokens; counts no further than it takes to know. An empty one is never too long."""
    spent = 0
    for tool in catalog:
        spent += cost(tool)
        if spent > above:
            return True
    return False


def _entry(tool: Tool) -> Json:
    text = " ".join(tool.description.split())
    first = _SENTENCE.match(text)
    summary = bounded(first[0] if first else text, _MAX_SUMMARY_LENGTH)
    return {"name": tool.name, "title": tool.title, "summary": summary, "effect": str(tool.effect)}
