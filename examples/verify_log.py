"""Verifies an audit log without toolgen: `python verify_log.py KEY.pub FOLDER`. docs/reference/audit-format.md says what each step is."""

import base64
import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import load_pem_public_key

SCAN = json.JSONDecoder()


def members(line: str) -> dict[str, str]:
    """The members of the outermost object as they are written. A space between them, or a name used twice, is no canonical form."""
    found, at = dict[str, str](), 0
    while line[at:] != "}":
        name, colon = SCAN.raw_decode(line, at + 1)
        end = SCAN.raw_decode(line, colon + 1)[1]
        if line[at] != ("," if found else "{") or line[colon] != ":" or name in found:
            raise ValueError("not canonical")
        found[name], at = line[at + 1 : end], end
    return found


def statements(path: Path, kind: str, key: Any, faults: list[str]) -> Iterator[dict[str, Any]]:
    """What was signed. A line without a good signature of this key is a fault."""
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1] if path.exists() else (), 1):
        try:
            whole = json.loads(line)
            body = json.dumps(whole[kind], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            key.verify(base64.b64decode(whole["signature"], validate=True), f"toolgen audit {kind} v1\n{body}".encode())
            yield whole[kind]
        except (InvalidSignature, ValueError, KeyError, TypeError):
            faults.append(f"{path.name}:{number}: not signed by this key")


def lines(folder: Path, stream: str, faults: list[str]) -> Iterator[tuple[str, bytes]]:
    """The lines of a stream, each with its place: closed segments by their numbers, then the one that is written."""
    for path in [*sorted(folder.glob(f"{stream}.0*.jsonl*")), *folder.glob(f"{stream}.jsonl")]:
        if path.suffix == ".gz" and path.with_suffix("").exists():
            continue  # packing was not finished
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        whole, _, rest = data.rpartition(b"\n")
        torn = rest.rstrip(b"\0")  # zeros are written ahead, and a killed gateway leaves the beginning of a line
        if (rest and path.name != f"{stream}.jsonl") or (torn and (b"\0" in torn or not torn.startswith(b"{"))):
            faults.append(f"{path.name}: bytes that are no entry stand at its end")
        yield from (
            (f"{path.name}:{number}", line) for number, line in enumerate(whole.split(b"\n") if whole else (), 1)
        )


def verify(folder: Path, stream: str, key: Any) -> list[str]:
    """What is wrong with a stream; nothing where it is what was written, as far as its newest checkpoint reaches."""
    faults = list[str]()
    checkpoints = list(statements(folder / f"{stream}.checkpoints", "checkpoint", key, faults))
    removals = list(statements(folder / f"{stream}.removals", "removal", key, faults))
    seq, head = 0, ""
    for place, line in lines(folder, stream, faults):
        try:
            parts = members(line.decode())
            number, prev, own, name = (
                json.loads(parts[it].partition(":")[2]) for it in ("seq", "prev", "hash", "stream")
            )
        except (ValueError, KeyError, IndexError, RecursionError):
            faults.append(f"{place}: no entry")
            continue
        if not seq and any(
            it["size"] > number - 1 or (it["size"], it["head"]) == (number - 1, prev) for it in removals
        ):
            seq, head = number - 1, prev  # what came before was removed, and signed for
        content = "{" + ",".join(text for it, text in parts.items() if it not in {"prev", "hash"}) + "}"
        if (number, prev, name) != (seq + 1, head, stream) or hashlib.sha256(
            (prev + content).encode()
        ).hexdigest() != own:
            faults.append(f"{place}: edited, or not the entry that follows")
        seq, head = number, own
        faults += [
            f"{place}: not what was signed" for it in checkpoints + removals if it["size"] == seq and it["head"] != head
        ]
    if max(it["size"] for it in [*checkpoints, *removals, {"size": seq}]) > seq:
        faults.append(f"{stream}: ends at entry {seq}, but more was signed")
    return faults


if __name__ == "__main__":
    public, folder = load_pem_public_key(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])
    streams = sorted({path.name.split(".")[0] for path in [*folder.glob("*.jsonl*"), *folder.glob("*.checkpoints")]})
    found = [fault for stream in streams for fault in verify(folder, stream, public)]
    print(*found or ["intact"], sep="\n")
    sys.exit(bool(found or not streams))
