"""Proof of every tool of one source against its description."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct

from toolgen.connectors.proof.verdicts import Prover, ToolReport, Unproven, Verdict
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import ToolgenError, place_of
from toolgen.model.tool import Tool

__all__ = ["SourceReport", "verify_source"]


Progress = Callable[[ToolReport], None]


class SourceReport(Struct, frozen=True, kw_only=True):
    """Proof results of one source's tools, in the order of their names."""

    source: str
    tools: tuple[ToolReport, ...]

    def counts(self) -> Mapping[str, int]:
        """Return the number of tools that are `proven`, `failed`, `unproven` and `not_applicable`."""
        return Counter(str(report.to_dict()["status"]) for report in self.tools)


def verify_source(
    config: SourceConfig,
    *,
    examples: int = 20,
    seed: str = "0",
    password: str = "",
    progress: Progress | None = None,
) -> SourceReport:
    """Read the source and prove each of its tools with up to `examples` generated calls; nothing is sent.

    `password` is a database's, whose schema is read.

    Raises `DescriptionError` and `ConfigError` as a build does. The same seed makes the same calls.
    """
    prover = _prover(config, examples, seed, password)
    reports = []
    for tool in sorted(prover[0], key=lambda tool: tool.name):
        report = ToolReport(tool=tool.name, origin=tool.origin, verdict=_judged(prover[1], tool))
        reports.append(report)
        if progress is not None:
            progress(report)
    return SourceReport(source=config.name, tools=tuple(reports))


def _judged(prove: Callable[[Tool], Verdict], tool: Tool) -> Verdict:
    """Return the verdict on one tool. An unexpected exception makes this tool unproven, and the other tools keep their results."""
    try:
        return prove(tool)
    except ToolgenError:
        raise
    except Exception as error:  # noqa: BLE001 - see above
        return Unproven(reasons=(f"it could not be judged: {place_of(error)}",))


def _prover(config: SourceConfig, examples: int, seed: str, password: str) -> tuple[tuple[Tool, ...], Prover]:
    connector = CONNECTORS[config.kind]
    reading = connector.read(config, lambda: password)
    return reading.tools, connector.prover(config, reading.info, examples=examples, seed=seed)
