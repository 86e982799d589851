"""What a reviewer looks for, as conditions on the index: values are always parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from toolgen.audit.index.row import STREAM_BITS
from toolgen.errors import ConfigError

__all__ = ["NONE", "STATUSES", "VERDICTS", "Condition", "Filter", "call_conditions", "entry_conditions"]

STATUSES = ("ok", "error", "refused", "pending", "cancelled", "unfinished")
VERDICTS = ("allow", "ask", "deny")
_CALL = ("principal", "on_behalf_of", "verdict", "rule", "status", "code", "session", "call_id")
_MAX_LENGTH = 1000

Condition = tuple[str, Sequence[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What calls, or the entries of calls, have to be like; what is empty asks for nothing. Times are microseconds since the epoch.

    `tool` may be a glob (`shop__*`). `text` is looked for in everything an entry says but its chain, letter case aside, without an index:
    in as many entries as the others leave. `event`, `stream` and `before`, a number that theirs are below, are of entries alone.
    """

    since: int | None = None
    until: int | None = None
    principal: str = ""
    on_behalf_of: str = ""
    tool: str = ""
    verdict: str = ""
    rule: str = ""
    status: str = ""
    code: str = ""
    session: str = ""
    call_id: str = ""
    text: str = ""
    event: str = ""
    stream: str = ""
    before: int | None = None

    def __post_init__(self) -> None:
        for name in (*_CALL, "tool", "text", "event", "stream"):
            if len(getattr(self, name)) > _MAX_LENGTH:
                raise ConfigError(f"{name}: more than {_MAX_LENGTH} characters are looked for in vain")

    @property
    def of_calls(self) -> bool:
        """Whether it asks for something that only a call has, so that entries are found by their calls."""
        return any(getattr(self, name) for name in (*_CALL[:-1], "tool", "text"))


NONE = Filter()


def call_conditions(wanted: Filter, dialect: str) -> list[Condition]:
    """On `audit_calls c`."""
    found: list[Condition] = [(f"c.{name} = ?", (_kept(value),)) for name in _CALL if (value := getattr(wanted, name))]
    found += _between("c.time", wanted)
    if any(sign in wanted.tool for sign in "*?"):
        found.append(_glob("c.tool", wanted.tool, dialect))
    elif wanted.tool:
        found.append(("c.tool = ?", (_kept(wanted.tool),)))
    if wanted.text:
        condition, values = _holds("t.body", wanted.text, dialect)
        found.append((f"EXISTS (SELECT 1 FROM audit_entries t WHERE t.call_id = c.call_id AND {condition})", values))
    return found


def entry_conditions(wanted: Filter) -> list[Condition]:
    """On `audit_entries e`: what entries have besides what their calls have."""
    found = _between("e.time", wanted)
    if wanted.call_id:
        found.append(("e.call_id = ?", (_kept(wanted.call_id),)))
    if wanted.event:
        found.append(("e.event = ?", (_kept(wanted.event),)))
    if wanted.stream:
        found.append(("e.stream IN (SELECT id FROM audit_streams WHERE name = ?)", (_kept(wanted.stream),)))
    if wanted.before is not None:
        found.append((f"e.id - e.stream * {1 << STREAM_BITS} < ?", (wanted.before,)))
    return found


def _between(column: str, wanted: Filter) -> list[Condition]:
    found: list[Condition] = []
    if wanted.since is not None:
        found.append((f"{column} >= ?", (wanted.since,)))
    if wanted.until is not None:
        found.append((f"{column} < ?", (wanted.until,)))
    return found


def _glob(column: str, pattern: str, dialect: str) -> Condition:
    pattern = _kept(pattern)
    if dialect == "sqlite":
        return f"{column} GLOB ?", (pattern.replace("[", "[[]"),)
    return f"{column} LIKE ? ESCAPE '!'", (_plain(pattern).replace("*", "%").replace("?", "_"),)


def _holds(column: str, text: str, dialect: str) -> Condition:
    """A text as JSON has it within a string: quotes and control characters are escaped there."""
    written = orjson.dumps(_kept(text)).decode()[1:-1]
    like = "LIKE" if dialect == "sqlite" else "ILIKE"
    return f"{column} {like} ? ESCAPE '!'", (f"%{_plain(written)}%",)


def _plain(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _kept(text: str) -> str:
    """As `index_row` keeps texts."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
