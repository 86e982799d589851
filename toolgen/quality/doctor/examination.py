"""Examination of a project: trials of its guards, then its credentials, webhooks, functions and the accounts of its databases."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from toolgen.audit.entry import timestamp
from toolgen.audit.reader import entry_at
from toolgen.config.audit import AuditSettings
from toolgen.connectors.executor import Destination
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.rotated_tokens import Rotated, rotated_tokens
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.core.errors import SecretError, ToolgenError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.executors import make_function_runtime
from toolgen.gateway.policies.permits import permitted
from toolgen.generator.callability import names_in_short, uncallable, unpaid
from toolgen.model.auth_schemes import with_headers
from toolgen.model.call import Principal
from toolgen.model.secret import parse_reference
from toolgen.model.verdict import Verdict
from toolgen.policy.access import Access
from toolgen.quality.doctor.call_trials import CALL_ATTEMPTS, free_pass
from toolgen.quality.doctor.console_trials import CONSOLE_ATTEMPTS
from toolgen.quality.doctor.identity_trials import IDENTITY_ATTEMPTS
from toolgen.quality.doctor.network_trials import attempts_at_places
from toolgen.quality.doctor.record_trials import attempts_at_the_record
from toolgen.quality.doctor.scratch_gateway import Echo
from toolgen.quality.doctor.streams import stream_faults
from toolgen.quality.doctor.trial import Guard, RefusalCheck, Trial, tried
from toolgen.quality.doctor.webhooks import webhook_faults

if TYPE_CHECKING:
    from toolgen.model.account_report import DatabaseReport

__all__ = ["DoctorReport", "attempts_on", "examine", "run_trials"]

_IMPORT_S = 30.0
_NOBODY: Final = Principal(id="toolgen-doctor", roles=frozenset({"toolgen-doctor"}))


async def run_trials(gateway: Gateway) -> list[Trial]:
    """Run all trials, for a gateway that is not open, in a process that serves nobody, because guards are removed temporarily.

    One call, which must be refused, is made through the project's own gateway, so it is in the project's own audit log. All others are made
    in scratch gateways of this installation's code. Only loopback addresses are dialled.
    """
    return [await tried(attempt) for attempt in attempts_on(gateway)]


def attempts_on(gateway: Gateway) -> tuple[RefusalCheck, ...]:
    """Return all attempts, in order; without those whose guard needs an extra that is not installed."""
    guards = (Guard(Access, "visible", lambda *_: True), free_pass())
    denied = RefusalCheck(
        name="denied call",
        shown="a call that no rule of the project allows was refused, and the refusal is in its record",
        guards=guards,
        make=partial(_denied, gateway),
        unguarded=partial(_denied_in_a_twin, gateway),
    )
    attempts = (
        denied,
        *IDENTITY_ATTEMPTS,
        *CALL_ATTEMPTS,
        *_sql_attempts(),
        *attempts_at_places(gateway),
        *CONSOLE_ATTEMPTS,
        *attempts_at_the_record(gateway.settings.audit_dir),
    )
    return tuple(attempt for attempt in attempts if not attempt.module or find_spec(attempt.module) is not None)


def _sql_attempts() -> tuple[RefusalCheck, ...]:
    if find_spec("sqlglot") is None:
        return ()
    from toolgen.quality.doctor.sql_trials import SQL_ATTEMPTS  # noqa: PLC0415 - behind an extra

    return tuple(SQL_ATTEMPTS)


async def _denied(gateway: Gateway) -> str:
    """Call a tool of the catalog as a principal without any rule."""
    tool = next(iter(gateway.manifest.tools), "toolgen-doctor")
    async with gateway.short_session():
        envelope = await gateway.call(tool, {}, principal=_NOBODY)
    code = envelope.error.code if envelope.error is not None else ""
    if code not in {"unknown_tool", "forbidden"}:
        return f"{tool} was not forbidden to a principal no rule should speak of: {code or envelope.status}"
    entries = entry_at(gateway.settings.audit_dir, envelope.meta.audit_seq or 0)
    written = [entry for entry in entries if entry.get("call_id") == envelope.call_id]
    return "" if written and written[0].get("status") == "refused" else "the refusal is not in the audit log"


async def _denied_in_a_twin(gateway: Gateway) -> str:
    """Make the denied call in a gateway with the same catalog and policy, but with stub services and no files of the project."""
    with tempfile.TemporaryDirectory(prefix="toolgen-doctor-") as name:
        folder = Path(name)
        settings = replace(
            gateway.settings,
            path=folder / gateway.settings.path.name,
            audit_dir=folder / "var" / "audit",
            audit=AuditSettings(),  # not signed and not sent
            state=None,
        )
        stand_in = {source: Echo() for source in gateway.settings.sources}
        twin = Gateway(settings=settings, manifest=gateway.manifest, policy=gateway.policy, stand_in=stand_in)
        return await _denied(twin)


class ReferenceReport(Struct, frozen=True, kw_only=True):
    """Secret reference: its place, the reference itself, and why it cannot be resolved ("" if it can)."""

    where: str
    reference: str
    fault: str

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {"where": self.where, "reference": self.reference, "ok": not self.fault, "fault": self.fault}


async def check_references(gateway: Gateway) -> tuple[ReferenceReport, ...]:
    """Resolve every reference, as a call would, without keeping the values. No token is requested."""
    egress = (gateway.policy.egress,)

    def permit(to: Destination) -> Verdict:
        return permitted(egress, to if to.service == "proxy" else replace(to, service="keys"))

    secrets = SecretResolver(permit=permit)
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
    for name, webhook in gateway.settings.notify.webhooks.items():
        yield from _inside(f"notify.{name}.url", webhook.url)
        for secret in webhook.secrets:
            yield from _inside(f"notify.{name}.secret", secret)
        if webhook.authorities is not None:
            yield from _inside(f"notify.{name}.authorities", webhook.authorities)
    for stream in gateway.settings.audit.streams:
        yield from _inside(f"audit.stream.{stream.name}", stream.secrets)
    if gateway.settings.telemetry is not None:
        for name, header in gateway.settings.telemetry.headers:
            yield from _inside(f"telemetry.headers.{name}", header)
    proxy = gateway.policy.egress.proxy
    if proxy is not None and proxy.password:
        yield from _inside("egress.proxy", parse_reference(proxy.password))
    for index, entry in enumerate(gateway.policy.assignments):
        yield from _inside(f"credentials[{index}].use", entry.use)


def _inside(where: str, value: object) -> Iterator[tuple[str, SecretReference]]:
    if isinstance(value, SecretReference):
        if value.provider != "literal":
            yield where, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _inside(f"{where}.{key}", inner)


class DoctorReport(Struct, frozen=True, kw_only=True):
    """Findings of `toolgen doctor`."""

    trials: tuple[Trial, ...]
    databases: tuple[DatabaseReport, ...]
    references: tuple[
        ReferenceReport, ...
    ] = ()  # not a fault of the project: secrets may exist only where the gateway runs
    webhooks: tuple[str, ...] = ()  # not a fault of a guard: missing notifications
    streams: tuple[str, ...] = ()  # not a fault of a guard: entries that destinations of the record lack
    uncallable: tuple[str, ...] = ()  # not a fault of a guard: tools that cannot be called, by name and count
    rotated: tuple[Rotated, ...] = ()  # refresh tokens that replaced configured ones

    @property
    def ok(self) -> bool:
        return all(trial.ok for trial in self.trials) and all(one.ok for one in self.databases)

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "ok": self.ok,
            "trials": [trial.to_dict() for trial in self.trials],
            "databases": [one.to_dict() for one in self.databases],
            "references": [one.to_dict() for one in self.references],
            "uncallable": list(self.uncallable),
            "rotated": [{"source": one.source, "host": one.host, "at": timestamp(one.at)} for one in self.rotated],
            "webhooks": list(self.webhooks),
            "streams": list(self.streams),
        }


async def examine(gateway: Gateway) -> DoctorReport:
    """Examine a project whose gateway is not open. Faults of a database are part of the report, not exceptions."""
    trials = await run_trials(gateway)
    return DoctorReport(
        trials=tuple(trials),
        databases=tuple(_databases(gateway)),
        references=await check_references(gateway),
        uncallable=(*_uncallable(gateway), *await _function_faults(gateway)),
        rotated=rotated_tokens(gateway.settings.oauth_dir),
        webhooks=await webhook_faults(gateway.settings, gateway.policy),
        streams=stream_faults(gateway.settings),
    )


def _databases(gateway: Gateway) -> Iterator[DatabaseReport]:
    for name, source in gateway.settings.sources.items():
        connector, info = CONNECTORS[source.config.kind], gateway.manifest.sources[name]
        if (report := connector.examine_account(source, info, gateway.policy.sql.get(name))) is not None:
            yield report


def _uncallable(gateway: Gateway) -> Iterator[str]:
    """Yield the tools that can never be called, and those without the needed credentials in toolgen.yaml and in the policy."""
    for name, source in gateway.settings.sources.items():
        schemes = gateway.manifest.sources[name].security_schemes
        tools = [tool for tool in gateway.manifest.tools.values() if tool.source == name]
        told = uncallable(tools, schemes, gateway.manifest.problems)
        yield from (problem.message for problem in told)
        given = [entry.use for entry in gateway.policy.assignments if entry.source == name]
        auth = set(with_headers({}, source.auth)[1]).union(*given)
        for wanted, names in unpaid(tools, auth).items():
            yield f"{len(names)} tools of {name} need a credential for {wanted[:200]}, and none is configured: {names_in_short(names)}"


async def _function_faults(gateway: Gateway) -> tuple[str, ...]:
    """Return the functions that a call cannot reach: their module cannot be imported, or their code has changed since the build."""
    found: list[str] = []
    runtime = make_function_runtime()
    for name, source in gateway.settings.sources.items():
        config = source.config
        if not CONNECTORS[config.kind].runs_functions:
            continue
        tools = [tool for tool in gateway.manifest.tools.values() if tool.source == name]
        try:
            async with runtime.time_limit(_IMPORT_S):
                changed = await CONNECTORS[config.kind].changed_functions(config, tools, runtime)
        except ToolgenError as error:
            found.append(f"{len(tools)} tools of {name} cannot be called: {error.message}")
            continue
        except TimeoutError:
            found.append(f"{len(tools)} tools of {name} cannot be called: importing {config.location} does not end")
            continue
        if changed:
            found.append(
                f"{len(changed)} tools of {name} are not what was built, run `toolgen build`: {names_in_short(changed)}"
            )
    return tuple(found)
