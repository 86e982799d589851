"""The one pipeline of every call: stages in a fixed order, an executor at the end."""
