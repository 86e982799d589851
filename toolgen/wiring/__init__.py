"""The composition root: puts executors, checkpoint sinks and identity providers together from the configuration."""
