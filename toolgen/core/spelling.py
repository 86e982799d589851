"""Corrections of words that people wrote, for messages (`did you mean`)."""

from __future__ import annotations

import difflib
import heapq
import re
from collections.abc import Collection, Iterable

__all__ = ["closest", "near", "nearest", "short"]

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W0-9A-Za-z_]+")
_MAX_COMPARED = 64
_MIN_ABBREVIATED = 3
_ALIKE = 0.75
_SOMEWHAT = 0.5
_MAX_LOOKED_AT = 50


def nearest(word: str, words: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for a misspelt word, or "" when no known word is close."""
    known = list(words)
    listed = _listed(word, known)
    close = [listed] if listed else difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def near(word: str, words: Iterable[str]) -> str:
    """Return the known word that the author of `word` most likely meant, or "" if none is close.

    A close word has another spelling (`petId`, `pet_id`), contains the other (`id`, `repo`), or differs by one or two letters.
    """
    known_words = list(words)
    if listed := _listed(word, known_words):
        return listed
    scored = [(_similarity(word, known), known) for known in known_words if known != word]
    score, best = max(scored, key=lambda item: (item[0], -len(item[1]), item[1]), default=(0.0, ""))
    return best if score >= _ALIKE else ""


def closest(word: str, words: Iterable[str], limit: int) -> list[str]:
    """Return up to `limit` known words most similar to `word`, the most similar first; none with little similarity."""
    ranked = heapq.nlargest(_MAX_LOOKED_AT, ((_shared(word, known), known) for known in words))
    scored = [(_similarity(word, known), known) for shared, known in ranked if shared]
    return [known for score, known in sorted(scored, key=lambda item: (-item[0], item[1])) if score >= _SOMEWHAT][
        :limit
    ]


def _shared(word: str, known: str) -> float:
    """Return the shared part (0 to 1) of the pairs of neighbouring letters of two words: fast for a list of thousands."""
    if max(len(word), len(known)) > _MAX_COMPARED:
        return 0.0
    mine, theirs = _pairs(word.lower()), _pairs(known.lower())
    return len(mine & theirs) / len(mine | theirs) if mine and theirs else 0.0


def _pairs(text: str) -> set[str]:
    return {text[at : at + 2] for at in range(len(text) - 1)}


def _listed(word: str, words: Collection[str]) -> str:
    """Return the name that `_id` is listed under among an argument's names (`argument_names`): the last existing one of `id`, `id_`,
    `id_2` …
    """
    base = word.lstrip("_")
    if base == word:
        return ""
    names = [name for name in (base, f"{base}_", *(f"{base}_{number}" for number in range(2, 10))) if name in words]
    return names[-1] if names else ""


def _similarity(word: str, known: str) -> float:
    if max(len(word), len(known)) > _MAX_COMPARED:
        return 0.0
    mine, theirs = ([part.lower() for part in _WORDS.findall(text)] for text in (word, known))
    one, other = "".join(mine), "".join(theirs)
    if not one or not other:
        return 0.0
    if one == other:
        return 1.0
    shorter, longer = sorted((one, other), key=len)
    if longer == f"{shorter}s" or sorted(mine) == sorted(theirs):
        return 0.95
    ratio = difflib.SequenceMatcher(None, one, other).ratio()
    if set(mine) < set(theirs) or set(theirs) < set(mine):
        return max(0.8, ratio)
    if len(shorter) >= _MIN_ABBREVIATED and longer.startswith(shorter):
        return max(0.8, ratio)
    return ratio


def short(text: str) -> str:
    """Return at most 40 characters of a text, for messages about it."""
    return text if len(text) <= 40 else text[:39] + "…"
