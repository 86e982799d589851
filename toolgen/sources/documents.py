"""Reads descriptions of one file or several, within limits and within one folder."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from toolgen.errors import DescriptionError
from toolgen.files import read_file
from toolgen.sources.syntax import LARGEST_DOCUMENT, Repeated, escape, measure, read

__all__ = ["Documents", "UnresolvedRefError", "pointer"]

_MOST_FILES = 500
_LONGEST_REF_CHAIN = 50
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


class UnresolvedRefError(Exception):
    """A `$ref` that leads nowhere, in circles, out of the description's folder or onto the network."""

    def __init__(self, ref: str, reason: str) -> None:
        super().__init__(f"the reference {ref[:200]!r} {reason}")
        self.ref = ref


class Documents:
    """One description and the files it refers to, all below the folder of the first.

    References are written in one form: `#/…` in the first file, `folder/file.yaml#/…`, relative to it, in any other. Files that are
    referred to are rewritten to that form as they are read, so that a reference means the same wherever it is copied to.
    """

    def __init__(self, path: Path) -> None:
        """Raises `DescriptionError` when the file cannot be read or does not hold an object."""
        self._path = _real(path)
        self._folder = self._path.parent
        self._where = path.name
        self._digests: dict[str, bytes] = {}
        self._amendments: dict[str, bytes] = {}
        self.repeated: dict[str, tuple[Repeated, ...]] = {}  # by file, as references name it
        self._lacking = False  # whether a file that was referred to could not be read
        self._files: dict[str, Any] = {}
        self._resolved: dict[str, Any] = {}
        try:
            root = self._load(self._path, "")
        except OSError as error:
            raise DescriptionError(
                f"cannot be read: {error.strerror}", where=str(path), suggestion="check the path in toolgen.yaml"
            ) from error
        if not isinstance(root, dict):
            raise DescriptionError("holds a list, not a description", where=f"{self._where}:1")
        self._files[""] = root
        self.root: Mapping[str, Any] = root

    @property
    def name(self) -> str:
        """The first file's name, for messages."""
        return self._where

    @property
    def digest(self) -> str:
        """`sha256:` over the names and bytes of every file read so far."""
        if len(self._digests) == 1 and not self._amendments:
            return "sha256:" + self._digests[""].hex()
        total = hashlib.sha256()
        for name in sorted(self._digests):
            total.update(name.encode() + b"\0" + self._digests[name])
        for digest in self._amendments.values():
            total.update(b"overlay\0" + digest)
        return "sha256:" + total.hexdigest()

    @property
    def files(self) -> Mapping[str, str]:
        """Every file read so far, as path -> `sha256:…` of its bytes, under each name it was read by."""
        found = {str(self._path): self._digests[""]}
        for name in self._files:
            canonical = _real(self._folder / unquote(name))
            key = canonical.relative_to(self._folder).as_posix() if name else ""
            if key in self._digests:
                found[str(self._folder / unquote(name)) if name else str(self._path)] = self._digests[key]
        found |= self._amendments
        return {path: f"sha256:{digest.hex()}" for path, digest in found.items()}

    @property
    def complete(self) -> bool:
        """Whether every file that was referred to could be read; one that could not may be there tomorrow."""
        return not self._lacking

    def amend(self, root: Mapping[str, Any], amendments: Mapping[str, bytes]) -> None:
        """Puts an amended description in the first file's place, before anything is looked up in it.

        `amendments` are the files that amended it, in order, as path -> SHA-256: they are part of the digest.
        """
        self.root = self._files[""] = root
        self._amendments = dict(amendments)

    def follow(self, node: Any) -> Any:
        """The node itself, or what its `$ref` leads to in the end. Raises `UnresolvedRefError`."""
        ref = ""
        for _ in range(_LONGEST_REF_CHAIN):
            following = node.get("$ref") if isinstance(node, dict) else None
            if not isinstance(following, str):
                return node
            ref = following
            node = self.lookup(ref)
        raise UnresolvedRefError(ref, "leads in circles")

    def lookup(self, ref: str) -> Any:
        """What one reference points at, without following it further. Raises `UnresolvedRefError`."""
        found = self._resolved.get(ref, self)
        if found is self:
            found = self._resolved[ref] = self._lookup(ref)
        return found

    def _lookup(self, ref: str) -> Any:
        name, _, fragment = ref.partition("#")
        if _REMOTE.match(name):
            raise UnresolvedRefError(ref, "is remote, and remote references are not followed")
        node = self._file(name, ref)
        if fragment and not fragment.startswith("/"):
            raise UnresolvedRefError(ref, "is not a JSON pointer")
        for token in fragment.split("/")[1:]:
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and isinstance(node.get("$ref"), str) and key not in node:
                node = self.follow(node)
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(node):
                node = node[int(key[:9])]
            else:
                raise UnresolvedRefError(ref, "points at nothing")
        return node

    def _file(self, name: str, ref: str) -> Any:
        if name in self._files:
            return self._files[name]
        path = _real(self._folder / unquote(name))
        if path == self._path:
            return self._files[""]
        if not path.is_relative_to(self._folder):
            raise UnresolvedRefError(ref, "leads out of the description's folder")
        canonical = path.relative_to(self._folder).as_posix()
        if canonical not in self._files:
            if len(self._files) >= _MOST_FILES:
                raise UnresolvedRefError(ref, f"is one file too many (more than {_MOST_FILES})")
            try:
                self._files[canonical] = self._rewrite(self._load(path, canonical), canonical)
            except OSError as error:
                self._lacking = True
                raise UnresolvedRefError(ref, f"names a file that cannot be read: {error.strerror}") from error
            except DescriptionError as error:
                self._lacking = True
                raise UnresolvedRefError(ref, f"names a file that {error.message}") from error
        self._files[name] = self._files[canonical]
        return self._files[canonical]

    def _load(self, path: Path, name: str) -> Any:
        data = read_file(path, LARGEST_DOCUMENT)
        parsed = read(data, where=name or self._where)
        if name:
            measure(parsed.value, name)  # JSON cannot repeat itself, but it can be deep
        self._digests[name] = hashlib.sha256(data).digest()
        if parsed.repeated:
            self.repeated[name] = parsed.repeated
        return parsed.value

    def _rewrite(self, value: Any, name: str) -> Any:
        if isinstance(value, list):
            return [self._rewrite(item, name) for item in value]
        if isinstance(value, dict):
            return {
                key: self._canonical(item, name)
                if key == "$ref" and isinstance(item, str)
                else self._rewrite(item, name)
                for key, item in value.items()
            }
        return value

    def _canonical(self, ref: str, name: str) -> str:
        target, _, fragment = ref.partition("#")
        if _REMOTE.match(target):
            return ref
        if not target:
            return f"{name}#{fragment}"
        path = (self._folder / name).parent / unquote(target)
        resolved = _real(path)
        if resolved == self._path:
            return f"#{fragment}"
        if not resolved.is_relative_to(self._folder):
            return ref  # refused when it is followed
        return f"{resolved.relative_to(self._folder).as_posix()}#{fragment}"


def pointer(*tokens: str | int) -> str:
    """`#/paths/~1pet/get` for `paths`, `/pet`, `get`."""
    return "#" + "".join(f"/{escape(str(token))}" for token in tokens)


def _real(path: Path) -> Path:
    """As `Path.resolve`, for any name: one that is none, or a loop of links, fails when it is opened, with a sentence of its own."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        return path.absolute()
