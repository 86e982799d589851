"""Client certificates in the header of a proxy that verified them."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from cryptography.hazmat.primitives.hashes import SHA256
from msgspec import Struct

from toolgen.gateway.identity.jwt import RefusedTokenError
from toolgen.model.call import ShownCertificate
from toolgen.policy.credentials import CertificateRule

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

__all__ = ["MAX_CERTIFICATE_LENGTH", "Validity", "check_time", "matches", "read_certificate", "shown", "validity"]

MAX_CERTIFICATE_LENGTH = 32_768
"""Maximum characters of the header."""

_BYTE_SEQUENCE = re.compile(r":([A-Za-z0-9+/]+={0,2}):\Z")  # RFC 8941 section 3.3.5
# A single certificate only: a chain would be ambiguous.
_PEM = re.compile(rb"\s*-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----\s*\Z")


_ELEMENT = re.compile(r'([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"|([^",;]*))(;|\Z)')
_ONCE = frozenset({"hash", "cert", "chain", "subject"})


def read_certificate(value: str) -> Certificate:
    """Read a certificate: `:base64:` of the DER (RFC 9440), PEM with percent-escapes (nginx's `$ssl_client_escaped_cert`), or Envoy's
    X-Forwarded-Client-Cert that contains such PEM.

    Raises `RefusedTokenError`.
    """
    if len(value) > MAX_CERTIFICATE_LENGTH:
        raise RefusedTokenError("the certificate is too long")
    try:
        if found := _BYTE_SEQUENCE.match(value):
            return _decoded(found[1].encode())
        if _ELEMENT.match(value):
            return _forwarded(value)
        if pem := _PEM.match(unquote_to_bytes(value)):
            return _decoded(pem[1])
    except ValueError as error:
        raise RefusedTokenError("the certificate cannot be read") from error
    raise RefusedTokenError("the certificate is neither RFC 9440's :base64:, nor one escaped PEM, nor Envoy's XFCC")


def _forwarded(value: str) -> Certificate:
    """Return the only element of an X-Forwarded-Client-Cert. Several elements were written by several proxies, or by the client.

    A certificate may contain names that look like parts of the header, so each relevant part must occur once, and the hash must match the
    certificate. https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/headers#x-forwarded-client-cert
    """
    parts: dict[str, str] = {}
    at = 0
    while found := _ELEMENT.match(value, at):
        name = found[1].lower()
        if name in parts and name in _ONCE:
            raise RefusedTokenError("XFCC has a part twice that must occur once")
        parts[name], at = found[2] if found[2] is not None else found[3], found.end()
    if at != len(value) or value.endswith(";"):
        raise RefusedTokenError("XFCC is not the one element that Envoy writes with SANITIZE_SET")
    if "cert" not in parts or "hash" not in parts:
        raise RefusedTokenError("XFCC has no Cert beside its Hash (set_current_client_cert_details: {cert: true})")
    pem = _PEM.match(unquote_to_bytes(parts["cert"]))
    if pem is None:
        raise RefusedTokenError("XFCC's Cert is not one certificate in escaped PEM")
    certificate = _decoded(pem[1])
    if certificate.fingerprint(SHA256()).hex() != parts["hash"].lower():
        raise RefusedTokenError("XFCC's Hash is not that of its Cert")
    return certificate


def _decoded(text: bytes) -> Certificate:
    """Decode a certificate from the Base64 of its DER, in one line or many. Raises `ValueError`."""
    from cryptography.x509 import load_der_x509_certificate  # noqa: PLC0415 - where a proxy shows one

    return load_der_x509_certificate(base64.b64decode(b"".join(text.split()), validate=True))


class Validity(Struct, frozen=True):
    """Validity period of a certificate, in seconds since the epoch, both ends included (RFC 5280, section 4.1.2.5)."""

    begins: float
    ends: float

    def contains(self, now: float) -> bool:
        return self.begins <= now <= self.ends


def validity(certificate: Certificate) -> Validity:
    return Validity(certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())


def check_time(certificate: Certificate, now: float) -> None:
    """Raise `RefusedTokenError` outside the certificate's validity. There is no leeway, because the proxy's clock already decided."""
    time = validity(certificate)
    if time.ends < now:
        raise RefusedTokenError("the certificate has expired")
    if not time.contains(now):
        raise RefusedTokenError("the certificate is not valid yet")


def shown(certificate: Certificate) -> ShownCertificate:
    """Return the values by which a certificate can be revoked. A name that cannot be written is "" and matches no revocation by name."""
    names = []
    for name in (certificate.subject, certificate.issuer):
        try:
            names.append(name.rfc4514_string())
        except ValueError:
            names.append("")
    return ShownCertificate(
        fingerprint=certificate.fingerprint(SHA256()).hex(),
        serial=f"{certificate.serial_number:x}",
        subject=names[0],
        issuer=names[1],
        issued=validity(certificate).begins,
    )


def matches(certificate: Certificate, rule: CertificateRule) -> bool:
    """Return True if a certificate matches a rule: by the fingerprint of the whole, or by subject and issuer together in the form of RFC
    4514."""
    if rule.fingerprints:
        return certificate.fingerprint(SHA256()).hex() in rule.fingerprints
    try:
        names = certificate.subject.rfc4514_string(), certificate.issuer.rfc4514_string()
    except ValueError:
        return False
    return bool(rule.subject) and names == (rule.subject, rule.issuer)
