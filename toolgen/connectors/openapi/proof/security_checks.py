"""Checks of an operation's server, credentials and effect."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import msgspec

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.openapi.proof.spec_operation import SpecOperation
from toolgen.connectors.openapi.proof.spec_references import References
from toolgen.connectors.source import SourceConfig, is_remote
from toolgen.model.manifest import SecurityScheme
from toolgen.model.tool import HttpBinding, Tool

__all__ = ["Fault", "security_faults"]

_EFFECTS = ("read", "write", "destructive")  # in order of severity
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"})  # RFC 9110, section 9.2.1; QUERY is in 3.2
_IDEMPOTENT = _SAFE | {"PUT", "DELETE"}  # RFC 9110, section 9.2.2
_VARIABLE = re.compile(r"\{([^{}]+)\}")
_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_MAX_CHOICES = 64
_FLOWS = ("clientCredentials", "authorizationCode", "password", "implicit", "deviceAuthorization")

Fault = tuple[str, str]
"""Fault, and a JSON pointer into the description."""


def security_faults(
    tool: Tool,
    binding: HttpBinding,
    described: SpecOperation,
    schemes: Mapping[str, SecurityScheme],
    documents: Documents,
    config: SourceConfig,
) -> Iterator[Fault]:
    """Yield the differences between a tool and its operation. The effect is the tool's before `tools:` of toolgen.yaml overrides it."""
    yield from _effect(tool, described)
    yield from _servers(binding, described, documents, config)
    yield from _security(binding, described, schemes, documents, config)
    for one in binding.constants or ():
        name = one.parameter.name
        said = {key.lower(): value for key, value in config.api.constants.items()}
        if said.get(name.lower()) != one.value or config.api.constants.get(name, one.value) != one.value:
            yield (
                f"{name!r} is always sent as {one.value!r}, which is not in `constants:` of toolgen.yaml",
                described.origin,
            )


def _effect(tool: Tool, described: SpecOperation) -> Iterator[Fault]:
    method = described.method
    wanted = "read" if method in _SAFE else "destructive" if method.upper() == "DELETE" else "write"
    hint = described.operation.get("x-toolgen-effect")
    if isinstance(hint, str) and hint in _EFFECTS:
        wanted = max(wanted, hint, key=_EFFECTS.index)
    if tool.effect != wanted:
        yield f"its effect is {tool.effect}, but {method} is {wanted}", described.origin
    if tool.idempotent is not (method in _IDEMPOTENT):
        yield (
            f"it is called {'' if tool.idempotent else 'not '}idempotent, which {method} is{' not' * tool.idempotent}",
            described.origin,
        )


def _servers(
    binding: HttpBinding, described: SpecOperation, documents: Documents, config: SourceConfig
) -> Iterator[Fault]:
    wanted, pointer = _wanted(described, documents, config)
    if binding.servers != wanted:
        other = next((url for url in binding.servers if url not in wanted), "")
        what = (
            f"the request may go to {other!r}, which is not a server of the operation"
            if other
            else "its servers differ"
        )
        yield f"{what}: {', '.join(wanted)}", pointer


def _wanted(described: SpecOperation, documents: Documents, config: SourceConfig) -> tuple[tuple[str, ...], str]:
    if config.server:
        return (config.server,), "#/servers"
    if described.version == "2.0":
        urls, pointer = tuple(_hosts(described, documents.root)), "#/host"
    else:
        urls, pointer = _nearest(described, documents.root, References(documents).opened)
    return _absolute(urls, config.location if is_remote(config) else ""), pointer


def _nearest(
    described: SpecOperation, root: Mapping[str, Any], opened: Callable[[Any], Any]
) -> tuple[tuple[str, ...], str]:
    """Return the servers of the operation, else of its path, else of the document (3.1.1, sections 4.8.9 and 4.8.10), with variables at
    their defaults.
    """
    above = "/".join(described.origin.split("/")[:3])
    for holder, pointer in ((described.operation, described.origin), (described.item, above), (root, "#")):
        written = opened(holder.get("servers"))
        if written:
            listed = [one for one in written if isinstance(one, dict)] if isinstance(written, list) else []
            urls = [_filled(one) for one in listed if isinstance(one.get("url"), str)]
            known = tuple(url for url in urls if url is not None)
            return known if known or None in urls else ("/",), f"{pointer}/servers"
    return ("/",), "#/servers"


def _filled(server: Mapping[str, Any]) -> str | None:
    """Return the URL with its variables at their defaults; None if a variable has no usable default."""
    variables = server.get("variables")
    lost = False

    def value(found: re.Match[str]) -> str:
        nonlocal lost
        variable = variables.get(found[1]) if isinstance(variables, dict) else None
        default = variable.get("default") if isinstance(variable, dict) else None
        allowed = variable.get("enum") if isinstance(variable, dict) else None
        allowed = allowed if isinstance(allowed, list) else []
        text = _plain(default)
        if text is None or (allowed and text not in [_plain(one) for one in allowed]):
            lost = True
        elif isinstance(default, float) and text not in allowed:
            lost = True  # YAML reads 1.10 as 1.1
        return text or ""

    url = _VARIABLE.sub(value, server["url"])
    return None if lost else url


def _plain(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (str, int, float)) else None


def _hosts(described: SpecOperation, root: Mapping[str, Any]) -> Iterator[str]:
    """Yield URLs of scheme, host and basePath of 2.0: https before http, and without schemes the scheme of the description's URL."""
    host = root.get("host") if isinstance(root.get("host"), str) else ""
    base = root.get("basePath") if isinstance(root.get("basePath"), str) else ""
    base = f"/{base.strip('/')}" if base and base.strip("/") else ""
    if not host:
        yield base or "/"
        return
    written = described.operation.get("schemes", root.get("schemes"))
    listed = [one for one in written if isinstance(one, str)] if isinstance(written, list) else []
    if not listed:
        yield f"//{host}{base}"
        return
    usable = {one for one in listed if one in {"http", "https"}} or {"https"}
    yield from (f"{scheme}://{host}{base}" for scheme in ("https", "http") if scheme in usable)


def _absolute(urls: tuple[str, ...], location: str) -> tuple[str, ...]:
    """Return the URLs to which a request can be sent, or else the relative ones, which are appended to a server of toolgen.yaml."""
    placed = [_joined(location, url) if location else f"https:{url}" if url.startswith("//") else url for url in urls]
    usable = tuple(url for url in placed if _callable(url))
    return usable or tuple(url for url in urls if not _ABSOLUTE.match(url)) or ("/",)


def _joined(location: str, url: str) -> str:
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", url):
        return url
    try:
        return urljoin(location, url)
    except ValueError:
        return "unreadable:"


def _callable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    plain = not _UNSAFE.search(url.replace(" ", "")) and " " not in parts.netloc and "@" not in parts.netloc
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and plain and not set("?#") & set(url)


def _security(
    binding: HttpBinding,
    described: SpecOperation,
    schemes: Mapping[str, SecurityScheme],
    documents: Documents,
    config: SourceConfig,
) -> Iterator[Fault]:
    if config.anonymous:
        if binding.security:
            yield "credentials are sent despite `auth: none` in toolgen.yaml", described.origin
        return
    written, pointer = described.operation.get("security"), f"{described.origin}/security"
    if written is None:
        written, pointer = References(documents).opened(documents.root.get("security")), "#/security"
    options = [one for one in written if isinstance(one, dict)] if isinstance(written, list) else []
    options = _with_ways(options, described, config.api.ways, documents)
    taken_apart = [one for option in options for one in _either(option, schemes)]
    if len(taken_apart) > len(options):
        first: dict[frozenset[str], Mapping[str, Any]] = {}
        for one in taken_apart:
            first.setdefault(frozenset(map(str, one)), one)
        options = [dict(one) for one in first.values()]
    wanted = {frozenset(map(str, option)) for option in options}
    found = {frozenset(option) for option in binding.security}
    for option in sorted(found - wanted, key=sorted):
        yield f"it may be called with {_shown(option)}, which the description does not offer", pointer
    for option in sorted(wanted - found, key=sorted):
        yield f"it cannot be called with {_shown(option)}, which the description offers", pointer
    named = [] if binding.scopes is msgspec.UNSET else [_scopes(option) for option in binding.scopes]
    listed = [_scopes(option) for option in options]
    if named != (listed if any(any(one.values()) for one in listed) else []):
        yield "its scopes differ from those of the description", pointer
    yield from _schemes({name for option in wanted | found for name in option}, schemes, documents, config)


def _either(option: Mapping[str, Any], schemes: Mapping[str, SecurityScheme]) -> list[Mapping[str, Any]]:
    """Return the combinations of credentials that an alternative allows.

    A request has room for one credential in each place, so two schemes in one place mean either of them.
    """
    waiting, found = [option], list[Mapping[str, Any]]()
    while waiting and len(waiting) + len(found) <= _MAX_CHOICES:
        one = waiting.pop(0)
        places: dict[str, str] = {}
        for name in map(str, one):
            place = _place(schemes.get(name), name)
            if place in places:
                waiting[:0] = [{key: one[key] for key in one if key != loser} for loser in (name, places[place])]
                break
            places[place] = name
        else:
            found.append(one)
    return [option] if waiting else found


def _place(scheme: SecurityScheme | None, name: str) -> str:
    if scheme is None or scheme.type == "mutualTLS":
        return f"of {name} alone"
    return _place_of(scheme.in_, scheme.name) if scheme.type == "apiKey" else _place_of("header", "authorization")


def _place_of(where: str, name: str) -> str:
    return f"{where} {name.lower() if where == 'header' else name}"


def _shown(option: frozenset[str]) -> str:
    return " and ".join(sorted(option)) or "no credential"


def _scopes(option: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {
        str(name): tuple(map(str, needed)) if isinstance(needed, (list, tuple)) else ()
        for name, needed in option.items()
    }


def _with_ways(
    options: list[Any], described: SpecOperation, ways: Mapping[str, SecurityScheme], documents: Documents
) -> list[Any]:
    """Add `auth:` of toolgen.yaml to the alternatives if the description has no schemes, and the credentials in required parameters."""
    declared, _ = _declared(documents)
    known = {**ways, **declared}
    if not declared and ways and described.operation.get("security") != []:
        options = [{**option, **{name: [] for name in ways}} for option in options or [{}]]
    for one in described.parameters:
        place = _place_of(one["in"], one["name"])
        able = known if place == "header authorization" else {name: ways[name] for name in ways if name not in declared}
        carriers = [name for name, scheme in able.items() if _place(scheme, name) == place]
        if one.get("required") is True and carriers:
            options = [
                built
                for option in options or [{}]
                for built in (
                    [option] if option.keys() & set(carriers) else [{**option, name: []} for name in carriers]
                )
            ]
    return options


def _declared(documents: Documents) -> tuple[Mapping[str, SecurityScheme], str]:
    """Return the valid schemes of a description, and their places."""
    root = documents.root
    follow = References(documents).follow
    components = follow(root.get("components"))
    declared: Any = follow(root.get("securityDefinitions"))
    place = "#/securityDefinitions"
    if isinstance(components, dict):
        declared, place = follow(components.get("securitySchemes")), "#/components/securitySchemes"
    found: dict[str, SecurityScheme] = {}
    for name, written in declared.items() if isinstance(declared, dict) else ():
        try:
            raw = follow(written)
        except UnresolvedRefError:
            continue
        if isinstance(raw, dict) and (scheme := _scheme(raw)) is not None:
            found[name] = scheme
    return found, place


def _schemes(
    names: set[str], schemes: Mapping[str, SecurityScheme], documents: Documents, config: SourceConfig
) -> Iterator[Fault]:
    """Yield a fault for each scheme that differs from the description's, or from that of `auth:` if the description does not declare it."""
    declared, place = _declared(documents)
    for name in sorted(names):
        wanted = declared.get(name, config.api.ways.get(name))
        if schemes.get(name) != wanted:
            yield (
                f"the security scheme {name!r} is {_as_text(schemes.get(name))}, the description's is {_as_text(wanted)}",
                f"{place}/{name}",
            )


def _scheme(raw: Mapping[str, Any]) -> SecurityScheme | None:
    kind = raw.get("type")
    if kind == "apiKey":
        place, name = raw.get("in"), raw.get("name")
        known = place in ("header", "query", "cookie") and isinstance(name, str) and name
        return SecurityScheme(type="apiKey", in_=str(place), name=str(name)) if known else None
    if kind in ("basic", "http"):
        return SecurityScheme(type="http", scheme="basic" if kind == "basic" else str(raw.get("scheme", "")).lower())
    if kind == "oauth2":
        flows = raw.get("flows")
        flow = raw
        if isinstance(flows, dict):
            flow = next((flows[one] for one in _FLOWS if isinstance(flows.get(one), dict)), {})
        scopes = flow.get("scopes")
        return SecurityScheme(
            type="oauth2",
            token_url=str(flow.get("tokenUrl") or ""),
            scopes=tuple(map(str, scopes)) if isinstance(scopes, dict) else (),
        )
    return SecurityScheme(type=str(kind)) if kind in ("openIdConnect", "mutualTLS") else None


def _as_text(scheme: SecurityScheme | None) -> str:
    """Return the complete scheme as text; it contains no credential."""
    if scheme is None:
        return "none"
    parts = (scheme.type, scheme.scheme, scheme.in_, scheme.name, scheme.token_url, " ".join(scheme.scopes))
    return " ".join(part for part in parts if part)
