"""Registry of connectors: a line for each kind of system."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from toolgen.connectors.base import Connector
from toolgen.connectors.context.connector import ContextConnector
from toolgen.connectors.device.connector import DeviceConnector
from toolgen.connectors.functions.code.connector import CodeConnector
from toolgen.connectors.functions.connector import FunctionConnector
from toolgen.connectors.graphql.connector import GraphQLConnector
from toolgen.connectors.mcp.connector import McpConnector
from toolgen.connectors.openapi.connector import OpenApiConnector
from toolgen.connectors.sql.connector import SqlConnector
from toolgen.connectors.workflow.connector import WorkflowConnector
from toolgen.model.tool import Binding

__all__ = ["CONNECTORS", "connector_of"]

CONNECTORS: Final[Mapping[str, Connector]] = MappingProxyType(
    {
        connector.kind: connector
        for connector in (
            OpenApiConnector(),
            GraphQLConnector(),
            SqlConnector(),
            FunctionConnector(),
            McpConnector(),
            WorkflowConnector(),
            CodeConnector(),
            DeviceConnector(),
            ContextConnector(),
        )
    }
)
"""Connectors by kind, in the order in which messages list the kinds."""


def connector_of(binding: Binding) -> Connector | None:
    """Return the connector that has the bindings of this kind; None for a binding that several kinds of systems have."""
    return next((one for one in CONNECTORS.values() if binding.kind in one.bindings), None)
