"""Foundations without knowledge of tools: errors, JSON, time, files."""
