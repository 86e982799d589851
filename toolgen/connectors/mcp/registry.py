"""Servers of the MCP registry: the entry of a name and version, and the package or remote server of it that is bridged.

An entry is somebody else's text. What starts a program is made here from parts that are checked one by one; anything else is refused.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from toolgen.connectors.executor import Permit
from toolgen.connectors.locations import check_remote
from toolgen.connectors.mcp.registry_reference import RegistryReference
from toolgen.connectors.remote import fetch
from toolgen.connectors.source import SourceConfig, SourceSettings
from toolgen.core.canonical import digest
from toolgen.core.errors import CanonicalError, ConfigError, DescriptionError
from toolgen.core.files import read_file
from toolgen.model.excerpt import bounded
from toolgen.model.mcp import RegisteredServer

__all__ = ["registered_server"]

_MAX_SIZE: Final = 1024 * 1024
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,127}\Z")
_NPM = re.compile(r"(@[a-z0-9~-][a-z0-9._~-]{0,100}/)?[a-z0-9~-][a-z0-9._~-]{0,100}\Z")
_PYPI = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?\Z")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9.:_/-]{0,200}@sha256:[0-9a-f]{64}\Z")
_FLAG = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9_-]{0,99}\Z")
_HASH = re.compile(r"[0-9a-f]{64}\Z")
_BASES: Final[Mapping[str, str]] = {
    "npm": "036b43b16792c643378e95923ed2f4cc78e800de141b764aeea70d47580396df",
    "pypi": "b4c93a4591f5e6ddfc66b8a35a37ab125d5d352002bffbc5e9293a87fe06a8ca",
}
"""SHA-256 of the base URL that an entry may name for each type of package: that of the public registry, which npx and uvx ask."""
_MAX_VALUE_LENGTH: Final = 1000
_MAX_SHOWN_LENGTH: Final = 60


def registered_server(
    source: SourceSettings, reference: RegistryReference, permit: Permit | None = None
) -> RegisteredServer:
    """Return the server of an entry. Raises `DescriptionError` if there is none, and for one that cannot be bridged."""
    where = f"sources.{source.config.name}.mcp.registry"
    data = _entry(source.config, reference, where, permit)
    try:
        whole = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DescriptionError(f"the registry's entry is no JSON: {error}", where=where) from error
    entry, status = _server(whole)
    if (entry.get("name"), entry.get("version")) != (reference.name, reference.version):
        raise DescriptionError(f"the registry's entry is not about {reference.name}@{reference.version}", where=where)
    if status == "deleted":
        raise DescriptionError(f"{reference.name}@{reference.version} was deleted from the registry", where=where)
    chosen = _chosen(source, reference, entry, where)
    try:
        return replace(chosen, name=reference.name, version=reference.version, digest=digest(entry))
    except CanonicalError as error:
        raise DescriptionError(f"the registry's entry has no digest: {error}", where=where) from error


def _entry(config: SourceConfig, reference: RegistryReference, where: str, permit: Permit | None) -> bytes:
    """The bytes of an entry: of the registry's answer, or of a file."""
    base = reference.registry
    if base.startswith(("http://", "https://")):
        url = f"{base.rstrip('/')}/v0.1/servers/{quote(reference.name, safe='')}/versions/{quote(reference.version, safe='')}"
        return fetch(replace(config, location=url, options=None, pin=None), permit=permit).data
    place = Path(config.root) / base
    path = place / reference.name / reference.version / "server.json" if place.is_dir() else place
    try:
        return read_file(path, _MAX_SIZE)
    except OSError as error:
        raise DescriptionError(f"the entry cannot be read: {error.strerror}", where=f"{where}: {path}") from error


def _server(whole: object) -> tuple[Mapping[str, Any], str]:
    """The description in an answer of a registry, or in a file, and its status there."""
    found = whole if isinstance(whole, Mapping) else {}
    inner = found.get("server")
    if not isinstance(inner, Mapping):
        return found, ""
    meta = found.get("_meta")
    official = meta.get("io.modelcontextprotocol.registry/official") if isinstance(meta, Mapping) else None
    return inner, str(official.get("status", "")) if isinstance(official, Mapping) else ""


def _chosen(
    source: SourceSettings, reference: RegistryReference, entry: Mapping[str, Any], where: str
) -> RegisteredServer:
    """The first of an entry's remote servers and packages that can be bridged, a remote server before packages."""
    reasons: list[str] = []
    offers = [("remote", one) for one in _list(entry, "remotes")]
    offers += [(str(one.get("registryType", "")), one) for one in _list(entry, "packages")]
    offers.sort(key=lambda one: _ORDER.index(one[0]) if one[0] in _ORDER else len(_ORDER))
    for kind, offer in offers:
        if reference.package not in {"", kind}:
            continue
        try:
            return _made(kind, offer, source, reference, where)
        except (DescriptionError, ConfigError) as error:
            reasons.append(f"{kind or 'a package'}: {error.message}")
    said = "; ".join(reasons) or "it has no such package or remote server"
    raise DescriptionError(
        f"{reference.name}@{reference.version} cannot be bridged: {said}",
        where=where,
        suggestion="choose with package:, give what it requires under env: or auth:, or write url: or command: yourself",
    )


_ORDER: Final = ("remote", "npm", "pypi", "oci")


def _made(
    kind: str, offer: Mapping[str, Any], source: SourceSettings, reference: RegistryReference, where: str
) -> RegisteredServer:
    if kind == "remote":
        return _remote(offer, source, where)
    transport = offer.get("transport")
    if isinstance(transport, Mapping) and transport.get("type", "stdio") != "stdio":
        raise DescriptionError("it speaks over HTTP on this machine; start it yourself and write its url:")
    if source.auth:
        raise DescriptionError("auth: belongs to a server with a URL; a package has credentials under env:")
    variables = [one for one in _list(offer, "environmentVariables") if one.get("isRequired") is True]
    _check_given(variables, source.environment, "env:")
    arguments = (*_arguments(_list(offer, "packageArguments")), *reference.arguments)
    starter = _STARTERS.get(kind)
    if starter is None:
        raise DescriptionError(f"packages of {kind or 'no kind'} are not started; npm and pypi are")
    command = starter(offer, source.environment)
    identifier, version = str(offer.get("identifier")), str(offer.get("version", ""))
    sha256 = str(offer.get("fileSha256", ""))
    return RegisteredServer(
        package=kind,
        identifier=identifier,
        package_version=version,
        sha256=sha256 if _HASH.match(sha256) else "",
        command=(*command, *arguments),
    )


def _remote(offer: Mapping[str, Any], source: SourceSettings, where: str) -> RegisteredServer:
    url = offer.get("url")
    if offer.get("type") != "streamable-http" or not isinstance(url, str):
        raise DescriptionError("it does not speak Streamable HTTP")
    if "{" in url:
        raise DescriptionError("its URL has variables; write url: yourself")
    check_remote("mcp", url, where)
    if source.environment:
        raise DescriptionError("env: belongs to a package")
    headers = [one for one in _list(offer, "headers") if one.get("isRequired") is True]
    if headers and not source.auth:
        names = ", ".join(bounded(str(one.get("name", "")), _MAX_SHOWN_LENGTH) for one in headers)
        raise DescriptionError(f"it requires headers ({names}), which auth: does not have")
    return RegisteredServer(package="remote", identifier=url, url=url)


def _npm(offer: Mapping[str, Any], _: Collection[str]) -> tuple[str, ...]:
    identifier, version = _exact(offer, "npm", _NPM)
    return ("npx", "-y", f"{identifier}@{version}")


def _pypi(offer: Mapping[str, Any], _: Collection[str]) -> tuple[str, ...]:
    identifier, version = _exact(offer, "pypi", _PYPI)
    return ("uvx", "--from", f"{identifier}=={version}", identifier)


def _oci(offer: Mapping[str, Any], variables: Collection[str]) -> tuple[str, ...]:
    identifier = offer.get("identifier")
    if not isinstance(identifier, str) or not _IMAGE.match(identifier):
        raise DescriptionError(
            "an image is started by its digest alone (NAME@sha256:…), as a tag may become another image"
        )
    if shutil.which("docker") is None:
        raise DescriptionError("an image needs docker, which is not in the PATH")
    if offer.get("runtimeArguments"):
        raise DescriptionError("it wants arguments of docker; write command: yourself")
    passed = [word for name in sorted(variables) for word in ("-e", name)]
    return ("docker", "run", "-i", "--rm", *passed, identifier)


_STARTERS: Final[Mapping[str, Callable[[Mapping[str, Any], Collection[str]], tuple[str, ...]]]] = {
    "npm": _npm,
    "pypi": _pypi,
    "oci": _oci,
}


def _exact(offer: Mapping[str, Any], kind: str, names: re.Pattern[str]) -> tuple[str, str]:
    """The name and version of a package, if both are plain and it comes from the registry that its kind has."""
    identifier, version = offer.get("identifier"), offer.get("version")
    if not isinstance(identifier, str) or not names.match(identifier):
        raise DescriptionError(f"its identifier is no name of {kind}")
    if not isinstance(version, str) or not _VERSION.match(version) or version == "latest":
        raise DescriptionError("it has no exact version")
    base = str(offer.get("registryBaseUrl", "")).rstrip("/")
    if base and sha256(base.encode()).hexdigest() != _BASES[kind]:
        raise DescriptionError(f"it does not come from the registry of {kind}")
    if any(one.get("value") != "-y" for one in _list(offer, "runtimeArguments")):
        raise DescriptionError("it wants arguments of the program that starts it; write command: yourself")
    return identifier, version


def _arguments(given: list[Mapping[str, Any]]) -> list[str]:
    """The arguments that an entry gives a value for."""
    words: list[str] = []
    for one in given:
        value = one.get("value", one.get("default"))
        if value is None:
            if one.get("isRequired") is True:
                shown = bounded(str(one.get("name") or one.get("valueHint") or "an argument"), _MAX_SHOWN_LENGTH)
                raise DescriptionError(f"it requires {shown}; write command: yourself")
            continue
        if not isinstance(value, str) or len(value) > _MAX_VALUE_LENGTH or not value.isprintable() or "{" in value:
            raise DescriptionError("an argument is no plain text; write command: yourself")
        if one.get("type") == "named":
            name = one.get("name")
            if not isinstance(name, str) or not _FLAG.match(name):
                raise DescriptionError("an argument has no plain name; write command: yourself")
            words.append(name)
        words.append(value)
    return words


def _check_given(required: list[Mapping[str, Any]], given: Collection[str], where: str) -> None:
    missing = [bounded(str(one.get("name", "")), _MAX_SHOWN_LENGTH) for one in required if one.get("name") not in given]
    if missing:
        raise DescriptionError(f"it requires {', '.join(missing)}, which {where} does not have")


def _list(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = holder.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
