-- The sample shop's database: what the tools of the source `shop` read. Rows are added by database.py.
CREATE TABLE customers (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  city TEXT NOT NULL,
  country TEXT NOT NULL,
  email TEXT NOT NULL UNIQUE,
  card_number TEXT NOT NULL,
  tenant TEXT NOT NULL,
  created_on TEXT NOT NULL
);
CREATE TABLE products (
  id INTEGER PRIMARY KEY,
  sku TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  category TEXT NOT NULL,
  price REAL NOT NULL,
  stock INTEGER NOT NULL
);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY,
  customer_id INTEGER NOT NULL REFERENCES customers (id),
  status TEXT NOT NULL CHECK (status IN ('new', 'paid', 'shipped', 'returned')),
  placed_on TEXT NOT NULL,
  total REAL NOT NULL
);
CREATE TABLE order_items (
  order_id INTEGER NOT NULL REFERENCES orders (id),
  line INTEGER NOT NULL,
  product_id INTEGER NOT NULL REFERENCES products (id),
  quantity INTEGER NOT NULL,
  unit_price REAL NOT NULL,
  PRIMARY KEY (order_id, line)
);
-- Nobody may see this table: no policy names it.
CREATE TABLE salaries (
  id INTEGER PRIMARY KEY,
  employee TEXT NOT NULL,
  amount INTEGER NOT NULL
);
CREATE VIEW sales_by_category AS
  SELECT p.category, count(DISTINCT i.order_id) AS orders, sum(i.quantity) AS pieces, round(sum(i.quantity * i.unit_price), 2) AS revenue
  FROM order_items AS i JOIN products AS p ON p.id = i.product_id
  GROUP BY p.category;
CREATE INDEX orders_by_customer ON orders (customer_id);
