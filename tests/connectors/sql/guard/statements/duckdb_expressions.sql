-- SELECT {} FROM invoices ORDER BY id
abs(amount - 100), ceil(amount), ceiling(amount), floor(amount), round(amount, 1), trunc(amount), sign(amount), round_even(amount, 0)
mod(id, 7), id % 7, id // 7, id / 7, fdiv(id, 7), fmod(id, 7), gcd(id, 12), lcm(id, 2), pow(id, 2), power(id, 2), id ** 2, sqrt(id), cbrt(id), exp(1), ln(id), log(id), log2(id), log10(id)
sin(id), cos(id), tan(id), cot(id), asin(0.5), acos(0.5), atan(id), atan2(id, 2), sinh(1), cosh(1), tanh(1), asinh(1), acosh(2), atanh(0.5), degrees(1), radians(180), pi(), gamma(5), lgamma(5), factorial(5), even(2.5), nextafter(1.0, 2.0), signbit(-1.0)
isnan(amount::DOUBLE), isinf(amount::DOUBLE), isfinite(issued), greatest(amount, 80), least(amount, 80), bit_count(id), xor(id, 3), id & 7, id | 8, id << 1, id >> 1, ~id
lower(client), upper(client), lcase(client), ucase(client), length(client), len(client), strlen(client), char_length(client), character_length(client), octet_length(client::BLOB), bit_length(client)
left(client, 2), right(client, 2), left(client, -1), client[1:2], client[2], client[-1], substring(client, 2, 2), substr(client, 2), reverse(client), lpad(client, 8, '.'), rpad(client, 8, ' '), ltrim(client, 'A'), rtrim(client, 'e'), trim(client)
concat(client, '-', currency), concat_ws(', ', client, currency), client || '/' || id, repeat('-', 3), replace(client, 'c', 'k'), translate(client, 'abc', 'xyz'), split_part(client, 'o', 1), strpos(client, 'm'), instr(client, 'm'), ascii(client), chr(65), unicode(client), ord(client)
contains(client, 'c'), prefix(client, 'A'), suffix(client, 'e'), starts_with(client, 'A'), ends_with(client, 'e'), client LIKE 'A%', client ILIKE 'a%', client GLOB 'A*', client ~ 'A.*', client SIMILAR TO 'A.*', regexp_matches(client, 'o')
md5(client), sha1(client), sha256(client), md5_number(client), hash(client) IS NOT NULL, to_base64(client::BLOB), from_base64('YQ=='), hex(client), unhex('41'), bin(id), to_hex(id), to_binary(id), to_base(id, 2), url_encode(client), url_decode('a%20b')
levenshtein(client, 'Acne'), damerau_levenshtein(client, 'Acne'), jaccard(client, 'Acme'), jaro_similarity(client, 'Acme'), jaro_winkler_similarity(client, 'Acme'), hamming('abc', 'abd'), mismatches('abc', 'abd'), strip_accents(client), nfc_normalize(client)
format('{} owes {}', client, amount), printf('%s %.2f', client, amount::DOUBLE), printf('%05d', id), format('{:05d}', id), format_bytes(id * 1000), bar(amount, 0, 1000, 20), formatReadableSize(1000000)
year(issued), month(issued), day(issued), dayofmonth(issued), quarter(issued), week(issued), weekofyear(issued), dayofweek(issued), weekday(issued), isodow(issued), isoyear(issued), yearweek(issued), dayofyear(issued), decade(issued), century(issued), millennium(issued), era(issued), dayname(issued), monthname(issued), last_day(issued), julian(issued)
date_trunc('month', issued), datetrunc('year', issued), date_part('year', issued), datepart('dow', issued), extract('month' FROM issued), extract(year FROM issued), date_part(['year', 'month'], issued)
date_diff('day', issued, due), datediff('week', issued, due), date_sub('month', issued, due), datesub('day', issued, due), age(due, issued), due - issued, date_add(issued, INTERVAL 1 DAY)
issued + 1, issued - 1, issued + INTERVAL 1 MONTH, issued - INTERVAL '2 days', issued + INTERVAL (id - 100) DAY, issued + to_months(1), issued + to_days(id - 100), issued + to_years(1), issued + INTERVAL 3 MONTHS, issued::TIMESTAMP + INTERVAL 90 MINUTES
strftime(issued, '%Y-%m-%d'), strftime('%d/%m/%Y', issued), strftime(issued, '%A'), strptime('01/02/2024', '%d/%m/%Y'), strptime('01/02/2024', ['%d/%m/%Y', '%Y']), try_strptime('x', '%d'), make_date(2024, 1, 2), make_time(10, 0, 0), make_timestamp(2024, 1, 2, 3, 4, 5), epoch(issued), epoch_ms(issued::TIMESTAMP), time_bucket(INTERVAL '1 month', issued)
CASE WHEN paid IS NULL THEN 'open' ELSE 'paid' END, if(paid IS NULL, 1, 0), ifnull(paid, due), coalesce(paid, due), nullif(client, 'Acme')
amount::INT, amount::VARCHAR, CAST(amount AS DOUBLE), TRY_CAST(client AS INT), id::BIGINT, id::TEXT, issued::TIMESTAMP, issued::VARCHAR, amount::DECIMAL(12, 1), (amount > 100)::INT
[id, id + 1], [client, currency], list_value(id, 1), {'id': id, 'client': client}, struct_pack(a := id), row(id, client), MAP {'k': client}, map([client], [id]), len([id]), [id][1]
json_object('id', id), json_array(id, client), to_json(client), to_json([id]), to_json({'a': id}), json_quote(client), json_merge_patch('{"a": 1}', '{"b": 2}')
row_number() OVER (ORDER BY id), rank() OVER (PARTITION BY client ORDER BY amount), sum(amount) OVER (PARTITION BY date_trunc('month', issued) ORDER BY id), lag(amount) OVER (ORDER BY id), lead(amount, 1, 0) OVER (ORDER BY id)
list_sort([3, 1, 2]), list_reverse_sort([1, 2]), list_sum([1, 2]), list_avg([1, 2]), list_min([1, 2]), list_max([1, 2]), list_count([1, NULL]), list_first([1, 2]), list_last([1, 2]), list_median([1, 2]), list_mode([1, 1, 2]), list_product([2, 3]), list_string_agg(['a', 'b']), list_bool_and([true]), list_has([1], 1), list_indexof([1, 2], 2), list_select(['a', 'b'], [2]), list_where([1, 2], [true, false]), list_cat([1], [2]), list_intersect([1, 2], [2]), list_grade_up([3, 1]), list_histogram([1, 1]), list_aggr([1, 2], 'avg'), list_dot_product([1.0, 2.0], [1.0, 2.0])
array_length([1, 2]), array_contains([1], 1), array_append([1], 2), array_prepend(0, [1]), array_concat([1], [2]), array_distinct([1, 1]), array_sort([2, 1]), array_slice([1, 2, 3], 1, 2), array_position([1, 2], 2), array_to_string([1, 2], '-'), array_extract([1, 2], 1), array_has([1], 1), array_reverse([1, 2]), array_unique([1, 1]), array_value(1, 2), array_push_back([1], 2), array_pop_back([1, 2]), array_intersect([1], [1])
struct_extract({'a': id}, 'a'), {'a': id}.a, {'a': id}['a'], struct_insert({'a': 1}, b := 2), map_extract(MAP {'a': 1}, 'a'), map_contains(MAP {'a': 1}, 'a'), map_concat(MAP {'a': 1}, MAP {'b': 2}), struct_keys({'a': 1})
regexp_replace(client, '[aeiou]', '*', 'g'), regexp_extract(client, '^(.)'), regexp_extract_all(client, '[a-z]'), regexp_full_match(client, '[A-Z][a-z]+'), regexp_split_to_array(client, 'o'), regexp_escape('a.b'), string_split(client, 'o'), str_split(client, 'o'), string_split_regex(client, '[aeiou]')
list_transform([1, 2], lambda x: x + id), list_filter([1, 100, 200], lambda x: x > id), [x + 1 FOR x IN [1, 2]], list_reduce([1, 2], lambda a, b: a + b), list_transform(['a'], lambda s, i: s || i)
-- SELECT id FROM invoices WHERE {} ORDER BY id
amount::INT IN (80, 60)
regexp_matches(client, '^[A-C]')
client ~ '[A-C].*'
issued BETWEEN DATE '2024-01-01' AND DATE '2024-02-28'
issued >= '2024-03-01'::DATE - INTERVAL 30 DAY
issued + INTERVAL 30 DAY < due
year(issued) = 2024 AND month(issued) = 3
strftime(issued, '%Y-%m') = '2024-03'
date_trunc('month', issued) = DATE '2024-03-01'
date_diff('day', issued, due) > 30
(due - issued) > 30
coalesce(paid, DATE '9999-12-31') > due
client IN ['Acme', 'Bolt']
list_contains(['Acme', 'Bolt'], client)
client = ANY(['Acme', 'Bolt'])
(client, currency) = ('Acme', 'EUR')
amount < ANY (SELECT price FROM invoice_lines)
client ILIKE 'a%' AND client NOT LIKE '%z'
lower(client) LIKE lower('%AC%')
contains(client, 'c')
len(client) BETWEEN 3 AND 4
EXISTS (FROM invoice_lines l WHERE l.invoice_id = invoices.id AND l.qty > 5)
id = (SELECT id FROM invoices ORDER BY amount DESC LIMIT 1)
amount >= (SELECT median(amount) FROM invoices)
amount > (SELECT quantile_cont(amount, 0.75) FROM invoices)
paid IS NULL AND NOT (client = 'Acme')
-- SELECT {} FROM invoices
list(id ORDER BY id), array_agg(client ORDER BY id DESC), list(DISTINCT currency ORDER BY currency), list(id ORDER BY id) FILTER (WHERE id < 103)
string_agg(client, ',' ORDER BY id), group_concat(client, '|' ORDER BY id), listagg(client, ',' ORDER BY id)
first(id ORDER BY id), last(id ORDER BY id), any_value(1), arbitrary(1), arg_max(client, amount), arg_min(client, amount), max_by(id, amount), min_by(id, amount), max(amount, 2), min(amount, 2)
median(amount), mode(currency), quantile_cont(amount, 0.5), quantile_disc(amount, 0.5), quantile(amount, 0.5), quantile_cont(amount, [0.25, 0.75]), mad(amount)
stddev(amount), stddev_pop(amount), stddev_samp(amount), variance(amount), var_pop(amount), var_samp(amount), sem(amount), skewness(amount), kurtosis(amount), kurtosis_pop(amount), entropy(currency)
corr(id, amount), covar_pop(id, amount), covar_samp(id, amount), regr_slope(id, amount), regr_intercept(id, amount), regr_r2(id, amount), regr_count(id, amount), regr_avgx(id, amount), regr_sxx(id, amount), regr_sxy(id, amount)
bit_and(id), bit_or(id), bit_xor(id), bool_and(amount > 0), bool_or(amount > 500), count_if(paid IS NULL), countif(paid IS NULL), count(*) FILTER (paid IS NULL), product(2), geomean(id), kahan_sum(amount), sumkahan(amount), fsum(amount), mean(amount)
histogram(currency), histogram(amount, [50, 100]), approx_count_distinct(client), approx_quantile(amount, 0.5) IS NOT NULL, approx_top_k(currency, 2) IS NOT NULL, reservoir_quantile(amount, 0.5) IS NOT NULL
json_group_array(id), json_group_object(id::VARCHAR, client), json_group_structure(to_json(id))
max(issued) - min(issued), count(DISTINCT date_trunc('month', issued)), min(issued::VARCHAR), max(amount)::INT
-- SELECT {} AS v, count(*) AS n FROM invoices GROUP BY {} ORDER BY v
-- SELECT {} AS v, sum(amount) AS n FROM invoices GROUP BY v HAVING n > 0 ORDER BY v
-- SELECT {} AS v, currency, max(amount) FROM invoices GROUP BY ALL ORDER BY ALL
-- SELECT DISTINCT {} AS v FROM invoices ORDER BY v
year(issued)
month(issued)
date_trunc('month', issued)
strftime(issued, '%Y-%m')
left(client, 1)
client[1]
client LIKE 'A%'
CASE WHEN amount > 100 THEN 'big' ELSE 'small' END
if(paid IS NULL, 'open', 'paid')
floor(amount / 100)
dayname(issued)
amount > 100
last_day(issued)
upper(currency)
len(client)
time_bucket(INTERVAL '1 month', issued)
issued::DATE
-- SELECT {} FROM visits ORDER BY id
detail -> 'ms', detail ->> 'ms', detail -> '$.ms', detail ->> '$.ua.os', detail ->> '$.tags[0]', json_extract(detail, '$.tags'), json_extract_string(detail, '$.ua.os'), json_extract(detail, ['$.ms', '$.ua.os'])
(detail ->> 'ms')::INT, (detail ->> '$.ms')::INT * 2, coalesce((detail ->> 'total')::DOUBLE, 0), CAST(detail -> 'ms' AS INT), TRY_CAST(detail ->> 'total' AS INT)
json_type(detail, '$.tags'), json_array_length(detail, '$.tags'), json_keys(detail), json_structure(detail), json_valid(detail), json_exists(detail, '$.total'), json_contains(detail -> 'tags', '"a"'), json_value(detail, '$.ms'), json_pretty(detail)
(detail -> '$.tags')::VARCHAR[], from_json(detail, '{"ms": "INT"}'), json_transform(detail, '{"ms": "INT", "ua": {"os": "VARCHAR"}}'), len((detail -> '$.tags')::VARCHAR[]), list_contains((detail -> '$.tags')::VARCHAR[], 'a')
strftime(ts, '%H:%M'), date_trunc('hour', ts), ts::DATE, ts::TIME, hour(ts), minute(ts), second(ts), epoch(ts), ts - INTERVAL 1 HOUR, time_bucket(INTERVAL '15 minutes', ts), date_diff('minute', ts, TIMESTAMP '2024-03-10')
ts - lag(ts) OVER (PARTITION BY visitor ORDER BY ts), date_diff('second', lag(ts) OVER (ORDER BY ts), ts), first_value(page) OVER (PARTITION BY visitor ORDER BY ts), list(page) OVER (PARTITION BY visitor ORDER BY ts)
split_part(page, '?', 1), regexp_replace(page, '\?.*', ''), regexp_extract(page, '^/([^?]+)', 1), page LIKE '/p%', ltrim(page, '/'), parse_filename(page), parse_path(page)

-- SELECT {} AS x FROM invoices ORDER BY id
date_trunc('month', issued)
date_part('year', issued)
datepart('month', issued)
datediff('day', issued, due)
date_diff('month', issued, due)
datesub('month', issued, due)
year(issued)
month(issued)
quarter(issued)
dayname(issued)
monthname(issued)
dayofweek(issued)
last_day(issued)
issued + 7
issued + INTERVAL 1 MONTH
issued - INTERVAL '2 weeks'
due - issued
strftime(issued, '%Y-%m')
strftime('%d.%m.%Y', issued)
strptime('2024-05-01', '%Y-%m-%d')
try_strptime('x', '%Y')
make_date(2024, 5, 1)
age(due, issued)
epoch(issued)
extract('week' FROM issued)
issued::VARCHAR
amount::INTEGER
TRY_CAST(client AS INTEGER)
CAST(amount AS DOUBLE)
amount // 7
amount ** 2
amount ^ 2
id << 1
xor(id, 5)
trunc(amount)
even(amount)
greatest(amount, 100)
least(id, 105)
if(amount > 100, 'hi', 'lo')
ifnull(paid, due)
client || '-' || currency
concat(client, '-', currency)
concat_ws('-', client, currency)
format('{} {}', client, currency)
format('{:,}', 1234567)
printf('%s %.1f', client, amount)
client[1]
client[1:2]
client[-2:]
left(client, 2)
right(client, 2)
lpad(id::VARCHAR, 6, '0')
rpad(client, 8, '.')
repeat('*', 3)
reverse(client)
split_part(client, 'o', 1)
string_split(client, 'o')
str_split(client, 'o')[1]
instr(client, 'o')
strpos(client, 'o')
contains(client, 'o')
starts_with(client, 'A')
prefix(client, 'A')
suffix(client, 'e')
client ^@ 'A'
regexp_matches(client, '^A')
regexp_replace(client, '[aeiou]', '*', 'g')
regexp_extract(client, '([a-z])o', 1)
regexp_extract_all(client, '[a-z]')
client ~ 'A.*'
client SIMILAR TO 'A.*'
client GLOB 'A*'
client ILIKE 'a%'
client NOT ILIKE 'a%'
levenshtein(client, 'Acne')
jaccard(client, 'Acne')
jaro_winkler_similarity(client, 'Acne')
hamming('abc', 'abd')
md5(client)
sha256(client)
hash(client) IS NOT NULL
ord(client)
chr(65)
ascii(client)
unicode(client)
strip_accents('é')
translate(client, 'abc', 'xyz')
strlen(client)
bit_length(client)
[id, id + 1]
[1, 2, 3][2]
list_value(1, 2, 3)
len([1, 2, 3])
list_contains([1, 2], 2)
list_sum([1, 2, 3])
list_sort([3, 1, 2])
list_reverse([1, 2])
list_distinct([1, 1, 2])
list_concat([1], [2])
list_slice([1, 2, 3], 1, 2)
[x * 2 FOR x IN [1, 2, 3] IF x > 1]
list_aggregate([1, 2, 3], 'max')
array_to_string(['a', 'b'], ',')
flatten([[1], [2, 3]])
range(3)
generate_series(1, 3)
{'a': id, 'b': client}
{'a': id}.a
struct_pack(a := id, b := client)
struct_extract({'a': 1}, 'a')
row(id, client)
MAP {'a': 1, 'b': 2}
MAP {'a': 1}['a']
map_keys(MAP {'a': 1})
map_extract(MAP {'a': 1}, 'a')
cardinality(MAP {'a': 1})
element_at(MAP {'a': 1}, 'a')
'{"a": {"b": 1}}'::JSON -> '$.a.b'
'{"a": 1}'::JSON ->> 'a'
json_extract('{"a": [1, 2]}', '$.a[0]')
json_extract_string('{"a": "x"}', '$.a')
json_array_length('[1, 2]')
json_keys('{"a": 1}')
json_type('{"a": 1}')
json_object('id', id)
json_array(id, client)
to_json({'a': id})
paid IS DISTINCT FROM due
paid IS NOT DISTINCT FROM due
client IN ['Acme', 'Bolt']
client NOT IN ('Acme', 'Bolt')
CASE WHEN amount > 100 THEN 1 ELSE 0 END
sum(amount) OVER (PARTITION BY client ORDER BY issued)
lag(amount) OVER (ORDER BY id)
sum(amount) FILTER (WHERE currency = 'EUR') OVER (ORDER BY id)
avg(amount) OVER (ORDER BY issued RANGE BETWEEN INTERVAL 30 DAYS PRECEDING AND CURRENT ROW)
row_number() OVER (PARTITION BY currency ORDER BY amount DESC, id)
first_value(client IGNORE NULLS) OVER (ORDER BY id)
quantile_cont(amount, 0.5) OVER (PARTITION BY currency)
nth_value(client, 2) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
(SELECT list(l.item ORDER BY l.n) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
EXISTS (FROM invoice_lines l WHERE l.invoice_id = invoices.id)
(id, client) = (101, 'Acme')
current_date >= issued
now() > issued
today() >= issued
random() >= 0
uuid() IS NOT NULL
typeof(amount)
1_000
'a' < 'b' COLLATE NOCASE
INTERVAL '1 day 2 hours'
to_days(3)
bar(amount, 0, 1000, 10)
date '2024-05-01' > issued
TIMESTAMP '2024-05-01 10:00:00' + INTERVAL 1 HOUR
time_bucket(INTERVAL '1 week', issued)
isfinite(issued)
gcd(12, 18)
factorial(5)
ln(amount + 1)
log(amount + 1)
pi()
amount IS NULL OR amount > 0
coalesce(paid, due, issued)

-- SELECT {} AS x FROM invoices
count(*) FILTER (paid IS NULL)
count(*) FILTER (WHERE paid IS NULL)
count()
string_agg(client, ', ' ORDER BY id)
group_concat(DISTINCT currency ORDER BY currency)
list(id ORDER BY amount DESC, id)
array_agg(client ORDER BY id)
list(DISTINCT currency ORDER BY currency)
arg_max(client, amount)
arg_min(client, id)
max_by(client, amount)
min_by(client, id)
any_value(currency) IS NOT NULL
first(client ORDER BY id)
last(client ORDER BY id)
median(amount)
mode(currency)
quantile_cont(amount, [0.25, 0.75])
quantile_disc(amount, 0.5)
percentile_cont(0.5) WITHIN GROUP (ORDER BY amount)
approx_count_distinct(client) > 0
stddev(amount)
var_samp(amount)
corr(amount, id)
regr_slope(amount, id)
histogram(currency)
bool_and(amount >= 0)
bit_or(id)
product(id % 3 + 1)
sum(amount) / count(*)
entropy(currency)
kurtosis(amount)
skewness(amount)
count_if(amount > 100)
countif(amount > 100)
max(amount, 2)
min(id, 2)
arg_max(client, amount, 2)
geomean(id)
favg(amount) > 0
fsum(amount) > 0
mad(amount)
json_group_array(id)
sum(DISTINCT amount)

-- SELECT id, {} AS x FROM invoices ORDER BY id
-- SELECT count(*), count(x) FROM (SELECT {} AS x FROM invoices WHERE id > 101) q
amount::DECIMAL(12, 4)
(amount * 100)::BIGINT
amount::DOUBLE / 3
round(amount / 3, 2)
trunc(amount)
amount % 10
amount // 10
amount ** 2
sqrt(amount)
ln(amount + 1)
log(amount + 1)
CASE WHEN amount > 100 THEN 'hi' ELSE 'lo' END
if(amount > 100, 'hi', 'lo')
ifnull(paid, due)
coalesce(strftime(paid, '%Y-%m-%d'), 'unpaid')
greatest(issued, due)
year(issued) * 100 + month(issued)
extract(week FROM issued)
date_part('dow', issued)
date_trunc('quarter', issued)
date_trunc('week', issued)::DATE
last_day(issued)
issued + INTERVAL 1 MONTH
issued + INTERVAL '10 days'
issued + INTERVAL (id % 5) DAY
issued + to_days(id % 5)
issued + 7
due - issued
date_diff('week', issued, due)
datediff('day', issued, coalesce(paid, due))
age(due, issued)
strftime(issued, '%A %d %B %Y')
strptime(strftime(issued, '%Y%m') || '01', '%Y%m%d')::DATE
epoch(issued)
epoch_ms(issued::TIMESTAMP)
dayname(issued)
monthname(issued)
isodow(issued) IN (6, 7)
time_bucket(INTERVAL '7 days', issued)
make_date(2024, 1 + id % 12, 1)
make_timestamp(2024, 1, 1, id % 24, 0, 0)
upper(client) || '-' || lpad(id::VARCHAR, 6, '0')
client[1:2]
client[-1]
left(client, 2) || right(client, 1)
substring(client, 2, 2)
regexp_replace(client, '[aeiou]', '*', 'g')
regexp_extract(client, '([A-Z])', 1)
regexp_matches(client, '^A')
string_split(client, 'c')
string_split(client, 'c')[1]
len(string_split(client, 'e'))
split_part(client, 'c', 1)
strpos(client, 'e')
contains(client, 'm')
starts_with(client, 'A')
replace(client, 'A', 'a')
reverse(client)
translate(client, 'Ae', 'xy')
md5(client)
levenshtein(client, 'Acme')
jaro_winkler_similarity(client, 'Acme')
client LIKE 'A%'
client ILIKE '%t'
client SIMILAR TO '(A|B).*'
client GLOB 'A*'
client ~ '[A-C].*'
client IN ('Acme', 'Bolt')
client BETWEEN 'B' AND 'D'
format('{:>10}|{}', client, currency)
format('{:.1f}', amount::DOUBLE)
printf('%05d', id)
concat(client, NULL, ':', amount)
concat_ws(' / ', client, currency)
paid IS NULL
paid IS NOT DISTINCT FROM due
[id, id * 2]
[client, currency][1]
list_contains([101, 103], id)
list_transform([1, 2, 3], lambda v: v * id)
list_filter([1, 200, 3], lambda v: v > id)
[v + 1 for v in [1, 2, 3] if v > 1]
list_reduce([1, 2, 3], lambda a, b: a + b)
list_sort([3, 1, id])
list_aggregate([1, 2, id], 'avg')
array_to_string([client, currency], '|')
list_zip([1, 2], ['a', 'b'])
flatten([[1], [id]])
list_slice([1, 2, 3], 1, 2)
range(3)
generate_series(1, id % 3 + 1)
range(id % 5)
{'id': id, 'client': client}
{'id': id, 'client': client}.client
struct_pack(a := id, b := client)
struct_extract({'a': id}, 'a')
MAP {'a': id}
MAP {'a': id}['a']
map_keys(MAP {'a': id})
row(id, client)
(id, currency) IN ((101, 'EUR'))
json_object('id', id, 'c', client)
to_json({'a': id})
json_extract('{"a": {"b": 5}}', '$.a.b')::INT + id
'{"a": [1, 2]}'::JSON -> 'a'
('{"a": [1, 2]}'::JSON ->> '$.a[0]')::INT
json_array(id, client)
row_number() OVER (ORDER BY amount DESC, id)
rank() OVER (PARTITION BY currency ORDER BY amount)
sum(amount) OVER (PARTITION BY client ORDER BY issued ROWS UNBOUNDED PRECEDING)
amount / sum(amount) OVER ()
lag(amount, 1, 0) OVER (ORDER BY id)
first_value(client) OVER (PARTITION BY currency ORDER BY amount DESC, id)
lead(issued) OVER (PARTITION BY client ORDER BY issued) - issued
count(*) FILTER (WHERE amount > 80) OVER (PARTITION BY client)
median(amount) OVER (PARTITION BY client)
quantile_cont(amount, 0.9) OVER ()
list(id) OVER (PARTITION BY client ORDER BY id)
(SELECT count(*) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
(SELECT list(item ORDER BY n) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
(SELECT string_agg(item, ', ' ORDER BY n) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
EXISTS (SELECT 1 FROM invoice_lines l WHERE l.invoice_id = invoices.id AND l.qty > 5)
ARRAY(SELECT item FROM invoice_lines l WHERE l.invoice_id = invoices.id ORDER BY n)
amount > (SELECT avg(amount) FROM invoices)
id & 7
xor(id, 3)
id << 2
bit_count(id)
-id + +id
@(amount - 100)
gcd(id, 12)
hex(id)
bin(id)
to_base(id, 36)
bar(amount, 0, 1000, 10)
typeof(amount)
try_cast(client AS INT)
TRY(1 / (id - 101))
cast(amount AS VARCHAR)
amount::VARCHAR
'it''s ' || client
e'tab\there'
$$raw$$ || client
1_000 + id
1e2 + amount
.5 * amount
DATE '2024-01-31' + INTERVAL 1 MONTH
INTERVAL 2 DAYS * id
INTERVAL '36 hours'
TIMESTAMP '2024-01-01 10:00:00' + INTERVAL 1 HOUR
TIME '10:00:00'
current_date > issued
now() > issued::TIMESTAMPTZ
today() - issued > 0
uuid() IS NOT NULL
'1'::BIT
'ab'::BLOB
encode(client)
client COLLATE NOCASE
unicode(client)
chr(65 + id % 26)
ascii(client)
bit_length(client)
strip_accents(client)
list_distinct([1, 1, id])
list_unique([1, 1, id])
list_position([101, 102], id)
list_has_any([101], [id])
[1, 2] || [id]
list_concat([1], [id])
array_slice([1, 2, 3], -2, NULL)
unnest([client, currency])
nullif(amount, 80)
amount BETWEEN 50 AND 100
NOT amount > 50
amount IS NOT NULL AND currency = 'EUR'
hash(client) IS NOT NULL
'b'::ENUM('a', 'b', 'c')
union_value(n := id)
equi_width_bins(0, 10, 2, false)
