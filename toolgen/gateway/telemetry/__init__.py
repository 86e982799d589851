"""Traces, metrics and log lines over OTLP/HTTP, without an agent."""
