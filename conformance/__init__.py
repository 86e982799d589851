"""The official MCP conformance suites, against a gateway that serves a catalog of Python functions: `make conformance`."""
