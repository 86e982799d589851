"""The gateway and its front ends."""
