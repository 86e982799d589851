"""Resources that a tool needs and gives, read from its schemas and its path or, if there are none, from names.

A tool that asks for `movie_id` needs a movie. A tool that searches or lists movies without asking for one gives movies, and so does a tool
whose answers have objects of that name with identifiers in them. Nothing here is specific to an API.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

from msgspec import Struct

from toolgen.gateway.catalog.search.tokenizer import split_words, stems, terms, word_set
from toolgen.model.schema import Schema
from toolgen.model.tool import Effect, Tool

__all__ = ["Resource", "ToolRole", "role_of", "role_of_text", "source_of"]

Resource: TypeAlias = tuple[str, ...]  # the terms of its name

# The last word of a parameter for an identifier, words that make it a credential, and words of one for text.
_ID: Final = word_set("id ids identifier identifiers uuid guid slug handle code codes key sku uri uris number")
_CREDENTIAL: Final = word_set("access api app auth client idempotency license secret session token")
_TEXT: Final = word_set("query q search keyword keywords term terms text name title phrase")
_LOGIN: Final = word_set("username login screenname")


@cache
def _stemmed(words: str) -> frozenset[str]:
    """Return the stems of words, on first use: the stemmer library takes longer to import than all other search modules."""
    return frozenset(stems(words.split()))


_SEARCH: Final = "search find query lookup"
# Verbs that change something: the first list anywhere in a name, the second only at its beginning, because a post is also a noun.
_CHANGE: Final = (
    "add cancel create delete disable edit enable insert modify remove rename replace revoke save send update upload"
)
_COMMAND: Final = "archive assign mark move patch pause play post put register set skip start stop transfer"
# Other words of a name that are not resources.
_OTHER: Final = f"""{_SEARCH} {_CHANGE} all api browse by check data detail details discover fetch for from get id identifier in information
    item items latest list new of popular read resource result results retrieve several show to v1 v2 v3 view with"""
_CALLER: Final = word_set("me my myself self whoami viewer authenticated current")
_PEOPLE: Final = "user account owner member profile login person"
_CALLER_PATHS: Final = word_set("me self user account profile whoami viewer")
_CALLERS: Final = " ".join((_PEOPLE, *sorted(_CALLER)))
_DEFINITION: Final = re.compile(r"#/(?:\$defs|definitions|components/schemas)/([^/]+)\Z")
_MAX_DEPTH: Final = 2  # maximum levels of an answer, or of arguments, that are read
_MAX_NODES: Final = 300
_MAX_PARAMETERS: Final = 500
_MAX_OWNERS: Final = 3  # maximum owners of an id whose owner is not stated
_MAX_NAME: Final = 200
_MAX_TEXT: Final = 2_000  # maximum characters of the text of a search tool
_BY_ANSWER: Final = 0.2  # weight of identifiers in answers, relative to a name
_OPTIONAL: Final = 0.5  # probability that an optional identifier is needed

# The rest of a name after these words is a target or a place, not the resource.
_CONTEXT: Final = re.compile(
    r"(?<=[a-zA-Z0-9])[_\- ](?:by|for|from|in|of|on|to|with)(?=[_\- ])|(?<=[a-z0-9])(?:By|For|From|In|Of|On|With)(?=[A-Z])"
)


class ToolRole(Struct, frozen=True):
    """Resources that one tool needs and gives, independent of other tools."""

    source: str
    needs: tuple[tuple[Resource, float], ...]  # with the probability of each, from 0 to 1
    named: tuple[str, ...]  # nouns of its name, in order
    head: tuple[str, ...]  # nouns of its object: for the runs of a repository, the runs
    answers: frozenset[str]  # resources whose identifiers are in the schema of its answers
    described: frozenset[str]  # terms of its description, for a search tool; none for any other
    writes: bool
    searches: bool
    takes_text: bool
    of_caller: bool  # it returns the caller's identity

    @property
    def finds_all(self) -> bool:
        """Return True if the tool is a general search."""
        return self.searches and self.takes_text and not self.named

    def gives(self, wanted: Resource, having: Collection[Resource] | None) -> float:
        """Return how well the tool finds a resource, from 0 to 1; 0 if it needs that resource itself, or changes something.

        `having` are resources that the caller already has; None means that the caller has everything the tool needs.
        """
        required = [need for need, certain in self.needs if certain == 1.0]
        if self.writes or any(not set(need).isdisjoint(wanted) for need in required):
            return 0.0
        if self.of_caller and not _stemmed(_PEOPLE).isdisjoint(wanted):
            return 1.0
        if self.finds_all:
            return 0.9 if self.described.issuperset(wanted) else 0.7
        share = max(_share(wanted, self.head), _share(wanted, self.named))
        if share == 0.0 and wanted[-1] in self.answers:
            share = _BY_ANSWER
        known = 1.0 if self.searches and self.takes_text else 0.8 if self.searches or self.takes_text else 0.6
        return known * math.sqrt(share) * (1.0 if having is None or all(need in having for need in required) else 0.6)


def _share(wanted: Resource, nouns: Sequence[str]) -> float:
    """Return the share of a name that is this resource."""
    return len(wanted) / max(len(nouns), len(wanted)) if set(wanted) <= set(nouns) else 0.0


_METHODS: Final = frozenset(("", "get", "put", "post", "delete", "options", "head", "patch", "trace", "query"))


def source_of(id_: str) -> str:
    """Return the text before the first `__`, `/` or `::` of an id, as in `server/tool`, or "" if that is empty or an HTTP method."""
    before = re.split(r"__|/|::", id_, maxsplit=1)
    source = before[0].strip() if len(before) > 1 else ""
    return "" if source.lower() in _METHODS else source


class _Parameter(Struct, frozen=True):
    name: str
    of: Resource | None = None  # resource that it identifies, if that is known
    certain: float = 1.0


@lru_cache(maxsize=8_192)
def role_of_text(id_: str, name: str, text: str, parameters: tuple[str, ...]) -> ToolRole:
    """Return the role of a tool without a schema."""
    source = source_of(id_)
    return _role(
        source, name.removeprefix(source), text, [_Parameter(one) for one in parameters[:_MAX_PARAMETERS]], _Known()
    )


_roles_by_digest: dict[str, ToolRole] = {}


def role_of(tool: Tool) -> ToolRole:
    """Return the role of a tool, computed once for each digest."""
    known = _roles_by_digest.get(tool.digest) if tool.digest else None
    if known is not None:
        return known
    local = tool.name.removeprefix(f"{tool.source}__")
    http = tool.http
    last = "" if http is None else _collection(http.path)
    known_of = _Known(
        about=_nouns(last),
        answers=_answered(tool.output_schema, _nouns(local)) if tool.output_schema else frozenset(),
        effect=tool.effect,
        of_caller=last in _CALLER_PATHS,
    )
    role = _role(tool.source, local, tool.description, _parameters(tool), known_of)
    if tool.digest:
        if len(_roles_by_digest) >= 8_192:
            _roles_by_digest.clear()
        _roles_by_digest[tool.digest] = role
    return role


class _Known(Struct, frozen=True, kw_only=True):
    """Information about a tool beside its name, its text and its parameters."""

    about: tuple[str, ...] = ()
    answers: frozenset[str] = frozenset()
    effect: Effect = Effect.READ
    of_caller: bool = False


def _role(source: str, name: str, text: str, parameters: Iterable[_Parameter], known: _Known) -> ToolRole:
    said = terms(name)
    searches = not _stemmed(_SEARCH).isdisjoint(said)
    commands = said[:1] if _stemmed(_COMMAND).issuperset(said[:1]) else []
    named = tuple(dict.fromkeys(term for term in said[len(commands) :] if term not in _stemmed(_OTHER)))
    needs: dict[Resource, float] = {}
    takes_text = False
    bare: list[float] = []
    for parameter in parameters:
        takes_text = takes_text or _is_text(parameter.name)
        resource = _identified(parameter.name)
        if resource == () or resource is None:
            if resource is not None and parameter.of is None:
                bare.append(parameter.certain)
            resource = parameter.of
        if resource:
            needs[resource] = max(needs.get(resource, 0.0), parameter.certain)
    if bare:
        needs.update(dict.fromkeys(_owners(said, named, needs), max(bare)))
    return ToolRole(
        source=source,
        needs=tuple(needs.items()),
        named=named,
        head=known.about or _nouns(_CONTEXT.split(name)[0]),
        answers=known.answers,
        described=frozenset(terms(text[:_MAX_TEXT])) if searches else frozenset(),
        # A search is often sent as POST, and has a search verb.
        writes=known.effect is Effect.DESTRUCTIVE
        or not _stemmed(_CHANGE).isdisjoint(said)
        or (not searches and (known.effect is Effect.WRITE or bool(commands))),
        searches=searches,
        takes_text=takes_text,
        of_caller=known.of_caller
        or (not _CALLER.isdisjoint(split_words(name)) and _stemmed(_CALLERS).issuperset(named)),
    )


# Cached, because names of parameters and properties repeat.
@lru_cache(maxsize=16_384)
def _is_text(name: str) -> bool:
    parts = set(split_words(name[:_MAX_NAME]))
    return name.lower() in _TEXT or (bool(parts) and parts <= _TEXT)


@lru_cache(maxsize=16_384)
def _identified(name: str) -> Resource | None:
    """Return the resource that a parameter of this name identifies: () for `id` alone, None if it is no identifier."""
    parts = list(split_words(name[:_MAX_NAME]))
    if not parts or _CREDENTIAL & set(parts):
        return None
    if parts[-1] in _LOGIN:
        return tuple(stems(["user"]))
    if parts[-1] in _ID:
        return tuple(stems(parts[:-1]))
    glued = re.fullmatch(r"([a-z]{3,})ids?", parts[-1]) if len(parts) == 1 else None
    return tuple(stems([glued[1]])) if glued else None


def _owners(said: Sequence[str], named: Sequence[str], needs: Collection[Resource]) -> list[Resource]:
    """Return the owners of a plain `id`: the noun before that word in the name of the tool, or otherwise any noun without an identifier of
    its own."""
    left = [noun for noun in named if (noun,) not in needs]
    before = [first for first, second in pairwise(said) if second == "identifi" and first in left]
    return [(noun,) for noun in before or left[:_MAX_OWNERS]]


def _parameters(tool: Tool) -> Iterator[_Parameter]:
    """Return the arguments of a tool, also those within objects such as `body`."""
    http = tool.http
    of = (
        {}
        if http is None
        else _of_path(http.path, {one.name: one.argument for one in http.parameters if one.in_ == "path"})
    )
    for name, required in _properties(tool.input_schema, 0):
        yield _Parameter(name, of.get(name), 1.0 if required else _OPTIONAL)


def _properties(schema: Schema, depth: int) -> Iterator[tuple[str, bool]]:
    properties = schema.get("properties")
    if depth > _MAX_DEPTH or not isinstance(properties, Mapping):
        return
    required = schema.get("required", ())
    for name, inner in list(properties.items())[:_MAX_PARAMETERS]:
        if isinstance(inner, Mapping):
            yield name, name in required
            for nested, also in _properties(inner, depth + 1):
                yield nested, also and name in required


def _of_path(path: str, arguments: Mapping[str, str]) -> dict[str, Resource]:
    """Return the resource that each path argument identifies: the segment before it (projects in `/projects/{idOrName}`), or its name."""
    found: dict[str, Resource] = {}
    before: Resource = ()
    for segment in path.split("/"):
        names = re.findall(r"\{([^}]*)\}", segment)
        for name in names:
            resource = before or tuple(stems(split_words(name)))
            if name in arguments and resource:
                found[arguments[name]] = resource
        before = () if names else tuple(term for term in terms(segment.split(".")[0]) if term not in _stemmed(_OTHER))
    return found


def _collection(path: str) -> str:
    """Return the last segment of a path if it is not a parameter: a collection, or a singleton."""
    last = path.rpartition("/")[2].split(".")[0]
    return "" if "{" in last else last


def _answered(schema: Schema, name: Sequence[str]) -> frozenset[str]:
    """Return the resources identified in the answers of a tool: objects by the name of their definition or property, and foreign keys."""
    found: set[str] = set()
    nodes = 0
    waiting: list[tuple[Any, tuple[str, ...], int]] = [(schema, tuple(name), 0)]
    while waiting and nodes < _MAX_NODES:
        node, called, depth = waiting.pop(0)
        nodes += 1
        if not isinstance(node, Mapping) or depth > _MAX_DEPTH:
            continue
        reference = _DEFINITION.match(str(node.get("$ref", "")))
        if reference:
            node = schema.get("$defs", {}).get(reference[1])
            called = _nouns(reference[1]) or called
            if not isinstance(node, Mapping):
                continue
        waiting.extend((one, called, depth) for key in ("allOf", "anyOf", "oneOf") for one in node.get(key) or ())
        if "items" in node:
            waiting.append((node["items"], called, depth))
        properties = node.get("properties")
        for key, inner in properties.items() if isinstance(properties, Mapping) else ():
            identified = _identified(key)
            if identified is not None:
                found.update(identified[-1:] or called[-1:])
            elif isinstance(inner, Mapping) and not inner.keys().isdisjoint(
                ("properties", "items", "$ref", "allOf", "anyOf")
            ):
                waiting.append((inner, _nouns(key) or called, depth + 1))
    return frozenset(found)


@lru_cache(maxsize=16_384)
def _nouns(name: str) -> tuple[str, ...]:
    return tuple(term for term in terms(name) if term not in _stemmed(_OTHER))
