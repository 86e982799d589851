"""Front ends: MCP, REST, the console, the Python API, the HTTP server and its processes, and adapters for agent frameworks."""
