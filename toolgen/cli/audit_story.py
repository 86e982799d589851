"""`toolgen audit show`: an entry, or a call as a reviewer tells it, a sentence for each entry that it left on record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from toolgen.audit.index.index import FoundEntry
from toolgen.audit.index.row import RecordFilter
from toolgen.cli.audit_reports import dir_option, filled
from toolgen.cli.options import as_json, config
from toolgen.cli.output import cell, print_json, print_table, printable
from toolgen.core.errors import AuditError

__all__ = ["show", "story_of"]

_MAX_DIGITS = 12
_MAX_ENTRIES = 1000  # of one call
_SECONDS_END = 19  # of a time in RFC 3339, without its fraction


@click.command("show")
@click.argument("which", metavar="SEQ|CALL_ID")
@click.option("--stream", default="", help="Which stream, where several have an entry of this number.")
@dir_option
@as_json
@config
def show(which: str, stream: str, directory: Path | None, as_json: bool, config_path: str) -> None:
    """Show the entry with the number SEQ, or what became of the call CALL_ID, with every entry of it, as it is in the log."""
    numbered = which.isascii() and which.isdigit()
    if numbered and (len(which) > _MAX_DIGITS or not int(which)):
        raise click.BadParameter(f"{which[:20]} is no number of an entry", param_hint="SEQ")
    with filled(directory, config_path) as index:
        if numbered:
            entries = [_the_one(index.find(int(which), stream), int(which))]
        else:
            found = index.entries(RecordFilter(call_id=which, stream=stream), limit=_MAX_ENTRIES).rows
            entries = sorted(found, key=lambda entry: (entry["time"], entry["seq"]))
            if not entries:
                raise AuditError(
                    f"there is no call {printable(which[:60])}", suggestion="`toolgen audit tail` shows ids"
                )
        if as_json:
            print_json(entries[0] if numbered else entries)
            return
        if not numbered:
            click.echo("\n".join(story_of(entries)))
        for number, entry in enumerate(entries):
            if number or not numbered:
                click.echo()
            print_table(("field", "value"), [(name, cell(value)) for name, value in entry.items()])


def _the_one(found: Sequence[FoundEntry], seq: int) -> dict[str, Any]:
    if not found:
        raise AuditError(f"there is no entry {seq}", suggestion="`toolgen audit list` shows the numbers")
    if len(found) > 1:
        streams = ", ".join(f"{printable(one.entry.get('stream'))} ({one.log})" for one in found)
        raise AuditError(f"several streams have an entry {seq}: {streams}", suggestion="name one with --stream")
    (one,) = found
    if not one.checked:
        click.echo(
            f"toolgen: not held against the log: it is in {printable(one.log)}, and either that is another machine's, or the index "
            "does not reach this entry",
            err=True,
        )
    return one.entry


def story_of(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A line for each entry of a call, oldest first: when (UTC), and what happened. Safe for a terminal."""
    caller = next((entry.get("principal") for entry in entries if entry.get("event") == "intent"), None)
    for entry in entries:
        when = str(entry.get("time", ""))[:_SECONDS_END].replace("T", " ")
        yield printable(f"{when}  {_sentence(entry, caller)}")


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
