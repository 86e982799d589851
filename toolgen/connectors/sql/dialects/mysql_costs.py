"""Permitted functions and operators of MySQL and MariaDB, with their costs."""

from __future__ import annotations

from typing import Final

from toolgen.connectors.sql.dialects.costs import COMMON, OPERATORS, Cost, table

__all__ = ["MYSQL_FUNCTIONS", "MYSQL_OPERATORS"]

MYSQL_FUNCTIONS: Final = table(
    COMMON,
    (
        (
            Cost(),
            """
            adddate addtime ascii bin charset coercibility collation bin_to_uuid bit_and bit_count bit_length bit_or bit_xor char_length
            character_length conv convert_tz cot crc32 crc32c curdate current_date current_time current_timestamp
            curtime date date_add date_sub datediff day dayname dayofmonth dayofweek dayofyear field format_pico_time
            from_days from_unixtime hour inet6_aton inet6_ntoa inet_aton inet_ntoa interval is_ipv4 is_ipv4_compat
            is_ipv4_mapped is_ipv6 is_uuid isnull lengthb last_day localtime localtimestamp makedate maketime md5 microsecond
            minute month monthname now oct octet_length ord period_add period_diff quarter rand sec_to_time second sha
            sha1 sha2 std stddev stddev_pop stddev_samp str_to_date strcmp subdate subtime sysdate time time_to_sec
            timediff timestamp timestampadd timestampdiff to_days to_seconds trunc truncate unix_timestamp utc_date
            utc_time utc_timestamp uuid uuid_to_bin var_pop var_samp variance week weekday weekofyear year yearweek
            """,
        ),
        (
            Cost(result="one", work=1),
            """
            any_value decode_oracle elt greatest if ifnull least median nvl nvl2 percentile_cont percentile_disc
            """,
        ),
        (
            Cost(result="sum"),
            "add_months from_base64 insert json_unquote make_set left mid reverse right row soundex unhex",
        ),
        (Cost(result="sum", factor=2), "hex lcase lower natural_sort_key quote to_base64 ucase upper"),
        (Cost(result="sum", factor=4), "char chr"),
        (Cost(result="sum", factor=10), "date_format get_format time_format to_char"),
        (Cost(result="sum", factor=64), "export_set"),
        (Cost(), "point st_dimension st_geometrytype st_isclosed st_isempty st_numpoints st_srid st_x st_y"),
        (Cost(work=100, memory=6), "st_area st_centroid st_length st_startpoint st_endpoint st_pointn"),
        (
            Cost(result="sum", factor=4, work=100, memory=6),
            """
            linestring polygon st_asgeojson st_astext st_aswkt st_envelope st_exteriorring st_geomfromgeojson st_geomfromtext
            st_linefromtext st_pointfromtext st_polyfromtext st_polygonfromtext
            """,
        ),
        (
            Cost(pairs=200),
            """
            mbrcontains mbrdisjoint mbrequal mbrintersects mbroverlaps mbrtouches mbrwithin st_contains st_crosses st_disjoint
            st_distance st_distance_sphere st_equals st_intersects st_overlaps st_touches st_within
            """,
        ),
        (Cost(result="repeat"), "repeat"),
        (Cost(result="pad", factor=4), "lpad rpad"),
        (Cost(result="pad"), "format round"),
        (Cost(result="space"), "space"),
        (Cost(result="template"), "sformat"),
        (Cost(result="replace", pairs=2, square=0.3), "replace"),
        (Cost(result="sum", pairs=1), "substring_index"),
        (Cost(pairs=2), "find_in_set instr locate position"),
        (Cost(pattern=1), "regexp_instr regexp_like"),
        (Cost(result="sum", pattern=1), "regexp_substr"),
        (Cost(result="insert", square=0.5, pattern=1), "regexp_replace"),
        (Cost(result="gather", work=0), "group_concat"),
        (Cost(result="collect", work=0), "json_arrayagg json_objectagg"),
        (Cost(result="document", work=60, memory=4), "json_array json_object json_quote"),
        (
            Cost(result="json", work=100, memory=6),
            """
            json_array_append json_array_insert json_compact json_depth json_equals json_exists json_extract
            json_insert json_keys json_length json_loose json_merge json_merge_patch json_merge_preserve json_query json_remove
            json_replace json_set json_type json_valid json_value
            """,
        ),
        (Cost(result="json", work=600, memory=120), "json_normalize"),
        (Cost(work=100, memory=6, pairs=30), "json_contains json_contains_path json_overlaps json_schema_valid"),
        (Cost(result="sum", factor=4, work=100, memory=6, pairs=12), "json_search"),
        (Cost(result="indent", work=100, memory=6), "json_detailed json_pretty"),
    ),
)
"""Functions by their names in lower case."""

MYSQL_OPERATORS: Final = table(
    OPERATORS,
    (
        (Cost(pairs=12), "Like ILike"),
        (Cost(pairs=2), "StrPosition"),
        (Cost(pattern=1), "RegexpLike"),
        (Cost(work=1000), "MatchAgainst"),
        (Cost(pairs=30, work=100), "MemberOf"),
        (Cost(result="json", work=100, memory=6), "JSONExtract JSONExtractScalar JSONTable"),
    ),
)
"""Operators by the names of their classes."""
