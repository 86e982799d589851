"""Which functions a statement may call in each dialect, and how large their arguments may be.

The lists are curated: a function is here because it computes a value from its arguments and reads or changes nothing else. What is not
here is refused; a policy may add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from toolgen.policy.sql.dialects import RECORDS

__all__ = [
    "CAPS",
    "FORMATTERS",
    "FUNCTIONS",
    "GROWING",
    "LAMBDAS",
    "MODIFIERS",
    "SPECIAL",
    "TABLE_FUNCTIONS",
    "UNIT_FIRST",
    "WRITTEN_OUT",
    "Cap",
]


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
    acosh asinh atanh char concat concat_ws cosh date datetime format glob group_concat hex if ifnull iif instr json json_array
    json_array_length json_error_position json_extract json_group_array json_group_object json_insert json_object json_patch json_pretty
    json_quote json_remove json_replace json_set json_type json_valid jsonb jsonb_array jsonb_extract jsonb_group_array jsonb_group_object
    jsonb_object julianday likelihood likely median octet_length percentile percentile_cont percentile_disc printf quote random sinh
    soundex strftime string_agg tanh time timediff total trunc typeof unhex unicode unixepoch unlikely zeroblob
    """
)

_POSTGRES = _COMMON | _names(
    """
    abbrev age any_value array_agg array_append array_cat array_dims array_length array_lower array_ndims array_position array_positions
    array_prepend array_remove array_replace array_sample array_shuffle array_to_json array_to_string array_to_tsvector array_upper ascii
    asinh bit_and bit_count bit_length bit_or bit_xor bool_and bool_or broadcast btrim cardinality casefold cbrt char_length
    character_length chr clock_timestamp convert_from convert_to corr cosd cosh cot covar_pop covar_samp current_time current_timestamp
    date date_add date_bin date_part date_subtract date_trunc daterange decode div encode erf erfc every extract family format gcd
    gen_random_uuid generate_series generate_subscripts get_bit get_byte greatest grouping host hostmask inet_same_family initcap
    int4multirange int4range int8range isempty isfinite json_agg json_array json_array_elements json_array_elements_text json_array_length
    json_arrayagg json_build_array json_build_object json_each json_each_text json_extract_path json_extract_path_text json_object
    json_object_agg json_object_keys json_objectagg json_scalar json_strip_nulls json_typeof jsonb_agg jsonb_agg_strict
    jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each jsonb_each_text
    jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_object_agg jsonb_object_agg_strict jsonb_object_keys
    jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first jsonb_path_query_tz jsonb_pretty
    jsonb_set jsonb_strip_nulls jsonb_typeof justify_days justify_hours justify_interval lcm least left localtime localtimestamp lower_inc
    lower_inf lpad make_date make_interval make_time make_timestamp make_timestamptz masklen md5 min_scale mode multirange netmask network
    normalize now num_nonnulls num_nulls numnode numrange octet_length overlay parse_ident percentile_cont percentile_disc pg_size_pretty
    pg_typeof phraseto_tsquery plainto_tsquery position querytree quote_ident quote_literal quote_nullable random range_agg
    range_intersect_agg range_merge regexp_count regexp_instr regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array
    regexp_split_to_table regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope repeat reverse right row
    row_to_json rpad scale set_bit set_byte set_masklen setseed setweight sha224 sha256 sha384 sha512 sind sinh split_part starts_with
    statement_timestamp stddev stddev_pop stddev_samp string_agg string_to_array string_to_table strip strpos substr tand tanh timeofday
    timezone to_ascii to_char to_date to_hex to_json to_jsonb to_number to_timestamp to_tsquery to_tsvector transaction_timestamp
    translate trim_array trim_scale trunc ts_delete ts_filter ts_headline ts_rank ts_rank_cd tsrange tstzrange tsvector_to_array unistr
    unnest upper_inc upper_inf uuid_extract_timestamp uuid_extract_version uuidv4 uuidv7 var_pop var_samp variance websearch_to_tsquery
    width_bucket
    """
) - _names("setseed")

_MYSQL = _COMMON | _names(
    """
    add_months adddate addtime any_value ascii bin bin_to_uuid bit_and bit_count bit_length bit_or bit_xor char char_length
    character_length chr conv convert_tz cot crc32 crc32c curdate current_date current_time current_timestamp curtime date date_add
    date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear elt export_set field find_in_set format format_pico_time
    from_base64 from_days from_unixtime get_format greatest group_concat hex hour if ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa
    insert instr interval is_ipv4 is_ipv4_compat is_ipv4_mapped is_ipv6 is_uuid isnull json_array json_array_append json_array_insert
    json_arrayagg json_compact json_contains json_contains_path json_depth json_detailed json_equals json_exists json_extract json_insert
    json_keys json_length json_loose json_merge_patch json_merge_preserve json_normalize json_object json_objectagg json_overlaps
    json_pretty json_query json_quote json_remove json_replace json_schema_valid json_search json_set json_type json_unquote json_valid
    json_value last_day lcase least left localtime localtimestamp locate lpad makedate maketime md5 median microsecond mid minute mod
    month monthname natural_sort_key now nvl nvl2 oct octet_length ord period_add period_diff position pow quarter quote rand regexp_instr
    regexp_like regexp_replace regexp_substr repeat reverse right rpad rtrim sec_to_time second sformat sha sha1 sha2 soundex space std
    stddev stddev_pop stddev_samp str_to_date strcmp subdate substr substring_index subtime sysdate time time_format time_to_sec timediff
    timestamp timestampadd timestampdiff to_base64 to_char to_days to_seconds trim trunc truncate ucase unhex unix_timestamp utc_date
    utc_time utc_timestamp uuid uuid_to_bin var_pop var_samp variance week weekday weekofyear year yearweek
    """
)

_DUCKDB = _COMMON | _names(
    """
    add age any_value approx_count_distinct approx_quantile arbitrary arg_max arg_min argmax argmin array_agg array_append array_cat
    array_contains array_cosine_distance array_cosine_similarity array_distinct array_dot_product array_has array_indexof
    array_inner_product array_intersect array_length array_pop_back array_pop_front array_position array_prepend array_push_back
    array_push_front array_reverse array_reverse_sort array_slice array_sort array_to_json array_to_string array_unique array_value ascii
    avg base64 bin bit_and bit_count bit_length bit_or bit_position bit_xor bitstring_agg bool_and bool_or cardinality cbrt century chr
    contains corr cosh cot count_if countif covar_pop covar_samp current_date damerau_levenshtein date date_add date_diff date_part date_sub
    date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear decade divide element_at ends_with entropy
    epoch epoch_ms epoch_ns epoch_us even favg fdiv filter first flatten fmod format from_json from_json_strict get_current_timestamp
    format_bytes formatreadabledecimalsize formatreadablesize from_base64 fsum gamma gcd gen_random_uuid generate_series geomean
    geometric_mean get_bit grade_up greatest greatest_common_divisor group_concat grouping hamming hash hex histogram hour if ifnull initcap
    instr is_histogram_other_bin isfinite isinf isnan isodow isoyear jaccard jaro_similarity jaro_winkler_similarity json json_array
    json_array_length json_contains json_extract json_extract_path json_extract_path_text json_extract_string json_group_array
    json_group_object json_group_structure json_keys json_merge_patch json_object json_pretty json_structure json_transform
    json_transform_strict json_type json_valid json_value julian kahan_sum kurtosis kurtosis_pop last last_day lcase lcm least
    least_common_multiple left len levenshtein lgamma list list_aggr list_aggregate list_any_value list_append list_apply list_avg
    list_cat list_concat list_contains list_cosine_distance list_cosine_similarity list_count list_distinct list_dot_product list_element
    list_extract list_filter list_first list_grade_up list_has list_has_all list_has_any list_histogram list_indexof list_inner_product
    list_intersect list_last list_max list_median list_min list_mode list_pack list_position list_prepend list_product list_reduce
    list_reverse list_reverse_sort list_select list_slice list_sort list_stddev_pop list_string_agg list_sum list_transform list_unique
    list_value list_var_pop list_where list_zip lpad mad make_date make_time make_timestamp make_timestamp_ns make_timestamptz map
    map_concat map_contains map_entries map_extract map_from_entries map_keys map_values max max_by md5 median millisecond min min_by
    minute mismatches mode month monthname multiply nextafter nfc_normalize now nvl octet_length ord parse_dirname parse_filename
    parse_path percentile_cont percentile_disc position pow prefix printf product quantile quantile_cont quantile_disc quarter random
    range reduce regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches regexp_replace regexp_split_to_array
    regexp_split_to_table regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat
    reservoir_quantile reverse right round_even row rpad rtrim second sem sha1 sha256 signbit sinh skewness split split_part starts_with
    stddev stddev_pop stddev_samp str_split strftime string_agg string_split strip_accents strlen strpos strptime struct_extract
    struct_insert struct_pack subtract suffix sumkahan tanh time_bucket timezone timezone_hour timezone_minute to_base to_base64
    to_centuries to_days to_decades to_hours to_json to_microseconds to_millennia to_milliseconds to_minutes to_months to_quarters
    to_seconds to_timestamp to_weeks to_years today transform translate trunc try_strptime typeof ucase unbin unhex unicode union_extract
    union_tag unixepoch unnest url_decode url_encode uuid uuidv7 var_pop var_samp variance wavg week weekday weekofyear weighted_avg xor
    year yearweek
    """
)

FUNCTIONS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        name: listed | RECORDS[name].functions
        for name, listed in (("sqlite", _SQLITE), ("postgres", _POSTGRES), ("mysql", _MYSQL), ("duckdb", _DUCKDB))
    }
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
                "string_to_table": ("string_to_table",),
                "unnest": ("unnest",),
                **RECORDS["postgres"].table_functions,
            }
        ),
        "mysql": MappingProxyType({}),
        "duckdb": MappingProxyType(
            {"generate_series": ("generate_series",), "range": ("range",), "unnest": ("unnest",)}
            | dict(RECORDS["duckdb"].table_functions)
        ),
    }
)
"""Functions allowed in FROM, with the columns they give (SQLite's json1 manual, section 4.10; PostgreSQL's chapter 9.26)."""

SPECIAL: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "sqlite": _names("cast"),
        "postgres": _names("cast extract position overlay trim substring json_object interval"),
        "mysql": _names("cast convert extract position trim substring group_concat interval json_table"),
        "duckdb": _names("cast try_cast extract position trim substring unnest interval"),
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


class Cap(Struct, frozen=True, kw_only=True):
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
MODIFIERS = frozenset(  # https://dev.mysql.com/doc/refman/8.4/en/select.html: those that only speak to the optimizer
    [
        "STRAIGHT_JOIN",
        "HIGH_PRIORITY",
        "SQL_NO_CACHE",
        "SQL_CACHE",
        "SQL_SMALL_RESULT",
        "SQL_BIG_RESULT",
        "SQL_BUFFER_RESULT",
    ]
)
"""Words that MySQL reads behind SELECT, and that change no answer."""

LAMBDAS = _names(
    """
    apply array_apply array_filter array_reduce array_transform filter list_apply list_filter list_reduce list_transform reduce
    """
)
"""DuckDB's functions that take a function; in the arguments of any other an arrow reads JSON."""

GROWING = _names("repeat lpad rpad space zeroblob")
"""Functions whose result is as long as they are told. One in another would multiply what each may do alone."""

WRITTEN_OUT: Mapping[str, int] = MappingProxyType({"translate": 1, "btrim": 1, "ltrim": 1, "rtrim": 1, "trim": 1})
"""From this argument on, texts are written out: engines look up each character of one in all of the other, and not at the time."""

FORMATTERS = _names("printf format")
"""Functions whose first argument is a template with widths: it must be written out, and its widths small."""
