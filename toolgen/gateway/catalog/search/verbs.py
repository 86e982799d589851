"""Verbs of requests and of names by class, and relations between the classes. Nothing here is specific to an API."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Final, Literal, TypeAlias

from toolgen.gateway.catalog.search.tokenizer import stems, word_set

__all__ = ["ALIKE", "CASES", "NOUNS", "READING", "WRITING", "Verb", "bases", "called", "class_of"]

Verb: TypeAlias = Literal["", "get", "list", "search", "run", "create", "update", "delete", "end"]

_VERBS: Final[Mapping[Verb, str]] = {
    "get": """get show read view fetch retrieve display describe see check compare count calculate explain preview download look inspect
        tell validate convert summarize sum total average is are does do has have how who when where why whose export print""",
    "list": "list enumerate browse",
    "search": "search find query lookup locate filter select",
    "run": "run execute launch start trigger call invoke perform",
    "create": """create add insert make register open publish file post upload submit invite schedule book send write log record issue
        generate buy order place attach comment reply react report fork copy duplicate request append connect deploy import clone reserve
        enroll provision initiate install""",
    "update": """update edit change modify set rename move pause resume archive unarchive lock unlock reopen mark enable activate assign
        unassign apply replace transfer approve accept reject decline confirm merge restore promote adjust turn switch skip save like
        follow star pin play jump seek shuffle repeat reorder protect hide link finalize capture verify choose pay refund fix retry
        rerun grant block unblock subscribe hold append configure reset renew rotate refresh sync migrate publish unpublish revert mute
        silence tag redeem extend replace swap toggle bookmark rollback""",
    "delete": "delete remove erase destroy drop clear purge revoke uninstall unset wipe discard",
    "end": """cancel close end stop abort void dismiss expire deactivate disable detach unfollow unstar unlike unsubscribe unlink suspend
        disconnect withdraw ban kick evict""",
}
"""Verbs of requests by class. "run" does not tell which action is run; "end" are those that some systems implement as an update, others as
a deletion."""
NOUNS: Final = word_set(
    """order file issue release report fork star record request book schedule place post log copy link like pin play run start
    call set count total average query filter list view check display export print look does open end stop hold block lock mark
    file void change move replace transfer return reply pause repeat shuffle deploy import reset tag refresh sync install swap clone
    bookmark ban"""
)
"""Verbs that are as often nouns: they count as verbs before a determiner, or at the beginning of a request of plain words."""
READING: Final = frozenset({"get", "list", "search"})
WRITING: Final = frozenset({"create", "update", "delete", "end"})
# Verbs at the beginning of a tool's name. Only those with one meaning: `order`, `file` and `report` are nouns in names.
_OF_NAME: Final[Mapping[Verb, str]] = {
    "get": "get show read view fetch retrieve describe check compare download",
    "list": "list enumerate browse",
    "search": "search find query lookup",
    "run": "",
    "create": "create add new insert make register upload submit invite send generate",
    "update": "update edit change modify set rename move replace",
    "delete": "delete remove erase destroy revoke clear",
    "end": "cancel close stop disable dismiss expire unfollow suspend",
}
ALIKE: Final[Mapping[Verb, frozenset[Verb]]] = {
    "get": frozenset({"get", "list", "search"}),
    "list": frozenset({"list", "search"}),
    "search": frozenset({"search", "list"}),
    "run": frozenset({"run", "create", "update"}),
    "create": frozenset({"create"}),
    "update": frozenset({"update"}),
    "delete": frozenset({"delete"}),
    "end": frozenset({"end", "delete", "update"}),
}
CASES: Final = word_set(
    "of for in from to by on with at into as since about using via between per without within during under over"
)
"""Prepositions before things that are not the object of a verb: of whom, where, when."""


@cache
def _stemmed(verb: Verb, *, of_name: bool) -> frozenset[str]:
    return frozenset(stems((_OF_NAME if of_name else _VERBS)[verb].split()))


def called(verb: Verb) -> frozenset[str]:
    """Return the terms of verbs of a class that names begin with."""
    return _stemmed(verb, of_name=True)


@cache
def bases() -> frozenset[str]:
    """Return the verbs of requests in their base form: `order`, and not `orders` or `ordered`."""
    return frozenset(word for words in _VERBS.values() for word in words.split())


@lru_cache(maxsize=4_096)
def class_of(word: str, *, of_name: bool = False) -> Verb:
    """Return the class of a word that is a verb; "" for any other."""
    (stem,) = [*stems([word]), ""][:1]
    return next((verb for verb in _VERBS if stem in _stemmed(verb, of_name=of_name)), "")
