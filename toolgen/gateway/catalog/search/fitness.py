"""Fitness of a tool for a request: a comparison of its action with the intent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from toolgen.gateway.catalog.search.actions import ToolAction
from toolgen.gateway.catalog.search.intents import Intent
from toolgen.gateway.catalog.search.verbs import ALIKE, WRITING
from toolgen.model.tool import Effect

__all__ = ["MOST_FIT", "allowed", "fit"]

# Influence of the intent on a score. Chosen by the even queries of `bench.agents`; neighbouring values do about as well.
_AGAINST: Final = 0.45  # read-only tool for a request to change something, or vice versa
_HARMFUL: Final = 0.3  # destructive tool for a request without such a verb
_SAME_VERB: Final = 0.2
_OTHER_VERB: Final = -0.1
_OBJECT: Final = 0.7  # the objects are the same
_EXACT: Final = 0.35  # and the verb is the same
_ACT: Final = 0.3  # its name has the exact verb
_ARGUMENT: Final = 0.25  # all words of an argument's name are in the request; and as much for each word more than two
_PUT: Final = 0.5  # the changed thing has an argument for its target: an issue for a milestone
_TARGET: Final = 0.6  # its object is the target, and not the changed thing
_IDENTIFIED: Final = 1.5  # and it is in the request literally
_ALONE: Final = 4.0  # and nothing else is in the request
_OWNER: Final = 0.2  # the request is about the caller's own things, and so is the tool
_OBSOLETE: Final = 0.6
_ANOTHER: Final = 0.5  # its name has none of the things to be changed
_REQUIRED: Final = 0.2  # deduction for each other required argument, of at most five
_WHOLE: Final = 0.99

MOST_FIT: Final = 2.0
"""Maximum rise of a tool that fits: tools further below are not compared."""

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
    """Return False for a tool whose effect the request does not want."""
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
    # Further words of the request do not count against a tool that has them in its name.
    whole = sum(map(rarity, intent.objects | (action.objects - intent.others - intent.acts)))
    return sum(map(rarity, both)) / whole if whole else 0.0


def _identified(intent: Intent, action: ToolAction) -> float:
    """Return the bonus of a tool that has an argument whose exact name is in the request."""
    if intent.identifiers.isdisjoint(action.arguments):
        return 0.0
    named = {term for name in intent.identifiers for term in name}
    return _IDENTIFIED if intent.said - named else _ALONE - _REQUIRED * min(action.required, 5)


def _by_arguments(intent: Intent, action: ToolAction, *, whole: bool) -> float:
    """Return the score that a tool gains by arguments that the request names. `whole`: its objects are exactly those of the request."""
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
