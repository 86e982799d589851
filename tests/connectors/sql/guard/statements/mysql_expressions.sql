-- SELECT {} FROM invoices ORDER BY id
ABS(amount - 100)
CEIL(amount), CEILING(amount)
FLOOR(amount), ROUND(amount), ROUND(amount, 1), TRUNCATE(amount, 1)
MOD(id, 7), id MOD 7, id % 7, id DIV 7
POW(id, 2), SQRT(id), EXP(1), LN(id), LOG(id), LOG2(id), LOG10(id)
SIN(id), COS(id), TAN(id), COT(id), ASIN(0.5), ACOS(0.5), ATAN(id), ATAN2(id, 2), DEGREES(1), RADIANS(180)
SIGN(amount - 80), GREATEST(amount, 80), LEAST(amount, 80)
CRC32(client), CONV(id, 10, 16), HEX(id), BIN(id), OCT(id)
UPPER(client), LOWER(client), UCASE(client), LCASE(client)
LENGTH(client), CHAR_LENGTH(client), CHARACTER_LENGTH(client), OCTET_LENGTH(client), BIT_LENGTH(client)
CONCAT(client, '/', currency), CONCAT('EUR ', amount), CONCAT_WS(', ', client, currency)
CONCAT(client, ' since ', DATE_FORMAT(issued, '%Y'))
LEFT(client, 1), RIGHT(client, 1), SUBSTRING(client, 2), SUBSTR(client, 2, 1), MID(client, 1, 2), SUBSTRING(client FROM 2), SUBSTRING(client, -2)
LPAD(id, 8, '0'), RPAD(client, 8, '-'), REPEAT('*', 3), SPACE(2), REVERSE(client), REPLACE(client, 'o', '0')
TRIM(client), LTRIM(client), RTRIM(client), TRIM(BOTH 'A' FROM client), TRIM(TRAILING 'e' FROM client)
LOCATE('o', client), LOCATE('o', client, 2), INSTR(client, 'o'), POSITION('o' IN client), FIELD(client, 'Acme', 'Bolt'), FIND_IN_SET(currency, 'EUR,USD'), ELT(2, 'a', client)
ASCII(client), ORD(client), CHAR(65), CHR(66), SOUNDEX(client), QUOTE(client), STRCMP(client, 'B')
FORMAT(amount, 2), FORMAT(amount * 1000, 0), INSERT(client, 1, 1, 'X'), SUBSTRING_INDEX(client, 'o', 1)
MD5(client), SHA(client), SHA1(client), SHA2(client, 256), TO_BASE64(client), UNHEX(HEX(client))
YEAR(issued), MONTH(issued), DAY(issued), DAYOFMONTH(issued), QUARTER(issued), WEEK(issued, 1), DAYNAME(issued), MONTHNAME(issued)
DATE(issued), LAST_DAY(issued), TO_DAYS(issued), TO_SECONDS(issued), UNIX_TIMESTAMP(issued), DAYOFYEAR(issued)
DATE_FORMAT(issued, '%Y-%m'), DATE_FORMAT(issued, '%M %d, %Y'), DATE_FORMAT(issued, '%Y-W%v'), DATE_FORMAT(issued, '%x-%v')
DATE_ADD(issued, INTERVAL 1 MONTH), DATE_SUB(issued, INTERVAL 1 WEEK), issued + INTERVAL 1 QUARTER, ADDDATE(issued, 10), SUBDATE(issued, INTERVAL 1 YEAR)
DATE_ADD(issued, INTERVAL DATEDIFF(due, issued) DAY), DATE_ADD(issued, INTERVAL (id - 100) WEEK)
DATEDIFF(due, issued), DATEDIFF(COALESCE(paid, due), issued), TIMESTAMPDIFF(WEEK, issued, due), TIMESTAMPDIFF(YEAR, issued, '2024-12-31')
TIMESTAMPADD(DAY, 3, issued), TIMESTAMPADD(MONTH, -1, issued), MAKEDATE(YEAR(issued), 1), STR_TO_DATE(DATE_FORMAT(issued, '%Y-%m-01'), '%Y-%m-%d')
DATE_FORMAT(issued, '%Y-%m-01') + INTERVAL 1 MONTH, LAST_DAY(issued) + INTERVAL 1 DAY, DATE_SUB(LAST_DAY(issued), INTERVAL DAY(LAST_DAY(issued)) - 1 DAY)
IF(paid IS NULL, 'open', 'paid'), IFNULL(paid, due), NULLIF(client, 'Acme'), COALESCE(paid, due, issued), ISNULL(paid)
IF(amount > 100, 'high', IF(amount > 50, 'mid', 'low')) AS level
CASE WHEN paid IS NULL THEN 'open' WHEN paid <= due THEN 'in time' ELSE 'late' END AS state
CASE currency WHEN 'EUR' THEN amount WHEN 'USD' THEN amount * 0.9 ELSE NULL END AS eur
amount > 100, amount BETWEEN 50 AND 100, client LIKE 'A%', client IN ('Acme'), paid IS NULL, NOT amount > 100
CAST(amount AS SIGNED), CAST(amount AS CHAR), CAST(id AS DECIMAL(10, 2)), CONVERT(amount, UNSIGNED), CAST(issued AS DATETIME), CAST(id AS DOUBLE), CAST(client AS CHAR(2))
JSON_OBJECT('id', id, 'tags', JSON_ARRAY(client, currency)), JSON_ARRAY(id, NULL, TRUE), JSON_QUOTE(client)
ROW_NUMBER() OVER (ORDER BY amount DESC, id) AS pos, RANK() OVER (PARTITION BY YEAR(issued) ORDER BY amount) AS r
SUM(amount) OVER (PARTITION BY DATE_FORMAT(issued, '%Y-%m') ORDER BY id) AS running
LAG(amount) OVER (ORDER BY id) AS prev, IFNULL(LEAD(amount) OVER (ORDER BY id), 0) AS following
AVG(amount) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS moving
id & 7, id | 8, id ^ 3, id << 1, id >> 1, ~id & 255, -id, !paid
(SELECT COUNT(*) FROM invoice_lines l WHERE l.invoice_id = invoices.id) AS n, EXISTS (SELECT 1 FROM places) AS e
client REGEXP '^A', client RLIKE 'o.', client NOT REGEXP 'z', REGEXP_REPLACE(client, '[aeiou]', '*'), REGEXP_SUBSTR(client, '[a-z]+'), REGEXP_INSTR(client, 'o')
PERIOD_DIFF(DATE_FORMAT(due, '%Y%m'), DATE_FORMAT(issued, '%Y%m')) AS months
NATURAL_SORT_KEY(client), SFORMAT('{} {}', client, id), ADD_MONTHS(issued, 1), NVL(paid, due)
INET_ATON('1.2.3.4'), INET_NTOA(id), INET6_NTOA(INET6_ATON('::1')), IS_IPV4('1.2.3.4'), IS_IPV6('::1')
-- SELECT id FROM invoices WHERE {} ORDER BY id
amount > 50 AND currency = 'EUR' AND client <> 'Dune'
issued BETWEEN '2024-01-01' AND '2024-02-29'
issued >= '2024-01-01' AND issued < DATE_ADD('2024-01-01', INTERVAL 3 MONTH)
issued >= DATE_FORMAT('2024-03-15', '%Y-%m-01')
issued > '2024-03-31' - INTERVAL 60 DAY
issued <= DATE '1998-12-01' - INTERVAL '90' DAY
issued < LAST_DAY('2024-02-01')
YEAR(issued) = 2024
YEAR(issued) = 2024 AND QUARTER(issued) = 1
MONTH(issued) IN (1, 2)
DAYOFWEEK(issued) IN (1, 7)
DATEDIFF(due, issued) > 30
TIMESTAMPDIFF(DAY, issued, paid) < 30
DATE_FORMAT(issued, '%Y-%m') = '2024-03'
EXTRACT(YEAR_MONTH FROM issued) = 202403
paid IS NULL OR paid > due
paid <=> due
IFNULL(paid, '9999-12-31') > due
client LIKE 'a%'
client LIKE '%c%' AND client NOT LIKE '%z'
client LIKE CONCAT('%', 'olt')
client REGEXP 'o|u'
client REGEXP '^[[:alpha:]]+$'
NOT client REGEXP '^A'
LOWER(client) IN ('acme', 'bolt')
LEFT(client, 1) = 'A'
CHAR_LENGTH(client) > 3
client = "Acme"
client != 'Acme' && amount > 10
FIND_IN_SET(client, 'Acme,Cora') > 0
FIELD(client, 'Bolt', 'Dune')
(client, amount) IN (SELECT client, MAX(amount) FROM invoices GROUP BY client)
amount = (SELECT MAX(amount) FROM invoices)
amount >= ALL (SELECT amount FROM invoices)
amount = ANY (SELECT price * qty FROM invoice_lines)
id = SOME (SELECT invoice_id FROM invoice_lines)
amount MOD 10 = 0
amount DIV 10 = 8
id & 1
amount IS TRUE
NOT (amount > 50)
amount IN (80, 60.00)
CAST(amount AS SIGNED) = 80
client COLLATE utf8mb4_general_ci = 'ACME'
EXISTS (SELECT * FROM invoice_lines WHERE invoice_lines.invoice_id = invoices.id AND qty > 5)
id BETWEEN 101 AND 104 OR id > 107
COALESCE(paid, due) >= '2024-03-01' AND COALESCE(paid, due) <= '2024-03-31'
-- SELECT {} FROM invoices
COUNT(*), COUNT(DISTINCT client), COUNT(DISTINCT client, currency)
SUM(amount), AVG(amount), MIN(amount), MAX(amount)
SUM(IF(currency = 'EUR', amount, 0)) AS eur, SUM(currency = 'EUR') AS n
ROUND(SUM(paid IS NOT NULL) / COUNT(*) * 100, 1) AS pct
STDDEV(amount), STDDEV_SAMP(amount), VARIANCE(amount), VAR_SAMP(amount)
GROUP_CONCAT(client ORDER BY id), GROUP_CONCAT(DISTINCT currency ORDER BY currency DESC SEPARATOR ' ')
GROUP_CONCAT(CONCAT(id, '=', amount) ORDER BY amount DESC SEPARATOR '; ')
GROUP_CONCAT(IF(paid IS NULL, client, NULL) ORDER BY id)
JSON_ARRAYAGG(client ORDER BY id), JSON_ARRAYAGG(JSON_OBJECT('id', id) ORDER BY id)
BIT_AND(id), BIT_OR(id), BIT_XOR(id)
MAX(issued), MIN(issued), DATEDIFF(MAX(issued), MIN(issued)) AS days
COUNT(DISTINCT DATE_FORMAT(issued, '%Y-%m')) AS months
MAX(IF(client = 'Acme', amount, NULL)) AS acme
SUM(amount) / NULLIF(COUNT(paid), 0)
AVG(DATEDIFF(COALESCE(paid, due), issued))
-- SELECT {} AS v, COUNT(*) AS n FROM invoices GROUP BY {} ORDER BY v
-- SELECT {} AS v, SUM(amount) AS n FROM invoices GROUP BY v HAVING n > 0 ORDER BY v
-- SELECT DISTINCT {} AS v FROM invoices ORDER BY v
YEAR(issued)
MONTH(issued)
QUARTER(issued)
DATE_FORMAT(issued, '%Y-%m')
LEFT(client, 1)
client LIKE 'A%'
IF(paid IS NULL, 'open', 'paid')
CASE WHEN amount > 100 THEN 'big' ELSE 'small' END
FLOOR(amount / 100)
DAYNAME(issued)
YEARWEEK(issued, 3)
LAST_DAY(issued)
amount > 100
-- SELECT {} FROM visits ORDER BY id
DATE(ts), TIME(ts), HOUR(ts), MINUTE(ts), SECOND(ts), MICROSECOND(ts)
DATE_FORMAT(ts, '%H:%i'), DATE_FORMAT(ts, '%Y-%m-%d %H:00:00'), DATE_FORMAT(ts, '%W, %e %b %Y %r')
TIMESTAMPDIFF(MINUTE, ts, '2024-03-10 00:00:00'), TIMEDIFF(ts, '2024-03-01 00:00:00'), UNIX_TIMESTAMP(ts)
ts + INTERVAL 1 DAY, ts - INTERVAL 90 MINUTE, DATE_ADD(ts, INTERVAL '1 12' DAY_HOUR), DATE_ADD(ts, INTERVAL '1:30:00' HOUR_SECOND)
FROM_UNIXTIME(FLOOR(UNIX_TIMESTAMP(ts) / 3600) * 3600), SEC_TO_TIME(3661), TIME_TO_SEC(TIME(ts)), ADDTIME(ts, '01:00:00'), CONVERT_TZ(ts, '+00:00', '+05:30')
JSON_EXTRACT(detail, '$.ms'), JSON_VALUE(detail, '$.ms') + 0, JSON_UNQUOTE(JSON_EXTRACT(detail, '$.ua.os')), JSON_EXTRACT(detail, '$.tags[0]'), JSON_EXTRACT(detail, '$.ua', '$.ms')
JSON_CONTAINS(detail, '"b"', '$.tags'), JSON_LENGTH(detail), JSON_KEYS(detail, '$.ua'), JSON_TYPE(detail), JSON_VALID(detail), JSON_OVERLAPS(JSON_EXTRACT(detail, '$.tags'), '["a", "x"]')
SUBSTRING_INDEX(page, '?', 1), SUBSTRING_INDEX(SUBSTRING_INDEX(page, '/', 2), '/', -1), REPLACE(page, '/', ''), CHAR_LENGTH(page) - CHAR_LENGTH(REPLACE(page, '/', ''))
TIMESTAMPDIFF(SECOND, LAG(ts) OVER (PARTITION BY visitor ORDER BY ts), ts) AS pause, FIRST_VALUE(page) OVER (PARTITION BY visitor ORDER BY ts) AS entry
IF(page REGEXP '^/(buy|price)', 'shop', 'other') AS area, REGEXP_SUBSTR(page, '[a-z]+') AS word

-- SELECT {} AS x FROM invoices ORDER BY id
date_format(issued, '%Y-%m')
date_format(issued, '%W %M %e')
year(issued)
month(issued)
quarter(issued)
week(issued, 1)
dayname(issued)
dayofweek(issued)
dayofyear(issued)
last_day(issued)
datediff(due, issued)
timestampdiff(day, issued, due)
timestampdiff(month, issued, due)
issued + interval 1 month
issued - interval 7 day
date_add(issued, interval 1 quarter)
date_sub(due, interval 2 week)
adddate(issued, 30)
interval 1 day + issued
extract(year from issued)
extract(year_month from issued)
to_days(issued)
unix_timestamp(issued)
from_unixtime(0) is not null
str_to_date('01,5,2024', '%d,%m,%Y')
makedate(2024, 60)
sec_to_time(3661)
time_to_sec('01:00:00')
addtime('10:00:00', '01:30:00')
maketime(1, 2, 3)
curdate() >= issued
now() > issued
current_date >= issued
ifnull(paid, 'open')
if(amount > 100, 'hi', 'lo')
isnull(paid)
concat(client, ' (', currency, ')')
concat_ws('-', client, paid, currency)
left(client, 2)
right(client, 2)
mid(client, 2, 2)
substring(client, 2)
substring(client from 2 for 2)
substring_index('a.b.c', '.', 2)
locate('o', client)
instr(client, 'o')
position('o' in client)
lpad(id, 6, '0')
rpad(client, 8, '.')
repeat('*', 3)
reverse(client)
ucase(client)
lcase(client)
char_length(client)
insert(client, 1, 2, 'xx')
trim(leading 'A' from client)
trim(both 'A' from client)
field(currency, 'USD', 'EUR')
elt(2, 'a', 'b', 'c')
find_in_set('b', 'a,b,c')
format(amount, 2)
hex(client)
unhex('41')
md5(client)
sha2(client, 256)
crc32(client)
ascii(client)
char(65 using utf8mb4)
soundex(client)
strcmp(client, 'Bolt')
client regexp '^A'
client not regexp '^A'
client rlike 'o'
client like 'a%'
client like binary 'A%'
binary client = 'acme'
client = 'acme' collate utf8mb4_bin
client sounds like 'Akme'
amount div 7
amount mod 7
id | 8
id ^ 5
id << 1
~id & 255
!(amount > 100)
amount > 100 xor currency = 'EUR'
amount > 100 && currency = 'EUR'
currency = 'USD' || currency = 'GBP'
paid <=> null
not paid <=> due
amount between 10 and 100
truncate(amount, 1)
ceiling(amount)
pow(2, 3)
log2(8)
log10(amount + 1)
ln(amount + 1)
exp(1)
pi()
rand(1) >= 0
greatest(amount, 100)
least(id, 105)
conv('ff', 16, 10)
bin(id)
cast(amount as signed)
cast(amount as char)
cast(amount as decimal(12, 4))
cast('2024-05-01' as date)
cast(issued as datetime)
convert(amount, char)
convert(client using utf8mb4)
json_object('id', id, 'client', client)
json_array(id, client)
json_extract('{"a": [1, 2]}', '$.a[1]')
json_unquote(json_extract('{"a": "x"}', '$.a'))
json_value('{"a": "x"}', '$.a')
json_contains('[1, 2]', '1')
json_length('[1, 2]')
json_keys('{"a": 1, "b": 2}')
json_type('{"a": 1}')
json_valid(client)
json_set('{"a": 1}', '$.b', id)
json_remove('{"a": 1, "b": 2}', '$.a')
json_merge_patch('{"a": 1}', '{"b": 2}')
json_search('{"a": "x"}', 'one', 'x')
json_quote(client)
sum(amount) over (partition by client order by issued)
lag(amount) over (order by id)
lead(amount, 2) over (order by id)
first_value(client) over (order by amount desc)
ntile(3) over (order by id)
row_number() over (partition by currency order by amount desc, id)
sum(amount) over (order by id rows between 1 preceding and 1 following)
avg(amount) over (order by id range between unbounded preceding and current row)
median(amount) over (partition by client)
percent_rank() over (order by amount)
case when amount > 100 then 'a' else 'b' end
case currency when 'EUR' then 1 else 2 end
(select count(*) from invoice_lines l where l.invoice_id = invoices.id)
exists (select 1 from invoice_lines l where l.invoice_id = invoices.id)
(id, client) = (101, 'Acme')
(id, client) in (select id, client from invoices where amount > 100)
inet_aton('10.0.0.1')
uuid() is not null
0x41
x'41'
b'101'
'a' 'b'
"text"
N'x'
_utf8mb4'x'
time('10:00:00')
timestamp(issued, '10:00:00')
microsecond('10:00:00.5')
weekday(issued)
period_diff(202405, 202401)
date(issued)
date '2024-05-01' > issued
timestamp '2024-05-01 10:00:00' > issued
regexp_replace(client, '[aeiou]', '*')
regexp_substr(client, '[a-z]+')
regexp_instr(client, 'o')
nvl(paid, due)
nvl2(paid, 1, 0)
to_char(issued, 'YYYY-MM')
add_months(issued, 1)

-- SELECT {} AS x FROM invoices
count(*)
count(distinct client)
count(distinct client, currency)
group_concat(client order by id)
group_concat(distinct client order by client desc separator '; ')
sum(amount > 100)
sum(if(currency = 'EUR', amount, 0))
avg(amount)
std(amount)
stddev_samp(amount)
var_pop(amount)
bit_or(id)
max(issued)
json_arrayagg(client)
json_objectagg(id, amount)
sum(amount) / nullif(count(*), 0)
round(sum(amount) * 100.0 / count(*), 2)

-- SELECT id, {} AS x FROM invoices ORDER BY id
-- SELECT COUNT(*), COUNT(x) FROM (SELECT {} AS x FROM invoices WHERE id > 101) q
CAST(amount AS DECIMAL(12, 4))
CAST(amount * 100 AS SIGNED)
amount / 3
ROUND(amount / 3, 2)
TRUNCATE(amount, 1)
amount DIV 7
amount MOD 7
POW(amount, 2)
SQRT(amount)
LN(amount + 1)
LOG10(amount + 1)
SIGN(amount - 80)
CASE WHEN amount > 100 THEN 'hi' ELSE 'lo' END
IF(amount > 100, 'hi', 'lo')
IFNULL(paid, due)
COALESCE(DATE_FORMAT(paid, '%Y-%m-%d'), 'unpaid')
GREATEST(issued, due)
YEAR(issued) * 100 + MONTH(issued)
WEEK(issued, 1)
DAYOFWEEK(issued)
WEEKDAY(issued) IN (5, 6)
QUARTER(issued)
LAST_DAY(issued)
DATE_ADD(issued, INTERVAL 1 MONTH)
issued + INTERVAL id % 5 DAY
issued - INTERVAL 1 WEEK
DATE_SUB(issued, INTERVAL 1 QUARTER)
ADDDATE(issued, 10)
DATEDIFF(due, issued)
TIMESTAMPDIFF(DAY, issued, due)
TIMESTAMPDIFF(WEEK, issued, due)
TIMESTAMPADD(HOUR, 5, issued)
DATE_FORMAT(issued, '%W %d %M %Y')
DATE_FORMAT(issued, '%x-W%v')
STR_TO_DATE(DATE_FORMAT(issued, '%Y%m01'), '%Y%m%d')
DAYNAME(issued)
MONTHNAME(issued)
TO_DAYS(issued)
UNIX_TIMESTAMP(issued) > 0
FROM_DAYS(TO_DAYS(issued) + 1)
MAKEDATE(2024, 1 + id % 300)
EXTRACT(YEAR FROM issued)
EXTRACT(DAY FROM due)
CONCAT(UPPER(client), '-', LPAD(id, 6, '0'))
CONCAT_WS(' / ', client, currency, NULL)
LEFT(client, 2)
RIGHT(client, 1)
SUBSTRING(client, 2)
SUBSTR(client, -2, 1)
MID(client, 1, 2)
SUBSTRING_INDEX(client, 'c', 1)
REGEXP_REPLACE(client, '[aeiou]', '*')
REGEXP_SUBSTR(client, '[A-Z]')
client REGEXP '^A'
client RLIKE 'e$'
client NOT LIKE 'A%'
client LIKE '%c%'
LOCATE('e', client)
INSTR(client, 'e')
REPLACE(client, 'A', 'a')
REVERSE(client)
REPEAT('*', CHAR_LENGTH(client))
RPAD(client, 8, '.')
TRIM(TRAILING 'e' FROM client)
MD5(client)
SHA1(client)
SHA2(CONCAT(client, id), 256)
CRC32(client)
HEX(client)
TO_BASE64(client)
ASCII(client)
ORD(client)
CHAR(65 + id % 26)
FIELD(currency, 'EUR', 'USD')
FIND_IN_SET(currency, 'USD,EUR')
ELT(1 + id % 3, 'a', 'b', 'c')
STRCMP(client, 'Bolt')
SOUNDEX(client)
FORMAT(amount, 2)
FORMAT(amount, 0)
INSERT(client, 1, 1, '#')
client IN ('Acme', 'Bolt')
client BETWEEN 'B' AND 'D'
client = 'ACME'
BINARY client = 'ACME'
client COLLATE utf8mb4_bin = 'ACME'
paid IS NULL
paid <=> due
NOT paid > due
(paid > due) IS TRUE
ISNULL(paid)
NULLIF(amount, 80)
(id, currency) IN ((101, 'EUR'), (103, 'USD'))
(id, currency) = (101, 'EUR')
JSON_OBJECT('id', id, 'client', client)
JSON_ARRAY(id, client)
JSON_EXTRACT('{"a": {"b": 5}}', '$.a.b') + id
JSON_VALUE('{"a": "x"}', '$.a')
JSON_UNQUOTE(JSON_EXTRACT('{"a": "x"}', '$.a'))
JSON_LENGTH('[1, 2]')
JSON_CONTAINS('[101, 102]', id)
JSON_SET('{"a": 1}', '$.a', id)
JSON_KEYS('{"a": 1}')
JSON_TYPE('[1]')
ROW_NUMBER() OVER (ORDER BY amount DESC, id)
RANK() OVER (PARTITION BY currency ORDER BY amount)
SUM(amount) OVER (PARTITION BY client ORDER BY issued ROWS UNBOUNDED PRECEDING)
amount / SUM(amount) OVER ()
LAG(amount, 1) OVER (ORDER BY id)
LEAD(issued) OVER (PARTITION BY client ORDER BY issued)
FIRST_VALUE(client) OVER (PARTITION BY currency ORDER BY amount DESC, id)
NTILE(3) OVER (ORDER BY amount, id)
CUME_DIST() OVER (ORDER BY amount)
MEDIAN(amount) OVER (PARTITION BY client)
(SELECT COUNT(*) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
(SELECT GROUP_CONCAT(item ORDER BY n SEPARATOR ', ') FROM invoice_lines l WHERE l.invoice_id = invoices.id)
(SELECT GROUP_CONCAT(item ORDER BY n LIMIT 1) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
EXISTS (SELECT 1 FROM invoice_lines l WHERE l.invoice_id = invoices.id AND l.qty > 5)
amount > (SELECT AVG(amount) FROM invoices)
id & 7
id | 1
id ^ 3
id << 2
BIT_COUNT(id)
-id + +id
BIN(id)
CONV(id, 10, 36)
OCT(id)
ABS(amount - 100)
CEIL(amount)
FLOOR(amount)
DEGREES(1)
CAST(amount AS CHAR)
CAST(issued AS DATETIME)
CONVERT(amount, SIGNED)
CONVERT(client USING utf8mb4)
'it''s '
"double quoted"
'a' 'b'
0x41
X'4D'
b'101' + 0
1e2 + amount
.5 * amount
DATE '2024-01-31' + INTERVAL 1 MONTH
TIMESTAMP '2024-01-01 10:00:00'
TIME('10:00:00')
INTERVAL(amount, 50, 100, 500)
CURDATE() > issued
NOW() > issued
DATEDIFF(NOW(), issued) > 0
TIME_FORMAT('10:05:00', '%H:%i')
SEC_TO_TIME(id)
TIME_TO_SEC('00:01:00') + id
PERIOD_ADD(202401, id % 12)
MAKETIME(id % 24, 0, 0)
INET_NTOA(id)
IS_IPV4('1.2.3.4')
UUID() IS NOT NULL
RAND() < 1
NATURAL_SORT_KEY(client) IS NOT NULL
SFORMAT('{}-{}', client, id)
TO_CHAR(issued, 'YYYY-MM-DD')
NVL(paid, due)
NVL2(paid, 1, 0)
client || currency
client OR 0
!(amount > 50)
amount > 50 AND currency = 'EUR'
amount > 50 && currency = 'EUR'
amount > 50 XOR currency = 'EUR'
MAKE_SET(id % 8, 'a', 'b', 'c')
COLLATION(client)
PI()
LCASE(client)
OCTET_LENGTH(client)
UNHEX('41')
QUOTE(client)
SPACE(3)
