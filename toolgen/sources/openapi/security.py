"""Security schemes and requirements of a description; a requirement that cannot be read is a fault, never "no security"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.model.manifest import SecurityScheme
from toolgen.sources.documents import Documents, UnresolvedRefError
from toolgen.sources.openapi.operation import FaultError

__all__ = ["requirements", "schemes", "scopes"]

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
    """The same alternatives with the scopes (3.1: or roles) each scheme needs; nothing where none needs any."""
    options = written if isinstance(written, list) else []
    found = [
        {str(name): tuple(map(str, needed)) if isinstance(needed, list) else () for name, needed in option.items()}
        for option in options
        if isinstance(option, dict)
    ]
    return tuple(found) if any(needed for option in found for needed in option.values()) else ()
