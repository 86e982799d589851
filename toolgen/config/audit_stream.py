"""Settings under `audit.stream` in toolgen.yaml: destinations that every entry of the record is sent to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.files import read_file
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.secret import SecretReference, parse_reference

__all__ = [
    "GivenStream",
    "HttpTarget",
    "KafkaTarget",
    "OtlpTarget",
    "S3Target",
    "StreamDestination",
    "StreamFormat",
    "StreamTarget",
    "SyslogTarget",
    "read_streams",
]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_SYSLOG = re.compile(r"tls://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?/?\Z")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_OUR_HEADERS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})
_PORT = 6514
_MAX_CA_SIZE = 4 * 1024 * 1024
_KINDS = ("syslog", "http", "otlp", "kafka", "s3")
_BROKER = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?\Z")
_TOPIC = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z")
_KAFKA_PORT = 9092
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()/-]{0,512}\Z")
_MAX_DAYS = 36_500
_AWS = ("access_key_id", "secret_access_key", "session_token")

StreamFormat: TypeAlias = Literal["toolgen", "ocsf"]
"""Form of entries: as they are recorded, or as events of OCSF."""


class _Retention(msgspec.Struct, forbid_unknown_fields=True):
    mode: Literal["governance", "compliance"]
    days: int


SaslMechanism: TypeAlias = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class _Sasl(msgspec.Struct, forbid_unknown_fields=True):
    user: str
    password: str
    mechanism: SaslMechanism = "SCRAM-SHA-512"


class _AccessKey(msgspec.Struct, forbid_unknown_fields=True):
    region: str
    access_key_id: str = ""
    secret_access_key: str = ""
    session_token: str = ""


class _Bucket(msgspec.Struct, forbid_unknown_fields=True):
    bucket: str
    prefix: str = ""
    endpoint: str = ""
    every: str = "60s"
    retention: _Retention | None = None
    aws: _AccessKey | None = None


class GivenStream(msgspec.Struct, forbid_unknown_fields=True):
    """A destination as it is written."""

    syslog: str = ""
    http: str = ""
    otlp: str = ""
    kafka: str = ""
    sasl: _Sasl | None = None
    tls: bool = True
    s3: _Bucket | None = None
    headers: dict[str, str] = {}
    ca: str = ""
    format: StreamFormat = "toolgen"


class SyslogTarget(Struct, frozen=True, kw_only=True):
    """Receiver of syslog over TLS."""

    host: str
    port: int

    @property
    def secrets(self) -> Mapping[str, SecretReference]:
        """Return the references of its credentials: none."""
        return MappingProxyType({})


class HttpTarget(Struct, frozen=True, kw_only=True):
    """URL that lines of JSON are posted to, and headers, which may be secrets."""

    url: str
    headers: Mapping[str, SecretReference] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def secrets(self) -> Mapping[str, SecretReference]:
        """Return the references of its credentials."""
        return self.headers


class OtlpTarget(HttpTarget, frozen=True, kw_only=True):
    """URL that log records are posted to over OTLP/HTTP, with its path."""


class KafkaTarget(Struct, frozen=True, kw_only=True):
    """Topic of Kafka, and brokers that are asked for it first. Without a `password` nobody signs in."""

    brokers: tuple[tuple[str, int], ...]
    topic: str
    tls: bool = True
    mechanism: SaslMechanism = "SCRAM-SHA-512"
    user: str = ""
    password: SecretReference | None = None

    @property
    def secrets(self) -> Mapping[str, SecretReference]:
        """Return the references of its credentials."""
        return MappingProxyType({} if self.password is None else {"password": self.password})


class S3Target(Struct, frozen=True, kw_only=True):
    """Bucket that objects are put into, with a retention of `days` in a mode; "" for none. `aws` are the parts of the access key, empty for
    that of the environment; so is a `region` of ""."""

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    every_s: float = 60.0
    mode: Literal["", "governance", "compliance"] = ""
    days: int = 0
    aws: Mapping[str, SecretReference] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def secrets(self) -> Mapping[str, SecretReference]:
        """Return the references of its credentials."""
        return self.aws


StreamTarget: TypeAlias = SyslogTarget | HttpTarget | OtlpTarget | KafkaTarget | S3Target


class StreamDestination(Struct, frozen=True, kw_only=True):
    """Destination of entries; `authorities` are PEM certificates that are trusted as well, "" for none."""

    name: str
    target: StreamTarget
    authorities: str = ""
    format: StreamFormat = "toolgen"

    @property
    def secrets(self) -> Mapping[str, SecretReference]:
        """Return the references of its credentials, by their names."""
        return self.target.secrets


class _StreamSettings(Struct, frozen=True, kw_only=True):
    """Part of toolgen.yaml about one destination, and the warnings for a person."""

    name: str
    document: YamlDocument
    warnings: list[str]

    def where(self, *path: str) -> str:
        return self.document.where("audit", "stream", self.name, *path)

    def secret(self, text: str, *path: str) -> SecretReference:
        """Return the reference of a secret. Raises `ConfigError`."""
        try:
            found = parse_reference(text)
        except SecretError as error:
            raise ConfigError(
                f"{path[0]}: {error.message}", where=self.where(*path), suggestion=error.suggestion
            ) from None
        if found.provider == "literal":
            self.warnings.append(
                f"{self.where(*path)}: a secret is written out; keep it outside with ${{env:NAME}} or ${{file:/path}}"
            )
        return found


def read_streams(
    given: Mapping[str, GivenStream], document: YamlDocument, root: Path, warnings: list[str]
) -> tuple[StreamDestination, ...]:
    """Read the destinations of a project. Raises `ConfigError` with file and line; notices for a person are added to `warnings`."""
    return tuple(
        _destination(one, _StreamSettings(name=name, document=document, warnings=warnings), root)
        for name, one in given.items()
    )


def _destination(given: GivenStream, place: _StreamSettings, root: Path) -> StreamDestination:
    if not _NAME.match(place.name):
        raise ConfigError(
            f"'{place.name[:60]}' is not a valid name: lower-case letters, digits, _ and -", where=place.where()
        )
    kinds = [kind for kind in _KINDS if getattr(given, kind)]
    if len(kinds) != 1:
        raise ConfigError(f"takes one of {', '.join(f'{kind}:' for kind in _KINDS)}", where=place.where())
    return StreamDestination(
        name=place.name,
        target=_target(kinds[0], given, place),
        authorities=_authorities(given.ca, root, place.where("ca") if given.ca else ""),
        format=given.format,
    )


def _target(kind: str, given: GivenStream, place: _StreamSettings) -> StreamTarget:
    if given.headers and kind not in {"http", "otlp"}:
        raise ConfigError("headers: are for http: and otlp:", where=place.where("headers"))
    if (given.sasl is not None or not given.tls) and kind != "kafka":
        raise ConfigError("sasl: and tls: are for kafka:", where=place.where())
    match kind:
        case "kafka":
            return _kafka(given, place)
        case "syslog":
            return _syslog(given.syslog, place)
        case "http":
            return HttpTarget(url=_url(given.http, "http", place), headers=_headers(given, place))
        case "s3" if given.s3 is not None:
            return _s3(given.s3, place)
        case _:
            return OtlpTarget(url=_url(given.otlp, "otlp", place), headers=_headers(given, place))


def _syslog(text: str, place: _StreamSettings) -> SyslogTarget:
    found = _SYSLOG.match(text)
    port = 0 if found is None else int(found[3] or _PORT)
    if found is None or not 0 < port < 65_536:
        raise ConfigError(
            "syslog: is not an address with the scheme tls",
            where=place.where("syslog"),
            suggestion="write it like tls://logs.example.com:6514",
        )
    return SyslogTarget(host=(found[1] or found[2]).lower(), port=port)


def _kafka(given: GivenStream, place: _StreamSettings) -> KafkaTarget:
    where = place.where("kafka")
    written, _, topic = given.kafka.rpartition("/")
    brokers: list[tuple[str, int]] = []
    for text in written.split(","):
        found = _BROKER.match(text)
        port = 0 if found is None else int(found[3] or _KAFKA_PORT)
        if found is None or not 0 < port < 65_536 or not _TOPIC.match(topic):
            raise ConfigError(
                "kafka: is not an address with a topic",
                where=where,
                suggestion="write it like broker-1.example.com:9092,broker-2.example.com:9092/topic",
            )
        brokers.append(((found[1] or found[2]).lower(), port))
    sasl = given.sasl
    if not given.tls:
        for host, _ in brokers:
            _without_tls(host, "kafka", place)
        if sasl is not None and sasl.mechanism == "PLAIN":
            raise ConfigError("sasl: PLAIN sends the password as it is, which takes tls", where=place.where("sasl"))
    if sasl is not None and not sasl.user:
        raise ConfigError("sasl: user is empty", where=place.where("sasl", "user"))
    return KafkaTarget(
        brokers=tuple(brokers),
        topic=topic,
        tls=given.tls,
        mechanism="SCRAM-SHA-512" if sasl is None else sasl.mechanism,
        user="" if sasl is None else sasl.user,
        password=None if sasl is None else place.secret(sasl.password, "sasl", "password"),
    )


def _s3(given: _Bucket, place: _StreamSettings) -> S3Target:
    where = place.where("s3")
    if not _BUCKET.match(given.bucket) or not _PREFIX.match(given.prefix):
        raise ConfigError("s3: bucket or prefix is not a valid name", where=where)
    retention = given.retention
    if retention is not None and not 1 <= retention.days <= _MAX_DAYS:
        raise ConfigError(f"s3: days takes 1 to {_MAX_DAYS}", where=place.where("s3", "retention", "days"))
    if retention is None:
        place.warnings.append(f"{where}: without retention: objects can be overwritten and removed")
    every = parse_duration(given.every)
    if every is None or not 1 <= every <= 3600:
        raise ConfigError("s3: every takes 1s to 1h", where=place.where("s3", "every"))
    key = given.aws
    if key is not None and bool(key.access_key_id) is not bool(key.secret_access_key):
        raise ConfigError("s3: access_key_id and secret_access_key belong together", where=place.where("s3", "aws"))
    written = {} if key is None else {name: getattr(key, name) for name in _AWS if getattr(key, name)}
    return S3Target(
        bucket=given.bucket,
        prefix=given.prefix,
        endpoint=_url(given.endpoint, "s3", place).rstrip("/") if given.endpoint else "",
        region="" if key is None else key.region,
        every_s=every,
        mode="" if retention is None else retention.mode,
        days=0 if retention is None else retention.days,
        aws=MappingProxyType({name: place.secret(text, "s3", "aws", name) for name, text in written.items()}),
    )


def _url(text: str, kind: str, place: _StreamSettings) -> str:
    """Return a URL without credentials. Raises `ConfigError`, which does not repeat it."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.fragment or not text.isascii() or not text.isprintable():
        raise ConfigError(
            f"{kind}: takes an http(s) URL without credentials in it",
            where=place.where(kind),
            suggestion='put credentials into headers: {Authorization: "Bearer ${env:NAME}"}',
        )
    if parts.scheme == "http":
        _without_tls(parts.hostname or "", kind, place)
    return text


def _without_tls(host: str, kind: str, place: _StreamSettings) -> None:
    if host not in {"localhost", "127.0.0.1", "::1"}:
        place.warnings.append(f"{place.where(kind)}: entries of the record leave this machine without TLS")


def _headers(given: GivenStream, place: _StreamSettings) -> Mapping[str, SecretReference]:
    for name in given.headers:
        if not _HEADER.match(name) or name.lower() in _OUR_HEADERS:
            raise ConfigError("headers: a name is not that of a header that can be set", where=place.where("headers"))
    return MappingProxyType({name: place.secret(text, "headers", name) for name, text in given.headers.items()})


def _authorities(text: str, root: Path, where: str) -> str:
    if not text:
        return ""
    try:
        found = read_file(root / text, _MAX_CA_SIZE).decode("ascii")
    except (OSError, UnicodeDecodeError):
        raise ConfigError("ca: the file cannot be read", where=where) from None
    if "-----BEGIN CERTIFICATE-----" not in found:
        raise ConfigError("ca: the file contains no PEM certificates", where=where)
    return found
