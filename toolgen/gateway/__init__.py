"""Gateway without its front ends: policy in force, catalog, calls, approvals and operations."""
