"""Permitted functions and operators of SQLite, with their costs."""

from __future__ import annotations

from typing import Final

from toolgen.connectors.sql.dialects.costs import COMMON, OPERATORS, Cost, table

__all__ = ["SQLITE_FUNCTIONS", "SQLITE_OPERATORS"]

SQLITE_FUNCTIONS: Final = table(
    COMMON,
    (
        (
            Cost(),
            """
            acosh asinh atanh cosh date datetime glob instr julianday octet_length random sinh subtype tanh time timediff
            total trunc typeof unicode unixepoch
            """,
        ),
        (
            Cost(result="one", work=1),
            """
            if ifnull iif likelihood likely median percentile percentile_cont percentile_disc unlikely
            """,
        ),
        (Cost(result="sum", factor=2), "hex json_quote lower quote upper"),
        (Cost(result="sum"), "soundex unhex"),
        (Cost(result="sum", factor=4), "char"),
        (Cost(result="sum", factor=10), "strftime"),
        (Cost(result="space"), "zeroblob randomblob"),
        (Cost(result="template"), "format printf"),
        (Cost(result="gather", work=0), "group_concat string_agg"),
        (Cost(result="collect", work=0), "json_group_array json_group_object jsonb_group_array jsonb_group_object"),
        (Cost(result="document", memory=4), "json_array json_object jsonb_array jsonb_object"),
        (
            Cost(result="json", memory=12),
            """
            json json_array_length json_error_position json_extract json_insert json_patch json_remove json_replace
            json_set json_type json_valid jsonb jsonb_extract
            """,
        ),
        (Cost(result="indent", memory=12), "json_pretty"),
    ),
)
"""Functions by their names in lower case."""

SQLITE_OPERATORS: Final = table(
    OPERATORS,
    (
        (Cost(result="json", memory=12), "JSONExtract JSONExtractScalar"),
        (Cost(pairs=2), "Like Glob"),
    ),
)
"""Operators by the names of their classes."""
