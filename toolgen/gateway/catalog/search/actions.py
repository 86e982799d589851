"""Action of a tool: its verb and its objects, from its name and, for an HTTP tool, also from its method and path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final

from msgspec import Struct

from toolgen.gateway.catalog.search.tokenizer import split_words, terms, word_set
from toolgen.gateway.catalog.search.verbs import CASES, Verb, bases, class_of
from toolgen.model.tool import Effect, Tool

__all__ = ["NO_ACTION", "ToolAction", "action_of"]

_METHODS: Final = word_set("get post put patch delete")
_OWNED: Final = word_set("me my self current authenticated viewer own user")
_DEPRECATED: Final = re.compile(
    r"(?:\A|[.!\n]\s*)\W{0,3}deprecated\b|\[deprecated\]"
    r"|\bthis (?:\w+ )?(?:endpoint|operation|field|method|api|route|query|mutation) (?:is|has been) deprecated",
    re.IGNORECASE,
)
# Members of a page object beside its list.
_PAGED: Final = re.compile(r"total|count|next|more|cursor|page|offset", re.IGNORECASE)
_MAX_PARAMETERS: Final = 200
_MAX_NAME: Final = 200
_MAX_TEXT: Final = 4_000  # characters of a title and a description that are read
_MAX_REFERENCES: Final = 8


class ToolAction(Struct, frozen=True, kw_only=True):
    """Action of a tool.

    `effect` is None if it is unknown. `objects` are the terms of the things it acts on, `nouns` all those of its name, `arguments` the
    names of its arguments as terms, `required` the number of required arguments. `own`: it acts on the caller's own things. `head` is the
    last term of its objects, their main noun: for an issue's milestone, the milestone.
    """

    verb: Verb = ""
    effect: Effect | None = None
    searches: bool = False
    objects: frozenset[str] = frozenset()
    nouns: frozenset[str] = frozenset()
    arguments: frozenset[tuple[str, ...]] = frozenset()
    required: int = 0
    own: bool = False
    deprecated: bool = False
    head: str = ""


NO_ACTION: Final = ToolAction()
"""Action of a tool whose name and request show none."""

_actions_by_digest: dict[str, ToolAction] = {}


def action_of(tool: Tool) -> ToolAction:
    """Return the action of a tool, computed once for each digest."""
    known = _actions_by_digest.get(tool.digest) if tool.digest else None
    if known is not None:
        return known
    action = _action(tool)
    if tool.digest:
        if len(_actions_by_digest) >= 8_192:
            _actions_by_digest.clear()
        _actions_by_digest[tool.digest] = action
    return action


def _action(tool: Tool) -> ToolAction:
    local = tool.name.removeprefix(f"{tool.source}__")[:_MAX_NAME]
    words = list(split_words(local))
    lead = words[0] if words else ""
    named_verb = verb = class_of(lead, of_name=True)
    http = tool.http
    about: Iterable[str] = ()
    own = not _OWNED.isdisjoint(words[1:])
    if http is not None:
        segments = [one for one in http.path.split("/") if one]
        if lead in _METHODS or not verb:
            verb = _of_shape(http.method, segments, tool.output_schema) or verb
        about = terms(_dealt_with(http.method, segments))
        own = own or (bool(segments) and segments[0] in {"me", "user", "self"})
    elif not verb and tool.binding.is_query:
        verb = "get"
    if verb == "get" and _is_list(tool.output_schema):
        verb = "list"
    named = terms(" ".join(_before_case(words[1:] if named_verb else words)))
    objects = named if named and lead not in _METHODS - {"get", "delete"} else list(about)
    return ToolAction(
        verb=verb,
        effect=_effect(tool, verb),
        searches=verb == "search",
        objects=frozenset(objects),
        nouns=frozenset(terms(local)) | frozenset(about),
        arguments=_arguments(tool.input_schema),
        required=len(tool.input_schema.get("required", ())),
        own=own,
        head=objects[-1] if objects else "",
        deprecated=_DEPRECATED.search(f"{tool.title}\n{tool.description}"[:_MAX_TEXT]) is not None,
    )


def _effect(tool: Tool, verb: Verb) -> Effect:
    """Return the effect of a tool. A tool that is destructive only by default counts by its verb."""
    if tool.effect is not Effect.DESTRUCTIVE or tool.sends_request or verb in ("delete", "end"):
        return tool.effect
    return Effect.WRITE


def _before_case(words: Sequence[str]) -> list[str]:
    """Return the words before the first preposition of a name, or all words if the name begins with one."""
    return list(takewhile(lambda word: word not in CASES, words)) or list(words)


def _dealt_with(method: str, segments: Sequence[str]) -> str:
    """Return the noun of an HTTP request: the last fixed segment of its path, or the segment before it if the last one is a verb."""
    fixed = [one for one in segments if "{" not in one]
    if (
        method in ("POST", "PUT")
        and len(fixed) > 1
        and len(segments) > 2
        and "{" in segments[-2]
        and _acting(fixed[-1])
    ):
        return fixed[-2]
    return fixed[-1] if fixed else ""


def _acting(segment: str) -> Verb:
    """Return the class of the verb that a segment of a path begins with; "" for a noun."""
    first = next(split_words(segment.partition(":")[2] or segment), "")
    return class_of(first) if first in bases() else ""


def _of_shape(method: str, segments: Sequence[str], output: Mapping[str, Any] | None) -> Verb:
    """Return the class of an HTTP request by its form: POST to a collection creates, to an item updates; a verb at the end of the path
    decides."""
    last = segments[-1] if segments else ""
    one = "{" in last
    verb: Verb = "" if one else _acting(last)
    match method:
        case "GET":
            return "search" if verb == "search" else "list" if _is_list(output) and not one else "get"
        case "POST" if verb in ("end", "delete", "update", "search"):
            return verb
        case "POST":
            return "update" if one else "create"
        case "PUT" | "PATCH":
            return "update"
        case "DELETE":
            return "delete"
    return ""


def _is_list(schema: Mapping[str, Any] | None) -> bool:
    """Return True for the schema of a list, or of an object that is a page of one."""
    if schema is None:
        return False
    at = _resolved(schema, schema)
    if _is_array(at):
        return True
    members: dict[str, Any] = {}
    for one in (at, *(_resolved(one, schema) for one in at.get("allOf", ()) if isinstance(one, Mapping))):
        found = one.get("properties")
        members |= found if isinstance(found, Mapping) else {}
    lists = [name for name, one in members.items() if isinstance(one, Mapping) and _is_array(_resolved(one, schema))]
    return len(lists) == 1 and (len(members) == 1 or any(_PAGED.search(name) for name in members))


def _is_array(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    return kind == "array" or (isinstance(kind, (list, tuple)) and "array" in kind)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            break
        found = root.get("$defs", {}).get(reference.rpartition("/")[2])
        schema = found if isinstance(found, Mapping) else {}
    return schema


def _arguments(schema: Mapping[str, Any]) -> frozenset[tuple[str, ...]]:
    properties = schema.get("properties")
    names = list(properties)[:_MAX_PARAMETERS] if isinstance(properties, Mapping) else []
    return frozenset(found for name in names if (found := _name_terms(name[:_MAX_NAME])))


@lru_cache(maxsize=16_384)
def _name_terms(name: str) -> tuple[str, ...]:
    return tuple(terms(name))
