-- SELECT id FROM invoices WHERE {} ORDER BY id
amount * 2 > 100
amount + 10 < 100 AND client <> 'Bolt'
amount / 2 >= 30.25
amount - 20 = 60
(amount = 80 OR amount = 60) AND paid IS NULL
NOT (client = 'Acme' AND currency = 'EUR')
client IN ('Acme')
client NOT IN ('Acme', 'Bolt', 'Nobody')
id IN (SELECT invoice_id FROM invoice_lines WHERE qty BETWEEN 2 AND 6)
EXISTS (SELECT 1 FROM invoice_lines l WHERE l.invoice_id = invoices.id AND l.item LIKE 'p%')
amount > (SELECT AVG(amount) FROM invoices j WHERE j.client = invoices.client)
amount BETWEEN (SELECT MIN(amount) FROM invoices) AND 100
client LIKE 'A%' OR client LIKE '%t'
client LIKE '%o%' AND NOT client LIKE 'B%'
UPPER(client) = 'ACME'
LENGTH(client) = 4
CASE WHEN currency = 'EUR' THEN amount ELSE amount * 2 END > 100
COALESCE(paid, due) > '2024-03-01'
COALESCE(paid, due) BETWEEN '2024-02-01' AND '2024-03-31'
paid IS NOT NULL AND paid > due
(paid IS NULL OR paid <= due) AND amount > 50
currency <> 'EUR' AND currency <> 'USD'
(currency = 'EUR') = (client = 'Acme')
id % 2 = 0
id BETWEEN 102 AND 106 AND id <> 104
1 = 1 AND amount >= 0
amount IS NOT NULL
NULLIF(currency, 'EUR') IS NULL
(SELECT COUNT(*) FROM invoice_lines l WHERE l.invoice_id = invoices.id) >= 2
issued = (SELECT MAX(issued) FROM invoices)
issued > '2024-01-01' AND issued <= '2024-03-05' AND paid IS NULL
client = 'Acme' AND (currency = 'EUR' OR (amount > 100 AND paid IS NOT NULL))
-- SELECT {} FROM invoices ORDER BY id
CASE WHEN amount > 100 THEN 'large' WHEN amount > 60 THEN 'middle' ELSE 'small' END AS size
CASE WHEN paid IS NULL THEN NULL WHEN paid > due THEN 1 ELSE 0 END AS late
CASE client WHEN 'Acme' THEN 'A' WHEN 'Bolt' THEN 'B' ELSE '?' END AS letter
COALESCE(NULLIF(client, 'Acme'), currency, 'none') AS who
amount * 1.0 / NULLIF(id - 104, 0) AS ratio
ROUND(amount * 0.21, 2) AS vat
ROUND(amount * 1.21, 2) - amount AS added
ABS(amount - 100) AS distance
FLOOR(amount / 10) AS tens
UPPER(SUBSTR(client, 1, 1)) AS initial
REPLACE(REPLACE(client, 'A', 'a'), 'B', 'b') AS low
TRIM(LOWER(client)) AS clean
LENGTH(client) + LENGTH(currency) AS letters
amount > 100 AS is_large, paid IS NULL AS is_open
(SELECT COUNT(*) FROM invoice_lines l WHERE l.invoice_id = invoices.id) AS n
(SELECT SUM(l.qty * l.price) FROM invoice_lines l WHERE l.invoice_id = invoices.id) AS total
amount - (SELECT AVG(amount) FROM invoices) AS off
amount * 100.0 / (SELECT SUM(amount) FROM invoices) AS pct
-- SELECT {} FROM invoices
COUNT(*), COUNT(paid), COUNT(DISTINCT currency)
SUM(amount) / COUNT(*) AS mean
MAX(amount) - MIN(amount)
SUM(CASE WHEN paid IS NULL THEN amount ELSE 0 END) AS open
SUM(CASE WHEN currency = 'EUR' THEN 1 ELSE 0 END) * 100.0 / COUNT(*) AS pct
AVG(amount), ROUND(AVG(amount), 1)
COUNT(*) + 1, SUM(id) % 7
MIN(client), MAX(client), MIN(issued), MAX(due)
COALESCE(SUM(amount), 0)
SUM(amount * 2), SUM(amount) * 2
COUNT(DISTINCT client) * 1.0 / COUNT(*)
-- SELECT client, {} AS v FROM invoices GROUP BY client ORDER BY client
-- SELECT currency, {} AS v FROM invoices WHERE amount > 0 GROUP BY currency HAVING COUNT(*) > 0 ORDER BY currency
SUM(amount)
COUNT(*)
MAX(amount) - MIN(amount)
ROUND(AVG(amount), 2)
COUNT(DISTINCT issued)
SUM(CASE WHEN paid IS NULL THEN 1 ELSE 0 END)
MAX(CASE WHEN paid IS NULL THEN amount END)
MIN(COALESCE(paid, due))
-- SELECT id, {} AS v FROM invoices ORDER BY id
ROW_NUMBER() OVER (PARTITION BY client ORDER BY issued, id)
RANK() OVER (PARTITION BY currency ORDER BY amount)
DENSE_RANK() OVER (ORDER BY client)
SUM(amount) OVER (PARTITION BY currency)
SUM(amount) OVER (PARTITION BY currency ORDER BY id)
SUM(amount) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING)
SUM(amount) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
AVG(amount) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
MAX(amount) OVER (PARTITION BY client ORDER BY id ROWS UNBOUNDED PRECEDING)
COUNT(paid) OVER (PARTITION BY client)
LAG(client) OVER (ORDER BY id)
LEAD(amount, 2) OVER (ORDER BY id)
LAG(amount) OVER (PARTITION BY client ORDER BY issued)
FIRST_VALUE(id) OVER (PARTITION BY currency ORDER BY amount DESC, id)
LAST_VALUE(id) OVER (PARTITION BY currency ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)
NTILE(2) OVER (ORDER BY amount, id)
amount - AVG(amount) OVER (PARTITION BY client)
CASE WHEN amount = MAX(amount) OVER (PARTITION BY client) THEN 'top' ELSE '' END
COALESCE(amount - LAG(amount) OVER (ORDER BY id), 0)
-- SELECT client, id FROM invoices ORDER BY {}
client, id
client DESC, id ASC
amount DESC, id
2
1 DESC, 2 DESC
UPPER(client), id
CASE WHEN paid IS NULL THEN 0 ELSE 1 END, id
amount * -1, id
LENGTH(client) DESC, client, id
COALESCE(paid, due) DESC, id
(SELECT COUNT(*) FROM invoice_lines l WHERE l.invoice_id = invoices.id) DESC, id
-- SELECT i.client, s.n FROM invoices i {} ORDER BY i.id, s.n
JOIN (SELECT invoice_id, n FROM invoice_lines) s ON s.invoice_id = i.id
LEFT JOIN (SELECT invoice_id, n FROM invoice_lines WHERE qty > 1) s ON s.invoice_id = i.id
JOIN invoice_lines s ON s.invoice_id = i.id AND s.price > 10
INNER JOIN invoice_lines s ON i.id = s.invoice_id WHERE s.item <> 'rack'
LEFT JOIN invoice_lines s ON i.id = s.invoice_id AND i.currency = 'EUR' WHERE i.amount > 50
CROSS JOIN (SELECT COUNT(*) AS n FROM places) s
JOIN (SELECT 1 AS n UNION ALL SELECT 2) s ON s.n < 3 WHERE i.id < 103

-- SELECT {} AS x FROM invoices ORDER BY id
amount * 1.19
(amount + 1) / 2
-amount
abs(amount - 100)
round(amount, 1)
round(amount)
coalesce(paid, due)
nullif(currency, 'EUR')
CASE currency WHEN 'EUR' THEN 1 WHEN 'USD' THEN 2 ELSE 0 END
upper(client)
lower(client)
length(client)
replace(client, 'A', 'B')
substr(client, 2)
substr(client, 1, 2)
trim(client)
amount BETWEEN 10 AND 100
amount NOT BETWEEN 10 AND 100
client IN ('Acme', 'Bolt')
client LIKE 'A%'
client NOT LIKE '%e'
paid IS NULL
paid IS NOT NULL
NOT (amount > 100 OR currency = 'USD')
amount > 100 AND currency = 'EUR'
(SELECT COUNT(*) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
CASE WHEN amount >= 100 THEN 'hi' WHEN amount IS NULL THEN 'none' ELSE 'lo' END
coalesce(nullif(client, ''), 'n/a')
floor(amount)
ceil(amount)
CAST(amount AS CHAR(20))
amount % 7
id * 2 + 1
id / 2
(id - 100) * (id - 100)
CAST('2024-05-01' AS DATE)
currency || '-' || client
issued < due
due >= '2024-03-01'
issued = '2024-01-05'
max(amount) OVER (PARTITION BY client)
lead(id) OVER (ORDER BY id)
row_number() OVER (ORDER BY amount DESC, id)
sum(amount) OVER (ORDER BY id)
count(*) OVER ()
avg(amount) OVER (PARTITION BY currency)
id & 3
sqrt(amount)
sign(amount - 80)
1e3

-- SELECT {} AS x FROM invoices ORDER BY id
CASE WHEN paid IS NULL THEN 'open' WHEN paid > due THEN 'late' ELSE 'ok' END
(amount - avg(amount) OVER ()) / nullif(max(amount) OVER () - min(amount) OVER (), 0)
amount > (SELECT avg(x.amount) FROM invoices x WHERE x.currency = invoices.currency)
NOT client = 'Acme'
client = 'Acme' OR client = 'Bolt' AND amount > 100
(client = 'Acme') = (currency = 'EUR')
1 - 2 - 3
2 * 3 + 4 * 5 - 6 / 3
-(-5)
- amount * -1
10 % 3 * 2
((1 + 2) * (3 + 4))
'it''s ' || client
'%' || client || '%'
client || ''
amount = 120.5
amount <> 80 AND amount != 60
id IN (SELECT invoice_id FROM invoice_lines)
id NOT IN (101, 102)
EXISTS (SELECT * FROM invoice_lines WHERE invoice_id = id AND n = 2)
coalesce((SELECT max(l.qty) FROM invoice_lines l WHERE l.invoice_id = invoices.id), 0)
