"""Keys of a source in toolgen.yaml, as they are written: those of all sources, those of kinds, and those that connectors bring."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from toolgen.config.poll import PollKeys
from toolgen.connectors.context.settings import ContextKeys
from toolgen.connectors.functions.code.settings import CodeKeys
from toolgen.connectors.functions.settings import PythonKeys
from toolgen.connectors.graphql.options import GraphKeys
from toolgen.connectors.mcp.settings import McpKeys
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.yaml_file import apart
from toolgen.model.credential_keys import CredentialKeys
from toolgen.model.tool import OutputForm

__all__ = ["AnswerKeys", "BreakerKeys", "FilterKeys", "GivenSource", "RetryKeys", "SourceKeys", "TimeoutKeys"]


class TimeoutKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Time limits of calls to a source."""

    connect: str = "5s"
    first_byte: str | None = None
    total: str | None = None


class RetryKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Retries of calls to a source."""

    attempts: int = 3
    longest_wait: str = "5s"
    budget: str = "20%"


class BreakerKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Circuit breaker of a source."""

    failures: str = "50%"
    calls: int = 10
    window: str = "10s"
    open: str = "10s"


class AnswerKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Limits of answers of a source."""

    largest: str = "1MiB"


class FilterKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Operations of a source that become tools, or do not."""

    tags: list[str] | msgspec.UnsetType = msgspec.UNSET
    operations: list[str] | msgspec.UnsetType = msgspec.UNSET
    methods: list[str] | msgspec.UnsetType = msgspec.UNSET
    effects: list[str] | msgspec.UnsetType = msgspec.UNSET
    prompts: list[str] | msgspec.UnsetType = msgspec.UNSET
    resources: list[str] | msgspec.UnsetType = msgspec.UNSET


class SourceKeys(GraphKeys, forbid_unknown_fields=True):
    """Keys of a source, except those that connectors bring."""

    timeouts: TimeoutKeys | None = None
    retries: RetryKeys | str | None = None
    breaker: BreakerKeys | str | None = None
    concurrency: int | None = None
    idempotency_key: str = ""
    answers: AnswerKeys | None = None
    openapi: str | None = None
    graphql: str | None = None
    sql: str | None = None
    python: str | PythonKeys | None = None
    mcp: McpKeys | None = None
    workflow: str | None = None
    device: str | None = None
    resource: str = ""
    code: CodeKeys | None = None
    context: ContextKeys | None = None
    prefix: str = ""
    server: str = ""
    endpoint: str = ""
    overlay: str | list[str] = msgspec.field(default_factory=list)
    refs: list[str] = msgspec.field(default_factory=list)
    writes: bool = False
    trace: bool = False
    http2: bool = False
    include: FilterKeys | None = None
    exclude: FilterKeys | None = None
    auth: dict[str, str | Annotated[Any, apart(CredentialKeys)]] | str = msgspec.field(default_factory=dict)
    constants: dict[str, Any] = msgspec.field(default_factory=dict)
    formats: str = ""
    output_schema: OutputForm = ""
    arguments: Literal["strict", "lenient"] = "lenient"
    input_schema: Literal["listed", "exact"] = "listed"
    poll: Annotated[Any, apart(PollKeys)] | None = None


def _brought() -> list[tuple[str, Any, Any]]:
    """Name, type and default of each key that a connector brings."""
    found = []
    for keys in filter(None, (connector.keys for connector in CONNECTORS.values())):
        hints = get_type_hints(keys, include_extras=True)
        for one in msgspec.structs.fields(keys):
            default = (
                one.default
                if one.default_factory is msgspec.NODEFAULT
                else msgspec.field(default_factory=one.default_factory)
            )
            found.append((one.encode_name, hints[one.name], default))
    return found


GivenSource: type[SourceKeys] = msgspec.defstruct(
    "GivenSource", _brought(), bases=(SourceKeys,), module=__name__, kw_only=True, forbid_unknown_fields=True
)  # type: ignore[assignment]  # it derives from SourceKeys
"""A source as it is written."""
