"""Policy that an edit narrows: new grants wait, and removed grants end at once.

Rules, conditions, SQL and addresses are evaluated by both policies, and the strictest verdict counts (`NarrowedAccess`). Everything else is
combined here if that is simple and safe; other parts stay unchanged until the whole edit takes effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec.structs import replace

from toolgen.core.canonical import digest
from toolgen.model.call import Principal
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.model.verdict import Allow, Deny
from toolgen.policy.access import NOWHERE, UNKNOWN, Access, Decision, EvaluationContext, Rule, strictest
from toolgen.policy.credentials import (
    ApiKey,
    CertificateRule,
    IssuerEntry,
    PolicyCredentials,
    PrincipalEntry,
    TokenRule,
)
from toolgen.policy.disclosure import Disclosure
from toolgen.policy.document.approvals import Approval
from toolgen.policy.document.policy import Policy
from toolgen.policy.limits import Limit
from toolgen.policy.redact import UnredactedArguments
from toolgen.policy.toolsets import NO_TOOLSETS, Toolset
from toolgen.policy.value_tokens import TokenGrant

if TYPE_CHECKING:
    from toolgen.model.sql_scope import SqlScope, TableScope

__all__ = ["NarrowedAccess", "narrowed", "narrowed_credentials"]


class NarrowedAccess(Access):
    """Rules of one policy together with those of another (`other`); `counterpart` finds the same principal there. A refusal by either
    policy is a refusal. Arguments are bound by the first."""

    def __init__(
        self,
        rules: Iterable[Rule],
        tools: Mapping[str, Tool],
        toolsets: Mapping[str, Toolset] = NO_TOOLSETS,
        *,
        other: Access,
        counterpart: Callable[[Principal], Principal | None],
        before: Access | None = None,
    ) -> None:
        super().__init__(rules, tools, toolsets, before=before)
        self._other, self._counterpart = other, counterpart

    def visible(self, principal: Principal, tool: Tool) -> bool:
        """Return True if both policies show the tool."""
        if not super().visible(principal, tool):
            return False
        there = self._counterpart(principal)
        return there is not None and self._other.visible(there, tool)

    def asks(self, principal: Principal, tool: Tool) -> bool:
        """Return True if a person may have to approve calls by either policy."""
        if super().asks(principal, tool):
            return True
        there = self._counterpart(principal)
        return there is not None and self._other.asks(there, tool)

    def settled(self, principal: Principal, tool: Tool) -> Allow | None:
        """Return None: no call is decided before it is made."""
        return None

    def judge(
        self, principal: Principal, tool: Tool, arguments: JsonObject, circumstances: EvaluationContext = NOWHERE
    ) -> Decision:
        """Return the strictest verdict of both policies."""
        own = super().judge(principal, tool, arguments, circumstances)
        if isinstance(own.verdict, Deny):
            return own
        there = self._counterpart(principal)
        if there is None:
            return replace(own, verdict=UNKNOWN)
        edited = self._other.judge(there, tool, arguments, circumstances)
        return replace(own, verdict=strictest((own.verdict, edited.verdict)))


def narrowed(before: Policy, after: Policy) -> Policy:
    """Return the earlier policy without the grants that the later one lacks. Its rules stay, and so do SQL scopes that are not simply
    narrower; they are evaluated together with the later ones."""
    if before.digest == after.digest:  # only other keys
        return replace(
            before,
            credentials=narrowed_credentials(before.credentials, after.credentials),
            keys_digest=digest([before.keys_digest, after.keys_digest]),
        )
    scopes = {name: _scope(scope, after.sql[name]) for name, scope in before.sql.items() if name in after.sql}
    return replace(
        before,
        digest=digest([before.digest, after.digest]),
        keys_digest=digest([before.keys_digest, after.keys_digest]),
        credentials=narrowed_credentials(before.credentials, after.credentials),
        limits=_limits(before.limits, after.limits),
        sql=MappingProxyType(scopes),
        approval=_approval(before.approval, after.approval),
        sensitive=tuple(dict.fromkeys((*before.sensitive, *after.sensitive))),
        plain=_plain(before.plain, after.plain),
        redactions=(*before.redactions, *(one for one in after.redactions if one not in before.redactions)),
        token_grants=tuple(
            one for one in before.token_grants if any(_alike(one, other) for other in after.token_grants)
        ),
        role_grants=tuple(one for one in before.role_grants if one in after.role_grants),
        disclosures=_disclosures(before.disclosures, after.disclosures),
        files=MappingProxyType({"before": dict(before.files), "after": dict(after.files)}),
    )


def narrowed_credentials(before: PolicyCredentials, after: PolicyCredentials) -> PolicyCredentials:
    """Return the earlier credentials without principals, issuers, keys and tokens that the later ones lack, and with the later
    revocations. Roles and attributes stay."""
    principals = {
        name: _entry(entry, after.principals[name])
        for name, entry in before.principals.items()
        if name in after.principals
    }
    issuers = {
        name: narrowed_issuer
        for name, entry in before.issuers.items()
        if name in after.issuers and (narrowed_issuer := _issuer(entry, after.issuers[name])) is not None
    }
    return replace(
        before.without(after, None), principals=MappingProxyType(principals), issuers=MappingProxyType(issuers)
    )


def _entry(before: PrincipalEntry, after: PrincipalEntry) -> PrincipalEntry:
    if before is after or before == after:
        return before
    keys = {key.sha256: key for key in after.keys}
    return replace(
        before,
        keys=tuple(_key(key, keys[key.sha256]) for key in before.keys if key.sha256 in keys),
        acts_for=before.acts_for & after.acts_for,
        token=_token(before.token, after.token) if before.subject == after.subject else None,
        certificate=_certificate(before.certificate, after.certificate),
    )


def _key(before: ApiKey, after: ApiKey) -> ApiKey:
    ends = [key.expires for key in (before, after) if key.expires is not None]
    return replace(before, expires=min(ends) if ends else None)


def _issuer(before: IssuerEntry, after: IssuerEntry) -> IssuerEntry | None:
    token = _token(before.token, after.token)
    return None if token is None else replace(before, token=token)


def _token(before: TokenRule | None, after: TokenRule | None) -> TokenRule | None:
    if before is None or after is None or (before.issuer, before.jwks) != (after.issuer, after.jwks):
        return None
    return replace(
        before,
        audience=before.audience & after.audience,
        algorithms=before.algorithms & after.algorithms,
        scopes=before.scopes | after.scopes,
        sign_in=before.sign_in & after.sign_in,
    )


def _certificate(before: CertificateRule | None, after: CertificateRule | None) -> CertificateRule | None:
    if before is None or after is None or before == after:
        return before if before == after else None
    fingerprints = before.fingerprints & after.fingerprints
    return CertificateRule(fingerprints=fingerprints) if fingerprints else None


def _limits(before: tuple[Limit, ...], after: tuple[Limit, ...]) -> tuple[Limit, ...]:
    """Return the limits from before, each in its new form if that is not looser, and the limits that are new."""
    edited = {limit.id: limit for limit in after}
    kept = tuple(
        edited[limit.id] if limit.id in edited and _is_less(edited[limit.id], limit) else limit for limit in before
    )
    known = {limit.id for limit in before}
    return (*kept, *(limit for limit in after if limit.id not in known))


def _is_less(limit: Limit, than: Limit) -> bool:
    def same(one: Limit) -> object:
        return one.per, one.cost, bool(one.burst), one.on_failure, one.tools

    places, before = limit.concurrency, than.concurrency
    return (
        same(limit) == same(than)
        and limit.per_second <= than.per_second
        and limit.burst <= than.burst
        and limit.wait_s <= than.wait_s
        and (before == 0 or 0 < places <= before)
    )


def _alike(one: TokenGrant, other: TokenGrant) -> bool:
    return (one.tools, one.said()) == (other.tools, other.said())


def _disclosures(before: tuple[Disclosure, ...], after: tuple[Disclosure, ...]) -> tuple[Disclosure, ...]:
    """Return the disclosures from before that still exist, at any place."""
    kept = {(one.roles, one.tools) for one in after}
    return tuple(one for one in before if (one.roles, one.tools) in kept)


def _approval(before: Approval, after: Approval) -> Approval:
    return replace(
        before,
        roles=before.roles & after.roles,
        expires_s=min(before.expires_s, after.expires_s),
        elicits=before.elicits and after.elicits,
        quorum=max(before.quorum, after.quorum),
        escalate_to=before.escalate_to & after.escalate_to,
        remember=before.remember if before.remember == after.remember else None,
    )


def _plain(
    before: tuple[UnredactedArguments, ...] | None, after: tuple[UnredactedArguments, ...] | None
) -> tuple[UnredactedArguments, ...] | None:
    """Return the paths of plain arguments, if only listed ones are plain; None if everything is plain that is not sensitive."""
    if before is None or after is None:
        return before if after is None else after
    return tuple(one for one in before if one in after)


def _scope(before: SqlScope, after: SqlScope) -> SqlScope:
    """Return the later scope if it is simply narrower or equal."""
    sizes = ("max_rows", "max_bytes", "max_cell_bytes", "timeout_s", "max_changes")
    narrower = (
        all(getattr(after, name) <= getattr(before, name) for name in sizes)
        and after.functions <= before.functions
        and all(
            name in before.tables and _is_within(table, before.tables[name]) for name, table in after.tables.items()
        )
    )
    return after if narrower else before


def _is_within(table: TableScope, of: TableScope) -> bool:
    return (
        _fewer(table.columns, of.columns)
        and of.rows in {None, table.rows}
        and all(table.masks.get(name) == mask for name, mask in of.masks.items())
        and table.writes <= of.writes
        and _fewer(table.writable, of.writable)
        and table.cascades <= of.cascades
        and table.samples in {"", of.samples}
        and table.unsampled >= of.unsampled
    )


def _fewer(some: tuple[str, ...] | None, than: tuple[str, ...] | None) -> bool:
    return than is None or (some is not None and set(some) <= set(than))
