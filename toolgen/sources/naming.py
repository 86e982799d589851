"""Names for tools: `{source}__{verb_noun}`, at most 48 characters, unique, and the same whatever order a description is in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations
from types import MappingProxyType

from toolgen.model.names import MAX_NAME_LENGTH, join

__all__ = [
    "ABBREVIATIONS",
    "PARAMETER",
    "VERBS",
    "VERSION",
    "assign",
    "from_identifier",
    "from_route",
    "singular",
    "words",
]

_WORD = re.compile(r"[A-Z]+s?(?=[A-Z][a-z]|[^A-Za-z]|\Z)[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+|[A-Z]+")
_BRANDS = re.compile(r"(?<![A-Z])(?:OAuth|GraphQL|GitHub|GitLab|OpenAPI|PayPal|MySQL|IPv[46])")
# What a generator adds to tell identifiers apart, and identifiers that are nothing else: no word to anybody.
_DIGEST = re.compile(r"[-_.](?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{4,}\Z")
_KEY = re.compile(r"[0-9]+|(?=.*[0-9])[0-9A-Fa-f-]{12,}")
# How often those whose shortened names are equal are shortened again.
_ROUNDS = 8
_NOBODY: Mapping[str, int] = MappingProxyType({})
# What a reader recognises at once; the first way to make a long name fit.
ABBREVIATIONS: Mapping[str, str] = MappingProxyType(
    {
        "administrator": "admin",
        "administrators": "admins",
        "application": "app",
        "applications": "apps",
        "authentication": "auth",
        "authorization": "authz",
        "authorizations": "authz",
        "certificate": "cert",
        "certificates": "certs",
        "collaborator": "collab",
        "collaborators": "collabs",
        "collection": "coll",
        "configuration": "config",
        "configurations": "configs",
        "credential": "cred",
        "credentials": "creds",
        "definition": "def",
        "definitions": "defs",
        "deployment": "deploy",
        "deployments": "deploys",
        "description": "desc",
        "development": "dev",
        "directory": "dir",
        "document": "doc",
        "documents": "docs",
        "environment": "env",
        "environments": "envs",
        "identifier": "id",
        "information": "info",
        "installation": "install",
        "installations": "installs",
        "management": "mgmt",
        "maximum": "max",
        "message": "msg",
        "messages": "msgs",
        "minimum": "min",
        "namespace": "ns",
        "namespaced": "ns",
        "notification": "notif",
        "notifications": "notifs",
        "number": "num",
        "organization": "org",
        "organizations": "orgs",
        "organisation": "org",
        "parameter": "param",
        "parameters": "params",
        "permission": "perm",
        "permissions": "perms",
        "preferences": "prefs",
        "production": "prod",
        "properties": "props",
        "property": "prop",
        "reference": "ref",
        "references": "refs",
        "registration": "reg",
        "repositories": "repos",
        "repository": "repo",
        "request": "req",
        "requests": "reqs",
        "resource": "res",
        "resources": "res",
        "response": "resp",
        "restriction": "restrict",
        "restrictions": "restrict",
        "specification": "spec",
        "statistics": "stats",
        "subscription": "sub",
        "subscriptions": "subs",
        "temporary": "temp",
        "transaction": "txn",
        "transactions": "txns",
        "vulnerabilities": "vulns",
        "vulnerability": "vuln",
    }
)
_FILLERS = frozenset({"a", "an", "and", "for", "in", "of", "on", "the", "to", "with", "from", "by"})
# What an operation does. An author may write it behind the resource (`Invoices_UpdateEntity`).
VERBS = frozenset(
    _WORD.findall("""
    abort accept activate add apply approve archive assign attach authorize bulk cancel check clear clone close complete confirm
    connect copy count create deactivate delete deny describe destroy detach disable download edit enable exec execute export fetch
    find finish get grant import insert install invite invoke link list lock merge modify move partial patch pause post preview
    publish put query read rebuild refresh regenerate register reject release remove rename render replace request resend reset
    resolve restart restore resume retrieve revert revoke rotate run save search send set share start stop store submit subscribe
    suspend sync test toggle transfer trigger unarchive unassign uninstall unlink unlock unpublish unsubscribe unsuspend update upload
    upsert validate verify view watch write
    """)
)
_ROUTE_VERBS: Mapping[str, str] = MappingProxyType(
    {
        "get": "get",
        "query": "query",
        "head": "check",
        "options": "describe",
        "trace": "trace",
        "post": "create",
        "put": "update",
        "patch": "patch",
        "delete": "delete",
    }
)
PARAMETER = re.compile(r"\{([^{}]*)\}")
VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta|rc)[0-9]*)?|api|rest")
"""Segments of paths that say nothing of what is asked for, as their words together."""


def words(text: str) -> tuple[str, ...]:
    """Lower-case words of an identifier: `listOAuthApps`, `list-oauth_apps` and `list.OAuth.Apps` alike. Non-ASCII letters are dropped."""
    return tuple(word.lower() for word in _WORD.findall(_BRANDS.sub(lambda brand: brand[0].capitalize(), text)))


def singular(word: str) -> str:
    """English, and only as far as a route needs it: `companies` company, `boxes` box, `aliases` alias, `pets` pet, `status` status."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "iases", "tuses", "ruses")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 2:
        return word[:-1]
    return word


def from_identifier(identifier: str, groups: Iterable[str] = ()) -> tuple[tuple[str, ...], ...]:
    """The names an author's own identifier suggests, best first.

    `groups` are tags or namespaces; one that the identifier opens with is dropped where the rest still says something:
    `repos/list-for-org` in `repos` is `list_repos_for_org`, and `pets_list` in `pets` is `list_pets`. A digest at its end is dropped
    and an identifier without any word suggests none: `58d8bcb7a9e6240e200cff24`.
    """
    whole = () if _KEY.fullmatch(identifier) else words(_DIGEST.sub("", identifier))
    if not whole:
        return ()
    for group in groups:
        prefix = words(group)
        if not prefix or whole[: len(prefix)] != prefix or len(whole) == len(prefix):
            continue
        rest = whole[len(prefix) :]
        if len(rest) > 1 and rest[1] not in _FILLERS:
            return (rest, whole)
        noun = prefix if rest[0] in {"list", "search", "query"} else (*prefix[:-1], singular(prefix[-1]))
        return ((rest[0], *noun, *rest[1:]), whole)
    return (whole,)


def from_route(method: str, path: str) -> tuple[tuple[str, ...], ...]:
    """The names a method and a path suggest: `list_pets`, `get_pet_by_id`, `create_pet`, `cancel_order`; the whole route as the last."""
    segments = [segment for segment in path.split("?", maxsplit=1)[0].split("/") if segment]
    verb = _ROUTE_VERBS.get(method.lower(), "_".join(words(method)) or "call")
    whole = (verb, *(word for segment in segments for word in _segment_words(segment)))
    fixed = [words(segment) for segment in segments if not PARAMETER.search(segment)]
    fixed = [segment for segment in fixed if segment]
    fixed = [segment for segment in fixed if not VERSION.fullmatch("".join(segment))] or fixed
    if not fixed:
        return (whole if len(whole) > 1 else (verb, "root"),)
    last, above = fixed[-1], fixed[-2] if len(fixed) > 1 else ()
    owner = (*above[:-1], singular(above[-1])) if above and len(segments) > len(fixed) else ()
    if parameter := PARAMETER.search(segments[-1]):
        thing = (*last[:-1], singular(last[-1]))
        key = words(parameter[1])
        key = key[len(thing) :] if key[: len(thing)] == thing and len(key) > len(thing) else key
        return ((verb, *owner, *thing, "by", *(key or ("id",))), whole)
    if method.lower() == "post" and owner and last[-1] == singular(last[-1]):
        return ((*last, *owner), whole)
    if method.lower() == "get" and last[-1] != singular(last[-1]):
        return (("list", *owner, *last), whole)
    noun = (*last[:-1], singular(last[-1])) if method.lower() == "post" else last
    return ((verb, *owner, *noun), whole)


def _segment_words(segment: str) -> tuple[str, ...]:
    return words(PARAMETER.sub(r" by \1 ", segment))


def assign(
    source: str,
    candidates: Mapping[str, Sequence[Sequence[str]]],
    telling: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> dict[str, str]:
    """The final name of each key (an origin such as `#/paths/~1pet/get`), given its candidates as word lists, best first.

    Where several want one name, all of them move to their next candidate. Past the last, the one with the shortest path keeps it, and
    the others get a word of their own from `telling` (method and path), else a number. Names that are too long lose words from their
    middle, first those that all who would then have the same name have in common. The result depends on the set alone, not on its order.
    """
    room = MAX_NAME_LENGTH - len(join(source, ""))
    order = sorted(candidates, key=lambda key: (len(telling.get(key, ())), key))
    whole = _told_apart(order, _wanted(candidates), telling)
    # The prefix has said it already.
    names = {key: "_".join(parts) for key, parts in whole.items() if len("_".join(parts)) <= room}
    _shorten(names, {key: _without(parts, source) for key, parts in whole.items() if key not in names}, whole, room)
    taken = set(names.values())
    for key in order:
        if key not in names:
            names[key] = _numbered(_without(whole[key], source), room, taken)
            taken.add(names[key])
    return {key: join(source, names[key]) for key in candidates}


def _wanted(candidates: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, tuple[str, ...]]:
    """The first candidate of each key that no other key wants, as far as its candidates go."""
    level = dict.fromkeys(candidates, 0)
    while True:
        wanted = {key: tuple(options[level[key]]) if options else () for key, options in candidates.items()}
        crowded = [key for keys in _holders(wanted).values() if len(keys) > 1 for key in keys]
        movable = [key for key in crowded if level[key] < len(candidates[key]) - 1]
        if not movable:
            return {key: parts or ("call",) for key, parts in wanted.items()}
        for key in movable:
            level[key] += 1


def _holders(wanted: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    holders: dict[str, list[str]] = {}
    for key, parts in wanted.items():
        holders.setdefault("_".join(parts), []).append(key)
    return holders


def _told_apart(
    order: Sequence[str], wanted: Mapping[str, tuple[str, ...]], telling: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """The same words with one to three more, or a number, for all but the first who want equal ones."""
    holders = _holders({key: wanted[key] for key in order})
    used = set(holders)
    apart = dict(wanted)
    for keys in holders.values():
        for index, key in enumerate(keys[1:], 1):
            others = {word for other in (*keys[:index], *keys[index + 1 :]) for word in telling.get(other, ())}
            own = [word for word in telling.get(key, ()) if word not in wanted[key] and word not in _FILLERS]
            first = set(telling.get(keys[0], ()))
            alone = [*(word for word in own if word not in others), *(word for word in own if word not in first)]
            marks = chain(zip(alone), combinations(dict.fromkeys(own), 2), combinations(dict.fromkeys(own), 3))
            for mark in chain(marks, ((str(number),) for number in range(2, len(order) + 2))):
                if (text := "_".join((*wanted[key], *mark))) not in used:
                    used.add(text)
                    apart[key] = (*wanted[key], *mark)
                    break
    return apart


def _without(parts: tuple[str, ...], source: str) -> tuple[str, ...]:
    """A name that is too long need not say again what its prefix says."""
    return tuple(word for index, word in enumerate(parts) if index == 0 or word != source)


def _shorten(
    names: dict[str, str], long: Mapping[str, tuple[str, ...]], whole: Mapping[str, tuple[str, ...]], room: int
) -> None:
    """Adds to `names` those of `long` that have a name of their own without some of their words."""
    taken = {text: key for key, text in names.items()}
    ever = {key: {key} for key in whole}  # all who in any round would have had the same name
    now = dict(ever)  # those who have in this one
    waiting = dict(long)
    for _ in range(_ROUNDS):
        groups = {id(keys): keys for key in waiting for keys in (ever[key], now[key])}
        counts = {name: Counter(word for key in keys for word in set(whole[key])) for name, keys in groups.items()}
        found = {
            key: (_fit(parts, room, counts[id(now[key])], counts[id(ever[key])]),) for key, parts in waiting.items()
        }
        for text, keys in _holders(found).items():
            owner = taken.get(text)
            if owner is None and len(keys) == 1:
                taken[text] = keys[0]
                names[keys[0]] = text
                del waiting[keys[0]]
                continue
            members = {*keys, *([owner] if owner is not None else [])}
            together = members.union(*(ever[key] for key in members))
            ever.update(dict.fromkeys(together, together))
            now.update(dict.fromkeys(members, members))
        if not waiting:
            return


def _fit(
    parts: tuple[str, ...], room: int, shared: Mapping[str, int] = _NOBODY, ever: Mapping[str, int] = _NOBODY
) -> str:
    """Abbreviated from the back; then without words: fillers, repetitions, and then from the left all but the verb and the last.

    `shared` says how many of those who would have the same name have a word, `ever` how many of those who once would have had it. What
    the most have goes first, the last word too.
    """
    most = max(shared.values(), default=0)
    rare = {word for word in parts if shared.get(word, 0) < most}
    short = list(parts)
    for index in range(len(short) - 1, -1, -1):
        if len("_".join(short)) <= room:
            break
        if shared.get(short[index], 0) in {0, most}:
            short[index] = ABBREVIATIONS.get(short[index], short[index])
    verb = next((index for index, word in enumerate(parts) if word in VERBS), 0)
    last = len(parts) - 1
    idle = [
        index
        for index, word in enumerate(parts)
        if index != verb and word not in rare and _idle(word, parts[index + 1 :])
    ]
    others = [index for index in range(len(parts)) if index != verb and index not in idle and (index != last or rare)]
    others.sort(key=lambda index: (-shared.get(parts[index], 0), -ever.get(parts[index], 0), index))
    dropped: list[int] = []
    for index in (*idle, *others):
        if len(_joined(short, dropped)) <= room:
            break
        dropped.append(index)
    for index in reversed(dropped):
        rest = [one for one in dropped if one != index]
        if len(_joined(short, rest)) <= room:
            dropped = rest
    return _joined(short, dropped)[:room].rstrip("_")


def _idle(word: str, following: Sequence[str]) -> bool:
    """Whether a word is a filler or comes again, perhaps as its singular (`customers_customer`)."""
    return word in _FILLERS or word in following or singular(word) in following


def _joined(parts: Sequence[str], dropped: Sequence[int]) -> str:
    return "_".join(word for index, word in enumerate(parts) if index not in dropped)


def _numbered(parts: tuple[str, ...], room: int, taken: set[str]) -> str:
    number = 2
    while True:
        text = f"{_fit(parts, room - len(str(number)) - 1)}_{number}"
        if text not in taken:
            return text
        number += 1
