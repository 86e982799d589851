"""Client certificates that `toolgen keys revoke --certificate` names, as entries of a revocation."""

from __future__ import annotations

import re
from pathlib import Path

import click
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from toolgen.core.errors import ConfigError
from toolgen.core.files import read_file

__all__ = ["certificate_entry"]

_HEX = re.compile(r"[0-9a-f]+\Z")
_FINGERPRINT = 64
_MAX_SIZE = 262_144


def certificate_entry(text: str, issuer: str | None) -> dict[str, str]:
    """Return the entry under `certificate:` of a revocation. A fingerprint or serial may be written as openssl does, `AB:CD:…`.

    Raises `ConfigError` for a file without a certificate.
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
        message = "must be sha256:FINGERPRINT, serial:HEX, a subject like CN=bot,O=Acme, or @FILE"
        raise click.BadParameter(message, param_hint="--certificate")
    return entry if issuer is None else {**entry, "issuer": issuer}


def _digits(text: str) -> str:
    digits = text.replace(":", "").lower()
    if not _HEX.match(digits):
        raise click.BadParameter(f"'{text[:80]}' is not a number in hex", param_hint="--certificate")
    return digits


def _fingerprint(path: Path) -> str:
    try:
        return x509.load_pem_x509_certificate(read_file(path, _MAX_SIZE)).fingerprint(SHA256()).hex()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} contains no certificate in PEM") from error
