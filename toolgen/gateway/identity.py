"""A credential in, a verified principal out, or nobody."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from toolgen.clock import Clock
from toolgen.errors import ConfigError
from toolgen.model.call import Principal
from toolgen.model.names import nearest
from toolgen.policy.document import PrincipalEntry

__all__ = ["Identity"]

_LONGEST_CREDENTIAL = 4096


class Identity:
    """The principals of a policy. Keys are looked up by their SHA-256; the key itself is never kept."""

    def __init__(self, principals: Mapping[str, PrincipalEntry], clock: Clock) -> None:
        self._entries = principals
        self._clock = clock
        self._principals = {name: _principal(entry) for name, entry in principals.items()}
        self._keys = {key.sha256: (name, key.expires) for name, entry in principals.items() for key in entry.keys}

    @property
    def has_credentials(self) -> bool:
        """Whether any principal has a key."""
        return bool(self._keys)

    @property
    def names(self) -> tuple[str, ...]:
        """The principals' ids, in order."""
        return tuple(sorted(self._principals))

    def authenticate(self, credential: str) -> Principal | None:
        """The principal whose key this is, unless it has expired."""
        if not credential or len(credential) > _LONGEST_CREDENTIAL:
            return None
        # The table is keyed by digests: how long a look-up takes says nothing about a key nobody can derive from its SHA-256.
        found = self._keys.get(hashlib.sha256(credential.encode("utf-8", "surrogatepass")).hexdigest())
        if found is None:
            return None
        name, expires = found
        if expires is not None and expires <= self._clock.now():
            return None
        return self._principals[name]

    def named(self, name: str, on_behalf_of: str | None = None) -> Principal:
        """A principal by its id, for callers that need no credential: the command line and Python. Raises `ConfigError`."""
        principal = self._principals.get(name)
        if principal is None:
            raise ConfigError(f"the policy has no principal '{name}'{nearest(name, self._principals)}")
        if on_behalf_of is None:
            return principal
        acting = self.acting_for(principal, on_behalf_of)
        if acting is None:
            raise ConfigError(f"the policy does not let {name} act for '{on_behalf_of}'")
        return acting

    def current(self, principal: Principal) -> Principal | None:
        """The principal as this policy has it, acting for whom it acted, or None where the policy has one of them no more."""
        found = self._principals.get(principal.id)
        if found is None or principal.on_behalf_of is None:
            return found
        return self.acting_for(found, principal.on_behalf_of.id)

    def acting_for(self, principal: Principal, user: str) -> Principal | None:
        """The principal as it acts for a user, or None when the policy's `acts_for` does not say it may."""
        entry, other = self._entries.get(principal.id), self._principals.get(user)
        if entry is None or other is None or user not in entry.acts_for:
            return None
        return Principal(id=principal.id, roles=principal.roles, attributes=principal.attributes, on_behalf_of=other)


def _principal(entry: PrincipalEntry) -> Principal:
    return Principal(id=entry.id, roles=entry.roles, attributes=entry.attributes)
