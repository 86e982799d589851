"""Proof that tools agree with their descriptions: independent readers parse every request back, and the values are compared."""

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
