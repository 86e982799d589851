"""The Model Context Protocol, over HTTP and over standard input and output."""
