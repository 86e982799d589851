"""Functions and operators of SQL Server with their costs: https://learn.microsoft.com/en-us/sql/t-sql/functions/functions."""

from __future__ import annotations

from typing import Final

from toolgen.connectors.sql.dialects.costs import COMMON, OPERATORS, Cost, Costs, table

__all__ = ["TSQL_FUNCTIONS", "TSQL_OPERATORS"]

# Not measured: no server runs beside the tests. The numbers are those of functions of other engines that do the same.
_ALL: Final = table(
    COMMON,
    (
        (
            Cost(),
            """
            approx_count_distinct ascii atn2 char charindex checksum_agg cot count_big current_timestamp date_bucket dateadd datediff
            datediff_big datefromparts datetime2fromparts datetimefromparts datetimeoffsetfromparts datalength datename datepart
            datetrunc day difference eomonth getdate getutcdate grouping grouping_id isdate isjson isnumeric len log10 month nchar
            patindex percentile_cont percentile_disc smalldatetimefromparts soundex square stdev stdevp switchoffset sysdatetime
            sysdatetimeoffset sysutcdatetime timefromparts todatetimeoffset unicode var varp year
            """,
        ),
        (Cost(result="one", work=1), "choose greatest iif isnull least"),
        (Cost(result="sum"), "format left quotename reverse right str stuff translate"),
        (Cost(result="replace", pairs=1.2), "replace"),
        (Cost(result="repeat", count=1), "replicate"),
        (Cost(result="space", count=0), "space"),
        (Cost(result="gather", work=0), "string_agg"),
        (Cost(result="json", work=100, memory=6), "json_query json_value"),
    ),
)
# Of other engines.
_ABSENT: Final = frozenset({"atan2", "ceil", "length", "ln", "log2", "mod", "nth_value", "pow", "substr"})
TSQL_FUNCTIONS: Final[Costs] = {name: cost for name, cost in _ALL.items() if name not in _ABSENT}
"""Allowed functions. A function of a database has a schema in each of its calls, so none of them hides one of these."""

TSQL_OPERATORS: Final[Costs] = table(
    OPERATORS, ((Cost(result="sum", work=20), "Convert"), (Cost(result="one", work=20), "AtTimeZone"))
)
"""Operators, by the names of the parser's classes."""
