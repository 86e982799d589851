"""Console of a gateway: web pages on which people read its state, and approve or deny calls."""
