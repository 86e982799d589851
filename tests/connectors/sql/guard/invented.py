"""Statements invented to take a server's time or memory, to hold locks, or to write: forms that are filled with counts and texts.

Each form stands for a way to multiply work: by rows that functions make, by recursion, by states of aggregates and windows, by plans, by
patterns, documents and numbers. The last forms lock or write, if they run at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

__all__ = ["invented"]

_COUNTS: Final = (9, 1_000, 100_000)
_BOTH: Final = (
    "WITH RECURSIVE r AS (SELECT 1 AS n, {text} AS t UNION ALL SELECT n + 1, concat(t, t) FROM r WHERE n < {n}) SELECT count(t) FROM r",
    "WITH RECURSIVE r AS (SELECT 1 AS n, {text} AS t UNION ALL (SELECT n + 1, concat(t, t) FROM r WHERE n < {n})) SELECT count(t) FROM r",
    "WITH a AS (SELECT {text} AS t UNION ALL SELECT repeat('a', {n})), b AS (SELECT 'a' AS t UNION ALL SELECT replace(t, 'a', t) FROM a)"
    " SELECT max(length(replace(t, 'a', repeat('b', {n})))) FROM b",
    "SELECT max(length(replace(x, 'a', y))) FROM (SELECT 'a' AS x, 'b' AS y UNION (SELECT repeat('a', {n}), repeat('b', {n}))) q",
    "WITH RECURSIVE r(n, t) AS (SELECT 1, {text} UNION ALL SELECT n + 1, concat(t, t) FROM r WHERE n < {n}) SELECT max(length(t)) FROM r",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT r.n + 1 FROM r, words w, words v WHERE r.n < {n}) SELECT count(*) FROM r",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n * 2 FROM r WHERE n < {n}) SELECT count(*) FROM r a, r b, r c, r d, r e, r f",
    "WITH a AS (SELECT x.id, concat(x.word, y.word) AS t FROM words x, words y), b AS (SELECT p.id, concat(p.t, q.t) AS t FROM a p, a q)"
    " SELECT count(DISTINCT t) FROM b WHERE id <= {n}",
    "SELECT count(*) FROM words a, words b, words c, words d WHERE length(concat(a.word, b.word, c.word, d.word)) > {n}",
    "SELECT max(concat(a.word, b.word)) OVER (ORDER BY a.id * b.id + c.id) FROM words a, words b, words c LIMIT {n}",
    "SELECT sum(a.amount) OVER (ORDER BY concat(a.word, b.word, c.word) ROWS BETWEEN {n} PRECEDING AND {n} FOLLOWING)"
    " FROM words a, words b, words c",
    "SELECT count(*) OVER (PARTITION BY a.id % {n} ORDER BY b.id), dense_rank() OVER (ORDER BY c.word, b.word, a.word)"
    " FROM words a, words b, words c ORDER BY 2 DESC LIMIT 1",
    "SELECT count(*) FROM words WHERE {ors}",
    "SELECT count(*) FROM words WHERE id IN ({list})",
    "SELECT count(*) FROM words WHERE {nots} id = 1",
    "SELECT {sum}",
    "SELECT {cases}",
    "SELECT count(*) FROM {joins}",
    "SELECT count(*) FROM {crossed}",
    "{unions}",
    "{derived}",
    "SELECT * FROM words WHERE (id, word, amount) IN (SELECT a.id, b.word, c.amount FROM words a, words b, words c WHERE a.id < {n})",
    "SELECT count(*) FROM words a WHERE NOT EXISTS (SELECT 1 FROM words b, words c WHERE concat(b.word, c.word) = concat(a.word, '{n}'))",
    "SELECT a.id FROM words a WHERE a.amount > ALL (SELECT b.amount * c.amount * d.amount FROM words b, words c, words d WHERE b.id < {n})",
    "SELECT replace(replace(replace({text}, 'a', repeat('b', {n})), 'b', repeat('c', {n})), 'c', repeat('d', {n})) AS x",
    "SELECT length(replace(w.word, ' ', repeat('x', {n}))) + length(repeat(concat(w.word, w.word), {n})) FROM words w",
    "SELECT count(*) FROM words WHERE word LIKE concat('%', repeat('a%', {n}), 'b')",
    "SELECT concat_ws(repeat(',', {n}), repeat('a', {n}), repeat('b', {n}), repeat('c', {n}), repeat('d', {n})) AS x",
    "SELECT lpad(rpad({text}, {n}, 'xy'), {n}, {text}) AS x",
    "SELECT power(power({n}, {n}), {n}) AS x",
    "SELECT count(*) FROM (SELECT DISTINCT concat(a.word, b.word, c.word) AS t FROM words a, words b, words c) q WHERE length(t) > {n}",
    "SELECT word, count(*) FROM (SELECT concat(a.word, b.id, c.id) AS word FROM words a, words b, words c) q GROUP BY word"
    " HAVING count(*) > {n}",
    "SELECT (SELECT count(*) FROM words b, words c WHERE b.id <> a.id AND c.amount > a.amount + {n}) FROM words a, words d",
)
_POSTGRES: Final = (
    "SELECT count(*) FROM generate_series(1, {n}) a, generate_series(1, {n}) b, generate_series(1, {n}) c",
    "SELECT count(*) FROM generate_series(1, {n}) a, LATERAL generate_series(1, a) b, LATERAL generate_series(1, b) c",
    "SELECT count(*) FROM repeat({text}, {n}) a, LATERAL repeat(a, {n}) b, LATERAL string_to_table(b, 'a') c",
    "SELECT count(*) FROM words w, repeat(w.word, {n}) a, upper(a) b, md5(b) c, concat(a, b, c) d, regexp_split_to_table(d, ' ') e",
    "SELECT count(*) FROM lpad('x', {n}, 'y') a, string_to_array(a, 'y') b, array_cat(b, b) c, array_to_string(c, a) d",
    "SELECT length(d) FROM to_tsvector(repeat('a b c ', {n})) a, array_to_string(tsvector_to_array(a), ',') b, concat(b, b) c,"
    " repeat(c, {n}) d",
    "SELECT x FROM ROWS FROM (generate_series(1, {n}), generate_series(1, {n}), repeat('a', {n})) AS t(x, y, z) ORDER BY z || x || y",
    "SELECT to_jsonb(d) FROM jsonb_build_object('a', repeat('x', {n})) a, jsonb_build_object('b', a, 'c', a) b,"
    " jsonb_build_object('d', b, 'e', b) c, jsonb_build_array(c, c, c, c) d",
    "SELECT jsonb_path_query_array(d, 'strict $[*].a ? (@ like_regex \"a+\")') FROM jsonb_agg(repeat('a', {n})) d",
    "SELECT count(*) FROM words w, jsonb_path_query(jsonb_build_array(w.word, w.id), '$[*] ? (@.size() < {n})') p",
    "SELECT jsonb_path_exists(jsonb_agg(w.word), '$[*] ? (@ like_regex \"(a|aa)+$\")') FROM words w, words v, words u WHERE u.id < {n}",
    "SELECT jsonb_path_query_array(to_jsonb(array_agg(w.id)), '$[*] ? (@ > 1 && exists($[*] ? (@ > 2)))') FROM words w, words v",
    "SELECT percentile_cont(ARRAY(SELECT g / {n}.0 FROM generate_series(1, {n}) g)) WITHIN GROUP (ORDER BY a.id) FROM words a, words b",
    "SELECT mode() WITHIN GROUP (ORDER BY a.word || b.word || c.word) FROM words a, words b, words c WHERE a.id < {n}",
    "SELECT string_agg(DISTINCT a.word || b.word || c.id, ',' ORDER BY a.word || b.word || c.id) FROM words a, words b, words c",
    "SELECT array_agg(ARRAY[a.id, b.id, c.id]) FROM words a, words b, words c WHERE a.id <= {n}",
    "SELECT range_agg(int4range(a.id * b.id * 2, a.id * b.id * 2 + 1)) FROM words a, words b, words c",
    "SELECT jsonb_object_agg(a.word || b.word || c.id, repeat(a.word, 9)) FROM words a, words b, words c",
    "SELECT json_agg(x) FROM (SELECT a.*, b.word AS w2, c.word AS w3 FROM words a, words b, words c) x",
    "SELECT a.id, b.id, count(*) FROM words a, words b GROUP BY CUBE (a.id, b.id, a.word, b.word, a.amount, b.amount, a.id % 7, b.id % 7)",
    "SELECT count(*) FROM (SELECT 1 FROM words GROUP BY CUBE ({columns})) q",
    "SELECT count(*) FROM (SELECT 1 FROM words GROUP BY ROLLUP ({columns}), ROLLUP ({columns}), ROLLUP ({columns})) q",
    "SELECT count(*) FROM words a WHERE a.word ~ {pattern}",
    "SELECT regexp_replace(repeat(a.word, 9), {pattern}, repeat('z', {n}), 'g') FROM words a",
    "SELECT count(*) FROM words a, words b WHERE a.word || b.word SIMILAR TO '%(a|b)+(c|d)*%{n}'",
    "SELECT regexp_count(repeat('a', {n}), {pattern})",
    "SELECT substring(repeat('a', {n}) from {pattern})",
    "SELECT to_tsquery(repeat('a & ', {n}) || 'b') && to_tsquery(repeat('(c | ', {n}) || 'd')",
    "SELECT ts_rank_cd(to_tsvector(repeat('a b ', {n})), phraseto_tsquery(repeat('a b ', {n})))",
    "SELECT ts_headline(repeat('a b c ', {n}), phraseto_tsquery(repeat('a ', {n})), 'MaxFragments={n}')",
    "SELECT websearch_to_tsquery(repeat('a or ', {n})), plainto_tsquery(repeat('a ', {n}))",
    "SELECT 2::numeric ^ {n}, exp({n}::numeric), sqrt({n}::numeric ^ 1000), ln({n}::numeric ^ 1000), div(1e1000, 3)",
    "SELECT ('1e{n}'::numeric + 1) / ('1e9'::numeric + 3), round('1e{n}'::numeric / 7, {n}), gcd('1e{n}'::numeric + 1, '7e{n}'::numeric)",
    "SELECT sum(a.amount ^ 50 * b.amount ^ 50) FROM words a, words b, words c WHERE a.id < {n}",
    "SELECT to_char({n}, repeat('9', {n}) || 'D' || repeat('9', {n})), to_char(now(), repeat('TMMonth ', {n}))",
    "SELECT array_fill(1, ARRAY[{n}, {n}])",
    "SELECT array_remove(array_replace(array_cat(a, a), 1, 2), 3) FROM array_agg(1) a, generate_series(1, {n})",
    "SELECT array_positions(array_agg(a.id), 1), array_agg(a.id) @> array_agg(b.id), array_agg(a.id) && array_agg(c.id)"
    " FROM words a, words b, words c WHERE a.id < {n}",
    "SELECT array_agg(a.id) - 1 FROM words a",
    "SELECT string_to_array(repeat('a,', {n}), ',') <@ string_to_array(repeat('b,', {n}), ',')",
    "SELECT unnest(string_to_array(repeat('a,', {n}), ',')), unnest(string_to_array(repeat('b,', {n}), ',')) FROM words a, words b",
    "SELECT convert_from(decode(repeat('61', {n}), 'hex'), 'UTF8') || encode(repeat('x', {n})::bytea, 'escape')",
    "SELECT translate(repeat('a', {n}), repeat('b', 999), ''), normalize(repeat(U&'\\0301\\0323', {n}), NFKC),"
    " unistr(repeat('\\0061', {n}))",
    "SELECT format(repeat('%s', {n}), {text}), format('%{n}s', 'a'), format('%*s', {n}, 'a')",
    "SELECT overlay(repeat('a', {n}) placing repeat('b', {n}) from 1 for 0), reverse(repeat('é', {n})), initcap(repeat('ǆ', {n}))",
    "SELECT width_bucket(a.id, ARRAY(SELECT generate_series(1, {n}))) FROM words a, words b",
    "SELECT make_interval(secs => {n}) * 1e9, justify_interval(make_interval(days => {n})), date_bin('1 us', now(), now() -"
    " interval '{n} years')",
    "SELECT count(*) FROM generate_series(now(), now() + interval '{n} years', interval '1 microsecond') g",
    "SELECT count(*) FROM generate_series(0.0, {n}.0, 0.0001) g, generate_series(0.0, {n}.0, 0.0001) h",
    "SELECT int8range(1, {n}) * int8range(2, {n}), int8multirange(int8range(1, 2), int8range(3, {n})),"
    " set_masklen('10.0.0.0'::inet, 8) + {n}",
    "SELECT bit_count(repeat('1', {n})::varbit), repeat('1', {n})::bit({n}), repeat('10', {n})::bit varying << {n}",
    "SELECT count(*) FROM words ORDER BY (SELECT string_agg(repeat(b.word, 99), '') FROM words b, words c WHERE c.id < {n})",
    "SELECT DISTINCT ON (a.word || b.word || c.word) a.id FROM words a, words b, words c ORDER BY a.word || b.word || c.word, {n}",
    "SELECT id FROM words ORDER BY amount LIMIT (SELECT count(*) FROM words a, words b, words c, words d WHERE a.id < {n})",
    "WITH RECURSIVE r AS (SELECT id, ARRAY[id] AS p FROM words UNION ALL SELECT w.id, r.p || w.id FROM r, words w WHERE"
    " cardinality(p) < {n})"
    " SELECT max(p) FROM r",
    "WITH RECURSIVE r(d) AS (SELECT jsonb_build_object('a', 1) UNION ALL SELECT jsonb_build_object('a', d, 'b', d) FROM r LIMIT {n})"
    " SELECT length(max(d::text)) FROM r",
    "WITH RECURSIVE r(a, b) AS (SELECT 1, 1 UNION ALL SELECT b, a + b FROM r WHERE a < {n}) SEARCH BREADTH FIRST BY a SET o"
    " SELECT count(*) FROM r x, r y, r z",
    "WITH RECURSIVE r(i) AS (SELECT id FROM words UNION ALL SELECT w.id FROM words w, r) CYCLE i SET c USING p SELECT count(*) FROM r",
    "WITH a AS NOT MATERIALIZED (SELECT repeat('x', {n}) AS t), b AS NOT MATERIALIZED (SELECT t || t || t || t AS t FROM a),"
    " c AS NOT MATERIALIZED (SELECT t || t || t || t AS t FROM b) SELECT t || t || t || t || t || t FROM c",
    # locks
    "SELECT id FROM words ORDER BY id LIMIT {n} FOR UPDATE",
    "SELECT * FROM (SELECT id FROM words FOR KEY SHARE) q LIMIT {n}",
    "WITH q AS (SELECT id FROM words WHERE id < {n} FOR NO KEY UPDATE SKIP LOCKED) SELECT * FROM q",
    "SELECT pg_advisory_lock({n})",
    "SELECT * FROM pg_advisory_xact_lock({n}) l",
    "SELECT count(*) FROM words, LATERAL pg_try_advisory_lock(id + {n}) x",
    "LOCK TABLE words",
    "SELECT pg_sleep({n})",
    "SELECT count(*) FROM pg_sleep_for('{n} s') s",
    "SELECT * FROM ROWS FROM (pg_sleep_until(now() + interval '{n} s'), upper('a')) t(a, b)",
    # writes
    "WITH q AS (DELETE FROM words WHERE id < {n} RETURNING id) SELECT count(*) FROM q",
    "WITH q AS (INSERT INTO words VALUES ({n}, 'x', 1) RETURNING *) TABLE q",
    "WITH q AS (UPDATE words SET amount = {n} RETURNING 1) SELECT * FROM q",
    "WITH q AS (MERGE INTO words USING words w ON false WHEN MATCHED THEN DELETE) SELECT {n}",
    "SELECT * INTO copied FROM words LIMIT {n}",
    "CREATE TABLE copied AS SELECT * FROM words LIMIT {n}",
    "COPY (SELECT * FROM words LIMIT {n}) TO PROGRAM 'cat'",
    "SELECT nextval('s'), setval('s', {n})",
    "SELECT x FROM nextval('s') x WHERE x < {n}",
    "SELECT lo_create({n}), lo_from_bytea({n}, 'x')",
    "SELECT * FROM lo_import('/etc/passwd', {n}) l",
    "SELECT set_config('statement_timeout', '{n}', false)",
    "SELECT t FROM set_config('role', 'postgres', true) t, generate_series(1, {n})",
    "SELECT pg_notify('c', '{n}'), pg_logical_emit_message(false, 'a', '{n}')",
    "SELECT txid_current() + {n}, pg_current_xact_id()",
    "SELECT query_to_xml('delete from words where id < {n}', true, true, '')",
    "SELECT * FROM ts_stat('delete from words returning to_tsvector(word)') LIMIT {n}",
    "SELECT ts_rewrite('a'::tsquery, 'delete from words where id < {n}')",
    "SELECT pg_cancel_backend({n}), pg_terminate_backend({n}), pg_reload_conf(), pg_switch_wal(), pg_export_snapshot()",
    "SELECT pg_stat_reset(), pg_stat_reset_shared('bgwriter'), pg_rotate_logfile() FROM generate_series(1, {n})",
    "SELECT dblink_exec('', 'delete from words') FROM generate_series(1, {n})",
    "EXPLAIN ANALYZE DELETE FROM words WHERE id < {n}",
    "DO $$ BEGIN PERFORM pg_sleep({n}); END $$",
    "SELECT 1; DELETE FROM words WHERE id < {n}",
    "PREPARE p AS DELETE FROM words WHERE id < {n}",
    "SELECT CAST('words' AS regclass), 'pg_sleep({n})'::regprocedure",
)
_MYSQL: Final = (
    "SELECT count(*) FROM seq_1_to_{n} a, seq_1_to_{n} b, seq_1_to_{n} c",
    "SELECT count(*) FROM seq_1_to_{n} a, seq_1_to_{n} b WHERE sha2(concat(a.seq, b.seq), 512) LIKE 'abcdef%'",
    "SELECT max(sha2(repeat(a.word, {n}), 512)) FROM words a, words b, words c",
    "SELECT GROUP_CONCAT(a.word, b.word, c.word ORDER BY c.word, b.word, a.word SEPARATOR {text}) FROM words a, words b, words c",
    "SELECT GROUP_CONCAT(DISTINCT repeat(a.word, 99), b.id LIMIT {n}) FROM words a, words b",
    "SELECT JSON_ARRAYAGG(repeat(a.word, 99)), JSON_OBJECTAGG(concat(a.id, b.id, c.id), a.word) FROM words a, words b, words c",
    "SELECT JSON_DETAILED(concat(repeat('[', 30), repeat('1,', {n}), '1', repeat(']', 30)))",
    "SELECT JSON_SEARCH(concat('[', repeat('\"a\",', {n}), '1]'), 'all', '%a%'), JSON_EXTRACT(repeat('[', {n}), '$**.a**.b')",
    "SELECT JSON_EXTRACT(concat(repeat('{{\"a\":', 30), '1', repeat('}}', 30)), '$**.a', '$**.a', '$.a**.a') FROM seq_1_to_{n}",
    "SELECT JSON_MERGE_PRESERVE(d, d, d, d) FROM (SELECT JSON_ARRAY(repeat('x', {n}), repeat('y', {n})) AS d) q",
    "SELECT JSON_SET(d, '$.a', d, '$.b', d, '$.c', d) FROM (SELECT JSON_OBJECT('k', repeat('x', {n})) AS d) q",
    "SELECT JSON_CONTAINS(JSON_ARRAYAGG(a.id), JSON_ARRAYAGG(b.id)), JSON_OVERLAPS(JSON_ARRAYAGG(a.id), JSON_ARRAYAGG(c.id + {n}))"
    " FROM words a, words b, words c",
    "SELECT JSON_NORMALIZE(JSON_ARRAYAGG(JSON_OBJECT(a.id, b.word))) FROM words a, words b WHERE a.id < {n}",
    "SELECT count(*) FROM JSON_TABLE(concat('[', repeat('1,', {n}), '1]'), '$[*]' COLUMNS (a INT PATH '$')) a,"
    " JSON_TABLE(concat('[', repeat('1,', {n}), '1]'), '$[*]' COLUMNS (b INT PATH '$')) b",
    "SELECT count(*) FROM words w, JSON_TABLE(JSON_ARRAY(w.word, w.id), '$[*]' COLUMNS (a TEXT PATH '$', NESTED PATH '$[*]'"
    " COLUMNS (b TEXT PATH '$'))) t, seq_1_to_{n}",
    "SELECT count(*) FROM words a WHERE a.word REGEXP {pattern}",
    "SELECT REGEXP_REPLACE(repeat('a', {n}), {pattern}, repeat('b', {n}))",
    "SELECT REGEXP_SUBSTR(concat(a.word, repeat('a', {n})), {pattern}) FROM words a",
    "SELECT REGEXP_INSTR(repeat('ab', {n}), concat('(', {pattern}, ')+'))",
    "SELECT count(*) FROM words a, words b WHERE concat(a.word, b.word) RLIKE '(a|b|ab)*c{n}'",
    "SELECT repeat('a', {n}) LIKE concat(repeat('%a', {n}), '%b'), repeat('a', {n}) LIKE repeat('%a_', 99)",
    "SELECT a.word SOUNDS LIKE b.word, soundex(repeat(a.word, {n})) FROM words a, words b",
    "SELECT format(power(10, 30), {n}), export_set(-1, repeat('a', {n}), repeat('b', {n}), repeat('c', {n}), 64), make_set(-1,"
    " {text}, {text})",
    "SELECT elt(a.id, repeat('a', {n}), repeat('b', {n})), field(repeat('a', {n}), 'a'), find_in_set('a', repeat('b,', {n})) FROM words a",
    "SELECT insert(repeat('a', {n}), 1, 0, repeat('b', {n})), quote(repeat('''', {n})), hex(hex(hex(hex(repeat('a', {n})))))",
    "SELECT to_base64(to_base64(to_base64(repeat('a', {n})))), substring_index(repeat('a,', {n}), 'a', -{n}), unhex(repeat('61', {n}))",
    "SELECT sformat(concat(repeat('{{}}', 99), '{{:>{n}}}'), 1), natural_sort_key(repeat('1', {n})), space({n}), lpad('a', {n},"
    " repeat('b', {n}))",
    "SELECT conv(repeat('1', {n}), 2, 36), crc32(repeat('a', {n})), inet6_ntoa(repeat('a', 16)), period_add({n}, {n}), pi() DIV 1e-{n}",
    "SELECT cast(repeat('9', {n}) AS DECIMAL(65, 30)) * cast(repeat('9', {n}) AS DECIMAL(65, 30)), cast(repeat('a', {n}) AS BINARY({n}))",
    "SELECT date_format(now(), repeat('%W', {n})), str_to_date(repeat('1', {n}), repeat('%d', {n})), time_format('{n}:00:00',"
    " repeat('%H', {n}))",
    "SELECT convert(repeat('a', {n}) USING utf32), convert(convert(repeat('a', {n}) USING utf16) USING utf32), char({list})",
    "SELECT MEDIAN(a.id) OVER (PARTITION BY b.id % {n}) FROM words a, words b, words c LIMIT 1",
    "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY a.id) OVER (PARTITION BY c.id) FROM words a, words b, words c LIMIT {n}",
    "SELECT a.id, count(*) FROM words a, words b, words c GROUP BY a.word, b.word, c.word, a.id WITH ROLLUP LIMIT {n}",
    "SELECT sum(a.id) OVER (ORDER BY a.id RANGE BETWEEN {n} PRECEDING AND {n} FOLLOWING) FROM words a, words b, words c LIMIT 1",
    "SELECT id FROM words a WHERE id = (SELECT max(b.id) FROM words b WHERE b.word >= a.word AND EXISTS (SELECT 1 FROM words c, words d"
    " WHERE c.word > b.word AND d.word > c.word AND d.id > {n}))",
    "SELECT id FROM words ORDER BY concat(repeat(word, {n}), repeat(word, {n})) DESC LIMIT 1",
    "SELECT id FROM words ORDER BY word FETCH FIRST {n} ROWS WITH TIES",
    "SELECT count(*) FROM (SELECT a.word FROM words a, words b, words c ORDER BY b.word FETCH FIRST {n} ROWS WITH TIES) q",
    "SELECT decode_oracle(a.id, 1, repeat('a', {n}), repeat('b', {n})), nvl2(1, repeat('a', {n}), 2), interval({list}) FROM words a",
    "WITH RECURSIVE r AS (SELECT 1 AS n, CAST('x' AS CHAR(65535)) AS t UNION ALL SELECT n + 1, concat(t, t) FROM r WHERE n < {n})"
    " SELECT length(max(t)) FROM r",
    "WITH RECURSIVE r AS (SELECT 1 AS n, JSON_ARRAY(1) AS d UNION ALL SELECT n + 1, JSON_ARRAY(d, d) FROM r WHERE n < {n}) SELECT"
    " max(d) FROM r",
    "SELECT * FROM words FORCE INDEX (PRIMARY) WHERE id MEMBER OF ('[1]') OR id > {n}",
    # locks
    "SELECT get_lock('a', {n}), release_lock('a'), release_all_locks(), is_used_lock('a')",
    "SELECT count(*) FROM words WHERE sleep({n})",
    "SELECT benchmark({n}, sha2('a', 512))",
    "SELECT benchmark({n}, (SELECT count(*) FROM words a, words b))",
    "SELECT id FROM words WHERE id < {n} FOR UPDATE",
    "SELECT id FROM words LIMIT {n} LOCK IN SHARE MODE",
    "SELECT id FROM words FOR UPDATE WAIT {n}",
    "SELECT * FROM (SELECT id FROM words FOR UPDATE SKIP LOCKED) q LIMIT {n}",
    "WITH q AS (SELECT id FROM words LIMIT {n} FOR UPDATE NOWAIT) SELECT * FROM q",
    "SELECT master_pos_wait('a', {n}, {n}), master_gtid_wait('0-1-{n}', {n})",
    "LOCK TABLES words WRITE",
    "FLUSH TABLES WITH READ LOCK",
    "HANDLER words OPEN",
    # writes
    "SELECT * FROM words LIMIT {n} INTO OUTFILE '/tmp/invented-{n}'",
    "SELECT word INTO DUMPFILE '/tmp/invented' FROM words WHERE id = {n}",
    "SELECT id, word INTO @a, @b FROM words WHERE id = {n}",
    "SELECT @a := {n}",
    "SELECT load_file('/etc/passwd'), {n}",
    "SELECT nextval(s), NEXT VALUE FOR s, setval(s, {n}), lastval(s)",
    "SELECT last_insert_id({n}), uuid_short(), found_rows(), row_count()",
    "SET STATEMENT max_statement_time = {n} FOR SELECT sleep({n})",
    "SELECT /*!50000 sleep({n}), */ 1",
    "SELECT /*M!100100 benchmark({n}, md5('a')), */ 1",
    "SELECT /*+ SET_VAR(max_statement_time = {n}) */ 1",
    "DELETE FROM words WHERE id < {n} RETURNING id",
    "INSERT INTO words VALUES ({n}, 'x', 1) RETURNING id",
    "REPLACE INTO words VALUES ({n}, 'x', 1)",
    "UPDATE words SET amount = {n}",
    "SELECT 1; DELETE FROM words WHERE id < {n}",
    "CREATE TABLE copied AS SELECT * FROM words LIMIT {n}",
    "CALL p({n})",
    "DO sleep({n})",
    "ANALYZE FORMAT=JSON DELETE FROM words WHERE id < {n}",
    "EXECUTE IMMEDIATE 'DELETE FROM words WHERE id < {n}'",
    "KILL {n}",
    "VALUES (sleep({n})), (benchmark({n}, 1))",
    "SELECT wsrep_last_seen_gtid(), {n}",
    "SELECT id FROM words PROCEDURE ANALYSE({n})",
    "SELECT encrypt('a', {text}), des_encrypt('a'), password({text}), old_password('a'), aes_encrypt(repeat('a', {n}), 'k')",
    "SELECT compress(repeat('a', {n})), uncompress(compress(repeat('a', {n}))), random_bytes({n})",
    "SELECT extractvalue(repeat('<a>', {n}), '//a//a//a'), updatexml('<a/>', '/a', repeat('b', {n}))",
    "SELECT st_buffer(st_geomfromtext('POINT(1 1)'), {n}), st_astext(st_buffer(point(1, 1), {n}))",
    "SELECT column_create({list}), column_json(column_create('a', repeat('b', {n})))",
)
_FORMS: Final[Mapping[str, Sequence[str]]] = {"postgres": (*_BOTH, *_POSTGRES), "mysql": (*_BOTH, *_MYSQL)}
_TEXTS: Final = ("'a'", "'a,b é '", "'<[{\"'")
_PATTERNS: Final = ("'(a+)+b'", "'(a|aa)*$'", "'(.*)(.*)(.*)x'")


def invented(dialect: str) -> Iterator[str]:
    """Each form with each count, one text and one pattern."""
    for form in _FORMS[dialect]:
        for place, n in enumerate(_COUNTS):
            if "{" in form.replace("{{", "") or place == 0:
                yield _filled(form, n, place)


def _filled(form: str, n: int, place: int) -> str:
    few = {9: 9, 1_000: 90, 100_000: 900}[n]
    numbers = range(1, few + 1)
    return form.format(
        n=n,
        text=_TEXTS[place],
        pattern=_PATTERNS[place],
        list=", ".join(map(str, numbers)),
        ors=" OR ".join(f"(id = {one} AND word <> '{one}')" for one in numbers),
        nots="NOT " * (few // 9 * 2),
        sum=" + ".join(
            f"(SELECT count(*) FROM words w{one} WHERE w{one}.id > {one})" for one in range(1, min(few, 200))
        ),
        cases="".join(f"CASE WHEN {one} = 0 THEN 1 ELSE " for one in range(min(few, 90))) + "0" + " END" * min(few, 90),
        joins="words w0 "
        + " ".join(f"JOIN words w{one} ON w{one}.id = w{one - 1}.id" for one in range(1, min(few, 60))),
        crossed=", ".join(f"words w{one}" for one in range(min(few, 60))),
        unions=" UNION ALL ".join(f"SELECT count(*) FROM words WHERE id > {one}" for one in numbers),
        derived="SELECT * FROM (" * min(few, 60)
        + "SELECT id, word FROM words"
        + "".join(f") q{one}" for one in range(min(few, 60))),
        columns=", ".join(f"id % {one + 1}" for one in range(min(few, 20))),
    )
