"""Makes what works together out of what a project says: parts that no layer below may know of one another."""
