"""Messages to webhooks: a call waits for a person, still waits, or was decided."""
