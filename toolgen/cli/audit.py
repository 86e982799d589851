"""`toolgen audit`: the record, read and verified."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from toolgen.audit.find import find_value
from toolgen.audit.keys import public_keys
from toolgen.audit.proof import prove as prove_entry
from toolgen.audit.proof import verify_proof
from toolgen.audit.verify import Report
from toolgen.audit.verify import verify as verify_log
from toolgen.cli.audit_export import export
from toolgen.cli.audit_index import index
from toolgen.cli.audit_keys import keys
from toolgen.cli.audit_stats import stats
from toolgen.cli.audit_views import cell, list_calls, show, tail
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table, printable
from toolgen.cli.progress import portion
from toolgen.cli.reconcile import reconcile
from toolgen.settings import load as load_settings

_FOUND = ("stream", "seq", "time", "event", "call_id", "principal", "on_behalf_of", "tool")


def _directory(directory: str | None, config_path: str) -> Path:
    return Path(directory) if directory else load_settings(config_path).audit_dir


_dir_option = click.option("--dir", "directory", metavar="DIR", help="The log's directory; the project's by default.")


@click.group()
def command() -> None:
    """Read and verify the record of every call."""


@command.command("verify")
@click.argument("proof", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--key",
    "key_paths",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, path_type=Path),
    help="A public key that counts, or a folder of them; several times for several. Those beside the log by default.",
)
@click.option(
    "--checkpoints",
    "kept",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="Checkpoints that were kept elsewhere: a file, or a folder of them.",
)
@_dir_option
@as_json
@config
def verify(
    proof: Path | None,
    key_paths: tuple[Path, ...],
    kept: tuple[Path, ...],
    directory: str | None,
    as_json: bool,
    config_path: str,
) -> None:
    """Verify every entry of the log offline; exit 1 and name each fault when it is not what was written.

    With PROOF, a file of `toolgen audit prove`, verify that alone: it needs no log, only --key.
    """
    if proof is not None:
        _verify_proof(proof, key_paths, directory, as_json=as_json, config_path=config_path)
        return
    folder = _directory(directory, config_path)
    with portion() as step:
        report = verify_log(
            folder, keys=public_keys(key_paths, folder) if key_paths else None, kept=kept, progress=step
        )
    if as_json:
        print_json(report.to_dict())
    else:
        _tell(report)
    sys.exit(0 if report.ok else 1)


@command.command("prove")
@click.argument("seq", type=click.IntRange(1))
@click.option("--stream", default="gateway-1", show_default=True, help="Which stream the entry is in.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write there, not to standard output."
)
@_dir_option
@config
def prove(seq: int, stream: str, output: Path | None, directory: str | None, config_path: str) -> None:
    """Prove that the entry SEQ is in the log: a small file that `toolgen audit verify FILE --key KEY` accepts without the log."""
    folder = _directory(directory, config_path)
    made = prove_entry(folder, stream, seq, public_keys((), folder))
    if output is None:
        click.echo(made, nl=False)
    else:
        output.write_bytes(made)


@command.command("find")
@click.option(
    "--value",
    help="The value. Without this it is asked for, or read from standard input, and is in no shell's history.",
)
@_dir_option
@as_json
@config
def find(value: str | None, directory: str | None, as_json: bool, config_path: str) -> None:
    """Find the entries that a sensitive value was recorded in, as the digest that stands for it."""
    folder = _directory(directory, config_path)
    if value is None:
        terminal = sys.stdin.isatty()
        value = (
            str(click.prompt("value", hide_input=True, err=True)) if terminal else sys.stdin.read().removesuffix("\n")
        )
    found = list(find_value(folder, value))
    if as_json:
        print_json(found)
    elif found:
        print_table(_FOUND, [[entry.get(column) for column in _FOUND] for entry in found])
    else:
        click.echo("no entry has it")
    sys.exit(0 if found else 1)


for view in (list_calls, show, tail, stats, export, index, keys):
    command.add_command(view)
command.add_command(reconcile)


def _tell(report: Report) -> None:
    for fault in report.faults:
        entry = "" if fault.seq is None else f"entry {fault.seq}: "
        place = f"{fault.file}:{fault.line}" if fault.line else fault.file
        click.echo(f"{printable(place)}: {entry}{fault.kind}: {printable(fault.message)}")
    for name in report.torn:
        click.echo(f"{printable(name)}: its last line was torn by a crash; the gateway cuts it off when it starts")
    for call_id in report.unfinished:
        click.echo(f"unfinished: {printable(call_id)}: its intent is recorded, its ending is not")
    for removal in report.removed:
        gone = f"entries {removal.first} to {removal.size} were removed at {removal.time}, {removal.policy}"
        click.echo(printable(f"{removal.stream}: {gone}, as key {removal.key} signed"))
    for checkpoint in report.signed:
        click.echo(
            printable(
                f"{checkpoint.stream}: key {checkpoint.key} signed {checkpoint.size} entries at {checkpoint.time}"
            )
        )
    for sentence in report.unchecked:
        click.echo(f"not checked: {printable(sentence)}")
    verdict = "intact" if report.ok else f"BROKEN, {len(report.faults)} fault(s)"
    click.echo(f"{report.entries} entries in {report.streams} stream(s): {verdict}")


def _verify_proof(
    path: Path, key_paths: tuple[Path, ...], directory: str | None, *, as_json: bool, config_path: str
) -> None:
    folder = Path() if key_paths else _directory(directory, config_path)
    proven = verify_proof(path.read_bytes(), public_keys(key_paths, folder))
    entry, checkpoint = proven.entry, proven.checkpoint
    if as_json:
        print_json(
            {"ok": True, "entry": entry, "size": checkpoint.size, "time": checkpoint.time, "key": checkpoint.key}
        )
    else:
        print_table(("field", "value"), [(name, cell(value)) for name, value in entry.items()])
        click.echo(
            printable(
                f"proven: entry {entry['seq']} is one of the {checkpoint.size} of {checkpoint.stream} "
                f"that key {checkpoint.key} signed at {checkpoint.time}"
            )
        )
