"""Workflows -> a tool for each, once its steps are held against the tools of all other sources."""

from toolgen.sources.workflow.draft import Draft, DraftUse, Given
from toolgen.sources.workflow.read import Drafts, read_workflow

__all__ = ["Draft", "DraftUse", "Drafts", "Given", "read_workflow"]
