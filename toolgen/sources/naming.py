"""Names for tools: `{source}__{verb_noun}`, at most 48 characters, unique, and the same whatever order a description is in."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from toolgen.model.names import MAX_NAME_LENGTH, join

__all__ = ["assign", "from_identifier", "from_route", "singular", "words"]

_WORD = re.compile(r"[A-Z]+s?(?=[A-Z][a-z]|[^A-Za-z]|\Z)[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+|[A-Z]+")
_BRANDS = re.compile(r"(?<![A-Z])(?:OAuth|GraphQL|GitHub|GitLab|OpenAPI|PayPal|MySQL|IPv[46])")
_DIGEST_LENGTH = 6
# What a reader recognises at once; the first way to make a long name fit.
_ABBREVIATIONS: Mapping[str, str] = MappingProxyType(
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
_PARAMETER = re.compile(r"\{([^{}]*)\}")


def words(text: str) -> tuple[str, ...]:
    """Lower-case words of an identifier: `listOAuthApps`, `list-oauth_apps` and `list.OAuth.Apps` alike. Non-ASCII letters are dropped."""
    return tuple(word.lower() for word in _WORD.findall(_BRANDS.sub(lambda brand: brand[0].capitalize(), text)))


def singular(word: str) -> str:
    """English, and only as far as a route needs it: `companies` company, `boxes` box, `pets` pet, `status` status."""
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 2:
        return word[:-1]
    return word


def from_identifier(identifier: str, groups: Iterable[str] = ()) -> tuple[tuple[str, ...], ...]:
    """The names an author's own identifier suggests, best first.

    `groups` are tags or namespaces; one that the identifier opens with is dropped where the rest still says something:
    `repos/list-for-org` in `repos` is `list_repos_for_org`, and `pets_list` in `pets` is `list_pets`.
    """
    whole = words(identifier)
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
    fixed = [words(segment) for segment in segments if not _PARAMETER.search(segment)]
    fixed = [segment for segment in fixed if segment]
    if not fixed:
        return (whole if len(whole) > 1 else (verb, "root"),)
    last, above = fixed[-1], fixed[-2] if len(fixed) > 1 else ()
    owner = (*above[:-1], singular(above[-1])) if above and len(segments) > len(fixed) else ()
    if parameter := _PARAMETER.search(segments[-1]):
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
    return words(_PARAMETER.sub(r" by \1 ", segment))


def assign(source: str, candidates: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, str]:
    """The final name of each key (an origin such as `#/paths/~1pet/get`), given its candidates as word lists, best first.

    Where several want one name, all of them move to their next candidate, and past the last to the last with a digest of the key, so
    that the result depends on the set alone and not on its order.
    """
    level = dict.fromkeys(candidates, 0)
    names: dict[str, str] = {}
    while True:
        holders: dict[str, list[str]] = {}
        for key, options in candidates.items():
            names[key] = _name(source, key, options, level[key])
            holders.setdefault(names[key], []).append(key)
        crowded = [key for keys in holders.values() if len(keys) > 1 for key in keys]
        movable = [key for key in crowded if level[key] < len(candidates[key]) + 1]
        if not movable:
            return names
        for key in movable:
            level[key] += 1


def _name(source: str, key: str, options: Sequence[Sequence[str]], level: int) -> str:
    room = MAX_NAME_LENGTH - len(join(source, ""))
    if level < len(options):
        parts = tuple(options[level])
        if len("_".join(parts)) > room:
            # The prefix has said it already.
            parts = tuple(word for index, word in enumerate(parts) if index == 0 or word != source) or parts
        return join(source, _fit(parts, room))
    # Level len(options) has a short digest of the key, the one after it the longest that fits.
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    length = _DIGEST_LENGTH if level == len(options) else room - 2
    last = tuple(options[-1]) if options and level == len(options) else ("x",)
    return join(source, f"{_fit(last, room - length - 1)}_{digest[:length]}")


def _fit(parts: tuple[str, ...], room: int) -> str:
    """Abbreviated from the back, then without its fillers, then cut before a word and told apart by a digest of the whole."""
    if not parts:
        parts = ("call",)
    if len(text := "_".join(parts)) <= room:
        return text
    short = list(parts)
    for index in range(len(short) - 1, -1, -1):
        short[index] = _ABBREVIATIONS.get(short[index], short[index])
        if len(shorter := "_".join(short)) <= room:
            return shorter
    kept = [word for index, word in enumerate(short) if index == 0 or word not in _FILLERS]
    if len(shorter := "_".join(kept)) <= room:
        return shorter
    suffix = "_" + hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
    if room <= len(suffix):
        return suffix[1 : room + 1]
    cut = shorter[: room - len(suffix) + 1]
    return (cut.rpartition("_")[0] or cut[:-1])[: room - len(suffix)] + suffix
