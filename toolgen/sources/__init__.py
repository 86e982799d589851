"""A description in, `Tool`s and `Problem`s out."""
