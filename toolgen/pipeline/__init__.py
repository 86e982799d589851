"""The one road every call takes: stages in a fixed order, an executor at the end."""
