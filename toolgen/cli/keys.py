"""`toolgen keys`: creates, lists and revokes keys of principals."""

from __future__ import annotations

import math
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from toolgen.cli.key_revocation import Revoker
from toolgen.cli.lazy import CommandGroup, LazyCommand
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table
from toolgen.cli.revoked_certificates import certificate_entry
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import ConfigError, PolicyError
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import read
from toolgen.policy.credentials import PolicyCredentials
from toolgen.policy.document.policy import load_credentials
from toolgen.policy.document.principals import instant
from toolgen.policy.key_list import add_key, new_key

_DURATION = re.compile(r"(\d{1,5})(m|h|d|w)\Z")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_KEY_ID = re.compile(r"(?:sha256:)?([0-9a-f]{6,64})\Z")


@click.group(cls=CommandGroup)
def command() -> None:
    """Create, list and revoke API keys, and revoke tokens and client certificates.

    A running gateway applies a revocation within a second.
    """


@command.command("new")
@click.argument("principal")
@click.option("--expires", metavar="WHEN", help="Expiry: a time like 2027-01-31, or a duration: 12h, 90d.")
@click.option(
    "--toolset", "toolsets", multiple=True, metavar="NAME", help="The key shows only the tools of this toolset."
)
@as_json
@config
def new(principal: str, expires: str | None, toolsets: tuple[str, ...], as_json: bool, config_path: str) -> None:
    """Make a key for PRINCIPAL and print it once. Only its hash is stored, in policies/keys.yaml, or keys-2.yaml once that is full."""
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
        .replace("+00:00", "Z"),  # to differ from a revocation in the same second
        "expires": None if end is None else _text(end),
        "toolsets": list(toolsets) or None,
    }
    add_key(directory, entry)
    if as_json:
        print_json({"key": key, "id": digest[:12], "principal": principal, "expires": entry["expires"]})
        return
    click.echo(key)
    until = f"until {entry['expires']}" if end is not None else "until it is revoked"
    click.echo(f"the key {digest[:12]} of {principal}, valid {until}; it is not shown again", err=True)


@command.command("list")
@as_json
@config
def list_(as_json: bool, config_path: str) -> None:
    """List accepted keys by id, and revocations."""
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
    for what, items in (("tokens", revoked), ("certificates", certificates), ("all credentials of", principals)):
        for item in items:
            said = ", ".join(f"{name} {value}" for name, value in item.items() if value is not None)
            click.echo(f"revoked: {what} with {said}")


@command.command("revoke")
@click.argument("key_id", required=False, metavar="[ID]")
@click.option(
    "--all",
    "principal",
    metavar="PRINCIPAL",
    help="All keys of a principal, and its tokens and certificates from before now.",
)
@click.option("--jwt-id", metavar="JTI", help="The token with this id.")
@click.option(
    "--subject", metavar="SUB", help="All tokens of this subject, future ones too; with --before only older ones."
)
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
    """Revoke a key by its ID (the beginning of its hash), or tokens and certificates by their properties."""
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
            # A token has its time of issue in whole seconds, so the current second counts as before.
            of_token["before"] = _text(_moment(before, "--before", past=True) + timedelta(seconds=1))
        revoker.other({name: value for name, value in of_token.items() if value is not None})
        done = "revoked those tokens"
    click.echo(done)
    revoker.warn()
    if not revoker.complete:
        sys.exit(1)


command.add_command(
    LazyCommand(
        "rotate",
        "toolgen.cli.accounts",
        "Encrypt the accounts of people with a new key: their data keys are wrapped again, for all gateways at once.",
        attribute="rotate",
    )
)

command.add_command(
    LazyCommand(
        "rotate-signing",
        "toolgen.cli.signing_keys",
        "Make another key that access tokens of hosted clients are signed with.",
        attribute="rotate_signing",
    )
)


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
    """Return the names of the toolsets in the files of a policy."""
    found: list[str] = []
    for path in sorted(directory.glob("[!.]*.y*ml")):
        data = read(path, f"{directory.name}/{path.name}", PolicyError).data
        given = data.get("toolsets") if isinstance(data, dict) else None
        found += list(given) if isinstance(given, dict) else []
    return found


def _moment(text: str, option: str, *, past: bool = False) -> datetime:
    """Return the time of `now`, a time, or a duration: ahead, or in the past with `past`."""
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
