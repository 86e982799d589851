"""The `approvals:` section of a policy."""

from __future__ import annotations

from toolgen.errors import PolicyError
from toolgen.policy.approval import LONGEST_S, Approval
from toolgen.policy.duration import parse_duration
from toolgen.policy.shapes import ApprovalShape
from toolgen.strict_yaml import Document

__all__ = ["read_approval"]


def read_approval(document: Document, given: ApprovalShape) -> Approval:
    """What stands below `approvals`. Raises `PolicyError`."""
    expires = parse_duration(given.expires)
    if expires is None or not 1 <= expires <= LONGEST_S:
        raise PolicyError(
            f"expires: must be like 30m or 1h, from 1s to {LONGEST_S / 3600:g}h",
            where=document.where("approvals", "expires"),
        )
    if given.elicitation not in {"", "allow", "deny"}:
        raise PolicyError("elicitation: takes allow or deny", where=document.where("approvals", "elicitation"))
    # Who names approvers wants them asked, and not whoever sits before the agent.
    elicits = given.elicitation == "allow" or (not given.elicitation and not given.approvers)
    return Approval(roles=frozenset(given.approvers), expires_s=expires, elicits=elicits)
