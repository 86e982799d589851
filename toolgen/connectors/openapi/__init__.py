"""OpenAPI connector: descriptions of 2.0 to 3.2, overlays and the mock of a description."""
