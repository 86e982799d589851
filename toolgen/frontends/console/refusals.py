"""Refusals in the console: the message that the caller got, made again from the record, and the part of the policy that it is about."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.canonical import decoded, texts
from toolgen.core.errors import ConfigError, PolicyError
from toolgen.core.yaml_file import read
from toolgen.frontends.console.http import Visit
from toolgen.frontends.console.records import Row
from toolgen.gateway.approvals.view import without_bound
from toolgen.model.verdict import Deny
from toolgen.pipeline.stages.access import imagined
from toolgen.policy.explain import SelfTest

__all__ = ["PolicyPart", "RefusalText", "refusal_of"]

_HIDDEN = "hmac-sha256:"
_NAME = r"([^\s'\"]{1,64})"
_COLUMN = re.compile(rf"column {_NAME}(?: of {_NAME})? is not available")
_TABLE = re.compile(rf"(?:table|[A-Z]+ on) {_NAME} is not available")
_MAX_LINES = 30


class PolicyPart(Struct, frozen=True, kw_only=True):
    """Part of the policy by its keys (`sql.crm.tables.customers`), with its file and text. `missing` is True if the policy has
    no such key."""

    keys: tuple[str, ...]
    file: str = ""
    text: str = ""
    missing: bool = False

    @property
    def path(self) -> str:
        """Return the keys, joined by dots."""
        return ".".join(self.keys)


class RefusalText(Struct, frozen=True, kw_only=True):
    """Text of a refusal. `message` is "" if it cannot be made again, and `why` is the reason. `parts` are the deciding parts of the
    policy."""

    message: str = ""
    suggestion: str = ""
    why: str = ""
    column: str = ""
    table: str = ""
    parts: tuple[PolicyPart, ...] = ()


async def refusal_of(visit: Visit, call: Row) -> RefusalText | None:
    """Return what the caller of a call that did not succeed was told, and the part of the policy that decided.

    Message and names are those on record. What is not on record is made again by the policy and the tool of the recorded digests, if they
    are still in force. None if nothing is known.
    """
    message = str(call.get("message") or "")
    made = await _made_again(visit, call)
    if not message:
        return made
    if made is not None and not made.why:
        return replace(made, message=message)
    column, table = _names(message) if call.get("code") == "sql_refused" else ("", "")
    return RefusalText(message=message, column=column, table=table)


async def _made_again(visit: Visit, call: Row) -> RefusalText | None:
    """Return the refusal of a call, made by the policy and the tool of the recorded digests; None if they did not refuse it."""
    if (
        call.get("status") != "refused"
        or call.get("hidden")
        or call.get("code") not in {"sql_refused", "forbidden", "egress_refused"}
    ):
        return None
    tool = visit.gateway.manifest.tools.get(str(call.get("tool", "")))
    arguments = call.get("arguments")
    if call.get("policy_digest") != visit.gateway.policy.digest:
        return RefusalText(why="Another policy was in force then, so its message cannot be made again from the record.")
    if tool is None or tool.digest != call.get("tool_digest"):
        return RefusalText(why="The tool has changed since, so its message cannot be made again from the record.")
    if not isinstance(arguments, Mapping) or any(_HIDDEN in text for text in texts(arguments)):
        return RefusalText(
            why="Sensitive values are recorded as digests, and without them its message cannot be made again."
        )
    try:
        who = visit.gateway.callers.named(str(call.get("principal", "")), str(call.get("on_behalf_of") or "") or None)
    except ConfigError:
        return RefusalText(why="The caller is not in the policy any more, so its message cannot be made again.")
    bound = tuple(map(str, call.get("bound") or ()))
    given = without_bound({name: decoded(item) for name, item in arguments.items()}, bound)
    told = SelfTest(caller=who, tool=tool.name, arguments={}, expect="", rule=None, where="")
    around = imagined(told, visit.gateway.manifest.tools, visit.gateway.policy.labels, visit.context.clock)
    judged = (await visit.gateway.current.compiled_policy.judge(who, tool, given, around)).verdict
    if not isinstance(judged, Deny) or judged.rule != call.get("rule"):
        return RefusalText(
            why="It depended on what came before this call, so its message cannot be made again from the record."
        )
    if call.get("code") != "sql_refused":
        return RefusalText(message=judged.reason, suggestion=judged.suggestion)
    column, table = _names(judged.reason)
    parts = tuple(_parts(visit.gateway.policy.files, tool.source, table))
    folder = visit.gateway.settings.policies
    parts = tuple([await asyncio.to_thread(_with_line, part, folder) for part in parts])
    return RefusalText(message=judged.reason, suggestion=judged.suggestion, column=column, table=table, parts=parts)


def _names(message: str) -> tuple[str, str]:
    """Return the column and the table in a message of the SQL guard."""
    if found := _COLUMN.search(message):
        return found[1], found[2] or ""
    found = _TABLE.search(message)
    return "", found[1] if found else ""


def _parts(files: Mapping[str, Any], source: str, table: str) -> Sequence[PolicyPart]:
    """Return the part of each file about a table, or about the tables of a source; a part with `missing` if no file has it."""
    keys = ["sql", source, "tables"]
    if table:
        keys.append(
            table.rpartition(".")[2] if not any(table in _at(data, keys, {}) for data in files.values()) else table
        )
    found = [
        PolicyPart(keys=tuple(keys), file=file, text=_yaml({keys[-1]: part}))
        for file, data in files.items()
        if (part := _at(data, keys, None)) is not None
    ]
    if found:
        return found
    where = next((file for file, data in files.items() if _at(data, keys[:2], None) is not None), "")
    return [PolicyPart(keys=tuple(keys), file=where, missing=True)]


def _with_line(part: PolicyPart, folder: Path) -> PolicyPart:
    """Return the part with its line, if the file on the disk still has it."""
    if not part.file or part.missing:
        return part
    name = Path(part.file).name
    try:
        document = read(folder / name, f"{folder.name}/{name}", PolicyError)
    except PolicyError:
        return part
    where = document.where(*part.keys)
    return replace(part, file=where or part.file)


def _at(data: Any, keys: Sequence[str], default: Any) -> Any:
    for key in keys:
        if not isinstance(data, Mapping) or key not in data:
            return default
        data = data[key]
    return default if data is None and default is not None else data


def _yaml(part: object) -> str:
    lines = yaml.safe_dump(part, sort_keys=False, allow_unicode=True, width=110).rstrip().split("\n")
    return "\n".join([*lines[:_MAX_LINES], *(["…"] if len(lines) > _MAX_LINES else [])])
