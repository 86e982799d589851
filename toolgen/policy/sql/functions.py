"""Which functions a statement may call in each dialect, and how large their arguments may be.

The lists are curated: a function is here because it computes a value from its arguments and reads or changes nothing else. What is not
here is refused; a policy may add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["CAPS", "FORMATTERS", "FUNCTIONS", "SPECIAL", "TABLE_FUNCTIONS", "UNIT_FIRST", "Cap"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_COMMON = _names(
    """
    abs acos asin atan atan2 avg ceil ceiling coalesce concat concat_ws cos count cume_dist degrees dense_rank exp first_value floor
    lag last_value lead length ln log log10 log2 lower ltrim max min mod nth_value ntile nullif percent_rank pi pow power radians rank
    replace round row_number rtrim sign sin sqrt substr substring sum tan trim upper
    """
)

_SQLITE = _COMMON | _names(
    """
    acosh asinh atanh char cosh date datetime format glob group_concat hex ifnull iif instr json json_array json_array_length
    json_error_position json_extract json_group_array json_group_object json_insert json_object json_patch json_pretty json_quote
    json_remove json_replace json_set json_type json_valid julianday likelihood likely median octet_length percentile printf quote random
    sinh soundex strftime string_agg tanh time timediff total trunc typeof unhex unicode unixepoch unlikely zeroblob
    """
)

_POSTGRES = _COMMON | _names(
    """
    age any_value array_agg array_append array_cat array_dims array_length array_lower array_ndims array_position array_positions
    array_prepend array_remove array_replace array_to_json array_to_string array_upper ascii asinh bit_and bit_length bit_or bool_and
    bool_or btrim cardinality cbrt char_length character_length chr clock_timestamp corr cosh cot covar_pop covar_samp date_bin date_part
    date_trunc decode div encode every extract format gcd get_byte greatest grouping initcap isfinite json_agg json_array_elements
    json_array_elements_text json_array_length json_build_array json_build_object json_each json_each_text json_extract_path
    json_extract_path_text json_object json_object_agg json_object_keys json_strip_nulls json_typeof jsonb_agg jsonb_array_elements
    jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text jsonb_extract_path
    jsonb_extract_path_text jsonb_object jsonb_object_agg jsonb_object_keys jsonb_path_exists jsonb_path_match jsonb_path_query
    jsonb_path_query_array jsonb_path_query_first jsonb_pretty jsonb_set jsonb_strip_nulls jsonb_typeof justify_days justify_hours
    justify_interval lcm least left lpad make_date make_interval make_time make_timestamp make_timestamptz md5 min_scale mode now
    num_nonnulls num_nulls octet_length overlay percentile_cont percentile_disc plainto_tsquery position quote_ident quote_literal
    quote_nullable random regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
    regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope repeat reverse right row_to_json
    rpad scale setseed sha224 sha256 sha384 sha512 sinh split_part starts_with statement_timestamp stddev stddev_pop stddev_samp
    string_agg string_to_array strpos tanh timeofday timezone to_char to_date to_hex to_json to_jsonb to_number to_timestamp to_tsquery
    to_tsvector transaction_timestamp translate trim_scale trunc ts_headline ts_rank unnest generate_series generate_subscripts
    var_pop var_samp variance width_bucket
    """
) - _names("setseed")

_MYSQL = _COMMON | _names(
    """
    adddate addtime any_value ascii bin bit_and bit_count bit_length bit_or bit_xor char char_length character_length conv convert_tz cot
    crc32 curdate curtime date date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear elt export_set field
    find_in_set format from_base64 from_days from_unixtime get_format greatest group_concat hex hour if ifnull insert instr interval
    isnull json_array json_array_append json_array_insert json_arrayagg json_contains json_contains_path json_depth json_extract
    json_insert json_keys json_length json_merge_patch json_merge_preserve json_object json_objectagg json_overlaps json_pretty json_query
    json_quote json_remove json_replace json_search json_set json_type json_unquote json_valid json_value last_day lcase least left
    localtime locate lpad makedate maketime md5 median microsecond mid minute month monthname now nvl oct octet_length ord period_add
    period_diff position quarter quote rand regexp_instr regexp_replace regexp_substr repeat reverse right rpad sec_to_time second sha
    sha1 sha2 soundex space std stddev stddev_pop stddev_samp str_to_date strcmp subdate substring_index subtime sysdate time
    time_format time_to_sec timediff timestamp timestampadd timestampdiff to_base64 to_days to_seconds trim truncate ucase unhex
    unix_timestamp utc_date utc_time utc_timestamp var_pop var_samp variance week weekday weekofyear year yearweek
    """
)

_DUCKDB = _COMMON | _names(
    """
    age any_value approx_count_distinct approx_quantile arg_max arg_min argmax argmin array_agg array_contains array_distinct array_has
    array_length array_slice array_to_string ascii avg bit_and bit_count bit_or bit_xor bool_and bool_or cbrt century chr contains corr
    cot count_if countif covar_pop covar_samp damerau_levenshtein date_add date_diff date_part date_sub date_trunc datediff datepart
    datetrunc day dayname dayofmonth dayofweek dayofyear decade element_at ends_with entropy epoch epoch_ms even factorial favg first
    flatten format from_base64 gcd generate_series greatest grouping hamming hash hex histogram hour ifnull initcap instr isfinite isinf
    isnan isodow isoyear jaccard json json_array json_array_length json_contains json_extract json_extract_path json_extract_path_text
    json_extract_string json_group_array json_group_object json_keys json_merge_patch json_object json_type json_valid kurtosis last
    last_day lcm least left len levenshtein list list_aggregate list_any_value list_append list_avg list_concat list_contains list_count
    list_distinct list_element list_extract list_filter list_has list_has_all list_has_any list_max list_min list_position list_prepend
    list_reduce list_reverse list_reverse_sort list_slice list_sort list_sum list_transform list_unique list_value list_zip lpad mad
    make_date make_time make_timestamp map map_contains map_entries map_extract map_from_entries map_keys map_values max_by md5 median
    millisecond min_by minute mode month monthname nextafter now nvl ord position prefix printf product quantile quantile_cont
    quantile_disc quarter random range regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace
    regexp_split_to_array regr_slope repeat reverse right row rpad second sem sha256 signbit skewness split split_part starts_with
    stddev stddev_pop stddev_samp str_split strftime string_agg string_split strip_accents strlen strpos strptime struct_extract
    struct_pack suffix time_bucket to_base64 to_days to_hours to_json to_minutes to_months to_seconds to_timestamp to_weeks to_years today
    translate trunc try_strptime typeof unicode unixepoch unnest var_pop var_samp variance week weekday weekofyear year yearweek
    """
)

FUNCTIONS: Mapping[str, frozenset[str]] = MappingProxyType(
    {"sqlite": _SQLITE, "postgres": _POSTGRES, "mysql": _MYSQL, "duckdb": _DUCKDB}
)
"""Allowed scalar, aggregate and window functions by dialect, folded to lower case."""

_JSON_EACH = ("key", "value", "type", "atom", "id", "parent", "fullkey", "path")
TABLE_FUNCTIONS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "sqlite": MappingProxyType({"json_each": _JSON_EACH, "json_tree": _JSON_EACH}),
        "postgres": MappingProxyType(
            {
                "generate_series": ("generate_series",),
                "generate_subscripts": ("generate_subscripts",),
                "json_array_elements": ("value",),
                "json_array_elements_text": ("value",),
                "json_each": ("key", "value"),
                "json_each_text": ("key", "value"),
                "json_object_keys": ("json_object_keys",),
                "jsonb_array_elements": ("value",),
                "jsonb_array_elements_text": ("value",),
                "jsonb_each": ("key", "value"),
                "jsonb_each_text": ("key", "value"),
                "jsonb_object_keys": ("jsonb_object_keys",),
                "jsonb_path_query": ("jsonb_path_query",),
                "regexp_matches": ("regexp_matches",),
                "regexp_split_to_table": ("regexp_split_to_table",),
                "unnest": ("unnest",),
            }
        ),
        "mysql": MappingProxyType({}),
        "duckdb": MappingProxyType(
            {"generate_series": ("generate_series",), "range": ("range",), "unnest": ("unnest",)}
        ),
    }
)
"""Functions allowed in FROM, with the columns they give (SQLite's json1 manual, section 4.10; PostgreSQL's chapter 9.26)."""

SPECIAL: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "sqlite": _names("cast"),
        "postgres": _names("cast extract position overlay trim substring json_object"),
        "mysql": _names("cast convert extract position trim substring group_concat interval"),
        "duckdb": _names("cast try_cast extract position trim substring unnest"),
    }
)
"""Calls with a grammar of their own, which the parser must read as itself; everything else is `name(argument, …)`, kept as written."""

UNIT_FIRST: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "timestampdiff": _names("microsecond second minute hour day week month quarter year"),
        "timestampadd": _names("microsecond second minute hour day week month quarter year"),
        "get_format": _names("date time datetime timestamp"),
    }
)
"""MySQL functions whose first argument is a keyword that reads like a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A number written out at `index` must be no larger than `largest`; with `strict`, nothing else may stand there."""

    index: int
    largest: int
    strict: bool = True


CAPS: Mapping[str, Cap] = MappingProxyType(
    {
        "repeat": Cap(index=1, largest=1_000),
        "lpad": Cap(index=1, largest=1_000),
        "rpad": Cap(index=1, largest=1_000),
        "space": Cap(index=0, largest=1_000),
        "zeroblob": Cap(index=0, largest=1_000),
        "generate_series": Cap(index=1, largest=100_000, strict=False),
        "range": Cap(index=-1, largest=100_000, strict=False),
    }
)
FORMATTERS = _names("printf format")
"""Functions whose first argument is a template with widths: it must be written out, and its widths small."""
