"""Refusal by a part of the SQL guard; `guard` converts it to a `Deny`, and no other code handles it."""

from __future__ import annotations

from typing import NoReturn

from toolgen.model.excerpt import bounded
from toolgen.model.verdict import Deny

__all__ = ["StatementRefusal", "refuse", "shown"]

_MAX_NAME_LENGTH = 64


class StatementRefusal(Exception):  # noqa: N818  a verdict on its way, not an error
    """Statement that is not understood or not allowed. `rule` is the id after `sql:` in the verdict."""

    def __init__(self, rule: str, reason: str, suggestion: str) -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason
        self.suggestion = suggestion

    def verdict(self) -> Deny:
        """Return the refusal as a verdict with code `sql_refused` and a suggestion."""
        return Deny(rule=f"sql:{self.rule}", code="sql_refused", reason=self.reason, suggestion=self.suggestion)


def refuse(rule: str, reason: str, suggestion: str) -> NoReturn:
    """Refuse the statement. Raises `StatementRefusal`."""
    raise StatementRefusal(rule, reason, suggestion)


def shown(name: str) -> str:
    """Return a name of a statement, bounded and printable, for a message."""
    return "".join(character if character.isprintable() else "?" for character in bounded(name, _MAX_NAME_LENGTH))
