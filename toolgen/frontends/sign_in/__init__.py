"""Endpoints and pages of the authorization server: /oauth and its metadata."""
