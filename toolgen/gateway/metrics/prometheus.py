"""Metrics of a process in Prometheus's text format: counters and current state; sums for all, names for reviewers."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.metadata import version

from msgspec import Struct

from toolgen.audit.batch import AuditCounts
from toolgen.audit.index.filler import IndexCounts
from toolgen.connectors.health import FunctionCounts, SystemHealth
from toolgen.core.process_table import process_table
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.gateway.metrics.prometheus_format import Family, one_of

__all__ = [
    "DETAILS",
    "MEDIA_TYPE",
    "ApprovalCounts",
    "NotificationCounts",
    "PolicyCounts",
    "Snapshot",
    "StreamCounts",
    "TelemetryCounts",
    "families_of",
    "rendered",
]

MEDIA_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
DETAILS = ("sources", "tools", "principals", "rules")
"""Details with names, for those who may read the audit log."""

_BREAKERS = ("closed", "half-open", "open")
_NO_FUNCTIONS = FunctionCounts()
_NO_AUDIT = AuditCounts()
_NO_INDEX = IndexCounts()


class StreamCounts(Struct, frozen=True, kw_only=True):
    """Entries of the record for one destination: age of the oldest that has not arrived, their number, and how many were set aside because
    the destination refuses them."""

    lag_s: float = 0.0
    behind: int = 0
    set_aside: int = 0


class TelemetryCounts:
    """Numbers of what this worker sent to a collector, failed to send, and dropped, by signal."""

    def __init__(self) -> None:
        self.sent: dict[str, int] = {"logs": 0, "metrics": 0, "traces": 0}
        self.failed: dict[str, int] = dict.fromkeys(self.sent, 0)
        self.dropped: dict[str, int] = {"logs": 0, "traces": 0}


class ApprovalCounts(Struct, frozen=True, kw_only=True):
    """Number of calls that wait for a person, in all workers of the gateway, and the age of the oldest in seconds."""

    waiting: int = 0
    oldest_s: float = 0.0


class NotificationCounts(Struct, frozen=True, kw_only=True):
    """Attempts of this process that reached a webhook, that failed, and after which a message was given up (`buried`). Messages of the
    whole gateway that wait or are dead letters, and the age of the oldest in seconds."""

    delivered: int = 0
    failed: int = 0
    buried: int = 0
    waiting: int = 0
    dead: int = 0
    oldest_s: float = 0.0


class PolicyCounts(Struct, frozen=True, kw_only=True):
    """Number of edits that came into force and of those that could not, the time since when the policy is in force (seconds since the
    epoch), and whether an edit is not in force now. Also the number of temporary roles in force, and how many of them by break-glass."""

    loaded: int = 0
    failed: int = 0
    since: float = 0.0
    unused: bool = False
    roles_given: int = 0
    broken_glass: int = 0


_UNKNOWN = ("error", "outcome_unknown")
_NO_APPROVALS = ApprovalCounts()
_NO_POLICY = PolicyCounts()


class Snapshot(Struct, frozen=True, kw_only=True):
    """State of a process. `systems` are those behind each source with calls, `restarts` the number of restarts of each background task that
    ever failed, `limits_counted` is True if the counter of limits can be reached."""

    ready: bool = True
    warnings: int = 0
    policy_digest: str = ""
    systems: Mapping[str, Sequence[SystemHealth]] = {}
    limit_waiting: int = 0
    limits_counted: bool = True
    approvals: ApprovalCounts = _NO_APPROVALS
    notifications: NotificationCounts | None = None
    telemetry: TelemetryCounts | None = None
    streams: Mapping[str, StreamCounts] = {}
    audit: AuditCounts = _NO_AUDIT
    index: IndexCounts = _NO_INDEX
    policy: PolicyCounts = _NO_POLICY
    functions: FunctionCounts = _NO_FUNCTIONS
    restarts: Mapping[str, int] = {}
    tasks: int | None = None
    state_losses: int = 0


def rendered(metrics: Metrics, state: Snapshot, *, labels: Mapping[str, str], detail: Collection[str] = ()) -> bytes:
    """Return metrics in Prometheus's text format, each with `labels`: the process within a gateway, and the tenant if there are several.
    The log names functions that hang.

    With some of `DETAILS`, their series with names follow.
    """
    lines = [line for family in families_of(metrics, state, detail) for line in family.lines(labels)]
    return ("\n".join(lines) + "\n").encode("utf-8")


def families_of(metrics: Metrics, state: Snapshot, detail: Collection[str] = ()) -> tuple[Family, ...]:
    """Return the metric families of a process, with some of `DETAILS` by name."""
    return (
        *_of_calls(metrics, state.audit.lost),
        *_of_systems([one for systems in state.systems.values() for one in systems]),
        *_of_waiting(metrics, state),
        *_of_notifications(state.notifications),
        *_of_the_record(state.audit),
        *_of_the_index(state.index),
        *_of_the_policy(state.policy),
        *_of_the_gateway(metrics, state),
        *_of_functions(state.functions),
        *_of_the_process(metrics),
        *_of_telemetry(state.telemetry),
        *_of_streams(state.streams),
        *_by_name(metrics, state, detail),
    )


def _of_calls(metrics: Metrics, lost: int) -> Iterator[Family]:
    """Yield metrics of calls of tools, MCP requests, and answers over HTTP. `lost` calls were ended on behalf of workers that died."""
    calls = metrics.calls | {_UNKNOWN: metrics.calls[_UNKNOWN] + lost}
    yield Family(
        "toolgen_calls_total",
        "counter",
        "Calls that ended, by status and code.",
        [({"status": status, "code": code}, count) for (status, code), count in sorted(calls.items())],
    )
    yield one_of("toolgen_calls_in_flight", "gauge", "Calls that have not ended.", metrics.in_flight)
    yield Family(
        "toolgen_call_duration_seconds",
        "histogram",
        "Durations of calls, from the entry of the intent to that of the outcome.",
        [({"status": status}, took) for status, took in sorted(metrics.durations.items())],
    )
    yield Family(
        "mcp_server_operation_duration_seconds",
        "histogram",
        "How long MCP requests took.",
        [
            ({"mcp_method_name": method, "error_type": error}, took)
            for (method, error), took in sorted(metrics.operations.items())
        ],
    )
    yield Family(
        "toolgen_http_responses_total",
        "counter",
        "Answers to requests of any kind.",
        [({"status": str(status)}, count) for status, count in sorted(metrics.responses.items())],
    )


def _of_systems(systems: Sequence[SystemHealth]) -> Iterator[Family]:
    """Yield metrics of all systems behind HTTP sources together."""
    outcomes = [
        ("answered", sum(one.answered for one in systems)),
        ("failed", sum(one.failed for one in systems)),
        ("unreachable", sum(one.unreachable for one in systems)),
    ]
    yield Family(
        "toolgen_upstream_attempts_total",
        "counter",
        "Requests to systems behind sources: answered, failed (5xx or broken off), or never connected.",
        [({"outcome": outcome}, count) for outcome, count in outcomes],
    )
    for name, kind, text, value in (
        ("retries_total", "counter", "Requests that were sent again.", sum(one.retries for one in systems)),
        ("in_flight", "gauge", "Requests under way.", sum(one.in_flight for one in systems)),
        ("crowded_total", "counter", "Calls that got no place in time.", sum(one.crowded for one in systems)),
    ):
        yield one_of(f"toolgen_upstream_{name}", kind, text, value)
    opened = [one.breaker in {"open", "half-open"} for one in systems]
    yield one_of("toolgen_breakers_open", "gauge", "Systems whose circuit breaker is open or half-open.", sum(opened))
    for name, text, value in (
        ("openings_total", "How often a circuit breaker opened.", sum(one.opened for one in systems)),
        ("refusals_total", "Calls that were not sent: the breaker was open.", sum(one.held for one in systems)),
    ):
        yield one_of(f"toolgen_breaker_{name}", "counter", text, value)


def _of_waiting(metrics: Metrics, state: Snapshot) -> Iterator[Family]:
    """Yield metrics of what calls wait for: limits, upstream capacity, approvals."""
    places = sum(one.waiting for systems in state.systems.values() for one in systems)
    yield Family(
        "toolgen_calls_waiting",
        "gauge",
        "Calls that wait for their turn: of a limit, or for a place at a system.",
        [({"reason": "limit"}, state.limit_waiting), ({"reason": "upstream"}, places)],
    )
    limited = sum(count for (_, code), count in metrics.calls.items() if code == "rate_limited")
    yield one_of("toolgen_limit_refusals_total", "counter", "Calls that a limit refused.", limited)
    counted = "1 while what counts limits can be reached (Redis, or the process above the workers)."
    yield one_of("toolgen_limits_counted", "gauge", counted, int(state.limits_counted))
    waiting = "Calls that wait for a person. Every worker reports the same value."
    yield one_of("toolgen_approvals_waiting", "gauge", waiting, state.approvals.waiting)
    oldest = "Age of the oldest of them; 0 if there is none."
    yield one_of("toolgen_approvals_oldest_seconds", "gauge", oldest, state.approvals.oldest_s)


def _of_notifications(sent: NotificationCounts | None) -> Iterator[Family]:
    """Yield metrics of messages to webhooks; nothing if there are none."""
    if sent is None:
        return
    yield Family(
        "toolgen_notifications_total",
        "counter",
        "Attempts to deliver a message to a webhook, by outcome.",
        [
            ({"outcome": "delivered"}, sent.delivered),
            ({"outcome": "failed"}, sent.failed),
            ({"outcome": "dead"}, sent.buried),
        ],
    )
    for name, text, value in (
        ("waiting", "Messages that wait for delivery. Every worker reports the same value.", sent.waiting),
        ("dead", "Dead letters: messages that are not tried again. Every worker reports the same value.", sent.dead),
        ("oldest_seconds", "Age of the oldest waiting message; 0 if there is none.", sent.oldest_s),
    ):
        yield one_of(f"toolgen_notifications_{name}", "gauge", text, value)


def _of_telemetry(counts: TelemetryCounts | None) -> Iterator[Family]:
    """Spans, log lines and metrics for a collector; nothing without one."""
    if counts is None:
        return
    for name, text, found in (
        ("sent", "Spans, log lines and metrics that a collector took, by signal.", counts.sent),
        ("failed", "Attempts to send to a collector that failed, by signal.", counts.failed),
        (
            "dropped",
            "Spans and log lines that were dropped because a collector did not accept them, by signal.",
            counts.dropped,
        ),
    ):
        samples = [({"signal": signal}, count) for signal, count in sorted(found.items())]
        yield Family(f"toolgen_telemetry_{name}_total", "counter", text, samples)


def _of_streams(streams: Mapping[str, StreamCounts]) -> Iterator[Family]:
    """Yield metrics of entries for destinations of the record; nothing without one."""
    if not streams:
        return
    found = sorted(streams.items())
    for name, kind, text, values in (
        (
            "lag_seconds",
            "gauge",
            "Age of the oldest entry that has not reached a receiver; reported by the worker that sends.",
            [one.lag_s for _, one in found],
        ),
        (
            "lag_entries",
            "gauge",
            "Entries that have not reached a receiver; reported by the worker that sends.",
            [one.behind for _, one in found],
        ),
        (
            "set_aside_total",
            "counter",
            "Entries that a receiver refuses for what is in them, and that were set aside.",
            [one.set_aside for _, one in found],
        ),
    ):
        samples = [({"receiver": receiver}, value) for (receiver, _), value in zip(found, values, strict=True)]
        yield Family(f"toolgen_audit_stream_{name}", kind, text, samples)


def _of_the_record(audit: AuditCounts) -> Iterator[Family]:
    """Yield metrics of writing the audit log, and of the delay of signing and delivering checkpoints."""
    yield Family(
        "toolgen_audit_entries_total",
        "counter",
        "Durable entries of the audit log, by event.",
        [({"event": event}, count) for event, count in sorted(audit.entries.items())],
    )
    yield Family(
        "toolgen_audit_left_open",
        "gauge",
        "Calls that had not ended when a gateway that was killed stopped writing this stream, by the effect of their tools.",
        [({"effect": effect}, count) for effect, count in sorted(audit.left_open.items())],
    )
    for name, kind, text, value in (
        ("writes_total", "counter", "Writes of the audit log, each with one sync.", audit.writes),
        ("writing_seconds_total", "counter", "How long these writes took.", audit.writing_s),
        ("waiting", "gauge", "Entries that wait to be written.", audit.waiting),
        ("unsigned", "gauge", "Entries that no checkpoint covers yet; 0 if nothing is signed.", audit.unsigned),
        (
            "undelivered_seconds",
            "gauge",
            "Time for which a checkpoint has been due at a destination outside the log.",
            audit.undelivered_s,
        ),
    ):
        yield one_of(f"toolgen_audit_{name}", kind, text, value)


def _of_the_index(index: IndexCounts) -> Iterator[Family]:
    """Yield metrics of the index."""
    for name, text, value in (
        ("behind", "Entries that the index still lacks during an update; 0 otherwise.", index.behind),
        ("filling_seconds", "Duration of the running update; 0 without one.", index.filling_s),
        ("faults", "Streams of the audit log that it could not read to their end the last time.", index.faults),
    ):
        yield one_of(f"toolgen_audit_index_{name}", "gauge", text, value)


def _of_the_policy(policy: PolicyCounts) -> Iterator[Family]:
    """Yield metrics of edits of the policy."""
    yield Family(
        "toolgen_policy_reloads_total",
        "counter",
        "Edits of the policy or its keys: in force (ok), or not usable (error).",
        [({"status": "ok"}, policy.loaded), ({"status": "error"}, policy.failed)],
    )
    since = "Time since when the policy is in force, in seconds since the epoch."
    yield one_of("toolgen_policy_in_force_since_seconds", "gauge", since, policy.since)
    unused = "1 while an edit of the policy is invalid or incomplete, and an older one stays in force."
    yield one_of("toolgen_policy_edit_unused", "gauge", unused, int(policy.unused))
    given = "Temporary roles in force. Every worker reports the same value."
    yield one_of("toolgen_roles_given", "gauge", given, policy.roles_given)
    broken = "Temporary roles in force that needed two people (break-glass)."
    yield one_of("toolgen_roles_by_break_glass", "gauge", broken, policy.broken_glass)


def _of_the_gateway(metrics: Metrics, state: Snapshot) -> Iterator[Family]:
    end = metrics.certificate_end()
    yield Family(
        "toolgen_tls_certificate_end_seconds",
        "gauge",
        "When the certificate of the gateway's own TLS expires, in seconds since the epoch; absent if there is none.",
        [] if end is None else [({}, end)],
    )
    yield Family(
        "toolgen_background_restarts_total",
        "counter",
        "Background tasks that failed and were started again.",
        [({"task": task}, count) for task, count in sorted(state.restarts.items())],
    )
    yield Family(
        "toolgen_tasks",
        "gauge",
        "Asyncio tasks of the process; absent for a tenant, because all tenants share them.",
        [] if state.tasks is None else [({}, state.tasks)],
    )
    lost = "Times that the shared state was emptied, or reset to an older copy."
    yield one_of("toolgen_state_losses_total", "counter", lost, state.state_losses)
    yield one_of("toolgen_ready", "gauge", "1 while calls are accepted.", int(state.ready))
    yield one_of(
        "toolgen_warnings", "gauge", "Number of warnings while calls are accepted; /readyz lists them.", state.warnings
    )


def _of_functions(counts: FunctionCounts) -> Iterator[Family]:
    for name, kind, text, value in (
        ("threads", "gauge", "Threads taken by functions.", counts.threads),
        ("threads_lost", "gauge", "Threads of functions that were given up but still run.", counts.threads_lost),
        (
            "threads_abandoned_total",
            "counter",
            "Calls that were given up while their function still ran.",
            counts.threads_abandoned,
        ),
        ("loops_lost", "gauge", "Event loops that async functions block permanently.", counts.loops_lost),
        ("loop_blocked_total", "counter", "How often an async function blocked others.", counts.loops_blocked),
    ):
        yield one_of(f"toolgen_function_{name}", kind, text, value)


def _of_the_process(metrics: Metrics) -> Iterator[Family]:
    """Yield the process metrics of Prometheus's own clients, as far as this system has them."""
    cpu_s = time.process_time()
    yield one_of("process_cpu_seconds_total", "counter", "CPU time, of the user and the system.", cpu_s)
    began = "Start time, in seconds since the epoch."
    yield one_of("process_start_time_seconds", "gauge", began, metrics.began)
    if (table := process_table()) is not None:
        yield one_of("process_resident_memory_bytes", "gauge", "Resident memory.", table.memory())
        yield one_of("process_open_fds", "gauge", "Open file descriptors.", table.open_files())


def _by_name(metrics: Metrics, state: Snapshot, detail: Collection[str]) -> Iterator[Family]:
    """Yield the metrics that only reviewers get."""
    if detail:
        labels = {"version": version("toolgen"), "policy": state.policy_digest}
        yield Family("toolgen_info", "gauge", "1, with the version and the policy in force.", [(labels, 1)])
    if "sources" in detail:
        yield from _by_system(state.systems)
    if "tools" in detail:
        yield Family(
            "toolgen_tool_calls_total",
            "counter",
            "Calls that ended, by tool.",
            [
                ({"tool": name, "source": one.source, "status": status}, count)
                for name, one in sorted(metrics.tools.items())
                for status, count in sorted(one.statuses.items())
            ],
        )
        yield Family(
            "toolgen_tool_call_seconds_total",
            "counter",
            "Total duration of calls, by tool.",
            [({"tool": name, "source": one.source}, one.seconds) for name, one in sorted(metrics.tools.items())],
        )
    if "principals" in detail:
        yield Family(
            "toolgen_principal_calls_total",
            "counter",
            "Calls that ended, by principal.",
            [
                ({"principal": name, "status": status}, count)
                for (name, status), count in sorted(metrics.principals.items())
            ],
        )
    if "rules" in detail:
        yield Family(
            "toolgen_rule_refusals_total",
            "counter",
            "Calls that were refused, by rule or limit.",
            [({"rule": rule, "code": code}, count) for (rule, code), count in sorted(metrics.refusals.items())],
        )


def _by_system(found: Mapping[str, Sequence[SystemHealth]]) -> Iterator[Family]:
    systems = [
        ({"source": source, "system": one.system}, one) for source, them in sorted(found.items()) for one in them
    ]
    yield Family(
        "toolgen_system_attempts_total",
        "counter",
        "Requests to each system.",
        [
            ({**labels, "outcome": outcome}, count)
            for labels, one in systems
            for outcome, count in (
                ("answered", one.answered),
                ("failed", one.failed),
                ("unreachable", one.unreachable),
            )
        ],
    )
    yield Family(
        "toolgen_system_breaker",
        "gauge",
        "1 for the current state of the circuit breaker.",
        [
            ({**labels, "state": state}, int(one.breaker == state))
            for labels, one in systems
            for state in _BREAKERS
            if one.breaker != "none"
        ],
    )
    yield Family(
        "toolgen_system_in_flight", "gauge", "Requests under way.", [(labels, one.in_flight) for labels, one in systems]
    )
    yield Family(
        "toolgen_system_waiting",
        "gauge",
        "Calls that wait for a place.",
        [(labels, one.waiting) for labels, one in systems],
    )
