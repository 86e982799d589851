"""Certificate authorities of a test's own, and what they sign."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
"""What the key of an authority is for. From Python 3.13 on, this and the identifiers of keys have to be there (RFC 5280, section 4.2.1)."""


def by(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    """Which key signed a certificate."""
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def identified(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    """With what Python 3.13 asks of a certificate for `key`: of an authority where it signs itself."""
    if key is not signer:
        return builder.add_extension(by(signer), critical=False)
    known = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return builder.add_extension(known, critical=False).add_extension(SIGNS, critical=True)


class Authority:
    """One, whose certificate is `NAME.pem` in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._builder(self._name, self._key, days=30)
        certificate = certificate.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = identified(certificate, self._key, self._key)
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(certificate.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, days: int) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=60))
            .not_valid_after(now + timedelta(days=days))
        )

    def issue(
        self,
        name: str,
        *,
        usage: x509.ObjectIdentifier = SERVER,
        days: int = 30,
        password: bytes = b"",
        hosts: tuple[str, ...] = (),
    ) -> tuple[Path, Path]:
        """A certificate for localhost and these hosts, and its key, as `NAME.crt` and `NAME.key`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        names = x509.SubjectAlternativeName([here, x509.DNSName("localhost"), *map(x509.DNSName, hosts)])
        signed = (
            self._builder(subject, key, days=days)
            .add_extension(names, critical=False)
            .add_extension(by(self._key), critical=False)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        certificate, secret = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        certificate.write_bytes(signed.public_bytes(Encoding.PEM))
        hidden = BestAvailableEncryption(password) if password else NoEncryption()
        secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden))
        return certificate, secret
