"""TLS of tool calls: trusted certificate authorities, and client certificates.

Client certificates (mutual TLS) are validated once and identified by a digest, so that a new one leads to new connections.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import tempfile
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from toolgen.core.errors import SecretError
from toolgen.model.secret import Unprinted

__all__ = ["ClientCertificate", "client_certificate", "tls_context"]


class ClientCertificate(Unprinted, frozen=True, kw_only=True):
    """Certificate with its chain and key, and additional trusted authorities. Equal by `digest` alone."""

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
    """Parse three PEM texts, the last of which may be "". Raises `SecretError` for an invalid one, without its content.

    The key must be that of the first certificate: while two files are being replaced, one of them may be newer than the other.
    """
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415 - where there is one

    try:
        chain = load_pem_x509_certificates(certificate.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise SecretError(
            "the client certificate is not a PEM certificate", suggestion="name its file as ${file:/path}"
        ) from None
    try:
        private = load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SecretError("the key of the client certificate is not a PEM key without a password") from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if chain[0].public_key().public_bytes(*form) != private.public_key().public_bytes(*form):
        raise SecretError("the client certificate and its key do not belong together", suggestion="replace both")
    if authorities:
        try:
            load_pem_x509_certificates(authorities.encode())
        except (ValueError, UnsupportedAlgorithm):
            raise SecretError("the authorities beside a client certificate are not PEM certificates") from None
    identity = f"{key.strip()}\n{certificate.strip()}\n".encode()
    digest = hashlib.sha256(b"\0".join([identity, authorities.encode()])).hexdigest()
    return ClientCertificate(digest=digest, identity=identity, authorities=authorities.encode())


def tls_context(
    certificate: ClientCertificate | None = None, protocol: str = "http/1.1", authorities: str = ""
) -> ssl.SSLContext:
    """Return a context with the system's certificate authorities, host name checks, TLS 1.2 or newer, and the client certificate if there
    is one.

    `protocol` is the name that TLS negotiates (ALPN), `authorities` are PEM certificates that are trusted as well.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    if authorities:
        context.load_verify_locations(cadata=authorities)
    if certificate is None:
        return context
    if certificate.authorities:
        context.load_verify_locations(cadata=certificate.authorities.decode())
    # OpenSSL reads these from files only: if possible, from an anonymous file in memory.
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("certificate", os.MFD_CLOEXEC), "wb") as file:
            file.write(certificate.identity)
            file.flush()
            context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.NamedTemporaryFile() as file:  # readable only by its owner, and deleted at once
            file.write(certificate.identity)
            file.flush()
            context.load_cert_chain(file.name)
    return context
