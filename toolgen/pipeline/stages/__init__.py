"""The stages of a call, one module a stage."""
