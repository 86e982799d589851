"""Pipeline of every call: stages in a fixed order, and an executor at the end."""
