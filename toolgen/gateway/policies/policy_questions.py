"""Properties of a whole policy that a gateway reads once: credentials, behaviour during an outage, and use of call history."""

from __future__ import annotations

from toolgen.config.settings import Settings
from toolgen.policy.credentials import PolicyCredentials
from toolgen.policy.document.policy import Policy
from toolgen.policy.rules import Rule

__all__ = ["asks_history", "credentials_of", "is_tolerant"]


def credentials_of(policy: Policy, settings: Settings) -> PolicyCredentials:
    """Return the credentials that a policy accepts. Id tokens of the gateway's own clients are not bearer tokens: they only sign people in,
    to the console or for a hosted client."""
    credentials = policy.credentials
    for sign_in in (settings.console.sign_in, settings.sign_in):
        if sign_in is not None:
            credentials = credentials.with_console(sign_in.issuer, sign_in.client_id)
    return credentials


def is_tolerant(policy: Policy) -> bool:
    """Return True if calls continue with the last known pauses while Redis is unreachable: every limit has `on_failure: share`."""
    return bool(policy.limits) and all(limit.on_failure == "share" for limit in policy.limits)


def asks_history(rule: Rule) -> bool:
    """Return True if a rule reads earlier calls."""
    return any(expression.asks_history for expression in (rule.when, *rule.bind.values()) if expression is not None)
