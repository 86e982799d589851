"""`approvals:` section of a policy, and its overrides in a rule that asks: approvers and their number, expiry, escalation and
reminders.
"""

from __future__ import annotations

import re

from msgspec import Struct

from toolgen.core.errors import PolicyError
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.verdict import Consent
from toolgen.policy.document.schema import DEFAULT_WAITING, ApprovalShape, ApproversShape, RememberShape

__all__ = [
    "MAX_DURATION_S",
    "MAX_QUORUM",
    "MAX_REMEMBERED_S",
    "NOBODY",
    "Approval",
    "RememberBounds",
    "read_approval",
    "read_consent",
]

MAX_DURATION_S = 7 * 86_400.0
MAX_REMEMBERED_S = 24 * 3600.0
MAX_QUORUM = 10
_ANY = re.compile(r"(\d{1,4}) of \[([^\[\]]+)\]\Z")


class RememberBounds(Struct, frozen=True, kw_only=True):
    """Bounds for remembered approvals: the maximum duration and number of calls, and whether they may cover calls with other arguments."""

    max_s: float
    max_calls: int
    any_arguments: bool


class Approval(Struct, frozen=True, kw_only=True):
    """Roles whose principals may answer, the number that must agree, and the seconds until a question expires.

    `elicits`: an answer of the person at the caller's own client counts, if that client supports elicitation. After `escalate_s` without
    an answer, principals with a role of `escalate_to` may answer too. Without `remember` an answer is for one call. A reminder is sent
    `remind_s` before the expiry. `text` informs callers where approvals are requested. At most `max_waiting` calls of all principals wait.
    """

    roles: frozenset[str]
    expires_s: float
    elicits: bool = False
    quorum: int = 1
    escalate_s: float = 0.0
    escalate_to: frozenset[str] = frozenset()
    remember: RememberBounds | None = None
    remind_s: float = 0.0
    text: str = ""
    max_waiting: int = DEFAULT_WAITING


NOBODY = Approval(roles=frozenset(), expires_s=3600.0, elicits=True)
"""Default for a policy without `approvals:`: only the person at the caller's own client can answer."""


def read_approval(document: YamlDocument, given: ApprovalShape) -> Approval:
    """Read the section `approvals`. Raises `PolicyError`."""
    expires = parse_duration(given.expires)
    if expires is None or not 1 <= expires <= MAX_DURATION_S:
        raise PolicyError(
            f"expires: must be like 30m or 1h, from 1s to {MAX_DURATION_S / 3600:g}h",
            where=document.where("approvals", "expires"),
        )
    if given.elicitation not in {"", "allow", "deny"}:
        raise PolicyError("elicitation: takes allow or deny", where=document.where("approvals", "elicitation"))
    if given.quorum > 1 and not given.approvers:
        raise PolicyError("quorum: needs approvers: too", where=document.where("approvals"))
    escalate_s = 0.0
    if given.escalate is not None:
        escalate_s = _before(given.escalate.after, expires, document.where("approvals", "escalate", "after"), "after")
    remind_s = 0.0
    if given.remind is not None:
        remind_s = _before(given.remind, expires, document.where("approvals", "remind"), "remind")
    # A policy that lists approvers wants those to be asked, not the user of the agent.
    elicits = given.elicitation == "allow" or (not given.elicitation and not given.approvers)
    return Approval(
        roles=frozenset(given.approvers),
        expires_s=expires,
        elicits=elicits,
        quorum=given.quorum,
        escalate_s=escalate_s,
        escalate_to=frozenset() if given.escalate is None else frozenset(given.escalate.to),
        remember=None if given.remember is None else _bounds(document, given.remember),
        remind_s=remind_s,
        text=_text(document, given.text),
        max_waiting=given.max_waiting,
    )


def _text(document: YamlDocument, given: str) -> str:
    found = " ".join(given.split())
    if not found.isprintable():
        raise PolicyError("text: contains an invisible character", where=document.where("approvals", "text"))
    return found


def _bounds(document: YamlDocument, given: RememberShape) -> RememberBounds:
    longest = parse_duration(given.max_duration)
    if longest is None or not 1 <= longest <= MAX_REMEMBERED_S:
        raise PolicyError(
            f"max_duration: must be like 15m or 1h, from 1s to {MAX_REMEMBERED_S / 3600:g}h",
            where=document.where("approvals", "remember", "max_duration"),
        )
    return RememberBounds(max_s=longest, max_calls=given.max_calls, any_arguments=given.any_arguments)


def _before(text: str, expires: float, where: str, name: str) -> float:
    found = parse_duration(text)
    if found is None or not 1 <= found < expires:
        raise PolicyError(f"{name}: must be like 30m, from 1s to less than expires:", where=where)
    return found


def read_consent(rule: str, verdict: str, approvers: ApproversShape | None, where: str) -> Consent | None:
    """Return the approvers that a rule demands for its calls, or None if it names none. Raises `PolicyError`."""
    if approvers is None:
        return None
    if verdict != "ask":
        raise PolicyError(f"rule {rule} does not ask for approval, so approvers: is not allowed", where=where)
    roles, quorum = _any_of(rule, approvers.any, where)
    return Consent(rule=rule, roles=roles, quorum=quorum)


def _any_of(rule: str, text: str, where: str) -> tuple[frozenset[str], int]:
    found = _ANY.match(text.strip())
    roles = frozenset(name.strip() for name in found[2].split(",")) if found else frozenset[str]()
    if found is None or "" in roles or not 1 <= int(found[1]) <= MAX_QUORUM:
        raise PolicyError(
            f'rule {rule}: approvers: any: takes a text like "2 of [lead]", with 1 to {MAX_QUORUM} people',
            where=where,
            suggestion="put this text in quotes if it stands within { }",
        )
    return roles, int(found[1])
