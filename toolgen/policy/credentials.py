"""Credentials of the principals of a policy: keys, tokens and their claims, certificates, and which of those are revoked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.core.canonical import digest, encodable
from toolgen.core.errors import CanonicalError
from toolgen.model.call import ANY_OF, Origin, Principal, ShownCertificate
from toolgen.model.schema import Json

__all__ = [
    "ALGORITHMS",
    "ApiKey",
    "CertificateRevocation",
    "CertificateRule",
    "ClaimsError",
    "IssuerEntry",
    "PolicyCredentials",
    "PrincipalEntry",
    "Revocation",
    "TokenRule",
    "audience_fits",
    "claims_again",
    "claims_read",
    "origin_by_hand",
    "origin_of",
    "scopes_of",
    "subject_of",
    "user_of",
]

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signature algorithms that a token may use (RFC 7518, RFC 8037). All are asymmetric, so a public key can never be mistaken for a shared
secret."""


class ApiKey(Struct, frozen=True, kw_only=True):
    """Accepted API key of a principal: its SHA-256 in hex, its creation and its expiry (seconds since the epoch).

    `where` is its file and line. `managed` is True if it is in the list that `toolgen keys` writes. Its caller sees only the tools of its
    `toolsets`; without toolsets, all tools of the principal.
    """

    sha256: str
    created: float | None = None
    expires: float | None = None
    where: str = ""
    managed: bool = False
    toolsets: frozenset[str] = frozenset()

    @property
    def narrowing(self) -> frozenset[str]:
        """Value of `Principal.toolsets` of a caller that showed the key."""
        return frozenset({ANY_OF.join(sorted(self.toolsets))}) if self.toolsets else frozenset()

    @property
    def id(self) -> str:
        """Identifier for display: the beginning of the digest."""
        return self.sha256[:12]


class TokenRule(Struct, frozen=True, kw_only=True):
    """Requirements on a JWT: this issuer, one of these audiences, all of these scopes, signed by a key of `jwks` (a URL or an
    absolute path). A token for an audience of `sign_in` signs people in to the console and is valid for nothing else."""

    issuer: str
    audience: frozenset[str]
    jwks: str
    algorithms: frozenset[str]
    scopes: frozenset[str] = frozenset()
    sign_in: frozenset[str] = frozenset()


class CertificateRule(Struct, frozen=True, kw_only=True):
    """Client certificates of a principal: those with one of these SHA-256 fingerprints (hex, of the DER), or those with this subject,
    signed by this issuer (RFC 4514 texts; "" if fingerprints are given)."""

    fingerprints: frozenset[str] = frozenset()
    subject: str = ""
    issuer: str = ""


class PrincipalEntry(Struct, frozen=True, kw_only=True):
    """Principal of a policy. `acts_for` lists on whose behalf it may act: principals, users of issuers (`staff:ann`), or all users of one
    (`staff:*`).

    Tokens that fit `token` belong to it if they have the subject `subject`.
    """

    id: str
    keys: tuple[ApiKey, ...]
    roles: frozenset[str]
    attributes: Mapping[str, Any]
    acts_for: frozenset[str]
    token: TokenRule | None = None
    subject: str = ""
    certificate: CertificateRule | None = None

    @property
    def principal(self) -> Principal:
        """Principal for every rule."""
        return Principal(id=self.id, roles=self.roles, attributes=self.attributes)

    def may_act_for(self, user: str) -> bool:
        """Return True if the principal may act on behalf of this id. Names of principals never begin with the prefix of an issuer's
        users."""
        issuer, colon, _ = user.partition(":")
        return user in self.acts_for or (bool(colon) and f"{issuer}:*" in self.acts_for)


class IssuerEntry(Struct, frozen=True, kw_only=True):
    """Identity provider of which each user is a principal with the id `name:subject`.

    Each user has `roles`, and those that `grants` (claim -> value -> roles) derives from its claims; `attributes` are read from claims. A
    claim is a name, or a JSON pointer if it begins with a slash.
    """

    name: str
    token: TokenRule
    roles: frozenset[str]
    grants: Mapping[str, Mapping[str, frozenset[str]]]
    attributes: Mapping[str, str]

    @property
    def all_roles(self) -> frozenset[str]:
        """Return every role that a user of the issuer could have."""
        return self.roles.union(*(roles for values in self.grants.values() for roles in values.values()))


class Revocation(Struct, frozen=True, kw_only=True):
    """Revocation of the tokens that match all of its fields. `before` is a time of issue, in seconds since the epoch."""

    issuer: str = ""
    jwt_id: str = ""
    subject: str = ""
    before: float | None = None

    def covers(self, claims: Mapping[str, Any]) -> bool:
        """Return True if the token with these verified claims is revoked. A token without `iat` counts as older than any other."""
        named = ((self.issuer, "iss"), (self.jwt_id, "jti"), (self.subject, "sub"))
        if any(wanted and claims.get(claim) != wanted for wanted, claim in named):
            return False
        return self.before is None or bool(claims.get("iat", 0) < self.before)


class CertificateRevocation(Struct, frozen=True, kw_only=True):
    """Revocation of the client certificates that match all of its fields, in the form of `ShownCertificate`."""

    fingerprint: str = ""
    serial: str = ""
    subject: str = ""
    issuer: str = ""

    def covers(self, shown: ShownCertificate) -> bool:
        """Return True if this certificate is revoked."""
        parts = ("fingerprint", "serial", "subject", "issuer")
        return all(getattr(self, part) in {"", getattr(shown, part)} for part in parts)


class PolicyCredentials(Struct, frozen=True, kw_only=True):
    """Principals and credentials of a policy.

    `revoked_keys` are hex SHA-256 digests of API keys, or prefixes of them, and `revoked_owners` has the principals of some of them.
    `revoked_principals` maps principals to the time (seconds since the epoch) before which their keys, tokens and certificates are
    revoked.
    """

    principals: Mapping[str, PrincipalEntry]
    issuers: Mapping[str, IssuerEntry]
    revocations: tuple[Revocation, ...]
    revoked_keys: frozenset[str]
    revoked_owners: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    revoked_certificates: tuple[CertificateRevocation, ...] = ()
    revoked_principals: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def with_console(self, issuer: str, client: str) -> PolicyCredentials:
        """Return a copy in which `client` signs people in to the console at `issuer`: if the policy lists the client as an
        audience of calls at that issuer, its id tokens are then valid for signing in only."""

        def told(rule: TokenRule) -> TokenRule:
            if rule.issuer != issuer or client not in rule.audience:
                return rule
            return replace(rule, audience=rule.audience - {client}, sign_in=rule.sign_in | {client})

        def entry(of: PrincipalEntry) -> PrincipalEntry:
            return of if of.token is None else replace(of, token=told(of.token))

        return replace(
            self,
            principals=MappingProxyType({name: entry(of) for name, of in self.principals.items()}),
            issuers=MappingProxyType({name: replace(of, token=told(of.token)) for name, of in self.issuers.items()}),
        )

    def ended(self, principal: str, given: float | None) -> bool:
        """Return True if a revocation covers access that a principal got at time `given`. Access without a time counts as older than any
        other."""
        before = self.revoked_principals.get(principal)
        return before is not None and (given is None or given < before)

    def key_check(self) -> Callable[[str, ApiKey], bool]:
        """Return a function that checks if a key of a principal, by its id, is revoked."""
        lengths = {len(text) for text in self.revoked_keys}

        def is_revoked(name: str, key: ApiKey) -> bool:
            return self.ended(name, key.created) or any(key.sha256[:length] in self.revoked_keys for length in lengths)

        return is_revoked

    def keys_revoked(self) -> frozenset[str]:
        """Return the digests of the principals' keys that are revoked."""
        is_revoked = self.key_check()
        return frozenset(
            key.sha256 for entry in self.principals.values() for key in entry.keys if is_revoked(entry.id, key)
        )

    def without(self, taken: PolicyCredentials, listed: frozenset[str] | None) -> PolicyCredentials:
        """Return a copy without what `taken` revokes, and without managed keys (written by `toolgen keys`) that are not in `listed` any
        more. None for `listed` means unknown: no key is removed."""

        def kept(entry: PrincipalEntry) -> PrincipalEntry:
            keys = tuple(key for key in entry.keys if not key.managed or key.sha256 in (listed or ()))
            return entry if len(keys) == len(entry.keys) else replace(entry, keys=keys)

        principals = self.principals
        if listed is not None:
            principals = MappingProxyType({name: kept(entry) for name, entry in principals.items()})
        until = dict(self.revoked_principals)
        for name, before in taken.revoked_principals.items():
            until[name] = max(before, until.get(name, before))
        return replace(
            self,
            principals=principals,
            revocations=tuple(dict.fromkeys((*self.revocations, *taken.revocations))),
            revoked_keys=self.revoked_keys | taken.revoked_keys,
            revoked_owners=MappingProxyType({**self.revoked_owners, **taken.revoked_owners}),
            revoked_certificates=tuple(dict.fromkeys((*self.revoked_certificates, *taken.revoked_certificates))),
            revoked_principals=MappingProxyType(until),
        )


_ALWAYS = ("sub", "aud", "scope", "scp")  # claims that name the owner of a token and decide if it is accepted
_MAX_SUBJECT_LENGTH = 128
_MAX_VALUE_LENGTH = 1024
_MAX_VALUES = 1000
_MAX_SIZE = 2**53 - 1  # integers that every JSON reader reads exactly (RFC 8259, section 6)


class ClaimsError(ValueError):
    """Claims that identify no principal. The text gives the reason in a fixed sentence, without any claim."""


def audience_fits(audience: frozenset[str], claims: Mapping[str, Any]) -> bool:
    """Return True if a token is for one of these audiences: `aud` is a text or a list of them (RFC 7519 section 4.1.3)."""
    return not audience.isdisjoint(_texts(claims.get("aud"), "audience"))


def scopes_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes of a token: words in the texts of `scope` (RFC 9068 section 2.2.3) and `scp` (Entra ID, Okta), each of which is a
    text or a list of them. Raises `ClaimsError`."""
    texts = (text for name in ("scope", "scp") for text in _texts(claims.get(name, []), name))
    return frozenset(word for text in texts for word in text.split(" ") if word)


def subject_of(claims: Mapping[str, Any]) -> str:
    """Return the `sub` claim. Raises `ClaimsError` for a value that cannot be a subject."""
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_LENGTH or not subject.isprintable():
        raise ClaimsError(f"its subject is not 1 to {_MAX_SUBJECT_LENGTH} printable characters")
    return subject


def user_of(issuer: IssuerEntry, claims: Mapping[str, Any]) -> Principal:
    """Return the principal of an issuer's user: its id begins with the issuer's name, so no other issuer can have it.

    Raises `ClaimsError`. A role comes only from the policy's lists; other claims have no effect.
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
    """Return the origin of a principal with these verified claims: the data to derive it again, without other claims. `issuer` is None
    for a principal that is defined in the policy."""
    kept = {_pointer(path): _keepable(_claim(claims, path)) for path in (*_ALWAYS, *_paths(issuer))}
    mapping = "" if issuer is None else _mapping(issuer, claims)
    return Origin(issuer=iss, mapping=mapping, claims=kept, sign_in=sign_in)


def origin_by_hand(issuer: IssuerEntry, claims: Mapping[str, Any]) -> Origin:
    """Return the origin of a user who has only the claims that an operator entered. Raises `ClaimsError` for claims that are not JSON."""
    try:
        kept = encodable(claims)
    except CanonicalError as error:
        raise ClaimsError("its claims are not JSON") from error
    if not isinstance(kept, dict):
        raise ClaimsError("its claims are not a JSON object")
    return Origin(issuer=issuer.token.issuer, mapping=_mapping(issuer, claims), claims=kept, by_hand=True)


def claims_again(origin: Origin, issuer: IssuerEntry | None) -> Mapping[str, Any]:
    """Return the claims that `origin_of` stored, for an entry that may have changed. Raises `ClaimsError` if it reads other claims."""
    if origin.by_hand:
        return origin.claims
    if any(_pointer(path) not in origin.claims for path in _paths(issuer)):
        raise ClaimsError("not all of its claims were stored")
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
    """Return the digest of the result of an issuer's entry for these claims. Results for other values are not part of it."""
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
    """Return the names of the claims that an entry reads, including those that contain the target of a JSON pointer."""
    return frozenset(_steps(path)[0] for path in _paths(issuer))


def _paths(issuer: IssuerEntry | None) -> tuple[str, ...]:
    return () if issuer is None else (*issuer.grants, *issuer.attributes.values())


def _pointer(path: str) -> str:
    return path if path.startswith("/") else "/" + path.replace("~", "~0").replace("/", "~1")


def _keepable(value: Any) -> Json:
    """Return a claim without texts that have no UTF-8 form: no policy can match those."""
    if isinstance(value, list):
        return [_keepable(item) for item in value if not isinstance(item, str) or _keepable(item) is not None]
    if isinstance(value, str):
        return None if any("\ud800" <= sign <= "\udfff" for sign in value) else value
    return value if value is None or isinstance(value, (bool, int, float)) else None


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim with this name, or the value at this JSON pointer (RFC 6901); None if there is none."""
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
    """Return a list of texts; one text is split at spaces, like `scope` (RFC 8693 section 4.2)."""
    if isinstance(value, str):
        return (value, *value.split(" "))
    return _texts(value, "claim") if value is not None else ()


def _texts(value: Any, name: str) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or len(values) > _MAX_VALUES or not all(isinstance(item, str) for item in values):
        raise ClaimsError(f"its {name} is neither a text nor a list of them")
    return values


def _attribute(value: Any) -> Json:
    """Return a text, a number, a boolean, or a list of those; other values are refused, because rules could not compare them."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and -_MAX_SIZE <= value <= _MAX_SIZE:  # 1e999 is read as infinity
        return value
    if isinstance(value, str) and len(value) <= _MAX_VALUE_LENGTH and value.isprintable():
        return value
    if isinstance(value, list) and len(value) <= _MAX_VALUES and not any(isinstance(item, list) for item in value):
        return [_attribute(item) for item in value]
    raise ClaimsError("a claim of its attributes is not a text, a number, a boolean or a list")
