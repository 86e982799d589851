"""Properties of a whole policy that a gateway reads once: credentials, behaviour during an outage, and use of call history."""

from __future__ import annotations

from toolgen.config.settings import Settings
from toolgen.policy.credentials import PolicyCredentials
from toolgen.policy.document.policy import Policy
from toolgen.policy.rules import Rule

__all__ = ["asks_history", "credentials_of", "is_tolerant"]


def credentials_of(policy: Policy, settings: Settings) -> PolicyCredentials:
    """The credentials it accepts, those of the console's sign-in among them."""
    sign_in = settings.console.sign_in
    return policy.credentials if sign_in is None else policy.credentials.with_console(sign_in.issuer, sign_in.client_id)


def is_tolerant(policy: Policy) -> bool:
    """Return True if calls continue with the last known pauses while Redis is unreachable: every limit has `on_failure: share`."""
    return bool(policy.limits) and all(limit.on_failure == "share" for limit in policy.limits)


def asks_history(rule: Rule) -> bool:
    """Return True if a rule reads earlier calls."""
    return any(expression.asks_history for expression in (rule.when, *rule.bind.values()) if expression is not None)
