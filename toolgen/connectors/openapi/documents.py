"""Reader of descriptions of one or several files, within limits and within one folder."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import unquote

from toolgen.connectors.pins import digest_of
from toolgen.connectors.references import Remote, UnsafeUrlError, canonical, is_below, joined
from toolgen.connectors.schema_ids import by_pointer, may_name_parts
from toolgen.connectors.syntax import MAX_DOCUMENT_SIZE, Repeated, escape, measure, read
from toolgen.core.errors import DescriptionError
from toolgen.core.files import read_file

__all__ = ["Documents", "LimitError", "UnresolvedRefError", "pointer"]

_MAX_FILES = 20_000
_MAX_TOTAL_SIZE = 256 * 1024 * 1024
_MAX_READING_S = 600.0
_MAX_REF_CHAIN_LENGTH = 50
_MAX_REMOTE = 100
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")
_NO_REMOTE = Remote()
# Keywords whose value is not a schema but an object or a list of schemas, or of names and values.
_CONTAINERS = frozenset(
    {
        *("properties", "patternProperties", "dependentSchemas", "dependentRequired"),
        *("allOf", "anyOf", "oneOf", "prefixItems", "required", "enum"),
    }
)


class UnresolvedRefError(Exception):
    """Reference (`$ref`) without a target, in a circle, out of the description's folder or to the network."""

    code = "unresolved_ref"

    def __init__(self, ref: str, reason: str) -> None:
        super().__init__(f"the reference {ref[:200]!r} {reason}")
        self.ref = ref


class LimitError(UnresolvedRefError):
    """Reference (`$ref`) that is not followed because the description has too many files or is too large."""

    code = "limit"


class Documents:
    """Description and the files it refers to, all below the folder of the first file.

    References have one form: `#/…` in the first file, `folder/file.yaml#/…`, relative to it, in any other. References in other files are
    rewritten to that form as the files are read, so that a reference keeps its meaning in a copy. A remote document is named by its URL,
    and all documents it refers to are remote too: a fetched document cannot refer to a file.
    """

    def __init__(self, path: Path, remote: Remote = _NO_REMOTE) -> None:
        """Read the first file. Raises `DescriptionError` when it cannot be read or does not contain an object."""
        self._path = _real(path)
        self._remote = remote
        self._own_url = _canonical_or_none(remote.base)
        self._pulled: dict[str, str] = {}  # canonical URL -> base URL of its own references
        self._wanted: dict[str, None] = {}
        self._folder = self._path.parent
        self._where = path.name
        self._digests: dict[str, bytes] = {}
        self._amendments: dict[str, bytes] = {}
        self.repeated: dict[str, tuple[Repeated, ...]] = {}  # by file, as references name it
        self._lacking = False  # True if a referenced file could not be read
        self._files: dict[str, Any] = {}
        self._unreadable: dict[str, str] = {}  # reference -> reason of the failed attempt
        self._resolved: dict[str, Any] = {}
        self.opened_objects: dict[tuple[str, str], Any] = {}
        """Objects with their references followed, by kind and reference. They must not be changed."""
        self._sought: set[str] = set()
        self._size = 0
        self._began = monotonic()
        try:
            root = self._load(self._path, "")
        except OSError as error:
            raise DescriptionError(
                f"cannot be read: {error.strerror}", where=str(path), suggestion="check the path"
            ) from error
        if not isinstance(root, dict):
            raise DescriptionError("holds a list, not a description", where=f"{self._where}:1")
        self._files[""] = root
        self.root: Mapping[str, Any] = root

    @property
    def name(self) -> str:
        """Name of the first file, for messages."""
        return self._where

    @property
    def digest(self) -> str:
        """Digest (`sha256:`) over the names and bytes of all files read so far."""
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
        """Return all files read so far, as path -> `sha256:…` of its bytes, under each name it was read by."""
        found = {str(self._path): self._digests[""]}
        for url in self._pulled:
            found[str(self._remote.pins[url].path)] = self._digests[url]
        for name in self._files:
            if name in self._pulled or self._is_remote(name):
                continue
            real = _real(self._folder / unquote(name))
            key = real.relative_to(self._folder).as_posix() if name else ""
            if key in self._digests:
                found[str(self._folder / unquote(name)) if name else str(self._path)] = self._digests[key]
        found |= self._amendments
        return {path: f"sha256:{digest.hex()}" for path, digest in found.items()}

    @property
    def complete(self) -> bool:
        """True if all referenced files could be read. A missing file may exist at the next build."""
        return not self._lacking

    @property
    def references(self) -> tuple[str, ...]:
        """Canonical URLs of the remote documents that were read."""
        return tuple(sorted(self._pulled))

    @property
    def wanted(self) -> tuple[str, ...]:
        """Allowed remote documents that are not pinned."""
        return tuple(sorted(self._wanted))

    def amend(self, root: Mapping[str, Any], amendments: Mapping[str, bytes]) -> None:
        """Replace the first file by an amended description, before any reference in it is resolved.

        `amendments` are the files with the amendments, in order, as path -> SHA-256: they are part of the digest.
        """
        self.root = self._files[""] = root
        self._amendments = dict(amendments)

    def follow(self, node: Any) -> Any:
        """Return the node itself, or the final target of its `$ref`. Raises `UnresolvedRefError`."""
        ref = ""
        for _ in range(_MAX_REF_CHAIN_LENGTH):
            following = node.get("$ref") if isinstance(node, dict) else None
            if not isinstance(following, str):
                return node
            ref = following
            node = self.lookup(ref)
        raise UnresolvedRefError(ref, "leads in circles")

    def opened(self, node: Any) -> Any:
        """Follow a reference, as `follow` does, and merge the keys beside it into the object it leads to, as bundlers do."""
        found = self.follow(node)
        if found is node or not isinstance(found, dict) or len(node) == 1:
            return found
        return {**found, **{key: value for key, value in node.items() if key != "$ref"}}

    def top(self, key: str) -> Any:
        """Return a top-level field of the description with its reference followed, or as written if the reference has no target."""
        written = self.root.get(key)
        try:
            return self.opened(written)
        except UnresolvedRefError:
            return written

    def held(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return a schema with the references of its containers (`properties`, `allOf`, `required` …) followed, or the schema itself if it
        has none.

        Raises `UnresolvedRefError`.
        """
        if _CONTAINERS.isdisjoint(schema):  # The usual case, and this method is called many times for each schema.
            return schema
        references = [
            key
            for key, one in schema.items()
            if type(one) is dict and isinstance(one.get("$ref"), str) and key in _CONTAINERS
        ]
        return schema if not references else {**schema, **{key: self.opened(schema[key]) for key in references}}

    def lookup(self, ref: str) -> Any:
        """Return the target of one reference, without following it further. Raises `UnresolvedRefError`."""
        found = self._resolved.get(ref, self)
        if found is self:
            # A pointer can lead through a node that is itself a reference, and the target of that one through the first node.
            if ref in self._sought or len(self._sought) >= _MAX_REF_CHAIN_LENGTH:
                raise UnresolvedRefError(ref, "leads in circles")
            self._sought.add(ref)
            try:
                found = self._resolved[ref] = self._lookup(ref)
            finally:
                self._sought.discard(ref)
        return found

    def _lookup(self, ref: str) -> Any:
        name, _, fragment = ref.partition("#")
        node = self._pull(name, ref) if self._is_remote(name) else self._file(name, ref)
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
        own_name = path.relative_to(self._folder).as_posix()
        if own_name not in self._files:
            self._check_limits(ref)
            if reason := self._unreadable.get(own_name):
                raise UnresolvedRefError(ref, reason)
            try:
                self._files[own_name] = self._rewrite(self._load(path, own_name), own_name, {})
            except OSError as error:
                self._lacking = True
                self._unreadable[own_name] = f"names a file that cannot be read: {error.strerror}"
                raise UnresolvedRefError(ref, self._unreadable[own_name]) from error
            except DescriptionError as error:
                self._lacking = True
                self._unreadable[own_name] = f"names a file that {error.message}"
                raise UnresolvedRefError(ref, self._unreadable[own_name]) from error
        self._files[name] = self._files[own_name]
        return self._files[own_name]

    def _check_limits(self, ref: str) -> None:
        """Raise `LimitError` if no further file may be read."""
        if len(self._digests) + len(self._unreadable) >= _MAX_FILES:
            raise LimitError(ref, f"is one file too many (more than {_MAX_FILES})")
        if self._size >= _MAX_TOTAL_SIZE:
            raise LimitError(ref, f"is in a file too many: those read have {_MAX_TOTAL_SIZE // 1024**2} MiB already")
        if monotonic() - self._began > _MAX_READING_S:
            raise LimitError(ref, f"is not followed: reading has taken more than {_MAX_READING_S:.0f} s")

    def _is_remote(self, name: str) -> bool:
        return bool(name) and (bool(self._remote.base) or bool(_REMOTE.match(name)))

    def _pull(self, name: str, ref: str) -> Any:
        if name in self._files:
            return self._files[name]
        try:
            url = canonical(joined(self._remote.base, name))
        except UnsafeUrlError as error:
            raise UnresolvedRefError(ref, f"is remote, and {error}") from error
        if url == self._own_url:
            return self._files[""]
        if not is_below(url, self._remote.allowed):
            origin = "/".join(url.split("/")[:3])
            raise UnresolvedRefError(ref, f"is remote; to allow it, list it or `{origin}/` under the source's `refs:`")
        if url not in self._files:
            if len(self._pulled) + len(self._wanted) >= _MAX_REMOTE and url not in self._wanted:
                raise LimitError(ref, f"is one remote document too many (more than {_MAX_REMOTE})")
            self._files[url] = self._pinned(url, ref)
        self._files[name] = self._files[url]
        return self._files[url]

    def _pinned(self, url: str, ref: str) -> Any:
        if reason := self._unreadable.get(url):
            raise UnresolvedRefError(ref, reason)
        pin = self._remote.pins.get(url)
        if pin is None:
            self._wanted[url] = None
            self._lacking = True
            raise UnresolvedRefError(
                ref, "is remote and not pinned; `toolgen build` fetches it where it can be reached"
            )
        place = f"{pin.path.parent.name}/{pin.path.name}"
        try:
            data = read_file(pin.path, MAX_DOCUMENT_SIZE)
        except OSError as error:
            raise DescriptionError(
                f"the pinned copy of {url} cannot be read: {error.strerror}",
                where=place,
                suggestion="restore it from version control, or run `toolgen build` to fetch it again",
            ) from error
        if digest_of(data) != pin.digest:
            raise DescriptionError(
                f"the copy of {url} differs from the pinned content: it was changed since",
                where=place,
                suggestion="restore it from version control, or run `toolgen build --update-pins`",
            )
        self._pulled[url] = pin.base or url
        self._digests[url] = hashlib.sha256(data).digest()
        try:
            return self._rewrite(self._parsed(data, url), url, {})
        except DescriptionError as error:
            self._unreadable[url] = f"leads to what {error.message}"
            raise UnresolvedRefError(ref, self._unreadable[url]) from error

    def _load(self, path: Path, name: str) -> Any:
        data = read_file(path, MAX_DOCUMENT_SIZE)
        self._size += len(data)
        value = self._parsed(data, name)
        self._digests[name] = hashlib.sha256(data).digest()
        return value

    def _parsed(self, data: bytes, name: str) -> Any:
        parsed = read(data, where=name or self._where)
        if name:
            measure(parsed.value, name)  # JSON has no aliases, but it can be nested deeply.
        if parsed.repeated:
            self.repeated[name] = parsed.repeated
        return by_pointer(parsed.value) if may_name_parts(data) else parsed.value

    def _rewrite(self, value: Any, name: str, done: dict[int, Any]) -> Any:
        """Return a copy with every reference in the canonical form. Shared aliases stay shared, because a small file could become a
        large one.
        """
        if not isinstance(value, (dict, list)):
            return value
        built = done.get(id(value))
        if built is None:
            if isinstance(value, list):
                built = [self._rewrite(item, name, done) for item in value]
            else:
                built = {
                    key: self._canonical(item, name)
                    if key == "$ref" and isinstance(item, str)
                    else self._rewrite(item, name, done)
                    for key, item in value.items()
                }
            done[id(value)] = built
        return built

    def _canonical(self, ref: str, name: str) -> str:
        target, _, fragment = ref.partition("#")
        if not target:
            return f"{name}#{fragment}"
        if name in self._pulled:
            return f"{joined(self._pulled[name], target)}#{fragment}"
        if _REMOTE.match(target):
            return ref
        path = (self._folder / name).parent / unquote(target)
        resolved = _real(path)
        if resolved == self._path:
            return f"#{fragment}"
        if not resolved.is_relative_to(self._folder):
            return ref  # refused when it is followed
        return f"{resolved.relative_to(self._folder).as_posix()}#{fragment}"


def pointer(*tokens: str | int) -> str:
    """Return the JSON pointer of steps: `#/paths/~1pet/get` for `paths`, `/pet`, `get`."""
    return "#" + "".join(f"/{escape(str(token))}" for token in tokens)


def _canonical_or_none(url: str) -> str | None:
    try:
        return canonical(url)
    except UnsafeUrlError:
        return None


def _real(path: Path) -> Path:
    """Resolve a path as `Path.resolve` does. An invalid name or a loop of links raises no error here; opening the file fails later."""
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        return path.absolute()
