-- SELECT {} FROM invoices ORDER BY id
abs(amount - 100), ceil(amount), ceiling(amount), floor(amount), round(amount), round(amount, 1), trunc(amount), trunc(amount, 1), sign(amount)
mod(id, 7), div(amount, 7), gcd(id, 12), lcm(id, 2), power(id, 2), pow(2, 3), sqrt(id), cbrt(id), exp(1), ln(id), log(id), log10(id), log(2, id)
sin(id), cos(id), tan(id), cot(id), asin(0.5), acos(0.5), atan(id), atan2(id, 2), sinh(1), tanh(1), acosh(2), atanh(0.5), sind(30), cosd(60), tand(45), asind(0.5), acosd(0.5), atan2d(1, 2), degrees(1), radians(180), pi()
scale(amount), min_scale(amount), trim_scale(amount), width_bucket(amount, 0, 500, 5)
lower(client), upper(client), initcap(client), length(client), char_length(client), character_length(client), octet_length(client), bit_length(client)
left(client, 2), right(client, 2), left(client, -1), reverse(client), lpad(client, 8, '.'), rpad(client, 8), ltrim(client, 'A'), rtrim(client, 'e'), btrim(client, 'Ae')
concat(client, '-', currency), concat_ws(', ', client, currency, NULL), repeat('-', 3), replace(client, 'c', 'k'), translate(client, 'abc', 'xyz'), split_part(client || ',b', ',', 2), strpos(client, 'm'), ascii(client), chr(65), to_hex(id), starts_with(client, 'A')
overlay(client placing 'XX' from 2 for 1), substr(client, 2, 2), substring(client from 2), substring(client, 1, 3), position('m' in client)
md5(client), sha224(client::bytea), sha384(client::bytea), sha512(client::bytea), encode(convert_to(client, 'UTF8'), 'hex'), get_bit(client::bytea, 1), set_byte(client::bytea, 0, 65)
quote_ident(client), quote_literal(client), quote_nullable(paid), format('%s: %s', client, amount), format('%-10s|', client)
date_trunc('quarter', issued), date_trunc('year', issued)::date, date_part('week', issued), extract(dow from issued), extract(epoch from issued), age(due, issued), age(due), to_char(issued, 'IYYY-IW'), to_char(issued, 'Q'), to_char(issued, 'FMMonth YYYY')
issued + 1, issued - 7, due - issued, issued + interval '1 week', issued - interval '1 month 2 days', issued + (id - 100) * interval '1 day', issued::timestamp + time '12:00'
make_date(extract(year from issued)::int, 1, 1), date(issued), issued::timestamptz, to_timestamp(extract(epoch from issued))
greatest(issued, due), least(amount, 80), coalesce(paid, due, issued), nullif(amount, 80), num_nulls(paid, due)
CASE WHEN amount BETWEEN 50 AND 100 THEN 'mid' END, (amount > 100)::int, (client = 'Acme')::text
client || '-' || id::text || '/' || to_char(issued, 'YY'), id || client, client || NULL
amount::text, amount::int, amount::real, amount::numeric(8, 1), id::text || '', issued::text, client::varchar(2), CAST(amount AS double precision)
ARRAY[client, currency], ARRAY[id, id + 1], array_length(ARRAY[id], 1), (ARRAY['a', 'b'])[1], to_json(client), to_jsonb(amount), json_build_object('c', client), jsonb_build_array(id, client)
to_char(amount, 'L9,999.99') IS NOT NULL, to_char(amount, '00000'), to_char(-amount, '9999.9PR'), to_char(id, 'RN')
regexp_replace(client, '[aeiou]', '*', 'g'), regexp_match(client, '^(.)(.)'), client ~ 'o', client ~* '^A', client !~ 'z', regexp_count(client, 'o'), regexp_split_to_array(client, 'o')
daterange(issued, due), issued <@ daterange('2024-01-01', '2024-03-01'), lower_inc(daterange(issued, due)), upper_inc(daterange(issued, due)), lower_inf(daterange(NULL, due)), upper_inf(daterange(issued, NULL)), range_merge(daterange(issued, due), daterange('2024-01-01', '2024-01-02')), tstzrange(issued, due) IS NOT NULL
-- SELECT id FROM invoices WHERE {} ORDER BY id
amount::int IN (80, 60)
client ~ '^[A-C]' AND currency ~* 'eur'
client SIMILAR TO '%(o|u)%'
issued BETWEEN '2024-01-01'::date AND '2024-02-28'::date
issued >= date_trunc('month', timestamp '2024-03-10') AND issued < date_trunc('month', timestamp '2024-03-10') + interval '1 month'
issued > '2024-03-01'::date - 30
issued + interval '30 days' < due
extract(month from issued) = 3 AND extract(year from issued) = 2024
to_char(issued, 'YYYY-MM') = '2024-03'
date_part('year', issued)::int = 2023
age(due, issued) > interval '30 days'
(due - issued) > 30
paid IS DISTINCT FROM due
coalesce(paid, 'infinity'::date) > due
client = ANY(ARRAY['Acme', 'Bolt']::text[])
NOT client = ANY('{Acme,Bolt}')
(client, currency) <> ('Acme', 'EUR')
amount > ALL (ARRAY[50, 60])
amount < ANY (SELECT price FROM invoice_lines)
client ILIKE 'a%' ESCAPE '\'
lower(client) LIKE lower('%AC%')
client LIKE ALL (ARRAY['A%', '%e'])
position('c' in client) > 0
length(client) BETWEEN 3 AND 4
id IN (SELECT DISTINCT ON (client) id FROM invoices ORDER BY client, amount DESC)
EXISTS (SELECT 1 FROM visits WHERE detail ->> 'ms' = '120')
id = (SELECT id FROM invoices ORDER BY amount DESC LIMIT 1)
amount >= (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY amount) FROM invoices)
(paid IS NULL)::int = 1
amount BETWEEN SYMMETRIC 100 AND 50
-- SELECT {} FROM invoices
array_agg(id ORDER BY id), array_agg(DISTINCT currency), array_agg(id) FILTER (WHERE id < 103), array_to_json(array_agg(id ORDER BY id))
string_agg(client, ','  ORDER BY id), string_agg(DISTINCT client, ',' ORDER BY client), string_agg(id::text, '')
json_agg(id ORDER BY id), jsonb_agg(client ORDER BY id DESC), json_object_agg(id, client), jsonb_object_agg(id, client), jsonb_agg(DISTINCT currency)
stddev(amount), stddev_pop(amount), stddev_samp(amount), variance(amount), var_pop(amount), var_samp(amount)
corr(id, amount), covar_pop(id, amount), covar_samp(id, amount), regr_avgx(id, amount), regr_avgy(id, amount), regr_count(id, amount), regr_slope(id, amount), regr_r2(id, amount)
bit_and(id), bit_or(id), bool_and(amount > 0), bool_or(amount > 500), every(amount >= 0)
count(*) FILTER (WHERE paid IS NULL), sum(amount) FILTER (WHERE currency = 'EUR') / nullif(sum(amount), 0), round(100.0 * count(paid) / count(*), 2)
mode() WITHIN GROUP (ORDER BY client), percentile_cont(0.25) WITHIN GROUP (ORDER BY amount), percentile_disc(0.75) WITHIN GROUP (ORDER BY issued), percentile_cont(ARRAY[0.1, 0.9]) WITHIN GROUP (ORDER BY amount)
range_agg(daterange(issued, due)), range_intersect_agg(daterange(issued, due))
max(issued) - min(issued), max(amount)::int, count(DISTINCT date_trunc('month', issued)), min(issued::text)
-- SELECT {} FROM visits ORDER BY id
detail -> 'ms', detail ->> 'ms', detail -> 'ua' ->> 'os', detail #> '{ua,os}', detail #>> '{tags,0}', detail -> 'tags' -> 0, detail -> 'tags' ->> -1
(detail ->> 'ms')::int, (detail ->> 'ms')::int * 2, coalesce((detail ->> 'total')::numeric, 0), CAST(detail ->> 'ms' AS integer) + 1
jsonb_typeof(detail -> 'tags'), jsonb_typeof(detail), detail ? 'total', detail @> '{"ua": {"os": "mac"}}', detail -> 'tags' @> '["a"]', jsonb_strip_nulls(detail), jsonb_extract_path_text(detail, 'ua', 'os'), jsonb_extract_path(detail, 'ms')
jsonb_path_query_first(detail, '$.ua.os'), jsonb_path_exists(detail, '$.total'), jsonb_path_match(detail, 'exists($.total)'), jsonb_path_query_array(detail, '$.tags[*]')
to_char(ts, 'HH24:MI'), to_char(ts, 'YYYY-MM-DD"T"HH24:MI:SS'), date_trunc('day', ts), ts::date, ts::time, extract(hour from ts), extract(epoch from ts)::int, ts - interval '1 hour', ts + '1 day'::interval, ts AT TIME ZONE 'UTC'
ts - lag(ts) OVER (PARTITION BY visitor ORDER BY ts), extract(epoch from ts - lag(ts) OVER (ORDER BY ts)) / 60, first_value(page) OVER (PARTITION BY visitor ORDER BY ts)
split_part(page, '?', 1), regexp_replace(page, '\?.*', ''), substring(page from '^/([^?]+)'), page LIKE '/p%', page ~ '\?x=\d', trim(leading '/' from page), ltrim(page, '/')
to_tsvector('english', page), ts_rank_cd(to_tsvector('simple', page), to_tsquery('simple', 'home')), numnode(to_tsquery('simple', 'a & b')), strip(to_tsvector('simple', page)), setweight(to_tsvector('simple', page), 'A'), ts_headline('simple', page, to_tsquery('simple', 'home'))

-- SELECT {} AS x FROM invoices ORDER BY id
date_trunc('month', issued)
date_trunc('month', issued)::date + interval '1 month' - interval '1 day'
extract(dow FROM issued)
extract(epoch FROM (due - issued) * interval '1 day')
date_part('year', issued)
to_char(issued, 'YYYY-MM')
to_char(amount, 'FM999,999.00')
to_char(issued, 'Day')
due - issued
issued + 30
issued + interval '2 weeks'
age(due, issued)
age(timestamp '2024-05-01', issued)
issued::timestamp AT TIME ZONE 'UTC'
(issued, due) OVERLAPS (date '2024-01-01', date '2024-02-01')
make_date(2024, 1, extract(day FROM issued)::int)
amount::int
amount::numeric(12, 4)
round(amount::numeric, 1)
trunc(amount, 1)
amount::text || ' ' || currency
ceil(amount / 10) * 10
width_bucket(amount, 0, 1000, 10)
greatest(amount, 100)
least(issued, due, paid)
client ILIKE 'a%'
client ~ '^A'
client ~* 'b.lt'
client !~ '^A'
client SIMILAR TO '(A|B)%'
client = ANY(ARRAY['Acme', 'Bolt'])
client <> ALL(ARRAY['Acme', 'Bolt'])
id = ANY('{101,102}'::int[])
ARRAY[id, id + 1]
(ARRAY['a', 'b', 'c'])[2]
array_length(ARRAY[1, 2, 3], 1)
cardinality(string_to_array(client, 'o'))
array_to_string(ARRAY['a', client], ', ')
split_part(client, 'o', 1)
initcap(lower(client))
left(client, 2)
right(client, 2)
lpad(id::text, 6, '0')
rpad(client, 8, '.')
repeat('*', 3)
reverse(client)
strpos(client, 'o')
position('o' IN client)
overlay(client PLACING 'xx' FROM 1 FOR 2)
substring(client FROM 1 FOR 2)
substring(client FROM '[a-z]+')
substring(client, 2, 2)
regexp_replace(client, '[aeiou]', '*', 'g')
regexp_match(client, '(.)(.)')
(regexp_match(client, '(.)o'))[1]
translate(client, 'abc', 'xyz')
trim(both 'A' from client)
btrim(client, 'Ae')
concat(client, ' ', currency)
concat_ws('-', client, paid, currency)
format('%s (%s)', client, currency)
format('%I', client)
md5(client)
chr(65)
ascii(client)
encode(client::bytea, 'hex')
length(client::bytea)
to_json(client)
jsonb_build_object('id', id, 'client', client)
json_build_array(id, client)
row_to_json(row(id, client))
jsonb_build_object('a', 1) || jsonb_build_object('b', id)
'{"a": {"b": 1}}'::jsonb #>> '{a,b}'
'{"a": 1}'::jsonb -> 'a'
'{"a": 1}'::jsonb ? 'a'
'[1, 2]'::jsonb @> '1'
'{"a": 1, "b": 2}'::jsonb - 'a'
jsonb_typeof('{"a": 1}'::jsonb -> 'a')
jsonb_path_query_first('{"a": [1, 2, 3]}', '$.a[*] ? (@ > 1)')
coalesce(paid::text, 'open')
num_nulls(paid, due)
paid IS DISTINCT FROM due
currency IS NOT DISTINCT FROM 'EUR'
(amount > 100) IS TRUE
amount > 100 IS NOT UNKNOWN
NOT paid IS NULL
currency IN ('EUR', 'GBP') AND amount::int % 2 = 0
id # 5
id << 2
2 ^ 3
|/ 16.0
mod(id, 7)
power(2, 3)
ln(amount + 1)
log(amount + 1)
div(id, 7)
random() >= 0
now() > issued
current_date >= issued
int4range(1, 10) @> 5
daterange(issued, due) @> date '2024-02-01'
upper(daterange(issued, due))
tsrange(issued, due) && tsrange('2024-01-01', '2024-02-01')
to_tsvector('english', client) @@ to_tsquery('english', 'acme')
sum(amount) OVER (PARTITION BY client ORDER BY issued)
sum(amount) FILTER (WHERE currency = 'EUR') OVER (ORDER BY id)
(lag(amount) OVER (ORDER BY id)) IS NULL
first_value(client) OVER (ORDER BY amount DESC)
nth_value(client, 2) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
avg(amount) OVER (ORDER BY issued RANGE BETWEEN '30 days' PRECEDING AND CURRENT ROW)
count(*) OVER (ORDER BY amount GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)
ntile(3) OVER (ORDER BY id)
bool_or(paid IS NULL) OVER (PARTITION BY client)
(SELECT jsonb_agg(l.item ORDER BY l.n) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
ARRAY(SELECT l.item FROM invoice_lines l WHERE l.invoice_id = invoices.id ORDER BY l.n)
EXISTS (SELECT FROM invoice_lines l WHERE l.invoice_id = invoices.id)
(id, client) = (101, 'Acme')
ROW(id, client) < ROW(103, 'Bolt')
CASE WHEN amount > 100 THEN 'a'::text ELSE 'b' END
CAST(amount AS double precision)
'2024-01-01'::date < issued
timestamp '2024-01-01 10:00' + make_interval(hours => 3)
interval '1 day 2 hours'
extract(hour FROM interval '26 hours')
justify_hours(interval '26 hours')
date '2024-02-28' + 1
to_date('01.02.2024', 'DD.MM.YYYY')
to_timestamp(1700000000)
to_number('1,234.5', '9,999.9')
E'tab\there'
U&'\0041'
$$dollar$$
$q$it's$q$
B'101'
client COLLATE "C" < 'Bolt'
'a' < 'B' COLLATE "C"
quote_literal(client)
octet_length(client)
gen_random_uuid() IS NOT NULL
pg_typeof(amount)
isfinite(issued)
inet '10.0.0.1' << inet '10.0.0.0/8'
host(inet '10.0.0.1/24')

-- SELECT {} AS x FROM invoices
count(*) FILTER (WHERE paid IS NULL)
string_agg(client, ', ' ORDER BY id)
string_agg(DISTINCT client, ', ')
array_agg(id ORDER BY amount DESC)
(array_agg(id ORDER BY amount DESC))[1:3]
json_agg(client ORDER BY id)
jsonb_object_agg(id, amount)
percentile_cont(0.5) WITHIN GROUP (ORDER BY amount)
percentile_disc(ARRAY[0.25, 0.75]) WITHIN GROUP (ORDER BY amount)
mode() WITHIN GROUP (ORDER BY currency)
bool_and(amount > 0)
every(amount >= 0)
stddev_samp(amount)
var_pop(amount)
corr(amount, id)
regr_slope(amount, id)
count(DISTINCT (client, currency))
max(issued) - min(issued)
sum(amount)::float / nullif(count(*), 0)
round(avg(amount), 2)
bit_or(id)
range_agg(daterange(issued, due))
array_agg(DISTINCT currency)
rank(100) WITHIN GROUP (ORDER BY amount)

-- SELECT id, {} AS x FROM invoices ORDER BY id
-- SELECT max(x::text), count(*) FROM (SELECT {} AS x FROM invoices WHERE id > 101) q WHERE x IS NOT NULL
amount::numeric(12, 4)
(amount * 100)::bigint
amount::float8 / 3
round((amount / 3)::numeric, 2)
trunc(amount / 7, 3)
amount - floor(amount)
power(amount, 0.5)
exp(1.0)
ln(nullif(amount, 0))
log(nullif(amount, 0))
width_bucket(amount, ARRAY[50, 100, 500])
mod(amount::int, 10)
amount % 10
sign(amount - 80)
case when amount > 100 then 'hi' when amount > 50 then 'mid' else 'lo' end
coalesce(to_char(paid, 'YYYY-MM-DD'), 'unpaid')
greatest(issued, coalesce(paid, due))
least(due, paid)
extract(year from issued)::int
extract(isoyear from issued) * 100 + extract(week from issued)
extract(epoch from issued)
extract(century from issued)
date_part('doy', issued)
date_trunc('quarter', issued)::date
date_trunc('week', issued)::date + 6
(date_trunc('month', issued) + interval '1 month' - interval '1 day')::date
issued + interval '1 month'
issued + interval '1 year 2 months 3 days'
issued + make_interval(days => 10)
issued - date '2024-01-01'
age(issued)  < interval '1000 years'
age(due, issued)
justify_interval(interval '1 mon -1 hour')
due - issued > 30
(due - issued) * interval '1 day'
to_char(issued, 'Day, DD Month YYYY')
to_char(issued, 'FMDay')
to_char(amount, 'L999G999D99')
to_char(amount, '000000.00')
to_char(issued, '"week" IW')
to_date(to_char(issued, 'YYYYMM') || '01', 'YYYYMMDD')
issued::timestamp + time '10:30'
issued::timestamptz at time zone 'America/New_York'
timezone('Asia/Tokyo', issued::timestamp)
upper(client) || '-' || lpad(id::text, 6, '0')
initcap(client)
left(client, -1)
right(client, 2)
substring(client from 2)
substring(client for 2)
substring(client, '[A-Z]')
regexp_replace(client, '([aeiou])', '<\1>', 'g')
regexp_matches(client, 'A') is null
regexp_split_to_array(client, '')
string_to_array(client, 'c')
array_length(string_to_array(client, 'e'), 1)
(string_to_array(client || ',x', ','))[2]
split_part(client, 'c', 1)
position('e' in lower(client))
overlay(client placing 'XX' from 2)
translate(client, 'Aeo', '430')
reverse(client)
repeat('*', length(client))
rpad(client, 10, '.')
md5(client || id::text)
encode(client::bytea, 'hex')
encode(sha256(client::bytea), 'base64')
ascii(client)
chr(ascii(client) + 1)
client like 'A%' or client ilike '%T'
client ~ '^[A-C]'
client !~ 'e$'
client similar to '(A|B)%'
client in ('Acme', 'Bolt') and currency not in ('USD')
client between 'B' and 'D'
client < 'C' collate "C"
format('%-10s|%5s', client, currency)
format('%I %L', client, currency)
concat(client, null, ':', amount)
concat_ws(' / ', client, currency, null)
quote_nullable(paid::text)
paid is null
paid is not distinct from due
not (paid > due)
(paid > due) is not true
(paid > due) is unknown
num_nulls(paid, due, client)
array[id, id * 2, 3]
array[client, currency] @> array['EUR']
id = any(array[101, 103])
id <> all('{101,102}'::int[])
array_to_string(array[client, currency], '|')
cardinality(array[1, 2, id])
array_position(array['EUR', 'USD'], currency)
array_append(array[id], 1)
array_remove(array[1, 2, 3], 2)
(array[10, 20, 30])[1 + id % 3]
unnest(array[client, currency])
generate_series(1, 2)
row(id, client)
row(id, client) < row(103, 'Z')
(id, currency) in ((101, 'EUR'), (103, 'USD'))
jsonb_build_object('id', id, 'tags', jsonb_build_array(client, currency))
to_jsonb(amount)
json_build_object('d', issued, 'p', paid)::text
jsonb_build_object('a', id) -> 'a'
(jsonb_build_object('a', jsonb_build_object('b', client)) #>> '{a,b}')
jsonb_build_object('a', id) ? 'a'
jsonb_set('{"a": 1}'::jsonb, '{a}', to_jsonb(id))
jsonb_typeof(to_jsonb(paid))
('{"k": [1, 2, 3]}'::jsonb -> 'k' ->> 1)::int + id
jsonb_path_query_first('{"a": [1, 2, 3]}', '$.a[*] ? (@ > 1)')
jsonb_array_length('[1, 2]'::jsonb)
row_number() over (order by amount desc, id)
rank() over (partition by currency order by amount)
sum(amount) over (partition by client order by issued rows between unbounded preceding and current row)
avg(amount) over (order by issued rows between 1 preceding and 1 following)
amount / sum(amount) over ()
first_value(client) over (partition by currency order by amount desc, id)
lag(amount, 1, 0.0) over (order by id)
lead(issued) over (partition by client order by issued) - issued
count(*) filter (where amount > 80) over (partition by client)
ntile(3) over (order by amount, id)
(select count(*) from invoice_lines l where l.invoice_id = invoices.id)
(select string_agg(item, ', ' order by n) from invoice_lines l where l.invoice_id = invoices.id)
(select max(price) from invoice_lines where invoice_id = invoices.id) * 2
exists (select 1 from invoice_lines l where l.invoice_id = invoices.id and l.qty > 5)
array(select item from invoice_lines l where l.invoice_id = invoices.id order by n)
amount > (select avg(amount) from invoices)
daterange(issued, due) @> '2024-02-10'::date
daterange(issued, due) && daterange('2024-02-01', '2024-03-01')
upper(daterange(issued, due)) - lower(daterange(issued, due))
numrange(0, amount) @> 50.0
int4range(1, 10) * int4range(5, id)
bit_count(id::bit(8))
id::bit(8)
id & 7
id # 3
id << 2
~id
-id + +id
@ (amount - 100)
|/ amount::float8
5 ^ 2
gcd(id, 12)
lcm(id, 2)
div(amount, 10)
scale(amount)
isfinite(issued)
date_bin('7 days', issued::timestamp, timestamp '2024-01-01')
make_date(2024, 1 + id % 12, 1)
make_time(id % 24, 30, 0)
make_timestamp(2024, 1, 1, id % 24, 0, 0)
to_timestamp(1700000000 + id) at time zone 'UTC'
extract(dow from issued) in (0, 6)
case extract(dow from issued) when 0 then 'Sun' when 6 then 'Sat' else 'work' end
uuid '123e4567-e89b-12d3-a456-426614174000'
inet '10.0.0.1' + id
host(inet '10.0.0.0/24')
to_tsvector('simple', client) @@ 'acme'::tsquery
ts_rank_cd(to_tsvector('english', client), to_tsquery('english', 'acme'))
plainto_tsquery('english', client)
hashtext(client) is not null
pg_column_size(client) > 0
regr_slope(amount, id) over ()
currency::char(1)
cast(amount as text)
cast(null as int)
'it''s ' || client
E'tab\there'
$q$raw$q$ || client
U&'d\0061ta'
B'1010'::int
X'1F'::int
1e2 + amount
.5 * amount
'2024-01-31'::date + '1 month'::interval
interval '2 days' * id
interval '36 hours' / 3
interval '1 day' > interval '23 hours'
current_date - issued > 0
now() - issued > interval '1 day'
date 'today' > issued
'epoch'::timestamp
'infinity'::timestamp > issued
localtimestamp > issued
