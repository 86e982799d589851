"""Names for tools: `{source}__{verb_noun}`, at most 48 characters, unique, and the same whatever order a description is in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations, count
from types import MappingProxyType

from toolgen.model.ascii_names import romanized
from toolgen.model.names import MAX_NAME_LENGTH, join

__all__ = [
    "ABBREVIATIONS",
    "DEEDS",
    "PARAMETER",
    "VERBS",
    "VERSION",
    "assign",
    "from_identifier",
    "from_route",
    "singular",
    "verbs_before",
    "without_own_method",
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
_ARTICLES = frozenset({"a", "an", "the"})
_JOINING = frozenset({"and", "or"})
_LINKING = frozenset({"by", "for", "from", "in", "of", "on", "to", "with", "as", "at", "and", "or", "per", "using"})
_LISTING = frozenset({"list", "search", "query"})
# Of those that say which, and stand before a noun; those that end in -ed do too.
_ADJECTIVES = frozenset({"active", "current", "latest", "own", "private", "public", "recent"})
_READING = frozenset(
    {
        "check",
        "count",
        "download",
        "export",
        "fetch",
        "find",
        "get",
        "list",
        "preview",
        "query",
        "search",
        "validate",
        "verify",
    }
)
# What an operation does. An author may write it behind the resource (`Invoices_UpdateEntity`).
VERBS = frozenset(
    _WORD.findall("""
    abort accept activate add apply approve archive assign attach authorize block bulk cancel check clear clone close complete confirm
    convert disconnect dismiss follow fork generate mark mute ping pin rerun star transfer unblock unfollow unmute unpin unstar
    connect copy count create deactivate delete deny describe destroy detach disable download edit enable exec execute export fetch
    find finish get grant import insert install invite invoke link list lock merge modify move partial patch pause post preview
    publish put query read rebuild refresh regenerate register reject release remove rename render replace request resend reset
    resolve restart restore resume retrieve revert revoke rotate run save search send set share start stop store submit subscribe
    suspend sync test toggle transfer trigger unarchive unassign uninstall unlink unlock unpublish unsubscribe unsuspend update upload
    upsert validate verify view watch write
    """)
)
DEEDS = frozenset({"authenticate", "login", "logout", "register", "search", "signin", "signout", "signup"})
"""Paths of one segment that say what a POST does."""
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
_OWN_METHOD = re.compile(r"(?<=[^/]):([A-Za-z][A-Za-z0-9_-]*)/?\Z")
PARAMETER = re.compile(r"\{([^{}]*)\}")
VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta|rc)[0-9]*)?|api|rest")
"""Segments of paths that say nothing of what is asked for, as their words together."""


@lru_cache(maxsize=16_384)
def words(text: str) -> tuple[str, ...]:
    """Lower-case words of an identifier: `listOAuthApps`, `list-oauth_apps` and `list.OAuth.Apps` alike.

    Letters of other scripts are transliterated.
    """
    text = text if text.isascii() else romanized(text)
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

    `groups` are tags or namespaces. One that the identifier opens with, or what stands before a slash in it, is the noun: it follows the
    verb (`repos/list-for-org` is `list_repos_for_org`, `gists/get-comment` is `get_gist_comment`), unless the rest names it already. A
    digest at the end is dropped, and an identifier without any word suggests none: `58d8bcb7a9e6240e200cff24`.
    """
    whole = () if _KEY.fullmatch(identifier) else words(_DIGEST.sub("", identifier))
    if not whole:
        return ()
    for group in (*groups, identifier.rpartition("/")[0]):
        prefix = words(group)
        if prefix and whole[: len(prefix)] == prefix and len(whole) > len(prefix):
            return tuple(dict.fromkeys((_in_group(prefix, whole[len(prefix) :]), whole)))
    return (whole,)


def verbs_before(parts: Sequence[str]) -> int:
    """Number of words at the beginning that name the action: `add or update`, `re run`, `get all`."""
    end = 0
    while end < len(parts):
        word = parts[end]
        joined = word in _JOINING and end + 1 < len(parts) and parts[end + 1] in VERBS
        if not (word in VERBS or (end and joined) or (word == "re" and not end)):
            break
        if end and word in VERBS and parts[end - 1] not in _JOINING and parts[end - 1] != "re":
            break  # a noun that may be a verb elsewhere: `list view`
        end += 1
    return end


def _in_group(group: tuple[str, ...], rest: tuple[str, ...]) -> tuple[str, ...]:
    """The words of an identifier that begins with a group: verb, group, and what else it says."""
    end = verbs_before(rest)
    if not end:
        named = _same(group[-1]) in map(_same, rest)
        return rest if named and len(rest) > 1 else (*group, *rest)
    verb, noun = rest[:end], tuple(word for word in rest[end:] if word not in _ARTICLES)
    if _same(group[-1]) in map(_same, noun):
        return (*verb, *noun)
    if noun[:1] == ("all",):
        verb, noun = (*verb, "all"), noun[1:]
    one = (*group[:-1], singular(group[-1]))
    if not noun or noun[0] in _LINKING:
        several = verb[0] in _LISTING or verb[-1] == "all"
        return (*verb, *(group if several else one), *noun)
    if len(noun) == 1 and (noun[0] in _ADJECTIVES or (noun[0].endswith("ed") and len(noun[0]) > 4)):
        return (*verb, *noun, *(group if verb[0] in _LISTING else one))
    return (*verb, *one, *noun)


def _same(word: str) -> str:
    """A noun, whether it is written in the singular or the plural."""
    return singular(word)


def from_route(method: str, path: str) -> tuple[tuple[str, ...], ...]:
    """The names a method and a path suggest, best first: `list_pets`, `get_pet`, `create_pet`, `cancel_order`.

    The first has the last segment that is no parameter, and the segment whose item that belongs to. The next ones add the segments before
    it, from right to left, then versions and parameters.
    """
    bare, own = without_own_method(path.split("?", maxsplit=1)[0])
    segments = [segment for segment in (*bare.split("/"), own) if segment]
    verb = _ROUTE_VERBS.get(method.lower(), "_".join(words(method)) or "call")
    places = [index for index, one in enumerate(segments) if not PARAMETER.search(one) and words(one)]
    said = [index for index in places if not VERSION.fullmatch("".join(words(segments[index])))] or places
    every = tuple(word for segment in segments for word in words(PARAMETER.sub(r" by \1 ", segment)))
    if not said:
        return ((verb, *every) if every else (verb, "root"),)
    nouns = {index: _noun_at(segments, index) for index in places}
    last, above = said[-1], said[:-1]
    done = "_".join(words(own)) if own and above else _done_by(method, segments, said)
    if not above and last == len(segments) - 1 and method.lower() == "post" and "".join(words(segments[last])) in DEEDS:
        return (words(segments[last]),)
    if done:
        verb, last, above = done, said[-2], said[:-2]
        nouns[last] = _single(nouns[last]) if done == "create" else nouns[last]
    elif method.lower() == "post" and last == len(segments) - 1:
        if above and above[-1] < last - 1 and words(segments[last])[-1] == singular(words(segments[last])[-1]):
            verb, last, above = "_".join(words(segments[last])), above[-1], above[:-1]
        nouns[last] = _single(nouns[last])
    elif method.lower() == "get" and last == len(segments) - 1 and nouns[last][-1] != singular(nouns[last][-1]):
        verb = "list"
    elif nouns[last][0] == "by" and above:
        nouns[last] = (*_single(nouns[above[-1]]), *nouns[last])
        above = above[:-1]
    kept = [last]
    if above and above[-1] < last - 1:
        kept.insert(0, above[-1])
    names = [(verb, *chain.from_iterable(nouns[index] for index in kept))]
    rest = [index for index in above if index not in kept]
    versions = [index for index in places if index not in said and index < last]
    for index in (*reversed(rest), *reversed(versions)):
        kept = sorted({*kept, index})
        names.append((verb, *chain.from_iterable(nouns[place] for place in kept)))
    names.append((verb, *(word for word in every if word != verb)))
    return tuple(dict.fromkeys(names))


def without_own_method(path: str) -> tuple[str, str]:
    """A path, and the method of its own that it ends with: `/files/{id}:cancel` (google.aip.dev/136)."""
    found = _OWN_METHOD.search(path)
    return (path[: found.start()], found[1]) if found else (path, "")


def _done_by(method: str, segments: Sequence[str], said: Sequence[int]) -> str:
    """The verb that a path ends with, if it ends with one: `search` of `GET /users/search`."""
    if len(said) < 2 or said[-1] != len(segments) - 1:
        return ""
    last = words(segments[-1])
    allowed = {"get": _READING, "delete": frozenset[str](), "head": frozenset[str]()}.get(method.lower(), VERBS)
    return last[0] if len(last) == 1 and last[0] in allowed else ""


def _noun_at(segments: Sequence[str], index: int) -> tuple[str, ...]:
    """The words of a segment, in the singular where a parameter follows it and says which one."""
    found = words(segments[index])
    return _single(found) if index + 1 < len(segments) and PARAMETER.search(segments[index + 1]) else found


def _single(noun: tuple[str, ...]) -> tuple[str, ...]:
    return (*noun[:-1], singular(noun[-1]))


def assign(
    source: str,
    candidates: Mapping[str, Sequence[Sequence[str]]],
    telling: Mapping[str, Sequence[str]] = MappingProxyType({}),
    held: Mapping[str, str] = MappingProxyType({}),
    reserved: Collection[str] = (),
) -> dict[str, str]:
    """The final name of each key (an origin such as `#/paths/~1pet/get`), given its candidates as word lists, best first.

    Keys of `held` keep the name that they have there, and nobody is given a name of `reserved`. Where several of the others want one
    name, all of them move to their next candidate. Past the last, they get words of their own from `telling` (method and path), else a
    number. Names that are too long lose words from their middle, first those that all who would then have the same name have in common.
    The result depends on the set alone, not on its order.
    """
    prefix = join(source, "")
    room = MAX_NAME_LENGTH - len(prefix)
    taken = {name.removeprefix(prefix) for name in (*reserved, *held.values())}
    fresh = {key: options for key, options in candidates.items() if key not in held}
    order = sorted(fresh, key=lambda key: (len(telling.get(key, ())), key))
    whole = _told_apart(order, _wanted(fresh, taken), telling, taken)
    # The prefix has said it already.
    names = {key: "_".join(parts) for key, parts in whole.items() if len("_".join(parts)) <= room}
    long = {key: _without(parts, source) for key, parts in whole.items() if key not in names}
    _shorten(names, long, whole, room, taken)
    taken |= set(names.values())
    for key in order:
        if key not in names:
            names[key] = _numbered(_without(whole[key], source), room, taken)
            taken.add(names[key])
    return {key: held[key] if key in held else join(source, names[key]) for key in candidates}


def _wanted(candidates: Mapping[str, Sequence[Sequence[str]]], taken: Container[str]) -> dict[str, tuple[str, ...]]:
    """The first candidate of each key that no other key wants and that is not `taken`, as far as its candidates go."""
    level = dict.fromkeys(candidates, 0)
    while True:
        wanted = {key: tuple(options[level[key]]) if options else () for key, options in candidates.items()}
        crowded = [key for text, keys in _holders(wanted).items() if len(keys) > 1 or text in taken for key in keys]
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
    order: Sequence[str],
    wanted: Mapping[str, tuple[str, ...]],
    telling: Mapping[str, Sequence[str]],
    taken: Collection[str],
) -> dict[str, tuple[str, ...]]:
    """Add one to three words to each of the names that are equal or already `taken`.

    The first name that has no word of its own stays as it is; the others without one get a number.
    """
    holders = _holders({key: wanted[key] for key in order})
    used = {*holders, *taken}
    apart = dict(wanted)
    for text, keys in holders.items():
        if len(keys) == 1 and text not in taken:
            continue
        bare: list[str] = []
        for key in keys:
            others = [set(telling.get(other, ())) for other in keys if other != key]
            common, any_other = set.intersection(*others) if others else set(), set().union(*others)
            said = {*wanted[key], *map(singular, wanted[key])}
            own = [
                word
                for word in telling.get(key, ())
                if not {word, singular(word)} & said and word not in _FILLERS and word not in common
            ]
            alone = [word for word in own if word not in any_other]
            marks = chain(zip(alone), combinations(dict.fromkeys(own), 2), combinations(dict.fromkeys(own), 3))
            mark = next((one for one in marks if "_".join((*wanted[key], *one)) not in used), None)
            if mark is None:
                bare.append(key)
                continue
            apart[key] = (*wanted[key], *mark)
            used.add("_".join(apart[key]))
        for key in bare if text in taken else bare[1:]:
            number = next(one for one in count(2) if f"{text}_{one}" not in used)
            apart[key] = (*wanted[key], str(number))
            used.add("_".join(apart[key]))
    return apart


def _without(parts: tuple[str, ...], source: str) -> tuple[str, ...]:
    """A name that is too long need not say again what its prefix says."""
    return tuple(word for index, word in enumerate(parts) if index == 0 or word != source)


def _shorten(
    names: dict[str, str],
    long: Mapping[str, tuple[str, ...]],
    whole: Mapping[str, tuple[str, ...]],
    room: int,
    reserved: Container[str],
) -> None:
    """Adds to `names` those of `long` that have a name of their own, which is not `reserved`, without some of their words."""
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
            if owner is None and len(keys) == 1 and text not in reserved:
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
    """Return True if a word is a filler or is repeated later, perhaps in the singular (`customers_customer`)."""
    return word in _FILLERS or word in following or singular(word) in following


def _joined(parts: Sequence[str], dropped: Sequence[int]) -> str:
    """The words that are left; `or` and `and` go with the word that follows them."""
    gone = {*dropped, *(index - 1 for index in dropped if index and parts[index - 1] in _JOINING)}
    return "_".join(word for index, word in enumerate(parts) if index not in gone)


def _numbered(parts: tuple[str, ...], room: int, taken: set[str]) -> str:
    number = 2
    while True:
        text = f"{_fit(parts, room - len(str(number)) - 1)}_{number}"
        if text not in taken:
            return text
        number += 1
