"""Sections of a policy about principals: `principals:`, `issuers:`, `keys:` and `revoked:`."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.errors import PolicyError
from toolgen.core.files import read_file
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.policy.cel.names import kind_of
from toolgen.policy.credentials import (
    ALGORITHMS,
    ApiKey,
    CertificateRevocation,
    CertificateRule,
    IssuerEntry,
    PolicyCredentials,
    PrincipalEntry,
    Revocation,
    TokenRule,
)
from toolgen.policy.document.schema import (
    CertificateShape,
    FileShape,
    IssuerShape,
    JwtShape,
    KeyShape,
    ManagedKeyShape,
    PrincipalShape,
    RevokedCertificateShape,
    RevokedShape,
)

__all__ = ["PrincipalCache", "PrincipalSections", "instant"]

_HASH = re.compile(r"sha256:[0-9a-f]{64}\Z")
_HASH_BEGINS = re.compile(r"sha256:[0-9a-f]{6,64}\Z")
_SERIAL = re.compile(r"(?:0|-?[1-9a-f][0-9a-f]{0,63})\Z")
_ISSUER_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_MAX_KEY_SET_SIZE = 262_144
_CLAIM_KINDS = frozenset({"string", "integer", "number", "boolean", "array"})


class _KeyFile(Struct):
    """Keys of a parsed file: each with its part of the file and its owner, the keys of each principal, and the owner of each digest.
    `repeats`: a digest occurs more than once."""

    document: YamlDocument
    keys: list[tuple[object, str, ApiKey]] = []
    managed: dict[str, list[ApiKey]] = {}
    owners: dict[str, str] = {}
    repeats: bool = False


class _ReadEntry(Struct, frozen=True):
    """Principal as it was read from its part of a file, and whom it acts for; only for principals without other inputs (a key set, a
    certificate)."""

    part: object
    where: str
    entry: PrincipalEntry


class PrincipalCache:
    """Cache of the principals and keys of the policy that was read last. Of an edited policy, only those whose part of the file is another
    object are read again, and an unchanged principal is the same object.

    A policy that cannot be used does not change the cache.
    """

    def __init__(self) -> None:
        self.files: dict[str, _KeyFile] = {}
        self.read: dict[str, _ReadEntry] = {}
        self.finished: dict[str, tuple[PrincipalEntry, PrincipalEntry]] = {}
        """Entry of a principal, and the same entry with the keys of the lists."""


class PrincipalSections:
    """Collector of these sections from the files of one policy. `directory` is the base of relative paths in them."""

    def __init__(self, directory: Path, cache: PrincipalCache | None = None) -> None:
        self._directory = directory
        self._cache = cache or PrincipalCache()
        self._files: dict[str, _KeyFile] = {}
        self._read: dict[str, _ReadEntry] = {}
        self.principals: dict[str, PrincipalEntry] = {}
        self.issuers: dict[str, IssuerEntry] = {}
        self.revocations: list[Revocation] = []
        self.revoked_keys: set[str] = set()
        self.revoked_owners: dict[str, str] = {}
        self.revoked_certificates: list[CertificateRevocation] = []
        self.revoked_principals: dict[str, float] = {}
        self._owners: dict[str, str] = {}  # by digest of a key
        self._shown: dict[str | tuple[str, str], str] = {}  # by fingerprint, or by the names of subject and issuer
        self._managed: dict[str, list[ApiKey]] = {}
        self._rules: list[tuple[str, TokenRule]] = []
        self._actors: list[tuple[YamlDocument, str, str]] = []

    def add(self, document: YamlDocument, file: FileShape) -> None:
        """Read these sections of one file. Raises `PolicyError` with file and line."""
        for name in file.principals:
            self._add_principal(document, name)
        for name in file.issuers:
            self._add_issuer(document, name)
        if file.keys:
            self._add_keys(document)
        for index in range(len(file.revoked)):
            self.add_revoked(document, index)

    def finished(self) -> PolicyCredentials:
        """Return all of them, after checking that they are consistent."""
        for name, keys in self._managed.items():
            if name not in self.principals:
                raise PolicyError(
                    f"there is no principal '{name}'{nearest(name, self.principals)}",
                    where=keys[0].where,
                    suggestion=f"revoke its keys with `toolgen keys revoke --all {name}`",
                )
        for name in self.principals:
            if (prefix := name.partition(":")[0]) != name and prefix in self.issuers:
                raise PolicyError(
                    f"the principal '{name}' has a name that a user of the issuer '{prefix}' could have",
                    suggestion="give one of the two another name",
                )
        self._check_tokens()
        self._check_actors()
        principals = {name: self._with_keys(entry) for name, entry in self.principals.items()}
        self._cache.files, self._cache.read = self._files, self._read
        self._cache.finished = {name: (entry, principals[name]) for name, entry in self.principals.items()}
        return replace(self.taken(), principals=MappingProxyType(principals), issuers=MappingProxyType(self.issuers))

    def taken(self) -> PolicyCredentials:
        """Return only the revocations, without principals and issuers."""
        return PolicyCredentials(
            principals=MappingProxyType({}),
            issuers=MappingProxyType({}),
            revocations=tuple(self.revocations),
            revoked_keys=frozenset(self.revoked_keys),
            revoked_owners=MappingProxyType(self.revoked_owners),
            revoked_certificates=tuple(self.revoked_certificates),
            revoked_principals=MappingProxyType(self.revoked_principals),
        )

    def managed_keys(self) -> frozenset[str]:
        """Return the digests of the keys in lists that `toolgen keys` writes."""
        return frozenset(key.sha256 for keys in self._managed.values() for key in keys)

    def roles(self) -> frozenset[str]:
        """Return every role that a principal could have."""
        named = (entry.roles for entry in self.principals.values())
        return frozenset().union(*named, *(issuer.all_roles for issuer in self.issuers.values()))

    def attribute_kinds(self) -> Mapping[str, frozenset[str]]:
        """Return every attribute that a principal could have, with its kinds of values (JSON Schema's names of types)."""
        found: dict[str, set[str]] = {}
        for entry in self.principals.values():
            for name, value in entry.attributes.items():
                if (kinds := found.get(name)) is None:
                    kinds = found[name] = set()
                kinds.add(kind_of(value))
        for issuer in self.issuers.values():
            for name in issuer.attributes:
                found.setdefault(name, set()).update(_CLAIM_KINDS)
        return {name: frozenset(kinds) for name, kinds in found.items()}

    def _with_keys(self, entry: PrincipalEntry) -> PrincipalEntry:
        keys = (*entry.keys, *self._managed.get(entry.id, ()))
        before, known = self._cache.finished.get(entry.id, (None, entry))
        if before is entry and known.keys == keys:
            return known
        return entry if len(keys) == len(entry.keys) else replace(entry, keys=keys)

    def _add_principal(self, document: YamlDocument, name: str) -> None:
        path = ("principals", name)
        where, part = document.where(*path), document.data["principals"][name]
        if not name or len(name) > 128 or not name.isprintable():
            raise PolicyError("a principal's name is 1 to 128 printable characters", where=where)
        if name in self.principals:
            raise PolicyError(f"the principal '{name}' is defined twice", where=where)
        if (known := self._known(part, where, name)) is not None:
            self._take(document, known)
            return
        entry = decode(document, path, PrincipalShape, PolicyError)
        given = entry.api_key
        place = document.where(*path, "api_key")
        keys = tuple(_api_key(key, place) for key in ([given] if isinstance(given, str) else given or []))
        token = certificate = None
        if entry.jwt is not None:
            token = self._token(entry.jwt, document, (*path, "jwt"))
            if entry.jwt.subject is None:
                raise PolicyError(
                    "jwt: needs a subject, because otherwise every user of the issuer would be this principal",
                    where=document.where(*path, "jwt"),
                    suggestion="for a principal for each user, list the issuer under issuers:",
                )
        if entry.mtls is not None:
            certificate = self._certificate(entry.mtls, name, document.where(*path, "mtls"))
        made = PrincipalEntry(
            id=name,
            keys=keys,
            roles=frozenset(entry.roles),
            attributes=MappingProxyType(dict(entry.attributes)),
            acts_for=frozenset(entry.acts_for),
            token=token,
            subject=(entry.jwt.subject or "") if entry.jwt is not None else "",
            certificate=certificate,
        )
        self._take(document, _ReadEntry(part, where, made))

    def _known(self, part: object, where: str, name: str) -> _ReadEntry | None:
        """Return a principal as it was read before, if its part of the file and its keys are unchanged."""
        known = self._cache.read.get(name)
        if (
            known is None
            or known.part is not part
            or known.entry.token is not None
            or known.entry.certificate is not None
        ):
            return None
        if known.where == where:
            return known
        return None if known.entry.keys else _ReadEntry(part, where, known.entry)

    def _take(self, document: YamlDocument, read: _ReadEntry) -> None:
        """Add a principal."""
        entry = read.entry
        for key in entry.keys:
            self._own(key, entry.id)
        self.principals[entry.id] = entry
        self._read[entry.id] = read
        self._actors += [(document, entry.id, other) for other in entry.acts_for]

    def _add_issuer(self, document: YamlDocument, name: str) -> None:
        path = ("issuers", name)
        where = document.where(*path)
        if not _ISSUER_NAME.match(name):
            raise PolicyError("an issuer's name is like staff: a-z, 0-9, _ and -, at most 32", where=where)
        if name in self.issuers:
            raise PolicyError(f"the issuer '{name}' is defined twice", where=where)
        entry = decode(document, path, IssuerShape, PolicyError)
        if entry.jwt.subject is not None:
            raise PolicyError(
                "a subject belongs to a principal; each user of an issuer is a separate principal",
                where=document.where(*path, "jwt", "subject"),
            )
        issuer = IssuerEntry(
            name=name,
            token=self._token(entry.jwt, document, (*path, "jwt")),
            roles=frozenset(entry.roles),
            grants=MappingProxyType({claim: _granted(values) for claim, values in entry.grants.items()}),
            attributes=MappingProxyType(dict(entry.attributes)),
        )
        if not issuer.all_roles:
            raise PolicyError("gives its users no role, so no rule could apply to them", where=where)
        self.issuers[name] = issuer

    def _add_keys(self, document: YamlDocument) -> None:
        found = self._keys_of(document)
        if found.repeats or not self._owners.keys().isdisjoint(found.owners):
            for _, name, key in found.keys:
                self._own(key, name)
        self._owners |= found.owners
        for name, keys in found.managed.items():
            self._managed.setdefault(name, []).extend(keys)
        self._files[document.name] = found

    def _keys_of(self, document: YamlDocument) -> _KeyFile:
        """Return the keys of a file. Keys that were read before are reused."""
        before = self._cache.files.get(document.name)
        if before is not None and before.document is document:
            return before
        known = {} if before is None else {id(one[0]): one for one in before.keys}
        found = _KeyFile(document)
        keys, managed, owners = found.keys, found.managed, found.owners
        for index, part in enumerate(document.data["keys"]):
            again = known.get(id(part))
            if again is None:
                again = (part, *self._read_key(document, index))
            elif (where := document.where("keys", index)) != again[2].where:
                again = (part, again[1], replace(again[2], where=where))
            keys.append(again)
            _, name, key = again
            if (own := managed.get(name)) is None:
                own = managed[name] = []
            own.append(key)
            owners[key.sha256] = name
        found.repeats = len(owners) != len(keys)
        return found

    def _read_key(self, document: YamlDocument, index: int) -> tuple[str, ApiKey]:
        path = ("keys", index)
        given = decode(document, path, ManagedKeyShape, PolicyError)
        where = document.where(*path)
        key = ApiKey(
            sha256=_digest(given.hash, where),
            created=None if given.created is None else instant(given.created, "created", where),
            expires=None if given.expires is None else instant(given.expires, "expires", where),
            where=where,
            managed=True,
            toolsets=frozenset(given.toolsets),
        )
        return given.principal, key

    def add_revoked(self, document: YamlDocument, index: int) -> None:
        """Read one entry of `revoked:`. Raises `PolicyError`."""
        path = ("revoked", index)
        where = document.where(*path)
        given = decode(document, path, RevokedShape, PolicyError)
        of_token = (given.issuer, given.jwt_id, given.subject, given.before if given.principal is None else None)
        named = (given.key, given.certificate, given.principal)
        if sum(item is not None for item in named) + (of_token != (None, None, None, None)) != 1:
            raise PolicyError(
                "must revoke either a key, or a certificate, or tokens by issuer, jwt_id, subject or before, or a principal",
                where=where,
            )
        if given.of is not None and given.key is None:
            raise PolicyError("of: names the principal of a revoked key, and needs key:", where=where)
        before = None if given.before is None else instant(given.before, "before", where)
        if given.certificate is not None:
            self.revoked_certificates.append(_revoked(given.certificate, where))
        elif given.key is not None:
            self.revoked_keys.add(digest := _revoked_key(given.key, where))
            if given.of is not None:
                self.revoked_owners[digest] = given.of
        elif given.principal is not None:
            until = math.inf if before is None else before
            self.revoked_principals[given.principal] = max(until, self.revoked_principals.get(given.principal, until))
        else:
            tokens = {name: getattr(given, name) or "" for name in ("issuer", "jwt_id", "subject")}
            self.revocations.append(Revocation(**tokens, before=before))

    def _certificate(self, given: CertificateShape, name: str, where: str) -> CertificateRule:
        rule = _certificate(given, where)
        for shown in rule.fingerprints or {(rule.subject, rule.issuer)}:
            if self._shown.setdefault(shown, name) != name:
                raise PolicyError(f"mtls: '{name}' and '{self._shown[shown]}' have the same certificate", where=where)
        return rule

    def _own(self, key: ApiKey, name: str) -> None:
        if self._owners.setdefault(key.sha256, name) != name:
            raise PolicyError(f"'{name}' and '{self._owners[key.sha256]}' have the same key", where=key.where)

    def _token(self, given: JwtShape, document: YamlDocument, path: tuple[str, ...]) -> TokenRule:
        rule = TokenRule(
            issuer=given.issuer,
            audience=_texts(given.audience),
            jwks=_key_set(given.jwks, self._directory, document.where(*path, "jwks")),
            algorithms=frozenset(given.algorithms or ALGORITHMS),
            scopes=frozenset(given.scopes),
            sign_in=_texts(given.sign_in),
        )
        if both := rule.audience & rule.sign_in:
            message = f"'{min(both)}' is also an audience of calls; an audience under sign_in: is only for signing in to the console"
            raise PolicyError(message, where=document.where(*path, "sign_in"))
        self._rules.append((document.where(*path), rule))
        return rule

    def _check_actors(self) -> None:
        """Check that each entry of acts_for is a principal of the policy, or a user of an issuer of the policy."""
        for document, name, actor in self._actors:
            issuer, colon, subject = actor.partition(":")
            user = bool(colon and subject) and issuer in self.issuers
            if not user and actor not in self.principals:
                known = (*self.principals, *(f"{name}:{subject}" for name in self.issuers))
                where = document.where("principals", name, "acts_for")
                raise PolicyError(f"there is no principal '{actor}'{nearest(actor, known)}", where=where)

    def _check_tokens(self) -> None:
        """Check that an issuer has a single set of keys and algorithms, and that a token leads to a single principal."""
        known: dict[str, TokenRule] = {}
        for where, rule in self._rules:
            first = known.setdefault(rule.issuer, rule)
            if (first.jwks, first.algorithms) != (rule.jwks, rule.algorithms):
                raise PolicyError(
                    f"the issuer {rule.issuer} has different jwks or algorithms in another place", where=where
                )
        taken: dict[tuple[str, str, str], str] = {}
        named = [(entry.id, entry.subject, entry.token) for entry in self.principals.values() if entry.token]
        whole = [(f"issuers.{entry.name}", "", entry.token) for entry in self.issuers.values()]
        for name, subject, rule in (*named, *whole):
            for audience in rule.audience | rule.sign_in:
                other = taken.setdefault((rule.issuer, audience, subject), name)
                if other != name:
                    raise PolicyError(f"'{name}' and '{other}' would accept the same tokens of {rule.issuer}")


def instant(text: str, name: str, where: str) -> float:
    """Return seconds since the epoch for an ISO 8601 time, in UTC if it has no offset. Raises `PolicyError`."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise PolicyError(f"{name}: '{text}' is not a time like 2027-01-31T00:00:00Z", where=where) from error


def _texts(given: str | list[str] | None) -> frozenset[str]:
    return frozenset([given] if isinstance(given, str) else given or ())


def _api_key(given: str | KeyShape, where: str) -> ApiKey:
    given = KeyShape(hash=given) if isinstance(given, str) else given
    expires = given.expires
    return ApiKey(
        sha256=_digest(given.hash, where, "api_key"),
        expires=None if expires is None else instant(expires, "expires", where),
        where=where,
        toolsets=frozenset(given.toolsets),
    )


def _digest(text: str, where: str, name: str = "hash") -> str:
    if not _HASH.match(text):
        raise PolicyError(
            f"{name}: must be sha256: and the 64 lower-case hex digits of the key's SHA-256, never the key",
            where=where,
        )
    return text.removeprefix("sha256:")


def _revoked_key(text: str, where: str) -> str:
    if not _HASH_BEGINS.match(text):
        message = "key: must be sha256: and the lower-case hex digits of the key's SHA-256, or the first 6 or more"
        raise PolicyError(message, where=where)
    return text.removeprefix("sha256:")


def _certificate(given: CertificateShape, where: str) -> CertificateRule:
    by_name = given.subject is not None
    if (given.fingerprint is None) != by_name or (given.subject is None) != (given.issuer is None):
        raise PolicyError(
            "mtls: takes a fingerprint, or a subject and its issuer, as `openssl x509 -nameopt RFC2253` prints them",
            where=where,
        )
    if given.fingerprint is None:
        return CertificateRule(subject=given.subject or "", issuer=given.issuer or "")
    fingerprints = [given.fingerprint] if isinstance(given.fingerprint, str) else given.fingerprint
    if not all(_HASH.match(text) for text in fingerprints):
        raise PolicyError("mtls: a fingerprint is sha256: and the 64 lower-case hex digits of the DER's", where=where)
    return CertificateRule(fingerprints=frozenset(text.removeprefix("sha256:") for text in fingerprints))


def _revoked(given: RevokedCertificateShape, where: str) -> CertificateRevocation:
    if given.fingerprint is not None and not _HASH.match(given.fingerprint):
        message = "certificate: a fingerprint is sha256: and the 64 lower-case hex digits of the DER's"
        raise PolicyError(message, where=where)
    if given.serial is not None and not _SERIAL.match(given.serial):
        message = "certificate: a serial is its number in lower-case hex, without leading zeros and in quotes"
        raise PolicyError(message, where=where)
    found = CertificateRevocation(
        fingerprint=(given.fingerprint or "").removeprefix("sha256:"),
        serial=given.serial or "",
        subject=given.subject or "",
        issuer=given.issuer or "",
    )
    if found == CertificateRevocation():
        raise PolicyError("certificate: takes a fingerprint, a serial, a subject or an issuer", where=where)
    return found


def _granted(values: Mapping[str, str | list[str]]) -> Mapping[str, frozenset[str]]:
    return MappingProxyType({value: _texts(given) for value, given in values.items()})


def _key_set(text: str, directory: Path, where: str) -> str:
    """Return a safe URL, or the absolute path of a file."""
    if "://" not in text:
        path = (directory / text).resolve()
        try:
            read_file(path, _MAX_KEY_SET_SIZE)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise PolicyError(f"jwks: the file cannot be read: {reason}", where=where) from error
        return str(path)
    try:
        parts = urlsplit(text)
        host, usable = parts.hostname or "", parts.port is None or parts.port > 0
    except ValueError:
        host, usable = "", False
    if not host or not usable or "@" in parts.netloc or parts.fragment or not text.isascii() or not text.isprintable():
        raise PolicyError("jwks: is neither a URL nor a file", where=where)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)):
        raise PolicyError(
            "jwks: must be https, because whoever changes these keys can impersonate every user",
            where=where,
            suggestion="http is only for loopback addresses",
        )
    return text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
