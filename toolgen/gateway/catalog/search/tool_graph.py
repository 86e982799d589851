"""Graph of producers and consumers: which tool finds the input of another tool.

It is built only from the tools in it.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from toolgen.gateway.catalog.search.tokenizer import terms
from toolgen.gateway.catalog.search.tool_roles import Resource, ToolRole

__all__ = ["EXPANDED", "ToolGraph"]

EXPANDED: Final = 10
"""Number of best hits whose inputs are followed."""

# Share of a hit's score that related tools get. Neighbouring values do about as well (docs/explanation/search.md).
_PRODUCER: Final = 0.8
_GETTER: Final = 0.7
_NAMED: Final = 0.6
_SURE: Final = 0.6  # minimum score of a tool that counts as the search for a resource
_FEW: Final = 5  # maximum searches of a source that a name may be meant for
# Share of tools that need the same resource: above the first it says less, above the second nothing. In a small source it always counts.
_SOME, _NEARLY_ALL, _MANY = 0.3, 0.6, 20
_MAX_CANDIDATES: Final = 20
_OF_A_SOURCE: Final = 3  # number of hits of a source that determine its fit
# Name within a request: a capital that does not begin a sentence, or the beginning of a quotation.
_NAME: Final = re.compile(r"(?<![.!?:]\s)(?<!\A)\b[A-Z]\w[\w'&]*|[\"“'][A-Z0-9]")


class ToolGraph:
    """Graph of the tools in it: an index of what a principal may see leads to nothing else."""

    def __init__(self) -> None:
        self._roles: dict[str, ToolRole] = {}
        self._counts: Counter[str] = Counter()  # of the tools of each source
        self._forget()

    def put(self, id_: str, role: ToolRole) -> None:
        """Add a tool; one with its id must have been removed."""
        self._roles[id_] = role
        self._counts[role.source] += 1
        self._forget()

    def remove(self, id_: str) -> None:
        """Remove a tool."""
        source = self._roles.pop(id_).source
        self._counts[source] -= 1
        if not self._counts[source]:
            del self._counts[source]
        self._forget()

    def prepare(self) -> None:
        """Read the tools now, because the first search may have less time."""
        self._read()

    def sources(self, hits: Sequence[tuple[float, str]]) -> dict[str, float]:
        """Return the fit of each source, from 0 to 1, by its best few hits; empty if there is only one source."""
        if len(self._counts) < 2:
            return {}
        of_source: dict[str, list[float]] = {}
        for score, id_ in hits:
            of_source.setdefault(self._roles[id_].source, []).append(score)
        totals = {source: sum(heapq.nlargest(_OF_A_SOURCE, scores)) for source, scores in of_source.items()}
        most = max(totals.values(), default=0.0) or 1.0
        return {source: total / most for source, total in totals.items()}

    def source(self, id_: str) -> str:
        """Return the source of a tool."""
        return self._roles[id_].source

    def named(self, said: frozenset[str]) -> frozenset[str]:
        """Return the sources that these terms name; none if there is only one source."""
        if len(self._counts) < 2:
            return frozenset()
        known = self._source_terms
        if not known:
            known.update((source, frozenset(terms(source))) for source in self._counts)
        return frozenset(source for source, own in known.items() if own and own <= said)

    def related(self, hits: Sequence[tuple[str, float]], query: str) -> dict[str, float]:
        """Return the tools related to the best hits, each with its minimum score.

        Related are the tools that find a hit's inputs, the tool that shows the thing itself and, if the request names something, the tools
        that search by name.
        """
        found: dict[str, float] = {}
        named = _NAME.search(query) is not None
        for id_, score in hits[:EXPANDED]:
            links = list(self._links_of(id_))
            if named:
                links += self._searches_of(self._roles[id_].source)
            for other, weight in links:
                if score * weight > found.get(other, 0.0):
                    found[other] = score * weight
        return found

    def _forget(self) -> None:
        # Data derived from all tools, while they stay the same; filled on demand by searches.
        self._links: dict[str, tuple[tuple[str, float], ...]] = {}
        self._source_terms: dict[str, frozenset[str]] = {}
        self._searches: dict[str, tuple[tuple[str, float], ...]] = {}
        self._by_term: dict[tuple[str, str], list[str]] | None = None
        self._candidates: dict[tuple[str, Resource], tuple[str, ...]] = {}
        self._general: dict[str, list[str]] = {}
        self._by_name: dict[str, list[str]] = {}
        self._needing: dict[str, Counter[Resource]] = {}
        self._getters: dict[tuple[str, str], str] = {}

    def _links_of(self, id_: str) -> tuple[tuple[str, float], ...]:
        links = self._links.get(id_)
        if links is None:
            self._read()
            links = self._links[id_] = tuple(self._linked(id_))
        return links

    def _linked(self, id_: str) -> Iterable[tuple[str, float]]:
        role = self._roles[id_]
        having = [wanted for wanted, _ in role.needs]
        telling: dict[str, float] = {}
        for wanted, certain in role.needs:
            weight = telling[wanted[-1]] = self._telling(role.source, wanted)
            producer = self._producer(id_, wanted, [one for one in having if one != wanted])
            if producer is not None:
                yield producer[0], _PRODUCER * certain * weight * producer[1]
        for term in dict.fromkeys((*role.named, *telling)):
            getter = self._getters.get((role.source, term))
            if getter is not None and getter != id_:
                yield getter, _GETTER * telling.get(term, 1.0)

    def _producer(self, id_: str, wanted: Resource, having: Sequence[Resource]) -> tuple[str, float] | None:
        """Return the tool that finds a resource best for a caller that has others; the first by its id among equals."""
        source = self._roles[id_].source
        candidates = self._candidates_for(source, wanted) or self._candidates_for(source, wanted[-1:])
        ranked = [
            (-max(self._roles[one].gives(wanted, having), self._roles[one].gives(wanted[-1:], having)), one)
            for one in candidates
            if one != id_
        ]
        worth, best = min(ranked, default=(0.0, ""))
        return (best, -worth) if worth < 0 else None

    def _candidates_for(self, source: str, wanted: Resource) -> tuple[str, ...]:
        """Return the tools that find a resource best, whatever other resources they need."""
        found = self._candidates.get((source, wanted))
        if found is None:
            ids = dict.fromkeys((*self._read().get((source, wanted[-1]), ()), *self._general.get(source, ())))
            ranked = heapq.nsmallest(_MAX_CANDIDATES, ((-self._roles[one].gives(wanted, None), one) for one in ids))
            found = self._candidates[source, wanted] = tuple(one for worth, one in ranked if worth < 0)
        return found

    def _telling(self, source: str, wanted: Resource) -> float:
        """Return the weight of a needed resource, from 0 to 1.

        A resource that nearly every tool of a source needs, such as its tenant, says little about a request.
        """
        share = self._needing[source][wanted] / (self._counts[source] + _MANY)
        return min(1.0, max(0.0, (_NEARLY_ALL - share) / (_NEARLY_ALL - _SOME)))

    def _searches_of(self, source: str) -> tuple[tuple[str, float], ...]:
        """Return the tools that find by name what other tools of the source need. With many, each is less likely to be meant."""
        found = self._searches.get(source)
        if found is None:
            self._read()
            needed = {wanted[-1] for wanted in self._needing.get(source, ())}
            named = [
                one
                for one in self._by_name.get(source, ())
                if self._roles[one].finds_all
                or any(
                    self._roles[one].gives((term,), None) >= _SURE for term in self._roles[one].named if term in needed
                )
            ]
            weight = _NAMED * min(1.0, _FEW / max(1, len(named)))
            found = self._searches[source] = tuple((one, weight) for one in named)
        return found

    def _read(self) -> dict[tuple[str, str], list[str]]:
        if self._by_term is not None:
            return self._by_term
        by_term: dict[tuple[str, str], list[str]] = {}
        for id_ in sorted(self._roles):
            role = self._roles[id_]
            for wanted, _ in role.needs:
                self._needing.setdefault(role.source, Counter())[wanted] += 1
            if role.writes:
                continue
            for term in dict.fromkeys((*role.named, *role.head, *sorted(role.answers))):
                by_term.setdefault((role.source, term), []).append(id_)
            if role.of_caller or role.finds_all:
                self._general.setdefault(role.source, []).append(id_)
            if role.searches and role.takes_text:
                self._by_name.setdefault(role.source, []).append(id_)
            if any(need == role.named for need, _ in role.needs):
                self._getters.setdefault((role.source, role.named[-1]), id_)
        self._by_term = by_term
        return by_term
