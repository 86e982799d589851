"""Conversion between principals and the form in which they are stored with a call."""

from __future__ import annotations

from toolgen.model.call import Principal
from toolgen.state.invocations import PrincipalRef

__all__ = ["is_same", "of_party", "party_of"]


def is_same(party: PrincipalRef | None, caller: Principal | None) -> bool:
    """Return True if both are the same principal, acting for the same principals."""
    while party is not None and caller is not None and party.id == caller.id:
        party, caller = party.on_behalf_of, caller.on_behalf_of
    return party is None and caller is None


def of_party(party: PrincipalRef) -> Principal:
    """Return the principal as it was when it called."""
    return Principal(
        id=party.id,
        roles=frozenset(party.roles),
        attributes=party.attributes,
        on_behalf_of=None if party.on_behalf_of is None else of_party(party.on_behalf_of),
        toolsets=frozenset(party.toolsets),
        account=party.account,
        proof=party.proof,
        origin=party.origin,
    )


def party_of(principal: Principal) -> PrincipalRef:
    """Return a principal in its stored form."""
    return PrincipalRef(
        id=principal.id,
        roles=tuple(sorted(principal.roles)),
        attributes=dict(principal.attributes),
        on_behalf_of=None if principal.on_behalf_of is None else party_of(principal.on_behalf_of),
        toolsets=tuple(sorted(principal.toolsets)),
        account=principal.account,
        proof=principal.proof,
        origin=principal.origin,
    )
