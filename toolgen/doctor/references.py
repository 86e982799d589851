"""Which references to secrets lead nowhere, here and now: of toolgen.yaml and of the policy alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from toolgen.errors import SecretError
from toolgen.execute.base import Destination
from toolgen.execute.secrets import SecretReference, Secrets
from toolgen.gateway.service import Gateway
from toolgen.model.verdict import Verdict

__all__ = ["ReferenceReport", "check_references"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceReport:
    """One reference: where it stands, what it is, and why it cannot be resolved ("" when it can)."""

    where: str
    reference: str
    fault: str

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {"where": self.where, "reference": self.reference, "ok": not self.fault, "fault": self.fault}


async def check_references(gateway: Gateway) -> tuple[ReferenceReport, ...]:
    """Resolves every reference, as a call would, and keeps none of the values. Nobody is asked for a token."""
    egress = gateway.policy.egress

    def permit(to: Destination) -> Verdict:
        return egress.check_keys(to.host, to.port, to.address)

    secrets = Secrets(permit=permit)
    found = []
    for where, reference in _references(gateway):
        try:
            await secrets.fetch(reference)
        except SecretError as error:
            fault = error.message
        else:
            fault = ""
        text = f"{reference.prefix}${{{reference.provider}:{reference.locator}}}"
        found.append(ReferenceReport(where=where, reference=text, fault=fault))
    return tuple(found)


def _references(gateway: Gateway) -> Iterator[tuple[str, SecretReference]]:
    for name, source in gateway.settings.sources.items():
        yield from _inside(f"sources.{name}.auth", source.auth)
    state = gateway.settings.state
    if state is not None and state.password is not None:
        yield from _inside("state", state.password)
    for index, entry in enumerate(gateway.policy.assignments):
        yield from _inside(f"credentials[{index}].use", entry.use)


def _inside(where: str, value: object) -> Iterator[tuple[str, SecretReference]]:
    if isinstance(value, SecretReference):
        if value.provider != "literal":
            yield where, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _inside(f"{where}.{key}", inner)
