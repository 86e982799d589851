CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL, card_number TEXT NOT NULL);
INSERT INTO customers (name, city, card_number) VALUES
  ('Ada Byron', 'Lisbon', '4000 0000 0000 0002'), ('Bo Lindgren', 'Oslo', '4000 0000 0000 0010'),
  ('Cyd Moreau', 'Lyon', '4000 0000 0000 0028'), ('Dov Katz', 'Lisbon', '4000 0000 0000 0036');
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers (id), total REAL NOT NULL);
INSERT INTO orders (customer_id, total) VALUES (1, 59.7), (1, 9.0), (2, 17.8), (3, 129.0), (4, 3.2);
