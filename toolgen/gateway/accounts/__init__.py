"""Accounts of people at upstream systems: links, tokens, refresh and revocation."""
