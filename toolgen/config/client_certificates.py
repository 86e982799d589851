"""Section `gateway.client_certificates`: certificates that a proxy has verified, and forwards in a header."""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from toolgen.config.gateway import Networks, contains, read_networks
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import short
from toolgen.core.yaml_file import YamlDocument

__all__ = ["ClientCertificates", "GivenClientCertificates", "read_client_certificates"]

_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_OTHER_HEADERS = frozenset(
    {"authorization", "host", "content-type", "content-length", "connection", "transfer-encoding"}
)


class GivenClientCertificates(msgspec.Struct, forbid_unknown_fields=True):
    """Section `client_certificates:` as written."""

    header: str
    proxies: list[str]


class ClientCertificates(Struct, frozen=True, kw_only=True):
    """Header with a client's certificate (in lower case), and the proxies that are trusted to have verified it."""

    header: str
    proxies: Networks

    def trusts(self, peer: str) -> bool:
        """Return True if this address is a trusted proxy's."""
        return contains(self.proxies, peer)


def read_client_certificates(
    document: YamlDocument, given: GivenClientCertificates | None
) -> ClientCertificates | None:
    """Read the section `client_certificates:`, None if it is missing. Raises `ConfigError`."""
    if given is None:
        return None
    path = ("gateway", "client_certificates")
    if not _HEADER.match(given.header) or given.header.lower() in _OTHER_HEADERS:
        raise ConfigError(
            f"'{short(given.header)}' is not a header for a certificate; use one like X-Client-Cert, which the proxy always sets",
            where=document.where(*path, "header"),
        )
    if not given.proxies:
        raise ConfigError(
            "has no proxy, so no certificate would be trusted",
            where=document.where(*path, "proxies"),
            suggestion='list the addresses its connections come from, like "10.0.0.0/8"',
        )
    networks = read_networks(given.proxies, document, *path, "proxies", danger="anyone could send any certificate")
    return ClientCertificates(header=given.header.lower(), proxies=networks)
