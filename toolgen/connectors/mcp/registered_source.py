"""Source of a registry: its listing with the package that is bridged, and the command or URL of the pinned one."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from toolgen.connectors.executor import Permit
from toolgen.connectors.mcp.registry import registered_server
from toolgen.connectors.mcp.registry_reference import RegistryReference
from toolgen.connectors.mcp.source_client import listing_of
from toolgen.connectors.pins import digest_of
from toolgen.connectors.source import SourceConfig, SourceSettings
from toolgen.model.mcp import RegisteredServer, ServerTools, read_listing, write_listing

__all__ = ["fetched_listing", "with_pinned"]


def fetched_listing(source: SourceSettings, reference: RegistryReference, permit: Permit | None = None) -> bytes:
    """Return the listing of a server, with where the registry says that it is, in the pinned form.

    A server that the registry gives another package or URL than was accepted is not started and not asked: the listing has what the
    registry says now, and the tools that were accepted, until a person takes the change. Raises `DescriptionError`.
    """
    found, pinned = registered_server(source, reference, permit), _pinned_listing(source.config)
    if pinned is not None and pinned.registered is not None and pinned.registered != found:
        return write_listing(replace(pinned, registered=found))
    listing = listing_of(replace(source, config=_with(source.config, found)), permit)
    return write_listing(replace(listing, registered=found))


def with_pinned(config: SourceConfig) -> SourceConfig:
    """Return a source with the command or URL that is pinned; without one, nothing can be started or asked."""
    listing = _pinned_listing(config)
    found = None if listing is None else listing.registered
    return config if found is None else _with(config, found)


def _with(config: SourceConfig, found: RegisteredServer) -> SourceConfig:
    return replace(config, command=found.command, endpoint=found.url)


def _pinned_listing(config: SourceConfig) -> ServerTools | None:
    """The pinned listing of this name and version; None if there is none, or if the copy is not what toolgen.lock says."""
    pin = config.pin
    if pin is None or pin.url != config.location:
        return None
    try:
        data = pin.path.read_bytes()
        return read_listing(data) if digest_of(data) == pin.digest else None
    except (OSError, msgspec.DecodeError, RecursionError):
        return None
