"""What must not be possible, tried for real; each trial shows first that it would notice if its guard were gone."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from toolgen.audit.query import entry_at
from toolgen.doctor.attempts_callers import attempts_to_be_somebody
from toolgen.doctor.attempts_calls import attempts_at_calls, free_pass
from toolgen.doctor.attempts_console import attempts_at_the_console
from toolgen.doctor.attempts_network import attempts_at_places
from toolgen.doctor.attempts_record import attempts_at_the_record
from toolgen.doctor.scratch import Echo
from toolgen.doctor.trial import Attempt, Guard, Trial, tried
from toolgen.gateway.service import Gateway
from toolgen.model.call import Principal
from toolgen.policy.access import Access
from toolgen.settings_audit import AuditSettings

__all__ = ["attempts_on", "run_trials"]

_NOBODY: Final = Principal(id="toolgen-doctor", roles=frozenset({"toolgen-doctor"}))


async def run_trials(gateway: Gateway) -> list[Trial]:
    """Tries everything, for a gateway that is not open, in a process that serves nobody: guards are taken away in it meanwhile.

    One call, which must be refused, is made through the project's own gateway, so it stands in the project's own record. All others are
    made in scratch gateways of this installation's code. Nothing is dialled that is not on loopback.
    """
    return [await tried(attempt) for attempt in attempts_on(gateway)]


def attempts_on(gateway: Gateway) -> tuple[Attempt, ...]:
    """All attempts, in the order in which they are made and told."""
    guards = (Guard(owner=Access, name="visible", instead=lambda *_: True), free_pass())
    denied = Attempt(
        name="denied call",
        shown="a call that no rule of the project allows was refused, and the refusal is in its record",
        guards=guards,
        make=partial(_denied, gateway),
        rehearsed=partial(_denied_in_a_twin, gateway),
    )
    return (
        denied,
        *attempts_to_be_somebody(),
        *attempts_at_calls(),
        *attempts_at_places(gateway),
        *attempts_at_the_console(),
        *attempts_at_the_record(gateway.settings.audit_dir),
    )


async def _denied(gateway: Gateway) -> str:
    """A tool of the catalog, called by a principal no rule speaks of."""
    tool = next(iter(gateway.manifest.tools), "toolgen-doctor")
    async with gateway.errand():
        envelope = await gateway.call(tool, {}, principal=_NOBODY)
    code = envelope.error.code if envelope.error is not None else ""
    if code not in {"unknown_tool", "forbidden"}:
        return f"{tool} was not forbidden to a principal no rule should speak of: {code or envelope.status}"
    entries = entry_at(gateway.settings.audit_dir, envelope.meta.audit_seq or 0)
    written = [entry for entry in entries if entry.get("call_id") == envelope.call_id]
    return "" if written and written[0].get("status") == "refused" else "the refusal is not in the audit log"


async def _denied_in_a_twin(gateway: Gateway) -> str:
    """The same in a gateway of the same catalog and policy with nobody behind it, which shares no file with the project."""
    with tempfile.TemporaryDirectory(prefix="toolgen-doctor-") as name:
        folder = Path(name)
        settings = replace(
            gateway.settings,
            path=folder / gateway.settings.path.name,
            audit_dir=folder / "var" / "audit",
            audit=AuditSettings(),  # signed by nobody and sent nowhere
            state=None,
        )
        stand_in = {source: Echo() for source in gateway.settings.sources}
        twin = Gateway(settings=settings, manifest=gateway.manifest, policy=gateway.policy, stand_in=stand_in)
        return await _denied(twin)
