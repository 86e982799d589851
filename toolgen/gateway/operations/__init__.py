"""Calls that outlive their request: waiting, running without their caller, on a device."""
