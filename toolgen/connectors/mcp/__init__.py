"""MCP connector: bridged servers over HTTP and over the pipes of a command."""
