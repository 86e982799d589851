"""Secret references, resolved just before a request is sent."""
