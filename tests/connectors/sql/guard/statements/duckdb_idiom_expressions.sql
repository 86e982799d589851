-- SELECT id, {} AS v FROM invoices ORDER BY id
strftime(issued, '%Y-%m')
strftime('%A %d %B %Y', issued)
date_trunc('quarter', issued)
datediff('week', issued, coalesce(paid, due))
issued + INTERVAL '1' YEAR
issued + to_days(id::INTEGER - 100)
(due - issued) * 2
last_day(issued) - issued
date_part('dow', issued) IN (0, 6)
extract(month FROM issued)
age(issued) IS NOT NULL
issued BETWEEN DATE '2024-01-01' AND DATE '2024-01-31'
issued::TIMESTAMP + INTERVAL 90 MINUTES
epoch_ms(issued::TIMESTAMP)
year(issued) * 100 + month(issued)
yearweek(issued)::VARCHAR
monthname(issued)[:3]
amount::DOUBLE / 3
round(amount / 7, 3)
amount // 10
amount % 7
amount ** 2
amount::INTEGER::VARCHAR
amount::DECIMAL(12, 3)
TRY_CAST(client AS INTEGER)
hex(id)
bin(id)
id::VARCHAR.lpad(6, '0')
client || ' ' || currency
client[1]
client[2:]
[client, currency]
[id, id + 1][1]
{'c': client, 'a': amount}
{'c': client}.c
MAP {client: amount}
MAP {'EUR': '€'}[currency]
list_contains(['Acme'], client)
list_transform([1, 2], lambda x: x * id)
[x || '!' FOR x IN [client, currency]]
list_filter([paid, due], lambda d: d IS NOT NULL)[1]
string_split(client, 'o')
array_to_string([client, currency], '/')
concat_ws('/', client, NULL, currency)
format('{}-{}', client, id)
printf('%s:%d', client, id)
regexp_extract(client, '[A-Z]')
regexp_replace(client, '[a-z]+', 'x')
client SIMILAR TO 'A.*'
client ~ 'A.*'
client LIKE '%o%' ESCAPE '\'
client ILIKE 'a%'
client GLOB 'A*'
starts_with(client, 'A') AND contains(client, 'c')
levenshtein(client, 'Acme')
reverse(client)
md5(client)
ifnull(paid, due)
paid IS DISTINCT FROM due
greatest(issued, paid)
if(amount > 100, 'big', 'small')
CASE currency WHEN 'EUR' THEN 1 ELSE 2 END
amount BETWEEN 50 AND 100
currency IN ('EUR', 'USD')
id IN (SELECT invoice_id FROM invoice_lines)
sum(amount) OVER (PARTITION BY client ORDER BY issued)
lag(amount, 1, 0) OVER (ORDER BY id)
row_number() OVER (PARTITION BY client ORDER BY amount DESC)
ntile(3) OVER (ORDER BY id)
list(id) OVER (PARTITION BY client ORDER BY id)
arg_max(id, amount) OVER (PARTITION BY client)
quantile_cont(amount, 0.5) OVER (PARTITION BY client)
string_agg(client, ',') OVER (ORDER BY id)
avg(amount) FILTER (currency = 'EUR') OVER ()
(SELECT list(item ORDER BY n) FROM invoice_lines WHERE invoice_id = invoices.id)
(SELECT max(qty * price) FROM invoice_lines WHERE invoice_id = invoices.id)
(FROM invoice_lines SELECT count(*) WHERE invoice_id = invoices.id)
json_object('id', id, 'client', client)
to_json([id, 1])
json_array(client, amount)->>0
typeof(amount)
hash(client) % 1
bar(amount, 0, 1000, 20)
-- SELECT id FROM visits WHERE {} ORDER BY id
detail->>'ms' = '120'
(detail->>'$.ms')::INT > 90
detail->>'ua'->>'os' IS NULL
json_extract_string(detail, '$.ua.os') = 'linux'
(detail->'$.tags[0]') = '"a"'
list_contains(CAST(detail->'tags' AS VARCHAR[]), 'a')
json_contains(detail, '"mac"')
json_exists(detail, '$.total')
detail.ua.os = '"mac"'
ts::DATE = '2024-03-01'
ts >= TIMESTAMP '2024-03-01 09:00' AND ts < TIMESTAMP '2024-03-01 12:00'
hour(ts) BETWEEN 8 AND 9
date_trunc('day', ts) = DATE '2024-03-01'
ts BETWEEN '2024-03-01' AND '2024-03-02'
dayname(ts) = 'Friday'
ts::TIME > TIME '09:30'
page LIKE '/p%'
page NOT SIMILAR TO '/home.*'
regexp_matches(page, '\?')
visitor IN ('ann', 'bob') AND NOT page = '/home'
length(page) > len(visitor) + 2
visitor = ANY (SELECT visitor FROM visits WHERE page = '/buy')
