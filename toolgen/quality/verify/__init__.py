"""Proof that tools say what their descriptions say: every request is read back, by others than who wrote it, and compared."""

from toolgen.connectors.proof.verdicts import FailedTool, NotApplicable, ProvenTool, ToolReport, Unproven, Verdict
from toolgen.quality.verify.source import SourceReport, verify_source

__all__ = [
    "FailedTool",
    "NotApplicable",
    "ProvenTool",
    "SourceReport",
    "ToolReport",
    "Unproven",
    "Verdict",
    "verify_source",
]
