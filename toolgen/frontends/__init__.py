"""Front ends: the console, the server and its processes, and adapters for agent frameworks."""
