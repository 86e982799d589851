"""HTTP client of tool calls, shared by the connectors that speak HTTP: requests, credentials and checked connections."""
