"""Security schemes and requirements of a description; a requirement that cannot be read is a fault, never "no security".

An alternative whose schemes would be sent in one place means either of them: no request could carry both.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import product
from math import prod
from typing import Any

from msgspec.structs import replace

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.openapi.operation import FaultError, Operation, Parameter
from toolgen.model.auth_schemes import sent
from toolgen.model.manifest import SecurityScheme

__all__ = ["apart", "requirements", "schemes", "scopes", "shown"]

_MAX_OPTIONS = 64  # of what one alternative that collides with itself is taken apart into
_FLOWS = ("clientCredentials", "authorizationCode", "password", "implicit", "deviceAuthorization")


def schemes(documents: Documents, declared: Any) -> dict[str, SecurityScheme]:
    """Scheme objects of 2.0 and 3.x alike. One that cannot be read is left out, so that what needs it is refused at the call."""
    built: dict[str, SecurityScheme] = {}
    try:
        declared = documents.opened(declared)
    except UnresolvedRefError:
        return built
    if not isinstance(declared, dict):
        return built
    for name, written in declared.items():
        try:
            raw = documents.follow(written)
        except UnresolvedRefError:
            continue
        if isinstance(raw, dict) and (scheme := _scheme(raw)):
            built[name] = scheme
    return built


def _scheme(raw: dict[str, Any]) -> SecurityScheme | None:
    match raw.get("type"):
        case "apiKey":
            place, name = raw.get("in"), raw.get("name")
            if place not in ("header", "query", "cookie") or not isinstance(name, str) or not name:
                return None
            return SecurityScheme(type="apiKey", in_=place, name=name)
        case "basic":  # 2.0
            return SecurityScheme(type="http", scheme="basic")
        case "http":
            return SecurityScheme(type="http", scheme=str(raw.get("scheme", "")).lower())
        case "oauth2":
            return _oauth2(raw)
        case "openIdConnect" | "mutualTLS" as kind:
            return SecurityScheme(type=kind)
        case _:
            return None


def _oauth2(raw: dict[str, Any]) -> SecurityScheme:
    flows = raw.get("flows")
    flow: Mapping[str, Any] = raw  # 2.0 keeps its one flow in the scheme itself
    if isinstance(flows, dict):
        flow = next((flows[name] for name in _FLOWS if isinstance(flows.get(name), dict)), {})
    scopes = flow.get("scopes")
    return SecurityScheme(
        type="oauth2",
        token_url=str(flow.get("tokenUrl") or ""),
        scopes=tuple(map(str, scopes)) if isinstance(scopes, dict) else (),
    )


def requirements(written: Any, origin: str) -> tuple[tuple[str, ...], ...]:
    """An OR of ANDs of scheme names; `[]` is none at all and `{}` among them makes it optional (3.1.1, section 4.8.30)."""
    if written is None:
        return ()
    if not isinstance(written, list) or not all(isinstance(option, dict) for option in written):
        raise FaultError("bad_security", origin, "its security requirement is not a list of objects")
    return tuple(dict.fromkeys(tuple(map(str, option)) for option in written))


def scopes(written: Any) -> tuple[Mapping[str, tuple[str, ...]], ...]:
    """Return the security alternatives with the scopes (3.1: or roles) that each scheme needs; empty if no scheme needs any."""
    options = written if isinstance(written, list) else []
    found = [
        {str(name): tuple(map(str, needed)) if isinstance(needed, list) else () for name, needed in option.items()}
        for option in options
        if isinstance(option, dict)
    ]
    return tuple(found) if any(needed for option in found for needed in option.values()) else ()


def apart(operation: Operation, schemes: Mapping[str, SecurityScheme]) -> Operation:
    """The operation with each alternative that collides with itself as the alternatives that it stands for."""
    possible = [(option, one) for option in operation.security for one in _possible(option, schemes)]
    if len(possible) == len(operation.security):
        return operation
    # Scopes are of the alternatives as they are written, with those that are written twice.
    scopes = {tuple(one): one for one in reversed(operation.scopes)}
    found: dict[frozenset[str], tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]] = {}
    for option, one in possible:
        found.setdefault(frozenset(one), (one, scopes.get(option, {})))
    needed = tuple({name: among.get(name, ()) for name in one} for one, among in found.values())
    security = tuple(one for one, _ in found.values())
    return replace(operation, security=security, scopes=needed if operation.scopes else ())


def shown(
    operation: Operation, schemes: Mapping[str, SecurityScheme], ways: tuple[str, ...], given: Container[str]
) -> Operation:
    """The operation with the credentials that its own requirement does not speak of.

    `ways` are those of toolgen.yaml where the description knows none. Besides, a required parameter is a credential's if it stands where a
    scheme would send it: any of the schemes that do is an alternative then. That is so of those `given` in toolgen.yaml, also where the
    requirement has the schemes of several such parameters as alternatives, and of every one for the header Authorization, which no
    argument may set.
    """
    options = [tuple(dict.fromkeys((*option, *ways))) for option in operation.security or ((),)]
    for one in operation.parameters:
        place = (one.in_, _folded(one))
        open_ = place == ("header", "authorization")
        able = [
            name
            for name, scheme in schemes.items()
            if one.required and (open_ or name in given) and sent(scheme) == place
        ]
        if able:
            options = [
                found
                for option in options
                for found in ([option] if any(name in able for name in option) else [(*option, name) for name in able])
            ]
    options = list({frozenset(option): option for option in reversed(options)}.values())[::-1]
    if options == [*(operation.security or ((),))] or len(options) > _MAX_OPTIONS:
        return operation
    scopes = {tuple(one): one for one in operation.scopes}
    needed = tuple(
        {
            name: next((one[name] for key, one in scopes.items() if set(key) <= set(option) and name in one), ())
            for name in option
        }
        for option in options
    )
    return replace(operation, security=tuple(options), scopes=needed if operation.scopes else ())


def _folded(parameter: Parameter) -> str:
    return parameter.name.lower() if parameter.in_ == "header" else parameter.name


def _possible(option: tuple[str, ...], schemes: Mapping[str, SecurityScheme]) -> list[tuple[str, ...]]:
    """Every choice of one scheme for each place that some are sent in, in the alternative's order."""
    rivals: dict[object, list[str]] = {}
    for name in option:
        rivals.setdefault((sent(schemes[name]) if name in schemes else None) or name, []).append(name)
    if len(rivals) == len(option) or prod(map(len, rivals.values())) > _MAX_OPTIONS:
        return [option]
    return [tuple(choice) for choice in product(*rivals.values())]
