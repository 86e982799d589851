"""Approvers of waiting calls: by role, by rule, and after an escalation; nobody approves twice, or approves their own calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from toolgen.model.call import Principal
from toolgen.policy.document.policy import Policy
from toolgen.state.invocations import ApprovalVote, Invocation, Requirement

__all__ = [
    "answerable",
    "counted",
    "escalated_to",
    "in_words",
    "may_ever_answer",
    "met",
    "open_roles",
    "roles_that_answer",
    "votes_missing",
]


def answerable(policy: Policy, involved: Collection[str], needs: Sequence[Requirement]) -> bool:
    """Return True if the policy has enough people to decide about a call of these parties: its principals, or users of an issuer."""
    return all(_enough(policy, involved, need) for need in needs)


def _enough(policy: Policy, involved: Collection[str], need: Requirement) -> bool:
    roles = frozenset(need.roles) | policy.approval.escalate_to
    if any(not roles.isdisjoint(issuer.all_roles) for issuer in policy.credentials.issuers.values()):
        return True
    people = policy.credentials.principals.values()
    return sum(person.id not in involved and not roles.isdisjoint(person.roles) for person in people) >= need.quorum


def roles_that_answer(policy: Policy) -> frozenset[str]:
    """Return the roles whose principals may answer for some calls: those of the policy, of its rules, and of escalations."""
    rules = (rule.consent.roles for rule in policy.rules if rule.consent is not None)
    return policy.approval.roles.union(policy.approval.escalate_to, *rules)


def open_roles(policy: Policy, known: Invocation, now: float) -> frozenset[str]:
    """Return the roles whose principals may answer for a call now, including those of an escalation that is due."""
    named = frozenset(role for need in known.approval.needs for role in need.roles) or policy.approval.roles
    return named | escalated_to(policy, known.asked, now)


def escalated_to(policy: Policy, asked: float, now: float) -> frozenset[str]:
    """Return the roles of the escalation that is due for a call; none before its time."""
    approval = policy.approval
    escalated = approval.escalate_s > 0 and now >= asked + approval.escalate_s
    return approval.escalate_to if escalated else frozenset()


def counted(policy: Policy, votes: Sequence[ApprovalVote]) -> tuple[ApprovalVote, ...]:
    """Return the votes that still count, each for the remaining roles in which it was given. A vote of a principal that is gone, or has
    none of them, does not count."""
    found = (msgspec.structs.replace(vote, roles=_left(policy, vote)) for vote in votes)
    return tuple(vote for vote in found if vote.roles)


def _left(policy: Policy, vote: ApprovalVote) -> tuple[str, ...]:
    if vote.by.partition(":")[0] in policy.credentials.issuers:
        return vote.roles  # the token's statement at that time is the only source
    person = policy.principals.get(vote.by)
    return () if person is None else tuple(role for role in vote.roles if role in person.roles)


def met(needs: Sequence[Requirement], votes: Sequence[ApprovalVote], others: frozenset[str]) -> bool:
    """Return True if enough distinct people agreed to each requirement, with its roles or with the escalation roles `others`."""
    return all(len(_for(need, others, votes)) >= need.quorum for need in needs)


def votes_missing(policy: Policy, known: Invocation, now: float) -> int:
    """Return how many more people have to agree to a call."""
    votes, others = counted(policy, known.approval.votes), escalated_to(policy, known.asked, now)
    return sum(max(0, need.quorum - len(_for(need, others, votes))) for need in known.approval.needs)


def _for(need: Requirement, others: frozenset[str], votes: Sequence[ApprovalVote]) -> set[str]:
    return {vote.by for vote in votes if not others.union(need.roles).isdisjoint(vote.roles)}


def in_words(needs: Sequence[Requirement]) -> str:
    """Return approvers as text: `a person with the role ops`, `2 people with the role lead or ops`."""
    return " and ".join(
        f"{'a person' if need.quorum == 1 else f'{need.quorum} people'} with the role {' or '.join(need.roles)}"
        for need in needs
    )


def may_ever_answer(policy: Policy, principal: Principal) -> bool:
    """Return True if a principal may decide about calls of others, which needs a role and no delegation."""
    return principal.on_behalf_of is None and not roles_that_answer(policy).isdisjoint(principal.roles)
