"""Check of the credentials of `auth:` in toolgen.yaml against the security schemes of a description."""

from __future__ import annotations

from collections.abc import Container, Mapping

from toolgen.connectors.registry import CONNECTORS
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.model.auth import read_form
from toolgen.model.auth_schemes import HEADERS, SCHEMES, fits, takes
from toolgen.model.manifest import SecurityScheme

__all__ = ["check_auth"]

_WAYS = (*SCHEMES, HEADERS)


def check_auth(
    source: str, kind: str, auth: Mapping[str, object], schemes: Mapping[str, SecurityScheme], asked: Container[str]
) -> None:
    """Check a source's credentials against its description. `asked` are the schemes that some tool is called with.

    Raises `ConfigError`, with the correction, for a credential that no scheme can send, or that no tool uses.
    """
    connector = CONNECTORS[kind]
    own = {name: one for name, one in schemes.items() if not name.startswith(f"{HEADERS}.")}
    for name, written in auth.items():
        where = f"sources.{source}.auth.{name}"
        if connector.free_headers and name == HEADERS:
            continue
        if connector.describes_requests and name == HEADERS and isinstance(written, Mapping):
            if not any(f"{HEADERS}.{header}" in asked for header in written):
                raise _unused(name, own, where)
            continue
        if name not in schemes:
            given = name in _WAYS or (isinstance(written, Mapping) and "value" in written)
            if own and connector.describes_requests and given:
                raise _unused(name, own, where)
            if not own and connector.describes_requests:
                ways = f"name the form of the credential: {', '.join(_WAYS[:-1])} or {HEADERS}"
                raise ConfigError(
                    f"the description has no security scheme '{name[:40]}', nor any other{nearest(name, _WAYS)}",
                    where=where,
                    suggestion="run `toolgen build`: the built tools have no such credential"
                    if name in _WAYS
                    else ways,
                )
            known = nearest(name, schemes) or f" (it has: {', '.join(schemes) or 'none'})"
            raise ConfigError(f"the description has no security scheme '{name}'{known}", where=where)
        try:
            usable = fits(schemes[name], read_form(written))
        except ValueError as error:
            raise ConfigError(str(error), where=where) from None
        if not usable:
            raise ConfigError(f"the security scheme '{name}' takes {takes(schemes[name])}", where=where)


def _unused(name: str, schemes: Mapping[str, SecurityScheme], where: str) -> ConfigError:
    known = ", ".join(schemes)
    return ConfigError(
        f"no tool is called with {name}: the description requires none, or it has its own security schemes: {known or 'none'}",
        where=where,
        suggestion="name one of those under auth:, or leave it out",
    )
