"""Server processes: HTTP, sockets, workers and their supervisor."""
