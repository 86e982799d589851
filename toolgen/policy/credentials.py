"""How the principals of a policy prove who they are: keys, tokens and certificates, and which of those are revoked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from toolgen.model.call import Principal, ShownCertificate

__all__ = [
    "ALGORITHMS",
    "ApiKey",
    "CertificateRevocation",
    "CertificateRule",
    "Credentials",
    "IssuerEntry",
    "PrincipalEntry",
    "Revocation",
    "TokenRule",
]

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""The signatures a token may have (RFC 7518, RFC 8037). All are asymmetric, so no public key can ever be taken for a shared secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """One accepted key of a principal: the hex SHA-256 of it, when it was made and when it stops working (seconds since the epoch).

    `where` is the file and line it stands at; `managed` says that it stands in the list that `toolgen keys` writes.
    """

    sha256: str
    created: float | None = None
    expires: float | None = None
    where: str = ""
    managed: bool = False

    @property
    def id(self) -> str:
        """What people call it: the beginning of its digest."""
        return self.sha256[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRule:
    """What a JWT must be: from this issuer, for one of these audiences, with all of these scopes, signed by a key of `jwks` (a URL or an
    absolute path). One for an audience of `sign_in` signs people in to the console, and does nothing else."""

    issuer: str
    audience: frozenset[str]
    jwks: str
    algorithms: frozenset[str]
    scopes: frozenset[str] = frozenset()
    sign_in: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRule:
    """Which client certificates are a principal's: those with one of these SHA-256 fingerprints (hex, of the DER), or the ones with this
    subject that this issuer signed (RFC 4514 texts, "" where fingerprints are given)."""

    fingerprints: frozenset[str] = frozenset()
    subject: str = ""
    issuer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrincipalEntry:
    """A principal as a policy names it. `acts_for` lists whom it may say it acts on behalf of: principals, users of issuers
    (`staff:ann`), or all users of one (`staff:*`).

    Tokens that `token` accepts are its own when they have the subject `subject`.
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
        """Who it is to every rule."""
        return Principal(id=self.id, roles=self.roles, attributes=self.attributes)

    def may_act_for(self, user: str) -> bool:
        """Whether it may act on behalf of who has this id. No principal's name begins like that of an issuer's user."""
        issuer, colon, _ = user.partition(":")
        return user in self.acts_for or (bool(colon) and f"{issuer}:*" in self.acts_for)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerEntry:
    """An identity provider whose every user is a principal, `name:subject`.

    Each has `roles`, and those that `grants` (claim -> value -> roles) gives for what its claims say; `attributes` are read from claims.
    A claim is a name, or a JSON pointer when it begins with a slash.
    """

    name: str
    token: TokenRule
    roles: frozenset[str]
    grants: Mapping[str, Mapping[str, frozenset[str]]]
    attributes: Mapping[str, str]

    @property
    def all_roles(self) -> frozenset[str]:
        """Every role that one of its users could have."""
        return self.roles.union(*(roles for values in self.grants.values() for roles in values.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """Tokens that are accepted no more: those that fit everything it says. `before` is a time of issue, in seconds since the epoch."""

    issuer: str = ""
    jwt_id: str = ""
    subject: str = ""
    before: float | None = None

    def covers(self, claims: Mapping[str, Any]) -> bool:
        """Whether the token with these verified claims is revoked. One that does not say when it was issued is as old as can be."""
        if self.issuer and claims.get("iss") != self.issuer:
            return False
        if self.jwt_id and claims.get("jti") != self.jwt_id:
            return False
        if self.subject and claims.get("sub") != self.subject:
            return False
        return self.before is None or bool(claims.get("iat", 0) < self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateRevocation:
    """Client certificates that are accepted no more: those that fit everything it says, in the words of `ShownCertificate`."""

    fingerprint: str = ""
    serial: str = ""
    subject: str = ""
    issuer: str = ""

    def covers(self, shown: ShownCertificate) -> bool:
        """Whether this certificate is revoked."""
        said = (
            (self.fingerprint, shown.fingerprint),
            (self.serial, shown.serial),
            (self.subject, shown.subject),
            (self.issuer, shown.issuer),
        )
        return all(wanted in {"", found} for wanted, found in said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Everything a policy says about who is who.

    `revoked_keys` are hex SHA-256 digests of API keys, or how some begin. `revoked_principals` says of principals until when (seconds
    since the epoch) what they were given counts no more: keys, tokens and certificates alike.
    """

    principals: Mapping[str, PrincipalEntry]
    issuers: Mapping[str, IssuerEntry]
    revocations: tuple[Revocation, ...]
    revoked_keys: frozenset[str]
    revoked_certificates: tuple[CertificateRevocation, ...] = ()
    revoked_principals: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def with_console(self, issuer: str, client: str) -> Credentials:
        """The same where `client` signs people in to the console at `issuer`: the id tokens it is given count for that, and for nothing
        else, wherever the policy lists it as an audience."""

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
        """Whether what a principal was given at a time is revoked with all it had then. What does not say when is as old as can be."""
        before = self.revoked_principals.get(principal)
        return before is not None and (given is None or given < before)

    def keys_revoked(self) -> frozenset[str]:
        """The digests of the principals' keys that are accepted no more."""
        lengths = {len(text) for text in self.revoked_keys}
        return frozenset(
            key.sha256
            for entry in self.principals.values()
            for key in entry.keys
            if self.ended(entry.id, key.created) or any(key.sha256[:length] in self.revoked_keys for length in lengths)
        )

    def without(self, taken: Credentials, listed: frozenset[str] | None) -> Credentials:
        """The same, but for what is revoked besides in `taken`, and for keys of the list that `toolgen keys` writes that are not among
        `listed` any more (None where nobody can say)."""

        def kept(entry: PrincipalEntry) -> PrincipalEntry:
            keys = entry.keys
            if listed is not None:
                keys = tuple(key for key in keys if not key.managed or key.sha256 in listed)
            return replace(entry, keys=keys)

        until = dict(self.revoked_principals)
        for name, before in taken.revoked_principals.items():
            until[name] = max(before, until.get(name, before))
        return replace(
            self,
            principals=MappingProxyType({name: kept(entry) for name, entry in self.principals.items()}),
            revocations=tuple(dict.fromkeys((*self.revocations, *taken.revocations))),
            revoked_keys=self.revoked_keys | taken.revoked_keys,
            revoked_certificates=tuple(dict.fromkeys((*self.revoked_certificates, *taken.revoked_certificates))),
            revoked_principals=MappingProxyType(until),
        )
