"""What outlives a call and may be shared by processes: token buckets and ceilings."""
