"""Calls that outlive their request: waiting, running without their caller, or executed by a device."""
