"""`toolgen keys`: who may show what, given out and taken away.

Which client certificates `toolgen keys revoke --certificate` means.

What `toolgen keys revoke` takes away, written down whatever state the rest of the project is in.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from msgspec.structs import replace

from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table
from toolgen.config.environment import PREFIX, in_force
from toolgen.config.policies import load_policy
from toolgen.config.settings import GivenFile, Settings
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import ConfigError, PolicyError, ToolgenError
from toolgen.core.files import read_file
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument, read
from toolgen.gateway.catalog.served_catalog import catalog_of
from toolgen.policy.credentials import PolicyCredentials
from toolgen.policy.document.policy import load_credentials
from toolgen.policy.document.principals import instant
from toolgen.policy.key_list import add_key, new_key
from toolgen.policy.key_list import revoke as add_revocation

__all__ = []

_HEX = re.compile(r"[0-9a-f]+\Z")
_FINGERPRINT = 64
_MAX_SIZE = 262_144


def certificate_entry(text: str, issuer: str | None) -> dict[str, str]:
    """Return the entry under `certificate:` of a revocation. A fingerprint or serial may be written as openssl does, `AB:CD:…`.

    Raises `ConfigError` for a file that holds no certificate.
    """
    if text.startswith("@"):
        entry = {"fingerprint": f"sha256:{_fingerprint(Path(text[1:]))}"}
    elif text.startswith("sha256:"):
        digits = _digits(text.removeprefix("sha256:"))
        if len(digits) != _FINGERPRINT:
            raise click.BadParameter("a fingerprint is sha256: and 64 hex digits", param_hint="--certificate")
        entry = {"fingerprint": f"sha256:{digits}"}
    elif text.startswith("serial:"):
        entry = {"serial": _digits(text.removeprefix("serial:")).lstrip("0") or "0"}
    elif "=" in text:
        entry = {"subject": text}
    else:
        message = "takes sha256:FINGERPRINT, serial:HEX, a subject like CN=bot,O=Acme, or @FILE"
        raise click.BadParameter(message, param_hint="--certificate")
    return entry if issuer is None else {**entry, "issuer": issuer}


def _digits(text: str) -> str:
    digits = text.replace(":", "").lower()
    if not _HEX.match(digits):
        raise click.BadParameter(f"'{text[:80]}' is no number in hex", param_hint="--certificate")
    return digits


def _fingerprint(path: Path) -> str:
    try:
        return x509.load_pem_x509_certificate(read_file(path, _MAX_SIZE)).fingerprint(SHA256()).hex()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} holds no certificate in PEM") from error


_USUAL = "policies/"


def _policies(document: YamlDocument) -> object:
    """`policies:` as the file and the environment say it, whatever is wrong with the rest of either. Raises `ConfigError`."""
    data = document.data if isinstance(document.data, dict) else {}
    alone = replace(document, data={key: value for key, value in data.items() if key == "policies"})
    others = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    own = {name: os.environ[name] for name in (f"{PREFIX}POLICIES",) if name in os.environ}
    return in_force(alone, GivenFile, others | own).document.data.get("policies", _USUAL)


class Revoker:
    """Writes revocations into the policy of one project. `complete` is False where nobody can say whether that is the gateway's policy."""

    def __init__(self, config: str) -> None:
        """Raises `ConfigError` where there is no toolgen.yaml, or no policy beside one that cannot be read."""
        self._settings: Settings | None = None
        self.complete = True
        try:
            self._settings = load_settings(config)
            self.directory = self._settings.policies
        except ConfigError as error:
            self.directory = self._guessed(Path(config).absolute(), error)

    def _guessed(self, path: Path, fault: ConfigError) -> Path:
        """Path of the policy by what can be read of toolgen.yaml; a revocation does not wait for the rest of it."""
        if not path.is_file():
            raise fault
        click.echo(f"warning: {fault}", err=True)
        try:
            given = _policies(read(path, path.name, ConfigError))
        except ConfigError:
            given, self.complete = _USUAL, False
        directory = path.parent / (given if isinstance(given, str) else _USUAL)
        if not self.complete:
            if not directory.is_dir():
                raise fault
            message = f"nobody can say where the policy is; {directory.name}/ is taken, and any other stays open"
            click.echo(f"warning: {message}", err=True)
        return directory

    def principal(self, name: str) -> str:
        """Takes away what a principal was given until now. Returns what was done, in a sentence; raises `ToolgenError`."""
        found = self._credentials()
        issuer = name.partition(":")[0]
        if found is not None and name not in found.principals and issuer not in found.issuers and self._usable():
            raise ConfigError(f"'{name}' has no key, and is nobody", suggestion="see `toolgen keys list`")
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        revocation = {"principal": name, "before": now}
        gone = add_revocation(self.directory, revocation, lambda entry: entry.get("principal") == name)
        keys = {str(entry["hash"]).removeprefix("sha256:") for entry in gone}
        if found is not None and name in found.principals:
            keys |= {key.sha256 for key in found.principals[name].keys}
        return _said(keys) or f"revoked whatever '{name}' was given before {now}"

    def key(self, beginning: str) -> str:
        """Takes a key away by how its hash begins. Returns and raises as `principal` does."""
        found = self._credentials()
        entries = tuple(found.principals.values()) if found is not None else ()
        keys = {key.sha256 for entry in entries for key in entry.keys if key.sha256.startswith(beginning)}
        if not keys and found is not None and self._usable():
            raise ConfigError(f"no key's hash begins with {beginning}", suggestion="see `toolgen keys list`")
        if len(keys) > 1:
            raise ConfigError(f"{len(keys)} keys begin with {beginning}", suggestion="give more of the id")
        digest = f"sha256:{next(iter(keys), beginning)}"
        owners = [entry.id for entry in entries for key in entry.keys if key.sha256 in keys]
        revocation = {"key": digest, **({"of": owners[0]} if len(set(owners)) == 1 else {})}
        add_revocation(self.directory, revocation, lambda entry: str(entry.get("hash", "")).startswith(digest))
        return _said(keys) or f"revoked every key whose hash begins with {beginning}"

    def other(self, revocation: Mapping[str, Any]) -> None:
        """Takes tokens or certificates away. Raises as `principal` does."""
        add_revocation(self.directory, revocation, lambda _: False)

    def warn(self) -> None:
        """Says where the policy cannot be used as it stands: the revocation holds all the same."""
        try:
            load_credentials(self.directory)
        except PolicyError as error:
            click.echo(f"warning: the policy cannot be used as it stands: {error}", err=True)

    def _credentials(self) -> PolicyCredentials | None:
        try:
            return load_credentials(self.directory)
        except PolicyError:
            return None

    def _usable(self) -> bool:
        """Return True if a gateway would accept the policy. If not, an earlier policy may be in force, with keys that are in no file any
        more."""
        settings = self._settings
        try:
            return settings is not None and bool(load_policy(self.directory, catalog_of(settings), settings.labels))
        except ToolgenError:
            return False


def _said(keys: Collection[str]) -> str:
    listed = ", ".join(sorted(key[:12] for key in keys))
    return f"revoked {len(keys)} key{'s' if len(keys) > 1 else ''}: {listed}" if keys else ""


_DURATION = re.compile(r"(\d{1,5})(m|h|d|w)\Z")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_KEY_ID = re.compile(r"(?:sha256:)?([0-9a-f]{6,64})\Z")


@click.group(cls=CommandGroup)
def command() -> None:
    """Give out API keys, list them, and revoke keys, tokens and client certificates.

    A running gateway follows a revocation within a second.
    """


@command.command("new")
@click.argument("principal")
@click.option("--expires", metavar="WHEN", help="A time like 2027-01-31, or how long from now: 12h, 90d.")
@click.option(
    "--toolset", "toolsets", multiple=True, metavar="NAME", help="The key shows what is in this toolset alone."
)
@as_json
@config
def new(principal: str, expires: str | None, toolsets: tuple[str, ...], as_json: bool, config_path: str) -> None:
    """Make a key for PRINCIPAL and print it, this once. Only its hash is kept, in policies/keys.yaml, or keys-2.yaml once that is full."""
    directory = load_settings(config_path).policies
    known = load_credentials(directory).principals
    if principal not in known:
        raise ConfigError(f"the policy has no principal '{principal}'{nearest(principal, known)}")
    defined = _defined_toolsets(directory)
    for name in toolsets:
        if name not in defined:
            raise ConfigError(f"the policy has no toolset '{name}'{nearest(name, defined)}")
    end = None if expires is None else _moment(expires, "--expires")
    if end is not None and end <= datetime.now(UTC):
        raise click.BadParameter(f"{expires} is in the past", param_hint="--expires")
    key, digest = new_key()
    entry = {
        "principal": principal,
        "hash": f"sha256:{digest}",
        "created": datetime.now(UTC)
        .isoformat()
        .replace("+00:00", "Z"),  # to be told from a revocation in this very second
        "expires": None if end is None else _text(end),
        "toolsets": list(toolsets) or None,
    }
    add_key(directory, entry)
    if as_json:
        print_json({"key": key, "id": digest[:12], "principal": principal, "expires": entry["expires"]})
        return
    click.echo(key)
    until = f"until {entry['expires']}" if end is not None else "until it is revoked"
    click.echo(f"the key {digest[:12]} of {principal}, good {until}; it is not shown again", err=True)


@command.command("list")
@as_json
@config
def list_(as_json: bool, config_path: str) -> None:
    """The keys that are accepted, by id, and what is revoked."""
    credentials = load_credentials(load_settings(config_path).policies)
    gone = credentials.keys_revoked()
    rows = [row for name in sorted(credentials.principals) for row in _rows(credentials, name, gone)]
    revoked = [
        {
            "issuer": item.issuer or None,
            "jwt_id": item.jwt_id or None,
            "subject": item.subject or None,
            "before": _time(item.before),
        }
        for item in credentials.revocations
    ]
    certificates = [
        {
            "fingerprint": f"sha256:{item.fingerprint}" if item.fingerprint else None,
            "serial": item.serial or None,
            "subject": item.subject or None,
            "issuer": item.issuer or None,
        }
        for item in credentials.revoked_certificates
    ]
    principals = [
        {"principal": name, "before": None if before == math.inf else _time(before)}
        for name, before in sorted(credentials.revoked_principals.items())
    ]
    if as_json:
        print_json(
            {
                "keys": rows,
                "revoked_tokens": revoked,
                "revoked_certificates": certificates,
                "revoked_principals": principals,
            }
        )
        return
    header = ("id", "principal", "created", "expires", "state", "where")
    print_table(header, [[row[name] for name in header] for row in rows])
    for what, items in (("tokens", revoked), ("certificates", certificates), ("what was given to", principals)):
        for item in items:
            said = ", ".join(f"{name} {value}" for name, value in item.items() if value is not None)
            click.echo(f"revoked: {what} with {said}")


@command.command("revoke")
@click.argument("key_id", required=False, metavar="[ID]")
@click.option(
    "--all",
    "principal",
    metavar="PRINCIPAL",
    help="Every key of a principal, and its tokens and certificates from before now.",
)
@click.option("--jwt-id", metavar="JTI", help="The token with this id.")
@click.option("--subject", metavar="SUB", help="The tokens of this subject, for good; with --before only older ones.")
@click.option("--before", metavar="WHEN", help="Tokens issued before a time, `now` or an age like 12h.")
@click.option(
    "--certificate",
    metavar="WHAT",
    help="Client certificates: sha256:FINGERPRINT, serial:HEX, a subject like CN=bot,O=Acme, or @FILE with one in PEM.",
)
@click.option("--issuer", metavar="NAME", help="Only tokens of this issuer (a URL), or certificates of it (CN=…).")
@config
def revoke(
    key_id: str | None,
    principal: str | None,
    certificate: str | None,
    jwt_id: str | None,
    subject: str | None,
    before: str | None,
    issuer: str | None,
    config_path: str,
) -> None:
    """Take a key away by its ID (the beginning of its hash), or tokens and certificates by what they say."""
    of_token = {"issuer": issuer, "jwt_id": jwt_id, "subject": subject, "before": before}
    told = {name: value for name, value in of_token.items() if value is not None}
    of_tokens = bool(told) if certificate is None else bool(told.keys() - {"issuer"})
    asked = [key_id is not None, principal is not None, certificate is not None, of_tokens]
    if sum(asked) != 1:
        message = "name a key by its id, a principal with --all, a certificate, or tokens with --jwt-id, --subject, …"
        raise click.UsageError(message)
    revoker = Revoker(config_path)
    if key_id is not None:
        done = revoker.key(_prefix(key_id))
    elif principal is not None:
        done = revoker.principal(principal)
    elif certificate is not None:
        entry = certificate_entry(certificate, issuer)
        revoker.other({"certificate": entry})
        done = "revoked certificates with " + ", ".join(f"{name} {value}" for name, value in entry.items())
    else:
        if before is not None:
            # A token says when it was issued in whole seconds, so the one that has begun counts as before.
            of_token["before"] = _text(_moment(before, "--before", past=True) + timedelta(seconds=1))
        revoker.other({name: value for name, value in of_token.items() if value is not None})
        done = "revoked those tokens"
    click.echo(done)
    revoker.warn()
    if not revoker.complete:
        sys.exit(1)


def _rows(credentials: PolicyCredentials, name: str, revoked: frozenset[str]) -> list[dict[str, str | None]]:
    return [
        {
            "id": key.id,
            "principal": name,
            "created": _time(key.created),
            "expires": _time(key.expires),
            "state": _state(key.sha256 in revoked, key.expires),
            "where": key.where,
        }
        for key in credentials.principals[name].keys
    ]


def _state(revoked: bool, expires: float | None) -> str:
    if revoked:
        return "revoked"
    return "expired" if expires is not None and expires <= datetime.now(UTC).timestamp() else "accepted"


def _prefix(text: str) -> str:
    found = _KEY_ID.match(text)
    if found is None:
        raise click.BadParameter(
            "a key's id is the beginning of its hash, at least 6 of 0-9 and a-f; `toolgen keys list` shows them",
            param_hint="ID",
        )
    return found[1]


def _defined_toolsets(directory: Path) -> list[str]:
    """The names of the toolsets in the files of a policy."""
    found: list[str] = []
    for path in sorted(directory.glob("[!.]*.y*ml")):
        data = read(path, f"{directory.name}/{path.name}", PolicyError).data
        given = data.get("toolsets") if isinstance(data, dict) else None
        found += list(given) if isinstance(given, dict) else []
    return found


def _moment(text: str, option: str, *, past: bool = False) -> datetime:
    """`now`, a time, or how far it is away: ahead, or behind with `past`."""
    now = datetime.now(UTC)
    if text == "now":
        return now
    if found := _DURATION.match(text):
        away = timedelta(**{_UNITS[found[2]]: int(found[1])})
        return now - away if past else now + away
    try:
        return datetime.fromtimestamp(instant(text, option, option), UTC)
    except (PolicyError, OverflowError, ValueError, OSError) as error:
        raise click.BadParameter(
            f"'{text}' is neither a time like 2027-01-31 nor like 90d", param_hint=option
        ) from error


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else _text(datetime.fromtimestamp(seconds, UTC))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
