"""Policies of a gateway: the one in force and what is compiled from it, reloading, acceptance, history and replay."""
