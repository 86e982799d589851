-- SELECT {} FROM invoices ORDER BY id
abs(amount - 100)
ceil(amount), ceiling(amount), floor(amount), round(amount), round(amount, 1), trunc(amount)
mod(id, 7), id % 7, id / 7, id * 1.0 / 7
pow(id, 2), sqrt(id), exp(1), ln(id), log(id), log2(id), log10(id), log(2, id)
sin(id), cos(id), tan(id), asin(0.5), acos(0.5), atan(id), atan2(id, 2), sinh(1), cosh(1), tanh(1), asinh(1), acosh(2), atanh(0.5)
sign(amount - 80), max(amount, 80), min(amount, 80), max(1, 2, 3), degrees(1), radians(180)
upper(client), lower(client), length(client), length(amount), length(CAST(client AS BLOB))
client || '/' || currency, client || ' ' || id || ' ' || amount, 'EUR ' || amount
client || ' since ' || strftime('%Y', issued)
substr(client, 1, 1), substr(client, -1), substring(client, 2), substr(client, 2, 2), instr(client, 'o')
replace(client, 'o', '0'), trim(client), ltrim(client, 'A'), rtrim(client, 'e'), trim(client, 'Ae')
hex(client), quote(client), unicode(client), char(65), printf('%08.2f', amount), printf('%-10s|', client), format('%d items', id), printf('%x', id), printf('%e', amount), printf('%c', 'abc'), printf('%%')
typeof(id), typeof(client), typeof(paid), typeof(amount + 0.5)
strftime('%Y', issued), strftime('%m', issued), strftime('%d', issued), strftime('%Y-%m', issued), strftime('%w', issued), strftime('%j', issued), strftime('%W', issued)
CAST(strftime('%Y', issued) AS INTEGER), (CAST(strftime('%m', issued) AS INTEGER) + 2) / 3 AS quarter
date(issued, '+1 day'), date(issued, '-1 month'), date(issued, '+1 year', '-1 day'), date(issued, 'start of year'), date(issued, 'weekday 0'), date(issued, '+' || (id - 100) || ' days')
date(issued, 'start of month', '+1 month', '-1 day') AS month_end, datetime(issued, '+1 hour', '+30 minutes'), time(issued, '+90 seconds')
julianday(due) - julianday(issued) AS days, CAST(julianday(due) - julianday(issued) AS INTEGER), unixepoch(issued), strftime('%s', due) - strftime('%s', issued)
iif(paid IS NULL, 'open', 'paid'), ifnull(paid, due), nullif(client, 'Acme'), coalesce(paid, due, issued)
CASE WHEN paid IS NULL THEN 'open' WHEN paid <= due THEN 'in time' ELSE 'late' END AS state
CASE currency WHEN 'EUR' THEN amount WHEN 'USD' THEN amount * 0.9 END AS eur
amount > 100, amount BETWEEN 50 AND 100, client LIKE 'A%', client IN ('Acme'), paid IS NULL, NOT amount > 100, client GLOB '*o*'
CAST(amount AS INTEGER), CAST(amount AS TEXT), CAST(id AS REAL), CAST(id AS NUMERIC), CAST(client AS BLOB)
json_object('id', id, 'tags', json_array(client, currency)), json_array(id, NULL, 1.5), json_quote(client)
row_number() OVER (ORDER BY amount DESC, id) AS pos, rank() OVER (PARTITION BY strftime('%Y', issued) ORDER BY amount) AS r
sum(amount) OVER (PARTITION BY strftime('%Y-%m', issued) ORDER BY id) AS running
lag(amount, 1, 0) OVER (ORDER BY id) AS prev, ifnull(lead(amount) OVER (ORDER BY id), 0) AS following
avg(amount) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving
total(amount) OVER (PARTITION BY client), group_concat(id) OVER (PARTITION BY client ORDER BY id) AS ids
id & 7, id | 8, id << 1, id >> 1, ~id, -id, NOT paid
(SELECT count(*) FROM invoice_lines l WHERE l.invoice_id = invoices.id) AS n, EXISTS (SELECT 1 FROM places) AS e
(SELECT group_concat(item, ', ') FROM (SELECT item FROM invoice_lines l WHERE l.invoice_id = invoices.id ORDER BY n)) AS items
likely(amount > 50), unlikely(paid IS NULL), likelihood(amount > 50, 0.9), zeroblob(1)
client COLLATE NOCASE = 'acme', client = 'acme' COLLATE NOCASE, client < 'B' COLLATE BINARY
-- SELECT id FROM invoices WHERE {} ORDER BY id
amount > 50 AND currency = 'EUR' AND client <> 'Dune'
issued BETWEEN '2024-01-01' AND '2024-02-29'
issued >= date('2024-03-31', '-60 days')
issued >= date('2024-03-15', 'start of month') AND issued < date('2024-03-15', 'start of month', '+1 month')
issued < datetime('2024-02-01', '+1 day')
strftime('%Y', issued) = '2024'
strftime('%Y-%m', issued) = '2024-03'
strftime('%Y-%m', issued) IN ('2024-01', '2024-02')
CAST(strftime('%m', issued) AS INT) BETWEEN 1 AND 2
strftime('%w', issued) IN ('0', '6')
julianday(due) - julianday(issued) > 30
julianday('2024-04-30') - julianday(issued) <= 90
substr(issued, 1, 7) = '2024-03'
issued LIKE '2024-03%'
paid IS NULL OR paid > due
paid IS NOT NULL AND paid < due
ifnull(paid, '9999-12-31') > due
client LIKE 'c%'
client LIKE '%c%' AND client NOT LIKE '%z'
client LIKE '%' || 'olt'
client GLOB '[AB]*'
client NOT GLOB '*[0-9]*'
lower(client) IN ('acme', 'bolt')
substr(client, 1, 1) = 'A'
length(client) > 3
instr(client, 'o') > 0
client = 'ACME' COLLATE NOCASE
client COLLATE NOCASE IN ('ACME', 'BOLT')
(client, currency) IN (VALUES ('Acme', 'EUR'))
(client, amount) IN (SELECT client, max(amount) FROM invoices GROUP BY client)
amount = (SELECT max(amount) FROM invoices)
amount % 10 = 0
id & 1
amount IN (80, 60.0)
CAST(amount AS INTEGER) = 80
EXISTS (SELECT * FROM invoice_lines WHERE invoice_lines.invoice_id = invoices.id AND qty > 5)
iif(currency = 'EUR', amount, 0) > 50
max(amount, 70) = 80
amount > 50 AND NOT currency = 'EUR'
amount NOT BETWEEN 50 AND 100
client == 'Acme' AND amount != 80
-- SELECT {} FROM invoices
count(*), count(paid), count(DISTINCT client), count(DISTINCT client || currency)
sum(amount), avg(amount), min(amount), max(amount), total(amount)
sum(currency = 'EUR') AS n, sum(iif(currency = 'EUR', amount, 0)) AS eur, sum(amount) FILTER (WHERE currency = 'EUR') AS eur2
round(100.0 * count(paid) / count(*), 1) AS pct
group_concat(client), group_concat(DISTINCT currency), group_concat(id, '|')
group_concat(client, ', ') FILTER (WHERE paid IS NULL)
json_group_array(client), json_group_object(id, client), json_group_array(json_object('id', id))
json_group_array(id) FILTER (WHERE amount > 100)
sqrt(avg(amount * amount) - avg(amount) * avg(amount)) AS dev
max(issued), min(issued), julianday(max(issued)) - julianday(min(issued)) AS days
count(DISTINCT strftime('%Y-%m', issued)) AS months
max(CASE WHEN client = 'Acme' THEN amount END) AS acme
sum(amount) / nullif(count(paid), 0), sum(amount) * 1.0 / count(*)
avg(julianday(coalesce(paid, due)) - julianday(issued))
-- SELECT {} AS v, count(*) AS n FROM invoices GROUP BY {} ORDER BY v
-- SELECT {} AS v, sum(amount) AS n FROM invoices GROUP BY v HAVING n > 0 ORDER BY v
-- SELECT DISTINCT {} AS v FROM invoices ORDER BY v
strftime('%Y', issued)
strftime('%Y-%m', issued)
strftime('%m', issued)
date(issued, 'start of month')
substr(client, 1, 1)
client LIKE 'A%'
iif(paid IS NULL, 'open', 'paid')
CASE WHEN amount > 100 THEN 'big' ELSE 'small' END
CAST(amount / 100 AS INTEGER)
strftime('%w', issued)
amount > 100
upper(currency)
-- SELECT {} FROM visits ORDER BY id
date(ts), time(ts), strftime('%H', ts), strftime('%H:%M', ts), strftime('%Y-%m-%d %H:00', ts)
unixepoch(ts), strftime('%s', ts) / 3600, datetime(ts, '+2 hours'), datetime(ts, 'start of day'), datetime((unixepoch(ts) / 900) * 900, 'unixepoch')
json_extract(detail, '$.ms'), detail ->> 'ms', detail -> 'ua' ->> 'os', json_extract(detail, '$.tags[0]'), json_extract(detail, '$.tags[#-1]'), detail -> '$.tags', detail ->> '$.ua.os'
json_extract(detail, '$.ms', '$.ua.os'), json_type(detail, '$.ms'), json_array_length(detail, '$.tags'), json_valid(detail)
json_extract(detail, '$.ms') * 2, ifnull(json_extract(detail, '$.total'), 0), CAST(detail ->> 'ms' AS INTEGER) + 1
(SELECT count(*) FROM json_each(detail, '$.tags')) AS n, (SELECT group_concat(value) FROM json_each(detail, '$.tags')) AS tags
replace(page, '/', ''), substr(page, 2), length(page) - length(replace(page, '/', '')), ltrim(page, '/'), iif(instr(page, '?'), substr(page, 1, instr(page, '?') - 1), page) AS path
unixepoch(ts) - unixepoch(lag(ts) OVER (PARTITION BY visitor ORDER BY ts)) AS pause, first_value(page) OVER (PARTITION BY visitor ORDER BY ts) AS entry

-- SELECT {} AS x FROM invoices ORDER BY id
date(issued)
date(issued, '+1 month', '-1 day')
date(issued, 'start of month')
date(issued, 'start of year', '+6 months')
date(issued, 'weekday 0')
strftime('%Y-%m', issued)
strftime('%W', issued)
strftime('%s', issued)
CAST(strftime('%s', paid) AS INTEGER)
julianday(due) - julianday(issued)
CAST(julianday(coalesce(paid, '2024-12-31')) - julianday(issued) AS INT)
unixepoch(issued)
datetime(issued, '+90 minutes')
time('12:34:56', '-1 hour')
ifnull(paid, 'open')
iif(amount > 100, 'hi', 'lo')
instr(client, 'o')
printf('%.2f', amount)
printf('%05d', id)
printf('%s-%d', client, id)
format('%10.2f|%-10s', amount, client)
substr(client, -2)
substring(client, 2, 2)
ltrim(client, 'A')
rtrim(client, 'e')
trim(client, 'Ae')
hex(client)
quote(client)
unicode(client)
char(65, 66)
typeof(amount)
max(amount, 100)
min(id, 105)
client GLOB 'A*'
client NOT GLOB '*e'
client COLLATE NOCASE = 'acme'
client == 'Acme'
amount <> 80
amount != 80
client IS 'Acme'
client IS NOT 'Acme'
paid ISNULL
paid NOTNULL
id | 8
id << 2
~id
-(-id)
id % 4 = 1
CAST(amount AS INTEGER)
CAST(id AS TEXT) || '!'
amount / 3.0
json_object('id', id, 'client', client)
json_array(id, client, NULL)
json_extract('{"a": [1, 2]}', '$.a[1]')
'{"a": 1}' -> 'a'
'{"a": 1}' ->> '$.a'
json_type('{"a": 1}', '$.a')
json_array_length('[1, 2, 3]')
json_valid(client)
json_quote(client)
json_patch('{"a": 1}', '{"b": 2}')
json_set('{"a": 1}', '$.b', id)
json_remove('{"a": 1, "b": 2}', '$.a')
sum(amount) FILTER (WHERE currency = 'EUR') OVER (ORDER BY id)
total(amount) OVER ()
nth_value(client, 2) OVER (ORDER BY id)
first_value(client) OVER (PARTITION BY currency ORDER BY amount DESC)
group_concat(client, '|') OVER (ORDER BY id)
lag(amount, 2, 0.0) OVER (ORDER BY issued)
count(*) OVER (ORDER BY amount GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)
sum(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)
(amount, currency) = (80.00, 'EUR')
(id, client) IN (SELECT id, client FROM invoices WHERE amount > 100)
EXISTS (SELECT 1 FROM invoice_lines WHERE invoice_id = id)
CASE WHEN client LIKE 'a%' ESCAPE '\' THEN 1 END
coalesce(paid, date('now')) >= issued
pow(id, 2)
mod(id, 3)
log(id)
exp(1)
pi()
trunc(amount)
radians(180)
likely(amount > 10)
soundex(client)
zeroblob(4)
x'4142'
0x1F
.5
amount * 1.0 / (SELECT sum(amount) FROM invoices)

-- SELECT {} AS x FROM invoices
count(*)
count(DISTINCT client)
sum(amount) FILTER (WHERE paid IS NULL)
group_concat(DISTINCT client)
group_concat(client, '; ')
total(amount)
avg(CASE WHEN currency = 'EUR' THEN amount END)
max(issued)
sum(amount) / count(*)
json_group_array(client)
json_group_object(id, amount)
sum(amount > 100)
count(*) FILTER (WHERE amount > 100) * 100.0 / count(*)

-- SELECT id, {} AS x FROM invoices ORDER BY id
-- SELECT count(*), count(x), max(x) FROM (SELECT {} AS x FROM invoices WHERE id > 101) q
CAST(amount AS INTEGER)
CAST(amount * 100 AS INT)
amount / 3
amount / 3.0
round(amount / 3, 2)
round(amount)
amount % 10
abs(amount - 100)
CASE WHEN amount > 100 THEN 'hi' ELSE 'lo' END
iif(amount > 100, 'hi', 'lo')
ifnull(paid, due)
coalesce(strftime('%d.%m.%Y', paid), 'unpaid')
max(issued, due)
min(amount, 100)
strftime('%Y', issued) || strftime('%m', issued)
CAST(strftime('%Y', issued) AS INTEGER) * 100
strftime('%W', issued)
strftime('%w', issued) IN ('0', '6')
strftime('%s', issued)
date(issued, 'start of month')
date(issued, 'start of month', '+1 month', '-1 day')
date(issued, '+' || (id % 5) || ' days')
date(issued, 'weekday 1')
datetime(issued, '+10 hours')
julianday(due) - julianday(issued)
CAST(julianday(due) - julianday(issued) AS INTEGER)
unixepoch(issued)
time('10:30:00', '+30 minutes')
date('2024-01-31', '+1 month')
upper(client) || '-' || substr('000000' || id, -6)
printf('%06d', id)
printf('%.1f%%', amount)
printf('%-10s|', client)
printf('%,d', id * 1000)
format('%s:%s', client, currency)
substr(client, 2)
substr(client, -2, 1)
substr(client, 1, 1)
instr(client, 'e')
replace(client, 'A', 'a')
trim(client, 'Ae')
ltrim(client, 'A')
rtrim(client, 'e')
length(client)
lower(client)
hex(client)
unicode(client)
char(65 + id % 26)
quote(client)
quote(paid)
client LIKE 'a%'
client NOT LIKE '%t'
client GLOB '[A-C]*'
client LIKE '%\_%' ESCAPE '\'
client IN ('Acme', 'Bolt')
client BETWEEN 'B' AND 'D'
client = 'ACME' COLLATE NOCASE
client COLLATE NOCASE
client COLLATE RTRIM = 'Acme '
paid IS NULL
paid ISNULL
paid NOTNULL
paid IS due
paid IS NOT due
NOT paid > due
(id, currency) = (101, 'EUR')
(id, currency) IN (VALUES (101, 'EUR'), (103, 'USD'))
id IN (SELECT invoice_id FROM invoice_lines WHERE qty > 5)
typeof(amount)
typeof(paid)
nullif(amount, 80)
json_object('id', id, 'client', client)
json_array(id, client)
json_extract('{"a": {"b": 5}}', '$.a.b') + id
'{"a": [1, 2]}' -> '$.a'
'{"a": [1, 2]}' ->> '$.a[0]'
'{"a": 1}' ->> 'a'
json_set('{"a": 1}', '$.a', id)
json_array_length('[1, 2, 3]')
json_type('{"a": 1}', '$.a')
json_valid(client)
row_number() OVER (ORDER BY amount DESC, id)
rank() OVER (PARTITION BY currency ORDER BY amount)
sum(amount) OVER (PARTITION BY client ORDER BY issued ROWS UNBOUNDED PRECEDING)
total(amount) OVER (ORDER BY id)
amount / sum(amount) OVER ()
lag(amount, 1, 0) OVER (ORDER BY id)
lead(issued) OVER (PARTITION BY client ORDER BY issued)
first_value(client) OVER (PARTITION BY currency ORDER BY amount DESC, id)
nth_value(id, 2) OVER (ORDER BY id)
count(*) FILTER (WHERE amount > 80) OVER (PARTITION BY client)
group_concat(client, ',') OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
ntile(3) OVER (ORDER BY amount, id)
avg(amount) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
(SELECT count(*) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
EXISTS (SELECT 1 FROM invoice_lines l WHERE l.invoice_id = invoices.id AND l.qty > 5)
amount > (SELECT avg(amount) FROM invoices)
id & 7
id | 1
id << 2
~id
-id + +id
+amount
+client
id == 101
id <> 101
'it''s ' || client
x'414243'
1e2 + amount
.5 * amount
0x1F + id
NULL
TRUE
id > 103 AND currency = 'EUR'
id > 103 OR NOT currency = 'EUR'
sign(amount - 80)
sqrt(amount)
power(amount, 2)
ln(amount + 1)
log10(amount + 1)
ceil(amount)
floor(amount)
mod(id, 7)
pi() * id
degrees(1.0)
date('now') > issued
datetime('now') > issued
CURRENT_DATE > issued
julianday('now') > julianday(issued)
random() IS NOT NULL
zeroblob(2)
soundex(client) IS NOT NULL
strftime('%Y-%m-%dT%H:%M:%SZ', issued)
strftime('%j', issued) + 0
(strftime('%m', issued) + 2) / 3
CASE strftime('%w', issued) WHEN '0' THEN 'Sun' WHEN '6' THEN 'Sat' ELSE 'work' END
CASE currency WHEN 'EUR' THEN 1 WHEN 'USD' THEN 2 END
likely(id)
instr('abc', 'c') + id
substr(issued, 1, 7)
issued || ' ' || due
client || NULL
amount || ''
id || '/' || client
CAST(client AS BLOB)
CAST('0x10' AS INTEGER)
CAST(' 12 ' AS INTEGER)
