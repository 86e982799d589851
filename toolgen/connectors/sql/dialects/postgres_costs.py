"""Permitted functions and operators of PostgreSQL, with their costs."""

from __future__ import annotations

from typing import Final

from toolgen.connectors.sql.dialects.costs import COMMON, OPERATORS, Cost, table

__all__ = ["POSTGRES_FUNCTIONS", "POSTGRES_OPERATORS"]

POSTGRES_FUNCTIONS: Final = table(
    COMMON,
    (
        (
            Cost(),
            """
            acosd acosh age array_position array_dims array_length array_lower array_ndims array_upper ascii asind asinh atan2d atand
            atanh bit_and bit_count bit_length bit_or bit_xor bool bool_and bool_or cardinality char_length
            character_length clock_timestamp corr cosd cosh cot cotd covar_pop covar_samp current_time
            current_timestamp date date_add date_bin date_part date_subtract erf erfc every extract family float4 float8
            gen_random_uuid generate_series generate_subscripts get_bit get_byte grouping host hostmask
            hashtext hashtextextended inet_merge pg_column_size regr_sxx regr_sxy regr_syy
            inet_same_family int2 int4 int8 isempty isfinite json_array_length json_typeof jsonb_array_length jsonb_typeof
            justify_days justify_hours localtime localtimestamp lower_inc macaddr8_set7bit lower_inf make_date make_interval make_time
            make_timestamp make_timestamptz masklen netmask network now num_nonnulls num_nulls numnode octet_length
            pg_size_bytes pg_size_pretty pg_typeof random regr_avgx regr_avgy regr_count regr_intercept regr_r2
            regr_slope scale set_masklen sha224 sha256 sha384 sha512 sind sinh statement_timestamp tand tanh timeofday
            timezone to_date to_timestamp transaction_timestamp upper_inc upper_inf uuid_extract_timestamp
            uuid_extract_version uuidv4 uuidv7
            """,
        ),
        (
            Cost(),
            """
            area bound_box box center circle diagonal diameter height isclosed isopen line lseg npoints point radius slope width
            """,
        ),
        (Cost(result="digest"), "chr md5 to_hex"),
        (Cost(result="sum", factor=500), "enum_first enum_last enum_range"),  # labels of up to 63 bytes
        (
            Cost(result="one", work=1),
            """
            any_value array_sample array_shuffle greatest least mode percentile_cont percentile_disc unnest
            """,
        ),
        (
            Cost(result="sum"),
            """
            abbrev abs array_append array_cat array_positions array_prepend array_remove avg broadcast
            ceil ceiling convert_from date_trunc datemultirange daterange decode floor int4multirange int4range
            int8range json_extract_path json_extract_path_text justify_interval left min_scale multirange
            nummultirange numrange range_intersect_agg range_merge reverse right row set_bit set_byte sum text to_ascii
            to_number trim_array trim_scale tsmultirange tsrange tstzmultirange tstzrange unistr
            """,
        ),
        (Cost(result="sum", factor=3), "casefold initcap lower upper"),
        (Cost(result="sum", factor=4), "convert_to encode"),
        (Cost(result="sum", factor=2), "quote_ident quote_literal quote_nullable"),
        (Cost(result="sum", factor=8), "to_char"),
        (Cost(result="sum", factor=12, work=1000, memory=20, square=3), "is_normalized normalize"),
        (Cost(result="pad", factor=4), "lpad rpad"),
        (Cost(result="pad"), "round trunc"),
        (Cost(result="sum", factor=2), "overlay"),
        (Cost(result="sum", pattern=1, compiling=1_500), "regexp_substr substring"),
        (Cost(result="repeat"), "repeat"),
        (Cost(result="template"), "format"),
        (Cost(result="sum", factor=4, pairs=14), "translate"),
        (Cost(result="sum", pairs=10), "btrim ltrim rtrim trim"),
        (Cost(result="sum", pairs=1.2), "split_part"),
        (Cost(pairs=1.2), "position starts_with strpos"),
        (Cost(result="sum", factor=8, memory=6, pairs=2), "string_to_array string_to_table"),
        (Cost(result="sum", factor=8, work=50, memory=6), "parse_ident tsvector_to_array"),
        (Cost(work=300, memory=10, pattern=1, compiling=1_500), "regexp_count regexp_instr regexp_like"),
        (Cost(result="insert", work=300, memory=4, pattern=1, compiling=1_500), "regexp_replace"),
        (Cost(result="insert", memory=4), "array_replace"),
        (
            Cost(result="sum", factor=8, work=50, memory=6, pattern=1, compiling=1_500),
            "regexp_match regexp_matches regexp_split_to_array regexp_split_to_table",
        ),
        (Cost(result="join"), "array_to_string"),
        (Cost(result="sum", factor=2, work=300, memory=20), "array_to_tsvector to_tsvector"),
        (Cost(result="sum", work=50, memory=2, pairs=5), "querytree setweight strip ts_delete ts_filter"),
        (
            Cost(result="sum", factor=2, work=200, memory=20, square=0.2),
            """
            phraseto_tsquery plainto_tsquery to_tsquery tsquery_phrase websearch_to_tsquery
            """,
        ),
        (Cost(result="wrap", work=1500, memory=60, pair_memory=1_700), "ts_headline"),
        (Cost(work=200, memory=4, pairs=5), "ts_rank ts_rank_cd"),
        (
            Cost(result="document", work=40, memory=4),
            """
            array_to_json json_array json_build_array json_build_object json_object json_scalar jsonb_build_array
            jsonb_build_object jsonb_object row_to_json to_json to_jsonb
            """,
        ),
        (Cost(result="sum", factor=6, work=40, memory=4), "xmlattributes xmlcomment xmlforest"),
        (Cost(result="sum", work=20, memory=4), "xmlconcat"),
        (Cost(result="sum", factor=100, work=120, memory=6), "xpath"),
        (Cost(work=2_000, memory=60), "xpath_exists"),
        (Cost(result="gather", work=0), "array_agg range_agg string_agg xmlagg"),
        (
            Cost(result="collect", work=0),
            """
            json_agg json_arrayagg json_object_agg json_objectagg jsonb_agg jsonb_agg_strict jsonb_object_agg
            jsonb_object_agg_strict
            """,
        ),
        (
            Cost(result="json", work=350, memory=60),
            """
            json_array_elements json_array_elements_text json_each json_each_text json_object_keys json_strip_nulls
            jsonb_array_elements jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_extract_path
            jsonb_extract_path_text jsonb_insert jsonb_object_keys jsonb_set jsonb_set_lax jsonb_strip_nulls
            """,
        ),
        (Cost(result="indent", memory=2), "jsonb_pretty"),
        (
            Cost(result="json", work=350, memory=60, path=1),
            """
            jsonb_path_exists jsonb_path_match jsonb_path_query jsonb_path_query_array jsonb_path_query_first
            jsonb_path_exists_tz jsonb_path_match_tz jsonb_path_query_array_tz jsonb_path_query_first_tz jsonb_path_query_tz
            """,
        ),
        (Cost(result="sum", pairs=0.1), "div mod"),
        (Cost(result="sum", pairs=1), "gcd lcm"),
        (Cost(result="sum", square=0.1), "cbrt sqrt"),
        (Cost(result="sum", square=0.1), "ln log log10"),
        (Cost(result="power", square=0.1), "exp"),
        (Cost(result="power", pairs=1), "pow power"),
        (Cost(result="factorial", count=0, work=1_000), "factorial"),
        (Cost(result="fill", memory=2), "array_fill"),
        (Cost(result="sum", factor=2, square=0.1), "stddev stddev_pop stddev_samp var_pop var_samp variance"),
        (Cost(pairs=0.1), "width_bucket"),
    ),
)
"""Functions by their names in lower case."""

POSTGRES_OPERATORS: Final = table(
    OPERATORS,
    (
        (Cost(pairs=2), "Like ILike"),
        (Cost(pairs=1.2), "StrPosition StartsWith"),
        (Cost(work=300, memory=10, pattern=1, compiling=1_500), "RegexpLike RegexpILike SimilarTo"),
        (
            Cost(work=1, pairs=0.2),
            """
            ArrayContainedBy ArrayContainsAll ArrayOverlaps ExtendsLeft ExtendsRight JSONBContains JSONBContainsAllTopKeys
            JSONBContainsAnyTopKeys JSONBContainsTopKey
            """,
        ),
        (Cost(result="sum", work=50, pairs=0.2), "Operator"),
        (Cost(work=350, memory=60, path=1), "JSONBPathExists"),
        (Cost(result="sum", work=2, pattern=1, compiling=1_500), "Substring"),
        (Cost(work=20, memory=60, path=0), "MatchAgainst"),
        (Cost(result="json", work=350, memory=60), "JSONBDeleteAtPath JSONBExtract JSONBExtractScalar"),
        (Cost(result="sum", factor=6, work=40, memory=4), "XMLElement"),
        (Cost(result="sum", factor=10, work=1_200, memory=60), "XMLTable"),
        (
            Cost(result="one", work=0, memory=0),
            "ColumnConstraint DefaultColumnConstraint NotNullColumnConstraint PathColumnConstraint",
        ),
        (Cost(result="sum", pairs=10), "Trim"),
        (Cost(result="sum", work=2, pairs=0.1), "Mul Div Mod IntDiv"),
        (Cost(result="one", work=2, pairs=0.02), "Sub"),
        (Cost(result="power", pairs=1), "Pow"),
        (Cost(result="sum", square=0.1), "Sqrt Cbrt"),
        (Cost(result="document", work=40, memory=4), "JSONObject"),
    ),
)
"""Operators by the names of their classes."""
