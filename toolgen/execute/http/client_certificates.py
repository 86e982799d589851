"""Client certificates (mutual TLS): checked once for what they are, and known by a digest so that a new one means new connections."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509 import load_pem_x509_certificates

from toolgen.errors import SecretError

__all__ = ["ClientCertificate", "client_certificate"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ClientCertificate:
    """A certificate with its chain and its key, and the authorities to believe besides the usual ones. Equal by `digest` alone."""

    digest: str
    identity: bytes
    authorities: bytes

    def __repr__(self) -> str:
        return f"ClientCertificate({self.digest[:12]})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClientCertificate) and other.digest == self.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=64)
def client_certificate(certificate: str, key: str, authorities: str) -> ClientCertificate:
    """Reads three PEM texts, the last of which may be "". Raises `SecretError`, with nothing of them in it, for what is none.

    The key must be that of the first certificate: while two files are being replaced, one of them may be newer than the other.
    """
    try:
        chain = load_pem_x509_certificates(certificate.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise SecretError(
            "the client certificate is no PEM certificate", suggestion="name its file as ${file:/path}"
        ) from None
    try:
        private = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SecretError("the key of the client certificate is no PEM key without a password") from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if chain[0].public_key().public_bytes(*form) != private.public_key().public_bytes(*form):
        raise SecretError("the client certificate and its key do not belong together", suggestion="replace both")
    if authorities:
        try:
            load_pem_x509_certificates(authorities.encode())
        except (ValueError, UnsupportedAlgorithm):
            raise SecretError("the authorities beside a client certificate are no PEM certificates") from None
    identity = f"{key.strip()}\n{certificate.strip()}\n".encode()
    digest = hashlib.sha256(b"\0".join([identity, authorities.encode()])).hexdigest()
    return ClientCertificate(digest=digest, identity=identity, authorities=authorities.encode())
