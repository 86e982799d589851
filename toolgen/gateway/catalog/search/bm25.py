"""Word search for tools: BM25 over several fields of each tool, without a model and with equal results on every run."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

from msgspec import Struct

from toolgen.gateway.catalog.search.actions import NO_ACTION, ToolAction, action_of
from toolgen.gateway.catalog.search.fitness import MOST_FIT, allowed, fit
from toolgen.gateway.catalog.search.intents import Intent, intent_of
from toolgen.gateway.catalog.search.tokenizer import broader, joined, name_terms, query_words, related, stems, terms
from toolgen.gateway.catalog.search.tool_graph import EXPANDED, ToolGraph
from toolgen.gateway.catalog.search.tool_roles import ToolRole, role_of, role_of_text
from toolgen.gateway.catalog.search.verbs import called
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Tool

__all__ = ["MAX_QUERY_LENGTH", "RankedTool", "ToolIndex"]

MAX_QUERY_LENGTH = 10_000
"""Maximum number of characters of a query."""
_MAX_TERMS = 256
_MAX_TEXT_LENGTH = 20_000  # maximum characters of one field of one tool; descriptions are bounded long before that
_MAX_PARAMETERS = 500
_MAX_LISTED = 20  # values of one parameter
_MAX_DEPTH = 1  # levels of objects within arguments

# Weights of BM25F (Robertson and Zaragoza 2009, section 3.6). Chosen by reasoning and checked on several labelled sets (`python -m
# bench.search`), on all of which neighbouring values do about as well: a word of the name weighs more than one of the description, and a
# parameter's weighs less.
_FIELDS = ("name", "title", "text", "parameters", "source")
_WEIGHTS = (2.0, 1.0, 1.0, 0.75, 0.5)
_LENGTH = (0.5, 0.5, 0.75, 0.5, 0.0)
_SATURATION = 1.2
_COVERAGE = 0.5  # bonus of a name if the query contains all of it
_SOURCE = 0.3  # bonus of the tools of a source that fits best
_NAMED = 1.5  # factor for the tools of a source that the query names
_AHEAD = 3  # number of best hits that related tools never precede
_FITTED = 200  # number of hits whose actions are compared with the intent of a query
_JUDGED = 50  # number of hits that determine the fit of a source
_RELATED = 0.25  # weight of a synonym: fetch for get
_CALLED = 0.5  # weight of the verb that names use for a verb of the request: create for open
_BROADER = 0.5  # weight of a more general word: person for actor


class RankedTool(Struct, frozen=True):
    """Tool that matches. Scores are only comparable within one search."""

    id: str
    score: float


class _IndexedText(Struct, frozen=True):
    """Indexed tool: the count of each term in each field, the lengths of the fields, and the terms of its name, in order."""

    counts: Mapping[str, tuple[int, ...]]
    lengths: tuple[int, ...]
    name: tuple[str, ...]


class ToolIndex:
    """Searchable set of tools. Added tools can be found at once, removed ones cannot; nothing is rebuilt.

    The scores depend only on the tools in the index and the query, not on the order of additions: an index of what a principal may see
    reveals nothing else.
    """

    def __init__(self, tools: Manifest | Iterable[Tool] = ()) -> None:
        self._documents: dict[str, _IndexedText] = {}
        self._graph = ToolGraph()
        self._actions: dict[str, ToolAction] = {}
        self._postings: dict[str, dict[str, None]] = {}
        self._lengths = [0] * len(_FIELDS)
        # Weight of each term in each tool that has it, while the tools stay the same; filled on demand by searches.
        self._weighted: dict[str, list[tuple[str, float]]] = {}
        self._rarities: dict[str, float] = {}
        self._names: dict[str, float] = {}  # total weight of a tool's name
        for tool in tools.tools.values() if isinstance(tools, Manifest) else tools:
            self.add(tool)
        self._graph.prepare()

    @classmethod
    def from_texts(cls, texts: Iterable[tuple[str, str, str, Sequence[str]]]) -> Self:
        """Create an index of objects with an id, a name, a text and the names of their parameters."""
        index = cls()
        for id_, name, text, parameters in texts:
            index.add_text(id_, name, text, parameters)
        return index

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._documents

    def add(self, tool: Tool) -> None:
        """Add a tool under its name; it replaces one with the same name."""
        local = tool.name.removeprefix(f"{tool.source}__")
        document = _read(local, tool.title, tool.description, _parameters(tool.input_schema), tool.source)
        self._put(tool.name, document, role_of(tool), action_of(tool))

    def add_text(self, id_: str, name: str, text: str, parameters: Sequence[str] = ()) -> None:
        """Add an object that is not a `Tool`."""
        given = tuple(parameters)
        self._put(id_, _read(name, "", text, given, ""), role_of_text(id_, name, text, given))

    def remove(self, id_: str) -> None:
        """Remove a tool; an unknown id is no error."""
        document = self._documents.pop(id_, None)
        if document is None:
            return
        self._graph.remove(id_)
        del self._actions[id_]
        for term in document.counts:
            ids = self._postings[term]
            del ids[id_]
            if not ids:
                del self._postings[term]
        self._changed(document, -1)

    def search(self, query: str, limit: int = 10) -> list[RankedTool]:
        """Return the best tools, best first, equal scores in the order of their ids. Tools without any word of the query are left out,
        unless a hit leads to them.

        Raises `ValueError` for a query longer than `MAX_QUERY_LENGTH`.
        """
        return self.expanded(self.scored(query, limit), query, limit)

    def scored(self, query: str, limit: int) -> dict[str, float]:
        """Return the word scores of tools, for at least the `limit` best. Raises `ValueError` as `search` does."""
        if len(query) > MAX_QUERY_LENGTH:
            raise ValueError(f"a query has at most {MAX_QUERY_LENGTH} characters")
        asked = self._asked(query)
        scores: dict[str, float] = {}
        for term, weight in asked.items():
            for id_, worth in self._worth(term):
                scores[id_] = scores.get(id_, 0.0) + weight * worth
        if limit < 1 or not scores:
            return {}
        # The bonuses of a name and a source are bounded, so a tool whose score is further below the last shown one cannot be shown.
        least = heapq.nlargest(max(limit, _JUDGED), scores.values())[-1] / (1 + _COVERAGE) / (1 + _SOURCE) / MOST_FIT
        return {
            id_: score * (1 + _COVERAGE * self._coverage(id_, asked)) for id_, score in scores.items() if score >= least
        }

    def shares(self, query: str, ids: Iterable[str], *, alike: bool = True) -> list[float]:
        """Return the share of the query that each tool contains, from 0 to 1. Rare words weigh more, and words of no tool weigh most.

        `alike`: words of about the same meaning, or a more general one, count too.
        """
        wanted: dict[str, tuple[float, tuple[str, ...]]] = {}
        words = [word for word in query_words(query[:MAX_QUERY_LENGTH]) if word]
        for word in words[:_MAX_TERMS]:
            for term in stems([word]):
                others = (*related(term), *broader(word)) if alike else ()
                wanted[term] = (self._rarity(term), (term, *others))
        whole = sum(rarity for rarity, _ in wanted.values())
        counts = [self._documents[id_].counts for id_ in ids]
        return [
            sum(rarity for rarity, terms_ in wanted.values() if any(term in own for term in terms_)) / whole
            if whole
            else 0.0
            for own in counts
        ]

    def expanded(self, scores: dict[str, float], query: str, limit: int) -> list[RankedTool]:
        """Return the best of these and the tools that the best lead to, best first; equal scores in the order of their ids."""
        graph = self._graph
        sources = graph.sources(heapq.nlargest(_JUDGED, ((score, id_) for id_, score in scores.items())))
        if sources:
            scores = {id_: score * (1 + _SOURCE * sources.get(graph.source(id_), 0.0)) for id_, score in scores.items()}
        scores = self._fitting(scores, query)
        best = _first(scores, EXPANDED)
        # A preceding step is ranked after the tools that do the task: those come with their schemas.
        simple = len(best) >= _AHEAD and intent_of(query).simple and self._actions[best[0].id] is not NO_ACTION
        most = best[_AHEAD - 1].score if simple else math.inf
        for id_, score in graph.related([(hit.id, hit.score) for hit in best], query).items():
            scores[id_] = max(min(score, most), scores.get(id_, 0.0))
        return self._led(_first(scores, max(limit, EXPANDED)), query)[:limit]

    def _fitting(self, scores: Mapping[str, float], query: str) -> dict[str, float]:
        """Return the scores of the best, adjusted by how their actions match the intent of the query."""
        intent = intent_of(query)
        best = heapq.nlargest(_FITTED, scores, key=scores.__getitem__) if len(scores) > _FITTED else scores
        named = self._graph.named(intent.said) if intent.simple else ()
        found: dict[str, float] = {}
        for id_ in best:
            action = self._actions[id_]
            score = scores[id_] if action is NO_ACTION else scores[id_] * fit(intent, action, self._rarity)
            found[id_] = score * _NAMED if named and self._graph.source(id_) in named else score
        return found

    def _led(self, hits: list[RankedTool], query: str) -> list[RankedTool]:
        """Return the hits, led by one with the requested effect, if there is one: a request to read never leads to a deletion."""
        intent = intent_of(query)
        place = next((at for at, hit in enumerate(hits) if allowed(intent, self._actions[hit.id])), 0)
        return [hits[place], *hits[:place], *hits[place + 1 :]] if place else hits

    def _put(self, id_: str, document: _IndexedText, role: ToolRole, action: ToolAction = NO_ACTION) -> None:
        self.remove(id_)
        self._actions[id_] = action
        self._graph.put(id_, role)
        self._documents[id_] = document
        for term in document.counts:
            self._postings.setdefault(term, {})[id_] = None
        self._changed(document, 1)

    def _changed(self, document: _IndexedText, sign: int) -> None:
        self._lengths = [total + sign * own for total, own in zip(self._lengths, document.lengths, strict=True)]
        self._weighted.clear()
        self._rarities.clear()
        self._names.clear()

    def _asked(self, query: str) -> dict[str, float]:
        """Return the terms of a query that some tool has, each with its weight: repetitions of a word weigh less."""
        words = query_words(query)
        asked = {term: math.sqrt(count) for term, count in Counter(stems(words)).items() if term in self._postings}
        for term in joined(words):
            if term in self._postings:
                asked.setdefault(term, 1.0)
        for term in stems(words):
            for other in related(term):
                if other in self._postings:
                    asked.setdefault(other, _RELATED)
        for term in _of_names(intent_of(query)) if asked else ():  # a verb alone selects no tool
            if term in self._postings:
                asked.setdefault(term, _CALLED)
        for term in broader(query):
            if term in self._postings:
                asked.setdefault(term, _BROADER)
        return dict(list(asked.items())[:_MAX_TERMS])

    def _worth(self, term: str) -> list[tuple[str, float]]:
        found = self._weighted.get(term)
        if found is None:
            rarity = self._rarity(term)
            count = len(self._documents)
            scales = [
                (weight, 1 - length, length * count / total if total else 0.0)
                for weight, length, total in zip(_WEIGHTS, _LENGTH, self._lengths, strict=True)
            ]
            found = [(id_, rarity * _saturated(self._documents[id_], term, scales)) for id_ in self._postings[term]]
            self._weighted[term] = found
        return found

    def _rarity(self, term: str) -> float:
        """Return the inverse document frequency, in the form that is never negative."""
        rarity = self._rarities.get(term)
        if rarity is None:
            having = len(self._postings.get(term, ()))
            rarity = self._rarities[term] = math.log1p((len(self._documents) - having + 0.5) / (having + 0.5))
        return rarity

    def _coverage(self, id_: str, asked: Mapping[str, float]) -> float:
        """Return the share of a tool's name that the query contains, from 0 to 1. Rare words weigh more."""
        name = self._documents[id_].name
        whole = self._names.get(id_)
        if whole is None:
            whole = self._names[id_] = sum(map(self._rarity, name))
        said = sum(self._rarity(term) * min(1.0, asked[term]) for term in name if term in asked)
        return said / whole if whole else 0.0


def _first(scores: Mapping[str, float], limit: int) -> list[RankedTool]:
    ranked = heapq.nsmallest(limit, ((-score, id_) for id_, score in scores.items()))
    return [RankedTool(id_, -score) for score, id_ in ranked]


def _of_names(intent: Intent) -> Iterator[str]:
    """Return the verb that names use for creating something, if a request uses another word: file, open, publish."""
    if intent.simple and intent.verbs == {"create"} and intent.acts.isdisjoint(called("create")):
        yield from stems(["create"])


def _saturated(document: _IndexedText, term: str, scales: list[tuple[float, float, float]]) -> float:
    """Return the weight of a term in a document, from 0 to 1."""
    amount = 0.0
    for count, length, (weight, base, slope) in zip(document.counts[term], document.lengths, scales, strict=True):
        if count:
            amount += weight * count / (base + slope * length)
    return amount / (_SATURATION + amount)


# Indexes of several principals contain the same tools: each is read once. The cache depends on these texts only.
@lru_cache(maxsize=8_192)
def _read(name: str, title: str, text: str, parameters: tuple[str, ...], source: str) -> _IndexedText:
    fields = (name, title, text, " ".join(parameters[:_MAX_PARAMETERS]), source)
    found = [terms(field[:_MAX_TEXT_LENGTH]) for field in fields]
    counts: dict[str, list[int]] = {}
    for at, field in enumerate(found):
        for term in field:
            counts.setdefault(term, [0] * len(fields))[at] += 1
    return _IndexedText(
        counts={term: tuple(count) for term, count in counts.items()},
        lengths=tuple(map(len, found)),
        name=tuple(sorted(name_terms(name[:_MAX_TEXT_LENGTH]))),
    )


def _parameters(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a tool's arguments, including nested ones, and their listed values."""
    found: dict[str, None] = {}
    waiting = [(schema, 0)]
    for node, depth in waiting:
        properties = node.get("properties")
        for name, inner in properties.items() if isinstance(properties, Mapping) else ():
            found[name] = None
            if not isinstance(inner, Mapping):
                continue
            for one in (inner, inner.get("items")):
                listed = one.get("enum") if isinstance(one, Mapping) else None
                values = listed[:_MAX_LISTED] if isinstance(listed, Sequence) else ()
                found.update(dict.fromkeys(value for value in values if isinstance(value, str)))
            if depth < _MAX_DEPTH:
                waiting.append((inner, depth + 1))
    return tuple(found)
