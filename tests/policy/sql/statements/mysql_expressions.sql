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
