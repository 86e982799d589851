"""What the claims of a token make of its bearer, once they are believed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from toolgen.canonical import digest, encodable
from toolgen.errors import CanonicalError
from toolgen.model.call import Origin, Principal
from toolgen.model.schema import Json
from toolgen.policy.credentials import IssuerEntry

__all__ = [
    "ClaimsError",
    "audience_fits",
    "claims_again",
    "claims_read",
    "origin_by_hand",
    "origin_of",
    "scopes_of",
    "subject_of",
    "user_of",
]

_ALWAYS = ("sub", "aud", "scope", "scp")  # whose token it is, and whether it would be let in
_MAX_SUBJECT_LENGTH = 128
_MAX_VALUE_LENGTH = 1024
_MAX_VALUES = 1000
_MAX_SIZE = 2**53 - 1  # what every reader of JSON reads exactly (RFC 8259, section 6)


class ClaimsError(ValueError):
    """Claims that make nobody. The text says why in a fixed sentence, with nothing of the claims in it."""


def audience_fits(audience: frozenset[str], claims: Mapping[str, Any]) -> bool:
    """Whether a token is meant for one of these: `aud` is a text or a list of them (RFC 7519 section 4.1.3)."""
    return not audience.isdisjoint(_texts(claims.get("aud"), "audience"))


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """What a token may be used for: `scope`, words in one text (RFC 9068 section 2.2.3), or `scp`, a text or a list, as Entra ID and Okta
    write it. Raises `ClaimsError`."""
    scope = claims.get("scope", "")
    if not isinstance(scope, str):
        raise ClaimsError("its scope is no text")
    return frozenset(
        word for text in (scope, *_texts(claims.get("scp", []), "scp")) for word in text.split(" ") if word
    )


def subject_of(claims: Mapping[str, Any]) -> str:
    """The `sub` claim. Raises `ClaimsError` for what cannot name anybody."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_LENGTH or not subject.isprintable():
        raise ClaimsError(f"its subject is not 1 to {_MAX_SUBJECT_LENGTH} printable characters")
    return subject


def user_of(issuer: IssuerEntry, claims: Mapping[str, Any]) -> Principal:
    """The principal that a user of an issuer is: the id begins with the issuer's name, so it is nobody else's.

    Raises `ClaimsError`. A role comes only from what the policy lists; claims that nobody listed mean nothing.
    """
    roles = set(issuer.roles)
    for path, granted in issuer.grants.items():
        for value in _values(_claim(claims, path)):
            roles |= granted.get(value, frozenset())
    attributes = {name: _attribute(_claim(claims, path)) for name, path in issuer.attributes.items()}
    return Principal(
        id=f"{issuer.name}:{subject_of(claims)}",
        roles=frozenset(roles),
        attributes=MappingProxyType({name: value for name, value in attributes.items() if value is not None}),
    )


def origin_of(issuer: IssuerEntry | None, iss: str, claims: Mapping[str, Any], *, sign_in: bool) -> Origin:
    """Where a principal with these verified claims comes from: what it takes to derive it anew, and no more of the claims. `issuer` is
    None for a principal of the policy, which a token only leads to."""
    kept = {_pointer(path): _keepable(_claim(claims, path)) for path in (*_ALWAYS, *_paths(issuer))}
    mapping = "" if issuer is None else _mapping(issuer, claims)
    return Origin(issuer=iss, mapping=mapping, claims=kept, sign_in=sign_in)


def origin_by_hand(issuer: IssuerEntry, claims: Mapping[str, Any]) -> Origin:
    """The same of a user whose claims an operator named: there are no others. Raises `ClaimsError` for what is no JSON."""
    try:
        kept = encodable(claims)
    except CanonicalError as error:
        raise ClaimsError("its claims are no JSON") from error
    if not isinstance(kept, dict):
        raise ClaimsError("its claims are no JSON object")
    return Origin(issuer=issuer.token.issuer, mapping=_mapping(issuer, claims), claims=kept, by_hand=True)


def claims_again(origin: Origin, issuer: IssuerEntry | None) -> Mapping[str, Any]:
    """The claims that `origin_of` kept, for an entry that may be another by now. Raises `ClaimsError` where it reads others."""
    if origin.by_hand:
        return origin.claims
    if any(_pointer(path) not in origin.claims for path in _paths(issuer)):
        raise ClaimsError("its claims were not all kept")
    whole: dict[str, Any] = {}
    for path, value in origin.claims.items():
        *above, last = _steps(path)
        if value is not None:
            inner = whole
            for step in above:
                inner = inner.setdefault(step, {})
            inner[last] = value
    return whole


def _mapping(issuer: IssuerEntry, claims: Mapping[str, Any]) -> str:
    """The digest of what an issuer's entry makes of these claims: of what it gives for other values, nothing is in it."""
    granted = {
        path: {value: sorted(values[value]) for value in sorted(set(_values(_claim(claims, path))) & values.keys())}
        for path, values in issuer.grants.items()
    }
    return digest(
        {
            "issuer": issuer.name,
            "roles": sorted(issuer.roles),
            "grants": {path: found for path, found in granted.items() if found},
            "attributes": dict(issuer.attributes),
        }
    )


def claims_read(issuer: IssuerEntry) -> frozenset[str]:
    """The names of the claims that say anything of a user, those that hold what a JSON pointer leads to included."""
    return frozenset(_steps(path)[0] for path in _paths(issuer))


def _paths(issuer: IssuerEntry | None) -> tuple[str, ...]:
    return () if issuer is None else (*issuer.grants, *issuer.attributes.values())


def _pointer(path: str) -> str:
    return path if path.startswith("/") else "/" + path.replace("~", "~0").replace("/", "~1")


def _keepable(value: Any) -> Json:
    """A claim that was read, without texts that have no UTF-8 form: no policy names one."""
    if isinstance(value, list):
        return [_keepable(item) for item in value if not isinstance(item, str) or _keepable(item) is not None]
    if isinstance(value, str):
        return None if any("\ud800" <= sign <= "\udfff" for sign in value) else value
    return value if value is None or isinstance(value, (bool, int, float)) else None


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """The claim of this name, or the value this JSON pointer (RFC 6901) leads to; None when there is none."""
    value: Any = claims
    for step in _steps(path):
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def _steps(path: str) -> list[str]:
    if not path.startswith("/"):
        return [path]
    return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]


def _values(value: Any) -> Iterable[str]:
    """A list of texts, or one text of words between spaces, as `scope` is (RFC 8693 section 4.2)."""
    if isinstance(value, str):
        return (value, *value.split(" "))
    return _texts(value, "claim") if value is not None else ()


def _texts(value: Any, name: str) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or len(values) > _MAX_VALUES or not all(isinstance(item, str) for item in values):
        raise ClaimsError(f"its {name} is neither a text nor a list of them")
    return values


def _attribute(value: Any) -> Json:
    """Text, a number, a truth value, or a list of those; anything else would not be what the policy's author had in mind."""
    if value is None or isinstance(value, bool):
        return value
    if (
        isinstance(value, (int, float)) and -_MAX_SIZE <= value <= _MAX_SIZE
    ):  # neither too large for anybody else, nor 1e999
        return value
    if isinstance(value, str) and len(value) <= _MAX_VALUE_LENGTH and value.isprintable():
        return value
    if isinstance(value, list) and len(value) <= _MAX_VALUES and not any(isinstance(item, list) for item in value):
        return [_attribute(item) for item in value]
    raise ClaimsError("one of the claims its attributes come from is neither text, number, truth value nor a list")
