"""policies/*.yaml, read into one policy."""
