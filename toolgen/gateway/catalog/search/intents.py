"""Intent of a request: the action, its objects, and whether it changes anything.

"Create an issue" asks for something to be made, so a read-only tool is no answer to it; "list my orders" asks for a list, so a tool that
deletes is none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Final

from msgspec import Struct

from toolgen.gateway.catalog.search.tokenizer import broader, spelt_out, split_words, stems, terms, word_set
from toolgen.gateway.catalog.search.verbs import CASES, NOUNS, READING, WRITING, Verb, bases, class_of

__all__ = ["Intent", "intent_of"]

_FILLERS: Final = word_set(
    """please can could would you i we want wants need like to help me us let lets now just kindly how do does should id d ll will
    way a an the our my then and also"""
)
_DETERMINERS: Final = word_set("a an the my our your this that these those all some another his her their every each")
_QUESTIONS: Final = word_set("what which who whose where when how is are does do has have")
_OWN: Final = word_set("my me i mine myself we our us")
_SPLIT: Final = re.compile(r"[.;!?]\s+|,\s*|\s+(?:and|then)\s+(?=\w+\s)")
_IDENTIFIER: Final = re.compile(r"\b[A-Za-z][A-Za-z0-9]*(?:_[A-Za-z0-9]+)+\b|\b[a-z]+(?:[A-Z][a-z0-9]+)+\b")
_MAX_QUERY: Final = 1_000
_MAX_CLAUSES: Final = 8
_MAX_SIMPLE: Final = 10  # maximum words of a request for one thing


class Intent(Struct, frozen=True, kw_only=True):
    """Intent of a search request.

    `verbs` are the classes of its verbs and `acts` their terms; `writes` is None if that is unknown. `objects` are the terms of its
    objects, `meant` also those of more general words, and `others` the remaining ones. `identifiers` are words that are written like names,
    each as its terms. `own`: it is about the caller's own things. `simple`: it asks for one thing, in few words.
    """

    verbs: frozenset[Verb] = frozenset()
    writes: bool | None = None
    acts: frozenset[str] = frozenset()
    objects: frozenset[str] = frozenset()
    meant: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    identifiers: frozenset[tuple[str, ...]] = frozenset()
    own: bool = False
    simple: bool = False
    said: frozenset[str] = frozenset()

    @property
    def deletes(self) -> bool:
        """Return True if the request wants to delete or end something."""
        return not self.verbs.isdisjoint(("delete", "end"))


@lru_cache(maxsize=256)
def intent_of(query: str) -> Intent:
    """Return the intent of a request."""
    query = spelt_out(query[:_MAX_QUERY])
    clauses = [one for one in (list(split_words(part)) for part in _SPLIT.split(query)) if one][:_MAX_CLAUSES]
    verbs: set[Verb] = set()
    acts: list[str] = []
    objects: list[str] = []
    others: list[str] = []
    commands = False
    for clause in clauses:
        words = clause[len(list(takewhile(_FILLERS.__contains__, clause))) :] or clause
        place, verb = _verb_of(words)
        if place is not None:
            verbs.update([verb] if verb else [])
            acts += [words[place]]
            commands = commands or not verb
        elif verb:
            verbs.add(verb)
        head = list(takewhile(lambda word: word not in CASES, words))
        objects += [word for at, word in enumerate(head) if at != place]
        others += words[len(head) :]
    writing = commands or not verbs.isdisjoint(WRITING)
    reading = not verbs.isdisjoint(READING)
    found = frozenset(terms(" ".join(objects)))
    acts_terms = frozenset(stems(acts))
    return Intent(
        verbs=frozenset(verbs),
        writes=None if writing == reading else writing,
        acts=acts_terms,
        objects=found,
        meant=found.union(broader(" ".join(objects))),
        others=frozenset(terms(" ".join(others))) - found,
        identifiers=frozenset(tuple(terms(one)) for one in _IDENTIFIER.findall(query)),
        own=not _OWN.isdisjoint(query.lower().split()),
        simple=len(clauses) == 1 and len(clauses[0]) <= _MAX_SIMPLE,
        said=frozenset(terms(query)),
    )


def _verb_of(words: Sequence[str]) -> tuple[int | None, Verb]:
    """Return the place and class of the verb of a clause: its first word, or the second in the third person (the buyer accepts an offer).

    A first word before a determiner is always a verb: refund a charge.
    """
    first = words[0]
    ordered = len(words) > 1 and words[1] in _DETERMINERS
    if first in bases() and (ordered or len(words) == 1 or words[1] not in CASES or first not in NOUNS):
        return 0, class_of(first)
    if ordered and first not in _QUESTIONS:
        return 0, ""
    if len(words) > 2 and words[1].endswith("s") and words[2] in _DETERMINERS and (verb := class_of(words[1])):
        return 1, verb
    return None, "get" if first in _QUESTIONS else ""
