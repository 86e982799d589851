"""What the claims of users made of them, for the record: nobody else could say later why a rule spoke of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from toolgen.model.call import Call, Principal
from toolgen.model.schema import JsonObject

__all__ = ["Users"]

_MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Users:
    """Whoever calls and is not `named` by the policy. What is sensitive in what is said of them, `conceal` replaces."""

    named: Container[str]
    conceal: Callable[[JsonObject], JsonObject]
    _told: OrderedDict[str, Principal] = field(default_factory=OrderedDict)

    def news(self, call: Call) -> tuple[Principal, ...]:
        """The parties of a call of whom the record says something else by now, or nothing. From here on it is taken to say this."""
        user = call.principal.on_behalf_of
        if call.principal.id in self.named and (user is None or user.id in self.named):
            return ()
        return tuple(party for party in (call.principal, user) if party is not None and self._is_new(party))

    def forget(self, principal: Principal) -> None:
        """Nothing could be written of this one."""
        self._told.pop(principal.id, None)

    def entry(self, call: Call, party: Principal) -> dict[str, object]:
        """The entry that says which roles and attributes a party has, from the call with this id on."""
        said = self.conceal({"roles": sorted(party.roles), "attributes": dict(party.attributes)})
        return {"event": "identity", "call_id": call.id, "principal": party.id, "arguments": said}

    def _is_new(self, party: Principal) -> bool:
        told = self._told.get(party.id)
        if party.id in self.named or told is party:
            return False
        if told is not None and (told.roles, told.attributes) == (party.roles, party.attributes):
            return False
        self._told[party.id] = party
        if len(self._told) > _MOST:
            self._told.popitem(last=False)
        return True
