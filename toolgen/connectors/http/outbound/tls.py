"""TLS of requests that are no tool calls: trusted authorities, and the client certificate."""

from __future__ import annotations

import os
import ssl
import tempfile
from functools import lru_cache
from typing import IO

from toolgen.connectors.http.outbound.request import (
    OutboundError,
    TlsMaterial,
)

__all__ = ["context_of"]


@lru_cache(maxsize=16)
def context_of(tls: TlsMaterial) -> ssl.SSLContext:
    """Return the TLS context of a connection. The server's certificate and name are always checked.

    Raises `OutboundError`, whose message contains nothing of the TLS material.
    """
    context = ssl.create_default_context()
    if tls.authorities:
        try:
            context.load_verify_locations(cadata=tls.authorities)
        except (ssl.SSLError, ValueError):
            raise OutboundError("the trusted authorities are not PEM certificates") from None
    if tls.certificate:
        try:
            _show(context, tls)
        except (ssl.SSLError, ValueError):
            raise OutboundError(
                "the client certificate and its key are not PEM without a password, or do not match"
            ) from None
    return context


def _show(context: ssl.SSLContext, tls: TlsMaterial) -> None:
    """Load the certificate from a file, because OpenSSL accepts only files: if possible an anonymous one in memory."""
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("certificate", os.MFD_CLOEXEC), "wb") as file:
            _load(context, tls, file, f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.NamedTemporaryFile() as file:  # readable only by its owner, and deleted at once
            _load(context, tls, file, file.name)


def _load(context: ssl.SSLContext, tls: TlsMaterial, file: IO[bytes], name: str) -> None:
    file.write(f"{tls.key.strip()}\n{tls.certificate.strip()}\n".encode())
    file.flush()
    context.load_cert_chain(name, password=lambda: "")  # nobody can be asked for a password
