-- SELECT id, {} AS v FROM invoices ORDER BY id
DATE_FORMAT(issued, '%x-W%v')
DATE_FORMAT(issued, '%Y-%m-01')
CAST(DATE_FORMAT(issued, '%Y-%m-01') AS DATE)
issued + INTERVAL 1 QUARTER
issued - INTERVAL 1 DAY + INTERVAL 1 HOUR
DATE_ADD(issued, INTERVAL id - 100 DAY)
DATEDIFF(COALESCE(paid, CURDATE()), due) > 0
TIMESTAMPDIFF(WEEK, issued, due)
PERIOD_DIFF(EXTRACT(YEAR_MONTH FROM due), EXTRACT(YEAR_MONTH FROM issued))
STR_TO_DATE(CONCAT(YEAR(issued), '-01-01'), '%Y-%m-%d')
MAKEDATE(YEAR(issued), 1)
MAKEDATE(YEAR(issued), 1) + INTERVAL QUARTER(issued) QUARTER - INTERVAL 1 DAY
LAST_DAY(issued - INTERVAL 1 MONTH) + INTERVAL 1 DAY
YEARWEEK(issued)
WEEKDAY(issued) IN (5, 6)
DAYOFMONTH(issued) = DAY(LAST_DAY(issued))
UNIX_TIMESTAMP(due) - UNIX_TIMESTAMP(issued)
TO_SECONDS(issued) DIV 86400 = TO_DAYS(issued)
issued > '2024-02-01' AND issued <= '2024-03-01'
amount * 1.19
ROUND(amount / 7, 3)
TRUNCATE(amount / 7, 1)
amount DIV 7
amount MOD 7
amount % 7
-amount
FORMAT(amount, 1)
CONCAT('EUR ', amount)
CONCAT(client, ' #', LPAD(id, 5, '0'))
LEFT(client, 2)
RIGHT(client, 2)
SUBSTRING(client, -3)
SUBSTRING(client FROM 2 FOR 2)
SUBSTRING_INDEX(CONCAT(client, '-', currency), '-', 1)
REPLACE(client, 'e', '3')
REGEXP_REPLACE(client, '[aeiou]', '')
REGEXP_SUBSTR(client, '[a-z]+')
client REGEXP '^[A-C]'
client NOT LIKE '%o%'
LOCATE('c', client) > 0
FIND_IN_SET(currency, 'EUR,USD')
FIELD(currency, 'EUR', 'USD', 'GBP')
ELT(FIELD(currency, 'EUR', 'USD'), 'euro', 'dollar')
UPPER(client)
REVERSE(client)
CHAR_LENGTH(client) + LENGTH(currency)
MD5(CONCAT(client, id))
HEX(id)
CONV(id, 10, 2)
BIT_COUNT(id)
id & 7
id << 1
IF(paid IS NULL, 'open', IF(paid > due, 'late', 'ok'))
IFNULL(paid, 'never')
NULLIF(amount, 0)
COALESCE(paid, due, issued)
CASE WHEN amount < 50 THEN 'low' WHEN amount < 100 THEN 'mid' ELSE 'high' END
GREATEST(issued, due, COALESCE(paid, issued))
LEAST(amount, 100)
paid <=> due
paid IS NULL XOR amount > 100
NOT (amount > 100)
amount BETWEEN 50 AND 100
client IN ('Acme', 'Bolt')
(client, currency) = ('Acme', 'EUR')
CAST(amount AS SIGNED)
CAST(id AS CHAR)
CONVERT(amount, DECIMAL(10, 1))
JSON_OBJECT('id', id, 'amount', amount)
JSON_ARRAY(client, currency)
JSON_EXTRACT(JSON_OBJECT('a', id), '$.a')
SUM(amount) OVER (PARTITION BY YEAR(issued))
SUM(amount) OVER (PARTITION BY client ORDER BY issued ROWS UNBOUNDED PRECEDING)
ROW_NUMBER() OVER (PARTITION BY client ORDER BY amount DESC)
LEAD(issued) OVER (PARTITION BY client ORDER BY issued)
DATEDIFF(issued, LAG(issued) OVER (PARTITION BY client ORDER BY issued))
amount / SUM(amount) OVER (PARTITION BY currency) * 100
DENSE_RANK() OVER (ORDER BY currency)
CUME_DIST() OVER (ORDER BY amount)
NTH_VALUE(id, 2) OVER (PARTITION BY client ORDER BY id)
MAX(amount) OVER () - amount
MEDIAN(amount) OVER (PARTITION BY currency)
(SELECT GROUP_CONCAT(item ORDER BY n) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
(SELECT SUM(qty * price) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
(SELECT item FROM invoice_lines l WHERE l.invoice_id = invoices.id ORDER BY price DESC LIMIT 1)
EXISTS (SELECT 1 FROM invoice_lines l WHERE l.invoice_id = invoices.id)
-- SELECT id FROM visits WHERE {} ORDER BY id
JSON_VALUE(detail, '$.ms') = '120'
CAST(JSON_VALUE(detail, '$.ms') AS SIGNED) BETWEEN 50 AND 100
JSON_UNQUOTE(JSON_EXTRACT(detail, '$.ua.os')) IN ('linux', 'mac')
JSON_LENGTH(detail, '$.tags') > 1
JSON_SEARCH(detail, 'one', 'mac') IS NOT NULL
JSON_TYPE(JSON_EXTRACT(detail, '$.tags')) = 'ARRAY'
JSON_OVERLAPS(JSON_EXTRACT(detail, '$.tags'), '["c"]')
DATE(ts) = '2024-03-01'
HOUR(ts) BETWEEN 8 AND 9
TIME(ts) > '09:30:00'
DAYNAME(ts) = 'Friday'
ts BETWEEN '2024-03-01 09:00' AND '2024-03-01 12:00'
YEARWEEK(ts, 1) = YEARWEEK('2024-03-01', 1)
page LIKE '/p%'
page LIKE '/price?x=_'
page REGEXP '^/(home|buy)$'
page NOT REGEXP 'price'
SUBSTRING_INDEX(page, '?', -1) <> page
visitor IN ('ann', 'bob') AND NOT page = '/home'
visitor LIKE BINARY 'a%'
LENGTH(page) > 4 && visitor <> 'ann'
