"""Conditions of a policy, in the Common Expression Language."""
