"""The `credentials:` section of a policy: references, by role and source."""

from __future__ import annotations

from types import MappingProxyType

from toolgen.errors import PolicyError
from toolgen.model.auth import AuthError, is_exchange, literals, parsed_auth, read_form
from toolgen.model.auth_schemes import fits, takes
from toolgen.model.manifest import Manifest
from toolgen.model.names import nearest
from toolgen.policy.assignment import Assignment
from toolgen.policy.shapes import AssignmentShape
from toolgen.strict_yaml import Document, decode

__all__ = ["read_assignment"]


def read_assignment(document: Document, index: int, manifest: Manifest) -> Assignment:
    """One entry, checked but for its roles. Raises `PolicyError` for a source or scheme that is not there, and for a secret written out."""
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
                f"{name}: a secret is written out, and a policy is read by many",
                where=where,
                suggestion="keep it outside, with ${env:NAME}, ${file:/path} or ${vault:path#key}",
            )
        if not fits(scheme, form):
            raise PolicyError(f"the security scheme '{name}' takes {takes(scheme)}", where=where)
        use[name] = parsed
        exchanges |= is_exchange(form)
    return Assignment(source=given.source, roles=frozenset(given.to), use=MappingProxyType(use), exchanges=exchanges)
