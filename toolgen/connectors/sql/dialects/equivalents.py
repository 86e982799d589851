"""Equivalents, per engine, of functions of other engines."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["DUCKDB_EQUIVALENTS", "MYSQL_EQUIVALENTS", "POSTGRES_EQUIVALENTS", "SQLITE_EQUIVALENTS", "equivalents"]

_CASE: Final = "CASE WHEN n > 0 THEN 'a' ELSE 'b' END"
_PIVOT: Final = "sum(CASE WHEN t = 'a' THEN n END)"
_PIVOTED: Final = "crosstab pivot"


def equivalents(text: str) -> Mapping[str, str]:
    """Parse lines of function names before `->` and their equivalent of this engine, for columns d and d2 (dates), t (text), n (a
    number), j (JSON).
    """
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        names, _, instead = line.partition(" -> ")
        found.update(dict.fromkeys(names.split(), instead))
    return MappingProxyType(found)


SQLITE_EQUIVALENTS: Final = equivalents(f"""
    year date_part datepart extract -> CAST(strftime('%Y', d) AS INTEGER)
    month -> CAST(strftime('%m', d) AS INTEGER)
    day dayofmonth -> CAST(strftime('%d', d) AS INTEGER)
    hour -> CAST(strftime('%H', d) AS INTEGER)
    minute -> CAST(strftime('%M', d) AS INTEGER)
    quarter -> (CAST(strftime('%m', d) AS INTEGER) + 2) / 3
    week weekofyear yearweek -> strftime('%W', d)
    weekday dayofweek isodow -> strftime('%w', d)
    dayofyear -> strftime('%j', d)
    date_trunc datetrunc -> date(d, 'start of month')
    last_day -> date(d, 'start of month', '+1 month', '-1 day')
    date_format to_char -> strftime('%Y-%m', d)
    now getdate getutcdate sysdate localtimestamp -> datetime('now')
    curdate today -> date('now')
    datediff date_diff timestampdiff age -> julianday(d) - julianday(d2)
    date_add dateadd adddate timestampadd date_sub datesub subdate -> date(d, '+1 day')
    isnull nvl -> ifnull(n, 0)
    if nvl2 decode -> {_CASE}
    len char_length character_length -> length(t)
    charindex locate position strpos -> instr(t, 'a')
    left -> substr(t, 1, 3)
    right -> substr(t, -3)
    split_part substring_index -> substr(t, 1, instr(t, ',') - 1)
    concat -> t || 'a'
    concat_ws -> t || ', ' || t
    string_agg listagg array_agg -> group_concat(t, ', ')
    json_value json_query json_extract_path_text -> json_extract(j, '$.a')
    regexp_like regexp_matches regexp_match rlike -> t LIKE '%a%'
    regexp_replace -> replace(t, 'a', 'b')
    rand -> random()
    std stddev_pop -> sqrt(avg(n * n) - avg(n) * avg(n))
    var_pop -> avg(n * n) - avg(n) * avg(n)
    stddev stddev_samp stdev -> sqrt((avg(n * n) - avg(n) * avg(n)) * count(n) / (count(n) - 1))
    variance var_samp -> (avg(n * n) - avg(n) * avg(n)) * count(n) / (count(n) - 1)
    bool_or -> max(n > 0)
    bool_and every -> min(n > 0)
    greatest -> max(n, 1)
    least -> min(n, 1)
    to_date str_to_date -> date(t)
    unix_timestamp epoch to_unixtime -> CAST(strftime('%s', d) AS INTEGER)
    from_unixtime to_timestamp -> datetime(n, 'unixepoch')
    truncate trunc to_number try_cast -> CAST(n AS INTEGER)
    {_PIVOTED} -> {_PIVOT}
""")
POSTGRES_EQUIVALENTS: Final = equivalents(f"""
    year -> extract(year FROM d)
    month -> extract(month FROM d)
    day dayofmonth -> extract(day FROM d)
    hour -> extract(hour FROM d)
    minute -> extract(minute FROM d)
    quarter -> extract(quarter FROM d)
    week weekofyear yearweek -> extract(week FROM d)
    weekday dayofweek -> extract(dow FROM d)
    dayofyear -> extract(doy FROM d)
    dayname monthname date_format strftime format_datetime -> to_char(d, 'YYYY-MM')
    datepart -> date_part('year', d)
    datetrunc -> date_trunc('month', d)
    last_day -> date_trunc('month', d) + interval '1 month' - interval '1 day'
    getdate getutcdate sysdate datetime -> now()
    curdate today -> current_date
    datediff date_diff timestampdiff julianday -> d::date - d2::date
    date_add dateadd adddate timestampadd addtime -> d + interval '1 day'
    date_sub datesub subdate -> d - interval '1 day'
    ifnull isnull nvl -> coalesce(n, 0)
    if iif nvl2 decode -> {_CASE}
    len -> length(t)
    charindex locate instr -> strpos(t, 'a')
    substring_index -> split_part(t, ',', 1)
    group_concat listagg -> string_agg(t::text, ', ')
    json_value json_unquote -> j::jsonb ->> 'a'
    json_extract json_query -> j::jsonb -> 'a'
    regexp rlike regexp_matches_all -> t ~ 'a'
    regexp_like -> t ~ 'a'
    rand -> random()
    median -> percentile_cont(0.5) WITHIN GROUP (ORDER BY n)
    std stdev -> stddev(n)
    str_to_date strptime -> to_date(t, 'YYYY-MM-DD')
    unix_timestamp epoch unixepoch -> extract(epoch FROM d)
    from_unixtime -> to_timestamp(n)
    truncate -> trunc(n)
    ucase -> upper(t)
    lcase -> lower(t)
    any_value -> min(t)
    total -> sum(n)
    try_cast convert to_number -> CAST(n AS integer)
    point box circle line lseg path polygon -> sqrt(power(n - 1, 2) + power(n - 2, 2))
    xmlagg xmlconcat xmlelement xmlforest xmlparse xmlserialize xpath xpath_exists -> jsonb_build_object('a', t)
    lengthb -> octet_length(t)
    {_PIVOTED} -> {_PIVOT}
""")
MYSQL_EQUIVALENTS: Final = equivalents(f"""
    date_part datepart -> extract(year FROM d)
    date_trunc datetrunc -> date_format(d, '%Y-%m-01')
    strftime format_datetime -> date_format(d, '%Y-%m')
    isodow -> weekday(d)
    getdate getutcdate datetime -> now()
    today -> curdate()
    date_diff julianday age -> datediff(d, d2)
    dateadd -> date_add(d, INTERVAL 1 DAY)
    datesub -> date_sub(d, INTERVAL 1 DAY)
    isnull nvl -> ifnull(n, 0)
    iif nvl2 decode -> {_CASE}
    len -> char_length(t)
    charindex strpos -> locate('a', t)
    split_part -> substring_index(t, ',', 1)
    string_agg listagg array_agg -> group_concat(t SEPARATOR ', ')
    json_extract_path_text json_extract_string -> json_value(j, '$.a')
    regexp_like regexp_matches regexp_match -> t REGEXP 'a'
    random -> rand()
    stdev -> stddev(n)
    bool_or -> max(n > 0)
    bool_and every -> min(n > 0)
    to_date strptime -> str_to_date(t, '%Y-%m-%d')
    to_timestamp -> from_unixtime(n)
    epoch unixepoch -> unix_timestamp(d)
    trunc -> truncate(n, 0)
    total -> sum(n)
    initcap -> concat(upper(left(t, 1)), lower(substr(t, 2)))
    to_number try_cast -> CAST(n AS SIGNED)
    st_distance st_distance_sphere st_x st_y st_astext point -> sqrt(pow(n - 1, 2) + pow(n - 2, 2))
    weight_string -> lower(t)
    binary -> CAST(t AS BINARY)
    extractvalue updatexml -> regexp_substr(t, '<a>[^<]*')
    compress uncompress encode aes_encrypt -> sha2(t, 256)
    random_bytes sys_guid uuid_short -> uuid()
    {_PIVOTED} -> {_PIVOT}
""")
DUCKDB_EQUIVALENTS: Final = equivalents(f"""
    date_format to_char format_datetime -> strftime(d, '%Y-%m')
    getdate getutcdate sysdate datetime -> now()
    curdate -> current_date
    datediff date_diff timestampdiff julianday -> date_diff('day', d, d2)
    dateadd adddate timestampadd addtime -> d + INTERVAL 1 DAY
    subdate -> d - INTERVAL 1 DAY
    isnull nvl -> ifnull(n, 0)
    iif nvl2 decode -> {_CASE}
    char_length character_length -> length(t)
    charindex locate -> strpos(t, 'a')
    substring_index -> split_part(t, ',', 1)
    listagg -> string_agg(t, ', ')
    json_unquote -> json_extract_string(j, '$.a')
    regexp_like regexp_match rlike -> regexp_matches(t, 'a')
    rand -> random()
    std stdev -> stddev(n)
    to_date str_to_date -> CAST(strptime(t, '%Y-%m-%d') AS DATE)
    unix_timestamp -> epoch(d)
    from_unixtime -> to_timestamp(n)
    truncate -> trunc(n)
    find_in_set -> list_contains(string_split(t, ','), 'a')
    total -> sum(n)
    to_number convert -> CAST(n AS INTEGER)
    crosstab -> {_PIVOT}
""")
