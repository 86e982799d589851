"""Command `toolgen audit show`: an entry, or a call with a sentence for each of its entries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import click

from toolgen.audit.index.index import FoundEntry, RecordIndex
from toolgen.audit.index.row import RecordFilter
from toolgen.cli.audit_filters import dir_option, filled
from toolgen.cli.audit_times import Zone, shown_time, tz_option
from toolgen.cli.options import as_json, config
from toolgen.cli.output import cell, print_json, print_table, printable
from toolgen.core.errors import AuditError

__all__ = ["show", "story_of"]

_MAX_DIGITS = 12
_MAX_ENTRIES = 1000  # maximum entries of one call
_BEGINNING = re.compile("(?:call_)?([0-9a-f]{4,24})")  # first digits of a call's id


@click.command("show")
@click.argument("which", metavar="ID|SEQ")
@click.option("--stream", default="", help="Stream, if several have an entry of this number.")
@tz_option
@dir_option
@as_json
@config
def show(which: str, stream: str, zone: Zone, directory: Path | None, as_json: bool, config_path: str) -> None:
    """Show the call ID with all of its entries in the log, or the entry with the number SEQ.

    ID is that of `toolgen audit list`, a complete id, or its first digits, if they are unique.
    """
    with filled(directory, config_path) as index:
        call_id = "" if stream and which.isdigit() else _call_of(index, which)
        numbered = not call_id and which.isascii() and which.isdigit()
        if numbered and (len(which) > _MAX_DIGITS or not int(which)):
            raise click.BadParameter(f"{which[:20]} is not a number of an entry", param_hint="SEQ")
        if numbered:
            entries = [_the_one(index.find(int(which), stream), int(which))]
        else:
            found = index.entries(RecordFilter(call_id=call_id or which, stream=stream), limit=_MAX_ENTRIES).rows
            entries = sorted(found, key=lambda entry: (entry["time"], entry["seq"]))
            if not entries:
                raise AuditError(
                    f"there is no call {printable(which[:60])}", suggestion="`toolgen audit list` shows ids"
                )
        if as_json:
            print_json(entries[0] if numbered else entries)
            return
        if not numbered:
            click.echo("\n".join(story_of(entries, zone)))
        for number, entry in enumerate(entries):
            if number or not numbered:
                click.echo()
            print_table(("field", "value"), [(name, cell(value)) for name, value in entry.items()])


def _call_of(index: RecordIndex, which: str) -> str:
    """Return the id of the call with this prefix; "" if there is none. Digits alone may be a number of an entry instead."""
    digits = _BEGINNING.fullmatch(which)
    found = index.call_ids(f"call_{digits[1]}") if digits else []
    if len(found) > 1:
        raise AuditError(
            f"several calls begin with {which}", suggestion="give more of the id, as `toolgen audit list` does"
        )
    if found and which.isdigit() and len(which) <= _MAX_DIGITS and index.find(int(which)):
        raise AuditError(
            f"{which} is both the number of an entry and the beginning of a call's id",
            suggestion=f"write call_{which} for the call, or --stream for the entry",
        )
    return found[0] if found else ""


def _the_one(found: Sequence[FoundEntry], seq: int) -> dict[str, Any]:
    if not found:
        raise AuditError(f"there is no entry {seq}", suggestion="`toolgen audit list` shows the numbers")
    if len(found) > 1:
        streams = ", ".join(f"{printable(one.entry.get('stream'))} ({one.log})" for one in found)
        raise AuditError(f"several streams have an entry {seq}: {streams}", suggestion="name one with --stream")
    (one,) = found
    if not one.checked:
        click.echo(
            f"toolgen: not compared with the log: it is in {printable(one.log)}, which is on another machine, or the index "
            "does not reach this entry",
            err=True,
        )
    return one.entry


def story_of(entries: Sequence[Mapping[str, Any]], zone: Zone = UTC) -> Iterator[str]:
    """Return a line for each entry of a call, oldest first: time and event. Safe for a terminal."""
    caller = next((entry.get("principal") for entry in entries if entry.get("event") == "intent"), None)
    for entry in entries:
        yield printable(f"{shown_time(entry.get('time', ''), zone)}  {_sentence(entry, caller)}")


def _sentence(entry: Mapping[str, Any], caller: object) -> str:
    who, verdict, rule = entry.get("principal"), entry.get("verdict"), entry.get("rule")
    by_rule = f" by the rule {rule}" if rule else ""
    match entry.get("event"):
        case "intent":
            user = f" for {entry['on_behalf_of']}" if entry.get("on_behalf_of") else ""
            return f"{who}{user} calls {entry.get('tool')} {json.dumps(entry.get('arguments', {}), ensure_ascii=False)}"
        case "identity":
            roles = (entry.get("arguments") or {}).get("roles") or ()
            return f"{who} has the roles {', '.join(map(str, roles))}" if roles else f"{who} has no role"
        case "decision" if who != caller:
            note = (entry.get("arguments") or {}).get("note")
            return f"{who} answers: {verdict}{f', {json.dumps(note, ensure_ascii=False)}' if note else ''}"
        case "decision":
            return f"the policy says {verdict}{by_rule}"
        case "attempt":
            return f"attempt {entry.get('attempts')} failed: {entry.get('code')}"
        case "question":
            asked = (entry.get("arguments") or {}).get("method")
            return f"the server requests {asked} of the caller: {verdict}{by_rule}"
        case "answer":
            return f"the caller answers: {entry.get('status')}"
        case "subscription":
            return f"{who} listens to {(entry.get('arguments') or {}).get('uri')}"
        case "outcome":
            took = entry.get("duration_ms")
            ended = [f"{entry.get('code') or entry.get('status')}"]
            ended += [f"{verdict}{by_rule}"] if verdict else []
            ended += [f"{entry['attempts']} attempts"] if entry.get("attempts", 1) != 1 else []
            ended += [f"{entry['rows']} rows"] if "rows" in entry else []
            ended += [f"{took:.0f} ms"] if isinstance(took, int | float) else []
            return f"ended: {', '.join(ended)}"
        case event:
            return f"{event}{f': {status}' if (status := entry.get('status')) else ''}"
