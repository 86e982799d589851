"""HTTP client of tool calls, shared by the connectors over HTTP: requests, credentials and checked connections."""
