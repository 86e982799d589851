"""Rules for tools that let an agent do or see more than its owner expects."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

from toolgen.connectors.naming import words
from toolgen.model.tool import Effect
from toolgen.quality.lint.rule import Level, LintRule, LintTool, RuleHit, SourceView

__all__ = ["SOURCE_SAFETY", "TOOL_SAFETY"]

_DESTROYS = frozenset(
    {
        "delete",
        "remove",
        "destroy",
        "drop",
        "purge",
        "wipe",
        "erase",
        "truncate",
        "revoke",
        "terminate",
        "expunge",
        "uninstall",
        "kill",
    }
)
_CHANGES = _DESTROYS | frozenset(
    {
        "create",
        "add",
        "insert",
        "update",
        "set",
        "edit",
        "modify",
        "patch",
        "replace",
        "send",
        "post",
        "publish",
        "submit",
        "upload",
        "run",
        "trigger",
        "start",
        "stop",
        "restart",
        "reset",
        "cancel",
        "approve",
        "reject",
        "enable",
        "disable",
        "activate",
        "deactivate",
        "register",
        "subscribe",
        "unsubscribe",
        "transfer",
        "pay",
        "charge",
        "refund",
        "book",
        "rename",
        "move",
        "merge",
        "import",
        "sync",
    }
)
_CREDENTIAL = re.compile(
    r"(?:^|[_.-])(?:password|passwd|pwd|secret|client_?secret|api_?key|access_?key|private_?key|(?:access|auth|bearer|refresh|session)_?token|"
    r"authorization|jwt|credentials?)\Z|^token\Z",
    re.IGNORECASE,
)
_PRIVATE = re.compile(
    r"(?:^|_)(?:password|passwd|pwd|passphrase|hash|salt|secret|token|api_?key|private_?key|ssn|social_security\w*|tax_id|iban|"
    r"card_?(?:no|number)|credit_card\w*|cvv|cvc|pin|birth_?date|date_of_birth|dob|email|phone\w*)\Z",
    re.IGNORECASE,
)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def _verbs(view: LintTool) -> list[str]:
    """Return the first words of a tool's name, the author's own before the build's."""
    local = view.tool.name.removeprefix(f"{view.tool.source}__")
    names = [view.written.identifier, local] if view.written is not None else [local]
    return [found[0].lower() for name in names if (found := words(name))]


def _changing_read(view: LintTool) -> Iterator[RuleHit]:
    http = view.tool.http
    if view.tool.effect is Effect.READ and http is not None:
        verb = next((verb for verb in _verbs(view)[:1] if verb in _CHANGES), "")
        if verb:
            yield RuleHit(message=f"is a {http.method}, and so may be called freely, but is named {verb!r}")


def _hidden_destruction(view: LintTool) -> Iterator[RuleHit]:
    if view.tool.effect is Effect.WRITE:
        verb = next((verb for verb in _verbs(view) if verb in _DESTROYS), "")
        if verb:
            yield RuleHit(message=f"is named {verb!r} but counts as a write, which needs nobody's approval")


def _credential_arguments(view: LintTool) -> Iterator[RuleHit]:
    for argument in view.arguments:
        if _CREDENTIAL.search(argument.name):
            message = f"{argument.name!r} asks the agent for a credential"
            yield RuleHit(message=message, origin=argument.origin, about=argument.name)


def _open_writes(view: LintTool) -> Iterator[RuleHit]:
    binding = view.tool.http
    if binding is not None and view.tool.effect is not Effect.READ:
        if not binding.security:
            yield RuleHit(message=f"changes something ({binding.method}) and asks for no credential")
        elif () in binding.security:
            yield RuleHit(
                message=f"changes something ({binding.method}) and its credential is optional", about="optional"
            )


def _plain_servers(view: SourceView) -> Iterator[RuleHit]:
    uses = Counter(server for tool in view.tools if tool.tool.sends_request for server in tool.tool.binding.addresses)
    for server, count in sorted(uses.items()):
        parts = urlsplit(server)
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            yield RuleHit(message=f"{count} tool(s) may be sent unencrypted to {server[:200]}", about=server)
    for name, scheme in view.info.security_schemes.items():
        if scheme.token_url.startswith("http://"):
            yield RuleHit(message=f"the scheme {name[:80]!r} fetches its tokens unencrypted", about=f"scheme {name}")


def _private_columns(view: SourceView) -> Iterator[RuleHit]:
    for table in view.info.database.tables if view.info.database else ():
        for column in table.columns:
            if _PRIVATE.search(column.name):
                name = f"{table.name}.{column.name}"
                yield RuleHit(message=f"{name} looks like a secret or a person's data", origin=name)


def _no_keys(view: SourceView) -> Iterator[RuleHit]:
    for table in view.info.database.tables if view.info.database else ():
        if not table.view and not table.primary_key:
            yield RuleHit(
                message=f"the table {table.name} has no primary key, so a row cannot be named", origin=table.name
            )


TOOL_SAFETY: tuple[LintRule[LintTool], ...] = (
    LintRule(
        id="read-changes",
        level=Level.WARNING,
        advice="Make it a POST, or mark it with x-toolgen-effect: write (or `tools:` in toolgen.yaml).",
        check=_changing_read,
    ),
    LintRule(
        id="write-destroys",
        level=Level.WARNING,
        advice="Mark it with x-toolgen-effect: destructive (or `tools:` in toolgen.yaml), so that a person is asked.",
        check=_hidden_destruction,
    ),
    LintRule(
        id="credential-argument",
        level=Level.WARNING,
        advice="Describe it as a security scheme: the gateway then sends it, and the model never sees it.",
        check=_credential_arguments,
    ),
    LintRule(
        id="write-without-security",
        level=Level.WARNING,
        advice="Add a security requirement, or confirm with a baseline that the system is open on purpose.",
        check=_open_writes,
    ),
)

SOURCE_SAFETY: tuple[LintRule[SourceView], ...] = (
    LintRule(
        id="server-unencrypted",
        level=Level.WARNING,
        advice="Use https, or set `server:` in toolgen.yaml.",
        check=_plain_servers,
    ),
    LintRule(
        id="column-private",
        level=Level.WARNING,
        advice="Leave it out of the policy's `columns:`, or list it under `redact:`.",
        check=_private_columns,
    ),
    LintRule(
        id="table-without-key",
        level=Level.INFO,
        advice="Add a primary key, or say in the policy which columns to ask by.",
        check=_no_keys,
    ),
)
