"""Two programs that share no code with toolgen say of whole and tampered logs what `toolgen audit verify` says."""

from __future__ import annotations

import gzip
import hashlib
import hmac
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from tests.audit.logs import PLAIN, in_segments, with_key, write
from toolgen.audit.entry import hashed
from toolgen.audit.inclusion_proof import prove, verify_proof
from toolgen.audit.keys import public_keys, read_public
from toolgen.audit.verify import verify
from toolgen.core.canonical import canonical

ROOT = Path(__file__).parent.parent.parent
VECTORS = ROOT / "tests" / "fixtures" / "audit-format"
PYTHON, NODE = ROOT / "examples" / "verify_log.py", ROOT / "examples" / "verify_log.mjs"
FIRST, ACTIVE = "gateway-1.000000000001.jsonl", "gateway-1.jsonl"

Tamper = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed log: a closed segment of 10 entries, and one of 10 that is written."""
    folder = tmp_path_factory.mktemp("log")
    with_key(folder)
    in_segments(folder, segments=1, calls=5, plan=PLAIN)
    (folder / "proof.json").write_bytes(prove(folder, "gateway-1", 4, public_keys((), folder)))
    return folder


def changed(name: str, change: Callable[[bytes], bytes]) -> Tamper:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def lines(change: Callable[[list[bytes]], list[bytes]], name: str = FIRST) -> Tamper:
    return changed(name, lambda data: b"".join(change(data.splitlines(keepends=True))))


def packed(folder: Path) -> None:
    path = folder / FIRST
    path.with_name(f"{FIRST}.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()


def written_anew(folder: Path) -> None:
    """Every entry changed, hashed and chained as it should be, by somebody who has no key."""
    head = ""
    for name in (FIRST, ACTIVE):
        made = b""
        for line in (folder / name).read_bytes().splitlines():
            entry = json.loads(line) | {"principal": "eve", "prev": head}
            head = hashed(entry, head)
            made += canonical(entry | {"hash": head}) + b"\n"
        (folder / name).write_bytes(made)


def from_another_key(folder: Path) -> None:
    (folder / "gateway-1.checkpoints").unlink()
    public = next(folder.glob("*.pub"))
    kept = public.read_bytes()
    with_key(folder)
    write(folder, 1, PLAIN)
    public.write_bytes(kept)
    for other in folder.glob("*.pub"):
        if other != public:
            other.unlink()


TAMPERINGS: dict[str, tuple[Tamper, bool]] = {
    "nothing": (lambda folder: None, True),
    "packed": (packed, True),
    "zeros written ahead": (changed(ACTIVE, lambda data: data + bytes(5000)), True),
    "a torn line": (changed(ACTIVE, lambda data: data + b'{"argum' + bytes(5000)), True),
    "one letter": (changed(FIRST, lambda data: data.replace(b'"bot"', b'"bod"', 1)), False),
    "a number": (changed(FIRST, lambda data: data.replace(b'"petId":3', b'"petId":4', 1)), False),
    "a space": (changed(FIRST, lambda data: data.replace(b'":', b'": ', 1)), False),
    "an entry removed": (lines(lambda found: found[:4] + found[5:]), False),
    "the first removed": (lines(lambda found: found[1:]), False),
    "two swapped": (lines(lambda found: [*found[:4], found[5], found[4], *found[6:]]), False),
    "one twice": (lines(lambda found: [*found[:5], found[4], *found[5:]]), False),
    "the end cut off": (lines(lambda found: found[:-3], ACTIVE), False),
    "nothing left": (changed(ACTIVE, lambda data: b""), False),
    "a segment removed": (lambda folder: (folder / FIRST).unlink(), False),
    "junk between": (lines(lambda found: [*found[:3], b"junk\n", *found[3:]]), False),
    "zeros between": (lines(lambda found: [*found[:3], b"\0\0\n", *found[3:]], ACTIVE), False),
    "junk behind": (changed(ACTIVE, lambda data: data + b"\0junk"), False),
    "zeros behind a closed segment": (changed(FIRST, lambda data: data + bytes(10)), False),
    "rewritten": (written_anew, False),
    "another stream": (changed(FIRST, lambda data: data.replace(b'"gateway-1"', b'"gateway-2"')), False),
    "a checkpoint edited": (
        changed("gateway-1.checkpoints", lambda data: data.replace(b'"size":10', b'"size":11')),
        False,
    ),
    "no statement": (changed("gateway-1.checkpoints", lambda data: data + b"{}\n"), False),
    "signed by another key": (from_another_key, False),
}


def node(key: Path, *paths: Path) -> dict[Path, bool]:
    """What the program for Node says of logs and proofs."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    done = subprocess.run(["node", NODE, key, *paths], capture_output=True, text=True, check=False, timeout=120)
    assert done.stderr == ""
    said = done.stdout.splitlines()
    return {path: line == f"{path}: intact" for path, line in zip(paths, said, strict=True)}


def python(key: Path, folder: Path) -> bool:
    """What the program for Python says of a log, run as its readers run it."""
    done = subprocess.run(
        [sys.executable, "-I", PYTHON, key, folder], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stderr == ""
    assert (done.returncode == 0) is (done.stdout == "intact\n")
    return done.returncode == 0


def test_every_tampering_is_found_by_all_three(whole: Path, tmp_path: Path) -> None:
    """One run of Node for all logs, and toolgen's own verdict beside it; the program for Python in this process."""
    sys.path.insert(0, str(PYTHON.parent))
    try:
        import verify_log  # type: ignore[import-not-found]  # noqa: PLC0415 - as a program that stands alone
    finally:
        sys.path.remove(str(PYTHON.parent))
    (public,) = whole.glob("*.pub")
    folders = {name: tmp_path / f"log-{number}" for number, name in enumerate(TAMPERINGS)}
    for name, folder in folders.items():
        shutil.copytree(whole, folder)
        TAMPERINGS[name][0](folder)
    by_node = node(public, *folders.values())
    key = load_pem_public_key(public.read_bytes())
    for name, folder in folders.items():
        expected = TAMPERINGS[name][1]
        assert verify(folder, keys=public_keys([public], folder)).ok is expected, name
        assert (not verify_log.verify(folder, "gateway-1", key)) is expected, name
        assert by_node[folder] is expected, name


def test_the_programs_share_no_code_with_toolgen() -> None:
    for program in (PYTHON, NODE):
        code = [line for line in program.read_text(encoding="utf-8").splitlines() if "import" in line]
        assert not [line for line in code if "toolgen" in line]


def test_the_vectors_hold_for_all_three(tmp_path: Path) -> None:
    (public,) = VECTORS.glob("*.pub")
    report = verify(VECTORS, keys=public_keys([public], VECTORS))
    assert (report.ok, report.entries, report.removed[0].size) == (True, 27, 12)
    assert python(public, VECTORS)
    assert node(public, VECTORS, VECTORS / "proof.json") == {VECTORS: True, VECTORS / "proof.json": True}
    assert verify_proof((VECTORS / "proof.json").read_bytes(), public_keys([public], VECTORS)).entry["seq"] == 30
    lost = shutil.copytree(VECTORS, tmp_path / "lost")
    (lost / "gateway-1.removals").unlink()
    assert (python(public, lost), node(public, lost), verify(lost).ok) == (False, {lost: False}, False)


def test_the_vectors_are_what_the_page_says() -> None:
    vectors = json.loads((VECTORS / "vectors.json").read_text(encoding="utf-8"))
    for case in vectors["canonical"]:
        assert canonical(case["value"]).decode() == case["form"]
    for case in vectors["entries"]:
        assert hashlib.sha256(case["preimage"].encode()).hexdigest() == case["hash"]
        assert case["hash"] in gzip.decompress((VECTORS / "gateway-1.000000000013.jsonl.gz").read_bytes()).decode()
    (public,) = VECTORS.glob("*.pub")
    assert read_public(public).id == vectors["key"]["id"]
    assert hashlib.sha256(bytes.fromhex(vectors["key"]["raw"])).hexdigest()[:32] == vectors["key"]["id"]


@pytest.mark.parametrize("member", ["entry", "path", "checkpoint"])
def test_a_proof_that_was_changed_proves_nothing(whole: Path, tmp_path: Path, member: str) -> None:
    (public,) = whole.glob("*.pub")
    proof = json.loads((whole / "proof.json").read_bytes())
    assert node(public, whole / "proof.json") == {whole / "proof.json": True}
    match member:
        case "entry":
            proof["entry"]["principal"] = "eve"
            proof["entry"]["hash"] = hashed(proof["entry"], proof["entry"]["prev"])
        case "path":
            proof["path"][0] = hmac.new(b"", b"", "sha256").hexdigest()
        case _:
            proof["checkpoint"]["checkpoint"]["size"] += 1
    forged = tmp_path / "proof.json"
    forged.write_text(json.dumps(proof), encoding="utf-8")
    assert node(public, forged) == {forged: False}


def test_more_than_was_signed_for_may_not_be_missing(tmp_path: Path) -> None:
    """A removal lets go of what it names, and of no entry behind that."""
    lost = shutil.copytree(VECTORS, tmp_path / "log")
    (public,) = lost.glob("*.pub")
    (lost / "gateway-1.000000000013.jsonl.gz").unlink()
    verdicts = (verify(lost).ok, python(public, lost), node(public, lost)[lost])
    assert verdicts == (False, False, False)
