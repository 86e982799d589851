"""Workflows -> a tool for each, once its steps are held against the tools of all other sources."""

from toolgen.sources.workflow.draft import DraftUse, Given, WorkflowDraft
from toolgen.sources.workflow.read import Drafts, read_workflow

__all__ = ["DraftUse", "Drafts", "Given", "WorkflowDraft", "read_workflow"]
