"""Keys of a source in toolgen.yaml: those of all sources, and those of connectors."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_type_hints

import msgspec

from toolgen.config.poll import PollKeys
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


class SourceKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Keys of a source, except those of connectors."""

    timeouts: TimeoutKeys | None = None
    retries: RetryKeys | str | None = None
    breaker: BreakerKeys | str | None = None
    concurrency: int | None = None
    idempotency_key: str = ""
    answers: AnswerKeys | None = None
    resource: str = ""
    trace: bool = False
    http2: bool = False
    include: FilterKeys | None = None
    exclude: FilterKeys | None = None
    auth: dict[str, str | Annotated[Any, apart(CredentialKeys)]] | str = msgspec.field(default_factory=dict)
    output_schema: OutputForm = ""
    arguments: Literal["strict", "lenient"] = "lenient"
    input_schema: Literal["listed", "exact"] = "listed"
    poll: Annotated[Any, apart(PollKeys)] | None = None


def _brought() -> list[tuple[str, Any, Any]]:
    """Return name, type and default of each key of connectors. A key of several kinds has the types of all, and one default."""
    types: dict[str, Any] = {}
    defaults: dict[str, Any] = {}
    for connector in CONNECTORS.values():
        hints = get_type_hints(connector.keys, include_extras=True)
        for one in msgspec.structs.fields(connector.keys):
            name, type_ = one.encode_name, hints[one.name]
            types[name] = types[name] | type_ if name in types else type_
            defaults[name] = (
                one.default
                if one.default_factory is msgspec.NODEFAULT
                else msgspec.field(default_factory=one.default_factory)
            )
    return [(name, type_, defaults[name]) for name, type_ in types.items()]


GivenSource: type[SourceKeys] = msgspec.defstruct(
    "GivenSource", _brought(), bases=(SourceKeys,), module=__name__, kw_only=True, forbid_unknown_fields=True
)  # type: ignore[assignment]  # it derives from SourceKeys
"""Source as it is written."""
