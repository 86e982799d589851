"""Report about the account of a database: its rights beyond the policy."""

from __future__ import annotations

from msgspec import Struct

from toolgen.model.database import DialectName

__all__ = ["AccountFinding", "DatabaseReport"]


class AccountFinding(Struct, frozen=True, kw_only=True):
    """Finding about a database account. `too_much` findings make doctor fail; others are notes."""

    code: str
    message: str
    too_much: bool = True
    remedy: str = ""

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        told: dict[str, object] = {
            "level": "too-much" if self.too_much else "note",
            "code": self.code,
            "message": self.message,
        }
        return told | ({"remedy": self.remedy} if self.remedy else {})


class DatabaseReport(Struct, frozen=True, kw_only=True):
    """Report about a source: rights of its account beyond the policy, and SQL that creates an account without them.

    `account` is "" for a file. `public` has the statements that revoke from PUBLIC, because an account cannot lose those rights alone.
    `unread` says why the rights could not be read.
    """

    source: str
    dialect: DialectName
    account: str = ""
    findings: tuple[AccountFinding, ...] = ()
    grants: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    unread: str = ""

    @property
    def ok(self) -> bool:
        return not self.unread and not any(finding.too_much for finding in self.findings)

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "source": self.source,
            "dialect": self.dialect,
            "account": self.account,
            "ok": self.ok,
            "findings": [finding.to_dict() for finding in self.findings],
            "grants": list(self.grants),
            "public": list(self.public),
            "hints": list(self.hints),
            **({"unread": self.unread} if self.unread else {}),
        }
