"""`toolgen doctor`: tries what must be refused, and says where a database's account could do more than the policy."""
