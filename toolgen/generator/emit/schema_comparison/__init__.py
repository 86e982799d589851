"""Comparison of two JSON Schemas: changes in words, and the sides that they break."""
