"""The index of a log: what reviewers search; filled from the log, rebuilt from it, and never the truth."""
