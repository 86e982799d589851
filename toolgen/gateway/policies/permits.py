"""Verdicts of several policies on one connection: the strictest counts, and a proxy of any of them is used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from toolgen.connectors.executor import Destination, Permit
from toolgen.model.verdict import Allow, Verdict
from toolgen.policy.access import strictest
from toolgen.policy.egress import Egress, destination_of

__all__ = ["destination", "operator_permit", "permitted"]


def destination(policies: Sequence[Egress], url: str, source: str) -> Verdict:
    """Return the verdict on the destination of a call, as far as its name decides."""
    return strictest(destination_of(egress, url, source) for egress in policies)


def permitted(policies: Sequence[Egress], destination: Destination, source: str = "") -> Verdict:
    """Return the verdict on one connection for a source."""
    verdicts = [_opened(egress, destination, source) for egress in policies]
    verdict = strictest(verdicts)
    if isinstance(verdict, Allow) and verdict.proxy is None:
        return next((one for one in verdicts if isinstance(one, Allow) and one.proxy is not None), verdict)
    return verdict


def operator_permit(egress: Egress) -> Permit:
    """Return the permit of commands that fetch what toolgen.yaml names. The operator chose the places, so the policy closes none of them;
    connections go through its proxy."""

    def permit(to: Destination) -> Verdict:
        if to.service in {"database", "proxy"}:
            return _opened(egress, to, "")
        return egress.routed(Allow(rule="build"), to.host, to.port, to.address, proxied=to.proxied)

    return permit


def _opened(egress: Egress, to: Destination, source: str) -> Verdict:
    verdict = _check(egress, to)(to.host, to.port, to.address, source=source)
    if to.service in {"database", "proxy"}:  # neither is reached through a proxy
        return verdict
    return egress.routed(verdict, to.host, to.port, to.address, proxied=to.proxied)


def _check(egress: Egress, to: Destination) -> Callable[..., Verdict]:
    match to.service:
        case "http":
            return egress.check
        case "redirect":
            return egress.check_redirect
        case "database":
            return egress.check_database
        case "keys":
            return egress.check_keys
        case "proxy":
            return egress.check_proxy
        case _:
            assert_never(to.service)
