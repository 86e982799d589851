"""Section `audit:` of toolgen.yaml: the place of the log, the closing of segments, retention, and places for checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from toolgen.audit.config import AuditPlan
from toolgen.config.audit_stream import GivenStream, StreamDestination, read_streams
from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.units import parse_size
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.database_url import Scheme, ServerLocation, parse_location, part_password
from toolgen.model.secret import SecretReference, parse_reference

__all__ = ["AuditSettings", "CheckpointPlace", "GivenAudit", "IndexSettings", "read_audit"]

_AGE = re.compile(r"(\d{1,7})(s|m|h|d)\Z")
_AGES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_AWS = ("access_key_id", "secret_access_key", "session_token")
_MIN_SEGMENT_SIZE = 64 * 1024
_MAX_SEGMENT_SIZE = 4 * 2**30
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_INDEXES = {"postgresql": Scheme("postgres", 5432)}
_OUR_HEADERS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})


class _Segments(msgspec.Struct, forbid_unknown_fields=True):
    size: str = "64MiB"
    age: str = "1d"
    compress: bool = True


class _Keep(msgspec.Struct, forbid_unknown_fields=True):
    age: str | None = None
    size: str | None = None


class _Aws(msgspec.Struct, forbid_unknown_fields=True):
    region: str
    access_key_id: str
    secret_access_key: str
    session_token: str = ""


class _Place(msgspec.Struct, forbid_unknown_fields=True):
    file: str | None = None
    post: str | None = None
    put: str | None = None
    headers: dict[str, str] = {}
    aws: _Aws | None = None


class _Checkpoints(msgspec.Struct, forbid_unknown_fields=True):
    entries: int = 10_000
    every: str = "60s"
    key: str | None = None
    to: list[_Place] = []
    required: str | None = None


class GivenAudit(msgspec.Struct, forbid_unknown_fields=True):
    """`audit:` as it is written."""

    dir: str = "var/audit"
    index: str | None = None
    segments: _Segments = msgspec.field(default_factory=_Segments)
    keep: _Keep = msgspec.field(default_factory=_Keep)
    checkpoints: _Checkpoints = msgspec.field(default_factory=_Checkpoints)
    stream: dict[str, GivenStream] = {}


class CheckpointPlace(Struct, frozen=True, kw_only=True):
    """Place for checkpoints: a folder, or a URL for POST or PUT. Headers are resolved when they are sent.

    With a `region`, requests are signed for S3 with the key that the parts of `aws` make.
    """

    kind: Literal["file", "post", "put"]
    location: str
    headers: Mapping[str, SecretReference]
    region: str = ""
    aws: Mapping[str, SecretReference] = field(default_factory=lambda: MappingProxyType({}))


class AuditSettings(Struct, frozen=True, kw_only=True):
    """Settings of a project's audit log. `plan` has no destinations yet: they are made of `places` once there is a network.

    `index` is None if a file of the project is the index.
    """

    plan: AuditPlan = field(default_factory=AuditPlan)
    places: tuple[CheckpointPlace, ...] = ()
    index: IndexSettings | None = None
    streams: tuple[StreamDestination, ...] = ()


class IndexSettings(Struct, frozen=True, kw_only=True):
    """Database in which several gateways index their logs, and the reference of its password; None without a password."""

    location: ServerLocation
    password: SecretReference | None

    def secret(self) -> str:
        """Return the current password, "" without one. Raises `SecretError`."""
        if self.password is None:
            return ""
        from toolgen.connectors.secrets import SecretResolver  # noqa: PLC0415 - brings asyncio, which reading a project has no use for

        return SecretResolver().resolve(self.password).reveal()


def read_audit(given: GivenAudit, document: YamlDocument, root: Path, warnings: list[str]) -> AuditSettings:
    """Read the section `audit:`. Raises `ConfigError` with file and line; notices for a person are added to `warnings`."""
    checkpoints, segments, keep = given.checkpoints, given.segments, given.keep
    size = _size(segments.size, document.where("audit", "segments", "size"))
    if not _MIN_SEGMENT_SIZE <= size <= _MAX_SEGMENT_SIZE:
        raise ConfigError("size: takes 64KiB to 4GiB", where=document.where("audit", "segments", "size"))
    if not 1 <= checkpoints.entries <= 10_000_000:
        raise ConfigError("entries: takes 1 to 10000000", where=document.where("audit", "checkpoints", "entries"))
    where = ("audit", "checkpoints", "required")
    if checkpoints.required is not None and not checkpoints.to:
        raise ConfigError(
            "required: needs a place under to:, or nothing could ever arrive", where=document.where(*where)
        )
    plan = AuditPlan(
        segment_bytes=size,
        segment_s=_age(segments.age, document.where("audit", "segments", "age")),
        compress=segments.compress,
        keep_s=None if keep.age is None else _age(keep.age, document.where("audit", "keep", "age")),
        keep_bytes=None if keep.size is None else _size(keep.size, document.where("audit", "keep", "size")),
        checkpoint_entries=checkpoints.entries,
        checkpoint_s=_age(checkpoints.every, document.where("audit", "checkpoints", "every")),
        key=None if checkpoints.key is None else root / checkpoints.key,
        required_s=None if checkpoints.required is None else _age(checkpoints.required, document.where(*where)),
    )
    places = tuple(
        _place(place, document.where("audit", "checkpoints", "to", index), root)
        for index, place in enumerate(checkpoints.to)
    )
    index = None if given.index is None else _index(given.index, document.where("audit", "index"), warnings)
    streams = read_streams(given.stream, document, root, warnings)
    return AuditSettings(plan=plan, places=places, index=index, streams=streams)


def _index(text: str, where: str, warnings: list[str]) -> IndexSettings:
    """Return the settings of an index. Raises `ConfigError`, which repeats only the scheme of the location and the names of options."""
    written, password = part_password(text)
    if not written.startswith("postgresql://"):
        raise ConfigError(
            "index: takes a PostgreSQL database; without it, the index is a file of the project",
            where=where,
            suggestion="write it like postgresql://user:${env:NAME}@host/database",
        )
    try:
        location = parse_location(written, _INDEXES)
        reference = parse_reference(password) if password else None
    except (ConfigError, SecretError) as error:
        raise ConfigError(f"index: {error.message}", where=where, suggestion=error.suggestion) from error
    if not isinstance(location, ServerLocation):
        raise ConfigError("index: takes a PostgreSQL database", where=where)
    if reference is not None and reference.provider == "literal":
        warnings.append(f"{where}: a secret is written out; keep it outside with ${{env:NAME}} or ${{file:/path}}")
    return IndexSettings(location=location, password=reference)


def _place(given: _Place, where: str, root: Path) -> CheckpointPlace:
    named = [(kind, text) for kind, text in (("file", given.file), ("post", given.post), ("put", given.put)) if text]
    if len(named) != 1:
        raise ConfigError("takes one of file:, post: and put:", where=where)
    kind, location = named[0]
    if kind == "file":
        if given.headers or given.aws is not None:
            raise ConfigError("headers: and aws: are for post: and put:", where=where)
        return CheckpointPlace(kind="file", location=str(root / location), headers=MappingProxyType({}))
    try:
        parts = urlsplit(location)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.username or parts.password or parts.fragment or (kind == "put" and parts.query):
        raise ConfigError(
            f"{kind}: takes an http(s) URL without credentials in it"
            + (" and without a query" if kind == "put" else ""),
            where=where,
            suggestion='put credentials into headers: {authorization: "Bearer ${env:NAME}"}',
        )
    for name in given.headers:
        if not _HEADER.match(name) or name.lower() in _OUR_HEADERS:
            raise ConfigError(f"'{name[:70]}' is not a header that can be set here", where=where)
    headers = {name.lower(): _reference(text, f"headers.{name}", where) for name, text in given.headers.items()}
    key = given.aws
    written = {} if key is None else {name: getattr(key, name) for name in _AWS if getattr(key, name)}
    return CheckpointPlace(
        kind="post" if kind == "post" else "put",
        location=location,
        headers=MappingProxyType(headers),
        region="" if key is None else key.region,
        aws=MappingProxyType({name: _reference(text, f"aws.{name}", where) for name, text in written.items()}),
    )


def _reference(text: str, name: str, where: str) -> SecretReference:
    try:
        return parse_reference(text)
    except SecretError as error:
        raise ConfigError(f"{name}: {error.message}", where=where, suggestion=error.suggestion) from error


def _size(text: str, where: str) -> int:
    found = parse_size(text)
    if not found:
        raise ConfigError(f"'{text[:40]}' is not a size", where=where, suggestion="write it like 64MiB or 100GiB")
    return found


def _age(text: str, where: str) -> float:
    found = _AGE.match(text)
    if found is None or not int(found[1]):
        raise ConfigError(f"'{text[:40]}' is not a time", where=where, suggestion="write it like 60s, 12h or 400d")
    return int(found[1]) * _AGES[found[2]]
