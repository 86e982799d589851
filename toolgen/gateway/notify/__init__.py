"""Messages to webhooks: that a call waits for a person, for how long still, and what came of it."""
