"""The processes that serve: HTTP, sockets, workers and their supervisor."""
