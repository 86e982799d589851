-- The shop's named queries: each becomes a tool of its own, `shop__` and its name.

-- name: orders_of_customer
-- title: Orders of a customer
-- description: Lists the orders of one customer, newest first, with how many pieces each has. Use it to answer "what did I buy?";
--   find the customer's id with shop__query.
-- parameter: customer_id integer minimum(1)  The customer's id.
-- parameter: status string = null enum('new', 'paid', 'shipped', 'returned')  Only orders of this status; all of them without it.
SELECT o.id AS order_id, o.status, o.placed_on, o.total, sum(i.quantity) AS pieces
FROM orders AS o JOIN order_items AS i ON i.order_id = o.id
WHERE o.customer_id = :customer_id AND (:status IS NULL OR o.status = :status)
GROUP BY o.id, o.status, o.placed_on, o.total
ORDER BY o.placed_on DESC, o.id DESC;

-- name: bestsellers
-- description: Lists the products of a category that sold most pieces since a day. Use it for recommendations.
-- parameter: category string max_length(40)  A category as in products.category.
-- parameter: since date = '2000-01-01'  The first day that counts.
-- parameter: limit integer = 10 minimum(1) maximum(50)  How many products to list.
SELECT p.sku, p.name AS product, sum(i.quantity) AS pieces
FROM order_items AS i JOIN products AS p ON p.id = i.product_id JOIN orders AS o ON o.id = i.order_id
WHERE p.category = :category AND o.placed_on >= :since AND o.status <> 'returned'
GROUP BY p.sku, p.name
ORDER BY pieces DESC, p.sku
LIMIT :limit;
