"""Principals of a policy, and their credentials."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from toolgen.core.canonical import digest as digest_of
from toolgen.core.clock import Clock
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.core.units import in_words
from toolgen.gateway.identity.certificates import Validity, check_time, matches, read_certificate, shown, validity
from toolgen.gateway.identity.issued_tokens import IssuedToken
from toolgen.gateway.identity.jwks import FRESH_S, KeySets
from toolgen.gateway.identity.jwt import RefusedTokenError, SignedToken, TokenRejected, check_claims, read_token
from toolgen.gateway.identity.token_claims import accepts, proof_of
from toolgen.model.call import CredentialProof, Principal
from toolgen.policy.credentials import (
    ApiKey,
    CertificateRule,
    ClaimsError,
    IssuerEntry,
    PolicyCredentials,
    PrincipalEntry,
    TokenRule,
    claims_again,
    origin_by_hand,
    origin_of,
    subject_of,
    user_of,
)
from toolgen.policy.role_grants import NOTHING_GIVEN, GivenRoles, roles_of

__all__ = ["NO_CLAIMS", "Claims", "Identity"]

Claims: TypeAlias = Mapping[str, Any]
NO_CLAIMS: Claims = MappingProxyType({})

_MAX_CREDENTIAL_LENGTH = 16_384
_MAX_TOKENS = 10_000
_MAX_CERTIFICATES = 1_000
_UNKNOWN = TokenRejected("no principal has this key")


class _OwnedKey(NamedTuple):
    """Id of the principal that an API key belongs to, and the places where the policy has the key: one as a rule."""

    owner: str
    places: tuple[ApiKey, ...]


class Identity:
    """Principals of one policy by their credentials. Keys and tokens are looked up by their SHA-256; neither is ever stored.

    A verified token is cached until it expires or a key set is due again, a certificate during its validity, and neither longer than this
    object: a revocation makes another policy, which has its own empty `Identity`.

    `before` is that of the former policy. Its table of keys is reused, except for principals whose entry is another object: a new table of
    100,000 keys takes half a second.
    """

    def __init__(
        self,
        credentials: PolicyCredentials,
        clock: Clock,
        key_sets: KeySets,
        given: GivenRoles = NOTHING_GIVEN,
        before: Identity | None = None,
    ) -> None:
        self._given = given  # the entries of principals have it already
        self._entries = credentials.principals
        self._clock = clock
        self._key_sets = key_sets
        self.mark = object()
        """Mark that identifies principals made by this policy."""
        self._principals: dict[str, Principal] = {}
        self._owned = _owned_keys(self._entries, {}, {}) if before is None else before._owned_by(self._entries)
        self._keys: dict[bytes, tuple[Principal, float | None]] = {}
        self._is_revoked = credentials.key_check()
        self._ended = credentials.ended
        self._issuers = credentials.issuers
        self._revocations = credentials.revocations
        self._revoked_certificates = credentials.revoked_certificates
        self._rules: dict[str, TokenRule] = {}
        self._subjects: dict[tuple[str, str], list[PrincipalEntry]] = {}
        self._users: dict[str, list[IssuerEntry]] = {}
        for entry in self._entries.values():
            if entry.token is not None:
                self._rules[entry.token.issuer] = entry.token
                self._subjects.setdefault((entry.token.issuer, entry.subject), []).append(entry)
        for issuer in self._issuers.values():
            self._rules[issuer.token.issuer] = issuer.token
            self._users.setdefault(issuer.token.issuer, []).append(issuer)
        if self._rules:
            import jwt  # noqa: F401, PLC0415 - now, and not at the first token, which would wait for it
        self._tokens: OrderedDict[bytes, tuple[Principal, float]] = OrderedDict()
        self._certificates: OrderedDict[bytes, tuple[Principal, Validity]] = OrderedDict()
        self._shown: set[bytes] = set()
        self._used: set[bytes] = set()

    @property
    def has_credentials(self) -> bool:
        """Return True if any principal could authenticate."""
        keys = any(not self._is_gone(one) for one in self._owned.values())
        return keys or bool(self._rules) or any(entry.certificate for entry in self._entries.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Return the principals' ids, in order."""
        return tuple(sorted(self._entries))

    @property
    def issuers(self) -> tuple[TokenRule, ...]:
        """Return the token rules of each identity provider whose users are principals."""
        return tuple(entry.token for entry in self._issuers.values())

    def used_keys(self) -> set[str]:
        """Return the ids of the keys that were used since the last call."""
        used, self._used = self._used, set()
        return {ApiKey(sha256=digest.hex()).id for digest in used}

    def recognised(self, credential: str) -> Principal | None:
        """Return the principal of a credential that was accepted before and still is. Never waits, and returns None for a credential
        that was never seen."""
        digest = _digest(credential)
        return self._known(digest) if digest in self._shown or digest in self._tokens else None

    async def authenticate(self, credential: str) -> Principal | TokenRejected:
        """Return the principal of a key or token, or the reason for a refusal."""
        if not credential or len(credential) > _MAX_CREDENTIAL_LENGTH:
            return TokenRejected("it is longer than any credential")
        digest = _digest(credential)
        principal = self._known(digest)
        if principal is not None:
            return principal
        if (owned := self._owned.get(digest)) is not None:
            if self._is_gone(owned) or (until := owned.places[-1].expires) is None:
                return TokenRejected("this key was revoked")
            past = in_words(self._clock.now() - until)
            return TokenRejected(f"this key has expired ({owned.owner}'s, {past} ago by this machine's clock)")
        if not self._rules or credential.count(".") != 2:
            return _UNKNOWN
        found = await self._read(credential, sign_in=False)
        if isinstance(found, TokenRejected):
            return found
        principal, expires = found
        self._tokens[digest] = (principal, min(expires, self._clock.now() + FRESH_S))
        if len(self._tokens) > _MAX_TOKENS:
            self._tokens.popitem(last=False)
        return principal

    async def signed_in(self, token: str) -> Principal | TokenRejected:
        """Return the principal of an id token of the console's client, or the reason for a refusal. The token is not cached, because it
        is valid for the sign-in only."""
        found = await self._read(token, sign_in=True)
        return found if isinstance(found, TokenRejected) else found[0]

    async def _read(self, token: str, *, sign_in: bool) -> tuple[Principal, float] | TokenRejected:
        try:
            return await self._verified(token, sign_in=sign_in)
        except RefusedTokenError as error:
            return error.unaccepted
        except ClaimsError as error:
            return TokenRejected(str(error))

    def _owned_by(self, entries: Mapping[str, PrincipalEntry]) -> dict[bytes, _OwnedKey]:
        """Return the table of the keys of other entries."""
        return _owned_keys(entries, self._entries, self._owned)

    def _named(self, name: str) -> Principal | None:
        """Return the principal of the policy with this id; always the same object."""
        found = self._principals.get(name)
        if found is None and (entry := self._entries.get(name)) is not None:
            found = self._principals[name] = replace(entry.principal, under=self.mark)
        return found

    def _by_key(self, digest: bytes) -> tuple[Principal, float | None] | None:
        """Return the owner of a key that is not revoked, and its expiry; always the same object."""
        found = self._keys.get(digest)
        if found is None and (owned := self._owned.get(digest)) is not None and not self._is_gone(owned):
            # A key in several places has the toolsets of each: all of them narrow it.
            narrowing = frozenset[str]().union(*(key.narrowing for key in owned.places))
            principal = replace(
                self._entries[owned.owner].principal,
                under=self.mark,
                proof=CredentialProof(key=digest.hex()),
                toolsets=narrowing,
            )
            found = self._keys[digest] = principal, owned.places[-1].expires
        return found

    def _is_gone(self, owned: _OwnedKey) -> bool:
        return any(self._is_revoked(owned.owner, key) for key in owned.places)

    def _known(self, digest: bytes) -> Principal | None:
        # Both tables are keyed by digests, so the time of a look-up reveals nothing about a credential.
        found = self._keys.get(digest) or self._by_key(digest)
        if found is not None:
            if found[1] is not None and found[1] <= self._clock.now():
                return None
            self._shown.add(digest)
            self._used.add(digest)
            return found[0]
        token = self._tokens.get(digest)
        if token is None:
            return None
        if token[1] <= self._clock.now():
            del self._tokens[digest]
            return None
        self._tokens.move_to_end(digest)
        return token[0]

    async def _verified(self, text: str, *, sign_in: bool) -> tuple[Principal, float]:
        token = read_token(text)
        issuer = token.claims.get("iss")
        own = self._key_sets.issued
        if own is not None and issuer == own.issuer and not sign_in:
            issued = await own.read(token)
            return self.person_of(issued), issued.expires
        rule = await self.check_signature(token)
        expires = check_claims(token.claims, self._clock.now())
        found = replace(self._bearer(rule.issuer, token.claims, sign_in=sign_in), proof=proof_of(token.claims))
        if self._revoked(found, token.claims):
            raise RefusedTokenError("it has been revoked")
        return found, expires

    async def check_signature(self, token: SignedToken) -> TokenRule:
        """Verify that the issuer of a token signed it, and return its rule. Raises `RefusedTokenError`. Nothing else is checked."""
        issuer = token.claims.get("iss")
        rule = self._rules.get(issuer) if isinstance(issuer, str) else None
        if rule is None:
            raise RefusedTokenError("its issuer is unknown")
        if token.algorithm not in rule.algorithms:
            raise RefusedTokenError("its algorithm is not one of those accepted")
        await self._key_sets.verify(token, rule.jwks)
        return rule

    def person_of(self, issued: IssuedToken) -> Principal:
        """Return the person of a token that the gateway issued itself, whom the policy takes their id token for; or the principal that
        its client is.

        Raises `RefusedTokenError` and `ClaimsError`.
        """
        proof = issued.proof
        if issued.principal:
            found = self._named(issued.principal)
            if found is None:
                raise RefusedTokenError("the policy has no principal with the name that the settings give its client")
        elif proof.issuer not in self._rules:
            raise RefusedTokenError("the policy does not know the identity provider of its person")
        else:
            found = self._bearer(proof.issuer, issued.claims, sign_in=True)
        dated = {"iss": proof.issuer, "sub": proof.subject, "jti": proof.jwt_id, "iat": proof.issued}
        if self._revoked(found, dated):
            raise RefusedTokenError("it has been revoked")
        return replace(found, proof=proof, toolsets=issued.toolsets, token=issued.id_token)

    def _revoked(self, principal: Principal, claims: Claims) -> bool:
        """Return True if a token of this principal with these claims is revoked."""
        if any(revocation.covers(claims) for revocation in self._revocations):
            return True
        return self._ended(principal.id, claims.get("iat"))

    def _bearer(self, iss: str, claims: Claims, *, sign_in: bool) -> Principal:
        """Return the principal of the policy with this subject, or otherwise the issuer's user."""
        entry, users = self._meant(iss, claims, sign_in=sign_in)
        found = self._named(entry.id) if entry is not None else None
        if users is not None:
            found = self._user(users, claims)
        if found is None:
            if not sign_in and self._meant(iss, claims, sign_in=True) != (None, None):
                raise RefusedTokenError(
                    "it is an id token of the console's client, which is only for signing in to the console"
                )
            raise RefusedTokenError("it is for another audience, or for an unknown subject")
        return replace(found, origin=origin_of(users, iss, claims, sign_in=sign_in), under=self.mark)

    def _user(self, issuer: IssuerEntry, claims: Claims) -> Principal:
        """Return the user of an issuer by these claims, with temporary roles. Raises `ClaimsError`."""
        found = user_of(issuer, claims)
        given = self._given.get(found.id)
        return found if given is None else replace(found, roles=roles_of(found.roles, given))

    def _meant(self, iss: str, claims: Claims, *, sign_in: bool) -> tuple[PrincipalEntry | None, IssuerEntry | None]:
        """Return the principal of a token, or the issuer whose users have such tokens, or neither."""
        for entry in self._subjects.get((iss, subject_of(claims)), ()):
            if entry.token is not None and accepts(entry.token, claims, sign_in=sign_in):
                return entry, None
        for users in self._users.get(iss, ()):
            if accepts(users.token, claims, sign_in=sign_in):
                return None, users
        return None, None

    def named(
        self, name: str, on_behalf_of: str | None = None, *, claims: Claims = NO_CLAIMS, user_claims: Claims = NO_CLAIMS
    ) -> Principal:
        """Return a principal by its id, for callers that need no credential: the command line and Python. Raises `ConfigError`.

        A user of an issuer (`staff:ann`) is the principal that a token with these claims would give; `user_claims` are those of the user
        that it acts for.
        """
        principal = self._someone(name, claims)
        if on_behalf_of is None:
            return principal
        acting = self.acting_for(principal, self._someone(on_behalf_of, user_claims))
        if acting is None:
            raise ConfigError(f"the policy does not let {name} act for '{on_behalf_of}'")
        return acting

    def _someone(self, name: str, claims: Claims) -> Principal:
        prefix, _, subject = name.partition(":")
        issuer = self._issuers.get(prefix)
        if issuer is not None:
            try:
                given = {**claims, "sub": subject}
                return replace(self._user(issuer, given), origin=origin_by_hand(issuer, given), under=self.mark)
            except ClaimsError as error:
                raise ConfigError(f"no token of '{name}' with these claims would be accepted: {error}") from None
        principal = self._named(name)
        if principal is None:
            known = (*self._entries, *(f"{other}:{subject}" for other in self._issuers))
            raise ConfigError(f"the policy has no principal '{name}'{nearest(name, known)}")
        if claims:
            raise ConfigError(f"'{name}' is a principal of the policy, so claims of a token do not apply")
        return principal

    def current(self, principal: Principal, since: float | None = None) -> Principal | None:
        """Return the principal as this policy defines it, with its user, or None if the policy lacks one of them.

        A principal from a token is derived again from its stored claims. It is gone if it would not be accepted now, if too few claims
        were stored, or if its tokens from before `since` (the time of its call, in seconds since the epoch) are revoked. A caller by a
        key, token or certificate that is revoked is gone; a key or token that has expired since then was valid when it was shown.
        """
        found = self._standing(principal, since)
        if found is None or principal.on_behalf_of is None:
            return found
        user = self._standing(principal.on_behalf_of, since)
        return None if user is None else self.acting_for(found, user)

    def _standing(self, principal: Principal, since: float | None) -> Principal | None:
        """Return a party as defined by this policy, or None if it is gone or revoked."""
        if principal.proof is not None and not self._holds(principal.id, principal.proof):
            return None
        try:
            found = self._derived(principal, since)
        except (RefusedTokenError, ClaimsError, ConfigError):
            return None
        if found is None or found.id != principal.id:
            return None
        toolsets = self._narrowing(principal)
        return replace(found, proof=principal.proof, token=principal.token, on_behalf_of=None, toolsets=toolsets)

    def _derived(self, principal: Principal, since: float | None) -> Principal | None:
        """Return a principal by the policy, or by its stored claims. Raises the errors of reading claims."""
        origin = principal.origin
        if origin is None:
            # The principal was stored by a version without origins of roles, or was made up.
            proof = principal.proof
            by_token = proof is not None and bool(proof.issuer) and not self._is_client(principal.id, proof)
            return None if by_token else self._named(principal.id)
        if origin.by_hand:
            # No token was shown: a revocation of its tokens from before its call, or of all of them, applies to it.
            claims = {"iss": origin.issuer, "sub": principal.id.partition(":")[2], "iat": since}
            told = [item for item in self._revocations if item.before is None or since is not None]
            gone = any(item.covers(claims) for item in told) or (since is not None and self._ended(principal.id, since))
            return None if gone else self._someone(principal.id, origin.claims)
        _, users = self._meant(origin.issuer, claims_again(origin, None), sign_in=origin.sign_in)
        return self._bearer(origin.issuer, claims_again(origin, users), sign_in=origin.sign_in)

    def _holds(self, name: str, proof: CredentialProof) -> bool:
        """Return True if the credential that a principal authenticated with is still valid."""
        if proof.key:
            known = self._by_key(bytes.fromhex(proof.key))
            return known is not None and known[0].id == name
        entry = self._entries.get(name)
        if proof.certificate:
            if entry is None or proof.certificate != _rule_digest(entry.certificate):
                return False
            # For a token that was shown to an earlier gateway, it is unknown whether it is among the revoked.
            shown, revoked = proof.shown, self._revoked_certificates
            if self._ended(name, None if shown is None else shown.issued):
                return False
            return not revoked or (shown is not None and not any(one.covers(shown) for one in revoked))
        if not self._is_client(name, proof) and (
            proof.issuer not in self._rules
            or (entry is not None and (entry.token is None or entry.subject != proof.subject))
        ):
            return False
        claims: dict[str, Any] = {"iss": proof.issuer, "sub": proof.subject, "jti": proof.jwt_id}
        claims |= {} if proof.issued is None else {"iat": proof.issued}
        return not (self._ended(name, proof.issued) or any(item.covers(claims) for item in self._revocations))

    def _is_client(self, name: str, proof: CredentialProof) -> bool:
        """Return True if a token of the gateway proved a client that is this principal itself."""
        own = self._key_sets.issued
        return own is not None and proof.issuer == own.issuer and own.principal_of(proof.client) == name

    def concerns(self, name: str, parties: Iterable[str]) -> bool:
        """Return True if a principal is a party of a call, under any of its names: equal issuer and subject mean the same person."""
        named, who = tuple(parties), self.person(name)
        return name in named or (who is not None and any(self.person(one) == who for one in named))

    def person(self, name: str) -> tuple[str, str] | None:
        """Return the identity of a principal at its identity provider (issuer and subject); None if it has none."""
        entry = self._entries.get(name)
        if entry is not None:
            return None if entry.token is None else (entry.token.issuer, entry.subject)
        provider, _, subject = name.partition(":")
        issuer = self._issuers.get(provider)
        return None if issuer is None else (issuer.token.issuer, subject)

    def certified(self, value: str) -> Principal | TokenRejected:
        """Return the owner of a client certificate in a trusted proxy's header. The proxy has verified its chain and key."""
        digest, now = _digest(value), self._clock.now()
        known = self._certificates.get(digest)
        if known is not None and known[1].contains(now):
            self._certificates.move_to_end(digest)
            return known[0]
        try:
            certificate = read_certificate(value)
            check_time(certificate, now)
            found = shown(certificate)
        except (RefusedTokenError, ValueError) as error:
            return (
                error.unaccepted
                if isinstance(error, RefusedTokenError)
                else TokenRejected("the certificate cannot be read")
            )
        if any(revocation.covers(found) for revocation in self._revoked_certificates):
            return TokenRejected("the certificate has been revoked")
        for entry in self._entries.values():
            if entry.certificate is not None and matches(certificate, entry.certificate):
                if self._ended(entry.id, found.issued):
                    return TokenRejected("the certificate has been revoked")
                proof = CredentialProof(certificate=_rule_digest(entry.certificate), shown=found)
                principal = replace(entry.principal, under=self.mark, proof=proof)
                self._certificates[digest] = (principal, validity(certificate))
                if len(self._certificates) > _MAX_CERTIFICATES:
                    self._certificates.popitem(last=False)
                return principal
        return TokenRejected("no principal has this certificate")

    def acting_for(self, principal: Principal, user: Principal | str) -> Principal | None:
        """Return the principal as it acts for a user, or None if the policy's `acts_for` does not permit it.

        A name is sufficient for a principal of the policy. A user of an issuer must have a verified token, because its claims determine
        its roles and revocations.
        """
        entry = self._entries.get(principal.id)
        other = self._named(user) if isinstance(user, str) else user
        if entry is None or other is None or not entry.may_act_for(other.id):
            return None
        return replace(principal, on_behalf_of=other, toolsets=self._narrowing(principal))

    def _narrowing(self, principal: Principal) -> frozenset[str]:
        """Return the toolsets that a principal's credential is bound to: those of its key, or those of the resource of a token that the
        gateway issued."""
        if principal.proof is not None and principal.proof.client:
            return principal.toolsets
        return self._bound(principal)

    def _bound(self, principal: Principal) -> frozenset[str]:
        """Return the toolsets that a principal's key is bound to."""
        if principal.proof is None or not principal.proof.key:
            return frozenset()
        known = self._by_key(bytes.fromhex(principal.proof.key))
        return principal.toolsets if known is None else known[0].toolsets


def _owned_keys(
    entries: Mapping[str, PrincipalEntry], before: Mapping[str, PrincipalEntry], known: Mapping[bytes, _OwnedKey]
) -> dict[bytes, _OwnedKey]:
    """Return the keys of principals by their SHA-256. `known` is that table of the entries `before`; it is not changed."""
    found = dict(known)
    for name, entry in before.items():
        if entries.get(name) is not entry:
            for key in entry.keys:
                found.pop(bytes.fromhex(key.sha256), None)
    for name, entry in entries.items():
        if before.get(name) is not entry:
            for key in entry.keys:
                digest = bytes.fromhex(key.sha256)
                twice = found.get(digest)
                found[digest] = _OwnedKey(name, (key,) if twice is None else (*twice.places, key))
    return found


def _digest(credential: str) -> bytes:
    return hashlib.sha256(credential.encode("utf-8", "surrogatepass")).digest()


def _rule_digest(rule: CertificateRule | None) -> str:
    if rule is None:
        return ""
    return digest_of([sorted(rule.fingerprints), rule.subject, rule.issuer])
