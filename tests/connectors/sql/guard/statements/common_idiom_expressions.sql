-- SELECT id, {} AS v FROM invoices ORDER BY id
min(amount) OVER (PARTITION BY client)
count(*) OVER (PARTITION BY currency ORDER BY issued)
sum(amount) OVER (ORDER BY issued, id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)
lead(client, 2) OVER (ORDER BY id)
lag(issued) OVER (PARTITION BY client ORDER BY issued)
first_value(amount) OVER (PARTITION BY client ORDER BY amount DESC, id)
amount - avg(amount) OVER (PARTITION BY client)
CASE WHEN amount = max(amount) OVER (PARTITION BY client) THEN 'best' END
coalesce(paid, due)
nullif(currency, 'EUR')
round(amount * 1.19, 2)
sqrt(amount) + exp(0) + ln(2)
length(client) * 2 - 1
lower(replace(client, 'Acme', 'ACME Inc'))
substr(client, 2, 2)
rtrim(ltrim(client))
CASE WHEN client IN ('Acme', 'Bolt') AND amount > 80 THEN 1 ELSE 0 END
(SELECT count(*) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
(SELECT sum(qty * price) FROM invoice_lines WHERE invoice_id = invoices.id) - amount
EXISTS (SELECT 1 FROM invoice_lines l WHERE l.invoice_id = invoices.id AND l.qty > 5)
abs(amount - (SELECT avg(amount) FROM invoices))
-- SELECT id FROM invoices WHERE {} ORDER BY id
NOT (client = 'Acme' OR client = 'Bolt')
issued >= '2024-02-01' AND issued < '2024-03-01'
(client = 'Acme') = (currency = 'EUR')
amount * 2 > 100 + 50 AND amount / 2 < 400
client BETWEEN 'A' AND 'C'
id NOT IN (101, 103, 105)
(SELECT count(*) FROM invoice_lines l WHERE l.invoice_id = id) > 1
client LIKE '_o%'
client NOT LIKE 'A%' AND client NOT LIKE '%a'
lower(client) LIKE 'b%' OR upper(currency) = 'GBP'
coalesce(paid, '2099-01-01') > due
length(client) = 4 AND substr(client, 1, 1) = 'B'
EXISTS (SELECT 1 FROM visits WHERE visitor = lower(substr(client, 1, 3)))
paid IS NOT NULL AND paid < issued
