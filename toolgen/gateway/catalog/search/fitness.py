"""Fitness of a tool for a request: how its action goes together with the intent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from toolgen.gateway.catalog.search.actions import ToolAction
from toolgen.gateway.catalog.search.intents import Intent
from toolgen.gateway.catalog.search.verbs import ALIKE, WRITING
from toolgen.model.tool import Effect

__all__ = ["MOST_FIT", "allowed", "fit"]

# How much of a score follows from the intent. Chosen by the even queries of `bench.agents`; neighbouring values do about as well.
_AGAINST: Final = 0.45  # a tool that reads, where something is to be changed, or the other way round
_HARMFUL: Final = 0.3  # a destructive tool where nothing of the kind was asked for
_SAME_VERB: Final = 0.2
_OTHER_VERB: Final = -0.1
_OBJECT: Final = 0.7  # the same thing is dealt with, and nothing else
_EXACT: Final = 0.35  # and the verb is the same
_ACT: Final = 0.3  # its name has the very verb
_ARGUMENT: Final = 0.25  # all words of an argument's name are said; and as much for each word more than two
_PUT: Final = 0.5  # what is changed has an argument for what it is put to: an issue to a milestone
_TARGET: Final = 0.6  # it deals with what something is put to, and not with that
_IDENTIFIED: Final = 1.5  # and it is said as it is written
_ALONE: Final = 4.0  # and nothing else is said
_OWNER: Final = 0.2  # the caller's own is asked for, and dealt with
_OBSOLETE: Final = 0.6
_ANOTHER: Final = 0.5  # nothing of what is to be changed is in its name
_REQUIRED: Final = 0.2  # less for each other argument that has to be given, of five at most
_WHOLE: Final = 0.99

MOST_FIT: Final = 2.0
"""How far a tool that fits may come up: what is further below is not looked at."""

Rarity: TypeAlias = Callable[[str], float]


def fit(intent: Intent, action: ToolAction, rarity: Rarity) -> float:
    """Return the factor for a tool's score; 1 if nothing speaks for or against it."""
    worth = 1.0
    same = not action.verb or any(action.verb in ALIKE.get(verb, ()) for verb in intent.verbs)
    if action.verb and intent.verbs:
        worth += _SAME_VERB if same else _OTHER_VERB
    share = _share(intent, action, rarity)
    worth += _OBJECT * share
    if not intent.acts.isdisjoint(action.nouns):
        worth += _ACT
    if share >= _WHOLE and same and intent.verbs:
        worth += _EXACT
    identified = _identified(intent, action)
    worth += identified or _by_arguments(intent, action, whole=share >= _WHOLE)
    if intent.own and action.own:
        worth += _OWNER
    if action.deprecated:
        worth *= _OBSOLETE
    if intent.simple and intent.verbs & WRITING and action.head in intent.others and action.head not in intent.meant:
        worth *= _TARGET
    if not identified and intent.writes and intent.objects and action.nouns and action.nouns.isdisjoint(intent.meant):
        worth *= _ANOTHER
    return worth * _by_effect(intent, action)


def allowed(intent: Intent, action: ToolAction) -> bool:
    """False for a tool whose effect is not what a request asks for."""
    if intent.writes is None or action.effect is None:
        return True
    if not intent.writes:
        return action.effect is Effect.READ or (action.effect is Effect.WRITE and action.searches)
    if action.effect is Effect.DESTRUCTIVE:
        return intent.deletes
    return action.effect is Effect.WRITE


def _share(intent: Intent, action: ToolAction, rarity: Rarity) -> float:
    """Return the overlap of the objects of a request and of a tool, from 0 to 1."""
    both = intent.objects & action.objects
    if not both:
        return 0.0
    # What the request says beside its object is no fault of the tool that has it in its name, too.
    whole = sum(map(rarity, intent.objects | (action.objects - intent.others - intent.acts)))
    return sum(map(rarity, both)) / whole if whole else 0.0


def _identified(intent: Intent, action: ToolAction) -> float:
    """Return the bonus of a tool that has an argument whose exact name is in the request."""
    if intent.identifiers.isdisjoint(action.arguments):
        return 0.0
    named = {term for name in intent.identifiers for term in name}
    return _IDENTIFIED if intent.said - named else _ALONE - _REQUIRED * min(action.required, 5)


def _by_arguments(intent: Intent, action: ToolAction, *, whole: bool) -> float:
    """Return the score that a tool gains by arguments that the request names. `whole`: it deals with just what is asked about."""
    found = 0.0
    for name in action.arguments:
        if len(name) > 1:
            if intent.said.issuperset(name):
                found = max(found, _ARGUMENT * (len(name) - 1))
        elif intent.writes and name[0] in intent.others and action.effect is not Effect.READ:
            put = whole and action.verb == "update" and "update" in intent.verbs
            found = max(found, _PUT if put else _ARGUMENT)
    return found


def _by_effect(intent: Intent, action: ToolAction) -> float:
    if intent.writes is None or action.effect is None or allowed(intent, action):
        return 1.0
    return _HARMFUL if action.effect is Effect.DESTRUCTIVE else _AGAINST
