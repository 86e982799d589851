"""Policy files as bytes: read together, compared with those in force, and parsed once.

A missing or truncated file may be half of an edit. Only an end marker can tell: in YAML, the line `...` ends a document
(https://yaml.org/spec/1.2.2/#914-explicit-documents), so a file with this last line is complete.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from toolgen.core.errors import PolicyError
from toolgen.core.files import read_file
from toolgen.core.yaml_file import MAX_FILE_SIZE, YamlDocument, parse_bytes
from toolgen.policy.document.incremental_parser import Entries, entries_of, parse_changes

__all__ = ["DocumentCache", "PolicyFiles", "incomplete", "read_files"]

END = b"..."
_VERSIONS = 2  # parsed versions that are cached per file: the one in force, and the pending one


class PolicyFiles(Struct, frozen=True, kw_only=True):
    """Content of each policy file by its name, and the name of their directory."""

    directory: str
    contents: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Return `sha256:…` over names and contents."""
        total = hashlib.sha256()
        for name, content in sorted(self.contents.items()):
            total.update(hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest())
            total.update(hashlib.sha256(content).digest())
        return f"sha256:{total.hexdigest()}"


def read_files(directory: Path) -> PolicyFiles:
    """Read every *.yaml and *.yml of a directory. Raises `PolicyError` for files that cannot be read, and for any other files except notes
    (*.md)."""
    name = f"{directory.name}/"
    try:
        found = sorted(directory.iterdir())
    except FileNotFoundError as error:
        raise PolicyError("there is no such policy directory", where=name) from error
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror or type(error).__name__}", where=name) from error
    contents: dict[str, bytes] = {}
    for path in found:
        if path.name.startswith(".") or path.suffix.lower() == ".md":
            continue
        if path.suffix not in {".yaml", ".yml"} or not path.is_file():
            raise PolicyError(
                "is not a policy file", where=f"{name}{path.name}", suggestion="name it *.yaml, or move it away"
            )
        try:
            contents[path.name] = read_file(path, MAX_FILE_SIZE)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise PolicyError(f"cannot be read: {reason}", where=f"{name}{path.name}") from error
    return PolicyFiles(directory=directory.name, contents=contents)


class _Parsed(Struct):
    """Parsed version of a file. Its `entries` are computed when the file is edited for the first time."""

    content: bytes
    document: YamlDocument
    entries: Entries | None = None


class DocumentCache:
    """Cache of parsed policy files by name and content: after an edit, only the changed entries of the edited file are parsed.

    Several threads may use it. If two need the same content at once, both parse it.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[_Parsed, ...]] = {}

    def documents(self, files: PolicyFiles) -> Iterator[YamlDocument]:
        """Return the parsed files, in the order of their names. Raises `PolicyError` if there are none."""
        if not files.contents:
            raise PolicyError(
                "contains no policy (*.yaml)",
                where=f"{files.directory}/",
                suggestion="write one; docs/reference/policy.md says how",
            )
        for name in [*self._known]:
            if name not in files.contents:
                self._known.pop(name, None)
        for name in sorted(files.contents):
            yield self.document(files, name)

    def document(self, files: PolicyFiles, name: str) -> YamlDocument:
        """Return the parsed document of a file. Raises `PolicyError`."""
        where, content, known = f"{files.directory}/{name}", files.contents[name], self._known.get(name, ())
        found = next((one for one in known if one.content == content), None) or _parse(content, where, known)
        self._known[name] = (found, *(one for one in known if one is not found))[:_VERSIONS]
        return found.document


def _parse(content: bytes, where: str, known: tuple[_Parsed, ...]) -> _Parsed:
    """Parse a file; with `known`, only the changes since then. Raises `PolicyError`."""
    if known and len(content) <= MAX_FILE_SIZE:
        before = known[0]
        if before.entries is None:
            before.entries = entries_of(before.content, before.document)
        if before.entries and (changed := parse_changes(content, where, before.entries)) is not None:
            return _Parsed(content, *changed)
    return _Parsed(content, parse_bytes(content, where, PolicyError))


def incomplete(before: PolicyFiles, now: PolicyFiles) -> tuple[str, ...]:
    """Return the reasons why files may be half of an edit of those before, in sentences: a file is missing and was not renamed, is a
    truncated version of the earlier file, or has lost its end marker."""
    kept, found = set(now.contents.values()), []
    for name, old in sorted(before.contents.items()):
        where, new = f"{before.directory}/{name}", now.contents.get(name)
        if new is None:
            found += [] if old in kept else [f"{where} is gone"]
        elif new == old or _is_whole(new):
            continue
        elif _is_whole(old):
            found.append(f"{where} has lost its end marker (a last line `...`)")
        elif old.startswith(new) and not _says_nothing(new, old[len(new) :]):
            found.append(f"{where} was cut from {len(old)} to {len(new)} bytes")
    return tuple(found)


def _is_whole(content: bytes) -> bool:
    """Return True if the last line that is neither blank nor a comment is the end marker."""
    for line in reversed(content.splitlines()):
        if line.rstrip() and not line.startswith(b"#"):
            return line.rstrip() == END
    return False


def _says_nothing(kept: bytes, rest: bytes) -> bool:
    """Return True if the lost part of a file has only comments and blank lines."""
    if kept and not kept.endswith(b"\n") and not rest.startswith((b"\n", b"\r\n")):
        return False
    return all(not line.strip() or line.startswith(b"#") for line in rest.splitlines())
