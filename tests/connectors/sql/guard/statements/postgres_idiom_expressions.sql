-- SELECT id, {} AS v FROM invoices ORDER BY id
(issued - date '2024-01-01') / 7
to_char(issued, 'YYYY"-Q"Q')
to_char(issued, 'DD/MM/YYYY')
to_char(due - issued, '999')
extract(epoch FROM due)::bigint
date_trunc('week', issued)::date
date_part('isodow', issued) >= 6
(issued + interval '1 month')::date - issued
issued + 30 > due
age(paid, issued)
extract(days FROM age(due, issued))
make_date(extract(year FROM issued)::int, extract(month FROM issued)::int, 1)
(date_trunc('quarter', issued) + interval '3 months' - interval '1 day')::date
to_timestamp(extract(epoch FROM issued)) = issued
isfinite(issued)
'infinity'::date > due
amount::money
amount::float8 / 7
amount::numeric(12, 4)
round(amount / 7, 3)
trunc(amount)::int
ceil(amount)::text
amount % 7
amount ^ 2
@ (amount - 100)
amount::text || ' ' || currency
lpad(id::text, 6, '0')
rpad(client, 6, '.')
to_char(id, '000000')
concat(client, ' (', currency, ')')
concat_ws('-', currency, client, id)
format('%-8s|%6s', client, amount)
format('%1$s/%2$s/%1$s', client, id)
strpos(client, 'l')
position('c' IN client)
substring(client FROM 2 FOR 2)
substring(client, '[aeiou]')
split_part(client || '-x', '-', 2)
regexp_replace(client, '(.)(.)', '\2\1')
regexp_match(client, '[a-z]+')
(regexp_match(client, '([A-Z])([a-z]+)'))[2]
client ~ '^[AB]'
client SIMILAR TO '(Acme|Bolt)'
client ILIKE 'a%' OR client ILIKE '%A'
reverse(client) || upper(currency)
ascii(left(client, 1))
md5(client || id)
encode(client::bytea, 'hex')
length(client::bytea)
starts_with(client, 'Ac')
trim(trailing 'e' FROM client)
btrim(client, 'Ae')
ltrim(client, 'A')
quote_nullable(paid::text)
nullif(currency, 'EUR') IS DISTINCT FROM currency
paid IS NOT DISTINCT FROM due
greatest(issued, paid, due)
least(amount, 100.0)
num_nulls(paid, due)
coalesce(paid::text, 'unpaid')
CASE WHEN paid > due THEN paid - due ELSE 0 END
(amount > 100)::int
(client = 'Acme')::int + (currency = 'EUR')::int
id::bit(8)
to_hex(id)
id & 7 | 8
id << 2
ARRAY[id, id * 2]
ARRAY[client, currency]::text[]
array_length(string_to_array(client, 'o'), 1)
id = ANY ('{101,103}'::int[])
id = ANY (ARRAY(SELECT invoice_id FROM invoice_lines WHERE qty > 5))
json_build_array(id, client, paid)
jsonb_build_object('id', id, 'when', issued)
to_jsonb(amount)
row_to_json(row(id, client))
to_json(ARRAY[id, 1])
daterange(issued, due) @> date '2024-02-10'
daterange(issued, due) * daterange('2024-02-01', '2024-03-01')
upper(daterange(issued, due)) - lower(daterange(issued, due))
int4range(id, id + 5) @> 103
numrange(0, amount) && numrange(50, 60)
sum(amount) OVER (PARTITION BY date_trunc('month', issued))
sum(amount) OVER (PARTITION BY client ORDER BY issued GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
percent_rank() OVER (PARTITION BY currency ORDER BY amount)
lag(amount, 1, 0.0) OVER (PARTITION BY client ORDER BY issued)
amount / sum(amount) OVER (PARTITION BY currency)
avg(amount) FILTER (WHERE currency = 'EUR') OVER (ORDER BY id)
row_number() OVER (PARTITION BY client ORDER BY issued DESC NULLS LAST)
bool_and(paid IS NOT NULL) OVER (PARTITION BY client)
ntile(3) OVER (ORDER BY amount DESC, id)
(SELECT max(price) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
(SELECT string_agg(item, ',' ORDER BY n) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
(SELECT count(*) FILTER (WHERE qty > 1) FROM invoice_lines l WHERE l.invoice_id = invoices.id)
-- SELECT id FROM visits WHERE {} ORDER BY id
detail ->> 'ms' = '120'
(detail ->> 'ms')::int BETWEEN 50 AND 100
detail -> 'ua' ->> 'os' = 'linux'
detail #>> '{tags,0}' = 'a'
detail @> '{"ua": {"os": "mac"}}'
jsonb_array_length(CASE jsonb_typeof(detail -> 'tags') WHEN 'array' THEN detail -> 'tags' ELSE '[]' END) > 1
jsonb_typeof(detail -> 'ms') = 'null'
detail -> 'tags' @> '"a"'
detail ->> 'total' IS NOT NULL AND (detail ->> 'total')::numeric > 50
jsonb_path_match(detail, 'exists($.total)')
jsonb_path_query_first(detail, '$.ms') = '50'
EXISTS (SELECT 1 FROM jsonb_array_elements_text(CASE WHEN jsonb_typeof(detail -> 'tags') = 'array' THEN detail -> 'tags' ELSE '[]' END) t WHERE t = 'b')
ts::date = date '2024-03-01'
ts::time BETWEEN '08:00' AND '10:00'
ts >= '2024-03-01' AND ts < timestamp '2024-03-02'
extract(hour FROM ts) IN (8, 9)
date_trunc('day', ts) = '2024-03-01'
ts BETWEEN timestamp '2024-03-01' AND timestamp '2024-03-01' + interval '12 hours'
to_char(ts, 'HH24:MI') > '09:59'
extract(isodow FROM ts) < 6
page LIKE '/p%' ESCAPE '\'
page ~ '^/(home|buy)$'
page !~* 'PRICE'
split_part(page, '?', 2) <> ''
visitor IN ('ann', 'bob') AND NOT page = '/home'
visitor ~~ 'a%' AND length(page) > 4
