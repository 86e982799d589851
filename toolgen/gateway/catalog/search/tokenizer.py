"""Terms of texts and identifiers: split, folded, expanded and stemmed; and synonyms between requests and names of tools."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType

__all__ = [
    "broader",
    "joined",
    "name_terms",
    "parts_of",
    "query_words",
    "related",
    "spelt_out",
    "split_words",
    "stems",
    "terms",
    "word_set",
]

_MAX_WORD_LENGTH = 40
_MAX_MIX_LENGTH = 8  # maximum characters of a mix of letters and digits that is also one word: s3, ipv4, oauth2
_RUN = re.compile(r"[^\W_]+")
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9]+")
# Scripts without spaces between words: Thai to Myanmar, kana, Han, Hangul.
_UNSPACED = re.compile(r"[\u0e00-\u109f\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, unchanged."""
    return frozenset(text.split())


_STOP = word_set(
    """a about above after again against also am an and any are aren as at be because been before being below between both but by can
    cannot could couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn have haven having he
    her here hers herself him himself his how i if in into is isn it its itself just let like ll m me more most my myself no nor not of
    off on once only or other our ours ourselves out over own please re s same shan she should shouldn so some such t than that the
    their theirs them themselves then there these they this those through to too under until up upon us ve very was wasn we were weren
    what when where which while who whom whose why will with won would wouldn you your yours yourself yourselves"""
)
# Words of a request that do not help to find its tool: politeness, the request itself, and connectives.
_ASIDE = word_set(
    """able additionally afterwards allow allows already also api appreciate assist assistance available based could currently ensure
    finally furthermore give guide hello help hey hi include includes including interested kindly know like likely looking may maybe might
    moreover must need needs please possible possibly provide recommend regarding request shall specific specifically suggest tell thank
    thanks try trying use using used various via want wants wish wondering would"""
)

# Common abbreviations in identifiers with a single meaning, and their long forms.
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
# Synonyms of requests and operations.
_ALIKE = (
    "create add new insert make register",
    "delete remove erase destroy",
    "update edit change modify",
    "get retrieve fetch read show view",
    "search find query lookup",
    "reject decline refuse deny",
    "accept approve",
    "cancel abort stop",
    "close end finish",
    "start begin launch run trigger dispatch",
    "resume continue",
    "enable activate",
    "disable deactivate",
    "buy purchase",
    "seek jump",
    "fix repair correct",
    "choose select pick",
    "send deliver",
    "append add",
    "connect attach link",
    "restore revert rollback undo",
    "verify validate check",
    "renew extend",
    "rotate renew",
)
# Words of requests -> the more general word in names of tools. One direction only: not every picture is a poster.
_BROADER = (
    "person: people actor actress director author writer singer musician celebrity born birthday biography who",
    "user: member profile account",
    "company: firm business employer manufacturer",
    "image: picture photo photograph poster cover logo portrait thumbnail avatar icon",
    "cast: actor actress star",
    "crew: director",
    "movie: film",
    "television: show series",
    "show: podcast",
    "save: like bookmark favorite favourite",
    "player: playback play",
    "current: now",
    "content: file",
    "position: time timestamp",
    "structure: schema definition",
    "sql: database select statement",
    "track: song tune",
    "article: news story headline",
    "mail: email inbox",
    "message: sms chat dm",
    "telephone: phone mobile",
    "price: cost fee fare rate",
    "payment: pay charge",
    "invoice: bill",
    "order: purchase",
    "customer: client buyer shopper",
    "product: merchandise goods",
    "vehicle: car truck",
    "flight: fly plane airline airport",
    "hotel: accommodation lodging",
    "weather: temperature rain forecast",
    "location: place city town address",
    "calendar: meeting appointment",
    "event: concert conference meeting",
    "issue: bug defect",
    "repository: codebase",
    "directory: folder",
    "document: pdf",
    "translate: translation",
    "similar: alike resembling",
    "status: health healthy alive ready running state",
    "ready: health healthy",
    "batch: bulk many several multiple",
    "top: popular best trending",
    "aggregate: count sum average total",
    "deployment: deploy",
    "certificate: tls ssl https",
    "member: people someone somebody teammate colleague",
    "availability: free",
    "post: reply",
    "log: audit history",
)


def terms(text: str) -> list[str]:
    """Return the terms of a text, in order: `getPetByID2` and `get_pet_by_id_2` are both get, pet, identifi, 2."""
    return [term for word in split_words(text) if word not in _STOP for term in _stems(word)]


def name_terms(name: str) -> frozenset[str]:
    """Return the terms of an identifier, without repeats."""
    return frozenset(terms(name))


# A question whose words are all stop words, and its meaning.
_WHO = re.compile(r"\bwho(?: am i|ami)\b", re.IGNORECASE)
_CALLER = "get my own user profile, the authenticated account"


def spelt_out(text: str) -> str:
    """Replace "who am I" in a request by its meaning."""
    return _WHO.sub(_CALLER, text)


def query_words(text: str) -> list[str]:
    """Return the words of a request that could be about a tool, in order; "" in place of a stop word."""
    text = spelt_out(text)
    kept = [word if word not in _STOP and word not in _ASIDE else "" for word in split_words(text)]
    return kept if any(kept) else [word if word not in _STOP else "" for word in split_words(text)]


def stems(words: Iterable[str]) -> list[str]:
    """Return the terms of words that are already split."""
    return [term for word in words if word for term in _stems(word)]


def joined(words: list[str]) -> Iterator[str]:
    """Return the terms of every two neighbours written as one: web hook is also webhook."""
    for first, second in pairwise(words):
        if first.isalpha() and second.isalpha():
            yield _stem(first + second)


def related(term: str) -> tuple[str, ...]:
    """Return terms with a similar meaning in the name of an operation."""
    return _related().get(term, ())


# Connectives between the parts of a request.
_JOINT = re.compile(
    r"(?<=[.!?;])\s+|\n+"
    r"|[,;]?\s+(?:and also|and then|as well as|additionally|moreover|furthermore|also|then|finally|lastly|after that)\b,?\s+",
    re.IGNORECASE,
)
_MAX_PARTS = 6
_MIN_PART = 3  # minimum words of a part


def parts_of(query: str) -> list[str]:
    """Return the parts of a request for several things; nothing for a request for one thing."""
    found = [part.strip() for part in _JOINT.split(query)]
    parts = list(dict.fromkeys(part for part in found if len(part.split()) >= _MIN_PART))[:_MAX_PARTS]
    return parts if len(parts) > 1 else []


def broader(query: str) -> list[str]:
    """Return more general terms for the words of a request: an actor is a person, and so is "who directed". Question words count here,
    which are ignored elsewhere."""
    table = _broader()
    words = list(split_words(query))
    stemmed = [*map(_stem, words), *(one for word in words for one in _agents(word))]
    return list(dict.fromkeys(term for one in stemmed for term in table.get(one, ())))


_VERB_FORM = re.compile(r"([a-z]{3,})(?:ed|es|s|ing)\Z")


@lru_cache(maxsize=4_096)
def _agents(word: str) -> tuple[str, ...]:
    """Return the terms for the agent of a verb: directed has a director, writes has a writer."""
    found = _VERB_FORM.match(word)
    return tuple(_stem(found[1] + ending) for ending in ("or", "er", "r")) if found else ()


@lru_cache(maxsize=1)
def _broader() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for line in _BROADER:
        general, words = line.split(": ")
        for word in words.split():
            found.setdefault(_stem(word), []).append(_stem(general))
    return {term: tuple(names) for term, names in found.items()}


@lru_cache(maxsize=1)
def _related() -> Mapping[str, tuple[str, ...]]:
    groups = [tuple(_stem(word) for word in group.split()) for group in _ALIKE]
    return {term: tuple(other for other in group if other != term) for group in groups for term in group}


def split_words(text: str) -> Iterator[str]:
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
    """Fold a text: no accents and one form, so that café is cafe, and full-width letters are letters."""
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
    from snowballstemmer.english_stemmer import EnglishStemmer  # noqa: PLC0415 - brings those of all languages

    # A stemmer has internal state, so each word uses a new one: indexes are made in threads.
    stem: str = EnglishStemmer().stemWord(word)
    return stem
