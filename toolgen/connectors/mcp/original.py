"""Original of an MCP server's description: the texts of its pinned listing, which a build cleans and shortens for agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from toolgen.connectors.original import PROSE, ModelText
from toolgen.model.mcp import read_listing, texts_of

__all__ = ["listed_texts"]


def listed_texts(pinned: Path) -> Iterator[ModelText]:
    """Yield names and texts of the tools in a listing; none of a listing that cannot be read."""
    try:
        listing = read_listing(pinned.read_bytes())
    except (OSError, msgspec.DecodeError, RecursionError):
        return  # as the build has said
    for tool in listing.tools:
        yield ModelText(origin=tool.name, value=tool.name, prose=False)
        for place, value in texts_of(tool):
            yield ModelText(origin=f"{tool.name}{place}", value=value, prose=place.rpartition("/")[2] in PROSE)
