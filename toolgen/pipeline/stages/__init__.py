"""Stages of a call, with a module for each."""
