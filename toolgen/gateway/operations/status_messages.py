"""Messages for the caller of a stored call: who has to approve it, what it waits for, or that it is running."""

from __future__ import annotations

from toolgen.gateway.approvals.approvers import in_words
from toolgen.model.device import deferred
from toolgen.model.excerpt import bounded
from toolgen.model.result import Error
from toolgen.model.waiting import reads_end
from toolgen.state.invocations import AccountNeed, Invocation

__all__ = ["account_error", "approval_error", "status_error", "suspension_error"]


def status_error(known: Invocation, where: str) -> Error:
    """Return the error for the caller of a call that has not ended. `where` is the place at which people are asked for approvals."""
    if known.questions:
        return _question_error(known)
    match known.kind, known.status:
        case "approval", "pending":
            return approval_error(known, where)
        case "approval", "approved" | "running":
            return _agreed(known)
        case "account", "approved":
            return account_error(known)
        case "workflow", "approved":
            return suspension_error(known)
        case "device", "pending":
            return deferred(known.id, known.rule)
        case "device", "running":
            return _answered(known)
        case _:
            return _carried_out(known)


def approval_error(known: Invocation, where: str) -> Error:
    """Return the error of a call that waits for people: who has to approve it and, if the policy states it, where; never how to approve."""
    several = len(known.approval.needs) > 1 or any(need.quorum > 1 for need in known.approval.needs)
    return Error(
        code="approval_required",
        message=f"{in_words(known.approval.needs)} {'have' if several else 'has'} to approve this call{f' ({where})' if where else ''}",
        suggestion=f"do not make it again: it is executed after the approval, and {reads_end(known.id)}; tell the user that it waits",
        rule=known.rule,
    )


def suspension_error(known: Invocation) -> Error:
    """Return the error of a call that waits for calls that it made."""
    waits = known.workflow.waits
    return Error(
        code="deferred",
        message=f"it waits for {len(waits)} of its steps that a person has to approve: {bounded(', '.join(waits), 400)}",
        suggestion=f"do not make it again: it continues automatically, and {reads_end(known.id)}",
        rule=known.rule,
    )


def account_error(known: Invocation) -> Error:
    """Return the error of a call that waits until its person has linked an account."""
    need = known.account or AccountNeed()
    page, named = need.page, f" named {need.name}" if need.name else ""
    more = " again, with more rights," if need.scopes else " again, to authenticate anew," if need.since else ""
    where = f"on this page, signed in as themselves: {page}" if page else "with: toolgen accounts link"
    return Error(
        code="authorization_required",
        message=f"the person has to link an account{named}{more} for this call first, {where}",
        suggestion="show the person the link, and do not make the call again: it continues automatically after that, and "
        f"{reads_end(known.id)}; nothing was sent",
        help_url=page,
        rule=known.rule,
    )


def _question_error(known: Invocation) -> Error:
    count = len(known.questions)
    return Error(
        code="input_required",
        message=f"this call asks its caller {count} question{'' if count == 1 else 's'} before it goes on",
        suggestion=f"answer what it asks, and do not make it again: {reads_end(known.id)}",
        rule=known.rule,
    )


def _agreed(known: Invocation) -> Error:
    message = "a person approved this call; it is being executed"
    suggestion = f"do not make it again: {reads_end(known.id)}"
    return Error(code="approval_required", message=message, suggestion=suggestion, rule=known.rule)


def _answered(known: Invocation) -> Error:
    return Error(code="deferred", message="the user's device has answered; the call is about to end", rule=known.rule)


def _carried_out(known: Invocation) -> Error:
    return Error(
        code="deferred",
        message="this call is being executed",
        suggestion=f"do not make it again: {reads_end(known.id)}",
        rule=known.rule,
    )
