"""What outlives a call: so far, token buckets."""
