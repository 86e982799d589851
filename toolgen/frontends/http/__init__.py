"""HTTP: connections, requests, authentication and the ASGI application."""
