-- 1: What was billed, by state of return and of the line?
SELECT returned, status, SUM(qty) AS sum_qty, SUM(price) AS sum_base, SUM(price * (1 - discount)) AS sum_net, SUM(price * (1 - discount) * (1 + tax)) AS sum_charge, AVG(qty) AS avg_qty, AVG(price) AS avg_price, AVG(discount) AS avg_discount, COUNT(*) AS n
FROM order_lines WHERE shipped <= {plus:{date:2002-10-01}|60} GROUP BY returned, status ORDER BY returned, status;
-- 2: Which supplier of a region offers each part of a size at the lowest cost?
SELECT s.balance, s.name, n.name AS nation, p.id, p.maker, s.note FROM parts p, suppliers s, offers o, nations n, regions r
WHERE p.id = o.part_id AND s.id = o.supplier_id AND p.size BETWEEN 5 AND 30 AND p.kind LIKE '%BRASS' AND s.nation_id = n.id AND n.region_id = r.id AND r.name = 'NORTH'
  AND o.cost = (SELECT MIN(o2.cost) FROM offers o2, suppliers s2, nations n2, regions r2 WHERE o2.part_id = p.id AND s2.id = o2.supplier_id AND s2.nation_id = n2.id AND n2.region_id = r2.id AND r2.name = 'NORTH')
ORDER BY s.balance DESC, nation, s.name, p.id LIMIT 100;
-- 3: Which orders that are not shipped have the largest value?
SELECT l.order_id, SUM(l.price * (1 - l.discount)) AS revenue, o.placed, o.priority FROM clients c, orders o, order_lines l
WHERE c.segment = 'BUILDING' AND c.id = o.client_id AND l.order_id = o.id AND o.placed < {date:2001-09-15} AND l.shipped > {date:2001-03-15}
GROUP BY l.order_id, o.placed, o.priority ORDER BY revenue DESC, o.placed LIMIT 10;
-- 4: How many orders of a quarter had a late line, by priority?
SELECT priority, COUNT(*) AS late FROM orders o WHERE placed >= {date:2001-01-01} AND placed < {plus:{date:2001-01-01}|365}
  AND EXISTS (SELECT * FROM order_lines l WHERE l.order_id = o.id AND l.committed < l.received) GROUP BY priority ORDER BY priority;
-- 5: What do suppliers of a region sell to clients of their own nation?
SELECT n.name, SUM(l.price * (1 - l.discount)) AS revenue FROM clients c, orders o, order_lines l, suppliers s, nations n, regions r
WHERE c.id = o.client_id AND l.order_id = o.id AND l.supplier_id = s.id AND c.nation_id = s.nation_id AND s.nation_id = n.id AND n.region_id = r.id AND r.name = 'NORTH' AND o.placed >= {date:2001-01-01}
GROUP BY n.name ORDER BY revenue DESC;
-- 6: What would have been earned without small discounts?
SELECT SUM(price * discount) AS revenue FROM order_lines WHERE shipped >= {date:2001-01-01} AND shipped < {plus:{date:2001-01-01}|365} AND discount BETWEEN 0.06 - 0.01 AND 0.06 + 0.01 AND qty < 24;
-- 7: What is shipped between two nations, by year?
SELECT seller, buyer, y, SUM(volume) AS revenue FROM (SELECT a.name AS seller, b.name AS buyer, {year:l.shipped} AS y, l.price * (1 - l.discount) AS volume FROM suppliers s, order_lines l, orders o, clients c, nations a, nations b
  WHERE s.id = l.supplier_id AND o.id = l.order_id AND c.id = o.client_id AND s.nation_id = a.id AND c.nation_id = b.id AND ((a.name = 'Aland' AND b.name = 'Borduria') OR (a.name = 'Borduria' AND b.name = 'Aland')) AND l.shipped BETWEEN {date:2001-01-01} AND {date:2002-12-31}) AS shipping
GROUP BY seller, buyer, y ORDER BY seller, buyer, y;
-- 8: Which share of a market has a nation, by year?
SELECT y, SUM(CASE WHEN nation = 'Aland' THEN volume ELSE 0 END) / SUM(volume) AS share FROM (SELECT {year:o.placed} AS y, l.price * (1 - l.discount) AS volume, n2.name AS nation FROM parts p, suppliers s, order_lines l, orders o, clients c, nations n1, nations n2, regions r
  WHERE p.id = l.part_id AND s.id = l.supplier_id AND l.order_id = o.id AND o.client_id = c.id AND c.nation_id = n1.id AND n1.region_id = r.id AND r.name = 'NORTH' AND s.nation_id = n2.id AND o.placed BETWEEN {date:2001-01-01} AND {date:2002-12-31} AND p.kind LIKE '%BRASS') AS all_nations
GROUP BY y ORDER BY y;
-- 9: What is earned with a line of parts, by nation and year?
SELECT nation, y, SUM(amount) AS profit FROM (SELECT n.name AS nation, {year:o.placed} AS y, l.price * (1 - l.discount) - f.cost * l.qty AS amount FROM parts p, suppliers s, order_lines l, offers f, orders o, nations n
  WHERE s.id = l.supplier_id AND f.supplier_id = l.supplier_id AND f.part_id = l.part_id AND p.id = l.part_id AND o.id = l.order_id AND s.nation_id = n.id AND p.name LIKE '%green%') AS profit
GROUP BY nation, y ORDER BY nation, y DESC;
-- 10: Which clients send back the most?
SELECT c.id, c.name, SUM(l.price * (1 - l.discount)) AS revenue, c.balance, n.name AS nation, c.phone FROM clients c, orders o, order_lines l, nations n
WHERE c.id = o.client_id AND l.order_id = o.id AND o.placed >= {date:2001-01-01} AND l.returned = 'R' AND c.nation_id = n.id GROUP BY c.id, c.name, c.balance, c.phone, n.name ORDER BY revenue DESC, c.id LIMIT 20;
-- 11: Which parts are an important share of a nation's stock?
SELECT f.part_id, SUM(f.cost * f.available) AS v FROM offers f, suppliers s, nations n WHERE f.supplier_id = s.id AND s.nation_id = n.id AND n.name = 'Aland'
GROUP BY f.part_id HAVING SUM(f.cost * f.available) > (SELECT SUM(f.cost * f.available) * 0.01 FROM offers f, suppliers s, nations n WHERE f.supplier_id = s.id AND s.nation_id = n.id AND n.name = 'Aland') ORDER BY v DESC, f.part_id;
-- 12: Do cheap modes of shipping make urgent orders late?
SELECT l.mode, SUM(CASE WHEN o.priority = '1-URGENT' OR o.priority = '2-HIGH' THEN 1 ELSE 0 END) AS high, SUM(CASE WHEN o.priority <> '1-URGENT' AND o.priority <> '2-HIGH' THEN 1 ELSE 0 END) AS low FROM orders o, order_lines l
WHERE o.id = l.order_id AND l.mode IN ('MAIL', 'SHIP') AND l.committed < l.received AND l.shipped < l.committed AND l.received >= {date:2001-01-01} GROUP BY l.mode ORDER BY l.mode;
-- 13: How many clients have how many orders?
SELECT n, COUNT(*) AS dist FROM (SELECT c.id, COUNT(o.id) AS n FROM clients c LEFT OUTER JOIN orders o ON c.id = o.client_id AND o.note NOT LIKE '%special%requests%' GROUP BY c.id) AS counted GROUP BY n ORDER BY dist DESC, n DESC;
-- 14: Which share of revenue comes from promoted parts?
SELECT 100.00 * SUM(CASE WHEN p.kind LIKE 'PROMO%' THEN l.price * (1 - l.discount) ELSE 0 END) / SUM(l.price * (1 - l.discount)) AS promo FROM order_lines l, parts p WHERE l.part_id = p.id AND l.shipped >= {date:2001-03-01} AND l.shipped < {plus:{date:2001-03-01}|90};
-- 15: Which supplier brings the most?
WITH revenue (supplier_id, total) AS (SELECT supplier_id, SUM(price * (1 - discount)) FROM order_lines WHERE shipped >= {date:2001-01-01} AND shipped < {plus:{date:2001-01-01}|90} GROUP BY supplier_id)
SELECT s.id, s.name, total FROM suppliers s, revenue WHERE s.id = supplier_id AND total = (SELECT MAX(total) FROM revenue) ORDER BY s.id;
-- 16: How many suppliers without complaints offer parts of some kinds?
SELECT p.brand, p.kind, p.size, COUNT(DISTINCT f.supplier_id) AS suppliers FROM offers f, parts p WHERE p.id = f.part_id AND p.brand <> 'Brand#3' AND p.kind NOT LIKE 'PROMO%' AND p.size IN (3, 9, 14, 19, 23, 36, 45, 49, 7, 12, 1, 2)
  AND f.supplier_id NOT IN (SELECT id FROM suppliers WHERE note LIKE '%complaints%') GROUP BY p.brand, p.kind, p.size ORDER BY suppliers DESC, p.brand, p.kind, p.size;
-- 17: What is lost a year without small orders of a part?
SELECT SUM(l.price) / 7.0 AS yearly FROM order_lines l, parts p WHERE p.id = l.part_id AND p.brand = 'Brand#2' AND l.qty < (SELECT 0.9 * AVG(k.qty) FROM order_lines k WHERE k.part_id = p.id);
-- 18: Which clients place large orders?
SELECT c.name, c.id, o.id AS order_id, o.placed, o.total, SUM(l.qty) AS qty FROM clients c, orders o, order_lines l
WHERE o.id IN (SELECT order_id FROM order_lines GROUP BY order_id HAVING SUM(qty) > 120) AND c.id = o.client_id AND o.id = l.order_id GROUP BY c.name, c.id, o.id, o.placed, o.total ORDER BY o.total DESC, o.placed, o.id LIMIT 100;
-- 19: What do parts of three kinds bring that are sent by air and by hand?
SELECT SUM(l.price * (1 - l.discount)) AS revenue FROM order_lines l, parts p
WHERE (p.id = l.part_id AND p.brand = 'Brand#1' AND p.container IN ('SM CASE', 'SM BOX') AND l.qty BETWEEN 1 AND 11 AND p.size BETWEEN 1 AND 45 AND l.mode IN ('AIR', 'MAIL'))
   OR (p.id = l.part_id AND p.brand = 'Brand#2' AND p.container IN ('MED BAG', 'MED BOX') AND l.qty BETWEEN 10 AND 20 AND p.size BETWEEN 1 AND 50 AND l.mode IN ('AIR', 'MAIL'))
   OR (p.id = l.part_id AND p.brand = 'Brand#3' AND l.qty BETWEEN 20 AND 30 AND l.mode IN ('AIR', 'SHIP'));
-- 20: Which suppliers have more of some parts than they need?
SELECT s.name, s.note FROM suppliers s, nations n WHERE s.id IN (SELECT f.supplier_id FROM offers f WHERE f.part_id IN (SELECT id FROM parts WHERE name LIKE 'g%')
  AND f.available > (SELECT 0.5 * SUM(l.qty) FROM order_lines l WHERE l.part_id = f.part_id AND l.supplier_id = f.supplier_id)) AND s.nation_id = n.id AND n.region_id = 1 ORDER BY s.name;
-- 21: Which suppliers alone kept orders waiting?
SELECT s.name, COUNT(*) AS waits FROM suppliers s, order_lines l1, orders o, nations n WHERE s.id = l1.supplier_id AND o.id = l1.order_id AND o.status = 'F' AND l1.received > l1.committed
  AND EXISTS (SELECT * FROM order_lines l2 WHERE l2.order_id = l1.order_id AND l2.supplier_id <> l1.supplier_id) AND NOT EXISTS (SELECT * FROM order_lines l3 WHERE l3.order_id = l1.order_id AND l3.supplier_id <> l1.supplier_id AND l3.received > l3.committed)
  AND s.nation_id = n.id GROUP BY s.name ORDER BY waits DESC, s.name LIMIT 100;
-- 22: Where are clients with money who have not ordered?
SELECT code, COUNT(*) AS n, SUM(balance) AS total FROM (SELECT SUBSTR(phone, 1, 2) AS code, balance FROM clients WHERE SUBSTR(phone, 1, 2) IN ('11', '12', '13', '14', '15')
  AND balance > (SELECT AVG(balance) FROM clients WHERE balance > 0.00 AND SUBSTR(phone, 1, 2) IN ('11', '12', '13', '14', '15')) AND NOT EXISTS (SELECT * FROM orders WHERE orders.client_id = clients.id AND orders.placed > {date:2002-06-01})) AS rich GROUP BY code ORDER BY code
