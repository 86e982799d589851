"""Permitted functions and operators of DuckDB, with their costs."""

from __future__ import annotations

from typing import Final

from toolgen.connectors.sql.dialects.costs import COMMON, OPERATORS, Cost, table

__all__ = ["DUCKDB_FUNCTIONS", "DUCKDB_OPERATORS"]

DUCKDB_FUNCTIONS: Final = table(
    COMMON,
    (
        (
            Cost(),
            """
            acosh add age ago array_negative_dot_product array_negative_inner_product current_localtime current_localtimestamp
            enum_code list_negative_dot_product list_negative_inner_product roundbankers struct_has struct_indexof struct_position
            uuid_extract_timestamp uuid_extract_version approx_count_distinct array_contains array_cosine_distance array_cosine_similarity
            array_distance array_dot_product array_has array_has_all array_has_any array_indexof array_inner_product
            array_length array_position ascii asinh atanh bit_and bit_count bit_length bit_or bit_position bit_xor
            bool_and bool_or cardinality cbrt century char_length character_length chr contains corr cosh cot count_if
            countif covar_pop covar_samp current_date date date_add date_diff date_part date_sub date_trunc datediff
            datepart datesub datetrunc day dayname dayofmonth dayofweek dayofyear days_in_month decade divide
            ends_with entropy epoch epoch_ms epoch_ns epoch_us era even factorial favg fdiv fmod format_bytes
            formatreadabledecimalsize formatreadablesize fsum gamma gcd gen_random_uuid geomean geometric_mean get_bit
            get_current_time get_current_timestamp greatest_common_divisor grouping grouping_id hamming hash hour instr
            is_histogram_other_bin isfinite isinf isnan isodow isoyear julian kahan_sum kurtosis kurtosis_pop last_day
            lcm least_common_multiple len length_grapheme lgamma list_approx_count_distinct list_bit_and list_bit_or
            list_bit_xor list_bool_and list_bool_or list_contains list_cosine_distance list_cosine_similarity
            list_count list_distance list_dot_product list_entropy list_has list_has_all list_has_any list_indexof
            list_inner_product list_kurtosis list_kurtosis_pop list_mad list_position list_sem list_skewness
            list_stddev_pop list_stddev_samp list_var_pop list_var_samp make_date make_time make_timestamp
            make_timestamp_ms make_timestamp_ns make_timestamptz map_contains map_contains_entry map_contains_value
            md5 md5_number mean microsecond millennium millisecond minute mismatches month monthname multiply
            nanosecond nextafter now octet_length ord parse_formatted_bytes pg_typeof position prefix product quarter random
            regexp_full_match regexp_matches regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx
            regr_sxy regr_syy round_even second sem sha1 sha256 signbit sinh skewness starts_with stddev stddev_pop
            stddev_samp strlen strpos strptime struct_contains subtract suffix sumkahan tanh time_bucket timezone
            timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds to_millennia
            to_milliseconds to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years today
            transaction_timestamp trunc try_strptime typeof unicode union_tag unixepoch uuid uuidv4 uuidv7 var_pop
            var_samp variance wavg week weekday weekofyear weighted_avg xor year yearweek
            """,
        ),
        (
            Cost(result="one", work=1),
            """
            aggregate any_value approx_quantile arbitrary array_aggregate array_extract element_at fill first greatest if ifnull last
            least list_aggr list_aggregate list_any_value list_avg list_element list_extract list_first list_last
            list_max list_median list_min list_mode list_product list_sum mad median mode nvl
            constant_or_null map_extract_value struct_extract_at
            percentile_cont percentile_disc quantile quantile_cont quantile_disc reservoir_quantile struct_extract
            try union_extract union_value unnest
            """,
        ),
        (
            Cost(result="sum"),
            """
            array_append array_cat array_concat array_distinct array_grade_up array_intersect array_pop_back
            array_pop_front array_prepend array_push_back array_push_front array_reverse array_reverse_sort
            array_select array_slice array_sort array_unique array_value array_where array_zip columns
            decode encode flatten from_base64 from_binary from_hex from_json from_json_strict grade_up json_extract
            json_extract_path json_extract_path_text json_extract_string json_keys json_structure json_transform
            json_transform_strict json_value left left_grapheme list_append list_cat list_concat list_distinct
            list_grade_up list_intersect list_pack list_prepend list_reverse list_reverse_sort list_select list_slice
            list_sort list_unique list_value list_where list_zip map map_concat map_entries map_extract
            map_from_entries map_keys map_values overlay array_cross_product
            list_cross_product parse_dirname unpack_columns parse_dirpath parse_filename regexp_extract
            reverse right right_grapheme row set_bit split_part strip_accents struct_concat struct_insert struct_keys
            struct_pack struct_update struct_values substring_grapheme titles_of_columns transform translate unbin unhex url_decode
            """,
        ),
        (Cost(result="sum", factor=2), "base64 hex initcap lcase lower regexp_escape to_base64 to_hex ucase upper"),
        (Cost(result="sum", factor=8), "bin to_binary"),
        (Cost(result="sum", factor=3), "url_encode"),
        (Cost(result="sum", factor=12), "nfc_normalize"),
        (Cost(result="sum", factor=10), "strftime"),
        (
            Cost(result="sum", factor=16, memory=4),
            """
            parse_path regexp_extract_all regexp_split_to_array regexp_split_to_table split str_split str_split_regex
            string_split string_split_regex string_to_array
            """,
        ),
        (
            Cost(result="top", work=1),
            """
            arg_max arg_max_null arg_max_nulls_last arg_min arg_min_null arg_min_nulls_last argmax argmin max max_by min min_by
            """,
        ),
        (Cost(result="bits"), "bitstring_agg"),
        (Cost(result="repeat"), "repeat"),
        (Cost(result="pad", factor=4), "lpad rpad"),
        (Cost(result="pad", count=3, factor=4), "bar"),
        (Cost(result="pad", count=2, factor=4), "to_base"),
        (Cost(result="pad"), "bitstring"),
        (Cost(result="series", factor=16, memory=2), "generate_series generate_subscripts range"),
        (Cost(result="series", factor=16, memory=2), "array_resize list_resize"),
        (Cost(result="series", count=2, factor=16), "equi_width_bins"),
        (Cost(result="template"), "format printf"),
        (Cost(result="insert"), "regexp_replace"),
        (Cost(result="join"), "array_to_string list_string_agg"),
        (
            Cost(result="map"),
            "apply array_apply array_reduce array_transform list_apply list_reduce list_transform reduce",
        ),
        (Cost(result="filter"), "array_filter filter list_filter"),
        (
            Cost(result="gather", work=0),
            """
            approx_top_k array_agg group_concat histogram histogram_exact list list_histogram listagg string_agg
            """,
        ),
        (Cost(result="collect", work=0), "json_group_array json_group_object json_group_structure"),
        (Cost(result="document", memory=4), "array_to_json json_array json_object json_quote row_to_json to_json"),
        (
            Cost(result="json", memory=30),
            """
            json json_array_length json_contains json_deep_merge json_exists json_insert json_merge_patch json_remove
            json_replace json_set json_strip_nulls json_type json_valid
            """,
        ),
        (Cost(result="indent", memory=30), "json_pretty"),
        (Cost(pairs=20, memory=8, pair_memory=8), "damerau_levenshtein"),
        (
            Cost(pairs=20, memory=8),
            "editdist3 jaccard jaro_similarity jaro_winkler_similarity levenshtein",
        ),
    ),
)
"""Functions by their names in lower case."""

DUCKDB_OPERATORS: Final = table(
    OPERATORS,
    (
        (Cost(result="json", memory=30), "JSONExtract JSONExtractScalar"),
        (Cost(result="map"), "Comprehension"),
    ),
)
"""Operators by the names of their classes."""
