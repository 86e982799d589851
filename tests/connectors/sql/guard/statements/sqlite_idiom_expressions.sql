-- SELECT id, {} AS v FROM invoices ORDER BY id
strftime('%Y-%W', issued)
strftime('%d.%m.%Y', issued)
strftime('%m', issued) + 0
CAST(strftime('%Y', issued) AS INTEGER)
date(issued, '+' || (id - 100) || ' days')
date(issued, 'start of month', '+1 month', '-1 day')
date(issued, '-6 days', 'weekday 1')
julianday(due) - julianday(issued)
CAST(julianday(coalesce(paid, due)) - julianday(issued) AS INTEGER)
(strftime('%Y', due) - strftime('%Y', issued)) * 12 + strftime('%m', due) - strftime('%m', issued)
unixepoch(due) - unixepoch(issued)
strftime('%s', due) / 86400
time(issued)
datetime(issued, '+90 minutes')
issued BETWEEN '2024-01-01' AND '2024-01-31'
strftime('%w', issued) IN ('0', '6')
substr(issued, 1, 7)
amount / 7
round(amount / 7, 3)
CAST(amount AS INTEGER) % 7
amount || ''
printf('%08.2f', amount)
printf('%s-%04d', currency, id)
format('%10s|', client)
upper(substr(client, 1, 1)) || substr(client, 2)
substr(client, -3)
instr(client, 'o') > 0
replace(client, 'e', '3')
trim(client, 'Ae')
length(client) - length(replace(client, 'e', ''))
hex(client)
quote(paid)
unicode(client)
char(unicode(client) + 1)
client || ' ' || ifnull(paid, 'open')
client LIKE '%o%'
client NOT LIKE 'a%'
client GLOB '*[aeiou]'
client COLLATE NOCASE = 'ACME'
client IN ('Acme', 'Bolt')
iif(paid IS NULL, 'open', iif(paid > due, 'late', 'ok'))
ifnull(paid, due)
nullif(amount, 0)
coalesce(paid, due, issued)
max(issued, due, ifnull(paid, issued))
min(amount, 100)
CASE WHEN amount < 50 THEN 'low' WHEN amount < 100 THEN 'mid' ELSE 'high' END
amount BETWEEN 50 AND 100
paid IS NOT due
paid IS NULL
NOT paid IS NULL
typeof(amount)
abs(amount - 100)
id & 7
id << 1
~id
-id
+id
id % 2 = 0 AND amount > 50
(client = 'Acme') + (currency = 'EUR')
json_object('id', id, 'client', client)
json_array(client, amount) ->> 0
json_object('a', json_array(id)) -> '$.a[0]'
json_extract(json_object('a', id), '$.a')
sum(amount) OVER (PARTITION BY strftime('%Y-%m', issued))
sum(amount) OVER (PARTITION BY client ORDER BY issued ROWS UNBOUNDED PRECEDING)
row_number() OVER (PARTITION BY client ORDER BY amount DESC)
lag(amount, 1, 0) OVER (ORDER BY id)
julianday(issued) - julianday(lag(issued) OVER (PARTITION BY client ORDER BY issued))
amount * 100.0 / sum(amount) OVER (PARTITION BY currency)
dense_rank() OVER (ORDER BY currency)
percent_rank() OVER (ORDER BY amount)
avg(amount) FILTER (WHERE currency = 'EUR') OVER (ORDER BY id)
group_concat(client, ';') OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
total(amount) OVER ()
(SELECT group_concat(item, '+') FROM (SELECT item FROM invoice_lines l WHERE l.invoice_id = invoices.id ORDER BY l.n))
(SELECT max(price) FROM invoice_lines WHERE invoice_id = invoices.id)
(SELECT item FROM invoice_lines l WHERE l.invoice_id = invoices.id ORDER BY price DESC LIMIT 1)
EXISTS (SELECT 1 FROM invoice_lines l WHERE l.invoice_id = invoices.id)
-- SELECT id FROM visits WHERE {} ORDER BY id
detail ->> 'ms' = 120
detail ->> '$.ms' BETWEEN 50 AND 100
json_extract(detail, '$.ua.os') = 'linux'
detail -> 'ua' ->> 'os' IS NULL
json_extract(detail, '$.tags[0]') = 'a'
json_array_length(detail, '$.tags') > 1
json_type(detail, '$.ms') = 'null'
json_type(detail, '$.total') IS NOT NULL
EXISTS (SELECT 1 FROM json_each(detail, '$.tags') WHERE value IN ('b', 'c'))
(SELECT count(*) FROM json_each(detail)) > 3
date(ts) = '2024-03-01'
ts >= '2024-03-01' AND ts < date('2024-03-01', '+1 day')
strftime('%H', ts) BETWEEN '08' AND '09'
time(ts) > '09:30'
CAST(strftime('%w', ts) AS INTEGER) = 5
ts BETWEEN '2024-03-01 09:00' AND '2024-03-01 12:00'
unixepoch(ts) > unixepoch('2024-03-05')
page LIKE '/p%'
page GLOB '/[hb]*'
page NOT LIKE '%?%'
instr(page, '?') > 0
substr(page, 2) IN ('home', 'buy')
visitor IN ('ann', 'bob') AND NOT page = '/home'
length(page) > 4 AND visitor <> 'ann'
-- SELECT sensor_id, ts, {} AS v FROM readings ORDER BY sensor_id, ts
round(value * 1.8 + 32, 1)
CASE WHEN value > 40 THEN 'high' WHEN value IS NULL THEN 'none' ELSE 'low' END
coalesce(value, avg(value) OVER (PARTITION BY sensor_id))
value - first_value(value) OVER (PARTITION BY sensor_id ORDER BY ts)
sum(quality = 'bad') OVER (PARTITION BY sensor_id ORDER BY ts)
max(value) FILTER (WHERE quality = 'ok') OVER (PARTITION BY sensor_id)
strftime('%H:%M', ts) || ' ' || quality
(julianday(ts) - julianday('2024-03-01')) * 24
datetime(ts, 'start of day', '+1 day')
iif(quality = 'ok', value, NULL)
(SELECT code FROM sensors s WHERE s.id = readings.sensor_id)
row_number() OVER (PARTITION BY sensor_id, date(ts) ORDER BY ts)
printf('%6.2f', value)
CAST(value AS INTEGER) || '°'
upper(substr(quality, 1, 1)) || substr(quality, 2)
date(ts) = date(lag(ts) OVER (PARTITION BY sensor_id ORDER BY ts))
typeof(value) || '/' || typeof(ts)
value BETWEEN 18 AND 22
nullif(quality, 'ok')
sensor_id * 100 + CAST(strftime('%d', ts) AS INTEGER)
