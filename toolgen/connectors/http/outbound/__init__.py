"""Requests of the gateway itself: to token endpoints, key sets, Vault and checkpoint sinks."""
