"""Workflows: tools made of calls to other tools."""
