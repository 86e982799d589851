"""Which tools fit a request in words: BM25 over several fields of each tool, without a model and the same on every run.

Text and identifiers become terms first: split, folded, spelt out, stemmed.
"""

from __future__ import annotations

import heapq
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Self

from snowballstemmer.english_stemmer import EnglishStemmer

from toolgen.model.manifest import Manifest
from toolgen.model.tool import Tool

__all__ = ["MAX_QUERY_LENGTH", "Hit", "ToolIndex", "joined", "related", "terms"]

_MAX_WORD_LENGTH = 40
_MAX_MIX_LENGTH = 8  # of letters and digits that are also one word: s3, ipv4, oauth2
_RUN = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
# Scripts that put no space between words: Thai to Myanmar, kana, Han, Hangul.
_UNSPACED = re.compile(r"[\u0e00-\u109f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def _listed(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STOP = _listed(
    """a about above after again against also am an and any are aren as at be because been before being below between both but by can
    cannot could couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn have haven having he
    her here hers herself him himself his how i if in into is isn it its itself just let like ll m me more most my myself no nor not of
    off on once only or other our ours ourselves out over own please re s same shan she should shouldn so some such t than that the
    their theirs them themselves then there these they this those through to too under until up upon us ve very was wasn we were weren
    what when where which while who whom whose why will with won would wouldn you your yours yourself yourselves"""
)
# Words of a request that say nothing about the tool it needs.
_ASIDE = _listed("able allow allows api give help know may might must need shall tell use using used want via")

# Common short forms in identifiers, each of one meaning wherever it stands, and what they are short for.
_SPELT_OUT: Mapping[str, str] = MappingProxyType(
    dict(
        re.findall(
            r"(\w+) (\w[\w ]+)",
            """acct account, addr address, admin administrator, app application, apps applications, auth authentication, avg average,
            calc calculate, cfg configuration, config configuration, db database, desc description, dest destination, dev developer,
            doc document, docs documents, env environment, id identifier, ids identifiers, img image, info information, lang language,
            msg message, msgs messages, num number, org organization, orgs organizations, param parameter, params parameters,
            pic picture, pr pull request, prs pull requests, pwd password, qty quantity, ref reference, refs references,
            repo repository, repos repositories, spec specification, src source, stats statistics, str string, tel telephone,
            tv television, usr user""",
        )
    )
)
# What people say and what operations are called.
_ALIKE = (
    "create add new insert make register",
    "delete remove erase destroy",
    "update edit change modify",
    "get retrieve fetch read show view",
    "search find query lookup",
)


def terms(text: str) -> list[str]:
    """The terms of a text, in order: `getPetByID2` and `get_pet_by_id_2` are both get, pet, identifi, 2."""
    return [term for word in _words(text) if word not in _STOP for term in _stems(word)]


def name_terms(name: str) -> frozenset[str]:
    """The terms of an identifier, without repeats."""
    return frozenset(terms(name))


def query_words(text: str) -> list[str]:
    """The words of a request that could be about a tool, in order; "" stands where a word without meaning was left out."""
    kept = [word if word not in _STOP and word not in _ASIDE else "" for word in _words(text)]
    return kept if any(kept) else [word if word not in _STOP else "" for word in _words(text)]


def stems(words: Iterable[str]) -> list[str]:
    """The terms of words that were split before."""
    return [term for word in words if word for term in _stems(word)]


def joined(words: list[str]) -> Iterator[str]:
    """The terms of every two neighbours written as one: web hook is also webhook."""
    for first, second in pairwise(words):
        if first.isalpha() and second.isalpha():
            yield _stem(first + second)


def related(term: str) -> tuple[str, ...]:
    """Terms that mean about the same in the name of an operation."""
    return _related().get(term, ())


@lru_cache(maxsize=1)
def _related() -> Mapping[str, tuple[str, ...]]:
    groups = [tuple(_stem(word) for word in group.split()) for group in _ALIKE]
    return {term: tuple(other for other in group if other != term) for group in groups for term in group}


def _words(text: str) -> Iterator[str]:
    if not text.isascii():
        text = _folded(text)
    for run in _RUN.findall(text):
        if run.isdigit() or (run.isascii() and run.islower() and run.isalpha()):
            yield from _kept(run)
            continue
        parts = _WORD.findall(run)
        for part in parts:
            yield from _kept(part.lower())
        if len(parts) > 1 and len(run) <= _MAX_MIX_LENGTH and any(part.isdigit() for part in parts):
            yield run.lower()


def _kept(word: str) -> Iterator[str]:
    if _UNSPACED.search(word):
        yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
    elif len(word) > 1 or word.isdigit():
        yield word[:_MAX_WORD_LENGTH]


def _folded(text: str) -> str:
    """Without accents and in one form: café is cafe, and full-width letters are letters."""
    apart = unicodedata.normalize("NFKD", text)
    bare = "".join(sign for sign in apart if not 0x300 <= ord(sign) <= 0x36F)
    return unicodedata.normalize("NFC", bare)


def _stems(word: str) -> Iterator[str]:
    spelt = _SPELT_OUT.get(word)
    if spelt is None:
        yield _stem(word)
    else:
        yield from map(_stem, spelt.split())


@lru_cache(maxsize=32_768)
def _stem(word: str) -> str:
    # A stemmer keeps its state while it works, so each word has its own: indexes are made in threads.
    stem: str = EnglishStemmer().stemWord(word)
    return stem


MAX_QUERY_LENGTH = 10_000
"""How many characters a query may have."""
_MAX_TERMS = 256
_MAX_TEXT_LENGTH = 20_000  # of one field of one tool; a description is bounded long before that
_MAX_PARAMETERS = 500

# BM25F (Robertson and Zaragoza 2009, section 3.6). Chosen by reason and looked at on several labelled sets (`python -m bench.search`),
# on all of which the neighbouring values do about as well: a word of the name says more than one of the description, a parameter's less.
_FIELDS = ("name", "title", "text", "parameters", "source")
_WEIGHTS = (2.0, 1.0, 1.0, 0.75, 0.5)
_LENGTH = (0.5, 0.5, 0.75, 0.5, 0.0)
_SATURATION = 1.2
_COVERAGE = 0.5  # what a name adds when the query holds all of it
_RELATED = 0.25  # what a word counts that stands for another: fetch for get


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that fits. Scores compare hits of one search, and nothing else."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class _Document:
    """One tool, read once: how often each term stands in each field, how long the fields are, and the terms of its name."""

    counts: Mapping[str, tuple[int, ...]]
    lengths: tuple[int, ...]
    name: frozenset[str]


class ToolIndex:
    """A searchable set of tools. What is added can be found at once, and what is removed cannot; nothing is rebuilt.

    The scores follow from the tools in the index and the query alone, whatever the order in which the tools came: an index of what a
    principal may see says nothing about anything else.
    """

    def __init__(self, tools: Manifest | Iterable[Tool] = ()) -> None:
        self._documents: dict[str, _Document] = {}
        self._postings: dict[str, dict[str, None]] = {}
        self._lengths = [0] * len(_FIELDS)
        # What a term adds to each tool that has it, for as long as the tools stay the same; filled by the searches that ask for it.
        self._weighted: dict[str, list[tuple[str, float]]] = {}
        for tool in tools.tools.values() if isinstance(tools, Manifest) else tools:
            self.add(tool)

    @classmethod
    def from_texts(cls, texts: Iterable[tuple[str, str, str, Sequence[str]]]) -> Self:
        """An index of anything that has an id, a name, a text and the names of its parameters."""
        index = cls()
        for id_, name, text, parameters in texts:
            index.add_text(id_, name, text, parameters)
        return index

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._documents

    def add(self, tool: Tool) -> None:
        """Adds a tool under its name, or puts it in the place of the one that had it."""
        local = tool.name.removeprefix(f"{tool.source}__")
        self._put(tool.name, _read(local, tool.title, tool.description, _parameters(tool.input_schema), tool.source))

    def add_text(self, id_: str, name: str, text: str, parameters: Sequence[str] = ()) -> None:
        """Adds what is no `Tool`."""
        self._put(id_, _read(name, "", text, tuple(parameters), ""))

    def remove(self, id_: str) -> None:
        """Takes a tool out; an id that is not there is no error."""
        document = self._documents.pop(id_, None)
        if document is None:
            return
        for term in document.counts:
            ids = self._postings[term]
            del ids[id_]
            if not ids:
                del self._postings[term]
        self._changed(document, -1)

    def search(self, query: str, limit: int = 10) -> list[Hit]:
        """The tools that fit best, best first, ties in the order of their ids; those that share no word with the query are left out.

        Raises `ValueError` for a query longer than `MAX_QUERY_LENGTH`.
        """
        if len(query) > MAX_QUERY_LENGTH:
            raise ValueError(f"a query has at most {MAX_QUERY_LENGTH} characters")
        asked = self._asked(query)
        scores: dict[str, float] = {}
        for term, weight in asked.items():
            for id_, worth in self._worth(term):
                scores[id_] = scores.get(id_, 0.0) + weight * worth
        if limit < 1 or not scores:
            return []
        # A name adds at most its coverage, so whoever stands further below the last that will be shown cannot come up.
        least = heapq.nlargest(limit, scores.values())[-1] / (1 + _COVERAGE)
        whole = [
            Hit(id_, score * (1 + _COVERAGE * self._coverage(id_, asked)))
            for id_, score in scores.items()
            if score >= least
        ]
        return heapq.nsmallest(limit, whole, key=lambda hit: (-hit.score, hit.id))

    def _put(self, id_: str, document: _Document) -> None:
        self.remove(id_)
        self._documents[id_] = document
        for term in document.counts:
            self._postings.setdefault(term, {})[id_] = None
        self._changed(document, 1)

    def _changed(self, document: _Document, sign: int) -> None:
        self._lengths = [total + sign * own for total, own in zip(self._lengths, document.lengths, strict=True)]
        self._weighted.clear()

    def _asked(self, query: str) -> dict[str, float]:
        """The terms of a query that some tool has, with how much each counts: repeating a word says less each time."""
        words = query_words(query)
        asked = {term: math.sqrt(count) for term, count in Counter(stems(words)).items() if term in self._postings}
        for term in joined(words):
            if term in self._postings:
                asked.setdefault(term, 1.0)
        for term in stems(words):
            for other in related(term):
                if other in self._postings:
                    asked.setdefault(other, _RELATED)
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
        """The inverse document frequency, in the form that is never negative."""
        having = len(self._postings[term])
        return math.log1p((len(self._documents) - having + 0.5) / (having + 0.5))

    def _coverage(self, id_: str, asked: Mapping[str, float]) -> float:
        """How much of a tool's name the query says, from 0 to 1: rare words are more of it."""
        name = sorted(self._documents[id_].name)
        whole = sum(self._rarity(term) for term in name)
        said = sum(self._rarity(term) * min(1.0, asked[term]) for term in name if term in asked)
        return said / whole if whole else 0.0


def _saturated(document: _Document, term: str, scales: list[tuple[float, float, float]]) -> float:
    """How much a document is about a term, from 0 to 1."""
    amount = 0.0
    for count, length, (weight, base, slope) in zip(document.counts[term], document.lengths, scales, strict=True):
        if count:
            amount += weight * count / (base + slope * length)
    return amount / (_SATURATION + amount)


# Indexes of several principals hold the same tools: each is read once. What is kept depends on these texts alone.
@lru_cache(maxsize=8_192)
def _read(name: str, title: str, text: str, parameters: tuple[str, ...], source: str) -> _Document:
    fields = (name, title, text, " ".join(parameters[:_MAX_PARAMETERS]), source)
    found = [terms(field[:_MAX_TEXT_LENGTH]) for field in fields]
    counts: dict[str, list[int]] = {}
    for at, field in enumerate(found):
        for term in field:
            counts.setdefault(term, [0] * len(fields))[at] += 1
    return _Document(
        counts={term: tuple(count) for term, count in counts.items()},
        lengths=tuple(map(len, found)),
        name=name_terms(name[:_MAX_TEXT_LENGTH]),
    )


def _parameters(schema: Mapping[str, Any]) -> tuple[str, ...]:
    properties = schema.get("properties")
    return tuple(properties) if isinstance(properties, Mapping) else ()
