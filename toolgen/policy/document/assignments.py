"""Credentials that a policy assigns to roles, in place of those of a source (`credentials:`)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from toolgen.core.errors import PolicyError
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.auth import AuthError, UserAccount, is_exchange, literals, parsed_auth, read_form
from toolgen.model.auth_schemes import fits, takes
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest
from toolgen.policy.document.schema import AssignmentShape

__all__ = ["Assignment", "assigned", "read_assignment"]


class Assignment(Struct, frozen=True, kw_only=True):
    """An entry of `credentials:`. `use` has the form of `auth:` of the source: references by the security scheme's name.

    `exchanges`: some credentials are obtained in exchange for the caller's token.
    """

    source: str
    roles: frozenset[str]
    use: Mapping[str, object]
    exchanges: bool


def assigned(entries: tuple[Assignment, ...], source: str, principal: Principal) -> Mapping[str, object] | None:
    """Return the credentials that the first entry for this source gives to a caller, or None to use the source's own credentials.

    A principal that acts for another needs one of the entry's roles, and so does the other: acting for others gives no credentials.
    """
    for entry in entries:
        if entry.source == source and _has(principal, entry.roles):
            return entry.use
    return None


def _has(principal: Principal, roles: frozenset[str]) -> bool:
    party: Principal | None = principal
    while party is not None:
        if roles.isdisjoint(party.roles):
            return False
        party = party.on_behalf_of
    return True


def read_assignment(document: YamlDocument, index: int, manifest: Manifest) -> Assignment:
    """Read an entry and check all but its roles. Raises `PolicyError` for an unknown source or scheme, and for a secret in plain text."""
    path = ("credentials", index)
    given = decode(document, path, AssignmentShape, PolicyError)
    info = manifest.sources.get(given.source)
    if info is None or info.database is not None:
        known = [name for name, item in manifest.sources.items() if item.database is None]
        raise PolicyError(
            f"there is no source '{given.source}' that takes credentials{nearest(given.source, known)}",
            where=document.where(*path, "source"),
        )
    use: dict[str, object] = {}
    exchanges = False
    for name, written in given.use.items():
        where = document.where(*path, "use", name)
        scheme = info.security_schemes.get(name)
        if scheme is None:
            near = nearest(name, info.security_schemes) or f" (it has: {', '.join(info.security_schemes) or 'none'})"
            raise PolicyError(f"{given.source} has no security scheme '{name}'{near}", where=where)
        try:
            parsed = parsed_auth(written)
            form = read_form(parsed)
        except AuthError as error:
            raise PolicyError(
                f"{(name, *error.path)[-1]} {error.message}", where=where, suggestion=error.suggestion
            ) from error
        except ValueError as error:
            raise PolicyError(f"{name}: {error}", where=where) from error
        if literals(parsed):
            raise PolicyError(
                f"{name}: a secret must not be written in a policy, because many people read it",
                where=where,
                suggestion="keep it outside, with ${env:NAME}, ${file:/path} or ${vault:path#key}",
            )
        if not fits(scheme, form):
            raise PolicyError(f"the security scheme '{name}' takes {takes(scheme)}", where=where)
        if isinstance(form, UserAccount):
            raise PolicyError(
                f"{name}: accounts of people belong to a source",
                where=where,
                suggestion="set account: user under auth: of the source in toolgen.yaml",
            )
        use[name] = parsed
        exchanges |= is_exchange(form)
    return Assignment(source=given.source, roles=frozenset(given.to), use=MappingProxyType(use), exchanges=exchanges)
