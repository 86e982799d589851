"""What a gateway asks of a policy as a whole, once: who may sign in, what it prefers when something is down, what it counts."""

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
    """Whether the author of the policy prefers calls to certainty while Redis cannot be reached: then they go by what was paused when it
    last could."""
    return bool(policy.limits) and all(limit.on_failure == "share" for limit in policy.limits)


def asks_history(rule: Rule) -> bool:
    """Whether a rule reads earlier calls."""
    return any(expression.asks_history for expression in (rule.when, *rule.bind.values()) if expression is not None)
