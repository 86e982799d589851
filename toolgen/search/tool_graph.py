"""The graph of producers and consumers: which tool finds what another tool needs.

It is made of the tools it holds and of no others, whatever else there is.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from toolgen.search.tool_roles import Resource, Role

__all__ = ["EXPANDED", "ToolGraph"]

EXPANDED: Final = 10
"""How many of the best hits are looked at for what they need."""

# How much of a hit's score goes on to what it leads to. Neighbouring values do about as well (docs/explanation/search.md).
_PRODUCER: Final = 0.8
_GETTER: Final = 0.7
_NAMED: Final = 0.6
_BY_NAME: Final = 0.6  # how well a tool finds something, from where on it counts as its search
_OF_A_SOURCE: Final = 3  # hits of a source that say how well it fits
# A name within a request: a capital that begins no sentence, or the beginning of a quotation.
_NAME: Final = re.compile(r"(?<![.!?:]\s)(?<!\A)\b[A-Z]\w[\w'&]*|[\"“'][A-Z0-9]")


class ToolGraph:
    """The graph of the tools it holds, and of no others: an index of what a principal may see leads to nothing else."""

    def __init__(self) -> None:
        self._roles: dict[str, Role] = {}
        self._counts: Counter[str] = Counter()  # of the tools of each source
        self._forget()

    def put(self, id_: str, role: Role) -> None:
        """Adds a tool; one with its id must have been removed."""
        self._roles[id_] = role
        self._counts[role.source] += 1
        self._forget()

    def remove(self, id_: str) -> None:
        """Takes a tool out."""
        source = self._roles.pop(id_).source
        self._counts[source] -= 1
        if not self._counts[source]:
            del self._counts[source]
        self._forget()

    def sources(self, hits: Sequence[tuple[float, str]]) -> dict[str, float]:
        """How well each source fits, from 0 to 1, by its best few among these hits; nothing where there is but one source."""
        if len(self._counts) < 2:
            return {}
        of_source: dict[str, list[float]] = {}
        for score, id_ in hits:
            of_source.setdefault(self._roles[id_].source, []).append(score)
        totals = {source: sum(heapq.nlargest(_OF_A_SOURCE, scores)) for source, scores in of_source.items()}
        most = max(totals.values(), default=0.0) or 1.0
        return {source: total / most for source, total in totals.items()}

    def source(self, id_: str) -> str:
        """The source of a tool."""
        return self._roles[id_].source

    def related(self, hits: Sequence[tuple[str, float]], query: str) -> dict[str, float]:
        """What the best hits lead to, each with the score it has at least: the tools that find what a hit needs, the tool that shows
        the thing itself, and, where the request names something, the tools that search by name."""
        found: dict[str, float] = {}
        named = _NAME.search(query) is not None
        for id_, score in hits[:EXPANDED]:
            links = list(self._links_of(id_))
            if named:
                links += [(other, _NAMED) for other in self._searches_of(self._roles[id_].source)]
            for other, weight in links:
                if score * weight > found.get(other, 0.0):
                    found[other] = score * weight
        return found

    def _forget(self) -> None:
        # What follows from the tools together, for as long as they stay the same; filled by the searches that ask for it.
        self._links: dict[str, tuple[tuple[str, float], ...]] = {}
        self._searches: dict[str, tuple[str, ...]] = {}
        self._by_term: dict[tuple[str, str], list[str]] | None = None
        self._best: dict[tuple[str, Resource, frozenset[Resource]], tuple[tuple[str, float], ...]] = {}
        self._general: dict[str, list[str]] = {}
        self._needing: dict[tuple[str, Resource], int] = {}
        self._getters: dict[tuple[str, str], str] = {}

    def _links_of(self, id_: str) -> tuple[tuple[str, float], ...]:
        links = self._links.get(id_)
        if links is None:
            self._read()
            links = self._links[id_] = tuple(self._linked(id_))
        return links

    def _linked(self, id_: str) -> Iterable[tuple[str, float]]:
        role = self._roles[id_]
        having = frozenset(wanted for wanted, _ in role.needs)
        telling = {wanted[-1]: self._telling(role.source, wanted) for wanted in having}
        for wanted, certain in role.needs:
            for other, worth in self._producers(role.source, wanted, having - {wanted}):
                if other != id_:
                    yield other, _PRODUCER * certain * worth * telling[wanted[-1]]
                    break
        for term in dict.fromkeys((*role.named, *telling)):
            getter = self._getters.get((role.source, term))
            if getter is not None and getter != id_:
                yield getter, _GETTER * telling.get(term, 1.0)

    def _producers(self, source: str, wanted: Resource, having: frozenset[Resource]) -> tuple[tuple[str, float], ...]:
        """The best two of those that find it, the first by their ids among equals."""
        key = (source, wanted, having)
        found = self._best.get(key)
        if found is None:
            by_term = self._read()
            ids = dict.fromkeys((*by_term.get((source, wanted[-1]), ()), *self._general.get(source, ())))
            ranked = heapq.nsmallest(2, ((-self._roles[id_].gives(wanted, having), id_) for id_ in ids))
            found = tuple((id_, -worth) for worth, id_ in ranked if worth < 0)
            if not found and len(wanted) > 1:
                found = self._producers(source, wanted[-1:], having)
            self._best[key] = found
        return found

    def _telling(self, source: str, wanted: Resource) -> float:
        """What nearly every tool of a source needs, as its tenant, is no step of this request in particular."""
        share = self._needing[source, wanted] / self._counts[source]
        return min(1.0, 2 * (1 - share))

    def _searches_of(self, source: str) -> tuple[str, ...]:
        """The tools that find by name what other tools of the source need."""
        found = self._searches.get(source)
        if found is None:
            self._read()
            best = (
                self._producers(source, wanted, frozenset())[:1] for held, wanted in self._needing if held == source
            )
            named = {id_ for one in best for id_, worth in one if worth >= _BY_NAME and self._roles[id_].takes_text}
            found = self._searches[source] = tuple(sorted(named)[:EXPANDED])
        return found

    def _read(self) -> dict[tuple[str, str], list[str]]:
        if self._by_term is not None:
            return self._by_term
        by_term: dict[tuple[str, str], list[str]] = {}
        for id_ in sorted(self._roles):
            role = self._roles[id_]
            for wanted, _ in role.needs:
                self._needing[role.source, wanted] = self._needing.get((role.source, wanted), 0) + 1
            if role.writes:
                continue
            for term in dict.fromkeys((*role.named, *role.head, *sorted(role.answers))):
                by_term.setdefault((role.source, term), []).append(id_)
            if role.of_caller or role.finds_all:
                self._general.setdefault(role.source, []).append(id_)
            if any(need == role.named for need, _ in role.needs):
                self._getters.setdefault((role.source, role.named[-1]), id_)
        self._by_term = by_term
        return by_term
