"""No name that an object brings to a request speaks for another: for an argument, a credential or the request's method.

Two names may be one as `model/parameter_names.py` has it, and all places of a request are held together: services look for a name in the
query, the form, the path and the cookies alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolgen.execute.http.styles import UnbindableError
from toolgen.model.media_type import JSON
from toolgen.model.parameter_names import NameSet, described_override, may_override
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import HttpBinding
from toolgen.model.wire_names import Spread, brought, is_form, members, owned, spreads

__all__ = ["free_names"]

_MOST_NAMES = 2_000
_SHOWN = 80


def free_names(binding: HttpBinding, arguments: JsonObject, schema: Schema) -> tuple[str, ...]:
    """The names on the wire that are the arguments' own, and that no description has. `schema` is the tool's input schema.

    Raises `UnbindableError` for one that some service could take for another name of the request, or for a change of its method.
    """
    _check_described(binding, arguments, schema)
    found = [*spreads(binding, arguments, schema)]
    if not found:
        return ()
    claims = [*owned(binding)]
    offered: list[tuple[str, str]] = []  # by descriptions of objects, more than one of which may offer the same name
    free: list[str] = []
    for spread in found:
        known = members(spread.schema, schema)
        _check_siblings(spread, spread.value, known, schema)
        if not spread.name:  # the fields of a form
            free += _check(spread, [name for name in spread.value if name not in known], claims)
            claims += ((f"{spread.owner}.{name}", name) for name in {*spread.value, *known})
            continue
        names = [one.name for one in brought(spread)]
        own = [name for name in names if not spread.deep and name in known]
        _check(spread, own, claims, described=True)
        free += _check(spread, [name for name in names if spread.deep or name not in known], [*claims, *offered])
        claims += ((spread.owner, name) for name in names if spread.deep or name not in known)
        offered += ((spread.owner, name) for name in own)
    return tuple(free)


def _check(
    spread: Spread, names: list[str], claims: Iterable[tuple[str, str]], *, described: bool = False
) -> list[str]:
    """The names, none of which may be one with what others claim."""
    if len(names) > _MOST_NAMES:
        raise UnbindableError(f"{spread.argument!r} holds more than {_MOST_NAMES} names", suggestion="send fewer")
    others = NameSet(name for owner, name in claims if owner != spread.owner) if names else NameSet()
    for name in names:
        if (other := others.find(name)) is not None:
            raise _mixed(spread, name, other)
        if described_override(name) if described or spread.deep else may_override(name):
            raise _override(name, f"{spread.argument!r} holds")
    return names


def _check_siblings(spread: Spread, value: Mapping[str, Json], known: Mapping[str, Schema], root: Schema) -> None:
    """Of the members of one object no two are one: what a rule says of the first would not hold for the second."""
    seen = NameSet(known)  # sent or not: a service that reads them as one takes the first for the second
    for name in value:
        if name not in known:
            if (other := seen.find(name)) is not None:
                raise _mixed(spread, name, other)
            seen.add(name)
    for name, item in value.items() if spread.deep else ():
        below = members(known.get(name, {}), root)
        for one in item if isinstance(item, (list, tuple)) else (item,):
            if isinstance(one, Mapping):
                _check_siblings(spread, one, below, root)


def _check_described(binding: HttpBinding, arguments: JsonObject, schema: Schema) -> None:
    """No argument overrides the method, whatever the description says of it: the policy decides by the method that is sent."""
    for parameter in binding.parameters:
        if parameter.in_ == "query" and parameter.argument in arguments and described_override(parameter.name):
            raise _override(parameter.name, f"{parameter.argument!r} is")
    body = binding.body
    if body is None:
        return
    for argument, name in body.properties.items():
        if argument in arguments and is_form(body.media_type) and described_override(name):
            raise _override(name, f"{argument!r} is")
    whole = arguments.get(body.argument) if body.argument is not None else None
    if isinstance(whole, Mapping) and (is_form(body.media_type) or JSON.match(body.media_type)):
        known = members(members(schema, schema).get(str(body.argument), {}), schema)
        for name in whole:  # Laravel reads `_method` in JSON too
            if described_override(name) and (is_form(body.media_type) or name not in known):
                raise _override(name, f"{body.argument!r} holds")


def _mixed(spread: Spread, name: str, other: str) -> UnbindableError:
    return UnbindableError(
        f"{spread.argument!r} holds {name[:_SHOWN]!r}, a name that is another's to some services: {other[:_SHOWN]!r}",
        suggestion="leave it out, or send the value as the argument of that name",
    )


def _override(name: str, where: str) -> UnbindableError:
    return UnbindableError(
        f"{where} {name[:_SHOWN]!r}, by which some services take a request for one of another method",
        suggestion="leave it out, and call the tool that does what is meant",
    )
