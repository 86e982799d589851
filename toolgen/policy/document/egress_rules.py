"""Section `egress:` of a policy: places, redirects, and the proxy that connections go through."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType

from toolgen.core.errors import PolicyError
from toolgen.core.files import read_file
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.egress_proxy import EgressProxy
from toolgen.policy.document.policy_files import DocumentCache, read_files
from toolgen.policy.document.schema import EgressShape
from toolgen.policy.egress import Egress, Place, parse_allowed

__all__ = ["egress_of", "read_egress"]

# A password has to be a reference that is resolved without a connection, because a connection would need the proxy.
_PROXY = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[^:@/\s$]+)(?::(?P<password>\$\{(?:env|file):[^}\s]+\}))?@)?(?P<place>[^@/\s]+)/?\Z"
)
_MAX_CA_SIZE = 4 * 1024 * 1024


def read_egress(document: YamlDocument, given: EgressShape, directory: Path) -> Egress:
    """Return the section of a file. Paths are relative to the directory of the policy. Raises `PolicyError`."""
    return Egress(
        allow=_places(document, given.allow, "allow"),
        private_networks=given.private_networks == "allow",
        sources=MappingProxyType(
            {name: _places(document, texts, "sources", name) for name, texts in given.sources.items()}
        ),
        same_origin=given.redirects == "same-origin",
        proxy=_proxy(document, given, directory),
    )


def egress_of(directory: Path) -> Egress:
    """Return the section of the policy of a directory; nothing else of the policy is read, because it may be about tools that are not built
    yet. Without a policy, the default. Raises `PolicyError`."""
    files = read_files(directory) if directory.is_dir() else None
    found = (
        []
        if files is None or not files.contents
        else [one for one in DocumentCache().documents(files) if "egress" in (one.data or {})]
    )
    if len(found) > 1:
        raise PolicyError("egress: is defined in two files", where=found[1].where("egress"))
    return (
        read_egress(found[0], decode(found[0], ("egress",), EgressShape, PolicyError), directory) if found else Egress()
    )


def _proxy(document: YamlDocument, given: EgressShape, directory: Path) -> EgressProxy | None:
    if not given.proxy:
        for name in ("ca", "resolve", "direct"):
            if name in document.data["egress"]:
                raise PolicyError(f"{name}: needs proxy:", where=document.where("egress", name))
        if "proxy" in document.data["egress"]:
            raise PolicyError("proxy: is empty", where=document.where("egress", "proxy"))
        return None
    found = _PROXY.match(given.proxy)
    place = None if found is None else parse_allowed(found["place"])
    if found is None or place is None:  # its text may hold a password
        raise PolicyError(
            "proxy: is not the URL of a proxy",
            where=document.where("egress", "proxy"),
            suggestion="write it like http://proxy.example.com:3128, with credentials like user:${env:PROXY_PASSWORD}@",
        )
    host, port = place
    return EgressProxy(
        scheme="https" if found["scheme"] == "https" else "http",
        host=host,
        port=port,
        username=found["user"] or "",
        password=found["password"] or "",
        ca=_ca(given.ca, directory, document.where("egress", "ca")),
        resolve=given.resolve,
        direct=_places(document, given.direct, "direct"),
    )


def _ca(text: str, directory: Path, where: str) -> str:
    """Return the absolute path of a readable PEM file; "" for none."""
    if not text:
        return ""
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415 - slow to import, and for few policies

    path = (directory / text).resolve()
    try:
        load_pem_x509_certificates(read_file(path, _MAX_CA_SIZE))
    except ValueError as error:
        raise PolicyError("ca: the file contains no PEM certificates", where=where) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise PolicyError(f"ca: the file cannot be read: {reason}", where=where) from error
    return str(path)


def _places(document: YamlDocument, texts: list[str], *path: str) -> frozenset[Place]:
    """Return the places in a list below `egress`."""
    found = []
    for index, text in enumerate(texts):
        parsed = parse_allowed(text)
        if parsed is None:
            raise PolicyError(
                f"'{text}' is not host:port, like api.example.com:443", where=document.where("egress", *path, index)
            )
        found.append(parsed)
    return frozenset(found)
