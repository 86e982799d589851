"""OpenAPI and Swagger descriptions into tools."""

from toolgen.sources.openapi.read import read_openapi

__all__ = ["read_openapi"]
