"""`toolgen doctor`: attempts that must be refused, and rights of database accounts beyond the policy."""
