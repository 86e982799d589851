"""Proof that tools say what their descriptions say: every request is read back, by others than who wrote it, and compared."""

from toolgen.verify.source import SourceReport, verify_source
from toolgen.verify.verdicts import Failed, NotApplicable, Proven, ToolReport, Unproven, Verdict

__all__ = [
    "Failed",
    "NotApplicable",
    "Proven",
    "SourceReport",
    "ToolReport",
    "Unproven",
    "Verdict",
    "verify_source",
]
