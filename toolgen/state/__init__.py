"""State that outlives a call and may be shared by processes: token buckets, concurrency limits, histories, approvals, pauses."""
