"""Security schemes and requirements of a description. A requirement that cannot be read is a fault, never "no security".

An alternative with two schemes for the same place means either of them, because no request could contain both.
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

__all__ = ["requirements", "schemes", "scopes", "with_credentials", "without_conflicts"]

_MAX_OPTIONS = 64  # limit on the alternatives made from one conflicting alternative
_FLOWS = ("clientCredentials", "authorizationCode", "password", "implicit", "deviceAuthorization")


def schemes(documents: Documents, declared: Any) -> dict[str, SecurityScheme]:
    """Return scheme objects of 2.0 and 3.x. An unreadable scheme is left out, so calls that need it are refused."""
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
    flow: Mapping[str, Any] = raw  # 2.0 has its one flow in the scheme itself
    if isinstance(flows, dict):
        flow = next((flows[name] for name in _FLOWS if isinstance(flows.get(name), dict)), {})
    scopes = flow.get("scopes")
    return SecurityScheme(
        type="oauth2",
        token_url=str(flow.get("tokenUrl") or ""),
        scopes=tuple(map(str, scopes)) if isinstance(scopes, dict) else (),
    )


def requirements(written: Any, origin: str) -> tuple[tuple[str, ...], ...]:
    """Return a list of alternatives (OR) of scheme names (AND). `[]` means no security, and `{}` makes security optional (3.1.1, section
    4.8.30).
    """
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


def without_conflicts(operation: Operation, schemes: Mapping[str, SecurityScheme]) -> Operation:
    """Return the operation with each conflicting alternative replaced by the alternatives without conflict."""
    possible = [(option, one) for option in operation.security for one in _possible(option, schemes)]
    if len(possible) == len(operation.security):
        return operation
    # Scopes belong to the alternatives as written, including repeated ones.
    scopes = {tuple(one): one for one in reversed(operation.scopes)}
    found: dict[frozenset[str], tuple[tuple[str, ...], Mapping[str, tuple[str, ...]]]] = {}
    for option, one in possible:
        found.setdefault(frozenset(one), (one, scopes.get(option, {})))
    needed = tuple({name: among.get(name, ()) for name in one} for one, among in found.values())
    security = tuple(one for one, _ in found.values())
    return replace(operation, security=security, scopes=needed if operation.scopes else ())


def with_credentials(
    operation: Operation, schemes: Mapping[str, SecurityScheme], ways: tuple[str, ...], given: Container[str]
) -> Operation:
    """Return the operation with the credentials that its own requirement does not mention.

    `ways` are the schemes that toolgen.yaml names for a description without any. A required parameter also counts as a credential if a
    scheme would be sent in its place: each such scheme becomes an alternative. This applies to schemes `given` in toolgen.yaml, even if the
    requirement has several of them as alternatives, and to all schemes for the header Authorization, which no argument may set.
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
    """Return all choices of one scheme for each place, in the order of the alternative."""
    rivals: dict[object, list[str]] = {}
    for name in option:
        rivals.setdefault((sent(schemes[name]) if name in schemes else None) or name, []).append(name)
    if len(rivals) == len(option) or prod(map(len, rivals.values())) > _MAX_OPTIONS:
        return [option]
    return [tuple(choice) for choice in product(*rivals.values())]
