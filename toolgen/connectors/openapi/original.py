"""Original of an OpenAPI description: summaries and descriptions of operations, and all other texts of the document."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.openapi.operation import FaultError
from toolgen.connectors.openapi.read import overlaid_documents, version_of
from toolgen.connectors.openapi.routes import Route, routes
from toolgen.connectors.original import PROSE, ModelText, Original, WrittenOperation
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.syntax import escape

__all__ = ["read_original"]

_MAX_TEXTS: Final = 2_000_000


def read_original(config: SourceConfig) -> Original:
    """Read the original texts of a description, without generated ones. Raises `DescriptionError`."""
    documents = overlaid_documents(config)
    found: dict[str, WrittenOperation] = {}
    for route in routes(documents, version_of(documents)):
        if isinstance(route, Route):
            found[route.origin] = _written(documents, route)
    return Original(operations=found, texts=tuple(_texts(documents.root)), files={"": Path(config.file)})


def _written(documents: Documents, route: Route) -> WrittenOperation:
    raw = route.raw
    said = [raw.get("summary") or route.item.get("summary"), raw.get("description") or route.item.get("description")]
    identifier = raw.get("operationId")
    try:
        places = {key: origin for key, (origin, _) in route.parameters(documents).items()}
    except (FaultError, UnresolvedRefError):
        places = {}
    return WrittenOperation(
        identifier=identifier if isinstance(identifier, str) else "",
        text=" ".join(text for text in said if isinstance(text, str)),
        origins=places,
    )


def _texts(root: Any) -> Iterator[ModelText]:
    """Yield each text of a document once. Nodes shared by aliases are visited once too."""
    seen: set[int] = set()
    known: set[tuple[bool, str]] = set()
    todo: list[tuple[str, Any, bool]] = [("#", root, False)]
    while todo and len(known) < _MAX_TEXTS:
        origin, node, prose = todo.pop()
        if isinstance(node, str):
            if (prose, node) not in known:
                known.add((prose, node))
                yield ModelText(origin=origin, value=node, prose=prose)
        elif isinstance(node, (dict, list)) and id(node) not in seen:
            seen.add(id(node))
            items = list(node.items()) if isinstance(node, dict) else list(enumerate(node))
            todo += [(f"{origin}/{escape(str(key))}", item, key in PROSE) for key, item in reversed(items)]
