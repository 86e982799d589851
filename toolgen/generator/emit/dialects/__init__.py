"""Conversion of a tool's canonical schema to the smaller schema languages of providers, and of their arguments back."""

from __future__ import annotations

from toolgen.generator.emit.dialects.absent_arguments import without_absent
from toolgen.generator.emit.dialects.gemini import gemini_schema
from toolgen.generator.emit.dialects.listed import ListedSchema, listed_schema
from toolgen.generator.emit.dialects.strict import UnfitError, strict_schema

__all__ = ["ListedSchema", "UnfitError", "gemini_schema", "listed_schema", "strict_schema", "without_absent"]
